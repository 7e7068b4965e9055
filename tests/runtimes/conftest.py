"""A stand-in GPU for the runtimes that need one."""

from types import SimpleNamespace

import pytest

from gpu_standin import Clock, Cudart, Trt
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
