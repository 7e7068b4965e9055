"""Two sides measured in turn: both in one process, or in two that hand each other the turn.

The idle side is kept quiet: sessions of one process share a pool of threads or stop theirs when a
run ends, and two processes measure from the same core, with their pools' threads on the others.
Blocks of queries alone, in the same launch, show whether it worked. The order within each pair is
random and known to both sides beforehand, so that a turn is handed over by one byte.

On a GPU single queries in turn would find it cold after each change of process and take twice as
long; there bursts back to back, and series of queries, take turns.
"""

from __future__ import annotations

import gc
import os
import socket
import struct
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.pacing import (
    SETTLE,
    Stretch,
    TurnPlan,
    bursts_from_pace,
    order_of_turns,
    plan_from_pace,
    stretches,
)
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.jobs import DuetJob, Stage
from trtbench.core.run import Fact, LaunchFacts
from trtbench.core.samples import IterationTimes, times_from_columns
from trtbench.core.spec import Length, RunSpec, Warmup
from trtbench.host import early_context
from trtbench.host.cuda import index_of
from trtbench.host.machine import fastest_core, still_runs
from trtbench.host.nvml import kept_open, opened, visible_index
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes._loop import (
    PreparedSession,
    Result,
    Step,
    measure,
    prepare,
    timed_loop,
    timer_floor_s,
    warm_up,
)
from trtbench.runtimes._session import Burst, TurnSpec

_HELLO, _TURN = b"h", b"t"
_PACE = struct.Struct("!d")
_NS = 1e-9
LOOK_S = 0.002
"""How often to look whether a process has ended; nothing is measured meanwhile."""
PACE, FEWEST_PACE = 5, 2
"""Queries that show how long one takes, before a launch is planned; of slow models, fewer do."""
MOST_STRETCHED = 3.0
PROBE = 8
"""Queries of the burst that shows how long one takes."""
SERIES = 2
"""Series of each side in a launch: A B B A."""
SERIES_S, SETTLE_S, FEWEST = 0.04, 0.01, 10
"""Seconds of a series, and of the queries before it that are not kept; its fewest queries."""
CLOCKED = 2
"""Launches that look at the SM clock: it differs by engine, not by launch, and NVML must start."""
OTHER_SIDE = "measured without a CUDA graph: the other side cannot be captured"

AskClock = Callable[[], float | None]
SpanRows = NDArray[np.int64]


class PartnerLost(TrtbenchError):
    """The other side's process ended too early."""


class Barrier:
    """A pipe at which one waits until all who hold its other end have let go, or have ended."""

    def __init__(self, waits: int, holds: int) -> None:
        self._waits, self.holds = waits, holds

    def let_go(self) -> None:
        os.close(self.holds)

    def wait(self) -> bytes:
        """Sleep until no process holds it, and return the words left."""
        words = b""
        while part := os.read(self._waits, 100):
            words += part
        return words


class Neighbours:
    """Other launches that start at the same time: one has the machine, and the others sleep.

    They come in groups, whose launches load one after the other, so that each place finds the GPU's
    memory as the same place of another group does; then they measure one after the other.
    """

    def __init__(self, *ends: int) -> None:
        barriers = [Barrier(*ends[number : number + 2]) for number in range(0, len(ends), 2)]
        self._imports, self._groups, self._contexts, self.loads, self.turns, self._end = barriers
        with suppress(BrokenPipeError):  # after the last, no one waits
            os.write(self._groups.holds, b"%d " % os.getpid())

    def await_group(self) -> None:
        """Sleep until all have imported what they need, and the group before is gone.

        A process that has not ended may still have memory.
        """
        self._imports.let_go()
        self._imports.wait()
        before = [int(each) for each in self._groups.wait().split()]
        while any(map(still_runs, before)):
            time.sleep(LOOK_S)

    def await_load(self) -> None:
        """Sleep until all of the group have a context, and those before this launch an engine."""
        self._contexts.let_go()
        self._contexts.wait()
        self.loads.wait()

    def leave(self) -> None:
        """Let the next launch begin, and sleep until all are over: ending would make noise."""
        self.turns.let_go()
        self._end.let_go()
        self._end.wait()


