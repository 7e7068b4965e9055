"""Intervals by resampling examples: what other examples of the same kind would have given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.domain.result import Interval

RESAMPLES = 2000
LEVEL = 0.95
MEANING = "95 % for other examples of the same kind (bootstrap over examples)"

_BLOCK = 2**22
"""Indices drawn at a time."""


def mean_interval(values: AnyArray, *, resamples: int = RESAMPLES) -> Interval | None:
    """Bootstrap interval of a mean; ``None`` with fewer than two examples."""
    numbers = np.asarray(values, np.float64)
    count = len(numbers)
    if count < 2:
        return None
    rng = np.random.default_rng(0)
    at_once = max(1, _BLOCK // count)
    means = np.concatenate(
        [
            numbers[rng.integers(0, count, (min(at_once, resamples - done), count))].mean(axis=1)
            for done in range(0, resamples, at_once)
        ]
    )
    return interval_from_draws(means)


def statistic_interval(
    statistic: Callable[[NDArray[np.int64]], float], *, examples: int, resamples: int
) -> Interval | None:
    """Bootstrap interval of any statistic of how often each example is drawn."""
    found = statistic_intervals(
        lambda weights: {"": statistic(weights)}, examples=examples, resamples=resamples
    )
    return found.get("")


def statistic_intervals(
    statistics: Callable[[NDArray[np.int64]], Mapping[str, float]], *, examples: int, resamples: int
) -> dict[str, Interval]:
    """Bootstrap intervals of several statistics of the same draws, where they can be told."""
    if examples < 2:
        return {}
    rng = np.random.default_rng(0)
    draws: dict[str, list[float]] = {}
    for _ in range(resamples):
        chosen = rng.integers(0, examples, examples)
        for name, value in statistics(np.bincount(chosen, minlength=examples)).items():
            if np.isfinite(value):
                draws.setdefault(name, []).append(value)
    return {n: interval_from_draws(np.array(own)) for n, own in draws.items() if len(own) > 1}


def interval_from_draws(draws: AnyArray) -> Interval:
    """Find the middle part of what was drawn."""
    low, high = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(low=float(low), high=float(high), level=LEVEL, meaning=MEANING)
