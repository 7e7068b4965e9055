"""Slots of machines, each for one job at a time, and the process that runs a job."""

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import JobError, StoreError, TrtbenchError, UnavailableError
from trtbench.core.jobs import ReportedError
from trtbench.core.safety import read_bytes
from trtbench.executors import contract
from trtbench.executors._transfer import ERROR, LOG, RUN, unpack
from trtbench.executors.contract import Needs, Notify
from trtbench.host.process import run_process, tail

RECORD, ANSWER = "run.json", "answer.msgpack"
Problems = Mapping[str, TrtbenchError]
LOOK_S = 1.0
"""Seconds between two checks, in a thread that waits for a job, whether the executor was closed."""
NEW_SLOTS_S = 2.0  # seconds between two looks for new slots, while a job waits for one


def run_node(
    job: contract.RemoteJob, *, folder: Path, environment: Mapping[str, str | None] | None = None
) -> str:
    """Run a job in a fresh process, without variables that are ``None``; returns how it ended."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "request.json").write_bytes(json_from_value(job))
    here = str(Path(__file__).resolve().parents[2])  # this copy of the package comes first
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    merged = {**os.environ, **(environment or {}), **own}
    ended = run_process(
        [sys.executable, "-m", "trtbench.node", str(folder / "request.json"), str(folder),
         "{events}"],
        log=folder / LOG,
        env={name: value for name, value in merged.items() if value is not None},
        folder=folder,
        timeout_s=job.limit_s,
    )  # fmt: skip
    return "timed out" if ended.timed_out else ended.signal or f"status {ended.status}"


def interrupt_if_closed(closed: threading.Event) -> None:
    """Raise ``KeyboardInterrupt`` in a thread whose executor was closed."""
    if closed.is_set():
        raise KeyboardInterrupt


def receive(archive: Path, folder: Path, *, where: str, how: str) -> None:
    """Put the run directory of ``pack_results`` into a folder, or raise the error beside it."""
    left = archive.with_name("left")
    unpack(archive, left)
    if (left / RUN).is_dir():  # a failed job leaves its log there
        shutil.copytree(left / RUN, folder, dirs_exist_ok=True)
    result_of(left, where=where, how=how)


def result_of(folder: Path, *, where: str, how: str) -> Path:
    """Return the run directory that a job wrote, or raise the error that it reported."""
    run, path = folder / RUN, folder / ERROR
    if any((run / name).is_file() for name in (RECORD, f"1/{RECORD}", ANSWER)):
        return run
    if not path.is_file():
        facts = {"where": where, "how it ended": how}
        raise JobError("the job ended without a result", facts=facts, log_tail=tail(folder / LOG))
    reported = value_from_json(read_bytes(path), ReportedError, where=str(path))
    facts = {**reported.facts, "where": where}
    # A full disk there must not look like a broken local store, which would end a sweep.
    if reported.kind == StoreError.__name__:
        fix = "free disk space there, or leave out this machine"
        raise UnavailableError(reported.message, facts=facts, fix=fix)
    raise reported.having(facts=facts).error(JobError)


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of one machine: a GPU, or the processor."""

    machine: str
    gpu: int | None = None  # the number of the GPU; `None` is the processor
    number: int = 0  # counts the jobs that share the processor, or the slices of a GPU
    title: str = field(compare=False)  # the name shown to people
    visible: str = field(default="", compare=False)
    """``CUDA_VISIBLE_DEVICES`` for a divided GPU: the UUID of a slice."""
    gpu_type: str = field(default="", compare=False)
    resources: dict[str, float] = field(default_factory=dict, compare=False)

    def lacks(self, needs: Needs) -> str | None:
        """Return what is missing for a job, or ``None`` if it can run here."""
        if needs.gpu != (self.gpu is not None):
            return "has no GPU" if needs.gpu else "this slot is a GPU"
        if needs.machine and not self.matches_name(needs.machine.lower()):
            return "is another machine"
        if needs.gpu_type and needs.gpu_type.lower() not in self.gpu_type.lower():
            return f"its GPU is {self.gpu_type or 'of unknown type'}"
        for name, amount in needs.resources.items():
            if self.resources.get(name, 0.0) < amount:
                return f"has no {contract.text_of_resource(name, amount)}"
        return None

    def matches_name(self, name: str) -> bool:
        """Return whether a name is part of the machine's or GPU's name, or names a resource."""
        known = f"{self.title} {self.gpu_type}".lower()
        return name in known or name in map(str.lower, self.resources)


