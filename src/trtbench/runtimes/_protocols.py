"""How queries follow one another: one launch of a run, by the protocol that was asked for."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator

import numpy as np

from trtbench.analysis.warmup import WarmupWatch
from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.result import Fact, LaunchFacts, Scalar
from trtbench.domain.samples import IterationTimes, times_from_columns
from trtbench.domain.spec import InputSpec, Length, RunSpec, TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host import waiting
from trtbench.runtimes._bench import (
    PreparedSession,
    Stamps,
    WarmupResult,
    close_session,
    first_query,
    measure,
    prepare,
    timer_floor_s,
    times_from_stamps,
    warm_up,
    watched,
)
from trtbench.runtimes._server import LEAD_NS, arrivals, load_evidence, open_loop
from trtbench.runtimes._session import Session, resolve_inputs, shapes_of_batch
from trtbench.units import text_from_shape

MOST_QUERIES, MOST_S = 10_000_000, 7 * 86_400.0
"""Of one schedule, which is drawn before it begins."""
SERIAL = ("serve", "server", "first")
"""Protocols that any session can do whose step is a complete query."""

PROFILE_AN_ENGINE = "trtbench build MODEL.onnx, then trtbench profile MODEL.engine"
"""What to do where a runtime does not tell the times of layers."""

Result = tuple[BenchOutcome, IterationTimes]


def bench_session(
    open_session: Callable[[RunSpec], Session], spec: RunSpec, *, stage: Stage
) -> Result:
    """Load, run once, warm up, measure, profile: one launch of a run."""
    check_protocol(spec)
    stage("load")
    prepared = prepare(open_session, spec)
    try:
        if changes_shapes(spec):  # what cannot be changed to is refused before all is measured
            places(prepared.session, spec, prepared.outcome.inputs)
        outcome, times = _PROTOCOLS[spec.protocol](prepared, spec, stage)
        if changes_shapes(spec):
            outcome = _switched(prepared, spec, outcome, stage)
        if spec.profile:
            outcome = _profiled(prepared.session, outcome, stage)
        told = {**outcome.evidence, **prepared.session.look_back()}
        return outcome.having(evidence=told), times
    finally:
        close_session(prepared.session)


def check_protocol(spec: RunSpec) -> None:
    """Refuse combinations that have no meaning, whatever the runtime."""
    if spec.protocol == "server" and not spec.rate_hz:
        raise UsageError("the protocol server needs a rate of arrivals", fix="--rate 100/s")
    poisson = spec.arrivals == "poisson"  # the default; any other was asked for
    if (spec.rate_hz or not poisson) and spec.protocol != "server":
        raise UsageError(
            f"the protocol {spec.protocol} has no rate or arrivals: a query follows the one before",
            fix="--protocol server" + (f" --rate {spec.rate_hz:g}/s" if poisson else ""),
        )
    if spec.rate_hz:
        _check_schedule(spec.rate_hz, spec.stop)
    alone = spec.protocol in ("server", "first", "coldl2")
    if alone and spec.streams > 1:
        raise UsageError(
            f"the protocol {spec.protocol} has one query at a time", fix="leave --streams out"
        )
    if spec.gap_s and (spec.protocol != "serve" or spec.streams > 1):
        raise UsageError(
            "a gap needs queries one at a time: --protocol serve, one stream",
            fix=f"leave {'--streams' if spec.protocol == 'serve' else '--gap'} out",
        )
    if changes_shapes(spec) and spec.streams > 1:
        raise UsageError("changes of shape are timed on one stream", fix="leave --streams out")


def _check_schedule(rate_hz: float, stop: Length) -> None:
    """Refuse a schedule that nobody could plan, or wait for."""
    queries = max(rate_hz * (stop.seconds or 0.0), stop.iterations or 0)
    if queries > MOST_QUERIES:
        raise UsageError(
            f"{queries:.3g} queries at {rate_hz:g}/s are too many to plan",
            facts={"most queries": MOST_QUERIES},
            fix=f"--rate {MOST_QUERIES / (stop.seconds or 1.0):g}/s or less, or a shorter "
            "--duration",
        )
    if queries / rate_hz > MOST_S:
        raise UsageError(
            f"{queries:.3g} queries at {rate_hz:.3g}/s take more than a week",
            fix="--rate 1/s or more; a trace is stretched to it",
        )


def changes_shapes(spec: RunSpec) -> bool:
    """Tell whether changes of shape or profile are timed too."""
    return bool(spec.switch_shapes) or spec.switch_profile is not None


def _closed(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Send each query after the one before, or after its gap."""
    stage("warm-up")
    warm = warm_up(prepared.step, spec.warmup)
    stage("measure")
    pause = _pause(spec.gap_s, seed=spec.inputs.seed) if spec.gap_s else None
    times, facts = measure(prepared.step, spec.stop, spans=prepared.spans, pause=pause)
    return prepared.outcome_of(facts, warm), times


