"""What a weakly typed TensorRT is told for each precision, on stand-ins for 8.6 and RTX."""

import ctypes
import json
import os
import sys
from pathlib import Path
from signal import SIGTERM
from types import SimpleNamespace
from typing import Any

import fake_tensorrt
import numpy as np
import pytest

import models
from trtbench.convert.builders import _python_api
from trtbench.core.errors import InputError, JobError, TrtbenchError
from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec, ShapeProfile
from trtbench.models.identity import model_ref

SPAN = ShapeProfile(min=(1, 3, 8, 8), opt=(4, 3, 8, 8), max=(8, 3, 8, 8))


class Driver:
    """A CUDA driver that keeps what is copied to its GPU; ``status`` is how other calls end."""

    devices, status = 1, 0

    def __init__(self) -> None:
        self.filled: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.status

    def cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = self.devices

    def cuGetErrorName(self, status: int, text: Any) -> None:
        text._obj.value = b"CUDA_ERROR_NO_DEVICE" if status == 100 else None

    def copy(self, device: int, host: Any, stream: object, *, out: bool) -> Any:
        return lambda: self.filled.append(host.tobytes())


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    trt = fake_tensorrt.module()
    trt.driver = Driver()
    real = ctypes.CDLL
    load = lambda name, **mode: real(name, **mode) if mode else trt.driver  # noqa: E731
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(_python_api.tensorrt, "open_cuda", lambda: trt.driver)
    monkeypatch.setitem(sys.modules, "tensorrt", trt)
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", fake_tensorrt.rtx_module())
    monkeypatch.setattr(fake_tensorrt.Runtime, "kinds", ("Half",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return trt


def build(folder: Path, flavour: Any = "tensorrt", **changes: Any) -> BuildOutcome:
    folder.mkdir(parents=True, exist_ok=True)
    if "model" not in changes:
        changes["model"] = model_ref(models.conv_model(folder / "net.onnx", size=8))
    changes.setdefault("shapes", {"image": SPAN})
    spec = BuildSpec(output=str(folder / "net.engine"), **changes)
    return _python_api.build(spec, folder=folder, stage=Stage(), flavour=flavour)


def told() -> fake_tensorrt.Config:
    return fake_tensorrt.Builder.last


@pytest.mark.parametrize(
    ("precision", "flags"),
    [(None, set()), ("fp32", set()), ("tf32", {"TF32"}), ("fp16", {"FP16", "TF32"})],
)
def test_flags_of_each_precision(tensorrt: Any, tmp_path: Path, precision: Any, flags: set[str]):
    outcome = build(tmp_path, precision=precision)
    assert told().on == flags
    assert fake_tensorrt.Builder.network_flags == 1  # the batch is explicit
    assert outcome.conditions["typing"].value == "weak"
    assert outcome.facts["layers_from"] == "engine"
    assert outcome.facts["activation_bytes"] == 4096


def test_settings_reach_the_builder(tensorrt: Any, tmp_path: Path) -> None:
    more = ({"image": ShapeProfile(min=(16, 3, 8, 8), opt=(16, 3, 8, 8), max=(16, 3, 8, 8))},)
    made = build(
        tmp_path, workspace_bytes=1 << 20, refit=True, version_compatible=True, dla_core=1,
        optimization_level=5, hardware_compatible=True, more_profiles=more,
        options={"tactic_sources": "none"}, timing_cache=str(tmp_path / "timing.cache"),
    )  # fmt: skip
    assert made.facts["timing_cache"] == "new"
    config: Any = told()
    assert config.pools == {"workspace": 1 << 20}
    assert config.sources == 0
    assert {"REFIT", "VERSION_COMPATIBLE", "GPU_FALLBACK"} <= config.on
    assert config.builder_optimization_level == 5
    assert (config.DLA_core, config.hardware_compatibility_level) == (1, 1)
    assert [each.shapes["image"][1][0] for each in config.profiles] == [4, 16]
    assert config.previews == {"sharing"}  # later versions need no asking


def test_int8_is_calibrated_once(tensorrt: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    images = np.random.default_rng(0).random((10, 3, 8, 8), dtype=np.float32)
    np.savez(data, image=images)
    asked = {"precision": "int8", "calibration": str(data)}
    first = build(tmp_path / "a", **asked)
    assert told().on == {"INT8", "TF32"}
    assert tensorrt.driver.filled == [images[:4].tobytes(), images[4:8].tobytes()]
    assert told().calibration_profile.shapes["image"] == ((4, 3, 8, 8),) * 3
    assert first.facts["calibration_cache"] == "new"
    assert first.facts["calibration_items"] == 8
    again = build(tmp_path / "b", **asked)
    assert again.facts["calibration_cache"] == "hit"
    assert len(tensorrt.driver.filled) == 2
    other = build(tmp_path / "c", **asked, calibration_method="minmax")
    assert other.facts["calibration_cache"] == "new"


def test_a_cache_alone_is_enough(tensorrt: Any, tmp_path: Path) -> None:
    (tmp_path / "scales").write_bytes(b"TRT-8601-x\n")
    outcome = build(tmp_path / "b", precision="int8", calibration_cache=str(tmp_path / "scales"))
    assert outcome.facts["calibration_cache"] == "hit"
    assert tensorrt.driver.filled == []


def test_a_precision_chosen_for_no_layer_is_noted(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(tmp_path / "a", precision="fp16").notes == ()
    monkeypatch.setattr(fake_tensorrt.Runtime, "kinds", ("Float",))
    outcome = build(tmp_path / "b", precision="fp16")
    assert any("chose it for no layer" in note for note in outcome.notes)
    assert outcome.facts["layer_outputs"] == "fp32 1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workspace_bytes": 1}, "--workspace"),
        ({"targets": ("sm_86",)}, "8.6.1 builds for the GPU of this machine"),
        ({"strip_weights": True}, "cannot leave weights out"),
        ({"plugins": ("/nowhere.so",)}, "there is no plugin library /nowhere.so"),
        ({"plugins": (__file__,)}, "cannot be loaded"),
        ({"options": {"tactic_sources": "all"}}, "--opt tactic_sources=none"),
        ({"options": {"version": "10.9"}}, "8.6.1 is installed here, not 10.9"),
        ({"shapes": {"imgae": SPAN}}, "no input called 'imgae'"),
        ({"shapes": {"image": SPAN.having(min=(1, 4, 8, 8))}}, "min shape"),
        ({"precision": "int8", "calibration_cache": "none"}, "no calibration cache"),
        ({"items": (3, 3, 8, 8)}, "fewer items"),
        ({"items": (8, 3, 9, 9)}, "float32 8x3x9x9"),
        ({"items": SPAN.max, "gpu": {"malloc": lambda size: 1 // 0}}, "modulo by zero"),
        ({"gpu": {"status": 100}}, "does not start: CUDA_ERROR_NO_DEVICE"),
        ({"gpu": {"status": 3}}, "error 3"),
        ({"gpu": {"devices": 0}}, "lists no GPU"),
        ({"rtx": True, "targets": ("sm_12",)}, "--target sm_86,sm_89"),
        ({"rtx": True, "plugins": ("p.so",)}, "--plugin has no effect with TensorRT-RTX"),
        ({"rtx": True, "hardware_compatible": True}, "has no effect with TensorRT-RTX"),
        ({"rtx": True, "version_compatible": True}, "has no effect with TensorRT-RTX"),
        ({"rtx": True, "timing_cache": "cache"}, "has no effect with TensorRT-RTX"),
        ({"rtx": True, "dla_core": 0}, "has no effect with TensorRT-RTX"),
        ({"rtx": True, "gpu": {"devices": 0}, "refit": True}, "needs a GPU for --refit"),
    ],
)
def test_what_cannot_be_built_leaves_no_engine(
    tensorrt: Any, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    asked = dict(changes)
    vars(tensorrt.driver).update(asked.pop("gpu", {}))
    flavour = "tensorrt_rtx" if asked.pop("rtx", False) else "tensorrt"
    if items := asked.pop("items", None):
        np.savez(tmp_path / "data.npz", image=np.zeros(items, np.float32))
        asked |= {"precision": "int8", "calibration": str(tmp_path / "data.npz")}
    with pytest.raises(TrtbenchError) as caught:
        build(tmp_path, flavour, **asked)
    assert said in f"{caught.value.message} {caught.value.facts} {caught.value.fix}"
    assert list(tmp_path.glob("net.engine*")) == []


def test_the_node_that_cannot_be_parsed_is_named(tensorrt: Any, tmp_path: Path) -> None:
    text = "In node 0: no importer registered for op: Conv"
    problem = SimpleNamespace(desc=lambda: text, node=lambda: 0)
    tensorrt.OnnxParser = lambda *given: SimpleNamespace(
        parse_from_file=lambda path: False, num_errors=3, get_error=lambda number: problem
    )
    with pytest.raises(InputError, match="cannot parse the operator Conv") as caught:
        build(tmp_path)
    assert caught.value.facts["node"].startswith("number 0, ")
    assert caught.value.facts["further"] == "2 more, see the log"
    assert "--plugin" in (caught.value.fix or "")


def test_an_rtx_engine_for_other_gpus_needs_none_and_can_be_cancelled(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensorrt.driver.devices = 0
    outcome = build(tmp_path, "tensorrt_rtx", targets=("sm_86", "8.9"))
    assert told().targets == ["SM86", "SM89"]
    assert fake_tensorrt.Builder.network_flags == 2  # strongly typed
    assert outcome.facts["layers_from"] == "network"
    graph = json.loads((tmp_path / outcome.files[".graph.json"]).read_text())
    assert graph["Layers"][0]["Outputs"][0]["Format/Datatype"] == "Float"
    monkeypatch.setattr(fake_tensorrt.IMAGE, "shape", (4, 3, 8, 8))
    build(tmp_path, "tensorrt_rtx", shapes={})
    assert told().profiles == [], "fixed shapes need none"
    monkeypatch.setattr(fake_tensorrt.Builder, "halfway", lambda own: os.kill(os.getpid(), SIGTERM))
    with pytest.raises(JobError, match="the build was cancelled"):
        build(tmp_path, "tensorrt_rtx", shapes={})


def test_scales_of_other_weights_are_not_taken(tensorrt: Any, tmp_path: Path) -> None:
    model = models.external_data_model(tmp_path / "net.onnx")
    asked = {"model": model_ref(model), "precision": "int8", "calibration": "random"}
    made = [build(tmp_path, **asked).facts["calibration_cache"] for _ in range(2)]
    weights = models.external_data_path(model)
    weights.write_bytes(weights.read_bytes()[::-1])
    made.append(build(tmp_path, **asked | {"model": model_ref(model)}).facts["calibration_cache"])
    assert made == ["new", "hit", "new"]
