"""Measure two sides in turn, launch by launch, until the answer is clear; keep each as a run.

On a GPU, launches of both sides start at once: starting a process and loading an engine takes
longer than measuring, and done together it is waited for once. No process measures while another
starts, loads or ends. Where in the GPU's memory an engine comes to lie is part of its time, and
depends on how many have loaded before: so a group of launches that load one after the other is
followed, when it is gone, by one with the sides exchanged.
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
from trtbench.analysis.pacing import pairs_for_noise
from trtbench.core.errors import UsageError
from trtbench.core.jobs import NO_MEMORY, BenchJob, DuetJob, JobEnd
from trtbench.core.results import Verdict
from trtbench.core.run import DuetRef, Environment, LaunchFacts, Run, Scalar
from trtbench.core.samples import Column
from trtbench.core.spec import Length, RunSpec, Warmup
from trtbench.core.words import Mode
from trtbench.host.early_context import delayed
from trtbench.host.machine import counters_between, read_counters
from trtbench.host.workers import Assignment, check_interpreter, run_jobs
from trtbench.measure import bench
from trtbench.measure.watch import Watch, free_memory_bytes, watch_device
from trtbench.models.identity import demand_unchanged
from trtbench.requests.execution import PATIENCE_S, TICK_S, Event, Execution, expected_s
from trtbench.requests.measure import LAUNCHES, PairFields, TurnFields
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.store.store import Store

PairDesign = Literal["duet", "bursts", "launches"]
SIDES: tuple[Literal[0], Literal[1]] = (0, 1)
Jobs = tuple[DuetJob, DuetJob]  # A launch: the baseline's process and the candidate's

WARMUP = Warmup(floor=Length(seconds=0.06), until_steady=False)  # drift affects both sides
# The first bursts do not count, and the GPU has worked just before.
BURSTS_WARMUP = Warmup(floor=Length(seconds=0.03), until_steady=False)
FIRST_LOOK = 4  # launches before the first verdict: with fewer, only great differences would show
GROUP = 3  # launches with bursts on the GPU at once; as many follow, with the sides exchanged
BURSTS_LOOK = 2 * GROUP  # so that both sides have every place in the order
LAUNCHES_S = 7.0  # once they took so long, no more are made before that
FEWEST_LAUNCHES = 5  # launches with bursts before host time is settled: tails are judged by as many
LIMIT_S, BURSTS_LIMIT_S = 90.0, 25.0  # then what is unclear stays unclear
PROCESS_BYTES = 1 << 30  # GPU memory of CUDA's context, kernels, inputs and outputs
TIMES_ENGINE = 3  # GPU memory of an engine by its size on disk


Side = tuple[RunSpec, str | None]  # how a side runs, and its interpreter


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


def settled_mode(mode: Mode, sides: Sides) -> Mode:
    """Choose how the sides take turns, by what their runtimes can do."""
    both = [(RUNTIMES.load(spec.runtime), spec) for spec in sides.both]
    if not all(module.open_session is not None for module, _ in both):
        return "launches"
    # Other protocols own their loop.
    if not all(s.protocol == "serve" and s.streams == 1 and not s.gap_s for s in sides.both):
        if mode in ("auto", "launches"):
            return "launches"
        raise UsageError(
            "only single queries, back to back, can take turns: protocol serve, one stream, no gap",
            facts={"mode": mode, "protocol": sides.baseline.protocol},
            fix="--mode launches",
        )
    devices = {module.device(spec) for module, spec in both}
    bursts = len(devices) == 1 and all(
        module.bursts is not None and module.bursts(spec) for module, spec in both
    )
    if mode == "bursts" and not bursts:
        raise UsageError(
            "bursts are for sides on one GPU whose runtimes time them",
            facts={"devices": ", ".join(sorted(devices))},
            fix="--mode auto",
        )
    if mode != "auto":
        return mode
    if bursts:
        return "bursts"
    # Threads are of a process, for PyTorch: sides with other numbers of them need two.
    kinds = {(spec.runtime, spec.threads) for spec in sides.both}
    if len(kinds) == 1 and sides.pythons[0] == sides.pythons[1] and devices == {"cpu"}:
        return "one-process"
    return "lock-step" if devices == {"cpu"} else "launches"


def settle(sides: Sides, request: PairFields) -> tuple[Mode, Sides]:
    """Settle how sides take turns on a GPU: in bursts, unless a launch has a length.

    Then they wait by spinning, and launch graphs where they can be captured, unless the request
    says otherwise: how the host sleeps and enqueues is the machine's, not the engine's.
    """
    if settled_mode(request.mode, sides) != "bursts":
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


def paired(baseline: Run, candidate: Run) -> PairDesign | None:
    """Return the design of two stored runs that were measured in turn with each other."""
    first, second = baseline.record.duet, candidate.record.duet
    if first is None or second is None or first.id != second.id or first.side == second.side:
        return None
    return first.design


def pairs_of(baseline: Run, candidate: Run, column: str) -> list[tuple[Column, Column]]:
    both = (run.times.by_launch(column) for run in (baseline, candidate))
    return list(zip(*both, strict=True))


class Wave(ExitStack):
    """The processes of several launches, a pair each, and how they wait for one another."""

    def __init__(
        self, groups: Sequence[Sequence[Jobs]], *, sides: Sides, store: Store, early: bool
    ) -> None:
        super().__init__()
        self._launches = sum(map(len, groups))
        self._folder = self.enter_context(store.scratch())
        self._lent = self.enter_context(ExitStack())
        self.assignments: list[Assignment] = []
        imports = self._pipe()  # until all have imported
        gone = [self._pipe() for _ in range(len(groups) + 1)]  # until a group is no more
        for group, (before, after) in zip(groups, pairwise(gone), strict=True):
            is_first = not self.assignments
            contexts, end = self._pipe(), self._pipe()  # until all have one, and until all are over
            shared = (*imports, before[0], after[1], *contexts)
            # Launches load one after the other, and then measure so, from link to link.
            links = [self._pipe() for _ in range(2 * len(group) + 1)]
            for number, both in enumerate(group):
                steps = (links[step : step + 2] for step in (number, len(group) + number))
                chain = [each for start, stop in steps for each in (start[0], stop[1])]
                channels = [self._lent.enter_context(each) for each in socket.socketpair()]
                for side, channel, job in zip(SIDES, channels, both, strict=True):
                    spec = sides.both[side]
                    early_context = RUNTIMES.load(spec.runtime).early_context
                    variables = early_context(spec) if early and early_context else {}
                    assignment = Assignment(
                        job=job,
                        folder=self._folder / f"{len(self.assignments) // 2}-{side}",
                        python=sides.pythons[side],
                        descriptors=(channel.fileno(), *shared, *chain, *end),
                        variables=variables if is_first else delayed(variables),
                    )
                    self.assignments.append(assignment)

    def let_go(self) -> None:
        """Close what the processes wait for each other with: it is theirs alone from now on."""
        self._lent.close()

    def left(self, side: int) -> list[bench.Launch]:
        folders = [self._folder / f"{number}-{side}" for number in range(self._launches)]
        return [bench.Launch.read(folder / f"side-{side}") for folder in folders]

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        for end in ends:
            self._lent.callback(os.close, end)
        return ends


def load_orders(wanted: int, *, at_once: int) -> list[list[tuple[int, int]]]:
    """Settle which launches are on the GPU at once, and at which place of the order sides load.

    Two groups of as many, in the second of which the sides are exchanged. Where there is room for
    one launch alone, each is a group, and four start: where a board's memory is the GPU's too,
    processes that only wait shall not fill it.
    """
    size = min((wanted + 1) // 2, GROUP, at_once)
    sizes = [size, min(size, wanted - size)] if at_once > 1 else [1] * min(wanted, FIRST_LOOK)
    orders = []
    for group, length in enumerate(filter(None, sizes)):
        swapped = [(launch + group) % 2 for launch in range(length)]
        orders.append([(2 * n + swap, 2 * n + 1 - swap) for n, swap in enumerate(swapped)])
    return orders


def _is_bystander(end: JobEnd) -> bool:
    """Whether a side only lost its partner, or was ended with it."""
    if end.error is not None:
        return end.error.kind == "PartnerLost"
    return end.signal == "SIGTERM" and not end.timed_out


class Duet:
    """Launches of two sides, measured in turn; more can be added until the answer is clear."""

    def __init__(
        self,
        sides: Sides,
        *,
        store: Store,
        execution: Execution,
        mode: Mode = "auto",
        pairs: int | None = None,
        seed: int = 0,
        limit_s: float | None = None,
    ) -> None:
        for spec, python in zip(sides.both, sides.pythons, strict=True):
            if python is not None:
                check_interpreter(python)
            bench.check_runtime_available(spec, python)
        self.sides = sides
        self.mode = settled_mode(mode, sides)
        self._store, self._execution = store, execution
        self._pairs, self._seed, self._limit_s = pairs, seed, limit_s
        self._launches: tuple[list[bench.Launch], list[bench.Launch]] = ([], [])
        self._played = 0
        self._at_once: int | None = None  # launches with bursts that load at once; not known yet
        self._early = True  # they begin CUDA's contexts before they import
        self.on_results: Callable[[], None] = lambda: None  # called when bursts have been measured
        self.seconds = self._began = 0.0  # measuring time, without waiting for the device
        self.bursts = self.mode == "bursts"  # whether further launches have bursts
        self._environment: Environment | None = None
        self._contention: dict[str, Scalar] = {}
        self._watches: dict[int, Watch] = {}  # clocks and memory, by side

    @property
    def design(self) -> PairDesign:
        return self.mode if self.mode in ("bursts", "launches") else "duet"

    @property
    def headline(self) -> str:
        """What the sides are judged by: a time that both have."""
        return judge.metric_of_both(self._launches[0][0].times, self._launches[1][0].times)

    @property
    def launches(self) -> int:
        return len(self._launches[0])

    @property
    def facts(self) -> tuple[list[LaunchFacts], list[LaunchFacts]]:
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
        return self._left() < 1

    def _left(self) -> float:
        """How many more launches there is time for."""
        if self._limit_s is None or not self.launches:
            return math.inf
        return (self._limit_s - self.seconds) / (self.seconds / self.launches)

    def columns(self, name: str = "host") -> list[tuple[Column, Column]]:
        both = zip(*self._launches, strict=True)
        return [(getattr(a.times, name), getattr(b.times, name)) for a, b in both]

    def play(self, launches: int | None) -> None:
        """Measure more launches of both sides; ``None``: as many as usual, fewer of slow models."""
        least = launches if launches is not None else FIRST_LOOK
        specs = self.sides.both
        devices = {device_of(spec): spec for spec in specs}
        with ExitStack() as held:
            for device in sorted(devices):  # one order for all: no deadlock
                held.enter_context(bench.hold_device(devices[device], self._execution))
            if self.mode != "bursts":
                self._store.open()  # one that cannot be used is said before anything is measured
            self._environment = self._environment or bench.environment_of(self._execution)
            for spec in specs:
                demand_unchanged(spec.model)
            locked = any(spec.lock_clocks is not None for spec in specs)
            if locked or self.mode == "launches":  # else NVML need not be started
                for device in sorted(devices):
                    self._watch(held, device)
            before, self._began = read_counters(), time.monotonic()
            usual = BURSTS_LOOK if self.mode == "bursts" else LAUNCHES
            done, goal = self.launches, self.launches + (launches or usual)
            while self.launches < goal:
                text = f"launch {self.launches + 1}/{goal} of both sides"
                self._execution.listen(Event(kind="stage", text=text, done=self.launches / goal))
                if self.mode == "bursts":
                    self._play_wave(goal - self.launches)
                else:
                    self._play_once()
                if self.launches - done >= least and self._elapsed() > LAUNCHES_S:
                    break
            self.seconds += self._elapsed()
            self._contention = counters_between(before, read_counters())

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _watch(self, held: ExitStack, device: str) -> None:
        """Watch one device, its clocks locked once for both sides; notes are shown once."""
        mine = [side for side in SIDES if device_of(self.sides.both[side]) == device]
        watch = held.enter_context(watch_device(self.sides.both[mine[-1]], device))
        for note in watch.notes if mine[-1] not in self._watches else ():
            self._note(note)
        for side in mine:  # goes on with what it has seen before
            before = self._watches.get(side)
            self._watches[side] = replace(
                watch,
                evidence={**watch.evidence, **(before.evidence if before else {})},
                notes=list(dict.fromkeys(watch.notes + (before.notes if before else []))),
                _readings=[],
            )

    def keep(self) -> tuple[Run, Run]:
        """Store each side as a run of its own; the two name their duet."""
        assert self._environment is not None
        name = secrets.token_hex(6)
        first, second = (
            bench.store_run(
                self.sides.both[side],
                self._launches[side],
                self._environment,
                self._contention,
                store=self._store,
                execution=self._execution,
                watch=self._watches.get(side),
                duet=DuetRef(id=name, side=side, design=self.design),
            )
            for side in SIDES
        )
        return first, second

    def _play_once(self) -> None:
        number = self._played
        self._played += 1
        pythons = self.sides.pythons
        with self._store.scratch() as folder, ExitStack() as lent:
            folders = [folder / str(side) for side in SIDES]
            if self.mode == "launches":
                # A B, then B A: whatever drifts steadily hits both alike.
                for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                    job = BenchJob(spec=self.sides.both[side], launch=number)
                    alone = Assignment(job=job, folder=folders[side], python=pythons[side])
                    self._run([alone], on_stage=self._watches[side])
                    launch = bench.Launch.read(folders[side]).with_telemetry(self._watches[side])
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

    def _play_wave(self, wanted: int) -> None:
        """Start launches at once; where that fails, they load one after the other."""
        if self._at_once is None:  # as many as the GPU has room for; none where it does not say
            free = free_memory_bytes(device_of(self.sides.baseline))
            sizes = (spec.model.size_bytes or 0 for spec in self.sides.both)
            needed = sum(PROCESS_BYTES + TIMES_ENGINE * size for size in sizes)
            self._at_once = 0 if free is None else free // needed
        together = self._at_once > 1  # one alone would better start with all others
        orders = load_orders(wanted, at_once=self._at_once)
        numbers = count(self._played)
        groups = [[self._jobs(next(numbers), each) for each in group] for group in orders]
        launches = sum(map(len, groups))
        before = self.launches
        early = self._early and together
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
            # A failure that other processes beside it may have caused.
            kinds = (NO_MEMORY, "CudaError", "UnavailableError")
            bad = [end for end in ends if not (end.ok or end.timed_out or _is_bystander(end))]
            failed = next((e for e in bad if e.error is None or e.error.kind in kinds), None)
            if failed is None or not (together or self.launches > before):
                self._demand_good(ends, wave.assignments)
                return
        what = failed.error.message if failed.error else failed.signal
        cause = f"{what or f'status {failed.exit_status}'}, stage {failed.stage}"
        if self.launches > before:
            self._note(f"a process failed as it ended ({cause}); what it measured is kept")
            return
        # Anew: without contexts made early, then one after the other.
        how = "they are started again" if self._early else "they load one after the other"
        self._note(f"not all launches could start at once ({cause}): {how}")
        self._at_once = self._at_once if self._early else 0
        self._early = False

    def _jobs(self, number: int, orders: tuple[int, int] = (0, 0)) -> Jobs:
        job = DuetJob(
            sides=self.sides.both,
            pairs=self._pairs,
            seed=self._seed,
            launch=number,
            series=self.mode == "bursts",
            bursts=self.bursts,
        )
        return job.having(mine=0, load_order=orders[0]), job.having(mine=1, load_order=orders[1])

    def _run(
        self, assignments: list[Assignment], *, on_stage: Callable[[str], None] | None = None
    ) -> None:
        self._demand_good(self._ended(assignments, on_stage=on_stage), assignments)

    def _ended(
        self,
        assignments: list[Assignment],
        *,
        launches: int = 1,
        on_stage: Callable[[str], None] | None = None,
        on_started: Callable[[], None] | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> list[JobEnd]:
        """Run processes to their end, and check that the models are still what they were."""
        longest = max(expected_s(spec) for spec in self.sides.both)
        ends = run_jobs(
            assignments,
            timeout_s=launches * (self._execution.timeout_s or longest + PATIENCE_S),
            memory_bytes=self._execution.memory_bytes,
            on_stage=on_stage,
            on_started=on_started,
            on_done=on_done,
            tick_s=TICK_S,
            on_tick=lambda: self._execution.listen(Event(kind="tick", text="")),
        )
        return [
            bench.fail_if_model_changed(end, *(spec.model for spec in _specs_of(each)))
            for end, each in zip(ends, assignments, strict=True)
        ]

    def _demand_good(self, ends: list[JobEnd], assignments: list[Assignment]) -> None:
        assert self._environment is not None
        both = zip(ends, assignments, strict=True)
        for end, each in sorted(both, key=lambda pair: _is_bystander(pair[0])):
            if not end.ok:
                bench.raise_job_error(end, _specs_of(each)[0], self._environment, store=self._store,
                         execution=self._execution, work=each.folder)  # fmt: skip

    def report_gpu(self, verdict: Verdict) -> None:
        """Note the verdict on GPU time once it is known; launches that follow have no bursts."""
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


def make_duet(sides: Sides, *, store: Store, request: PairFields, execution: Execution) -> Duet:
    mode, sides = settle(sides, request)
    free = request.launches is None and request.max_launches is None
    limit_s = BURSTS_LIMIT_S if settled_mode(mode, sides) == "bursts" else LIMIT_S
    limit, pairs, seed = limit_s if free else None, request.pairs, request.seed
    return Duet(
        sides, store=store, execution=execution, mode=mode, pairs=pairs, seed=seed, limit_s=limit
    )


def play_until_clear(duet: Duet, request: TurnFields) -> None:
    """Add launches while an answer is unclear; GPU time is reported once it is known."""
    margin = request.margin_part

    def look_at_gpu() -> None:
        # Bursts are checked against the single queries of the same launches.
        pairs = [(a, b) for a, b in duet.columns(judge.GPU) if a is not None and b is not None]
        singly = [judge.pair_effect(a, b, design=duet.design) for a, b in pairs]
        verdict = judge.burst_verdict(*duet.facts, singly=singly, margin=margin)
        if duet.bursts and verdict is not None and is_settled(verdict):
            duet.report_gpu(verdict)

    duet.on_results = look_at_gpu
    duet.play(request.launches)
    while duet.launches < request.most_launches and not duet.out_of_time:
        # GPU time first, where it is measured by itself.
        if not duet.bursts and is_settled(headline_verdict(duet, margin=margin)):
            break
        duet.play(min(duet.more, request.most_launches - duet.launches))


def is_settled(verdict: Verdict) -> bool:
    """Return whether more launches would not help; a doubtful difference is not the same yet."""
    if verdict.kind == "unclear" or verdict.design != "bursts":
        return verdict.kind != "unclear" or verdict.launches_needed is None
    if verdict.metric != judge.GPU and verdict.launches < FEWEST_LAUNCHES:
        return False
    is_sure = verdict.kind != "same" or verdict.launches >= LAUNCHES
    return is_sure or abs((verdict.ratio or 1.0) - 1) < judge.gate_of(verdict)


def headline_verdict(duet: Duet, *, margin: float) -> Verdict:
    metric, design, pairs = duet.headline, duet.design, duet.columns(duet.headline)
    if any(a is None or b is None for a, b in pairs):
        reason = f"{metric} was not measured on both sides"
        return judge.incomparable(metric, reason=reason, design=design)
    effects = [judge.pair_effect(a, b, design=design) for a, b in pairs]
    verdict = judge.verdict_from_effects(effects, metric=metric, design=design, margin=margin)
    return judge.held_to_alone(verdict, judge.alone_effects(*duet.facts), margin=margin)[0]