def _server(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Send queries by a schedule; latency counts from the scheduled start."""
    stage("warm-up")
    warm = warm_up(prepared.step, spec.warmup)
    assert spec.rate_hz is not None
    due = arrivals(
        spec.rate_hz,
        spec.stop,
        kind=spec.arrivals,
        seed=spec.inputs.seed,
        trace_s=spec.arrival_times_s,
    )
    stage("measure")
    spans = prepared.spans
    if spans is not None:
        spans.clear()
    take = spans.take if spans is not None else None
    begin = [0]

    with waiting.exact_timers():
        wait = waiting.waiter()

        def loop() -> Stamps:
            begin[0] = time.perf_counter_ns() + LEAD_NS
            return open_loop(prepared.step, due + begin[0], wait=wait, after=take)

        (starts, ends), facts = watched(loop)
    evidence, columns = load_evidence(
        scheduled=due + begin[0], starts=starts, ends=ends, rate_hz=spec.rate_hz
    )
    told = times_from_stamps(starts, ends, spans)
    table = {**dict(told.columns()), **columns}
    outcome = prepared.outcome_of(facts, warm)
    outcome = outcome.having(
        evidence={**outcome.evidence, **evidence},
        conditions={**outcome.conditions, "arrivals": Fact(value=spec.arrivals)},
    )
    return outcome, times_from_columns(table)


def _first(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Measure every query from the first on, until they are steady; nothing is left out."""
    stage("measure")
    watch = WarmupWatch(spec.warmup.having(until_steady=True))
    clock = time.perf_counter_ns
    starts, ends = array("q"), array("q")
    while not watch.done:
        before = clock()
        prepared.step()
        after = clock()
        starts.append(before)
        ends.append(after)
        watch.add((after - before) * 1e-9)
    began, ended = np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)
    host = np.concatenate([[prepared.first_s], (ended - began) * 1e-9])
    start = np.concatenate([[0.0], prepared.first_s + (began - began[0]) * 1e-9])
    facts = LaunchFacts(wall_s=float(start[-1] + host[-1]), timer_floor_s=timer_floor_s())
    warm = WarmupResult(seconds=float(host.sum()), iterations=len(host), steady=bool(watch.steady))
    outcome = prepared.outcome_of(facts, warm)
    evidence = {**outcome.evidence, "time_to_steady_s": float(prepared.load_s + host.sum())}
    return outcome.having(evidence=evidence), IterationTimes(host=host, start=start)


_PROTOCOLS: dict[str, Callable[[PreparedSession, RunSpec, Stage], Result]] = {
    "serve": _closed,
    "pipeline": _closed,
    "gpu": _closed,
    "coldl2": _closed,
    "server": _server,
    "first": _first,
}


def _pause(mean_s: float, *, seed: int) -> Callable[[], None]:
    """Rest for a random while with this mean; a fixed one would fall in step with the machine."""
    generator = np.random.default_rng([seed, 7])
    rests: Iterator[float] = iter(())
    sleep = time.sleep

    def pause() -> None:
        nonlocal rests
        rest = next(rests, None)
        if rest is None:
            rests = iter(generator.exponential(mean_s, 1000).tolist())
            rest = next(rests)
        sleep(rest)

    return pause


def _switched(
    prepared: PreparedSession, spec: RunSpec, outcome: BenchOutcome, stage: Stage
) -> BenchOutcome:
    """Change between shapes in a pass of its own, where the session can."""

    stage("switch")
    if prepared.spans is not None:
        prepared.spans.drain()
    facts = switch_facts(prepared.session, spec, outcome.inputs)
    return outcome.having(evidence={**outcome.evidence, **facts})


