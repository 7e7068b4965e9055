"""One preparation of images per task, for calibrating, building, sweeping, checking and judging.

What is on record of it is what was done to the images.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sweeps import matrix

from models import save_text
from trtbench.accuracy.check import run_check
from trtbench.accuracy.evaluate import attach_scores, run_evaluation
from trtbench.analysis.pass_times import Evaluation
from trtbench.convert.build import build_spec
from trtbench.convert.calibration import open_items
from trtbench.convert.conversions import run_quantize
from trtbench.core.errors import UsageError
from trtbench.core.run import Run
from trtbench.core.spec import ModelRef, TensorSpec
from trtbench.host.tensorrt import CacheKey, ScaleCache
from trtbench.measure.bench import run_bench
from trtbench.models.identity import model_ref
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.models import BuildRequest, CheckRequest, EvalRequest, QuantizeRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.directory import read_run
from trtbench.store.store import Store, stored_scores
from trtbench.sweep.records import start_sweep
from trtbench.sweep.result import results_from_sweep
from trtbench.sweep.run import run_sweep
from trtbench.tasks import TASKS
from trtbench.tasks.contract import DataSource, settings_with_defaults

SHORT: dict[str, Any] = {
    "duration": 0.02, "warmup": 0.005, "until_steady": False, "profile": False,
}  # fmt: skip
EVERY = {"task", "fit", "normalize", "colour", "interpolation"}


def made_photos(place: Path, levels: tuple[int, int], count: int) -> Path:
    rng = np.random.default_rng(0)
    for index in range(count):
        folder = place / f"{index % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        level = levels[index % 2]
        pixels = np.clip(level + rng.normal(0, 8, (24, 30, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    return place


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return made_photos(tmp_path / "val", (60, 190), 12)


@pytest.fixture
def light_photos(tmp_path: Path) -> Path:
    """Light and lighter images: 0.8 and 2.1 once ImageNet's mean and deviation are taken off."""
    return made_photos(tmp_path / "light", (170, 245), 40)


@pytest.fixture
def light_network(tmp_path: Path) -> Path:
    """A mean above 1.3 is class 1; scales made for values up to 1 cut that off."""
    return network(tmp_path / "net.onnx", weights=(0.0, 1 / 3), bias=(1.3, 0.0))


def network(
    path: Path,
    *,
    size: int | str = 16,
    dtype: str = "float",
    weights: tuple[float, float] = (-1.0, 1.0),
    bias: tuple[float, float] = (0.0, 0.0),
) -> Path:
    """Write a network that tells light images from dark ones; names leave its sides open."""
    sides = f"{size}, {size}" if isinstance(size, int) else "height, width"
    text = f"""made ({dtype}[batch, 3, {sides}] images) => (float[batch, 2] output) {{
        numbers = Cast<to = 1>(images)
        same = Conv(numbers, kernel)
        pooled = GlobalAveragePool(same)
        flat = Flatten(pooled)
        product = MatMul(flat, weight)
        output = Add(product, bias)
    }}"""
    kernel = np.eye(3).reshape(3, 3, 1, 1)
    return save_text(path, text, weight=[weights] * 3, bias=bias, kernel=kernel)


def quantized(path: Path, photos: Path, *, shapes: Any = None, **settings: Any) -> Path:
    target = path.with_name(f"{path.stem}-int8.onnx")
    run_quantize(
        QuantizeRequest(
            model=path, precision="int8", output=target, method="minmax", data=photos,
            task="classification", settings=settings, shapes=shapes or {},
        )
    )  # fmt: skip
    return target


def evaluated(
    *paths: Path, photos: Path, store: Store, config: Config, shapes: Any = None, **settings: Any
) -> Evaluation:
    request = EvalRequest(
        models=paths, task="classification", data=photos, settings=settings, threads=1,
        batch=4, shapes=shapes or {}, output=paths[0].parent / "out",
    )  # fmt: skip
    return run_evaluation(request, store=store, config=config)


@pytest.fixture
def evaluate(photos: Path, store: Store, config: Config) -> Callable[..., Evaluation]:
    return functools.partial(evaluated, photos=photos, store=store, config=config)


def opened(task: str, photos: Path, *, dtype: str = "float32", side: Any = 16, **told: Any) -> Any:
    module = TASKS.load(task)
    settings = settings_with_defaults(
        module.FLAGS, {**told, "data": str(photos), "unlabelled": True}
    )
    tensor = TensorSpec(name="images", dtype=dtype, shape=(4, 3, side, side))
    return module.open_source(settings, [tensor])


def first(source: DataSource) -> Any:
    return source.prepare(source.load(0))["images"]


@pytest.mark.parametrize("task", TASKS.names())
def test_every_task_calibrates_and_judges_alike_and_tells_all_of_it(task, photos):
    """One source prepares for both, and what it tells is complete."""
    tensor = TensorSpec(name="images", dtype="float32", shape=(4, 3, 16, 16))
    model = ModelRef(path="net.onnx", format="onnx")
    items, told = open_items(photos, [tensor], model=model, limit=40, task=task)
    judged = opened(task, photos)
    assert told == {"task": task, **judged.preparation}
    assert set(told) >= EVERY
    assert "16x16" in (told.get("size"), told.get("crop"))
    rows = items.rows["images"]
    assert any(np.array_equal(row, first(judged)) for row in rows)


