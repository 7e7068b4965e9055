"""What a weakly typed TensorRT is told for each precision, on a stand-in for 8.6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fake_tensorrt
import numpy as np
import pytest

import models
from trtbench.convert.builders import _python_api
from trtbench.core.errors import InputError, JobError, UsageError
from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec, ShapeProfile
from trtbench.host import tensorrt as tensorrt_calibrate
from trtbench.host.tensorrt import abilities_of
from trtbench.models.identity import model_ref

SPAN = ShapeProfile(min=(1, 3, 8, 8), opt=(4, 3, 8, 8), max=(8, 3, 8, 8))


class Memory:
    """Device memory that remembers what it was filled with."""

    filled: list[np.ndarray[Any, Any]]
    pointer = 0xD0

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def fill(self, values: np.ndarray[Any, Any]) -> None:
        Memory.filled.append(values)


@pytest.fixture
def tensorrt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    trt = fake_tensorrt.module()
    abilities = abilities_of(trt, flavour="tensorrt")
    monkeypatch.setattr(_python_api, "load", lambda flavour: (trt, abilities))
    monkeypatch.setattr(_python_api, "driver_problem", lambda: None)
    monkeypatch.setattr(tensorrt_calibrate, "DeviceArray", Memory)
    monkeypatch.setattr(Memory, "filled", [], raising=False)
    monkeypatch.setattr(fake_tensorrt.Runtime, "kinds", ("Half",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return trt


def build(folder: Path, **changes: Any) -> BuildOutcome:
    folder.mkdir(parents=True, exist_ok=True)
    model = models.conv_model(folder / "net.onnx", size=8)
    changes.setdefault("shapes", {"image": SPAN})
    spec = BuildSpec(model=model_ref(model), output=str(folder / "net.engine"), **changes)
    return _python_api.build(spec, folder=folder, stage=Stage(), flavour="tensorrt")


def told() -> fake_tensorrt.Config:
    return fake_tensorrt.Builder.last


@pytest.mark.parametrize(
    ("precision", "flags"),
    [(None, set()), ("fp32", set()), ("tf32", {"TF32"}), ("fp16", {"FP16", "TF32"})],
)
def test_flags_of_each_precision(
    tensorrt: Any, tmp_path: Path, precision: Any, flags: set[str]
) -> None:
    outcome = build(tmp_path, precision=precision)
    assert told().on == flags
    assert fake_tensorrt.Builder.network_flags == 1  # the batch is explicit
    assert outcome.conditions["typing"].value == "weak"
    assert outcome.facts["layers_from"] == "engine"
    assert outcome.facts["activation_bytes"] == 4096


def test_settings_reach_the_builder(tensorrt: Any, tmp_path: Path) -> None:
    more = ({"image": ShapeProfile(min=(16, 3, 8, 8), opt=(16, 3, 8, 8), max=(16, 3, 8, 8))},)
    build(tmp_path, workspace_bytes=1 << 20, refit=True, version_compatible=True,
          optimization_level=5, dla_core=1, more_profiles=more,
          options={"tactic_sources": "none"})  # fmt: skip
    config: Any = told()
    assert config.pools == {"workspace": 1 << 20}
    assert config.sources == 0
    assert {"REFIT", "VERSION_COMPATIBLE", "GPU_FALLBACK"} <= config.on
    assert config.builder_optimization_level == 5
    assert config.DLA_core == 1
    assert [each.shapes["image"][1][0] for each in config.profiles] == [4, 16]
    assert config.previews == {"sharing"}  # later versions need no asking


def test_int8_is_calibrated_once(tensorrt: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.npz"
    np.savez(data, image=np.random.default_rng(0).random((10, 3, 8, 8), dtype=np.float32))
    asked = {"precision": "int8", "calibration": str(data)}
    first = build(tmp_path / "a", **asked)
    assert told().on == {"INT8", "TF32"}
    assert [len(each) for each in Memory.filled] == [4, 4]
    assert told().calibration_profile.shapes["image"] == ((4, 3, 8, 8),) * 3
    assert first.facts["calibration_cache"] == "new"
    assert first.facts["calibration_items"] == 8
    again = build(tmp_path / "b", **asked)
    assert again.facts["calibration_cache"] == "hit"
    assert len(Memory.filled) == 2
    other = build(tmp_path / "c", **asked, calibration_method="minmax")
    assert other.facts["calibration_cache"] == "new"


@pytest.mark.parametrize(("size", "said"), [((3, 3, 8, 8), "fewer items"), ((8, 3, 9, 9), "")])
def test_too_few_or_wrong_items_are_refused(
    tensorrt: Any, tmp_path: Path, size: tuple[int, ...], said: str
) -> None:
    np.savez(tmp_path / "data.npz", image=np.zeros(size, np.float32))
    with pytest.raises(InputError, match=said):
        build(tmp_path, precision="int8", calibration=str(tmp_path / "data.npz"))


def test_a_cache_alone_is_enough(tensorrt: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no calibration cache"):
        build(tmp_path / "a", precision="int8", calibration_cache=str(tmp_path / "none"))
    (tmp_path / "scales").write_bytes(b"TRT-8601-x\n")
    outcome = build(tmp_path / "b", precision="int8", calibration_cache=str(tmp_path / "scales"))
    assert outcome.facts["calibration_cache"] == "hit"
    assert Memory.filled == []


def test_what_breaks_while_calibrating_is_raised_after_it(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Memory, values: Any) -> None:
        raise RuntimeError("the device fell off the bus")

    monkeypatch.setattr(Memory, "fill", broken)
    with pytest.raises(InputError) as caught:
        build(tmp_path, precision="int8", calibration="random")
    assert "fell off the bus" in caught.value.facts["reason"]
    assert not (tmp_path / "net.engine").exists()


def test_a_precision_chosen_for_no_layer_is_noted(
    tensorrt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(tmp_path / "a", precision="fp16").notes == ()
    monkeypatch.setattr(fake_tensorrt.Runtime, "kinds", ("Float",))
    outcome = build(tmp_path / "b", precision="fp16")
    assert any("chose it for no layer" in note for note in outcome.notes)
    assert outcome.facts["layer_outputs"] == "fp32 1"


def test_a_failed_build_leaves_no_engine(tensorrt: Any, tmp_path: Path) -> None:
    with pytest.raises(JobError) as caught:
        build(tmp_path, workspace_bytes=1)
    assert "--workspace" in (caught.value.fix or "")
    assert list(tmp_path.glob("net.engine*")) == []


@pytest.mark.parametrize("changes", [{"targets": ("sm_86",)}, {"strip_weights": True}])
def test_what_8_does_not_have_is_refused(tensorrt: Any, tmp_path: Path, changes: Any) -> None:
    with pytest.raises(UsageError):
        build(tmp_path, **changes)


def test_scales_of_other_weights_are_not_taken(tensorrt: Any, tmp_path: Path) -> None:
    model = models.external_data_model(tmp_path / "net.onnx")
    data = tmp_path / "data.npz"
    np.savez(data, image=np.random.default_rng(0).random((8, 3, 8, 8), dtype=np.float32))

    def made() -> Any:
        spec = BuildSpec(
            model=model_ref(model), output=str(tmp_path / "net.engine"), precision="int8",
            calibration=str(data), shapes={"image": SPAN},
        )  # fmt: skip
        outcome = _python_api.build(spec, folder=tmp_path, stage=Stage(), flavour="tensorrt")
        return outcome.facts["calibration_cache"]

    assert [made(), made()] == ["new", "hit"]
    weights = models.external_data_path(model)
    weights.write_bytes(weights.read_bytes()[::-1])
    assert made() == "new"
