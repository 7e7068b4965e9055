"""One side of two on a GPU: a process each, both alive, and whole stretches of work in turn.

Single queries in turn would find the GPU cold after each change of process and take twice as long;
bursts back to back, and series of queries, run as they would alone. Who waits sleeps in a read of
the socket: it touches neither the processor nor the GPU.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.memory import METERED
from trtbench.analysis.turn_plan import SETTLE, BurstPlan, bursts_from_pace, order_of_turns
from trtbench.domain.job import BenchOutcome, DuetJob, Stage
from trtbench.domain.result import Fact, LaunchFacts
from trtbench.domain.samples import IterationTimes, times_from_columns
from trtbench.domain.spec import Length, RunSpec
from trtbench.errors import UsageError
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes._bench import (
    PreparedSession,
    WarmupResult,
    close_session,
    measure,
    prepare,
    warm_up,
)
from trtbench.runtimes._partner import Neighbours, TurnPartner
from trtbench.runtimes._session import Burst

PROBE = 8
"""Queries of the burst that tells how long one takes."""
SERIES = 2
"""Series of each side in a launch: A B B A."""
SERIES_S, SETTLE_S, FEWEST = 0.04, 0.01, 10
"""Seconds of a series, and of the queries before it that are not kept; its fewest queries."""
OTHER_SIDE = "measured without a CUDA graph: the other side cannot be captured"

Result = tuple[BenchOutcome, IterationTimes]


def play_series(job: DuetJob, stage: Stage, partner: TurnPartner, neighbours: Neighbours) -> Result:
    """Measure this process's side: bursts in turn, then series of single queries in turn."""
    mine = int(job.mine or 0)
    spec = job.sides[mine]
    import_all(spec.runtime)
    if not job.together:
        neighbours.await_turn(alone=True)
    stage("load")
    prepared = _alike(prepare(session_opener(spec.runtime), spec), spec, partner)
    first = job.launch % 2 == mine
    try:
        if job.together:
            neighbours.await_turn(alone=False)
        stage("warm-up")
        with partner.slot(first=first):
            warm = warm_up(prepared.step, spec.warmup)
            pace_s, _ = _burst(prepared, size=PROBE, lead=2)()
        plan = bursts_from_pace([pace_s, partner.swap(pace_s)], turns=job.pairs)
        stage("measure")
        bursts = _bursts(prepared, plan, job, partner) if job.bursts else None
        times, facts = _series(prepared, partner, first=first)
        if job.together:
            neighbours.leave()
    finally:
        close_session(prepared.session)
    return _result(prepared, warm, facts, plan, bursts), times


def import_all(runtime: str) -> None:
    """Import what is used later too, so that no measurement waits for a file."""
    import numpy.random  # noqa: F401 - numpy itself waits until inputs are drawn

    load_library = RUNTIMES.load(runtime).load_library
    if load_library is not None:
        with contextlib.suppress(Exception):  # loading the model will meet it, and say so
            load_library()


def _alike(prepared: PreparedSession, spec: RunSpec, partner: TurnPartner) -> PreparedSession:
    """Go without a graph where the other side has none: else the sides are not comparable."""
    graph = prepared.session.conditions["cuda_graph"].value is True
    others = bool(partner.swap(float(graph)))
    if others or not graph:
        return prepared
    close_session(prepared.session)
    bare = prepare(session_opener(spec.runtime), spec.having(cuda_graph="off"))
    outcome = bare.outcome.having(notes=(*bare.outcome.notes, OTHER_SIDE))
    return replace(bare, outcome=outcome)


def _burst(prepared: PreparedSession, *, size: int, lead: int) -> Burst:
    made = prepared.session.burst(size=size, lead=lead)
    if made is None:
        raise UsageError("this runtime cannot time bursts of queries", fix="--mode launches")
    return made


def _bursts(
    prepared: PreparedSession, plan: BurstPlan, job: DuetJob, partner: TurnPartner
) -> NDArray[np.float64]:
    """Run bursts in turn, in the order that both sides drew; gives one row per burst that counts.

    The order within each pair is random: one side may follow itself, and a burst stays a burst.
    """
    mine = int(job.mine or 0)
    burst = _burst(prepared, size=plan.size, lead=plan.lead)
    turns = order_of_turns(SETTLE + plan.turns, seed=job.seed, launch=job.launch).tolist()
    rows = in_turn(turns, mine, burst, partner)
    return np.array(rows[SETTLE:], np.float64)


def in_turn(
    turns: Sequence[int], mine: int, work: Burst, partner: TurnPartner
) -> list[tuple[float, float]]:
    """Do the work in each turn of this side, and sleep in the others."""
    found: list[tuple[float, float]] = []
    gc.collect()
    gc.disable()
    try:
        for number, side in enumerate(turns):
            if side != mine:
                continue
            if number > 0 and turns[number - 1] != mine:
                partner.wait()
            found.append(work())
            if number + 1 < len(turns) and turns[number + 1] != mine:
                partner.hand_over()
    finally:
        gc.enable()
    partner.meet()
    return found


def _series(
    prepared: PreparedSession, partner: TurnPartner, *, first: bool
) -> tuple[IterationTimes, LaunchFacts]:
    """Run series of single queries, A B B A, each after a while in which it settles."""
    parts: list[tuple[IterationTimes, LaunchFacts, float]] = []

    def series() -> None:
        measure(prepared.step, Length(seconds=SETTLE_S), spans=prepared.spans)
        began = time.perf_counter()
        length = Length(seconds=SERIES_S, iterations=FEWEST)
        times, facts = measure(prepared.step, length, spans=prepared.spans)
        parts.append((times, facts, began))

    for number in range(SERIES):
        with partner.slot(first=first == (number % 2 == 0)):
            series()
    return _joined(parts)


def _joined(
    parts: Sequence[tuple[IterationTimes, LaunchFacts, float]],
) -> tuple[IterationTimes, LaunchFacts]:
    """Put series one after the other; what passed between them is not counted."""
    tables = [dict(times.columns()) for times, _, _ in parts]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    if "start" in columns:
        offsets = [began - parts[0][2] for _, _, began in parts]
        columns["start"] = np.concatenate(
            [
                np.asarray(table["start"], np.float64) + offset
                for table, offset in zip(tables, offsets, strict=True)
            ]
        )
    facts = [each for _, each, _ in parts]
    joined = facts[-1].having(
        wall_s=sum(each.wall_s or 0.0 for each in facts),
        cpu_s=sum(each.cpu_s or 0.0 for each in facts),
        involuntary_switches=sum(each.involuntary_switches or 0 for each in facts),
    )
    return times_from_columns(columns), joined


def _result(
    prepared: PreparedSession,
    warm: WarmupResult,
    facts: LaunchFacts,
    plan: BurstPlan,
    bursts: NDArray[np.float64] | None,
) -> BenchOutcome:
    """Describe the launch; what it takes to load was not measured, because others loaded too."""
    outcome = prepared.outcome_of(facts, warm)
    facts = outcome.facts.having(load_s=None, first_s=None)
    if bursts is not None:
        facts = facts.having(
            burst_s=tuple(bursts[:, 0].tolist()),
            burst_size=plan.size,
            burst_enqueue_s=float(np.median(bursts[:, 1])),
        )
    how = f"two processes: {plan.words}, and {SERIES} series of queries, in turn"
    conditions = {**outcome.conditions, "interleaved": Fact(value=how)}
    told = outcome.evidence.items()
    evidence = {name: fact for name, fact in told if not name.startswith(METERED)}
    return outcome.having(facts=facts, conditions=conditions, evidence=evidence)
