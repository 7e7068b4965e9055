"""The door to CUDA: return codes, freeing, and what it costs; a stand-in answers."""

from contextlib import closing

import pytest

from gpu_standin import Code, Cudart
from trtbench.core.errors import UnavailableError
from trtbench.host.cuda import Cuda, CudaError, cuda_problem, open_cuda


@pytest.mark.parametrize("name", ["cudaEventRecord", "cudaMemcpyAsync", "cudaEventSynchronize"])
def test_a_failing_call_is_named(name: str) -> None:
    api = Cudart()
    with closing(Cuda(api)) as cuda:
        stream, event, there, here = cuda.stream(), cuda.event(), cuda.malloc(4), cuda.pinned(4)
        calls = {
            "cudaEventRecord": cuda.record(event, stream),
            "cudaMemcpyAsync": cuda.copy(there, here, stream, out=False),
            "cudaEventSynchronize": cuda.wait(event),
        }
        calls[name]()
        api.fail[name] = Code.illegal_address
        with pytest.raises(CudaError, match="illegal memory access") as caught:
            calls[name]()
    assert caught.value.facts["call"] == name
    assert "700" in caught.value.facts["error"]


@pytest.mark.parametrize(("spin", "flag"), [(True, 1), (False, 0)])
def test_waiting_is_settled_before_the_context_exists(spin: bool, flag: int) -> None:
    api = Cudart()
    with closing(Cuda(api, spin=spin)) as cuda:
        assert api.flags == (flag, 1)
        assert api.calls.index("cudaInitDevice") < api.calls.index("cudaSetDevice")
        assert cuda.event().blocking is not spin


def test_no_driver_and_an_old_driver_are_told_apart() -> None:
    api = Cudart(driver=0)
    api.start_code = Code.too_old
    with pytest.raises(UnavailableError) as caught:
        Cuda(api)
    assert caught.value.fix == "install an NVIDIA driver"
    api.driver = 11040
    with pytest.raises(UnavailableError) as caught:
        Cuda(api)
    assert caught.value.facts["driver"] == "supports CUDA 11.4"
    assert cuda_problem(api=api) == "no NVIDIA driver, or one too old for this CUDA"


@pytest.mark.real("cuda-bindings")
def test_real_bindings_have_every_function_the_door_uses() -> None:
    """Without a driver they import and answer with a code; names and enums are the true ones."""
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings not installed")
    names = [name for name in vars(Cudart) if name.startswith("cuda")]
    assert [name for name in names if not hasattr(runtime, name)] == []
    assert hasattr(runtime.cudaStreamCaptureMode, "cudaStreamCaptureModeThreadLocal")
    code, _ = runtime.cudaGetDeviceCount()
    if code:
        with pytest.raises(UnavailableError):
            open_cuda()
