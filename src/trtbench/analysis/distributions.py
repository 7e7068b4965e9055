"""Quantiles of the t, normal and binomial distributions, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

TWO_SIDED_ALPHA = 0.05
"""Order-statistic intervals are two-sided 95 %."""


@lru_cache(maxsize=256)
def t_quantile(p: float, *, df: float) -> float:
    """Give the value that Student's t with so many degrees of freedom stays below."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def t_two_sided_p(t: float, *, df: float) -> float:
    """Give the probability of a Student t at least this far from zero."""
    from scipy.special import stdtr

    return float(2.0 * stdtr(df, -abs(t)))


def normal_two_sided_p(z: float) -> float:
    """Give the probability of a standard normal at least this far from zero."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def binomial_cdf(k: int, *, n: int, p: float) -> float:
    """Give P(Bin(n, p) <= k)."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    from scipy.special import bdtr

    return float(bdtr(k, n, p))


def samples_needed(q: float, *, alpha: float = TWO_SIDED_ALPHA) -> int:
    """Count the independent samples for which a two-sided interval of a quantile exists.

    Below it the interval would reach past the largest (or smallest) sample.
    """
    return math.ceil(math.log(alpha / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=1024)
def interval_ranks(n: int, q: float, alpha: float = TWO_SIDED_ALPHA) -> tuple[int, int] | None:
    """Give the ranks (from 1) of the order statistics that enclose a quantile, if there are any.

    l is the largest rank with P(Bin(n, q) <= l-1) <= alpha/2, u the smallest with
    P(Bin(n, q) >= u) <= alpha/2.
    """
    low = _last(lambda r: binomial_cdf(r - 1, n=n, p=q) <= alpha / 2, low=0, high=n)
    below_high = _last(lambda r: 1 - binomial_cdf(r - 1, n=n, p=q) > alpha / 2, low=0, high=n)
    if low < 1 or below_high >= n:
        return None
    return low, below_high + 1


def _last(holds: Callable[[int], bool], *, low: int, high: int) -> int:
    """Find the last integer in (low, high] for which a monotone test holds; ``low`` if none."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
