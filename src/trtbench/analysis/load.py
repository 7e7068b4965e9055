"""Find the highest arrival rate that meets a latency bound (SLO), and the latency curve.

A rate is measured in several windows. It is accepted if the whole interval of the percentile is
below the bound, refused if it is above or the queue grows, and otherwise measured longer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trtbench.analysis.summary import effective_samples_at, nearest_rank, order_interval
from trtbench.core.conditions import condition_from_text, limits_of
from trtbench.core.errors import UsageError
from trtbench.core.run import Decision, LoadSearch, RatePoint, Run, Slo, Window
from trtbench.core.samples import Column

LOOKS = (2, 4, 8)  # numbers of windows after which a rate is judged; more would favour chance
MIN_QUERIES = 400  # per window: long waits come in clusters, which must be complete
CLUSTER_FACTOR = 3  # clusters are also counted among three times the queries beyond the percentile
MIN_SERVED = 0.95  # share of the offered rate; less with a growing queue is overload
RESOLUTION, COARSE_RESOLUTION = 0.05, 0.01
"""The search ends when accepted and refused rate differ by less than 5 % of the refused rate or
1 % of the highest rate."""
MAX_HALVINGS = 6  # if 1/64 of the highest rate is refused too, the search ends
CURVE = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)  # fractions of the capacity in the latency curve
NEAR = 0.08  # of the capacity: rates this close to a measured one are not measured again
MEANING = "95 %, windows in fresh processes pooled, effective samples counted"
MAX_PERCENTILE = 99.99  # needs 36 888 queries per window
EXAMPLE = "--slo 'p99<10ms'"
_PERCENTILE = re.compile(r"(?:host\.)?(?:median|p(\d+(?:\.\d+)?))", re.I)


def slo_from_text(text: str) -> Slo:
    """Read a bound on a percentile of the caller's waiting time: ``p99<10ms``."""
    condition = condition_from_text(
        text.strip(), names=lambda name: True, kinds=lambda name: "time"
    )
    limits = limits_of(condition) or []
    match = _PERCENTILE.fullmatch(limits[0].name) if len(limits) == 1 else None
    percent = float(match[1] or 50) if match else 0.0
    bounded = 0 < percent <= MAX_PERCENTILE and limits[0].sign in ("<", "<=")
    if not bounded or not 0 < limits[0].value < math.inf:
        raise UsageError(
            f"{text!r} is not a bound on a percentile of the host time",
            facts={"percentiles": f"one of median, p90, p99, p99.9, ... up to p{MAX_PERCENTILE:g}"},
            fix=EXAMPLE,
        )
    q = round(percent / 100, 9)
    return Slo(text=text.strip(), statistic=f"p{percent:g}", q=q, limit_s=limits[0].value)


def point_from_windows(
    rate_hz: float,
    windows: Sequence[Window],
    columns: Sequence[Column],
    slo: Slo,
    *,
    least: int = LOOKS[0],
) -> RatePoint:
    """Combine the windows of a rate; decide if there are at least ``least``."""
    pooled = np.sort(np.concatenate(columns))
    # Queries that wait in the same cluster count as one.
    shares = (slo.q, 1 - min(0.5, CLUSTER_FACTOR * (1 - slo.q)))
    effective = sum(
        min(effective_samples_at(each, nearest_rank(each, share)) for share in shares)
        for each in columns
    )
    interval = order_interval(pooled, slo.q, effective=effective, meaning=MEANING)
    offered = float(np.mean([each.offered_hz for each in windows]))
    served = float(np.mean([each.achieved_hz for each in windows]))
    grows = [each.queue_grows for each in windows]
    overloaded = all(grows) or (any(grows) and served < MIN_SERVED * offered)
    decision: Decision = "unclear"
    if len(windows) >= least and (overloaded or (interval and interval.low > slo.limit_s)):
        decision = "refused"
    elif len(windows) >= least and interval and interval.high < slo.limit_s:
        decision = "accepted"
    return RatePoint(
        rate_hz=rate_hz,
        decision=decision,
        overloaded=overloaded,
        samples=len(pooled),
        median_s=float(np.median(pooled)),
        percentile_s=nearest_rank(pooled, slo.q),
        interval=interval,
        achieved_hz=served,
        late_share=max(each.late_share for each in windows),
        windows=tuple(windows),
    )


def point_from_runs(runs: Sequence[Run]) -> RatePoint:
    """Combine stored runs at one rate; without a bound only overload is refused."""
    slo = Slo(text="", statistic="p99", q=0.99, limit_s=math.inf)
    columns = [run.times.host for run in runs if run.times.host is not None]
    rate = runs[0].record.spec.rate_hz or 0.0
    return point_from_windows(rate, [*map(window_from_run, runs)], columns, slo, least=1)


def window_from_run(run: Run) -> Window:
    """Return the load facts of a run with the protocol server."""
    facts = run.record.facts
    rates = {name: float(facts.get(name) or 0.0) for name in ("offered_hz", "achieved_hz")}
    late, grows = float(facts.get("late_share") or 0.0), facts.get("queue_grows")
    if grows is None:  # too few queries to see it in their waiting times
        grows = rates["achieved_hz"] < MIN_SERVED * rates["offered_hz"]
    return Window(run=run.id, queue_grows=bool(grows), late_share=late, **rates)


def next_rate(search: LoadSearch, *, most_hz: float) -> float | None:
    """Return the next rate: by bisection, then the rest of the curve; ``None`` at the end."""
    if not search.points and most_hz < search.capacity_hz:
        return most_hz  # a maximum rate was requested: try it first
    broken = [each.rate_hz for each in search.points if each.decision != "accepted"]
    low, high = search.highest_hz or 0.0, min([most_hz, *broken])
    found = low >= most_hz or high - low <= max(RESOLUTION * high, COARSE_RESOLUTION * most_hz)
    hopeless = not low and high < most_hz / 2**MAX_HALVINGS
    if not found and not hopeless:
        return (low + high) / 2
    near, curve = NEAR * most_hz, (part * most_hz for part in CURVE)
    rests = (x for x in curve if all(abs(x - each.rate_hz) > near for each in search.points))
    return next(rests, None)


def with_point(search: LoadSearch, point: RatePoint, *, most_hz: float) -> LoadSearch:
    """Add a rate and update the result: all rates up to the highest must meet the bound."""
    points = tuple(sorted((*search.points, point), key=lambda each: each.rate_hz))
    broken = [each.rate_hz for each in points if each.decision != "accepted"]
    kept = [
        each.rate_hz
        for each in points
        if each.decision == "accepted" and (not broken or each.rate_hz < broken[0])
    ]
    highest = kept[-1] if kept else None
    refused = [each.rate_hz for each in points if each.decision == "refused"]
    # The rate at which the percentile reaches the bound, interpolated between two rates: spare
    # capacity is about proportional to one over the latency.
    limit_s, crossing = search.slo.limit_s, None
    for below, above in pairwise(points):
        if crossing is None and below.percentile_s < limit_s <= above.percentile_s:
            speeds = (1 / below.percentile_s, 1 / limit_s, 1 / above.percentile_s)
            part = (speeds[0] - speeds[1]) / (speeds[0] - speeds[2])
            crossing = below.rate_hz + part * (above.rate_hz - below.rate_hz)
    return search.having(
        points=points,
        highest_hz=highest,
        next_hz=broken[0] if broken else None,
        broken_hz=refused[0] if refused else None,
        likely_hz=crossing,
        at_least=highest is not None and highest >= most_hz,
    )
