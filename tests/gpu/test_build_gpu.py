"""Builds with TensorRT on a real GPU: precisions, calibration, shapes, caches, several builds."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import models
from trtbench.analysis.builds import Lottery
from trtbench.requests.execution import Execution
from trtbench.requests.measure import CompareRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.trtexec.exports import calibration_from_text, dtype_from_format, graph_from_json
from trtbench.trtexec.version import plan_from_bytes
from trtbench.workflows.builds import Builds
from typed_models import quantized, typed

SIZE, CHANNELS = 32, 64
SHAPES = {
    "image": {"min": [1, 3, SIZE, SIZE], "opt": [8, 3, SIZE, SIZE], "max": [16, 3, SIZE, SIZE]}
}


@pytest.fixture(scope="module")
def strong() -> bool:
    """Whether the version at hand knows typed networks only."""
    import tensorrt

    return not hasattr(tensorrt.BuilderFlag, "FP16")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return models.conv_model(tmp_path / "net.onnx", channels=CHANNELS, size=SIZE, layers=3)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.npz"
    np.savez(path, image=np.random.default_rng(0).random((32, 3, SIZE, SIZE), dtype=np.float32))
    return path


Build = Callable[..., dict[str, Any]]
"""Builds a model into a folder; gives the outcome, or the error."""


@pytest.fixture
def build(build_job: Build) -> Build:
    return lambda model, folder, **changes: build_job(
        model, folder, **{"shapes": SHAPES, **changes}
    )


def kinds(folder: Path) -> set[str | None]:
    """The types that the layers of an engine write, or keep their weights in.

    TensorRT 8.6 tells no tensor types of an engine with dynamic shapes, but those of weights.
    """
    graph = graph_from_json((folder / "graph.json").read_bytes(), where="graph.json")
    written = {tensor.dtype for layer in graph.layers for tensor in layer.outputs}
    weights = [layer.extra.get("Weights") for layer in graph.layers]
    kept = {dtype_from_format(str(each["Type"])) for each in weights if isinstance(each, dict)}
    return written | kept


def condition(outcome: dict[str, Any], name: str) -> Any:
    return outcome["conditions"][name]["value"]


def test_fp32_with_everything_beside_it(build: Build, model: Path, tmp_path: Path) -> None:
    outcome = build(model, tmp_path / "out", precision="fp32")
    engine = (tmp_path / "out" / "net.engine").read_bytes()
    header = plan_from_bytes(engine[:64], where="engine")
    assert header.flavour == "tensorrt"
    assert (header.version or "").startswith(".".join(outcome["version"].split(".")[:2]))
    assert condition(outcome, "precision") == "fp32"
    assert condition(outcome, "tf32") is False
    assert outcome["facts"]["layers_from"] == "engine"
    assert outcome["facts"]["activation_bytes"] > 0
    assert outcome["build_s"] > 0
    assert kinds(tmp_path / "out") <= {"fp32", "int32", None}


def test_fp16_is_really_built(build: Build, tmp_path: Path, strong: bool) -> None:
    # Wide enough that FP16 is faster beyond doubt: of a small network the builder may keep FP32.
    wide = models.conv_model(tmp_path / "wide.onnx", channels=256, size=SIZE, layers=4)
    outcome = build(wide, tmp_path / "out", precision="fp16")
    assert condition(outcome, "typing") == ("strong" if strong else "weak")
    assert "fp16" in condition(outcome, "precision")
    assert "fp16" in kinds(tmp_path / "out"), outcome["notes"]


def test_a_static_batch_needs_no_shapes(build: Build, tmp_path: Path) -> None:
    path = models.conv_model(tmp_path / "static.onnx", channels=16, size=32, batch=4)
    outcome = build(path, tmp_path / "out", shapes={}, precision="fp16")
    assert outcome["facts"]["inputs"] == "image float32 4x3x32x32"


LOOK = """
import os, sys, tensorrt
runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.ERROR))
engine = runtime.deserialize_cuda_engine(open(sys.argv[1], "rb").read())
print(engine.num_optimization_profiles, *engine.get_tensor_profile_shape("image", 1)[1], flush=True)
os._exit(0)
"""
"""Leaves without taking TensorRT's objects apart, which 8.6 does not always survive."""


def test_several_profiles(build: Build, model: Path, tmp_path: Path) -> None:
    many = {"image": {end: [32, 3, SIZE, SIZE] for end in ("min", "opt", "max")}}
    outcome = build(model, tmp_path / "out", more_profiles=[many])
    assert outcome["facts"]["engine_layers"] > 0
    command = [sys.executable, "-c", LOOK, str(tmp_path / "out" / "net.engine")]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["2", "32", "3", str(SIZE), str(SIZE)]


