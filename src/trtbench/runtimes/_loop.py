"""The timed loop, and the steps around it: loading, first query, warm-up, protocols.

Warm-up lasts at least as long as requested, then until two windows agree. The loop contains only
the clock, the call, and two stores. In an open loop, queries arrive on schedule, whether or not the
previous one is done, and latency counts from the arrival, so that waiting is included.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis import load
from trtbench.analysis.distributions import t_quantile
from trtbench.analysis.pacing import WarmupWatch
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.run import Fact, LaunchFacts, LoadSearch, Scalar
from trtbench.core.samples import Column, IterationTimes, times_from_columns
from trtbench.core.spec import Arrivals, Length, RunSpec, Warmup
from trtbench.core.units import text_from_rate, text_from_seconds
from trtbench.runtimes import _session as sessions
from trtbench.runtimes._gpu_query import Pipeline, SerialQuery

_NS = 1e-9

Step = Callable[[], object]
Result = tuple[BenchOutcome, IterationTimes]
Nanoseconds = NDArray[np.int64]
Keep = Callable[[LoadSearch, Result], None]
"""Keeps a search so far, and the queries at the rate closest to its answer."""
Stamps = tuple[Nanoseconds, Nanoseconds]
"""Start and end times of calls, in nanoseconds of the host's clock."""

SERIAL = ("serve", "server", "first")  # protocols for any session whose step is a complete query
MOST_QUERIES, MOST_S = 10_000_000, 7 * 86_400.0
"""Limits of one arrival schedule, which is drawn before it begins."""
_FLOOR_PROBES = 2000


@dataclass(kw_only=True)
class PreparedSession:
    """A session that has run once and is ready to be timed."""

    session: sessions.Session
    step: Step
    load_s: float
    first_s: float
    outcome: BenchOutcome

    def outcome_of(self, facts: LaunchFacts, warm: LaunchFacts) -> BenchOutcome:
        warmed = {"warmup_s": warm.warmup_s, "warmup_iterations": warm.warmup_iterations}
        loaded = {"load_s": self.load_s, "first_s": self.first_s, "steady": warm.steady}
        return self.look(self.outcome.having(facts=facts.having(**warmed, **loaded)))

    def close(self) -> None:
        """Close the session; its step goes first, or it keeps contexts longer than their memory."""
        self.step = bool
        self.session.close()

    def close_at_exit(self) -> None:
        self.session.close_at_exit()

    def look(self, outcome: BenchOutcome) -> BenchOutcome:
        """Return the outcome with whether outputs are finite, by one more query after the timed."""
        if "outputs_finite" in outcome.evidence:
            return outcome
        finite = sessions.are_finite(self.session.fetch())
        found = {} if finite is None else {"outputs_finite": finite}
        return outcome.having(evidence={**outcome.evidence, **found})


def bench_session(
    open_session: Callable[[RunSpec], sessions.Session],
    spec: RunSpec,
    *,
    stage: Stage,
    folder: Path | None = None,
    search: LoadSearch | None = None,
    keep: Keep = lambda search, result: None,
) -> Result:
    """Measure one launch of a run: load, run once, warm up, measure, profile.

    If layers are timed, the session's information about them goes to ``graph.json`` in the folder.
    With ``search``, the launch searches for a rate, and ``keep`` gets what is known so far.
    """
    began = time.monotonic()
    check_protocol(spec)
    stage("load")
    prepared = prepare(open_session, spec)
    session = prepared.session
    try:
        if search is not None:
            until = max(began + USED * search.budget_s, time.monotonic() + search.budget_s / 3)
            return _search_rate(prepared, spec, stage, search, until=until, keep=keep)
        protocols = {"server": _measure_server, "first": _measure_first}
        run_protocol = protocols.get(spec.protocol, _measure_closed_loop)
        outcome, times = run_protocol(prepared, spec, stage)
        if spec.profile:
            stage("profile")
            if folder is not None and (graph := session.describe()) is not None:
                (folder / "graph.json").write_text(graph, encoding="utf-8")
            outcome = outcome.having(layers=session.profile_layers())
        return outcome.having(evidence={**outcome.evidence, **session.observe_after()}), times
    finally:
        sessions.at_end[0](prepared)