class TurnPartner:
    """The other side's process, at the far end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def __enter__(self) -> TurnPartner:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def meet(self) -> None:
        self._send(_HELLO)
        self._hear(1, _HELLO)

    def hand_over(self) -> None:
        self._send(_TURN)

    def wait(self) -> None:
        self._hear(1, _TURN)

    @contextmanager
    def slot(self, *, first: bool) -> Iterator[None]:
        if not first:
            self.wait()
        yield
        self.hand_over()
        if first:
            self.wait()

    def swap(self, pace_s: float) -> float:
        """Send the other side how long a query takes here; returns how long it takes there."""
        self._send(_PACE.pack(pace_s))
        return float(_PACE.unpack(self._hear(_PACE.size))[0])

    def _send(self, word: bytes) -> None:
        try:
            self._socket.sendall(word)
        except OSError:
            raise PartnerLost("the other side ended too early") from None

    def _hear(self, size: int, expected: bytes | None = None) -> bytes:
        with suppress(OSError):
            heard = self._socket.recv(size, socket.MSG_WAITALL)
            if len(heard) == size and expected in (None, heard):
                return heard
        raise PartnerLost("the other side ended too early")


def run_duet(job: DuetJob, stage: Stage, descriptors: Sequence[int] = ()) -> dict[int, Result]:
    """Run this process's part of a duet; returns the result of each side that ran here.

    The first descriptor leads to the other side, the rest to other launches that start meanwhile.
    """
    if job.mine is None:
        return _play_both(job, stage)
    if not descriptors:
        raise ValueError("a side that runs alone needs a channel to the other")
    for each in descriptors:
        os.set_inheritable(each, False)
    channel, *others = descriptors
    with TurnPartner(channel) as partner:
        if not job.series:
            return {job.mine: _play_side(job, job.mine, stage, partner)}
        return {job.mine: _play_series(job, job.mine, stage, partner, Neighbours(*others))}


def _opened(spec: RunSpec) -> PreparedSession:
    return prepare(session_opener(spec.runtime), spec)


def _play_series(
    job: DuetJob, mine: int, stage: Stage, partner: TurnPartner, neighbours: Neighbours
) -> Result:
    """Measure this process's side: bursts in turn, then series of single queries in turn."""
    spec, runtime = job.sides[mine], RUNTIMES.load(job.sides[mine].runtime)
    early_context.wait()  # before other libraries of CUDA come in, which may start anything
    # Import what is used later too, so that no measurement waits for a file.
    import numpy.random  # noqa: F401 - numpy itself waits until inputs are drawn

    if runtime.load_library is not None:
        with suppress(Exception):  # loading the model will meet it, and report it
            runtime.load_library()
    neighbours.await_group()
    early_context.make_now()
    neighbours.await_load()
    stage("load")
    first = job.load_order % 2 == 0
    with partner.slot(first=first):
        prepared = _opened(spec)
    graph = prepared.session.conditions["cuda_graph"].value is True
    if not partner.swap(float(graph)) and graph:  # then neither side has one
        prepared.session.close()
        prepared = _opened(spec.having(cuda_graph="off"))
        notes = (*prepared.outcome.notes, OTHER_SIDE)
        prepared = replace(prepared, outcome=prepared.outcome.having(notes=notes))
    neighbours.loads.let_go()
    with ExitStack() as held:
        held.callback(prepared.session.close)
        clock = _unknown
        if job.launch < CLOCKED:
            held.enter_context(kept_open())
            gpu = held.enter_context(opened(visible_index(index_of(runtime.device(spec)))))
            clock = _unknown if gpu is None else gpu.sm_clock_hz
        gc.freeze()  # what is there stays: collecting before each series shall not look through it
        neighbours.turns.wait()  # until all have loaded, and the launch before is over
        stage("warm-up")
        with partner.slot(first=first):
            warm = warm_up(prepared.step, spec.warmup)
            pace_s, _ = _burst(prepared, size=PROBE, lead=2)()
        plan = bursts_from_pace([pace_s, partner.swap(pace_s)], turns=job.pairs)
        stage("measure")
        bursts: dict[str, object] = {}
        if job.bursts:
            # The order within each pair is random: one side may follow itself.
            burst = _burst(prepared, size=plan.size, lead=plan.lead)
            turns = order_of_turns(SETTLE + plan.turns, seed=job.seed, launch=job.launch).tolist()
            rows, seen_hz = in_turn(turns, mine, burst, partner, clock)
            seconds, enqueueing = np.array(rows[SETTLE:], np.float64).T
            known_hz = [each for each in seen_hz[SETTLE:] if each]
            bursts = {
                "burst_s": tuple(seconds.tolist()),
                "burst_size": plan.size,
                "burst_enqueue_s": float(np.median(enqueueing)),
                "burst_clock_hz": sum(known_hz) / len(known_hz) if known_hz else None,
            }
        times, facts = _series(prepared, partner, first=first)
        neighbours.leave()
    outcome = prepared.outcome_of(facts.having(load_order=job.load_order, **bursts), warm)
    how = f"two processes: {plan.words}, and {SERIES} series of queries, in turn"
    return outcome.having(  # what it takes to load was not measured, because others loaded too
        facts=outcome.facts.having(load_s=None, first_s=None),
        conditions={**outcome.conditions, "interleaved": Fact(value=how)},
    ), times