@pytest.mark.parametrize("method", ["entropy2", "minmax"])
def test_int8_with_a_calibrator(
    build: Build, data: Path, tmp_path: Path, strong: bool, method: str
) -> None:
    if strong:
        pytest.skip("this version has no calibrators")
    cache = tmp_path / "scales.cache"
    asked = {
        "precision": "int8",
        "calibration": str(data),
        "calibration_method": method,
        "calibration_cache": str(cache),
    }
    # Wide enough that INT8 is faster beyond doubt: of a small network the builder may keep FP32.
    model = models.conv_model(tmp_path / "wide.onnx", channels=512, size=SIZE, layers=4)
    first = build(model, tmp_path / "first", **asked)
    assert first["facts"]["calibration_cache"] == "new"
    assert first["facts"]["calibration_items"] == 32
    assert "int8" in kinds(tmp_path / "first"), first["notes"]
    scales = calibration_from_text(cache.read_bytes(), where="cache")
    assert any(each.name == "image" and each.usable for each in scales.scales)
    if method != "entropy2":
        return  # TensorRT takes scales of a file whatever the method; whose they are is ours to say
    alone = {key: value for key, value in asked.items() if key != "calibration"}
    assert build(model, tmp_path / "alone", **alone)["facts"]["calibration_cache"] == "hit"


def test_int8_from_a_quantized_model(build: Build, tmp_path: Path, strong: bool) -> None:
    path = quantized(tmp_path / "net.onnx", TensorProto.INT8, opset=13)
    outcome = build(path, tmp_path / "out", shapes={})
    assert "int8" in condition(outcome, "precision")
    assert condition(outcome, "typing") == ("strong" if _typed(outcome) else "weak")
    assert outcome["facts"]["layers_from"] == "engine"


def _typed(outcome: dict[str, Any]) -> bool:
    return int(outcome["version"].split(".")[0]) >= 10


def test_int8_without_scales_is_refused(build: Build, model: Path, tmp_path: Path) -> None:
    error = build(model, tmp_path / "out", precision="int8")
    assert error["kind"] == "UsageError"
    assert "trtbench quantize" in error["fix"]


def test_the_timing_cache_is_reused(
    build: Build, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    model = models.conv_model(tmp_path / "net.onnx", channels=16, size=SIZE, layers=2)
    cache = tmp_path / "timing.cache"
    asked = {"precision": "fp16", "timing_cache": str(cache), "optimization_level": 3}
    first = build(model, tmp_path / "first", **asked)
    again = build(model, tmp_path / "again", **asked)
    assert first["facts"]["timing_cache"] == "new"
    assert again["facts"]["timing_cache"] == "hit"
    record_property("first_build_s", first["build_s"])
    record_property("again_build_s", again["build_s"])
    print(f"build {first['build_s']:.2f} s, with its timing cache {again['build_s']:.2f} s")
    assert again["build_s"] < first["build_s"]
    cache.write_bytes(b"of another world" * 8)
    refused = build(model, tmp_path / "refused", **{**asked, "optimization_level": 1})
    assert refused["facts"]["timing_cache"] == "refused"
    assert cache.with_name("timing.cache.old").is_file()


def test_too_small_a_workspace_is_told(build: Build, model: Path, tmp_path: Path) -> None:
    error = build(model, tmp_path / "out", workspace_bytes=1)
    if "kind" not in error:
        pytest.skip("this version builds the network without scratch memory")
    assert "--workspace" in error["fix"]
    assert not (tmp_path / "out" / "net.engine").exists()


def test_an_operator_nobody_knows_is_named(build: Build, tmp_path: Path) -> None:
    path = models.unsupported_operator_model(tmp_path / "net.onnx")
    error = build(path, tmp_path / "out", shapes={})
    assert error["kind"] == "InputError"
    assert error["facts"]["operator"] == "Unheard"


def test_an_opset_too_new_is_said(build: Build, tmp_path: Path) -> None:
    path = typed(tmp_path / "net.onnx", TensorProto.FLOAT, opset=18)
    outcome = build(path, tmp_path / "out", shapes={})
    if int(outcome.get("version", "8").split(".")[0]) < 9:
        assert any("opset 18" in text for text in outcome.get("notes", [outcome.get("fix")]))


def compared_builds(tmp_path: Path, **wishes: Any) -> Any:
    store = Store(tmp_path / "store")
    config = Config(store=str(store.root))
    request = CompareRequest(
        builds=2, duration="200ms", runtime="tensorrt", output=tmp_path / "out", **wishes
    )
    return Builds(request=request, store=store, config=config, execution=Execution()).compare()


def test_builds_are_measured_and_judged_in_every_respect(tmp_path: Path) -> None:
    model = models.conv_model(tmp_path / "net.onnx", channels=32, size=32, layers=3, batch=1)
    build = {"timing_cache": str(tmp_path / "shared.cache"), "optimization_level": "1"}
    found = compared_builds(tmp_path, baseline=model, launches=2, build=build)
    assert isinstance(found, Lottery)
    assert found.metric == "gpu"
    assert found.spread is not None
    assert found.aspect("tactics").same is True, "one timing cache, and other kernels"


def test_a_network_with_more_layers_is_slower_over_builds(tmp_path: Path) -> None:
    sides = [
        models.conv_model(tmp_path / f"{layers}.onnx", channels=64, size=64, layers=layers, batch=1)
        for layers in (12, 48)  # builds of one layer alone differ by a quarter
    ]
    wishes = {"baseline": sides[0], "candidates": [sides[1]], "build": {"optimization_level": "1"}}
    (found,) = compared_builds(tmp_path, **wishes, launches=1, warmup="50ms", until_steady=False)
    assert found.comparison.verdicts[0].kind == "slower"
