"""Measure two sides in turn, launch by launch, until the verdict is clear; store each as a run.

On a GPU, several launches of both sides start at once, because starting a process and loading an
engine takes longer than measuring. No process measures while another starts, loads or ends. The
position of an engine in GPU memory affects its time and depends on how many were loaded before it:
so a group of launches that load one after the other is followed by one with the sides swapped.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Literal

from trtbench.analysis import verdict as judge
from trtbench.analysis.comparability import inputs_reason
from trtbench.analysis.pacing import pairs_for_noise
from trtbench.core.errors import UsageError
from trtbench.core.jobs import NO_MEMORY, BenchJob, DuetJob, JobEnd
from trtbench.core.results import Verdict
from trtbench.core.run import DuetRef, Environment, LaunchFacts, Run
from trtbench.core.samples import Column
from trtbench.core.spec import Length, RunSpec, Warmup
from trtbench.core.words import Mode
from trtbench.host.early_context import delayed
from trtbench.host.machine import read_counters
from trtbench.host.workers import Assignment, check_interpreter, run_jobs
from trtbench.measure import bench
from trtbench.measure.watch import Watch, free_memory_bytes, watch_device
from trtbench.models.identity import raise_if_changed
from trtbench.requests.execution import PATIENCE_S, TICK_S, Event, Execution, expected_s
from trtbench.requests.measure import LAUNCHES, PairFields
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.store.store import Store

PairDesign = Literal["duet", "bursts", "launches"]
SIDES: tuple[Literal[0], Literal[1]] = (0, 1)
Jobs = tuple[DuetJob, DuetJob]  # one launch: the jobs of baseline and candidate

WARMUP = Warmup(floor=Length(seconds=0.06), until_steady=False)  # drift affects both sides
# Shorter: the first bursts are discarded anyway, and the GPU is already warm.
BURSTS_WARMUP = Warmup(floor=Length(seconds=0.03), until_steady=False)
MIN_LAUNCHES = 4  # before the first verdict: fewer would only show large differences
GROUP_SIZE = 3  # launches with bursts on the GPU at once; the next group has the sides swapped
BURST_LAUNCHES = 2 * GROUP_SIZE  # before the first verdict: each side loads at every position
FIRST_LAUNCHES_S = 7.0  # after this time the first verdict follows, even with fewer launches
MIN_BURST_LAUNCHES = 5  # launches with bursts before host time is decided: tails need as many
LIMIT_S, BURSTS_LIMIT_S = 90.0, 25.0  # after this time an unclear verdict stays unclear
PROCESS_BYTES = 1 << 30  # GPU memory of CUDA's context, kernels, inputs and outputs
ENGINE_MEMORY_FACTOR = 3  # GPU memory of an engine over its size on disk

Side = tuple[RunSpec, str | None]  # the spec of a side, and its Python interpreter


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A baseline and a candidate, and the interpreters they run in."""

    baseline: RunSpec
    candidate: RunSpec
    pythons: tuple[str | None, str | None] = (None, None)

    @classmethod
    def of(cls, first: Side, second: Side) -> Sides:
        return cls(baseline=first[0], candidate=second[0], pythons=(first[1], second[1]))

    @property
    def both(self) -> tuple[RunSpec, RunSpec]:
        return (self.baseline, self.candidate)


def resolve_mode(mode: Mode, sides: Sides) -> Mode:
    """Return how the sides take turns, depending on what their runtimes support."""
    both = [(RUNTIMES.load(spec.runtime), spec) for spec in sides.both]
    if not all(module.open_session is not None for module, _ in both):
        return "launches"
    # Other protocols have a loop of their own.
    if not all(s.protocol == "serve" and s.streams == 1 and not s.gap_s for s in sides.both):
        if mode in ("auto", "launches"):
            return "launches"
        raise UsageError(
            "only single back-to-back queries can take turns: protocol serve, one stream, no gap",
            facts={"mode": mode, "protocol": sides.baseline.protocol},
            fix="--mode launches",
        )
    devices = {module.device(spec) for module, spec in both}
    able = (each.bursts is not None and each.bursts(spec) for each, spec in both)
    bursts = len(devices) == 1 and all(able)
    if mode == "bursts" and not bursts:
        message = "bursts need both sides on one GPU and runtimes that support them"
        raise UsageError(message, facts={"devices": ", ".join(sorted(devices))}, fix="--mode auto")
    if mode != "auto":
        return mode
    if bursts:
        return "bursts"
    # PyTorch sets the number of threads per process: different numbers need two processes.
    kinds = {(spec.runtime, spec.threads) for spec in sides.both}
    if len(kinds) == 1 and sides.pythons[0] == sides.pythons[1] and devices == {"cpu"}:
        return "one-process"
    return "lock-step" if devices == {"cpu"} else "launches"


