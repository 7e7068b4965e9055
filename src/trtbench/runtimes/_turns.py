"""Measures two sides in turn: both in one process, or in two processes that hand over the turn.

The idle side is kept quiet: sessions of one process share a pool of threads, or stop theirs when a
query ends, and two processes measure on the same core, with their other threads on other cores. On
a GPU, single queries in turn would take twice as long, because the GPU is cold after each change of
process; there, bursts of queries and series of queries take turns.
"""

from __future__ import annotations

import gc
import os
import socket
import struct
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis import pacing
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.jobs import DuetJob, Stage
from trtbench.core.run import Fact, LaunchFacts
from trtbench.core.samples import IterationTimes, times_from_columns
from trtbench.core.spec import Length, RunSpec, Warmup
from trtbench.host import early_context
from trtbench.host.cuda import index_of
from trtbench.host.machine import fastest_core, still_runs
from trtbench.host.nvml import Device, keep_open, opened, visible_index
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes import _loop as loop
from trtbench.runtimes._session import Burst, TurnSpec, at_end

_HELLO, _TURN = b"h", b"t"
_PACE = struct.Struct("!d")
_NS = 1e-9
LOOK_S = 0.002
"""Seconds between two checks whether a process has ended; nothing is measured meanwhile."""
PACE, FEWEST_PACE = 5, 2
"""Queries to estimate the time of one, before a launch is planned; fewer for slow models."""
MOST_STRETCHED = 3.0
PROBE = 8  # queries of the burst that estimates the time of one query
SERIES = 2  # series of each side in a launch: A B B A
SERIES_S, SETTLE_S, FEWEST = 0.04, 0.01, 10
"""Seconds of a series, and of the discarded queries before it; its minimum of queries."""
OTHER_SIDE = "measured without a CUDA graph: the other side cannot be captured"

SpanRows = NDArray[np.int64]


class PartnerLost(TrtbenchError):
    """The process of the other side ended too early."""


class Barrier:
    """A pipe: its reader waits until all processes have closed its writing end, or have ended."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self.writer = reader, writer

    def release(self) -> None:
        os.close(self.writer)

    def wait(self) -> bytes:
        """Sleep until no process holds the writing end; returns what was written."""
        with open(self._reader, "rb", closefd=False) as pipe:
            return pipe.read()


class Neighbours:
    """Other launches that start at the same time: one uses the machine while the others sleep.

    The launches of a group load one after the other, so that the n-th launch of each group finds
    the same state of GPU memory; then they measure one after the other.
    """

    def __init__(self, *ends: int) -> None:
        barriers = [Barrier(*ends[number : number + 2]) for number in range(0, len(ends), 2)]
        self._imports, self._groups, self._contexts, self.loads, self.turns, self._end = barriers
        with suppress(BrokenPipeError):  # after the last group, no one waits
            os.write(self._groups.writer, b"%d " % os.getpid())

    def await_group(self) -> None:
        """Sleep until all have imported their libraries, and the previous group has ended.

        A process that has not ended may still use memory.
        """
        self._imports.release()
        self._imports.wait()
        before = [int(each) for each in self._groups.wait().split()]
        while any(map(still_runs, before)):
            time.sleep(LOOK_S)

    def await_load(self) -> None:
        """Sleep until the whole group has contexts, and all earlier launches have engines."""
        self._contexts.release()
        self._contexts.wait()
        self.loads.wait()

    def finish(self) -> None:
        """Let the next launch start, and sleep until all are done: exiting would disturb them."""
        self.turns.release()
        self._end.release()
        self._end.wait()


class TurnPartner:
    """The process of the other side, at the other end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def __enter__(self) -> TurnPartner:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def meet(self) -> None:
        self._send(_HELLO)
        self._receive(1, _HELLO)

    def hand_over(self) -> None:
        self._send(_TURN)

    def wait(self) -> None:
        self._receive(1, _TURN)

    @contextmanager
    def slot(self, *, first: bool) -> Iterator[None]:
        if not first:
            self.wait()
        yield
        self.hand_over()
        if first:
            self.wait()

    def swap(self, pace_s: float) -> float:
        """Exchange the time of a query; returns the one of the other side."""
        self._send(_PACE.pack(pace_s))
        return float(_PACE.unpack(self._receive(_PACE.size))[0])

    def _send(self, word: bytes) -> None:
        try:
            self._socket.sendall(word)
        except OSError:
            raise PartnerLost("the other side ended too early") from None

    def _receive(self, size: int, expected: bytes | None = None) -> bytes:
        with suppress(OSError):
            received = self._socket.recv(size, socket.MSG_WAITALL)
            if len(received) == size and expected in (None, received):
                return received
        raise PartnerLost("the other side ended too early")


