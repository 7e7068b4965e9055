"""Launches of both sides that start at once: each measures when the one before it is over.

Starting a process and loading an engine takes longer than measuring; done together, it is waited
for once. Nobody measures while anybody starts, loads or ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from trtbench.domain.job import BenchOutcome, DuetJob, JobEnd
from trtbench.domain.spec import RunSpec
from trtbench.executors.local import Assignment
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import read_samples
from trtbench.store.store import Store
from trtbench.workflows.compare.sides import SIDES, Sides
from trtbench.workflows.measure.failure import NO_MEMORY
from trtbench.workflows.measure.job import read_outcome
from trtbench.workflows.measure.launches import Launch, device_of
from trtbench.workflows.measure.watch import free_memory_bytes

PROCESS_BYTES = 1 << 30
"""GPU memory of a process beside its engine: CUDA's context, kernels, inputs and outputs."""
TIMES_ENGINE = 3
"""GPU memory of an engine by its size on disk: weights, and as much again twice to work in."""


class Wave:
    """The processes of several launches, a pair each, and how they wait for one another."""

    def __init__(
        self,
        jobs: Sequence[tuple[DuetJob, DuetJob]],
        *,
        sides: Sides,
        store: Store,
        early: bool = True,
    ) -> None:
        self._launches = len(jobs)
        self._held, self._lent = ExitStack(), ExitStack()
        self._folder = self._held.enter_context(store.scratch())
        self._held.enter_context(self._lent)
        shared = (self._pipe(), self._pipe())  # until all have started, and until all are over
        over = [self._pipe() for _ in jobs]  # each ends with the launch before it
        self.assignments = []
        for number, both in enumerate(jobs):
            ends = [self._lent.enter_context(end) for end in socket.socketpair()]
            after = tuple(end for _, end in over[number + 1 : number + 2])
            pipes = (*shared[0], over[number][0], *shared[1], *after)
            for side, end, job in zip(SIDES, ends, both, strict=True):
                self.assignments.append(
                    Assignment(
                        job=job,
                        folder=self._folder / f"{number}-{side}",
                        python=sides.pythons[side],
                        descriptors=(end.fileno(), *pipes),
                        variables=_early(sides.both[side]) if early and job.together else {},
                    )
                )

    def let_go(self) -> None:
        """Close what the processes wait for each other with: it is theirs alone from now on."""
        self._lent.close()

    def left(self, side: int) -> list[Launch]:
        """Read what a side left, launch by launch."""
        folders = [self._folder / f"{number}-{side}" for number in range(self._launches)]
        return [read_launch(folder / f"side-{side}") for folder in folders]

    def __enter__(self) -> Wave:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        for end in ends:
            self._lent.callback(os.close, end)
        return ends


def read_launch(folder: Path) -> Launch:
    """Read what one side of a launch left in its folder."""
    return Launch(outcome=read_outcome(folder, BenchOutcome), times=read_samples(folder))


def launches_that_fit(sides: Sides) -> int:
    """Count the launches that a GPU has room for at once; none where it does not tell."""
    free = free_memory_bytes(device_of(sides.baseline))
    return 0 if free is None else free // sum(map(_room_bytes, sides.both))


def _early(spec: RunSpec) -> dict[str, str]:
    """Have a process begin early what all of them would wait for."""
    early_context = RUNTIMES.load(spec.runtime).early_context
    return {} if early_context is None else early_context(spec)


def _room_bytes(spec: RunSpec) -> int:
    return PROCESS_BYTES + TIMES_ENGINE * (spec.model.size_bytes or 0)


def gravest_first(
    ends: list[JobEnd], assignments: list[Assignment]
) -> list[tuple[JobEnd, Assignment]]:
    """Put a side that only lost its partner, or was ended with it, after the one that failed."""
    both = list(zip(ends, assignments, strict=True))
    return sorted(both, key=lambda each: _is_bystander(each[0]))


def _is_bystander(end: JobEnd) -> bool:
    if end.error is not None:
        return end.error.kind == "PartnerLost"
    return end.signal == "SIGTERM" and not end.timed_out


def lacked_room(end: JobEnd) -> bool:
    """Say whether a process failed in a way that others beside it may have caused."""
    if end.ok or end.timed_out or _is_bystander(end):
        return False
    return end.error is None or end.error.kind in (NO_MEMORY, "CudaError", "UnavailableError")


def cause_of(ends: Sequence[JobEnd]) -> str:
    """Say of the gravest end what became of it, and in which stage."""
    end = next(each for each in ends if lacked_room(each))
    what = end.error.message if end.error else end.signal or f"status {end.exit_status}"
    return f"{what}, stage {end.stage}"
