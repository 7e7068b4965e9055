"""CUDA's context begun before all else: with the right flags, once, and silent where it fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trtbench.compare.turns import Sides, Wave
from trtbench.core.jobs import DuetJob
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.early_context import LATER, VARIABLE, delayed, variables
from trtbench.store.store import Store

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
