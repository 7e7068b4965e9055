"""Launches of both sides that start at once: each measures when the one before it is over.

Starting a process and loading an engine takes longer than measuring; done together, it is waited
for once. Nobody measures while anybody starts, loads or ends. Where in the GPU's memory an engine
comes to lie is part of its time, and depends on how many have loaded before: so a group of launches
that load one after the other is followed, when it is gone, by one with the sides exchanged.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from trtbench.domain.job import BenchOutcome, DuetJob, JobEnd
from trtbench.domain.spec import RunSpec
from trtbench.executors.local import Assignment
from trtbench.host.early_context import later
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import read_samples
from trtbench.store.store import Store
from trtbench.workflows.compare.sides import FIRST_LOOK, GROUP, SIDES, Sides
from trtbench.workflows.measure.failure import NO_MEMORY
from trtbench.workflows.measure.job import read_outcome
from trtbench.workflows.measure.launches import Launch, device_of
from trtbench.workflows.measure.watch import free_memory_bytes

PROCESS_BYTES = 1 << 30
"""GPU memory of a process beside its engine: CUDA's context, kernels, inputs and outputs."""
TIMES_ENGINE = 3
"""GPU memory of an engine by its size on disk: weights, and as much again twice to work in."""


Jobs = tuple[DuetJob, DuetJob]
"""A launch: the baseline's process and the candidate's."""


class Wave:
    """The processes of several launches, a pair each, and how they wait for one another."""

    def __init__(
        self, groups: Sequence[Sequence[Jobs]], *, sides: Sides, store: Store, early: bool
    ) -> None:
        self._sides, self._early = sides, early
        self._launches = sum(map(len, groups))
        self._held, self._lent = ExitStack(), ExitStack()
        self._folder = self._held.enter_context(store.scratch())
        self._held.enter_context(self._lent)
        self.assignments: list[Assignment] = []
        imports = self._pipe()  # until all have imported
        gone = [self._pipe() for _ in range(len(groups) + 1)]  # until a group is no more
        for group, (before, after) in zip(groups, pairwise(gone), strict=True):
            self._assign(group, (*imports, before[0], after[1]))

    def _assign(self, group: Sequence[Jobs], pipes: tuple[int, ...]) -> None:
        """Have launches load one after the other, and then measure so, from link to link."""
        contexts, end = self._pipe(), self._pipe()  # until all have one, and until all are over
        links = [self._pipe() for _ in range(2 * len(group) + 1)]
        is_first = not self.assignments
        for number, both in enumerate(group):
            steps = (links[step : step + 2] for step in (number, len(group) + number))
            chain = [each for before, after in steps for each in (before[0], after[1])]
            channels = [self._lent.enter_context(each) for each in socket.socketpair()]
            for side, channel, job in zip(SIDES, channels, both, strict=True):
                variables = _context(self._sides.both[side]) if self._early else {}
                self.assignments.append(
                    Assignment(
                        job=job,
                        folder=self._folder / f"{len(self.assignments) // 2}-{side}",
                        python=self._sides.pythons[side],
                        descriptors=(channel.fileno(), *pipes, *contexts, *chain, *end),
                        variables=variables if is_first else later(variables),
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


def load_orders(wanted: int, *, at_once: int) -> list[list[tuple[int, int]]]:
    """Settle which launches are on the GPU at once, and at which place of the order sides load.

    Two groups of as many, in the second of which the sides are exchanged. Where there is room for
    one launch alone, each is a group, and four start: where a board's memory is the GPU's too,
    processes that only wait shall not fill it.
    """
    size = min((wanted + 1) // 2, GROUP, at_once)
    sizes = [size, min(size, wanted - size)] if at_once > 1 else [1] * min(wanted, FIRST_LOOK)
    return [
        [_pair(2 * launch, (launch + group) % 2) for launch in range(count)]
        for group, count in enumerate(sizes)
        if count
    ]


def _pair(place: int, first: int) -> tuple[int, int]:
    return (place + 1, place) if first else (place, place + 1)


def launches_that_fit(sides: Sides) -> int:
    """Count the launches that a GPU has room for at once; none where it does not tell."""
    free = free_memory_bytes(device_of(sides.baseline))
    return 0 if free is None else free // sum(map(_room_bytes, sides.both))


def _context(spec: RunSpec) -> dict[str, str]:
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
