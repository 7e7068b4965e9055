"""Two sides in lock-step over a real socket, each with its own steps."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from trtbench.runtimes._duet import on_one_core, run_stretches
from trtbench.runtimes._partner import TurnPartner


@pytest.mark.parametrize("plan", [[(0, 1), (1, 2), (0, 1), (1, 1)], [(1, 1), (0, 3)]])
def test_who_is_done_first_leaves_the_machine_to_the_last_query(
    plan: list[tuple[int, int]],
) -> None:
    """A side that went on with its own affairs made the other's last query last twice as long."""
    ends = socket.socketpair()
    happened: list[str] = []

    def side(mine: int) -> None:
        def step() -> None:
            time.sleep(0.02)
            happened.append(f"query {mine}")

        with TurnPartner(ends[mine].detach()) as partner:
            run_stretches({mine: step}, plan, partner)
        happened.append(f"gone {mine}")

    threads = [threading.Thread(target=side, args=(mine,)) for mine in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queries = [f"query {mine}" for mine, length in plan for _ in range(length)]
    assert happened[:-2] == queries
    assert sorted(happened[-2:]) == ["gone 0", "gone 1"]


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
