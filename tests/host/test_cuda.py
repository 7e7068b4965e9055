"""CUDA behind one door, which a stand-in answers, and its context begun before all else."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpu_standin import Code, Cudart
from trtbench.compare.turns import Sides, Wave
from trtbench.core.errors import UnavailableError
from trtbench.core.jobs import DuetJob
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.cuda import Cuda, CudaError, cuda_problem, open_cuda
from trtbench.host.early_context import LATER, VARIABLE, delayed, variables
from trtbench.store.store import Store


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


FRESH = """
import ctypes, os, sys, threading
CALLS, WRITTEN, IMPORTED = [], [], threading.Event()
BEFORE = dict(os.environ)
def noted(write):
    def call(name, *value):
        if CALLS and not IMPORTED.is_set():
            WRITTEN.append(name)
        return write(name, *value)
    return call
os.putenv, os.unsetenv = noted(os.putenv), noted(os.unsetenv)
class Driver:
    def __getattr__(self, name):
        if name in sys.argv[2:]:
            raise AttributeError(name)
        def call(*given):
            CALLS.append((name, *(each for each in given if isinstance(each, int))))
            IMPORTED.wait()
            return 0
        return call
def load(name):
    if sys.argv[1] == "none":
        raise OSError(name)
    return Driver()
ctypes.CDLL = load
import trtbench.worker
IMPORTED.set()
from trtbench.host import early_context
early_context.wait()
print(len(CALLS), end=" ")
early_context.make_delayed()
for name in (early_context.VARIABLE, early_context.LATER):
    BEFORE.pop(name, None)
print(CALLS, WRITTEN, os.environ == BEFORE)
"""


def in_a_fresh_worker(asked: dict[str, str], driver: str, *lacks: str) -> str:
    command, env = [sys.executable, "-c", FRESH, driver, *lacks], {**os.environ, **asked}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.strip()


@pytest.mark.process
@pytest.mark.parametrize("at_last", [False, True])
def test_the_context_asked_for_is_retained_with_its_flags(at_last: bool) -> None:
    asked = variables(1, 4)
    told = in_a_fresh_worker(delayed(asked) if at_last else asked, "there")
    assert int(told.split()[0]) == (0 if at_last else 4), "calls before it had to be there"
    names = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxRetain")
    positions = [told.index(f"'{name}'") for name in names]
    assert positions == sorted(positions)
    assert "('cuDeviceGet', 1)" in told
    assert "('cuDevicePrimaryCtxSetFlags_v2', 4)" in told
    assert told.endswith("[] True"), "written to while CUDA reads, or not as it was afterwards"


@pytest.mark.process
@pytest.mark.parametrize(
    ("asked", "driver", "lacks"),
    [
        ({}, "there", ()), ({VARIABLE: "one", LATER: ""}, "there", ()),
        (variables(0, 1), "none", ()), (variables(0, 1), "there", ("cuInit",)),
        (delayed(variables(0, 1)), "none", ()),
    ],
)  # fmt: skip
def test_without_a_wish_or_a_driver_nothing_is_made_or_said(
    asked: dict[str, str], driver: str, lacks: tuple[str, ...]
) -> None:
    assert in_a_fresh_worker(asked, driver, *lacks) == "0 [] [] True"


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spin_wait": True}, variables(0, 1)),
        ({"device": "cuda:2"}, variables(2, 0)),
        ({"runtime": "torch"}, {}),
    ],
)
def test_the_first_launches_begin_their_contexts_early_and_the_others_in_their_turn(
    tmp_path: Path, early: bool, changes: dict[str, object], expected: dict[str, str]
) -> None:
    model = ModelRef(path="a.engine", format="engine")
    spec = RunSpec(model=model, runtime="tensorrt").having(**changes)
    sides = Sides(baseline=spec, candidate=spec)
    job = DuetJob(sides=sides.both, mine=0, series=True)
    groups = [[(job, job)] * 2, [(job, job)]]
    with Wave(groups, sides=sides, store=Store(tmp_path / "store"), early=early) as wave:
        found = [dict(each.variables) for each in wave.assignments]
    if not early:
        expected = {}
    assert found == [expected] * 4 + [delayed(expected)] * 2