def check_protocol(spec: RunSpec) -> None:
    """Raise if protocol settings cannot be combined, whatever the runtime."""
    if spec.protocol == "server" and not spec.rate_hz:
        raise UsageError("the protocol server needs a rate of arrivals", fix="--rate 100/s")
    if spec.arrivals == "trace":  # from a record of an older version
        raise UsageError("a trace of arrivals cannot be replayed", fix="--arrivals poisson")
    poisson = spec.arrivals == "poisson"  # the default
    if (spec.rate_hz or not poisson) and spec.protocol != "server":
        raise UsageError(
            f"--rate and --arrivals need --protocol server, not {spec.protocol}",
            fix="--protocol server" + (f" --rate {spec.rate_hz:.15g}/s" if poisson else ""),
        )
    if spec.rate_hz:
        seconds = spec.stop.seconds or 0.0
        queries = max(spec.rate_hz * seconds, spec.stop.iterations or 0)
        if queries > MOST_QUERIES or queries / spec.rate_hz > MOST_S:
            raise UsageError(
                f"{queries:.3g} queries at {spec.rate_hz:.3g}/s are too many, or take too long",
                facts={"most queries": MOST_QUERIES, "longest": "a week"},
                fix="use another --rate, or a shorter --duration",
            )
    if spec.streams > 1 and spec.protocol in ("server", "first", "coldl2"):
        message = f"the protocol {spec.protocol} runs one query at a time"
        raise UsageError(message, fix="leave out --streams")
    if spec.gap_s and (spec.protocol != "serve" or spec.streams > 1):
        fix = f"leave out {'--streams' if spec.protocol == 'serve' else '--gap'}"
        raise UsageError("--gap needs one query at a time: --protocol serve, one stream", fix=fix)


def prepare(open_session: Callable[[RunSpec], sessions.Session], spec: RunSpec) -> PreparedSession:
    """Load a model, bind its inputs and run it once."""
    began = time.perf_counter()
    session = open_session(spec)
    load_s = time.perf_counter() - began
    try:
        is_random = spec.inputs.source is None
        limits = session.index_limits
        resolved, arrays, notes = sessions.resolve_inputs(session.inputs, spec, limits=limits)
        session.bind(arrays)
        began = time.perf_counter()
        try:
            session.first()
        except TrtbenchError:
            raise
        except Exception as problem:  # runtimes share no base class for their exceptions
            sessions.raise_if_out_of_memory(problem)
            raise sessions.inputs_error(problem, resolved, is_random=is_random) from None
        first_s = time.perf_counter() - began
        session.observe()
        step = session.step()
        filled = [array for array in arrays.values() if array.size > 1]
        constant = bool(filled) and all((array == array.flat[0]).all() for array in filled)
        outcome = BenchOutcome(
            facts=LaunchFacts(),
            inputs=resolved,
            outputs=session.outputs,
            conditions=session.conditions,
            versions=dict(session.versions),
            notes=(*session.notes, *notes),
            evidence={
                **session.evidence,
                "inputs_constant": constant,  # every input has only one value, like a blank image
                **sessions.items_per_query(session.inputs, resolved, batch=spec.batch),
            },
        )
    except BaseException:
        session.close()
        raise
    return PreparedSession(
        session=session, step=step, load_s=load_s, first_s=first_s, outcome=outcome
    )


def warm_up(step: Step, warmup: Warmup) -> LaunchFacts:
    """Run until the minimum is reached and two windows agree, or until the maximum."""
    watch = WarmupWatch(warmup)
    clock = time.perf_counter
    began = clock()
    while not watch.done:
        before = clock()
        step()
        watch.add(clock() - before)
    steady = watch.steady if warmup.until_steady else None
    return LaunchFacts(warmup_s=clock() - began, warmup_iterations=watch.iterations, steady=steady)


