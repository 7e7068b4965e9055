"""Two sides measured in turn: both in one process, or in two that hand each other the turn.

The side that waits leaves the processor alone, and the side that runs runs as it would alone:
sessions of one process share a pool of threads or stop theirs when a run ends, and two processes
measure from the same core, with their pools' threads on the others. Blocks of queries alone, in
the same launch, show whether it worked. The order within each pair is random and known to both
sides beforehand, so that a turn is handed over by one byte and the parent sleeps.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.turn_plan import Stretch, TurnPlan, order_of_turns, plan_from_pace, stretches
from trtbench.domain.job import BenchOutcome, DuetJob, Stage
from trtbench.domain.result import Fact, LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import Length, RunSpec, Warmup
from trtbench.host.machine import fastest_core
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes._bench import (
    PreparedSession,
    close_session,
    prepare,
    timed_loop,
    timer_floor_s,
    warm_up,
)
from trtbench.runtimes._partner import Neighbours, TurnPartner
from trtbench.runtimes._session import TurnSpec

PACE, FEWEST_PACE = 5, 2
"""Queries that tell how long one takes, before a launch is planned; of slow models, fewer do."""
MOST_STRETCHED = 3.0

_NS = 1e-9

Step = Callable[[], object]
Result = tuple[BenchOutcome, IterationTimes]
SpanRows = NDArray[np.int64]
"""Start and end of each query, in nanoseconds."""


def play(job: DuetJob, stage: Stage, descriptors: Sequence[int] = ()) -> dict[int, Result]:
    """Run this process's part of a duet; gives the result of each side that ran here.

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
            return {job.mine: _play_side(job, stage, partner)}
        from trtbench.runtimes._bursts import play_series

        return {job.mine: play_series(job, stage, partner, Neighbours(*others))}


def turn_spec(spec: RunSpec, together: Sequence[RunSpec]) -> TurnSpec:
    """Settle how a side waits for its turn; a runtime without threads of its own just waits."""
    settle = RUNTIMES.load(spec.runtime).turn_spec
    return settle(spec, together) if settle is not None else TurnSpec(spec=spec)


def _opened(spec: RunSpec) -> PreparedSession:
    return prepare(session_opener(spec.runtime), spec)


def _play_both(job: DuetJob, stage: Stage) -> dict[int, Result]:
    both = [turn_spec(spec, job.sides) for spec in job.sides]
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
    turns = _turns(plan, job)
    spans = run_stretches(steps, stretches(turns), None)
    return {
        side: _result(
            prepared[side], spans[side], alone[side], plan, turns, side, how="one process"
        )
        for side in (0, 1)
    }


def _play_side(job: DuetJob, stage: Stage, partner: TurnPartner) -> Result:
    mine = int(job.mine or 0)
    own = turn_spec(job.sides[mine], ())
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
        turns = _turns(plan, job)
        spans = run_stretches({mine: prepared.step}, stretches(turns), partner)[mine]
    how = "two processes in lock-step" + ("" if core is None else f" on core {core}")
    return _result(prepared, spans, alone, plan, turns, mine, how=how)


def _turns(plan: TurnPlan, job: DuetJob) -> NDArray[np.int64]:
    return order_of_turns(plan.settle + plan.pairs, seed=job.seed, launch=job.launch)


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
        close_session(prepared.session)
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
    """Warm up and tell how long a query takes; a slow model's warm-up tells it already.

    A busy machine may lengthen a launch, but not empty it.
    """
    warm = warm_up(step, warmup)
    if FEWEST_PACE <= warm.iterations < PACE:
        return warm.seconds / warm.iterations
    starts, ends = timed_loop(step, Length(iterations=PACE))
    lengths = ends - starts
    return float(min(np.median(lengths), MOST_STRETCHED * lengths.min())) * _NS


def _result(
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

    It is the same core for both processes: where each sits on one of its own, a whole launch
    compares cores, and the same model against itself differed by 15 to 25 % from launch to launch.
    A pool's thread that the kernel puts on that core makes a query twice as long, for a while. No
    session may be opened here, because its threads would inherit the core.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(allowed) < 2:
        yield None
        return
    core = fastest_core(allowed)
    own, *others = sorted(_threads(), key=lambda each: each != threading.get_native_id())
    _place([own], {core})
    _place(others, allowed - {core})
    try:
        yield core
    finally:
        _place([own, *others], allowed)


def _threads() -> list[int]:
    return [int(each.name) for each in Path("/proc/self/task").iterdir()]


def _place(threads: Sequence[int], cores: Set[int]) -> None:
    for thread in threads:
        with suppress(OSError):  # it may have ended
            os.sched_setaffinity(thread, cores)
