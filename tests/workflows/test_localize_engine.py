"""An engine against its reference where its layers meet: what can be had without a GPU.

TensorRT does not run here: tests/gpu has it. The builder keeps the file it is given, in FP16 and
rounded as tensor cores round, and ONNX Runtime runs that as the engine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import trtbench
from planted_faults import WIDTH, network, overflowing, plain_weights
from trtbench.accuracy import localize as localize_engine
from trtbench.accuracy.graphs import write_marked
from trtbench.accuracy.localize import between, evenly, layer_boundaries
from trtbench.convert.cast import cast, stand_in
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError
from trtbench.core.results import Artefact
from trtbench.core.samples import EngineGraph, LayerInfo, TensorInfo
from trtbench.core.spec import BuildSpec
from trtbench.models.identity import model_ref, sha256_of
from trtbench.models.onnx_model import save_onnx
from trtbench.runtimes import RUNTIMES


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(RUNTIMES.load("onnxruntime"), "FORMATS", ("onnx", "engine"))


def build(spec: BuildSpec, **_: object) -> Artefact:
    """Keep the model in FP16, as one file that ONNX Runtime runs."""
    model = cast(onnx.load(spec.model.path), precision="fp16", keep_io=True).model
    save_onnx(stand_in(model), Path(spec.output))
    path = Path(spec.output)
    record = Artefact(
        path=str(path), filename=path.name, size_bytes=path.stat().st_size, sha256=sha256_of(path),
        created="", spec=spec,
    )  # fmt: skip
    path.with_name(f"{path.name}.json").write_bytes(json_from_value(record))
    return record


def outputs(path: Path, items: np.ndarray) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": items}), strict=True))


def test_marks_add_outputs_and_change_none(tmp_path: Path) -> None:
    source = network(tmp_path / "a.onnx", plain_weights(np.random.default_rng(0), 4))
    marked = write_marked(source, ["fc0.act", "fc2.act", "y"], tmp_path / "b.onnx")
    items = np.random.default_rng(1).normal(size=(4, WIDTH)).astype(np.float32)
    plain, more = outputs(source, items), outputs(marked, items)
    assert list(more) == ["y", "fc0.act", "fc2.act"]
    assert np.array_equal(plain["y"], more["y"])
    with pytest.raises(InputError, match="nowhere"):
        write_marked(source, ["nowhere"], tmp_path / "c.onnx")


def test_only_tensors_between_layers_are_marked_and_many_are_spread() -> None:
    layers = [
        LayerInfo(name="fc0 + fc0.relu", outputs=(TensorInfo(name="fc0.act", dtype="fp16"),)),
        LayerInfo(name="fc1", outputs=(TensorInfo(name="y"),)),
    ]
    graph = EngineGraph(layers=tuple(layers))
    assert layer_boundaries(graph, ["fc0.out", "fc0.act"]) == ["fc0.act"]
    names = [f"t{i}" for i in range(100)]
    assert len(evenly(names, 48)) <= 48
    assert evenly(names, 200) == names
    assert between(names, "t10", "t14") == ["t11", "t12", "t13"]
    assert between(names, None, "t2") == ["t0", "t1"]


@pytest.mark.parametrize("layers", [5, 60])
def test_the_layer_where_an_engine_overflows_is_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: int
) -> None:
    source = overflowing(tmp_path / "model.onnx", layer=1, seed=7, layers=layers)
    spec = BuildSpec(
        model=model_ref(source), output=str(tmp_path / "model.engine"), precision="fp16"
    )
    build(spec)
    monkeypatch.setattr(localize_engine, "run_build", build)
    found = trtbench.localize(
        source, "model.engine", distribution="normal", random=32, runtime="onnxruntime"
    ).found
    assert found.groups[0].node == "fc1"
    assert found.groups[0].first_nonfinite
    assert found.groups[0].ranges[0].largest > 65504
    assert not found.marks_changed_outputs
    assert found.candidate["nonfinite"] > 0


def test_an_engine_that_the_marks_change_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = network(tmp_path / "model.onnx", plain_weights(np.random.default_rng(0), 4))
    build(BuildSpec(model=model_ref(source), output=str(tmp_path / "model.engine")))

    def other(spec: BuildSpec, **_: object) -> None:
        save_onnx(onnx.load(spec.model.path), Path(spec.output))  # FP32: more exact than the engine

    monkeypatch.setattr(localize_engine, "run_build", other)
    found = trtbench.localize(
        source, "model.engine", distribution="normal", random=32, runtime="onnxruntime"
    ).found
    assert found.marks_changed_outputs