def _unknown() -> float | None:
    return None


def _burst(prepared: PreparedSession, *, size: int, lead: int) -> Burst:
    made = prepared.session.burst(size=size, lead=lead)
    if made is None:
        raise UsageError("this runtime cannot time bursts of queries", fix="--mode launches")
    return made


def in_turn(
    turns: Sequence[int], mine: int, work: Burst, partner: TurnPartner, clock: AskClock = _unknown
) -> tuple[list[tuple[float, float]], list[float | None]]:
    """Do the work in each turn of this side, and sleep in the others; returns the clocks too.

    The clock is read before the turn is handed over: it holds a while longer than the work.
    """
    found: list[tuple[float, float]] = []
    seen_hz: list[float | None] = []
    gc.collect()
    gc.disable()
    try:
        for number, side in enumerate(turns):
            if side != mine:
                continue
            if number > 0 and turns[number - 1] != mine:
                partner.wait()
            found.append(work())
            seen_hz.append(clock())
            if number + 1 < len(turns) and turns[number + 1] != mine:
                partner.hand_over()
    finally:
        gc.enable()
    partner.meet()
    return found, seen_hz


def _series(
    prepared: PreparedSession, partner: TurnPartner, *, first: bool
) -> tuple[IterationTimes, LaunchFacts]:
    """Run series of single queries, A B B A, each after a while in which it settles.

    Series are put one after the other; what passed between them is not counted.
    """
    parts: list[tuple[IterationTimes, LaunchFacts, float]] = []
    for number in range(SERIES):
        with partner.slot(first=first == (number % 2 == 0)):
            measure(prepared.step, Length(seconds=SETTLE_S), spans=prepared.spans)
            began = time.perf_counter()
            length = Length(seconds=SERIES_S, iterations=FEWEST)
            parts.append((*measure(prepared.step, length, spans=prepared.spans), began))
    facts = [each for _, each, _ in parts]
    tables = [dict(times.columns()) for times, _, _ in parts]
    for table, (_, _, began) in zip(tables, parts, strict=True):
        if "start" in table:
            table["start"] = np.asarray(table["start"], np.float64) + (began - parts[0][2])
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return times_from_columns(columns), facts[-1].having(
        wall_s=sum(each.wall_s or 0.0 for each in facts),
        cpu_s=sum(each.cpu_s or 0.0 for each in facts),
        involuntary_switches=sum(each.involuntary_switches or 0 for each in facts),
    )


