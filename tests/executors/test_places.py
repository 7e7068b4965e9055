"""Places for runs: what fits, who waits, and what a list of hosts makes of it."""

import contextlib
import sys
import threading
import types
from pathlib import Path

import pytest

from trtbench.core.errors import UnavailableError, UsageError
from trtbench.executors._node import Slot, SlotExecutor
from trtbench.executors.contract import Executor, ExecutorSettings, Needs
from trtbench.executors.ray import JOINS, open_executor
from trtbench.executors.ssh import hosts_from_file, slots_of
from trtbench.executors.ssh import open_executor as open_hosts

GIB = 1 << 30
GPU = Slot(
    machine="lab", title="lab, L4", gpu=0, gpu_type="NVIDIA L4",
    resources={"camera": 1.0, "memory": 64 * GIB, "gpu_memory": 24 * GIB},
)  # fmt: skip
CPU = Slot(machine="lab", title="lab", resources={"memory": 64 * GIB})


def quiet(text: str) -> None:
    pass


@pytest.mark.parametrize(
    ("slot", "needs", "lacks"),
    [
        (CPU, Needs(), None),
        (GPU, Needs(gpu=True), None),
        (GPU, Needs(gpu=True, gpu_type="l4", resources={"gpu_memory": 24 * GIB}), None),
        (GPU, Needs(gpu=True, resources={"camera": 1.0}), None),
        (GPU, Needs(gpu=True, machine="l4"), None),
        (GPU, Needs(gpu=True, machine="Camera"), None),
        (GPU, Needs(gpu=True, machine="came"), "another machine"),  # resources by their full names
        (CPU, Needs(gpu=True), "has no GPU"),
        (GPU, Needs(), "this slot is a GPU"),
        (GPU, Needs(gpu=True, gpu_type="H100"), "its GPU is NVIDIA L4"),
        (Slot(machine="x", title="x", gpu=0), Needs(gpu=True, gpu_type="H100"), "unknown type"),
        (CPU, Needs(gpu_type="H100"), "unknown type"),
        (CPU, Needs(resources={"memory": 65 * GIB}), "has no memory 65"),
        (Slot(machine="x", title="x"), Needs(resources={"memory": 1}), "has no memory"),
        (GPU, Needs(gpu=True, resources={"gpu_memory": 25 * GIB}), "has no gpu memory 25"),
        (GPU, Needs(gpu=True, resources={"camera": 2.0}), "has no camera 2"),
    ],
)
def test_a_place_says_what_it_lacks(slot: Slot, needs: Needs, lacks: str | None) -> None:
    found = slot.lacks(needs)
    assert (found is None) if lacks is None else (found is not None and lacks in found)


def test_nobody_fits_and_every_machine_says_why() -> None:
    with pytest.raises(UnavailableError, match="no machine can run this") as caught:
        SlotExecutor(lambda: [CPU, GPU]).fitting_slots(Needs(gpu=True, gpu_type="B200"))
    assert caught.value.facts["lab, L4"] == "its GPU is NVIDIA L4"
    both = [Slot(machine="lab", title="lab"), Slot(machine="lab", title="lab", gpu=0)]
    for needs in (Needs(resources={"lidar": 1.0}), Needs(gpu=True, resources={"lidar": 1.0})):
        with pytest.raises(UnavailableError) as caught:
            SlotExecutor(lambda: both).fitting_slots(needs)
        assert caught.value.facts["lab"] == "has no lidar 1"
    with pytest.raises(UnavailableError) as caught:
        SlotExecutor(list).fitting_slots(Needs(machine="lab"))
    assert caught.value.facts["machines"] == "none"


def test_idle_places_are_used_first_and_a_taken_one_is_waited_for() -> None:
    places = [Slot(machine=name, title=name) for name in ("a", "b")]
    slots, told = SlotExecutor(lambda: places), []
    with slots.hold_slot(Needs(), {}, notify=quiet) as first:
        pass
    waiting = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waiting.set()

    got: list[str] = []

    def third() -> None:
        with slots.hold_slot(Needs(), {}, notify=tell) as slot:
            got.append(slot.machine)

    with slots.hold_slot(Needs(), {}, notify=quiet) as second:
        assert {first.machine, second.machine} == {"a", "b"}
        with slots.hold_slot(Needs(), {}, notify=quiet):
            thread = threading.Thread(target=third)
            thread.start()
            waiting.wait()
            assert got == []
        thread.join()
    assert told == ["waiting for a machine"]
    assert len(got) == 1


