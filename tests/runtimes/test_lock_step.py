"""Two sides in lock-step over a real socket, each with its own steps."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from trtbench.runtimes._duet import run_stretches
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
        thread.join(30)
    queries = [f"query {mine}" for mine, length in plan for _ in range(length)]
    assert happened[:-2] == queries
    assert sorted(happened[-2:]) == ["gone 0", "gone 1"]
