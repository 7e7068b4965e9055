"""Open-loop load: queries arrive when they are due, whether or not the one before is done.

There is one server and one queue. Latency counts from the moment a query was due, so that waiting
is not hidden; what the sender itself came late by is told apart from what the queue cost.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import t_quantile
from trtbench.domain.result import Scalar
from trtbench.domain.samples import Column
from trtbench.domain.spec import Arrivals, Length
from trtbench.host.waiting import Until

Nanoseconds = NDArray[np.int64]

LEAD_NS = 2_000_000
"""Time between the decision to begin and the first arrival."""
LATE_SHARE = 0.05
LATE_MOST_S = 100e-6
LATE_LEAST_S = 10e-6
"""A query is late when sent 5 % of the median service after it could be, at most 100 µs."""
PATIENCE = 1.0
"""An overloaded run is given up when it has taken this much longer than its schedule, ..."""
PATIENCE_LEAST_NS = 1_000_000_000
"""... and at least a second: its latencies grow without end and tell nothing more."""
FULL = 0.95
"""Of the time: a server that works less is not overloaded, however long its queue is for once."""
GROWTH_BLOCKS = 20
GROWTH_LEVEL = 0.99


def arrivals(
    rate_hz: float,
    stop: Length,
    *,
    kind: Arrivals = "poisson",
    seed: int = 0,
    trace_s: Sequence[float] = (),
) -> Nanoseconds:
    """Draw the whole schedule beforehand: the same seed gives the same to every candidate.

    A trace is stretched to the rate, and begins anew where it is too short; with the next seed it
    goes on where the one before ended, so that the windows of a search see all of it.
    """
    count = max(stop.iterations or 1, round(rate_hz * (stop.seconds or 0.0)))
    if kind == "trace":
        due = _from_trace(np.asarray(trace_s), rate_hz, count, first=seed * count)
    elif kind == "constant":
        due = np.arange(count) / rate_hz
    else:
        gaps = np.random.default_rng([seed, 11]).exponential(1 / rate_hz, count)
        due = np.cumsum(gaps) - gaps[0]
    return np.asarray(due * 1e9, np.int64)


def _from_trace(trace: Column, rate_hz: float, count: int, *, first: int) -> Column:
    """Take as many arrivals as are wanted; rounds follow one another at the mean gap."""
    stretched = trace * ((len(trace) - 1) / rate_hz / trace[-1])
    rounds, place = np.divmod(first % len(trace) + np.arange(count), len(trace))
    due = stretched[place] + rounds * (len(trace) / rate_hz)
    return np.asarray(due - due[0], np.float64)


def open_loop(
    step: Callable[[], object],
    due: Nanoseconds,
    *,
    wait: Until,
    after: Callable[[], None] | None = None,
) -> tuple[Nanoseconds, Nanoseconds]:
    """Send every query when it is due by the clock, or at once when that has passed.

    Gives when each was sent and when it was done; fewer than were due when it was given up.
    """
    clock = time.perf_counter_ns
    starts, ends = array("q"), array("q")
    push_start, push_end = starts.append, ends.append
    span = int(due[-1] - due[0])
    given_up = int(due[-1]) + max(PATIENCE_LEAST_NS, int(PATIENCE * span))
    for target in due.tolist():
        wait(target)
        before = clock()
        step()
        done = clock()
        push_start(before)
        push_end(done)
        if after is not None:
            after()
        if done > given_up:
            break
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def load_evidence(
    *, scheduled: Nanoseconds, starts: Nanoseconds, ends: Nanoseconds, rate_hz: float
) -> tuple[dict[str, Scalar], dict[str, Column]]:
    """Tell how the loop went, and give latency by the schedule; all stamps share an origin."""
    abandoned = len(scheduled) - len(starts)
    scheduled = scheduled[: len(starts)]
    latency, wait, service = (
        np.asarray(stamps * 1e-9, np.float64)
        for stamps in (ends - scheduled, starts - scheduled, ends - starts)
    )
    free = np.concatenate([[scheduled[0]], ends[:-1]])
    lag = (starts - np.maximum(scheduled, free)) * 1e-9
    limit = min(LATE_MOST_S, max(LATE_LEAST_S, LATE_SHARE * float(np.median(service))))
    span = float(scheduled[-1] - scheduled[0]) * 1e-9 + 1 / rate_hz
    took = float(max(ends[-1] - scheduled[0], scheduled[-1] - scheduled[0])) * 1e-9
    count = len(scheduled)
    again = float(lag[free > scheduled].sum())  # between two queries the loop itself is at work
    full = (float(service.sum()) + again) / max(took, span) >= FULL
    evidence: dict[str, Scalar] = {
        "offered_hz": count / span,
        "achieved_hz": count / max(took, span),
        "late_share": float(np.mean(lag > limit)),
        "queue_grows": full and queue_grows(wait, service=float(np.median(service))),
        "busy_share": float(service.sum() / max(took, span)),
        "abandoned": abandoned,
    }
    columns: dict[str, Column] = {
        "host": latency,
        "start": (scheduled - scheduled[0]) * 1e-9,
        "dispatch": (starts - scheduled[0]) * 1e-9,
    }
    return evidence, columns


def queue_grows(wait: Column, *, service: float) -> bool | None:
    """Tell whether waiting rises along the run, at 99 % and by more than one service.

    Waits of neighbours depend on one another, so the slope is judged on means of blocks.
    """
    if len(wait) < 2 * GROWTH_BLOCKS:
        return None
    means = np.array([block.mean() for block in np.array_split(wait, GROWTH_BLOCKS)])
    place = np.arange(GROWTH_BLOCKS) - (GROWTH_BLOCKS - 1) / 2
    slope = float(place @ means / (place @ place))
    rest = means - means.mean() - slope * place
    error = float(np.sqrt(rest @ rest / (GROWTH_BLOCKS - 2) / (place @ place)))
    if slope * GROWTH_BLOCKS <= service:
        return False
    return slope > t_quantile(GROWTH_LEVEL, df=GROWTH_BLOCKS - 2) * error
