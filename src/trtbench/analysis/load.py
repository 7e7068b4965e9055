"""Find the highest arrival rate that meets a latency bound (SLO), and the latency curve.

Queries are sent at several rates. How long each kept the server busy, replayed with many other
arrivals, says which share would exceed the bound at every rate: chance in the arrivals, which
decides a percentile of one probe, averages out. What differs from probe to probe is the doubt, and
how many long stalls were seen: few stalls say little about how often they come.
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import normal_quantile, t_quantile
from trtbench.analysis.summary import effective_samples_at, order_interval
from trtbench.core.conditions import condition_from_text, limits_of
from trtbench.core.errors import UsageError
from trtbench.core.run import Decision, LoadSearch, RatePoint, Scalar, Slo
from trtbench.core.samples import Column

_ODDS = np.geomspace(1 / 63, 200, 100)
PARTS = np.concatenate([_ODDS / (1 + _ODDS), [1.02, 1.05, 1.1]])
"""Rates at which queries are replayed, as parts of the capacity; dense near it."""
REPLAYED = 20_000  # queries per replay, of which the first fifth, from an empty queue, is left out
RESAMPLES, LEVEL = 400, 0.99
LEAST_DOUBT, SURE = 0.03, 0.04  # parts of the rate: no doubt is smaller; this is small enough
PROBES, MIN_PROBES = 16, 6  # probes in the budget; after six a sure answer ends the search
SPREAD = (1.0, 0.8, 1.0, 1.12, 1.0, 0.5, 1.0)  # rates of probes, as parts of the likely answer
SAME_RATE, NEAR = 0.02, 0.45  # parts: probed again at the same rate; replayed for the answer
LOWEST, LEAST_QUERIES = 1 / 16, 20  # lowest part of the capacity, and queries in a probe
LONG, TOGETHER = 2.0, 3  # a stall: of such medians; queries that such ones end together
SEEN = 20  # queries, over the share that may be slow, without which rare stalls may be unseen
CLUSTER_FACTOR = 3  # clusters are also counted among three times the queries beyond the percentile
MIN_SERVED = 0.95  # share of the offered rate; less with a growing queue is overload
MEANING = "95 %, effective samples counted"
MAX_PERCENTILE = 99.99
EXAMPLE = "--slo 'p99<10ms'"
_PERCENTILE = re.compile(r"(?:host\.)?(?:median|p(\d+(?:\.\d+)?))", re.I)


def slo_from_text(text: str) -> Slo:
    """Read a bound on a percentile of the caller's waiting time: ``p99<10ms``."""
    condition = condition_from_text(text.strip(), names=lambda _: True, kinds=lambda _: "time")
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


def point_from_queries(
    rate_hz: float, facts: Sequence[Mapping[str, Scalar]], columns: Sequence[Column], slo: Slo
) -> RatePoint:
    """Combine queries that were sent at one rate, and decide whether it meets the bound."""
    pooled = np.sort(np.concatenate(columns))
    # Queries that wait in the same cluster count as one.
    shares = (slo.q, 1 - min(0.5, CLUSTER_FACTOR * (1 - slo.q)))
    effective = sum(
        min(effective_samples_at(each, at) for at in np.quantile(each, shares).tolist())
        for each in columns
    )
    interval = order_interval(pooled, slo.q, effective=effective, meaning=MEANING)
    offered, served, late = (
        np.array([float(each.get(name) or 0.0) for each in facts])
        for name in ("offered_hz", "achieved_hz", "late_share")
    )
    too_slow = served < MIN_SERVED * offered
    # Too few queries do not show in their waiting times whether the queue grows.
    told = [each.get("queue_grows") for each in facts]
    grows = [too_slow[n] if each is None else bool(each) for n, each in enumerate(told)]
    overloaded = all(grows) or (any(grows) and served.mean() < MIN_SERVED * offered.mean())
    decision: Decision = "unclear"
    # Too few queries for an interval of a percentile may all be above the bound.
    least_s = interval.low if interval else float(np.quantile(pooled, slo.q / 2))
    if overloaded or least_s > slo.limit_s:
        decision = "refused"
    elif interval and interval.high < slo.limit_s:
        decision = "accepted"
    return RatePoint(
        rate_hz=rate_hz,
        decision=decision,
        overloaded=bool(overloaded),
        samples=len(pooled),
        median_s=float(np.median(pooled)),
        percentile_s=float(np.quantile(pooled, slo.q)),
        interval=interval,
        achieved_hz=float(served.mean()),
        late_share=float(late.max()),
    )