def _measure_closed_loop(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Start each query when the previous one has ended, or after a gap."""
    stage("warm-up")
    warm = warm_up(prepared.step, spec.warmup)
    stage("measure")
    # Gaps are random with this mean: fixed ones could synchronize with periodic activity.
    gap = partial(np.random.default_rng([spec.inputs.seed, 7]).exponential, spec.gap_s)
    pause = (lambda: time.sleep(gap())) if spec.gap_s else None
    times, facts = measure(prepared.step, spec.stop, spans=prepared.session.spans, pause=pause)
    return prepared.outcome_of(facts, warm), times


def measure(
    step: Step,
    stop: Length,
    *,
    spans: SerialQuery | Pipeline | None = None,
    pause: Callable[[], None] | None = None,
) -> tuple[IterationTimes, LaunchFacts]:
    """Time calls until both limits, seconds and iterations, are reached."""
    after = pause
    if spans is not None:
        spans.clear()
        if not spans.overlapping:
            after = take = spans.take
            if pause is not None:

                def both() -> None:
                    take()
                    pause()

                after = both

    def loop() -> Stamps:
        stamps = timed_loop(step, stop, between=after)
        if spans is not None:
            spans.drain()
        return stamps

    (starts, ends), facts = run_without_gc(loop)
    columns: dict[str, NDArray[np.generic]] = dict(spans.columns()) if spans else {}
    if spans is None or not spans.overlapping:  # else a call of the host is not one query
        columns["host"] = np.asarray((ends - starts) * _NS, np.float64)
        columns["start"] = np.asarray((starts - starts[0]) * _NS, np.float64)
    return times_from_columns(columns), facts


def run_without_gc(loop: Callable[[], Stamps]) -> tuple[Stamps, LaunchFacts]:
    """Run a timed loop without garbage collection; returns its times and resource usage."""
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


def timed_loop(step: Step, stop: Length, *, between: Callable[[], None] | None = None) -> Stamps:
    """Return the time before and after each call of ``step``; ``between`` is not timed."""
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
    """Return the resolution of the clock: the median difference of back-to-back readings."""
    clock = time.perf_counter_ns
    readings = np.array([clock() for _ in range(_FLOOR_PROBES)])
    return float(np.median(np.diff(readings))) * _NS


def _measure_first(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Measure all queries from the first one on, until they are steady."""
    stage("measure")
    clock, step = time.perf_counter_ns, prepared.step
    stamps: list[tuple[int, int]] = []

    def timed() -> None:
        before = clock()
        step()
        stamps.append((before, clock()))

    warm = warm_up(timed, spec.warmup.having(until_steady=True))
    began, ended = np.array(stamps, np.int64).T
    host = np.concatenate([[prepared.first_s], (ended - began) * _NS])
    start = np.concatenate([[0.0], prepared.first_s + (began - began[0]) * _NS])
    warm = warm.having(warmup_s=float(host.sum()), warmup_iterations=len(host))
    facts = LaunchFacts(wall_s=float(start[-1] + host[-1]), timer_floor_s=timer_floor_s())
    outcome = prepared.outcome_of(facts, warm)
    evidence = {**outcome.evidence, "time_to_steady_s": float(prepared.load_s + host.sum())}
    return outcome.having(evidence=evidence), IterationTimes(host=host, start=start)


# The open loop: queries are sent on schedule

LEAD_NS = 2_000_000  # time between the start of the loop and the first arrival
LATE_SHARE, LATE_LEAST_S, LATE_MOST_S = 0.05, 10e-6, 100e-6
"""A query is late if it is sent 5 % of the median service time, at most 100 µs, too late."""
PATIENCE, PATIENCE_LEAST_NS = 1.0, 1_000_000_000
"""An overloaded run stops when it exceeds its schedule by this share of it, and at least by a
second: its latencies would grow without bound."""
FULL = 0.95
"""Share of the time: a server that is busy for less is not overloaded, even with a long queue."""
GROWTH_BLOCKS, GROWTH_LEVEL = 20, 0.99
USED = 0.93  # of the budget of a search; the rest is for the start of its process and its end


def _measure_server(prepared: PreparedSession, spec: RunSpec, stage: Stage) -> Result:
    """Send queries on schedule; latency counts from the scheduled start."""
    stage("warm-up")
    warm = warm_up(prepared.step, spec.warmup)
    assert spec.rate_hz is not None
    due = arrivals(spec.rate_hz, spec.stop, kind=spec.arrivals, seed=spec.inputs.seed)
    stage("measure")
    with exact_timers():
        sent = _send(prepared, due, wait=waiter())
    return _server_result(prepared, spec, [sent], warm)


@dataclass(frozen=True)
class _Sent:
    """Queries that were sent on schedule; times in nanoseconds."""

    scheduled: Nanoseconds
    starts: Nanoseconds
    ends: Nanoseconds
    columns: dict[str, NDArray[np.generic]]  # of the session itself
    facts: LaunchFacts

    @property
    def busy_s(self) -> Column:
        """How long each query kept the server from the next one."""
        free = np.concatenate([self.scheduled[:1], self.ends[:-1]])
        begun = np.maximum(self.scheduled[: len(self.ends)], free)
        return np.asarray((self.ends - begun) * _NS, np.float64)


def _send(prepared: PreparedSession, due: Nanoseconds, *, wait: Until) -> _Sent:
    spans, scheduled = prepared.session.spans, due
    if spans is not None:
        spans.clear()

    def loop() -> Stamps:
        nonlocal scheduled
        scheduled = due + (time.perf_counter_ns() + LEAD_NS)
        take = spans.take if spans is not None else None
        return open_loop(prepared.step, scheduled, wait=wait, after=take)

    (starts, ends), facts = run_without_gc(loop)
    columns: dict[str, NDArray[np.generic]] = dict(spans.columns()) if spans else {}
    return _Sent(scheduled, starts, ends, columns, facts)


def _server_result(
    prepared: PreparedSession, spec: RunSpec, sent: list[_Sent], warm: LaunchFacts
) -> Result:
    """Return one launch from queries that were sent at one rate, one schedule after the other."""
    assert spec.rate_hz is not None
    shifts = np.cumsum([0, *(int(each.ends[-1] - each.scheduled[0]) for each in sent[:-1])])
    moved = [
        [stamps - each.scheduled[0] + shift for stamps in (each.scheduled, each.starts, each.ends)]
        for each, shift in zip(sent, shifts, strict=True)
    ]
    moved[:-1] = [[stamps[: len(each[2])] for stamps in each] for each in moved[:-1]]
    scheduled, starts, ends = map(np.concatenate, zip(*moved, strict=True))
    evidence, columns = load_evidence(
        scheduled=scheduled, starts=starts, ends=ends, rate_hz=spec.rate_hz
    )
    own = {name: np.concatenate([each.columns[name] for each in sent]) for name in sent[0].columns}
    total = sum(each.facts.wall_s or 0.0 for each in sent)
    outcome = prepared.outcome_of(sent[-1].facts.having(wall_s=total), warm)
    conditions = {**outcome.conditions, "arrivals": Fact(value=spec.arrivals)}
    outcome = outcome.having(evidence={**outcome.evidence, **evidence}, conditions=conditions)
    return outcome, times_from_columns({**own, **columns})


def _search_rate(
    prepared: PreparedSession,
    spec: RunSpec,
    stage: Stage,
    search: LoadSearch,
    *,
    until: float,
    keep: Keep,
) -> Result:
    """Send queries at one rate after the other until the answer is sure or time is up."""
    stage("warm-up")
    longest = min(spec.warmup.cap_s, search.budget_s / 6)
    warm = warm_up(prepared.step, spec.warmup.having(cap_s=longest))
    stage("measure")
    poisson = spec.arrivals == "poisson"
    if not search.capacity_hz:
        length = search.probe_s or search.budget_s / load.PROBES
        lone = Length(seconds=length, iterations=20)
        alone, _ = measure(prepared.step, lone, spans=prepared.session.spans)
        assert alone.host is not None
        assert alone.start is not None
        busy = np.diff(alone.start + alone.host)
        search = load.with_capacity(search, busy, alone.host, poisson=poisson)
    sent: dict[float, list[_Sent]] = {}
    result, said = None, ""
    with exact_timers():
        wait, tried = waiter(), 0
        while probe := load.next_probe(search, left_s=until - time.monotonic(), tried=tried):
            rate, length = probe
            told = text_from_rate(rate, digits=3)
            used = 1 - (until - time.monotonic()) / search.budget_s
            stage.progress(min(0.99, max(0.0, used)), f"{said}trying {told}")
            seed = spec.inputs.seed + len(search.points)
            stop = Length(seconds=length, iterations=10)
            each = _send(prepared, arrivals(rate, stop, kind=spec.arrivals, seed=seed), wait=wait)
            sent.setdefault(rate, []).append(each)
            evidence, columns = load_evidence(
                scheduled=each.scheduled, starts=each.starts, ends=each.ends, rate_hz=rate
            )
            point = load.point_from_queries(rate, [evidence], [columns["host"]], search.slo)
            point = load.with_replay(point, each.busy_s, search, poisson=poisson, seed=seed)
            search = load.with_point(search, point)
            best = search.likely_hz or 0.0
            kept = min(sent, key=lambda rate: abs(rate - best))
            search, tried = search.having(kept_hz=kept), tried + 1
            result = _server_result(prepared, spec.having(rate_hz=kept), sent[kept], warm)
            keep(search.having(complete=False), result)
            latency = text_from_seconds(point.percentile_s, digits=3)
            said = f"{told}: {search.slo.statistic} {latency}; "
    assert result is not None
    keep(search.having(complete=True), result)
    return result


def arrivals(
    rate_hz: float, stop: Length, *, kind: Arrivals = "poisson", seed: int = 0
) -> Nanoseconds:
    """Return the arrival times of a whole schedule; the same seed gives the same schedule."""
    count = max(stop.iterations or 1, round(rate_hz * (stop.seconds or 0.0)))
    if kind == "constant":
        due = np.arange(count) / rate_hz
    else:
        gaps = np.random.default_rng([seed, 11]).exponential(1 / rate_hz, count)
        due = np.cumsum(gaps) - gaps[0]
    return np.asarray(due * 1e9, np.int64)


def open_loop(
    step: Step, due: Nanoseconds, *, wait: Until, after: Callable[[], None] | None = None
) -> tuple[Nanoseconds, Nanoseconds]:
    """Send every query when it is due, or at once if it is overdue.

    Returns the start and end of each query; fewer than scheduled if the run was stopped.
    """
    clock = time.perf_counter_ns
    starts, ends = array("q"), array("q")
    push_start, push_end = starts.append, ends.append
    span = int(due[-1] - due[0])
    deadline = int(due[-1]) + max(PATIENCE_LEAST_NS, int(PATIENCE * span))
    for target in due.tolist():
        wait(target)
        before = clock()
        step()
        done = clock()
        push_start(before)
        push_end(done)
        if after is not None:
            after()
        if done > deadline:
            break
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def load_evidence(
    *, scheduled: Nanoseconds, starts: Nanoseconds, ends: Nanoseconds, rate_hz: float
) -> tuple[dict[str, Scalar], dict[str, Column]]:
    """Return evidence about the load, and columns with latency counted from the schedule."""
    abandoned = len(scheduled) - len(starts)
    scheduled = scheduled[: len(starts)]
    lengths = (ends - scheduled, starts - scheduled, ends - starts)
    latency, wait, service = (np.asarray(each * 1e-9, np.float64) for each in lengths)
    free = np.concatenate([[scheduled[0]], ends[:-1]])
    lag = (starts - np.maximum(scheduled, free)) * 1e-9
    limit = min(LATE_MOST_S, max(LATE_LEAST_S, LATE_SHARE * float(np.median(service))))
    span = float(scheduled[-1] - scheduled[0]) * 1e-9 + 1 / rate_hz
    took = float(max(ends[-1] - scheduled[0], scheduled[-1] - scheduled[0])) * 1e-9
    count = len(scheduled)
    overhead = float(lag[free > scheduled].sum())  # of the loop itself, between two queries
    full = (float(service.sum()) + overhead) / max(took, span) >= FULL
    evidence: dict[str, Scalar] = {
        "offered_hz": count / span,
        "achieved_hz": count / max(took, span),
        "late_share": float(np.mean(lag > limit)),
        "queue_grows": full and is_queue_growing(wait, service=float(np.median(service))),
        "abandoned": abandoned,
    }
    columns: dict[str, Column] = {
        "host": latency,
        "start": (scheduled - scheduled[0]) * 1e-9,
        "dispatch": (starts - scheduled[0]) * 1e-9,
    }
    return evidence, columns


def is_queue_growing(wait: Column, *, service: float) -> bool | None:
    """Return whether waiting times increase: at 99 % confidence, by more than one service time.

    Consecutive waiting times are correlated, so the slope is computed from means of blocks.
    """
    if len(wait) < 2 * GROWTH_BLOCKS:
        return None
    means = np.array([block.mean() for block in np.array_split(wait, GROWTH_BLOCKS)])
    x = np.arange(GROWTH_BLOCKS) - (GROWTH_BLOCKS - 1) / 2
    slope = float(x @ means / (x @ x))
    residual = means - means.mean() - slope * x
    error = float(np.sqrt(residual @ residual / (GROWTH_BLOCKS - 2) / (x @ x)))
    if slope * GROWTH_BLOCKS <= service:
        return False
    return slope > t_quantile(GROWTH_LEVEL, df=GROWTH_BLOCKS - 2) * error


Until = Callable[[int], None]  # waits until a time in nanoseconds of `perf_counter_ns`

SET_SLACK, GET_SLACK, LEAST_SLACK_NS = 29, 30, 1  # PR_SET_TIMERSLACK and PR_GET_TIMERSLACK
PROBES, PROBE_NS = 80, (500_000, 1_000_000, 2_000_000, 4_000_000)
SPIN_NS = (100_000, 1_000_000)  # the shortest and the longest time to spin before a query is due
ALMOST_ALL, TIMES = 98, 2.0  # the spin lasts `TIMES` this percentile of the delays of wake-ups


@contextmanager
def exact_timers() -> Iterator[None]:
    """Remove the kernel's timer slack of this thread during the block, where Linux has one."""

    def prctl(option: int, value_ns: int = 0) -> int:
        call = getattr(ctypes.CDLL(None), "prctl", None)
        return int(call(option, *map(ctypes.c_ulong, (value_ns, 0, 0, 0)))) if call else 0

    before = prctl(GET_SLACK)
    prctl(SET_SLACK, LEAST_SLACK_NS)
    try:
        yield
    finally:
        prctl(SET_SLACK, max(0, before))


def waiter() -> Until:
    """Return a function that waits until a time: with the kernel's timer, then by spinning.

    Linux gives the timers of every thread a slack of 50 µs, see ``exact_timers``; the remaining
    wake-up delay is measured first.
    """
    spin_ns, sleep, clock = spin_for_wakes(wake_delays_ns()), time.sleep, time.perf_counter_ns

    def wait(target_ns: int) -> None:
        rest_ns = target_ns - spin_ns - clock()
        if rest_ns > 0:
            sleep(rest_ns * _NS)
        while clock() < target_ns:
            pass

    return wait


def wake_delays_ns() -> list[int]:
    """Measure how late the machine wakes up from short sleeps; later from longer ones."""
    delays = []
    for length_ns in PROBE_NS * (PROBES // len(PROBE_NS)):
        target = time.perf_counter_ns() + length_ns
        time.sleep(length_ns * _NS)
        delays.append(time.perf_counter_ns() - target)
    return delays


def spin_for_wakes(delays_ns: list[int]) -> int:
    """Return how long to spin: longer than almost all of the measured wake-up delays."""
    least, most = SPIN_NS
    return int(min(most, max(least, TIMES * float(np.percentile(delays_ns, ALMOST_ALL)))))
