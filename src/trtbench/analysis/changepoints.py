"""Where the level of a series changes: energy distances to find, Welch's t to decide.

As E-divisive in Apache Otava works: a window splits where its halves differ most, candidates are
kept generously, and the weakest is dropped until every one left is sure and large enough. Works on
logarithms, so that a change means a ratio.
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

WINDOW = 50
"""Points looked at together: a long quiet past must not hide a recent change."""
P = 0.001
GENEROUS = 10.0
"""Candidates may be so many times less sure; merging decides with more points around them."""
LEAST_CHANGE = 0.02
LEAST_POINTS = 5
"""On each side: fewer cannot tell a new level from a bad day."""
CONFIRM = 2
"""Further points that must come in before a change counts as confirmed."""
NEAR = 2
"""A change found earlier is the same one when it lies within so many points."""


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


def change_points(
    values: Sequence[float] | Column,
    *,
    window: int = WINDOW,
    p: float = P,
    least_change: float = LEAST_CHANGE,
    least_points: int = LEAST_POINTS,
    confirm: int = CONFIRM,
) -> tuple[ChangePoint, ...]:
    """Find the changes of level in a series of positive values, in order."""
    column = np.asarray(values, float)
    settings = (window, p, least_change, least_points)
    found = _indices(np.log(column), *settings)
    earlier = _indices(np.log(column[: len(column) - confirm]), *settings) if confirm else found
    return tuple(_point(column, found, place, earlier) for place in range(len(found)))


def segments(count: int, points: Sequence[int]) -> list[tuple[int, int]]:
    """List the stretches of one level that change points leave, as begin and end."""
    edges = [0, *points, count]
    return list(pairwise(edges))


def best_split(values: Column, *, least_points: int = LEAST_POINTS) -> tuple[int, float] | None:
    """List the place at which two parts differ most, and how much, by energy distance."""
    count = len(values)
    if count < 2 * least_points:
        return None
    places = np.arange(least_points, count - least_points + 1)
    left, right, across = _distances(values, places)
    n, m = places, count - places
    energy = (
        2 * across / (n * m)
        - _mean_within(left, n)
        - _mean_within(right, m)
    ) * n * m / count  # fmt: skip
    best = int(np.argmax(energy))
    return int(places[best]), float(energy[best])


def _distances(
    values: Column, places: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sum the distances within the left part, within the right part, and between them."""
    distance = np.abs(values[:, None] - values[None, :])
    corner = np.zeros((len(values) + 1, len(values) + 1))
    corner[1:, 1:] = distance.cumsum(axis=0).cumsum(axis=1)
    total = corner[-1, -1]
    left = corner[places, places]
    across = corner[places, -1] - left
    right = total - left - 2 * across
    return left / 2, right / 2, across


def _mean_within(total: NDArray[np.float64], count: NDArray[np.int64]) -> NDArray[np.float64]:
    pairs = count * (count - 1) / 2
    return np.asarray(total / np.maximum(pairs, 1), np.float64)


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


def _indices(
    logs: Column, window: int, p: float, least_change: float, least_points: int
) -> list[int]:
    found: set[int] = set()
    step = max(window // 2, 1)
    for begin in range(0, max(len(logs) - step, 1), step):
        part = logs[begin : begin + window]
        found |= {begin + place for place in _candidates(part, p * GENEROUS, least_points)}
    return _merged(logs, sorted(found), p=p, least_change=least_change, least_points=least_points)


def _candidates(values: Column, p: float, least_points: int) -> list[int]:
    """Split again and again while the halves differ, however slightly."""
    split = best_split(values, least_points=least_points)
    if split is None or welch_p(values[: split[0]], values[split[0] :]) > p:
        return []
    place = split[0]
    right = (place + each for each in _candidates(values[place:], p, least_points))
    return [*_candidates(values[:place], p, least_points), place, *right]


def _merged(
    logs: Column, found: list[int], *, p: float, least_change: float, least_points: int
) -> list[int]:
    """Drop the weakest candidate until all that are left are sure, large and far apart."""
    kept = list(found)
    while kept:
        judged = [_weakness(logs, kept, k, p, least_change, least_points) for k in range(len(kept))]
        worst = int(np.argmax(judged))
        if judged[worst] <= 0:
            break
        del kept[worst]
    return kept


def _weakness(
    logs: Column, kept: list[int], place: int, p: float, least_change: float, least_points: int
) -> float:
    """Say how far a candidate is from counting; zero and less counts."""
    begin = kept[place - 1] if place else 0
    end = kept[place + 1] if place + 1 < len(kept) else len(logs)
    before, after = logs[begin : kept[place]], logs[kept[place] : end]
    if min(len(before), len(after)) < least_points:
        return math.inf
    change = abs(float(np.median(after) - np.median(before)))
    needed = math.log1p(least_change)
    unsure = math.log10(max(welch_p(before, after), 1e-300) / p)
    small = (needed - change) / needed
    return max(unsure, small) if change >= needed else 1000 + max(unsure, small)


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
