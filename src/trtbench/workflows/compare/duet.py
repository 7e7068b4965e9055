"""Measure two sides in turn, launch by launch, and keep each as an ordinary run."""

from __future__ import annotations

import math
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

from trtbench.analysis.shared_metrics import metric_of_both
from trtbench.analysis.turn_plan import pairs_for_noise
from trtbench.analysis.turns import alone_effects
from trtbench.analysis.verdict import sentence
from trtbench.domain.comparison import Verdict
from trtbench.domain.job import BenchJob, DuetJob, Job, JobEnd
from trtbench.domain.result import DuetRef, Environment, LaunchFacts, Run, Scalar
from trtbench.domain.samples import Column
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.domain.words import Mode
from trtbench.executors import check_interpreter
from trtbench.executors.local import Assignment, run_jobs
from trtbench.host.contention import counters_between, read_counters
from trtbench.models.identity import demand_unchanged
from trtbench.store.store import Store
from trtbench.workflows.compare.sides import (
    BURSTS_LOOK,
    FIRST_LOOK,
    LAUNCHES_S,
    SIDES,
    PairDesign,
    Sides,
    settled_mode,
)
from trtbench.workflows.compare.watches import Watches
from trtbench.workflows.compare.wave import (
    Jobs,
    Wave,
    cause_of,
    gravest_first,
    lacked_room,
    launches_that_fit,
    load_orders,
    read_launch,
)
from trtbench.workflows.measure.failure import end_with_same_bytes, fail_job
from trtbench.workflows.measure.job import environment_of
from trtbench.workflows.measure.launches import (
    Launch,
    device_of,
    hold_device,
    refuse_without_library,
)
from trtbench.workflows.measure.rounds import keep_run
from trtbench.workflows.measure.watch import watch_told
from trtbench.workflows.request.comparing import LAUNCHES
from trtbench.workflows.request.conduct import PATIENCE_S, TICK_S, Conduct, expected_s
from trtbench.workflows.request.progress import Event


