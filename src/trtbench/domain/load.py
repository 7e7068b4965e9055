"""What a search for a rate of arrivals found: the bound, every rate, the answer."""

from __future__ import annotations

from typing import Literal

from trtbench.domain.samples import Interval
from trtbench.domain.spec import Value

Decision = Literal["accepted", "refused", "unclear"]


class Slo(Value, frozen=True, kw_only=True):
    """A bound on a percentile of latency under load."""

    text: str
    statistic: str
    q: float
    limit_s: float


class Window(Value, frozen=True, kw_only=True):
    """What one window at a rate showed; latency counts from the moment a query was due."""

    run: str
    offered_hz: float
    achieved_hz: float
    queue_grows: bool = False
    late_share: float = 0.0


class RatePoint(Value, frozen=True, kw_only=True):
    """One rate of arrivals, with all its windows together."""

    rate_hz: float
    decision: Decision
    overloaded: bool
    """The queue grew: latencies depend on how long one looks."""
    samples: int
    median_s: float
    percentile_s: float
    """The percentile that is bounded."""
    interval: Interval | None
    """Of the percentile; ``None`` where the samples do not suffice."""
    achieved_hz: float
    late_share: float
    """Queries that the sender itself sent late, in the worst window."""
    windows: tuple[Window, ...]


class LoadSearch(Value, frozen=True, kw_only=True):
    """The highest rate that keeps a bound, and the curve of latency against rate."""

    slo: Slo
    capacity_hz: float
    """Queries per second, one after the other: what no rate can exceed for long."""
    lone_s: float
    """The percentile of queries one after the other, without any load."""
    highest_hz: float | None
    """``None``: no rate that was tried keeps the bound."""
    next_hz: float | None
    """The lowest rate above it that was refused or stayed unclear."""
    broken_hz: float | None = None
    """The lowest rate that surely breaks the bound: the true one lies below it."""
    likely_hz: float | None = None
    """Where the curve crosses the bound: the best guess between those two."""
    at_least: bool = False
    """The highest rate that was to be tried keeps the bound: there may be more."""
    knee_hz: float | None = None
    """Where rate over latency is largest: more load costs more than it brings from here on."""
    points: tuple[RatePoint, ...] = ()
    complete: bool = True
    """Neither interrupted nor too long: all rates that were to be tried were."""