def resolve_turns(sides: Sides, request: PairFields) -> tuple[Mode, Sides]:
    """Return the mode, and the sides with the settings that bursts need.

    On a GPU, sides take turns in bursts unless the request sets the length of a launch. With
    bursts the host waits by spinning and uses CUDA graphs if possible, unless the request says
    otherwise: sleeping and enqueueing depend on the machine, not on the engine.
    """
    if resolve_mode(request.mode, sides) != "bursts":
        return request.mode, sides
    if request.mode == "auto" and (request.duration, request.iterations) != (None, None):
        return "launches", sides
    first, second = (
        spec.having(
            spin_wait=True,
            cuda_graph=spec.cuda_graph if request.cuda_graph is not None else "auto",
            warmup=BURSTS_WARMUP if spec.warmup == WARMUP else spec.warmup,
        )
        for spec in sides.both
    )
    return "bursts", replace(sides, baseline=first, candidate=second)


def pair_design(baseline: Run, candidate: Run) -> PairDesign | None:
    """Return how two stored runs were measured in turn; ``None`` if they were measured apart."""
    first, second = baseline.record.duet, candidate.record.duet
    if first is None or second is None or first.id != second.id or first.side == second.side:
        return None
    return first.design


def paired_columns(baseline: Run, candidate: Run, column: str) -> list[tuple[Column, Column]]:
    """Return a column of both runs, launch by launch."""
    both = (run.times.by_launch(column) for run in (baseline, candidate))
    return list(zip(*both, strict=True))


class Wave(ExitStack):
    """The processes of several launches that start at once, and the pipes they wait on."""

    def __init__(
        self, groups: Sequence[Sequence[Jobs]], *, sides: Sides, store: Store, early: bool
    ) -> None:
        super().__init__()
        self._launches = sum(map(len, groups))
        self._folder = self.enter_context(store.scratch())
        self.lent = self.enter_context(ExitStack())  # what only the launches hold once it is closed
        self.assignments: list[Assignment] = []
        imports = self._pipe()  # closed when all have imported their libraries
        gone = [self._pipe() for _ in range(len(groups) + 1)]  # closed when a group has ended
        for group, (before, after) in zip(groups, pairwise(gone), strict=True):
            is_first = not self.assignments
            contexts, end = self._pipe(), self._pipe()  # closed when all have one; have measured
            shared = (*imports, before[0], after[1], *contexts)
            # Launches load one after the other, then measure one after the other.
            links = [self._pipe() for _ in range(2 * len(group) + 1)]
            for number, both in enumerate(group):
                steps = (links[step : step + 2] for step in (number, len(group) + number))
                chain = [each for start, stop in steps for each in (start[0], stop[1])]
                channels = [self.lent.enter_context(each) for each in socket.socketpair()]
                for side, channel, job in zip(SIDES, channels, both, strict=True):
                    spec = sides.both[side]
                    early_context = RUNTIMES.load(spec.runtime).early_context
                    variables = early_context(spec) if early and early_context else {}
                    assignment = Assignment(
                        job=job, folder=self._folder / f"{len(self.assignments) // 2}-{side}",
                        python=sides.pythons[side],
                        descriptors=(channel.fileno(), *shared, *chain, *end),
                        variables=variables if is_first else delayed(variables),
                    )  # fmt: skip
                    self.assignments.append(assignment)

    def read_launches(self, side: int) -> list[bench.Launch]:
        folders = [self._folder / f"{number}-{side}" for number in range(self._launches)]
        return [bench.Launch.read(folder / f"side-{side}") for folder in folders]

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        for end in ends:
            self.lent.callback(os.close, end)
        return ends


