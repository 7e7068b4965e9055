"""One side of two on a GPU: a process each, both alive, and whole stretches of work in turn.

Single queries in turn would find the GPU cold after each change of process and take twice as long;
bursts back to back, and series of queries, run as they would alone. Who waits sleeps in a read of
the socket: it touches neither the processor nor the GPU.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np

from trtbench.analysis.memory import METERED
from trtbench.analysis.turn_plan import SETTLE, BurstPlan, bursts_from_pace, order_of_turns
from trtbench.domain.job import BenchOutcome, DuetJob, Stage
from trtbench.domain.result import Fact, LaunchFacts
from trtbench.domain.samples import IterationTimes, times_from_columns
from trtbench.domain.spec import Length, RunSpec
from trtbench.errors import UsageError
from trtbench.host import early_context
from trtbench.host.cuda import index_of
from trtbench.host.gpu_names import visible_index
from trtbench.host.nvml import kept_open, opened
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
CLOCKED = 2
"""Launches that look at the SM clock: it differs by engine, not by launch, and NVML must start."""
OTHER_SIDE = "measured without a CUDA graph: the other side cannot be captured"

Result = tuple[BenchOutcome, IterationTimes]
AskClock = Callable[[], float | None]


def play_series(job: DuetJob, stage: Stage, partner: TurnPartner, neighbours: Neighbours) -> Result:
    """Measure this process's side: bursts in turn, then series of single queries in turn."""
    mine = int(job.mine or 0)
    spec = job.sides[mine]
    early_context.wait()  # before other libraries of CUDA come in: nobody knows what they start
    import_all(spec.runtime)
    neighbours.await_group()
    early_context.make_now()
    neighbours.await_load()
    stage("load")
    first = job.load_order % 2 == 0
    with partner.slot(first=first):
        prepared = prepare(session_opener(spec.runtime), spec)
    prepared = _alike(prepared, spec, partner)
    neighbours.let_load()
    with contextlib.ExitStack() as held:
        held.callback(close_session, prepared.session)
        clock = held.enter_context(sm_clock(spec)) if job.launch < CLOCKED else _unknown
        gc.freeze()  # what is there stays: collecting before each series shall not look through it
        neighbours.await_turn()
        stage("warm-up")
        with partner.slot(first=first):
            warm = warm_up(prepared.step, spec.warmup)
            pace_s, _ = _burst(prepared, size=PROBE, lead=2)()
        plan = bursts_from_pace([pace_s, partner.swap(pace_s)], turns=job.pairs)
        stage("measure")
        bursts = _bursts(prepared, plan, job, partner, clock) if job.bursts else {}
        times, facts = _series(prepared, partner, first=first)
        neighbours.leave()
    facts = facts.having(load_order=job.load_order, **bursts)
    return _result(prepared, warm, facts, plan), times


def import_all(runtime: str) -> None:
    """Import what is used later too, so that no measurement waits for a file."""
    import numpy.random  # noqa: F401 - numpy itself waits until inputs are drawn

    load_library = RUNTIMES.load(runtime).load_library
    if load_library is not None:
        with contextlib.suppress(Exception):  # loading the model will meet it, and say so
            load_library()


@contextlib.contextmanager
def sm_clock(spec: RunSpec, *, nvml: ModuleType | None = None) -> Iterator[AskClock]:
    """Keep NVML open to be asked for the SM clock of a spec's GPU; without it nobody knows."""
    with kept_open(nvml=nvml):
        index = visible_index(index_of(RUNTIMES.load(spec.runtime).device(spec)), nvml=nvml)
        with opened(index, nvml=nvml) as gpu:
            yield _unknown if gpu is None else gpu.sm_clock_hz


def _unknown() -> None:
    """Tell no clock."""


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
    prepared: PreparedSession, plan: BurstPlan, job: DuetJob, partner: TurnPartner, clock: AskClock
) -> dict[str, object]:
    """Run bursts in turn, in the order that both sides drew; gives what those tell that count.

    The order within each pair is random: one side may follow itself, and a burst stays a burst.
    """
    mine = int(job.mine or 0)
    burst = _burst(prepared, size=plan.size, lead=plan.lead)
    turns = order_of_turns(SETTLE + plan.turns, seed=job.seed, launch=job.launch).tolist()
    rows, seen_hz = in_turn(turns, mine, burst, partner, clock)
    seconds, enqueueing = np.array(rows[SETTLE:], np.float64).T
    known_hz = [each for each in seen_hz[SETTLE:] if each]
    return {
        "burst_s": tuple(seconds.tolist()),
        "burst_size": plan.size,
        "burst_enqueue_s": float(np.median(enqueueing)),
        "burst_clock_hz": sum(known_hz) / len(known_hz) if known_hz else None,
    }


def in_turn(
    turns: Sequence[int], mine: int, work: Burst, partner: TurnPartner, clock: AskClock = _unknown
) -> tuple[list[tuple[float, float]], list[float | None]]:
    """Do the work in each turn of this side, and sleep in the others; gives the clocks too.

    The clock is asked for before the turn is handed over: it holds a while longer than the work.
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
    prepared: PreparedSession, warm: WarmupResult, facts: LaunchFacts, plan: BurstPlan
) -> BenchOutcome:
    """Describe the launch; what it takes to load was not measured, because others loaded too."""
    outcome = prepared.outcome_of(facts, warm)
    facts = outcome.facts.having(load_s=None, first_s=None)
    how = f"two processes: {plan.words}, and {SERIES} series of queries, in turn"
    conditions = {**outcome.conditions, "interleaved": Fact(value=how)}
    told = outcome.evidence.items()
    evidence = {name: fact for name, fact in told if not name.startswith(METERED)}
    return outcome.having(facts=facts, conditions=conditions, evidence=evidence)