class Duet:
    """Launches of two sides, measured in turn; more can be added until the answer is clear."""

    def __init__(
        self,
        sides: Sides,
        *,
        store: Store,
        conduct: Conduct,
        mode: Mode = "auto",
        pairs: int | None = None,
        seed: int = 0,
        limit_s: float | None = None,
    ) -> None:
        for spec, python in zip(sides.both, sides.pythons, strict=True):
            if python is not None:
                check_interpreter(python)
            refuse_without_library(spec, replace(conduct, python=python))
        self.sides = sides
        self.mode = settled_mode(mode, sides)
        self._store, self._conduct = store, conduct
        self._pairs, self._seed = pairs, seed
        self._launches: tuple[list[Launch], list[Launch]] = ([], [])
        self._played = 0
        self._at_once: int | None = None
        """Launches with bursts that load at once; ``None`` until the GPU was asked for room."""
        self._early = True
        """Whether processes that load at once begin CUDA's contexts before they import."""
        self.on_results: Callable[[], None] = lambda: None
        """Called when launches with bursts have left all they measured; their processes may end."""
        self._limit_s = limit_s
        self.seconds = 0.0
        """How long it has been measured, without waiting for a device that others held."""
        self._began = 0.0
        self.bursts = self.mode == "bursts"
        """Whether further launches have bursts; those whose verdict is known need none."""
        self._environment: Environment | None = None
        self._contention: dict[str, Scalar] = {}
        self._watches = Watches(
            sides, listen=lambda text: conduct.listen(Event(kind="note", text=text))
        )

    @property
    def design(self) -> PairDesign:
        if self.mode in ("bursts", "launches"):
            return self.mode
        return "duet"

    @property
    def headline(self) -> str:
        """What the sides are judged by: a time that both have."""
        first, second = (launches[0].times for launches in self._launches)
        return metric_of_both(first, second)

    @property
    def launches(self) -> int:
        return len(self._launches[0])

    @property
    def facts(self) -> tuple[list[LaunchFacts], list[LaunchFacts]]:
        """What the launches of each side told beside their samples."""
        first, second = ([each.outcome.facts for each in side] for side in self._launches)
        return first, second

    @property
    def more(self) -> int:
        """Launches before the next look: half as many again; of bursts, an even number."""
        half = max(1, self.launches // 2)
        half += half % 2 if self.mode == "bursts" else 0
        return int(min(half, max(1, self._left())))

    @property
    def out_of_time(self) -> bool:
        """Whether another launch would last longer than anybody waits unasked."""
        return self._left() < 1

    def columns(self, name: str = "host") -> list[tuple[Column, Column]]:
        """Find the pairs of one column, launch by launch."""
        first, second = self._launches
        return [
            (getattr(a.times, name), getattr(b.times, name))
            for a, b in zip(first, second, strict=True)
        ]

    def play(self, launches: int | None) -> None:
        """Measure so many more launches of both sides; ``None``: as many as is usual.

        Slow models are given fewer: their queries are averages already.
        """
        least = launches if launches is not None else FIRST_LOOK
        specs = self.sides.both
        devices = {device_of(spec): spec for spec in specs}
        with ExitStack() as held:
            for _, spec in sorted(devices.items()):  # one order for all: no deadlock
                held.enter_context(hold_device(spec, self._conduct))
            if self.mode != "bursts":
                self._store.open()  # one that cannot be used is said before anything is measured
            if self._environment is None:
                self._environment = environment_of(self._conduct)
            for spec in specs:
                demand_unchanged(spec.model)
            asked = any(spec.lock_clocks is not None for spec in specs)
            if asked or self.mode == "launches":  # else nobody waits for NVML to start
                held.enter_context(self._watches.opened())
            before, self._began = read_counters(), time.monotonic()
            usual = BURSTS_LOOK if self.mode == "bursts" else LAUNCHES
            done, goal = self.launches, self.launches + (launches or usual)
            while self.launches < goal:
                self._tell(goal)
                if self.mode == "bursts":
                    self._play_wave(goal - self.launches)
                else:
                    self._play_once()
                if self.launches - done >= least and self._elapsed() > LAUNCHES_S:
                    break
            self.seconds += self._elapsed()
            self._contention = counters_between(before, read_counters())

    def _elapsed(self) -> float:
        """Count the seconds since launches began to be measured."""
        return time.monotonic() - self._began

    def _left(self) -> float:
        """Count launches that there is time for."""
        if self._limit_s is None or not self.launches:
            return math.inf
        return (self._limit_s - self.seconds) / (self.seconds / self.launches)

    def alone_effects(self) -> tuple[float, ...]:
        """Find the effects of the times alone, launch by launch, where the sides took turns."""
        return alone_effects(*self.facts)

    def keep(self) -> tuple[Run, Run]:
        """Store each side as a run of its own; the two name their duet."""
        name = secrets.token_hex(6)
        first = self._keep_side(0, name)
        second = self._keep_side(1, name)
        return first, second

    def _play_once(self) -> None:
        number = self._played
        self._played += 1
        with self._store.scratch() as folder:
            if self.mode == "launches":
                # A B, then B A: whatever drifts steadily hits both alike.
                order = (0, 1) if number % 2 == 0 else (1, 0)
                found = {side: self._alone(side, number, folder / str(side)) for side in order}
            elif self.mode == "one-process":
                job = self._jobs(number)[0].having(mine=None)
                self._run([Assignment(job=job, folder=folder, python=self.sides.pythons[0])])
                found = {side: _collect(folder / f"side-{side}") for side in (0, 1)}
            else:
                found = self._lock_step(number, folder)
        for side in SIDES:
            self._launches[side].append(found[side])
        if self.design == "duet" and self._pairs is None:
            first, second = (found[side].times.host for side in SIDES)
            assert first is not None
            assert second is not None
            self._pairs = pairs_for_noise(first, second)

    def _alone(self, side: int, number: int, folder: Path) -> Launch:
        job = BenchJob(spec=self.sides.both[side], launch=number)
        watch = self._watches.of(side)
        assert watch is not None
        assignment = Assignment(job=job, folder=folder, python=self.sides.pythons[side])
        self._demand_good(self._ended([assignment], on_stage=watch), [assignment])
        return watch_told(_collect(folder), watch)

    def _lock_step(self, number: int, folder: Path) -> dict[int, Launch]:
        ends = socket.socketpair()
        try:
            self._run(
                [
                    Assignment(
                        job=job,
                        folder=folder / str(side),
                        python=self.sides.pythons[side],
                        descriptors=(ends[side].fileno(),),
                    )
                    for side, job in zip(SIDES, self._jobs(number), strict=True)
                ]
            )
        finally:
            for end in ends:
                end.close()
        return {side: _collect(folder / str(side) / f"side-{side}") for side in SIDES}

    def _play_wave(self, wanted: int) -> None:
        """Start launches at once; where that fails, they load one after the other."""
        if self._at_once is None:
            self._at_once = launches_that_fit(self.sides)
        orders = load_orders(wanted, at_once=self._at_once)
        numbers = count(self._played)
        groups = [[self._jobs(next(numbers), each) for each in group] for group in orders]
        launches = sum(map(len, groups))
        early, before = self._early and self._together, self.launches
        with Wave(groups, sides=self.sides, store=self._store, early=early) as wave:

            def started() -> None:
                self._store.open()  # while they import; they measure when they are let go
                wave.let_go()

            def done() -> None:
                self._played += launches
                for side in SIDES:
                    self._launches[side].extend(wave.left(side))
                self.on_results()

            ends = self._ended(
                wave.assignments, launches=launches, on_started=started, on_done=done
            )
            failed = any(lacked_room(end) for end in ends)
            if failed and self.launches > before:
                note = f"a process failed as it ended ({cause_of(ends)}); what it measured is kept"
                self._conduct.listen(Event(kind="note", text=note))
            elif failed and self._together:
                self._start_otherwise(cause_of(ends))
            else:
                self._demand_good(ends, wave.assignments)

    def _start_otherwise(self, cause: str) -> None:
        """Start a wave that failed anew: without contexts made early, then one after the other."""
        note = f"not all launches could start at once ({cause}): "
        note += "they are started again" if self._early else "they load one after the other"
        self._at_once = self._at_once if self._early else 0
        self._early = False
        self._conduct.listen(Event(kind="note", text=note))

    @property
    def _together(self) -> bool:
        """Whether launches load at once; one alone would better start with all others."""
        return (self._at_once or 0) > 1

    def _jobs(self, number: int, orders: tuple[int, int] = (0, 0)) -> Jobs:
        """Make the jobs of both sides of one launch."""
        job = DuetJob(
            sides=self.sides.both,
            pairs=self._pairs,
            seed=self._seed,
            launch=number,
            series=self.mode == "bursts",
            bursts=self.bursts,
        )
        first, second = (
            job.having(mine=side, load_order=order)
            for side, order in zip(SIDES, orders, strict=True)
        )
        return first, second

    def _run(self, assignments: list[Assignment]) -> None:
        self._demand_good(self._ended(assignments), assignments)

    def _ended(
        self,
        assignments: list[Assignment],
        *,
        launches: int = 1,
        on_stage: Callable[[str], None] | None = None,
        on_started: Callable[[], None] | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> list[JobEnd]:
        """Run processes to their end, and see whether the models are still what they were."""
        longest = max(expected_s(spec) for spec in self.sides.both)
        ends = run_jobs(
            assignments,
            timeout_s=launches * (self._conduct.timeout_s or longest + PATIENCE_S),
            memory_bytes=self._conduct.memory_bytes,
            on_stage=on_stage,
            on_started=on_started,
            on_done=on_done,
            tick_s=TICK_S,
            on_tick=lambda: self._conduct.listen(Event(kind="tick", text="")),
        )
        return [
            end_with_same_bytes(end, *_models_of(each.job))
            for end, each in zip(ends, assignments, strict=True)
        ]

    def _demand_good(self, ends: list[JobEnd], assignments: list[Assignment]) -> None:
        for end, each in gravest_first(ends, assignments):
            if not end.ok:
                environment = self._environment
                assert environment is not None
                fail_job(end, _spec_of(each.job), environment, store=self._store,
                         conduct=self._conduct, log=each.folder / "log.txt")  # fmt: skip

    def _keep_side(self, side: Literal[0, 1], duet: str) -> Run:
        assert self._environment is not None
        return keep_run(
            self.sides.both[side],
            self._launches[side],
            self._environment,
            self._contention,
            store=self._store,
            conduct=self._conduct,
            watch=self._watches.of(side),
            duet=DuetRef(id=duet, side=side, design=self.design),
        )

    def tell_gpu(self, told: Verdict) -> None:
        """Say what GPU time is once it is known; the launches that follow have no bursts."""
        self.bursts = False
        words = f"GPU time {told.kind}: {sentence(told)}"
        after = f"{told.launches} launches, {self.seconds + self._elapsed():.1f} s"
        self._conduct.listen(Event(kind="note", text=f"{words} ({after})"))

    def _tell(self, goal: int) -> None:
        text = f"launch {self.launches + 1}/{goal} of both sides"
        done = self.launches / goal
        self._conduct.listen(Event(kind="stage", text=text, done=done))


def _collect(folder: Path) -> Launch:
    launch = read_launch(folder)
    shutil.rmtree(folder)
    return launch


def _spec_of(job: Job) -> RunSpec:
    if isinstance(job, DuetJob):
        return job.sides[job.mine or 0]
    if isinstance(job, BenchJob):
        return job.spec
    raise TypeError(f"a {type(job).__name__} is no side of a duet")


def _models_of(job: Job) -> list[ModelRef]:
    if isinstance(job, DuetJob) and job.mine is None:
        return [spec.model for spec in job.sides]
    return [_spec_of(job).model]
