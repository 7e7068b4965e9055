"""The timed loop and what surrounds it: loading, the first query, warming up.

Warm-up lasts at least as long as asked, then until two windows agree; then the measurement, with
nothing in the loop but the clock, the call, and two stores.
"""

from __future__ import annotations

import gc
import resource
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.open_shapes import assumption
from trtbench.analysis.warmup import WarmupWatch
from trtbench.domain.arrays import Arrays
from trtbench.domain.job import BenchOutcome
from trtbench.domain.result import LaunchFacts, Scalar
from trtbench.domain.samples import IterationTimes, times_from_columns
from trtbench.domain.spec import Length, RunSpec, TensorSpec, Warmup
from trtbench.errors import TrtbenchError, UsageError
from trtbench.runtimes._session import (
    Session,
    Spans,
    given_shapes,
    items_counted,
    refuse_if_out_of_memory,
    resolve_inputs,
)
from trtbench.runtimes._unfit_inputs import unfit_inputs

_NS = 1e-9

Stamps = tuple[NDArray[np.int64], NDArray[np.int64]]
"""When calls began and ended, in nanoseconds of the host's clock."""
_FLOOR_PROBES = 2000


@dataclass(frozen=True, kw_only=True)
class WarmupResult:
    seconds: float
    iterations: int
    steady: bool | None


@dataclass(frozen=True, kw_only=True)
class PreparedSession:
    """A session that has run once and is ready to be timed."""

    session: Session
    step: Callable[[], object]
    load_s: float
    first_s: float
    outcome: BenchOutcome
    spans: Spans | None = None

    def outcome_of(self, facts: LaunchFacts, warm: WarmupResult) -> BenchOutcome:
        """Tell what was measured, with how it was loaded and warmed up."""
        facts = facts.having(
            load_s=self.load_s,
            first_s=self.first_s,
            warmup_s=warm.seconds,
            warmup_iterations=warm.iterations,
            steady=warm.steady,
        )
        return self.outcome.having(facts=facts)


def prepare(open_session: Callable[[RunSpec], Session], spec: RunSpec) -> PreparedSession:
    """Load a model, bind its inputs and run it once."""
    began = time.perf_counter()
    session = open_session(spec)
    load_s = time.perf_counter() - began
    try:
        return _made_ready(session, spec, load_s=load_s)
    except BaseException:
        close_session(session)
        raise


def close_session(session: Session) -> None:
    """Free what a session holds outside of this process's own memory."""
    session.close()


def _made_ready(session: Session, spec: RunSpec, *, load_s: float) -> PreparedSession:
    if spec.profile_index and not session.has_profiles:
        raise UsageError(
            "optimization profiles are an engine's, and this is none",
            fix="leave --profile-index out",
        )
    settled, arrays = resolve_inputs(session.inputs, spec, limits=session.index_limits)
    session.bind(arrays)
    first_s = first_query(session.first, settled, drawn=spec.inputs.source is None)
    session.look()
    step = session.step()
    outcome = BenchOutcome(
        facts=LaunchFacts(),
        inputs=settled,
        outputs=session.outputs,
        conditions=session.conditions,
        versions=dict(session.versions),
        notes=(*session.notes, *_assumed(session.inputs, settled, spec)),
        evidence={
            **session.evidence,
            **_of_inputs(arrays),
            **items_counted(session.inputs, settled, batch=spec.batch),
        },
    )
    return PreparedSession(
        session=session,
        step=step,
        load_s=load_s,
        first_s=first_s,
        outcome=outcome,
        spans=session.spans,
    )


def _assumed(
    before: tuple[TensorSpec, ...], after: tuple[TensorSpec, ...], spec: RunSpec
) -> tuple[str, ...]:
    """Say which dimensions nobody gave a value."""
    if spec.inputs.source is not None:
        return ()
    note = assumption(given_shapes(before, spec), after)
    return (note,) if note else ()


def _of_inputs(arrays: Arrays) -> dict[str, Scalar]:
    """Tell whether every input holds one value only, as blank images do."""
    filled = [array for array in arrays.values() if array.size > 1]
    constant = bool(filled) and all((array == array.flat[0]).all() for array in filled)
    return {"inputs_constant": constant}