def run_duet(job: DuetJob, stage: Stage, descriptors: Sequence[int] = ()) -> dict[int, loop.Result]:
    """Run this process's part of a comparison in turns; returns the result of each side here.

    The first descriptor connects to the other side, the rest to launches that start together.
    """
    if job.mine is None:
        return _run_both_sides(job, stage)
    if not descriptors:
        raise ValueError("a side in its own process needs a descriptor of the other side")
    for each in descriptors:
        os.set_inheritable(each, False)
    channel, *others = descriptors
    with TurnPartner(channel) as partner:
        if not job.series:
            return {job.mine: _run_side(job, job.mine, stage, partner)}
        return {job.mine: _run_side_on_gpu(job, job.mine, stage, partner, Neighbours(*others))}


def _prepare(spec: RunSpec) -> loop.PreparedSession:
    return loop.prepare(session_opener(spec.runtime), spec)


def _run_side_on_gpu(
    job: DuetJob, mine: int, stage: Stage, partner: TurnPartner, neighbours: Neighbours
) -> loop.Result:
    """Measure the side of this process: bursts in turn, then series of single queries in turn."""
    spec, runtime = job.sides[mine], RUNTIMES.load(job.sides[mine].runtime)
    early_context.wait()  # before importing other CUDA libraries, which may start threads
    # Import everything that is used later, so that no measurement waits for a file.
    import numpy.random  # noqa: F401 - numpy imports it only when inputs are drawn

    if runtime.load_library is not None:
        with suppress(Exception):  # loading the model raises it again
            runtime.load_library()
    neighbours.await_group()
    early_context.make_delayed()
    neighbours.await_load()
    stage("load")
    first = job.load_order % 2 == 0
    with partner.slot(first=first):
        prepared = _prepare(spec)
    graph = prepared.session.conditions["cuda_graph"].value is True
    if not partner.swap(float(graph)) and graph:  # then neither side uses one
        prepared.close()
        del prepared  # frees the engine: beside it, a second one would be slower
        prepared = _prepare(spec.having(cuda_graph="off"))
        notes = (*prepared.outcome.notes, OTHER_SIDE)
        prepared = replace(prepared, outcome=prepared.outcome.having(notes=notes))
    neighbours.loads.release()
    with ExitStack() as held:
        held.callback(at_end[0], prepared)
        gpu: Device | None = None
        # Launches that read the SM clock: it depends on the engine, and starting NVML takes time.
        if job.launch < 2:
            held.enter_context(keep_open())
            gpu = held.enter_context(opened(visible_index(index_of(runtime.device(spec)))))
        gc.freeze()  # existing objects are skipped by the collection before each series
        neighbours.turns.wait()  # until all have loaded, and the previous launch is done
        stage("warm-up")
        with partner.slot(first=first):
            warm = loop.warm_up(prepared.step, spec.warmup)
            pace_s, _ = _burst(prepared, size=PROBE, lead=2)()
        plan = pacing.bursts_from_pace([pace_s, partner.swap(pace_s)], turns=job.pairs)
        stage("measure")
        bursts: dict[str, object] = {}
        if job.bursts:
            # The order within each pair is random, so one side may have two turns in a row.
            burst = _burst(prepared, size=plan.size, lead=plan.lead)
            count = pacing.SETTLE + plan.turns
            turns = pacing.order_of_turns(count, seed=job.seed, launch=job.launch)
            rows: list[tuple[float, float, float]] = []

            def work() -> None:  # the clock is read while it is still as in the burst
                rows.append((*burst(), (gpu.sm_clock_hz() if gpu else None) or 0.0))

            run_stretches({mine: work}, pacing.stretches(turns), partner)
            seconds, enqueueing, seen_hz = np.array(rows[pacing.SETTLE :], np.float64).T
            known_hz = seen_hz[seen_hz > 0]
            bursts = {
                "burst_s": tuple(seconds.tolist()),
                "burst_size": plan.size,
                "burst_enqueue_s": float(np.median(enqueueing)),
                "burst_clock_hz": float(known_hz.mean()) if len(known_hz) else None,
            }
        times, facts = _series(prepared, partner, first=first)
        outcome = prepared.outcome_of(facts.having(load_order=job.load_order, **bursts), warm)
        neighbours.finish()
    bursts_done = f"{plan.turns} bursts of {plan.size} queries"
    how = f"two processes: {bursts_done}, and {SERIES} series of queries, in turn"
    return outcome.having(  # load times are not valid, because other launches loaded too
        facts=outcome.facts.having(load_s=None, first_s=None),
        conditions={**outcome.conditions, "interleaved": Fact(value=how)},
    ), times


