"""What is said when a cluster cannot be joined, and what is asked of one; without Ray itself."""

from __future__ import annotations

import socket
import sys
import types

import pytest

from trtbench.errors import UnavailableError
from trtbench.executors import ExecutorSettings, Needs, _ray_nodes
from trtbench.executors._ray_nodes import bundle
from trtbench.executors._slots import Slot, Want
from trtbench.executors.ray import JOINS, open_executor

NODES = (("small", 4.0), ("large", 16.0))
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.9.0
    Python: 3.10.2
This process on node 10.0.0.1 was started with:
    Ray: 2.60.0
    Python: 3.11.9
"""
NO_SERVER = """Initialization failure from server:
Traceback (most recent call last):
  File "proxier.py", line 772, in Datapath
RuntimeError: Starting Ray client server failed.
"""


@pytest.mark.parametrize(
    ("problem", "facts", "fix", "asked"),
    [
        (
            RuntimeError(MISMATCH),
            {"there": "Ray 2.9.0, Python 3.10.2", "here": "Ray 2.60.0, Python 3.11.9"},
            "ray==2.9.0",
            1,
        ),
        (
            ConnectionError("ray client connection timeout"),
            {"reason": "ray client connection timeout"},
            "ray status",
            1,
        ),
        (
            ConnectionAbortedError(NO_SERVER),
            {"reason": "RuntimeError: Starting Ray client server failed."},
            "ray status",
            JOINS,
        ),
    ],
)
def test_a_cluster_that_cannot_be_joined_says_why(
    monkeypatch: pytest.MonkeyPatch,
    problem: Exception,
    facts: dict[str, str],
    fix: str,
    asked: int,
) -> None:
    times = []

    def init(**_: object) -> None:
        times.append(problem)
        raise problem

    ray = types.SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="cannot be joined") as caught:
        open_executor(ExecutorSettings(address="ray://head:10001"))
    assert caught.value.facts == {"address": "ray://head:10001", **facts}
    assert fix in (caught.value.fix or "")
    assert len(times) == asked  # what may pass by itself is tried again


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_port_at_which_nothing_listens_is_said_before_ray_tries(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(_ray_nodes, "LISTEN_S", 0.0)
    asked: list[str] = []
    ray = types.SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda address, **_: asked.append(address),
        remote=lambda **_: lambda task: task,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)  # type: ignore[arg-type]
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))  # taken, and nobody listens yet
        address = f"{scheme}127.0.0.1:{head.getsockname()[1]}"
        with pytest.raises(UnavailableError, match="cannot be joined") as caught:
            open_executor(ExecutorSettings(address=address))
        assert caught.value.facts == {"address": address, "reason": "nothing listens there"}
        assert not asked
        head.listen()
        monkeypatch.setattr(_ray_nodes, "LISTEN_S", 30.0)
        open_executor(ExecutorSettings(address=address))
    assert asked == [address]


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnavailableError, match="needs Ray") as caught:
        open_executor(ExecutorSettings())
    assert caught.value.fix == "pip install 'trtbench[ray]'"


@pytest.mark.parametrize(
    ("needs", "taken", "beside", "asked"),
    [
        (Needs(), None, 1, {"CPU": 4.0}),  # the smaller of the nodes that would do
        (Needs(), 1, 1, {"CPU": 16.0}),  # its own
        (Needs(), None, 2, {"CPU": 2.0}),
        (Needs(resources={"camera": 1.0}), None, 1, {"CPU": 1.0, "camera": 1.0}),  # none is there
        (Needs(gpu=True, memory_bytes=8), None, 1, {"GPU": 1.0, "memory": 8.0}),
    ],
)
def test_runs_that_share_no_processor_ask_for_whole_ones(
    needs: Needs, taken: int | None, beside: int, asked: dict[str, float]
) -> None:
    places = [Slot(machine=name, title=name, resources={"CPU": cpus}) for name, cpus in NODES]
    want = Want(needs, None if taken is None else places[taken])
    assert bundle(want, places, (), beside=beside) == asked