def first_query(
    step: Callable[[], object], inputs: tuple[TensorSpec, ...], *, drawn: bool
) -> float:
    """Time the very first call; a model that cannot run on these inputs shows it here."""
    began = time.perf_counter()
    try:
        step()
    except TrtbenchError:
        raise
    except Exception as problem:  # runtimes share no base class for their exceptions
        refuse_if_out_of_memory(problem)
        raise unfit_inputs(problem, inputs, drawn=drawn) from None
    return time.perf_counter() - began


def warm_up(step: Callable[[], object], warmup: Warmup) -> WarmupResult:
    """Run until the floor is reached and the windows agree, or the cap is."""
    watch = WarmupWatch(warmup)
    clock = time.perf_counter
    began = clock()
    while not watch.done:
        before = clock()
        step()
        watch.add(clock() - before)
    return WarmupResult(
        seconds=clock() - began,
        iterations=watch.iterations,
        steady=watch.steady if warmup.until_steady else None,
    )


def measure(
    step: Callable[[], object],
    stop: Length,
    *,
    spans: Spans | None = None,
    pause: Callable[[], None] | None = None,
) -> tuple[IterationTimes, LaunchFacts]:
    """Time calls until every limit that is set has been reached."""
    after = _between(spans, pause)
    if spans is not None:
        spans.clear()

    def loop() -> Stamps:
        stamps = timed_loop(step, stop, between=after)
        if spans is not None:
            spans.drain()
        return stamps

    (starts, ends), facts = watched(loop)
    return times_from_stamps(starts, ends, spans), facts


def watched(loop: Callable[[], Stamps]) -> tuple[Stamps, LaunchFacts]:
    """Run a timed loop without garbage collection, and tell what it cost the process."""
    floor_s = timer_floor_s()
    gc.collect()
    gc.disable()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    try:
        starts, ends = loop()
        end = time.perf_counter_ns()
    finally:
        gc.enable()
    used = resource.getrusage(resource.RUSAGE_SELF)
    facts = LaunchFacts(
        wall_s=float(end - starts[0]) * _NS,
        timer_floor_s=floor_s,
        involuntary_switches=used.ru_nivcsw - usage.ru_nivcsw,
        cpu_s=(used.ru_utime + used.ru_stime) - (usage.ru_utime + usage.ru_stime),
        peak_memory_bytes=used.ru_maxrss * 1024,
    )
    return (starts, ends), facts


def times_from_stamps(
    starts: NDArray[np.int64], ends: NDArray[np.int64], spans: Spans | None
) -> IterationTimes:
    """Put the host's clock and the spans of the device together."""
    columns: dict[str, NDArray[np.generic]] = dict(spans.columns()) if spans else {}
    if spans is not None and spans.overlapping:
        return times_from_columns(columns)  # the host saw calls, which are not queries
    columns["host"] = np.asarray((ends - starts) * _NS, np.float64)
    columns["start"] = np.asarray((starts - starts[0]) * _NS, np.float64)
    return times_from_columns(columns)


def _between(spans: Spans | None, pause: Callable[[], None] | None) -> Callable[[], None] | None:
    """Tell what is done after each call, outside the clock."""
    if spans is None or spans.overlapping:
        return pause
    take = spans.take
    if pause is None:
        return take

    def both() -> None:
        take()
        pause()

    return both


def timed_loop(
    step: Callable[[], object], stop: Length, *, between: Callable[[], None] | None = None
) -> Stamps:
    """Find the nanoseconds before and after each call; what is done between calls is not timed."""
    clock = time.perf_counter_ns
    starts, ends = array("q"), array("q")
    push_start, push_end = starts.append, ends.append
    least = stop.iterations or 1
    deadline = clock() + int((stop.seconds or 0.0) * 1e9)
    count = 0
    while True:
        before = clock()
        step()
        after = clock()
        push_start(before)
        push_end(after)
        if between is not None:
            between()
        count += 1
        if count >= least and after >= deadline:
            break
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def timer_floor_s() -> float:
    """Find the least interval this clock can show here: the median of back-to-back readings."""
    clock = time.perf_counter_ns
    readings = np.array([clock() for _ in range(_FLOOR_PROBES)])
    return float(np.median(np.diff(readings))) * _NS