class MachineLost(Exception):
    """The machine of a job has disappeared, or the connection to it was lost."""

    def __init__(self, problem: TrtbenchError) -> None:
        super().__init__(problem.message)
        self.problem = problem


class SlotExecutor(contract.Executor):
    """An executor that gives each job a slot of its own; may be used by several threads."""

    def __init__(
        self, list_slots: Callable[[], Iterable[Slot]], *, patience_s: float = 0.0
    ) -> None:
        """If no slot fits a job, wait up to ``patience_s`` for a machine to join."""
        self._list_slots, self._patience_s = list_slots, patience_s
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._taken: set[Slot] = set()
        self._used: Counter[Slot] = Counter()
        self.unusable: dict[str, TrtbenchError] = {}  # machines that get no more jobs, and why

    def width(self, needs: Needs) -> int:
        return len(self.fitting_slots(needs))

    def close(self) -> None:
        self._closed.set()

    def run_in_slot(
        self, needs: Needs, work: Callable[[Slot], None], *, notify: Notify, retries: int = 0
    ) -> None:
        """Call ``work`` with a slot; if the machine fails, not the job itself, with another one."""
        unable: dict[str, TrtbenchError] = {}
        while True:
            with self.hold_slot(needs, unable, notify=notify) as slot:
                try:
                    return work(slot)
                except MachineLost as lost:
                    retries -= 1
                    if retries < 0:
                        raise lost.problem from None
                    reason = lost.problem.facts.get("reason", lost.problem.message)
                    notify(f"{slot.title} was lost ({reason}); {contract.AGAIN}")
                except UnavailableError as problem:
                    unable[slot.machine] = problem

    def fitting_slots(self, needs: Needs, unable: Problems | None = None) -> list[Slot]:
        """Return the slots in which such a job can run, free or not; raises if there is none."""
        interrupt_if_closed(self._closed)
        slots = list(self._list_slots())
        fitting = [slot for slot in slots if slot.lacks(needs) is None]
        refused = {**self.unusable, **(unable or {})}
        able = [slot for slot in fitting if slot.machine not in refused]
        if able:
            return able
        if fitting:
            raise refused[fitting[0].machine]
        # Slots of the right kind come last: what they lack replaces the reason of the others.
        slots.sort(key=lambda slot: (slot.gpu is not None) == needs.gpu)
        by_machine = {slot.machine: (slot.title, slot.lacks(needs) or "") for slot in slots}
        reasons = dict(list(by_machine.values())[:8])
        name = (needs.machine or "").lower()
        known = not reasons or any(slot.matches_name(name) for slot in slots)
        raise UnavailableError(
            "no machine can run this" + ("" if known else f": none is called {needs.machine}"),
            facts={"needed": needs, **(reasons or {"machines": "none"})},
            fix="require less, or add a machine that has it"
            if known
            else f"name one of these, or add it: {', '.join(reasons)}",
        )

    @contextmanager
    def hold_slot(self, needs: Needs, unable: Problems, *, notify: Notify) -> Iterator[Slot]:
        """Hold one fitting slot during the block; waits until one is free."""
        slot: Slot | None = None
        waits, deadline = "", time.monotonic() + self._patience_s
        while slot is None:
            try:
                fitting = self.fitting_slots(needs, unable)  # machines may leave meanwhile
            except UnavailableError:
                if time.monotonic() >= deadline:
                    raise
                if waits != "to join":
                    notify(f"{contract.WAITING} to join that has {needs}")
                    waits = "to join"
                time.sleep(min(NEW_SLOTS_S, max(0.0, deadline - time.monotonic())))
                continue
            if waits == "to join":
                notify("a machine has joined")
                waits = ""
            deadline = time.monotonic() + self._patience_s
            with self._changed:
                free = [each for each in fitting if each not in self._taken]
                if free:  # the least used first: idle machines are cool machines
                    slot = min(free, key=lambda each: self._used[each])
                    self._used[slot] += 1
                    self._taken.add(slot)
                    break
            if not waits:
                notify(contract.WAITING)
                waits = "for its turn"
            with self._changed:
                self._changed.wait(NEW_SLOTS_S)
        try:
            yield slot
        finally:
            with self._changed:
                self._taken.remove(slot)
                self._changed.notify_all()