def load_orders(wanted: int, *, at_once: int) -> list[list[tuple[int, int]]]:
    """Return groups of launches that are on the GPU at once, each with the load order of its sides.

    There are two groups of equal size; the second has the sides swapped. If there is only room for
    one launch, each is a group of its own, and at most four start: on boards where CPU and GPU
    share memory, waiting processes must not fill it.
    """
    size = min((wanted + 1) // 2, GROUP_SIZE, at_once)
    sizes = [size, min(size, wanted - size)] if at_once > 1 else [1] * min(wanted, MIN_LAUNCHES)
    orders = []
    for group, length in enumerate(filter(None, sizes)):
        swapped = [(launch + group) % 2 for launch in range(length)]
        orders.append([(2 * n + swap, 2 * n + 1 - swap) for n, swap in enumerate(swapped)])
    return orders


def _lost_partner(end: JobEnd) -> bool:
    """Whether a side only failed because the other one did."""
    if end.error is not None:
        return end.error.kind == "PartnerLost"
    return end.signal == "SIGTERM" and not end.timed_out


class Duet:
    """Launches of two sides, measured in turn; more can be added until the answer is clear."""

    def __init__(
        self, sides: Sides, request: PairFields, *, store: Store, execution: Execution
    ) -> None:
        mode, self.sides = resolve_turns(sides, request)
        for spec, python in zip(sides.both, sides.pythons, strict=True):
            check_interpreter(python)
            bench.check_runtime_available(spec, python)
        self.mode = resolve_mode(mode, self.sides)
        self._store, self._execution, self.request = store, execution, request
        self._pairs = request.pairs
        free = request.launches is None and request.max_launches is None
        limit_s = BURSTS_LIMIT_S if self.mode == "bursts" else LIMIT_S
        self.limit_s = limit_s if free else None
        self._launches: tuple[list[bench.Launch], list[bench.Launch]] = ([], [])
        self._next_launch = self._goal = 0
        self._at_once: int | None = None  # launches that fit into GPU memory; ``None``: unknown
        self._early = True  # processes create CUDA contexts while they import
        self.on_results: Callable[[], None] = lambda: None  # called when bursts have been measured
        self.seconds = self._began = 0.0  # measuring time, without waiting for the device
        self.bursts = self.mode == "bursts"  # whether further launches have bursts
        self._environment: Environment | None = None
        self._watches: dict[int, Watch] = {}  # clocks and memory, by side

    @property
    def design(self) -> PairDesign:
        return self.mode if self.mode in ("bursts", "launches") else "duet"

    @property
    def headline(self) -> str:
        """The metric of the headline verdict: a time that both sides have."""
        return judge.metric_of_both(self._launches[0][0].times, self._launches[1][0].times)

    @property
    def launches(self) -> int:
        return len(self._launches[0])

    @property
    def launch_facts(self) -> tuple[list[LaunchFacts], list[LaunchFacts]]:
        first, second = ([each.outcome.facts for each in side] for side in self._launches)
        return first, second

    @property
    def next_launches(self) -> int:
        """Launches before the next verdict: half as many again; an even number of bursts."""
        half = max(1, self.launches // 2)
        if self.mode == "bursts":
            half += half % 2
        return int(min(half, max(1, self._launches_left())))

    @property
    def out_of_time(self) -> bool:
        return self._launches_left() < 1

    def _launches_left(self) -> float:
        """Return how many more launches there is time for."""
        if self.limit_s is None or not self.launches:
            return math.inf
        return (self.limit_s - self.seconds) / (self.seconds / self.launches)

    @property
    def incomparable(self) -> bool:
        """Whether the first launch showed that the sides have different inputs."""
        inputs = (each[0].outcome.inputs for each in self._launches if each)
        return self.launches > 0 and inputs_reason(*inputs, accept=self.request.accept) is not None

    def column_pairs(self, name: str) -> list[tuple[Column, Column]]:
        both = zip(*self._launches, strict=True)
        return [(getattr(a.times, name), getattr(b.times, name)) for a, b in both]

    def measure_until(self, decided: Callable[[], bool]) -> None:
        """Measure, and add launches until they decide, or no more are allowed or fit in time."""
        self.measure(self.request.launches)
        most = self.request.most_launches
        while self.launches < most and not (self.incomparable or self.out_of_time or decided()):
            self.measure(min(self.next_launches, most - self.launches))

    def measure(self, launches: int | None) -> None:
        """Measure more launches of both sides; ``None``: the default, fewer for slow models."""
        least = launches if launches is not None else MIN_LAUNCHES
        specs = self.sides.both
        devices = {device_of(spec): spec for spec in specs}
        with ExitStack() as held:
            for device in sorted(devices):  # always in the same order, to avoid deadlocks
                held.enter_context(bench.hold_device(devices[device], self._execution))
            if self.mode != "bursts":
                self._store.open()  # fail before measuring if the store cannot be used
            self._environment = self._environment or bench.environment_of(self._execution)
            for spec in specs:
                raise_if_changed(spec.model)
            locked = any(spec.lock_clocks is not None for spec in specs)
            if locked or self.mode == "launches":  # else NVML need not be started
                for device in sorted(devices):
                    self._watch(held, device)
            before, self._began = read_counters(), time.monotonic()
            usual = BURST_LAUNCHES if self.mode == "bursts" else LAUNCHES
            done = self.launches
            self._goal = goal = done + (launches or usual)
            while self.launches < goal:
                self._show_progress(goal)
                if self.mode == "bursts":
                    self._measure_wave(goal - self.launches)
                else:
                    self._measure_launch()
                enough = self.launches - done >= least and self._elapsed() > FIRST_LAUNCHES_S
                if enough or self.incomparable:
                    break
            self.seconds += self._elapsed()
            self._environment = bench.with_contention(self._environment, before)

    def _show_progress(self, goal: int) -> None:
        """Report launches of the most there can be, so that the total does not move."""
        most, spent_s = max(goal, self.request.most_launches), self.seconds + self._elapsed()
        total = f" of at most {most}" if most > goal else f"/{most}"
        text = f"launch {self.launches + 1}{total}, both sides"
        used = max(self.launches / most, spent_s / self.limit_s if self.limit_s else 0.0)
        event = Event(kind="stage", text=text, done=min(1.0, used), at_most=most > goal)
        self._execution.listen(event)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _watch(self, held: ExitStack, device: str) -> None:
        """Record clocks and memory of a device and lock its clocks, once for both sides."""
        mine = [side for side in SIDES if device_of(self.sides.both[side]) == device]
        watch = held.enter_context(watch_device(self.sides.both[mine[-1]], device))
        for note in watch.notes if mine[-1] not in self._watches else ():
            self._note(note)
        for side in mine:  # keep what earlier launches recorded
            before = self._watches.get(side)
            self._watches[side] = replace(
                watch,
                evidence={**watch.evidence, **(before.evidence if before else {})},
                notes=list(dict.fromkeys(watch.notes + (before.notes if before else []))),
                _readings=[],
            )

    def store_runs(self, *, interrupted: bool = False) -> tuple[Run, Run]:
        """Store each side as a run; both refer to their duet."""
        assert self._environment is not None
        name, both = secrets.token_hex(6), min(map(len, self._launches))
        first, second = (
            bench.store_run(
                self.sides.both[side],
                self._launches[side][:both],
                self._environment,
                store=self._store,
                execution=self._execution,
                watch=self._watches.get(side),
                duet=DuetRef(id=name, side=side, design=self.design),
                asked=self._goal if interrupted else None,
            )
            for side in SIDES
        )
        return first, second

    def _measure_launch(self) -> None:
        number = self._next_launch
        self._next_launch += 1
        pythons = self.sides.pythons
        with self._store.scratch() as folder, ExitStack() as lent:
            folders = [folder / str(side) for side in SIDES]
            if self.mode == "launches":
                # A B, then B A: a steady drift affects both sides equally.
                for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                    job = BenchJob(spec=self.sides.both[side], launch=number)
                    alone = Assignment(job=job, folder=folders[side], python=pythons[side])
                    self._run([alone], on_stage=self._watches[side])
                    launch = bench.Launch.read(folders[side], self._watches[side])
                    shutil.rmtree(folders[side])
                    self._launches[side].append(launch)
                return
            pair = self._jobs(number)
            if self.mode == "one-process":
                both = pair[0].having(mine=None)
                self._run([Assignment(job=both, folder=folder, python=pythons[0])])
                folders = [folder, folder]
            else:
                ends = [(lent.enter_context(each).fileno(),) for each in socket.socketpair()]
                each_side = zip(pair, folders, pythons, ends, strict=True)
                self._run(
                    [
                        Assignment(job=job, folder=own, python=python, descriptors=end)
                        for job, own, python, end in each_side
                    ]
                )
            for side in SIDES:
                self._launches[side].append(bench.Launch.read(folders[side] / f"side-{side}"))
        if self._pairs is None:
            first, second = (launches[-1].times.host for launches in self._launches)
            assert first is not None
            assert second is not None
            self._pairs = pairs_for_noise(first, second)

    def _measure_wave(self, wanted: int) -> None:
        """Start several launches at once; if that fails, later ones load one after the other."""
        if self._at_once is None:  # as many as fit into GPU memory; 0 if its size is unknown
            free = free_memory_bytes(device_of(self.sides.baseline))
            sizes = (spec.model.size_bytes or 0 for spec in self.sides.both)
            needed = sum(PROCESS_BYTES + ENGINE_MEMORY_FACTOR * size for size in sizes)
            self._at_once = 0 if free is None else free // needed
        together = self._at_once > 1
        orders = load_orders(wanted, at_once=self._at_once)
        numbers = count(self._next_launch)
        groups = [[self._jobs(next(numbers), each) for each in group] for group in orders]
        launches = sum(map(len, groups))
        early = self._early and together
        with Wave(groups, sides=self.sides, store=self._store, early=early) as wave:

            def on_started() -> None:
                self._store.open()  # while the processes import; closing the pipes starts them
                wave.lent.close()

            def on_done() -> None:
                self._next_launch += launches
                for side in SIDES:
                    self._launches[side].extend(wave.read_launches(side))
                self.on_results()

            ends = self._run_to_end(
                wave.assignments, launches=launches, on_started=on_started, on_done=on_done
            )
            # Failures that the other processes on the GPU may have caused.
            kinds = (NO_MEMORY, "CudaError", "UnavailableError")
            bad = [end for end in ends if not (end.ok or end.timed_out or _lost_partner(end))]
            failed = next((e for e in bad if e.error is None or e.error.kind in kinds), None)
            if failed is None or not together:
                self._raise_failures(ends, wave.assignments)
                return
        what = failed.error.message if failed.error else failed.signal
        cause = f"{what or f'status {failed.exit_status}'}, stage {failed.stage}"
        # Try again: first without early CUDA contexts, then one after the other.
        how = "starting them again" if self._early else "loading them one after the other"
        self._note(f"not all launches could start at once ({cause}): {how}")
        self._at_once = self._at_once if self._early else 0
        self._early = False

    def _jobs(self, number: int, orders: tuple[int, int] = (0, 0)) -> Jobs:
        job = DuetJob(
            sides=self.sides.both, pairs=self._pairs, seed=self.request.seed, launch=number,
            series=self.mode == "bursts", bursts=self.bursts,
        )  # fmt: skip
        return job.having(mine=0, load_order=orders[0]), job.having(mine=1, load_order=orders[1])

    def _run(
        self, assignments: list[Assignment], *, on_stage: Callable[[str], None] | None = None
    ) -> None:
        self._raise_failures(self._run_to_end(assignments, on_stage=on_stage), assignments)

    def _run_to_end(
        self,
        assignments: list[Assignment],
        *,
        launches: int = 1,
        on_stage: Callable[[str], None] | None = None,
        on_started: Callable[[], None] | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> list[JobEnd]:
        """Run processes until they end, and check that the model files have not changed."""
        longest = max(expected_s(spec) for spec in self.sides.both)
        ends = run_jobs(
            assignments, timeout_s=launches * (self._execution.timeout_s or longest + PATIENCE_S),
            memory_bytes=self._execution.memory_bytes, on_stage=on_stage, on_started=on_started,
            on_done=on_done, tick_s=TICK_S,
            on_tick=lambda: self._execution.listen(Event(kind="tick", text="")),
        )  # fmt: skip
        for end in ends:
            bench.show_notes(end, self._execution)
        return [
            bench.fail_if_model_changed(end, *(spec.model for spec in _specs_of(each)))
            for end, each in zip(ends, assignments, strict=True)
        ]

    def _raise_failures(self, ends: list[JobEnd], assignments: list[Assignment]) -> None:
        both = zip(ends, assignments, strict=True)
        for end, each in sorted(both, key=lambda pair: _lost_partner(pair[0])):
            if not end.ok:
                if self.launches and end.error is not None and end.error.kind == "StoreError":
                    raise end.error.error()
                bench.raise_job_error(end, _specs_of(each)[0], store=self._store,
                         execution=self._execution, work=each.folder)  # fmt: skip

    def report_gpu(self, verdict: Verdict) -> None:
        """Show the verdict on GPU time once it is decided; later launches have no bursts."""
        self.bursts = False
        after = f"{verdict.launches} launches, {self.seconds + self._elapsed():.1f} s"
        self._note(f"GPU time {verdict.kind}: {judge.sentence(verdict)} ({after})")

    def _note(self, text: str) -> None:
        self._execution.listen(Event(kind="note", text=text))


def _specs_of(assignment: Assignment) -> list[RunSpec]:
    job = assignment.job
    if isinstance(job, BenchJob):
        return [job.spec]
    assert isinstance(job, DuetJob)
    return list(job.sides) if job.mine is None else [job.sides[job.mine]]


def measure_until_clear(duet: Duet) -> None:
    """Add launches while the verdict is unclear; GPU time is reported once it is decided."""
    margin = duet.request.margin_part

    def judge_gpu_time() -> None:
        # Bursts are checked against the single queries of the same launches.
        pairs = [(a, b) for a, b in duet.column_pairs(judge.GPU) if a is not None and b is not None]
        single = [judge.pair_effect(a, b, design=duet.design) for a, b in pairs]
        verdict = judge.burst_verdict(*duet.launch_facts, single_effects=single, margin=margin)
        if duet.bursts and verdict is not None and is_decided(verdict):
            duet.report_gpu(verdict)

    duet.on_results = judge_gpu_time
    # While there are bursts, GPU time is not decided yet.
    duet.measure_until(
        lambda: not duet.bursts and is_decided(headline_verdict(duet, margin=margin))
    )


def is_decided(verdict: Verdict) -> bool:
    """Whether more launches would not change the verdict; "same" needs a clear result."""
    if verdict.kind == "unclear" or verdict.design != "bursts":
        return verdict.kind != "unclear" or verdict.launches_needed is None
    if verdict.metric != judge.GPU and verdict.launches < MIN_BURST_LAUNCHES:
        return False
    is_sure = verdict.kind != "same" or verdict.launches >= LAUNCHES
    least = judge.threshold_of(verdict.metric, verdict.design)
    return is_sure or abs((verdict.ratio or 1.0) - 1) < least


def headline_verdict(duet: Duet, *, margin: float) -> Verdict:
    metric, design, pairs = duet.headline, duet.design, duet.column_pairs(duet.headline)
    if any(a is None or b is None for a, b in pairs):
        reason = f"{metric} was not measured on both sides"
        return judge.incomparable(metric, reason=reason, design=design)
    effects = [judge.pair_effect(a, b, design=design) for a, b in pairs]
    verdict = judge.verdict_from_effects(effects, metric=metric, design=design, margin=margin)
    return judge.checked_alone(verdict, judge.alone_effects(*duet.launch_facts), margin=margin)[0]
