"""Two sides in lock-step over a real socket, each with its own steps."""

import os
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import models
from trtbench.core.jobs import DuetJob, Stage
from trtbench.core.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.runtimes._turns import PartnerLost, TurnPartner, on_one_core, run_duet, run_stretches


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
