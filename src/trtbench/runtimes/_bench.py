"""The timed loop for sessions that complete a query before they return.

Warm-up first, at least as long as asked, then until two windows agree; then the measurement, with
nothing in the loop but the clock, the call, and two stores.
"""

from __future__ import annotations

import gc
import resource
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.steady import WarmupWatch
from trtbench.domain.job import BenchOutcome
from trtbench.domain.result import LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import Length, RunSpec, Warmup
from trtbench.errors import InputError, TrtbenchError
from trtbench.runtimes._session import (
    Session,
    Stage,
    refuse_if_out_of_memory,
    resolve_inputs,
)

_NS = 1e-9
_FLOOR_PROBES = 2000


class Bench(Protocol):
    """The function ``bench`` of a runtime: measure one launch, leave files in the folder."""

    def __call__(
        self, spec: RunSpec, *, folder: Path, stage: Stage
    ) -> tuple[BenchOutcome, IterationTimes]: ...


@dataclass(frozen=True, kw_only=True)
class WarmupResult:
    seconds: float
    iterations: int
    steady: bool | None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A session that has run once and is ready to be timed."""

    step: Callable[[], object]
    load_s: float
    first_s: float
    outcome: BenchOutcome


def bench_session(
    open_session: Callable[[RunSpec], Session], spec: RunSpec, *, stage: Stage
) -> tuple[BenchOutcome, IterationTimes]:
    """Load, run once, warm up, measure: one launch of a run."""
    stage("load")
    prepared = prepare(open_session, spec)
    stage("warm-up")
    warm = warm_up(prepared.step, spec.warmup)
    stage("measure")
    times, facts = measure(prepared.step, spec.stop)
    facts = msgspec.structs.replace(
        facts,
        load_s=prepared.load_s,
        first_s=prepared.first_s,
        warmup_s=warm.seconds,
        warmup_iterations=warm.iterations,
        steady=warm.steady,
    )
    return msgspec.structs.replace(prepared.outcome, facts=facts), times


def prepare(open_session: Callable[[RunSpec], Session], spec: RunSpec) -> Prepared:
    """Load a model, bind its inputs and run it once."""
    began = time.perf_counter()
    session = open_session(spec)
    load_s = time.perf_counter() - began
    settled, arrays = resolve_inputs(session.inputs, spec)
    session.bind(arrays)
    step = session.step()
    first_s = _first(step)
    outcome = BenchOutcome(
        facts=LaunchFacts(),
        inputs=settled,
        outputs=session.outputs,
        conditions=session.conditions,
        notes=session.notes,
    )
    return Prepared(step=step, load_s=load_s, first_s=first_s, outcome=outcome)


def _first(step: Callable[[], object]) -> float:
    """Time the very first call; a model that cannot run on these inputs shows it here."""
    began = time.perf_counter()
    try:
        step()
    except TrtbenchError:
        raise
    except Exception as problem:  # runtimes share no base class for their exceptions
        refuse_if_out_of_memory(problem)
        raise InputError(
            "the model cannot be run on these inputs",
            facts={"reason": (str(problem).strip().splitlines() or [repr(problem)])[0]},
        ) from None
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


def measure(step: Callable[[], object], stop: Length) -> tuple[IterationTimes, LaunchFacts]:
    """Time calls until every limit that is set has been reached."""
    floor_s = timer_floor_s()
    gc.collect()
    gc.disable()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    try:
        starts, ends = timed_loop(step, stop)
    finally:
        gc.enable()
    used = resource.getrusage(resource.RUSAGE_SELF)
    times = IterationTimes(
        host=np.asarray((ends - starts) * _NS, np.float64),
        start=np.asarray((starts - starts[0]) * _NS, np.float64),
    )
    facts = LaunchFacts(
        wall_s=float(ends[-1] - starts[0]) * _NS,
        timer_floor_s=floor_s,
        involuntary_switches=used.ru_nivcsw - usage.ru_nivcsw,
        cpu_s=(used.ru_utime + used.ru_stime) - (usage.ru_utime + usage.ru_stime),
        peak_memory_bytes=used.ru_maxrss * 1024,
    )
    return times, facts


def timed_loop(
    step: Callable[[], object], stop: Length
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the nanoseconds before and after each call, as the clock told them."""
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
        count += 1
        if count >= least and after >= deadline:
            break
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def timer_floor_s() -> float:
    """The least interval this clock can show here: the median of back-to-back readings."""
    clock = time.perf_counter_ns
    readings = np.array([clock() for _ in range(_FLOOR_PROBES)])
    return float(np.median(np.diff(readings))) * _NS
