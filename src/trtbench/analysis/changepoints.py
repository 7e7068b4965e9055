"""Where the level of a series changes: one search, for the times of a run and for runs over time.

``level_cuts`` finds where a series is best cut into levels; correlated noise makes a cut dearer.
``change_points`` asks more of the runs of a history: Welch's t on logarithms must be sure of each
change, and a change means a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import t_two_sided_p
from trtbench.domain.samples import Column
from trtbench.domain.spec import Value

PENALTY = 4.0
PENALTY_COARSE = 10.0
PENALTY_MOST = 40.0
"""A cut costs c sigma² ln m, c = 4 (1 + r) / (1 - r) at lag-one correlation r.

r is what remains about the cuts of a coarse search, because a fine one explains correlation away.
Calibrated on AR(1) series: at most 2 % false up to a correlation of 0.3; a step of 3 % is found in
99 % of series of 300 and more, and of 100 if the noise is 1 % (88 % at 2 %).
"""
LEAST_CORRELATED = 20
"""With fewer points nothing is known of their correlation."""
RESOLUTION = 5e-4
"""Noise below this share of the level is a coarse clock's; changes so small never count."""
CLEAN_WINDOW = 200
CLEAN_WIDTH = 3.0
"""Points further from the local median than 3 (p90 - p10) are disturbances, not levels."""

P = 0.001
LEAST_CHANGE = 0.02
LEAST_POINTS = 5
"""On each side: fewer cannot tell a new level from a bad day."""
CONFIRM = 2
"""Further points that must come in before a change counts as confirmed."""
NEAR = 2
"""A change found earlier is the same one when it lies within so many points."""


def without_disturbances(values: Column) -> Column:
    """Level single points that stand far off what is around them."""
    clean: Column = np.array(values)
    for begin in range(0, len(values), CLEAN_WINDOW):
        part = values[begin : begin + CLEAN_WINDOW]
        p10, median, p90 = np.percentile(part, (10, 50, 90))
        far = np.abs(part - median) > CLEAN_WIDTH * (p90 - p10)
        if p90 > p10:
            clean[begin : begin + CLEAN_WINDOW][far] = median
    return clean


def level_cuts(values: Column, *, least: int, resolution: float) -> tuple[list[int], float]:
    """Find where new levels begin, at least so long, and how far neighbours are correlated."""
    if len(values) < 2 * least:
        return [], 0.0
    noise = max(_noise(values), resolution)
    coarse = _cheapest(values, least=least, cost=_cost(PENALTY_COARSE, noise, len(values)))
    correlation = _lag_one(values, coarse) if len(values) >= LEAST_CORRELATED else 0.0
    known = min(max(0.0, correlation), 0.99)
    penalty = min(PENALTY_MOST, PENALTY * (1 + known) / (1 - known))
    cost = _cost(penalty, noise, len(values))
    return _cheapest(values, least=least, cost=cost), correlation


def _cost(penalty: float, noise: float, count: int) -> float:
    return penalty * noise**2 * math.log(count)


def _noise(values: Column) -> float:
    steps = np.diff(values)
    return 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)


def _lag_one(values: Column, cuts: list[int]) -> float:
    """Compute the lag-one correlation about the levels: a step is not correlation."""
    rest = np.concatenate([part - part.mean() for part in np.split(values, cuts)])
    power = float(rest @ rest)
    return float(rest[1:] @ rest[:-1]) / power if power > 0 else 0.0


def _cheapest(values: Column, *, least: int, cost: float) -> list[int]:
    """Find the cuts with the least squared error plus a cost for each (optimal partition)."""
    m = len(values)
    centred = values - values.mean()
    total = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    best = np.full(m + 1, np.inf)
    best[0] = -cost
    came_from = np.zeros(m + 1, dtype=np.int64)
    index = np.arange(m + 1)
    for end in range(least, m + 1):
        begins = slice(0, end - least + 1)
        within = squares[begins] + (total[end] - total[begins]) ** 2 / (end - index[begins])
        candidates = best[begins] - within
        choice = int(np.argmin(candidates))
        best[end] = candidates[choice] + squares[end] + cost
        came_from[end] = choice
    return _walk_back(came_from, m)


def _walk_back(came_from: NDArray[np.integer], end: int) -> list[int]:
    cuts: list[int] = []
    while end > 0:
        end = int(came_from[end])
        if end > 0:
            cuts.append(end)
    return cuts[::-1]


class ChangePoint(Value, frozen=True, kw_only=True):
    """One change of level, between two points of a series."""

    index: int
    """The first point of the new level."""
    before: float
    """Median of the level before."""
    after: float
    change: float
    """Relative: 0.1 is 10 % more."""
    p: float
    confirmed: bool
    """Whether it was there already when the series was ``CONFIRM`` points shorter."""


def change_points(values: Sequence[float] | Column) -> tuple[ChangePoint, ...]:
    """Find the changes of level in a series of positive values, in order."""
    column = np.asarray(values, float)
    found = _sure_cuts(np.log(column))
    earlier = _sure_cuts(np.log(column[: len(column) - CONFIRM]))
    return tuple(_point(column, found, place, earlier) for place in range(len(found)))


def segments(count: int, points: Sequence[int]) -> list[tuple[int, int]]:
    """List the stretches of one level that change points leave, as begin and end."""
    edges = [0, *points, count]
    return list(pairwise(edges))


def _sure_cuts(logs: Column) -> list[int]:
    """Drop the weakest cut until all that are left are sure, large and far apart."""
    clean = without_disturbances(logs)
    kept, _ = level_cuts(clean, least=LEAST_POINTS, resolution=RESOLUTION)
    while kept:
        judged = [_weakness(logs, kept, place) for place in range(len(kept))]
        worst = int(np.argmax(judged))
        if judged[worst] <= 0:
            break
        del kept[worst]
    return kept


def _weakness(logs: Column, kept: list[int], place: int) -> float:
    """Say how far a cut is from counting; zero and less counts."""
    begin = kept[place - 1] if place else 0
    end = kept[place + 1] if place + 1 < len(kept) else len(logs)
    before, after = logs[begin : kept[place]], logs[kept[place] : end]
    change = abs(float(np.median(after) - np.median(before)))
    needed = math.log1p(LEAST_CHANGE)
    unsure = math.log10(max(welch_p(before, after), 1e-300) / P)
    small = (needed - change) / needed
    return max(unsure, small) if change >= needed else 1000 + max(unsure, small)


def welch_p(before: Column, after: Column) -> float:
    """Tell how likely a difference of means like this is where there is none."""
    n, m = len(before), len(after)
    spread = [float(part.var(ddof=1)) / len(part) for part in (before, after)]
    error = sum(spread)
    gap = float(after.mean() - before.mean())
    if error <= 0:
        return 1.0 if gap == 0 else 0.0
    df = error**2 / (spread[0] ** 2 / (n - 1) + spread[1] ** 2 / (m - 1))
    return t_two_sided_p(gap / math.sqrt(error), df=df)


def _point(column: Column, found: list[int], place: int, earlier: list[int]) -> ChangePoint:
    parts = segments(len(column), found)
    before, after = (column[slice(*parts[place + k])] for k in (0, 1))
    low, high = float(np.median(before)), float(np.median(after))
    return ChangePoint(
        index=found[place],
        before=low,
        after=high,
        change=high / low - 1,
        p=welch_p(np.log(before), np.log(after)),
        confirmed=any(abs(each - found[place]) <= NEAR for each in earlier),
    )