def _burst(prepared: loop.PreparedSession, *, size: int, lead: int) -> Burst:
    burst = prepared.session.burst(size=size, lead=lead)
    if burst is None:
        raise UsageError("this runtime cannot time bursts of queries", fix="--mode launches")
    return burst


def _series(
    prepared: loop.PreparedSession, partner: TurnPartner, *, first: bool
) -> tuple[IterationTimes, LaunchFacts]:
    """Run series of single queries, A B B A, each after some discarded queries.

    Returns the times of all series of this side; the time between series is not counted.
    """
    measure = partial(loop.measure, prepared.step, spans=prepared.session.spans)
    parts: list[tuple[IterationTimes, LaunchFacts, float]] = []
    for number in range(SERIES):
        with partner.slot(first=first == (number % 2 == 0)):
            measure(Length(seconds=SETTLE_S))
            began = time.perf_counter()
            parts.append((*measure(Length(seconds=SERIES_S, iterations=FEWEST)), began))
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
    """Return how a side is opened to take turns; unchanged if its runtime has no own threads."""
    turn_spec = RUNTIMES.load(spec.runtime).turn_spec
    return turn_spec(spec, together) if turn_spec is not None else TurnSpec(spec=spec)


def _run_both_sides(job: DuetJob, stage: Stage) -> dict[int, loop.Result]:
    both = [_turn_spec(spec, job.sides) for spec in job.sides]
    stage("load")
    alike = all(each.like_alone for each in both)
    alone: dict[int, SpanRows] = {}
    if not alike:
        for side in (0, 1) if job.launch % 2 == 0 else (1, 0):
            alone[side] = _measure_alone(_prepare(job.sides[side]), job)
    # Which side is opened first is random too: it may affect the placement of memory.
    creation = pacing.order_of_turns(1, seed=job.seed + 2, launch=job.launch).tolist()
    prepared = {side: _prepare(both[side].spec) for side in creation}
    stage("warm-up")
    steps = {side: prepared[side].step for side in (0, 1)}
    pace_s = [_warm_pace_s(steps[side], job.sides[side].warmup) for side in (0, 1)]
    plan = pacing.plan_from_pace(pace_s, pairs=job.pairs)
    if alike:
        alone = _measure_blocks(steps, plan, job, None)
    stage("measure")
    turns = pacing.order_of_turns(plan.settle + plan.pairs, seed=job.seed, launch=job.launch)
    spans = run_stretches(steps, pacing.stretches(turns), None)
    return {
        side: _result_of_side(
            prepared[side], spans[side], alone[side], plan, turns, side, how="one process"
        )
        for side in (0, 1)
    }


