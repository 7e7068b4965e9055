"""One preparation of images per task: for calibrating, building, sweeping, checking, judging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sweeps import matrix

from models import save_graph
from trtbench.analysis.onnx_stamp import PREPARATION, preparation_from_text
from trtbench.domain.conversion import CalibrationRef
from trtbench.errors import UsageError
from trtbench.models.identity import model_ref
from trtbench.models.sidecar import read_sidecar
from trtbench.store.store import Store
from trtbench.workflows.check.check import run_check
from trtbench.workflows.check.evaluate import Evaluation, run_evaluation, scores_of
from trtbench.workflows.make.build import build_spec, with_arrays
from trtbench.workflows.make.quantize import Data, quant_spec, run_quantize
from trtbench.workflows.measure.model_notes import preparation_of_model
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.judging import CheckRequest, EvalRequest
from trtbench.workflows.request.making import BuildRequest, QuantizeRequest
from trtbench.workflows.sweep.result import results_from_sweep
from trtbench.workflows.sweep.run import carry_out, start_sweep

SIZE = 16


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Light and lighter images: 0.8 and 2.1 once ImageNet's mean and deviation are taken off."""
    rng = np.random.default_rng(0)
    for index in range(40):
        folder = tmp_path / "val" / f"{index % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        level = 170 if index % 2 == 0 else 245
        pixels = np.clip(level + rng.normal(0, 8, (24, 24, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    return tmp_path / "val"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A mean above 1.3 is class 1; scales made for values up to 1 cut that off."""
    weight = np.array([[0.0, 1 / 3]] * 3, np.float32)
    bias = np.array([1.3, 0.0], np.float32)
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["same"]),
        helper.make_node("GlobalAveragePool", ["same"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["output"]),
    ]
    kernel = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 2])],
        initializer=[
            numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(kernel, "kernel"),
            numpy_helper.from_array(bias, "bias"),
        ],
    )  # fmt: skip
    return save_graph(graph, tmp_path / "net.onnx")


def quantized(network: Path, photos: Path, **settings: Any) -> Path:
    name = "-".join(map(str, settings.values())) or "default"
    request = QuantizeRequest(
        model=network, precision="int8", output=network.with_name(f"{name}.onnx"), method="minmax"
    )
    spec = quant_spec(request)
    run_quantize(spec, data=Data(calibration=str(photos), task="classification", settings=settings))
    return Path(spec.output)


def evaluate(path: Path, photos: Path, store: Store, config: Config, **settings: Any) -> Evaluation:
    request = EvalRequest(
        models=[path], task="classification", data=photos, settings=settings, threads=1, batch=8,
        output=path.parent / "out",
    )  # fmt: skip
    return run_evaluation(request, store=store, config=config)


def test_calibrating_and_judging_prepare_alike_and_say_so(
    network: Path, photos: Path, store: Store, config: Config
) -> None:
    made = quantized(network, photos)
    sidecar = read_sidecar(made)
    assert sidecar is not None
    assert isinstance(sidecar.calibration, CalibrationRef)
    found = evaluate(made, photos, store, config)
    assert found.preparation == sidecar.calibration.preprocessing
    assert found.preparation["normalize"] == "imagenet"
    assert found.models[0].score("top1").value == 1.0
    assert not found.findings
    assert scores_of(found, found.models[0]).preparation == found.preparation


def test_what_was_calibrated_otherwise_is_an_error(
    network: Path, photos: Path, store: Store, config: Config
) -> None:
    other = quantized(network, photos, normalize="none")
    found = evaluate(other, photos, store, config)
    [finding] = found.findings
    assert (finding.code, finding.severity) == ("H48", "error")
    assert finding.evidence == {"calibrated": "normalize none", "judged": "normalize imagenet"}
    assert any("H48" in note for note in found.all_notes)
    assert found.models[0].score("top1").value == 0.5, "the harm that is meant"
    request = CheckRequest(
        reference=network, candidates=[other], images=photos, task="classification", threads=1,
        batch=8, output=network.parent / "out",
    )  # fmt: skip
    checked = run_check(request, store=store, config=config)
    assert any("H48" in note for note in checked.candidates[0].notes)
    assert checked.preparation == found.preparation


def test_a_sweep_calibrates_as_it_judges(
    network: Path, photos: Path, store: Store, config: Config, tmp_path: Path
) -> None:
    def accuracy(name: str, **settings: Any) -> float:
        asked = matrix(
            network, precision=["int8"], batch=[8], data=str(photos), calibration=str(photos),
            task_settings=settings,
        )  # fmt: skip
        start_sweep(asked, tmp_path / name, store=store)
        found = carry_out(tmp_path / name, store=store, config=config, conduct=Conduct())
        [row] = results_from_sweep(found, store=store).rows
        assert "H48" not in (row.remark or "")
        return row.scores["top1"].value

    assert accuracy("imagenet") == 1.0, "with mean 0 and deviation 1 it would be a half"
    other = "0.485,0.456,0.406/0.2,0.2,0.2"
    assert accuracy("other", normalize=other) == 1.0, "another preparation, another step"


def test_a_build_calibrates_as_the_task_judges(
    network: Path, photos: Path, store: Store, config: Config, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="prepared by a task"):
        build_spec(BuildRequest(model=network, runtime="tensorrt", calibration=photos), config)
    shape = {"images": (8, 3, SIZE, SIZE)}
    request = BuildRequest(
        model=network, runtime="tensorrt", precision="int8", calibration=photos,
        task="classification", settings={"normalize": "imagenet"}, shapes_opt=shape,
        shapes_min=shape, shapes_max=shape,
    )  # fmt: skip
    spec = build_spec(request, config)
    ready = with_arrays(spec, tmp_path)
    assert ready.calibration_arrays is not None
    with np.load(ready.calibration_arrays) as arrays:
        assert arrays["images"].shape == (40, 3, SIZE, SIZE)
        assert arrays["images"].max() > 1.5, "divided by the deviation"
    assert dict(ready.prepared) == evaluate(network, photos, store, config).preparation


def test_the_preparation_travels_in_the_file_itself(network: Path, photos: Path) -> None:
    made = quantized(network, photos)
    stamps = {entry.key: entry.value for entry in onnx.load(made).metadata_props}
    told = preparation_from_text(stamps[f"trtbench.{PREPARATION}"])
    assert told["resize"] == round(SIZE * 256 / 224)
    assert preparation_of_model(model_ref(made)) == told