def _profiled(session: Session, outcome: BenchOutcome, stage: Stage) -> BenchOutcome:
    """Time single layers in a pass of its own, where the session can."""
    stage("profile")
    layers, gpu_s = session.profile_layers()
    facts = outcome.facts.having(profiled_gpu_s=gpu_s)
    return outcome.having(layers=layers, facts=facts)


BLOCK = 4
"""Queries of one shape in a row: the one after the change, and those that stay."""
MOST, LEAST, ENOUGH_S = 30, 6, 10.0
"""Changes there and back; six are the fewest that an interval of a median needs."""


Shapes = dict[str, tuple[int, ...]]


def places(
    session: Session, spec: RunSpec, settled: tuple[TensorSpec, ...]
) -> tuple[Shapes, Shapes, int]:
    """Settle the shapes here and there, and the profile there; refuse what is no change."""
    here = {each.name: tuple(int(dim or 0) for dim in each.shape) for each in settled}
    there = {**here, **spec.switch_shapes}
    profile = spec.profile_index if spec.switch_profile is None else spec.switch_profile
    if spec.switch_profile is not None and not session.has_profiles:
        raise UsageError(
            f"the runtime {spec.runtime} has no optimization profiles",
            fix="leave --switch-profile out",
        )
    if there == here and profile == spec.profile_index:
        raise UsageError(
            "the shape to change to is the one that was measured",
            facts={name: text_from_shape(shape) for name, shape in here.items()},
            fix="give --switch-shape another shape, or --switch-profile another profile",
        )
    try:
        shapes_of_batch(*_at(session, spec, there))
    except InputError as problem:  # an input, or a shape of it, that there is not
        problem.fix = problem.fix and problem.fix.replace("--shape", "--switch-shape")
        raise
    return here, there, profile


def switch_facts(
    session: Session, spec: RunSpec, settled: tuple[TensorSpec, ...]
) -> dict[str, Scalar]:
    """Run blocks of both in turn, and tell what the first query of each costs."""
    here, there, profile = places(session, spec, settled)
    queries = {
        "there": _query(session, spec, there, profile=profile),
        "back": _query(session, spec, here, profile=spec.profile_index),
    }
    tensors = tuple(each.having(shape=there[each.name]) for each in settled)
    try:
        first_query(queries["there"], tensors, drawn=True)
    except InputError as problem:
        problem.fix = "--switch-shape NAME:SHAPE for every input that changes with it"
        raise
    blocks: dict[str, list[list[float]]] = {direction: [] for direction in queries}
    until = time.perf_counter() + ENOUGH_S
    for number in range(MOST + 1):
        for direction, query in queries.items():
            times = [_timed(query) for _ in range(BLOCK)]
            if number:  # the first of both load what later ones find
                blocks[direction].append(times)
        if number >= LEAST and time.perf_counter() >= until:
            break
    # Statistics that a launch without changes of shape never needs.
    from trtbench.analysis.switching import facts_from_blocks

    return facts_from_blocks(_words(here, there, profile, spec), blocks)


def _query(
    session: Session, spec: RunSpec, shapes: Shapes, *, profile: int
) -> Callable[[], object]:
    asked = _at(session, spec, shapes)
    return session.query(resolve_inputs(*asked, limits=session.index_limits)[1], profile=profile)


def _at(session: Session, spec: RunSpec, shapes: Shapes) -> tuple[tuple[TensorSpec, ...], RunSpec]:
    """Ask for these shapes of the inputs, with values at random."""
    inputs = InputSpec(seed=spec.inputs.seed)
    asked = spec.having(shapes=shapes, batch=None, inputs=inputs)
    tensors = session.inputs
    if session.free_shapes:
        tensors = tuple(t.having(shape=shapes[t.name]) for t in tensors)
    return tensors, asked


def _timed(query: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    query()
    return (time.perf_counter_ns() - before) * 1e-9


def _words(here: Shapes, there: Shapes, profile: int, spec: RunSpec) -> str:
    """Name what changes; the name of an only input says nothing."""
    changed = [
        text_from_shape(shape) if len(there) == 1 else f"{name} {text_from_shape(shape)}"
        for name, shape in there.items()
        if shape != here[name]
    ]
    changed += [f"profile {profile}"] if profile != spec.profile_index else []
    return ", ".join(changed)