def _run_side(job: DuetJob, mine: int, stage: Stage, partner: TurnPartner) -> loop.Result:
    own = _turn_spec(job.sides[mine], ())
    stage("load")
    prepared = _prepare(own.spec if own.like_alone else job.sides[mine])
    partner.meet()
    stage("warm-up")
    alone: SpanRows | None = None
    with partner.slot(first=job.launch % 2 == mine):
        if not own.like_alone:
            with on_one_core():
                alone = _measure_alone(prepared, job)
            del prepared
            prepared = _prepare(own.spec)
        with on_one_core():
            pace_s = _warm_pace_s(prepared.step, job.sides[mine].warmup)
    plan = pacing.plan_from_pace([pace_s, partner.swap(pace_s)], pairs=job.pairs)
    needs_blocks = partner.swap(float(alone is None)) or alone is None
    with on_one_core() as core:
        if needs_blocks:
            blocks = _measure_blocks({mine: prepared.step}, plan, job, partner)[mine]
            alone = blocks if alone is None else alone
        assert alone is not None
        stage("measure")
        turns = pacing.order_of_turns(plan.settle + plan.pairs, seed=job.seed, launch=job.launch)
        spans = run_stretches({mine: prepared.step}, pacing.stretches(turns), partner)[mine]
    how = "two processes in lock-step" + ("" if core is None else f" on core {core}")
    return _result_of_side(prepared, spans, alone, plan, turns, mine, how=how)


def _measure_blocks(
    steps: Mapping[int, loop.Step], plan: pacing.TurnPlan, job: DuetJob, partner: TurnPartner | None
) -> dict[int, SpanRows]:
    """Run blocks of queries of each side in turn; within a block, a side runs as if alone."""
    order = pacing.order_of_turns(plan.blocks, seed=job.seed + 1, launch=job.launch)
    found = run_stretches(steps, pacing.stretches(order, length=plan.in_block), partner)
    shape = (plan.blocks, plan.in_block, 2)
    return {side: spans.reshape(shape)[:, plan.dropped :] for side, spans in found.items()}


def _measure_alone(prepared: loop.PreparedSession, job: DuetJob) -> SpanRows:
    """Run one long block of a session with its usual threads, and close the session.

    Its idle threads would disturb the other side, so it must be closed first.
    """
    step = prepared.step
    try:
        plan = pacing.plan_from_pace([_warm_pace_s(step, job.sides[0].warmup)] * 2)
        starts, ends = loop.timed_loop(step, Length(iterations=plan.blocks * plan.in_block))
    finally:
        prepared.close()
    return np.stack([starts, ends], axis=1)[None]


def run_stretches(
    steps: Mapping[int, loop.Step], plan: Sequence[pacing.Stretch], partner: TurnPartner | None
) -> dict[int, SpanRows]:
    """Run the stretches of the sides in this process, and wait during those of the other side.

    At the end both sides wait for each other, so as not to disturb the last query.
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


def _warm_pace_s(step: loop.Step, warmup: Warmup) -> float:
    """Warm up and return the time of a query; for slow models, from the warm-up itself.

    The estimate is limited, so that a busy machine does not make a launch too short.
    """
    warm = loop.warm_up(step, warmup)
    seconds, count = warm.warmup_s or 0.0, warm.warmup_iterations or 0
    if FEWEST_PACE <= count < PACE:
        return seconds / count
    starts, ends = loop.timed_loop(step, Length(iterations=PACE))
    lengths = ends - starts
    return float(min(np.median(lengths), MOST_STRETCHED * lengths.min())) * _NS


def _result_of_side(
    prepared: loop.PreparedSession,
    spans: SpanRows,
    alone: SpanRows,
    plan: pacing.TurnPlan,
    turns: NDArray[np.int64],
    side: int,
    *,
    how: str,
) -> loop.Result:
    """Return the result of one side as a launch of a run, without the first, discarded pairs."""
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
        timer_floor_s=loop.timer_floor_s(),
    )
    outcome = prepared.look(prepared.outcome.having(facts=facts))
    conditions = {**outcome.conditions, "interleaved": Fact(value=how)}
    return outcome.having(conditions=conditions), times


@contextmanager
def on_one_core() -> Iterator[int | None]:
    """Pin this thread to the fastest allowed core, and keep other threads of the process off it.

    Both processes use the same core: with different ones, a launch would compare cores, and the
    same model against itself differed by 15 to 25 %. No session may be opened in the block, because
    its threads would inherit the core.
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
