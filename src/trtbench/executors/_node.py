"""Machines as an executor sees them: places for one job at a time, and the process of a job."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import JobError, StoreError, TrtbenchError, UnavailableError
from trtbench.core.jobs import ReportedError
from trtbench.core.safety import read_bytes
from trtbench.executors.contract import (
    AGAIN,
    WAITING,
    Executor,
    Needs,
    Notify,
    RemoteJob,
    text_of_resource,
)
from trtbench.host.process import run_process, tail

RUN, ERROR, LOG = "run", "error.json", "node.log"
RECORD, ANSWER = "run.json", "answer.msgpack"
HERE = "this machine"
EMPTY: Mapping[str, TrtbenchError] = MappingProxyType({})
LOOK_S = 1.0
"""How often a thread that waits for a job checks whether it is still wanted."""
PLACES_S = 2.0
"""How often a job that waits for a place looks for new ones."""


def run_node(
    job: RemoteJob,
    *,
    folder: Path,
    environment: Mapping[str, str | None] | None = None,
) -> Path:
    """Carry out a job in a fresh process; returns the folder of the run, finished or failed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "request.json").write_bytes(json_from_value(job))
    # This very package comes before any other; a variable that is given as ``None`` is left out.
    paths = [
        str(Path(__file__).resolve().parents[2]),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
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
    how = "no end in time" if ended.timed_out else ended.signal or f"status {ended.status}"
    return result_of(folder, where=HERE, how=how)


def interrupt_if(closed: threading.Event) -> None:
    """Raise ``KeyboardInterrupt`` in a thread whose executor was closed."""
    if closed.is_set():
        raise KeyboardInterrupt


def result_of(folder: Path, *, where: str, how: str) -> Path:
    """Return the run directory that a node left, or raise the error that it reported."""
    run, path = folder / RUN, folder / ERROR
    if any((run / name).is_file() for name in (RECORD, f"1/{RECORD}", ANSWER)):
        return run
    if path.is_file():
        reported = value_from_json(read_bytes(path), ReportedError, where=str(path))
        raise error_from_machine(reported, where=where)
    facts = {"where": where, "how it ended": how}
    raise JobError("the work was not carried out", facts=facts, log_tail=tail(folder / LOG))


def error_from_machine(reported: ReportedError, *, where: str) -> TrtbenchError:
    """Return the same error here, with the machine among its facts.

    A full disk there must not look like a broken store here, which would end a sweep.
    """
    facts = {**reported.facts, "where": where}
    if reported.kind == StoreError.__name__ and where != HERE:
        fix = "make room there, or leave this machine out"
        return UnavailableError(reported.message, facts=facts, fix=fix)
    return reported.having(facts=facts).error(JobError)


SlotKey = tuple[str, int | None, int]


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of one machine: a GPU, or the processor."""

    machine: str
    title: str
    """For people."""
    gpu: int | None = None
    """The number of the GPU; ``None`` is the processor."""
    number: int = 0
    """Among the jobs that share the processor, or the slices of a GPU."""
    visible: str = ""
    """``CUDA_VISIBLE_DEVICES`` for a divided GPU: the UUID of a slice."""
    gpu_type: str = ""
    resources: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> SlotKey:
        return (self.machine, self.gpu, self.number)

    def lacks(self, needs: Needs) -> str | None:
        """Return what is missing for a job, or ``None`` when it can run here."""
        if needs.gpu != (self.gpu is not None):
            return "has no GPU" if needs.gpu else "this place is a GPU"
        if needs.machine and not self.is_called(needs.machine.lower()):
            return "is another machine"
        if needs.gpu_type and needs.gpu_type.lower() not in self.gpu_type.lower():
            return f"its GPU is {self.gpu_type or 'of unknown type'}"
        for name, amount in needs.resources.items():
            if self.resources.get(name, 0.0) < amount:
                return f"has no {text_of_resource(name, amount)}"
        return None

    def is_called(self, name: str) -> bool:
        """Return whether a machine goes by part of its or its GPU's name, or by a resource."""
        known = f"{self.title} {self.gpu_type}".lower()
        return name in known or name in map(str.lower, self.resources)


class MachineLost(Exception):
    """The machine a job was on is gone, or the connection to it was cut."""

    def __init__(self, problem: TrtbenchError) -> None:
        super().__init__(problem.message)
        self.problem = problem


class SlotExecutor(Executor):
    """An executor that gives each job a place of its own; threads that want one share them."""

    def __init__(self, look: Callable[[], Iterable[Slot]], *, patience_s: float = 0.0) -> None:
        """``look`` lists the places; with patience, those that are not there yet are waited for."""
        self._look, self._patience_s = look, patience_s
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._taken: set[SlotKey] = set()
        self._used: Counter[SlotKey] = Counter()
        self.unusable: dict[str, TrtbenchError] = {}
        """Machines that no job is given to any more, and why."""

    def width(self, needs: Needs) -> int:
        return len(self.fitting(needs))

    def close(self) -> None:
        self._closed.set()

    def carry_out(
        self, needs: Needs, work: Callable[[Slot], None], *, notify: Notify, retries: int = 0
    ) -> None:
        """Do a job at a fitting place, and at another where a machine is lost or lacks something.

        What the job itself does wrong is raised: it would go wrong everywhere.
        """
        unable: dict[str, TrtbenchError] = {}
        while True:
            with self.taken(needs, notify=notify, unable=unable) as slot:
                try:
                    return work(slot)
                except MachineLost as lost:
                    retries -= 1
                    if retries < 0:
                        raise lost.problem from None
                    reason = lost.problem.facts.get("reason", lost.problem.message)
                    notify(f"{slot.title} was lost ({reason}); {AGAIN}")
                except UnavailableError as problem:
                    unable[slot.machine] = problem

    def fitting(self, needs: Needs, unable: Mapping[str, TrtbenchError] = EMPTY) -> list[Slot]:
        """Return the places where such a job can run; raises when there is none."""
        interrupt_if(self._closed)
        places = list(self._look())
        fitting = [slot for slot in places if slot.lacks(needs) is None]
        refused = {**self.unusable, **unable}
        able = [slot for slot in fitting if slot.machine not in refused]
        if able:
            return able
        if fitting:
            raise refused[fitting[0].machine]
        # Of a machine, what its place of the right kind lacks says more.
        places.sort(key=lambda slot: (slot.gpu is not None) == needs.gpu)
        by_machine = {slot.machine: (slot.title, slot.lacks(needs) or "") for slot in places}
        reasons = dict(list(by_machine.values())[:8])
        known = not reasons or any(slot.is_called((needs.machine or "").lower()) for slot in places)
        raise UnavailableError(
            "no machine can ever do this" + ("" if known else f": none is called {needs.machine}"),
            facts={"needed": needs, **(reasons or {"machines": "none"})},
            fix="require less, or add a machine that has it"
            if known
            else f"name one of these, or add it: {', '.join(reasons)}",
        )

    @contextmanager
    def taken(
        self, needs: Needs, *, notify: Notify, unable: Mapping[str, TrtbenchError] = EMPTY
    ) -> Iterator[Slot]:
        """Hold one fitting place for the length of the block, waiting for it if need be."""
        slot: Slot | None = None
        waits, deadline = "", time.monotonic() + self._patience_s
        while slot is None:
            try:
                fitting = self.fitting(needs, unable)  # also when the one waited for has left
            except UnavailableError:
                if time.monotonic() >= deadline:
                    raise
                if waits != "to come":
                    notify(f"{WAITING} to come that has {needs}")
                    waits = "to come"
                time.sleep(min(PLACES_S, max(0.0, deadline - time.monotonic())))
                continue
            if waits == "to come":
                notify("a machine has come")
                waits = ""
            deadline = time.monotonic() + self._patience_s
            with self._changed:
                free = [each for each in fitting if each.key not in self._taken]
                if free:  # the least used first: idle machines are cool machines
                    slot = min(free, key=lambda each: self._used[each.key])
                    self._used[slot.key] += 1
                    self._taken.add(slot.key)
                    break
            if not waits:
                notify(WAITING)
                waits = "for its turn"
            with self._changed:
                self._changed.wait(PLACES_S)
        try:
            yield slot
        finally:
            with self._changed:
                self._taken.remove(slot.key)
                self._changed.notify_all()