@pytest.mark.parametrize("begins_with", [[], [CPU]])
def test_a_machine_that_is_not_there_yet_or_has_left_is_asked_for_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, begins_with: list[Slot]
) -> None:
    monkeypatch.setattr("trtbench.executors._node.NEW_SLOTS_S", 0.01)
    places, told = list(begins_with), []
    other = Slot(machine="new", title="new")

    def tell(text: str) -> None:
        told.append(text)
        if text == "waiting for a machine":
            places.clear()  # the one that is busy leaves
        elif text == "waiting for a machine to join that has a processor":
            places.append(other)

    slots = SlotExecutor(lambda: places, patience_s=60.0)
    with contextlib.ExitStack() as held:
        if begins_with:
            held.enter_context(slots.hold_slot(Needs(), {}, notify=quiet))
        with slots.hold_slot(Needs(), {}, notify=tell) as slot:
            assert slot is other
    joined = ["waiting for a machine to join that has a processor", "a machine has joined"]
    assert told[-2:] == joined


def test_the_devices_of_a_host(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        "[[host]]\naddress = 'me@orin'\nname = 'board'\ngpus = 2\ngpu_type = 'Orin'\n"
        "memory = '32GiB'\ngpu_memory = '8GiB'\nresources = { camera = 1 }\n"
        "[[host]]\naddress = 'plain'\n"
    )
    board, plain = hosts_from_file(path)
    assert (board.title, plain.title) == ("board", "plain")
    cpu, other, *gpus = slots_of(board, beside=2)
    assert [cpu, other] == [Slot(machine="board", title="", number=number) for number in (0, 1)]
    assert [slot.gpu for slot in gpus] == [0, 1]
    assert cpu.lacks(Needs(gpu_type="orin")) is None  # work beside it
    assert (
        gpus[0].lacks(Needs(gpu=True, gpu_type="orin", resources={"gpu_memory": 8 * GIB})) is None
    )
    assert (
        gpus[0].lacks(Needs(gpu=True, resources={"memory": 33 * GIB})) == "has no memory 33.0 GiB"
    )
    assert slots_of(plain) == [Slot(machine="plain", title="plain")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("environment = { 'A B' = '1' }", "'A B' is not a valid variable name"),
        ("environment = { 'x;reboot' = '1' }", "is not a valid variable name"),
        ("environment = { 'ä' = '1' }", "is not a valid variable name"),
        ("gpus = -1", "gpus must be 0 to 1024"),
        ("gpus = 1025", "gpus must be 0 to 1024"),
        ("memory = 'lots'", "lots"),
        ("port = 'y'", "not a valid hosts file"),
        ("adress = 'x'", "not a valid hosts file"),
        ("[[host]]\naddress = 'me@orin'", "twice"),
        ("[[host]]\naddress = ''", "not an address"),
        ("[[host]]\naddress = '-oProxyCommand=evil'", "not an address"),
        ("[[host]]\naddress = 'me:secret@board'", "cannot contain a password"),
        ("[[host]]\naddress = 'me@board:2222'", "cannot contain a port"),
        ("[[hosts]]\naddress = 'x'", "not a valid hosts file"),
    ],
)
def test_what_no_machine_has_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(f"[[host]]\naddress = 'me@orin'\n{text}\n")
    with pytest.raises(UsageError, match=message) as caught:
        open_hosts(ExecutorSettings(hosts=path))
    told = f"{caught.value} {caught.value.facts}"
    assert "me@orin" in told or "[[" in text or "valid hosts file" in message
    assert "secret" not in told
    assert "\\n" not in str(caught.value)


def test_a_list_of_hosts_has_some(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").touch()
    with pytest.raises(UsageError, match="lists no host"):
        open_hosts(ExecutorSettings(hosts=tmp_path / "hosts.toml"))
    with pytest.raises(UsageError, match="needs a hosts file"):
        open_hosts(ExecutorSettings())


class Growing(Executor):
    """An executor whose machines come and go."""

    def __init__(self) -> None:
        self.places, self.closed = 1, False

    def width(self, needs: Needs) -> int:
        if needs.gpu or not self.places:
            raise UnavailableError("none")
        return self.places

    def close(self) -> None:
        self.closed = True


def test_cases_follow_machines_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtbench.executors.contract.LOOK_S", 0.01)
    executor, lock = Growing(), threading.Lock()
    now, most, met = 0, {1: 0, 3: 0, 0: 0}, threading.Barrier(3)

    def work(number: int) -> None:
        nonlocal now
        with lock:
            now += 1
            most[executor.places] = max(most[executor.places], now)
        if number == 1:
            executor.places = 3
        if 2 <= number <= 4:
            met.wait(30)  # only three at a time get beyond this
        if number == 4:
            executor.places = 0  # all have left; who asks next is told so by the executor itself
        with lock:
            now -= 1

    executor.each(range(8), work)
    assert (most[1], most[3]) == (1, 3)
    assert most[0] <= 3
    assert not executor.closed


def test_the_first_to_fail_ends_the_others() -> None:
    executor, seen = Growing(), []

    def work(number: int) -> None:
        seen.append(number)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        executor.each(range(4), work)
    assert seen == [0]
    assert executor.closed


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
    monkeypatch: pytest.MonkeyPatch, problem: Exception, facts: dict[str, str], fix: str, asked: int
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
