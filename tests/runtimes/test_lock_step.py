"""Sides in turn: in lock-step over a real socket, and with idle threads that leave them alone."""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import models
from models import conv_model
from trtbench.core.jobs import DuetJob, Stage
from trtbench.core.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.models.identity import model_ref
from trtbench.runtimes import onnxruntime as ort
from trtbench.runtimes._turns import PartnerLost, TurnPartner, on_one_core, run_duet, run_stretches
from waiting import printed, with_patience


@pytest.mark.parametrize("plan", [[(0, 1), (1, 2), (0, 1), (1, 1)], [(1, 1), (0, 3)]])
def test_who_waits_or_is_done_first_leaves_the_machine_to_the_other_side(
    plan: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A side that went on with its own affairs made the other's last query last twice as long."""
    # The garbage of a process full of tests takes longer to look through than these turns.
    monkeypatch.setattr("trtbench.runtimes._turns.gc.collect", lambda: 0)
    ends = socket.socketpair()
    happened: list[str] = []
    used: dict[int, float] = {}  # of the processor, as a share of the time it took

    def side(mine: int) -> None:
        def step() -> None:
            time.sleep(0.04)
            happened.append(f"query {mine}")

        with TurnPartner(ends[mine].detach()) as partner:
            before, began = time.thread_time(), time.monotonic()
            run_stretches({mine: step}, plan, partner)
            used[mine] = (time.thread_time() - before) / (time.monotonic() - began)
        happened.append(f"gone {mine}")

    threads = [threading.Thread(target=side, args=(mine,)) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queries = [f"query {mine}" for mine, length in plan for _ in range(length)]
    assert happened[:-2] == queries
    assert sorted(happened[-2:]) == ["gone 0", "gone 1"]
    assert max(used.values()) < 0.4, "a spinning wait would take half of it"


def test_a_pools_threads_leave_the_measuring_core_alone() -> None:
    allowed = os.sched_getaffinity(0)
    found: dict[str, set[int]] = {}
    started, end = threading.Event(), threading.Event()

    def pool() -> None:
        found["thread"] = {threading.get_native_id()}
        started.set()
        end.wait()

    thread = threading.Thread(target=pool)
    thread.start()
    started.wait()
    [number] = found["thread"]
    try:
        with on_one_core() as core:
            own = allowed if len(allowed) < 2 else {core}
            assert os.sched_getaffinity(0) == own
            assert os.sched_getaffinity(number) == (allowed - own or allowed)
        assert os.sched_getaffinity(0) == os.sched_getaffinity(number) == allowed
    finally:
        end.set()
        thread.join()


def one_side(path: Path, threads: int = 1, **options: str) -> RunSpec:
    return RunSpec(
        model=ModelRef(path=str(path), format="onnx"), runtime="onnxruntime", batch=1,
        threads=threads,
        warmup=Warmup(floor=Length(iterations=5), until_steady=False), options=options,
    )  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_two_sides_of_one_process_take_turns_and_tell_their_time_alone(
    tmp_path: Path, threads: int
) -> None:
    """Pools that are set otherwise cannot be one: each then has a time alone before the turns."""
    path = models.tiny_model(tmp_path / "m.onnx")
    sides = (one_side(path, threads, spinning="on"), one_side(path, threads, spinning="off"))
    stage = Stage()
    found = run_duet(DuetJob(sides=sides, pairs=20, seed=3, launch=1), stage)
    assert stage.begun == ["load", "warm-up", "measure"]
    first, second = (found[side][1] for side in (0, 1))
    assert len(first) == len(second) == 20
    after = [each.stamps["second"].astype(bool) for each in (first, second)]
    np.testing.assert_array_equal(after[0], ~after[1])  # one of each pair comes second
    assert 0 < after[0].sum() < 20, "the order is drawn"
    for outcome, times in found.values():
        assert outcome.conditions["interleaved"].value == "one process"
        assert outcome.facts.solo_median_s > 0
        assert (times.host > 0).all()
        assert outcome.facts.alone_s
    again = run_duet(DuetJob(sides=sides, pairs=20, seed=3, launch=1), Stage())
    np.testing.assert_array_equal(again[0][1].stamps["second"].astype(bool), after[0])


def test_a_partner_that_is_lost_ends_the_wait() -> None:
    """Whatever one waits for: a greeting, a turn, a number; and a word that was not expected."""
    for wait in (TurnPartner.meet, TurnPartner.wait, lambda partner: partner.swap(1.0)):
        here, there = socket.socketpair()
        there.close()
        with TurnPartner(here.detach()) as partner, pytest.raises(PartnerLost):
            wait(partner)
    here, there = socket.socketpair()
    there.sendall(b"x")
    with there, TurnPartner(here.detach()) as partner, pytest.raises(PartnerLost):
        partner.wait()


SHARES = hasattr(onnxruntime, "set_global_thread_pool_sizes")


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    model = conv_model(tmp_path / "model.onnx", channels=4, size=16, layers=2)
    return RunSpec(model=model_ref(model), runtime="onnxruntime")


def test_sessions_of_one_process_share_a_pool_and_those_of_two_stop_theirs(spec: RunSpec) -> None:
    together = ort.turn_spec(spec, (spec, spec))
    assert together.spec.options["spinning"] == ("shared" if SHARES else "run")
    assert together.like_alone is SHARES
    apart = ort.turn_spec(spec, ())
    assert apart.spec.options["spinning"] == "run"
    assert not apart.like_alone, "a pool that stops must be woken, which costs time"


def test_sides_with_other_pools_do_not_share_one(spec: RunSpec) -> None:
    other = spec.having(threads=2)
    found = ort.turn_spec(spec, (spec, other))
    assert found.spec.options["spinning"] == "run"


@pytest.mark.parametrize("changes", [{"threads": 1}, {"options": {"spinning": "off"}}])
def test_a_side_without_spinning_threads_is_left_as_it_is(
    spec: RunSpec, changes: dict[str, object]
) -> None:
    quiet = spec.having(**changes)
    found = ort.turn_spec(quiet, (quiet, quiet))
    assert found.spec == quiet
    assert found.like_alone


SPUN = """
import json, sys, time
from pathlib import Path
from trtbench.core.spec import RunSpec
from trtbench.models.identity import model_ref
from trtbench.runtimes._session import resolve_inputs
from trtbench.runtimes.onnxruntime import open_session
spec = RunSpec(model=model_ref(Path(sys.argv[1])), runtime="onnxruntime", threads=2, batch=1,
               options={"spinning": sys.argv[2]})
session = open_session(spec)
session.bind(resolve_inputs(session.inputs, spec)[1])
step = session.step()
clock = lambda: time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
spent = []
for _ in range(7):
    for _ in range(20):
        step()
    before = clock()
    time.sleep(float(sys.argv[3]))
    spent.append(clock() - before)
print(json.dumps(sorted(spent)[3]))
"""


def test_a_pool_that_stops_uses_no_processor_after_its_query(spec: RunSpec) -> None:
    def spent(way: str, wait_s: float) -> float:
        command = [sys.executable, "-c", SPUN, spec.model.path, way, str(wait_s)]
        return float(json.loads(printed(command)))

    def both(seconds: float) -> tuple[float, float]:
        return spent("run", seconds / 75), spent("on", seconds / 75)

    # On a busy machine a short wait is over before a thread that spins had its turn.
    stops, spins = with_patience(both, far_enough=lambda used: used[0] < 0.5 * used[1])
    assert stops < 0.5 * spins