def _turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> TurnSpec:
    """Settle how a side waits for its turn; a runtime without threads of its own just waits."""
    settle = RUNTIMES.load(spec.runtime).turn_spec
    return settle(spec, together) if settle is not None else TurnSpec(spec=spec)


def _play_both(job: DuetJob, stage: Stage) -> dict[int, Result]:
    both = [_turn_spec(spec, job.sides) for spec in job.sides]
    stage("load")
    alike = all(each.like_alone for each in both)
    alone: dict[int, SpanRows] = {}
    if not alike:
        for side in (0, 1) if job.launch % 2 == 0 else (1, 0):
            alone[side] = _alone_apart(_opened(job.sides[side]), job)
    # Which side is made first is random too: memory may lie better for one of them.
    creation = order_of_turns(1, seed=job.seed + 2, launch=job.launch).tolist()
    prepared = {side: _opened(both[side].spec) for side in creation}
    stage("warm-up")
    steps = {side: prepared[side].step for side in (0, 1)}
    pace_s = [_warm_pace_s(steps[side], job.sides[side].warmup) for side in (0, 1)]
    plan = plan_from_pace(pace_s, pairs=job.pairs)
    if alike:
        alone = _alone_in_blocks(steps, plan, job, None)
    stage("measure")
    turns = order_of_turns(plan.settle + plan.pairs, seed=job.seed, launch=job.launch)
    spans = run_stretches(steps, stretches(turns), None)
    return {
        side: _result_duet(
            prepared[side], spans[side], alone[side], plan, turns, side, how="one process"
        )
        for side in (0, 1)
    }


def _play_side(job: DuetJob, mine: int, stage: Stage, partner: TurnPartner) -> Result:
    own = _turn_spec(job.sides[mine], ())
    stage("load")
    prepared = _opened(own.spec if own.like_alone else job.sides[mine])
    partner.meet()
    stage("warm-up")
    alone: SpanRows | None = None
    with partner.slot(first=job.launch % 2 == mine):
        if not own.like_alone:
            with on_one_core():
                alone = _alone_apart(prepared, job)
            del prepared
            prepared = _opened(own.spec)
        with on_one_core():
            pace_s = _warm_pace_s(prepared.step, job.sides[mine].warmup)
    plan = plan_from_pace([pace_s, partner.swap(pace_s)], pairs=job.pairs)
    lacking = partner.swap(float(alone is None)) or alone is None
    with on_one_core() as core:
        if lacking:
            blocks = _alone_in_blocks({mine: prepared.step}, plan, job, partner)[mine]
            alone = blocks if alone is None else alone
        assert alone is not None
        stage("measure")
        turns = order_of_turns(plan.settle + plan.pairs, seed=job.seed, launch=job.launch)
        spans = run_stretches({mine: prepared.step}, stretches(turns), partner)[mine]
    how = "two processes in lock-step" + ("" if core is None else f" on core {core}")
    return _result_duet(prepared, spans, alone, plan, turns, mine, how=how)


def _alone_in_blocks(
    steps: Mapping[int, Step], plan: TurnPlan, job: DuetJob, partner: TurnPartner | None
) -> dict[int, SpanRows]:
    """Run blocks of queries, each side's in turn: within a block it is as if it were alone."""
    order = order_of_turns(plan.blocks, seed=job.seed + 1, launch=job.launch)
    found = run_stretches(steps, stretches(order, length=plan.in_block), partner)
    shape = (plan.blocks, plan.in_block, 2)
    return {side: spans.reshape(shape)[:, plan.dropped :] for side, spans in found.items()}