def with_capacity(search: LoadSearch, busy: Column, host: Column, *, poisson: bool) -> LoadSearch:
    """Begin a search by what queries one after the other took: the capacity, and a first guess."""
    lone_s = float(np.quantile(host, search.slo.q))
    search = search.having(capacity_hz=float(1 / busy.mean()), lone_s=lone_s)
    part = _crossing(np.array(replay(busy, search, poisson=poisson, seed=0)), search.slo.q)
    return search.having(likely_hz=min(part * search.capacity_hz, _most(search)))


def replay(busy: Column, search: LoadSearch, *, poisson: bool, seed: int) -> tuple[float, ...]:
    """Return the share of queries above the bound, had they come at each rate of ``PARTS``.

    ``busy`` is how long each kept the server busy, in their order, so that stalls stay together.
    """
    random = np.random.default_rng([seed, 13])
    count = max(REPLAYED, len(busy) * 5 // 4)
    each = np.resize(np.roll(busy, random.integers(len(busy))), count)
    gaps = random.exponential(1.0, count) if poisson else np.ones(count)
    due, worked = np.cumsum(gaps), np.cumsum(each)
    shares = []
    for part in PARTS:
        came = due / (part * search.capacity_hz)
        latency = worked + np.maximum.accumulate(came - (worked - each)) - came
        shares.append(float((latency[count // 5 :] > search.slo.limit_s).mean()))
    return tuple(shares)


def with_replay(
    point: RatePoint, busy: Column, search: LoadSearch, *, poisson: bool, seed: int
) -> RatePoint:
    """Add what the queries of a probe say about every rate, as they were and without stalls."""
    usual = float(np.median(busy))
    long = np.flatnonzero(busy > LONG * usual)
    row = calm = replay(busy, search, poisson=poisson, seed=seed)
    if len(long):
        calm = replay(np.minimum(busy, LONG * usual), search, poisson=poisson, seed=seed)
    first = np.flatnonzero(np.diff(long, prepend=-TOGETHER - 1) > TOGETHER)
    stalls = np.add.reduceat(busy[long] - usual, first) if len(long) else np.zeros(0)
    return point.having(
        replayed=row, calm=calm,
        stalled_s=float(stalls.sum()), stalled_s2=float((stalls**2).sum()),
    )  # fmt: skip


def _counts(seen: float) -> tuple[float, float]:
    """Return which counts of rare events explain one that was seen (Wilson and Hilferty)."""
    z = normal_quantile(LEVEL)
    low, high = (
        n * max(0.0, 1 - 1 / (9 * n) + sign * z / (3 * math.sqrt(n))) ** 3
        for n, sign in ((max(seen, 1e-9), -1), (seen + 1, 1))
    )
    return low, high


def _crossing(shares: Column, q: float) -> float:
    """Return the part of the capacity at which the share above the bound reaches ``1 - q``."""
    shares = np.maximum.accumulate(shares)
    above = int(np.searchsorted(shares, 1 - q, side="right"))
    if above in (0, len(PARTS)):
        return 0.0 if above == 0 else float(PARTS[-1])
    # Shares grow about exponentially with the rate.
    low, high = (math.log(max(shares[n] / (1 - q), 0.02)) for n in (above - 1, above))
    return float(np.interp(0.0, (low, high), PARTS[above - 1 : above + 1]))


def _most(search: LoadSearch) -> float:
    return min(search.capacity_hz, search.most_hz or math.inf)


def next_probe(search: LoadSearch, *, left_s: float, tried: int) -> tuple[float, float] | None:
    """Return the next rate and for how long to try it; ``None`` at the end of the search.

    ``tried`` counts the probes of this process; those of earlier launches come before.
    """
    most, count, points = _most(search), len(search.points), search.points
    lowest = min(most / 2, max(most * LOWEST, LEAST_QUERIES * 5 / search.budget_s))
    likely = max(lowest, search.likely_hz or 0.0)
    part = 1.0 if search.at_least else SPREAD[count % len(SPREAD)]
    rate = likely * part if part <= 1 else min(likely * part, (likely + most) / 2)
    near = [each.rate_hz for each in points if abs(each.rate_hz / likely - 1) <= SAME_RATE]
    if part == 1:
        rate = near[0] if near else float(f"{likely:.3g}")
    rate = min(most, max(lowest, rate))
    usual = max(search.budget_s / PROBES, 1 / (1 - search.slo.q) / rate)
    seconds = search.probe_s or min(usual, search.budget_s / 5)
    low, high = search.highest_hz or 0.0, search.broken_hz or most
    limit_s = search.slo.limit_s
    kept = [each for each in points if each.rate_hz >= most and each.percentile_s < limit_s]
    seen = sum(each.samples for each in points) * (1 - search.slo.q)
    at_lowest = sum(each.rate_hz <= lowest for each in points)
    ended = (
        (tried >= MIN_PROBES and seen >= SEEN and high - low <= 2 * SURE * likely)
        or (tried >= 3 and search.likely_hz is None and at_lowest >= 3)
        or (tried >= 1 and search.at_least and len(kept) >= 2)
        or (tried >= 3 and left_s < 0.6 * seconds)
        or (tried >= 1 and left_s <= 0)
    )
    return None if ended else (rate, max(0.2 * seconds, min(seconds, left_s)))


def with_point(search: LoadSearch, point: RatePoint) -> LoadSearch:
    """Add a probe, and estimate the highest rate again from those near it."""
    points = tuple(sorted((*search.points, point), key=lambda each: each.rate_hz))
    known = [each for each in points if len(each.replayed) == len(PARTS)]
    likely = search.likely_hz or 0.0
    rows = np.array([each.replayed for each in known])
    calm = np.array([each.calm or each.replayed for each in known])
    weights = np.array([each.samples for each in known], np.float64)
    near = np.array([abs(each.rate_hz - likely) <= NEAR * likely for each in known])
    near = near if near.sum() > 1 else np.ones(len(known), bool)

    def crossing(used: NDArray[np.int64], stalls: float = 1.0) -> float:
        """Take the usual times from probes near the answer, and stalls, which are few, from all."""
        usual = np.average(calm[used], axis=0, weights=weights[used] * near[used])
        stalled = np.average((rows - calm)[used], axis=0, weights=weights[used])
        return _crossing(usual + stalls * stalled, search.slo.q)

    every, count = np.arange(len(known)), int(near.sum())
    middle, random = crossing(every), np.random.default_rng(len(known))
    parts = [part for part in (every[near], every[~near]) if len(part)]
    drawn = (np.concatenate([random.choice(x, len(x)) for x in parts]) for _ in range(RESAMPLES))
    # Resamples of few probes vary too little.
    wider = (
        t_quantile(LEVEL, df=count - 1) / normal_quantile(LEVEL) * math.sqrt(count / (count - 1))
        if count > 1
        else 1.0
    )
    low, high = map(float, np.quantile([crossing(each) for each in drawn], [1 - LEVEL, LEVEL]))
    low = min((1 - LEAST_DOUBT) * middle, middle - wider * (middle - low))
    high = max((1 + LEAST_DOUBT) * middle, middle + wider * (high - middle))
    if squares := sum(each.stalled_s2 for each in known):
        # Half as many as were seen, and fewer if one is longer than the rest: lengths vary, too.
        seen = sum(each.stalled_s for each in known) ** 2 / squares / 2
        fewer, more = (crossing(every, count / seen) for count in _counts(seen))
        low, high = min(low, more), max(high, fewer)
    most, capacity = _most(search), search.capacity_hz
    found = middle > PARTS[0]
    return search.having(
        points=points,
        likely_hz=min(most, middle * capacity) if found else None,
        highest_hz=max(0.0, min(most, low * capacity)) if found else None,
        broken_hz=min(most, high * capacity),
        at_least=search.most_hz is not None and middle * capacity >= most,
    )
