"""A stand-in GPU for the runtimes that need one."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_standin import Clock, Cudart, Trt, plan_bytes
from trtbench.core.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.host import cuda as door
from trtbench.host.tensorrt import abilities_of
from trtbench.runtimes import _trt_session


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Trt:
    """A stand-in TensorRT on a stand-in GPU in the place of the real ones."""
    Clock().install(monkeypatch)
    api = Cudart()
    trt = Trt(api)
    monkeypatch.setattr(door, "runtime_module", lambda: api)
    loaded = (trt, abilities_of(trt, flavour="tensorrt"))
    monkeypatch.setattr(_trt_session, "load", lambda flavour: loaded)
    return trt


@pytest.fixture
def rtx(gpu: Trt, monkeypatch: pytest.MonkeyPatch) -> Trt:
    """The stand-in with the settings that TensorRT-RTX has of its own."""
    gpu.DynamicShapesKernelSpecializationStrategy = SimpleNamespace(EAGER=0, LAZY=1, NONE=2)
    loaded = (gpu, abilities_of(gpu, flavour="tensorrt_rtx"))
    monkeypatch.setattr(_trt_session, "load", lambda flavour: loaded)
    return gpu


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    path = tmp_path / "model.engine"
    path.write_bytes(plan_bytes())
    return RunSpec(
        model=ModelRef(path=str(path), format="engine"),
        runtime="tensorrt",
        batch=4,
        warmup=Warmup(floor=Length(iterations=3), until_steady=False),
        stop=Length(iterations=40),
    )