def _alone_apart(prepared: PreparedSession, job: DuetJob) -> SpanRows:
    """Run one long block of a session that a caller would have, and close it.

    Its idle threads would not leave the processor to the other side, so it must be gone first.
    """
    step = prepared.step
    try:
        plan = plan_from_pace([_warm_pace_s(step, job.sides[0].warmup)] * 2)
        starts, ends = timed_loop(step, Length(iterations=plan.blocks * plan.in_block))
    finally:
        prepared.session.close()
    return np.stack([starts, ends], axis=1)[None]


def run_stretches(
    steps: Mapping[int, Step], plan: Sequence[Stretch], partner: TurnPartner | None
) -> dict[int, SpanRows]:
    """Run every stretch of the sides that are here, and wait while another has its own.

    Who is done waits for the other: what it does next would lengthen the other's last query.
    """
    clock = time.perf_counter_ns
    stamps = {side: array("q") for side in steps}
    gc.collect()
    gc.disable()
    try:
        for number, (side, length) in enumerate(plan):
            if side not in steps:
                continue
            if partner is not None and number > 0:
                partner.wait()
            step, push = steps[side], stamps[side].append
            for _ in range(length):
                before = clock()
                step()
                push(before)
                push(clock())
            if partner is not None and number + 1 < len(plan):
                partner.hand_over()
    finally:
        gc.enable()
    if partner is not None:
        partner.meet()
    return {side: np.frombuffer(kept, np.int64).reshape(-1, 2) for side, kept in stamps.items()}


def _warm_pace_s(step: Step, warmup: Warmup) -> float:
    """Warm up and return how long a query takes; a slow model's warm-up shows it already.

    A busy machine may lengthen a launch, but not empty it.
    """
    warm = warm_up(step, warmup)
    seconds, count = warm.warmup_s or 0.0, warm.warmup_iterations or 0
    if FEWEST_PACE <= count < PACE:
        return seconds / count
    starts, ends = timed_loop(step, Length(iterations=PACE))
    lengths = ends - starts
    return float(min(np.median(lengths), MOST_STRETCHED * lengths.min())) * _NS


def _result_duet(
    prepared: PreparedSession,
    spans: SpanRows,
    alone: SpanRows,
    plan: TurnPlan,
    turns: NDArray[np.int64],
    side: int,
    *,
    how: str,
) -> Result:
    """Drop the settling pairs and describe the rest as one launch of a run."""
    second = (turns.reshape(-1, 2)[:, 1] == side)[plan.settle :]
    kept = spans[plan.settle :]
    starts, ends = kept[:, 0], kept[:, 1]
    times = IterationTimes(
        host=np.asarray((ends - starts) * _NS, np.float64),
        start=np.asarray((starts - spans[0, 0]) * _NS, np.float64),
        stamps={"second": second.astype(np.float64)},
    )
    lengths = (alone[..., 1] - alone[..., 0]) * _NS
    blocks = np.median(lengths, axis=1)
    facts = LaunchFacts(
        load_s=prepared.load_s,
        first_s=prepared.first_s,
        solo_median_s=float(np.median(blocks)),
        alone_s=tuple(float(each) for each in blocks),
        timer_floor_s=timer_floor_s(),
    )
    outcome = prepared.outcome.having(facts=facts)
    conditions = {**outcome.conditions, "interleaved": Fact(value=how)}
    return outcome.having(conditions=conditions), times


@contextmanager
def on_one_core() -> Iterator[int | None]:
    """Keep this thread on the fastest core it may use, and the process's others off it.

    It is the same core for both processes: with one each, a launch would compare cores, and the
    same model against itself differed by 15 to 25 %. No session may be opened here, because its
    threads would inherit the core.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(allowed) < 2:
        yield None
        return
    core = fastest_core(allowed)
    own = threading.get_native_id()
    threads = {own, *(int(each.name) for each in Path("/proc/self/task").iterdir())}
    for thread in threads:
        with suppress(OSError):  # it may have ended
            os.sched_setaffinity(thread, {core} if thread == own else allowed - {core})
    try:
        yield core
    finally:
        for thread in threads:
            with suppress(OSError):
                os.sched_setaffinity(thread, allowed)