@pytest.mark.parametrize("task", TASKS.names())
def test_a_size_that_a_network_does_not_take_is_refused(task: str, photos: Path) -> None:
    flag = "crop" if task == "classification" else "size"
    with pytest.raises(UsageError, match="takes images of 16x16"):
        opened(task, photos, **{flag: 24})
    assert first(opened(task, photos, side="open", **{flag: 24})).shape == (3, 24, 24)


def test_bytes_in_arrays_are_calibrated_with_as_they_are_judged(tmp_path, photos, store, config):
    levels = np.repeat([60, 190], 12).astype(np.uint8)
    arrays = np.broadcast_to(levels[:, None, None, None], (24, 3, 16, 16))
    data = tmp_path / "val.npz"
    np.savez(data, images=arrays, labels=levels > 100)
    path = network(tmp_path / "net.onnx")
    asked = matrix(path, batch=[4], precision=["int8"], data=str(data), calibration=str(data))
    start_sweep(asked, tmp_path / "sweep", store=store)
    found = run_sweep(tmp_path / "sweep", store=store, config=config, execution=Execution())
    [row] = results_from_sweep(found).rows
    assert row.reason is None, "bytes are no input of the network as they are"
    assert row.scores["top1"].count == 24
    for calibration in (None, "random"):
        asked_for = BuildRequest(
            model=path, runtime="tensorrt", data=calibration, task="classification"
        )
        with pytest.raises(UsageError, match="--task needs images to prepare"):
            build_spec(asked_for, config)


def bench(path: Path, store: Store, config: Config, **flags: Any) -> Run:
    spec = run_spec(BenchRequest(model=path, **{**SHORT, **flags}), config)
    return run_bench(spec, store=store, execution=Execution())


def test_scores_are_not_joined_to_runs_of_another_size(tmp_path, store, config, evaluate):
    path = network(tmp_path / "net.onnx", size="open")
    flags = {"runtime": "onnxruntime", "threads": 1}
    same = bench(path, store, config, shapes={"images": (1, 3, 20, 20)}, **flags)
    other = bench(path, store, config, shapes={"images": (1, 3, 32, 32)}, **flags)
    found = evaluate(path, crop=20)
    joined = attach_scores(found, store)
    assert joined.joined == {"net.onnx": (same.id,)}
    [note] = [each for each in joined.all_notes if "no scores added to the run" in each]
    assert "images of 20x20 were evaluated, but 1x3x32x32 was measured" in note
    assert "scores" not in read_run(store.resolve(other.id)).extra  # type: ignore[union-attr]
    assert stored_scores(same, store) is not None
    assert stored_scores(other, store) is None


def test_scores_are_not_joined_to_runs_in_another_precision(
    tmp_path: Path, trtexec: Any, store: Store, config: Config, evaluate
) -> None:
    """trtexec may build INT8 of the very file whose accuracy was taken in FP32."""
    path = network(tmp_path / "net.onnx")
    full, low = (
        bench(path, store, config, runtime="trtexec", precision=each, batch=1)
        for each in ("fp32", "int8")
    )
    joined = attach_scores(evaluate(path), store)
    assert joined.models[0].precision == "fp32"
    assert joined.joined == {"net.onnx": (full.id,)}
    assert any("fp32 was evaluated, but int8 was measured" in note for note in joined.all_notes)
    assert stored_scores(full, store) is not None
    assert stored_scores(low, store) is None


def test_scales_of_another_model_are_refused(tmp_path: Path, config: Config) -> None:
    path = network(tmp_path / "net.onnx")
    cache = tmp_path / "scales.cache"
    key = CacheKey(
        model=model_ref(path).sha256 or "", data="d", batch=4, algorithm="entropy2",
        tensorrt="10.9", prepared={"fit": "crop", "crop": "16x16"},
    )  # fmt: skip
    ScaleCache(cache, key=key).write(b"TRT-100900-EntropyCalibration2\nimages: 3c010a14\n")
    asked: dict[str, Any] = {
        "runtime": "tensorrt", "precision": "int8", "calibration_cache": cache,
        "shapes_opt": {"images": (4, 3, 16, 16)},
    }  # fmt: skip
    spec = build_spec(BuildRequest(model=path, **asked), config)
    assert spec.prepared == {"fit": "crop", "crop": "16x16"}, "scales know what they come from"
    network(path, dtype="float16")
    with pytest.raises(UsageError, match="made for another model"):
        build_spec(BuildRequest(model=path, **asked), config)
    cache.with_name("scales.cache.json").unlink()
    assert build_spec(BuildRequest(model=path, **asked), config).prepared == {}


def test_what_was_calibrated_otherwise_is_an_error(light_network, light_photos, store, config):
    other = quantized(light_network, light_photos, normalize="none")
    same = evaluated(other, photos=light_photos, store=store, config=config)
    assert same.preparation["normalize"] == "none", "as its record says"
    assert not same.findings
    told = {"normalize": "imagenet"}
    found = evaluated(other, photos=light_photos, store=store, config=config, **told)
    [finding] = found.findings
    assert (finding.code, finding.severity) == ("H48", "error")
    assert finding.evidence == {"calibrated": "normalize none", "judged": "normalize imagenet"}
    assert any("H48" in note for note in found.all_notes)
    assert found.models[0].score("top1").value == 0.5, "the harm that is meant"
    request = CheckRequest(
        reference=light_network, candidates=[other], data=light_photos, task="classification",
        threads=1, batch=8, output=light_network.parent / "out", settings=told,
    )  # fmt: skip
    checked = run_check(request, store=store, config=config)
    assert any("H48" in note for note in checked.candidates[0].notes)
    assert checked.preparation == found.preparation
