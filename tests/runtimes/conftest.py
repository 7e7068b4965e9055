"""A stand-in GPU for the runtimes that need one."""

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
