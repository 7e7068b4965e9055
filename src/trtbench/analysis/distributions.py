"""Quantiles of the t, normal and binomial distributions, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

TWO_SIDED_ALPHA = 0.05
"""Order-statistic intervals are two-sided 95 %."""
MOST_TERMS = 20_000
"""Of the continued fraction; the square root of the larger parameter is enough."""


@lru_cache(maxsize=256)
def t_quantile(p: float, *, df: float) -> float:
    """Find the value that Student's t with so many degrees of freedom stays below."""
    if p < 0.5:
        return -t_quantile(1 - p, df=df)
    if p >= 1:
        return math.inf
    high = max(2.0, 2.0 * normal_quantile(p))
    while _t_upper(high, df) > 1 - p:
        high *= 2
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _t_upper(middle, df) > 1 - p else (low, middle)
        if middle in (low, high) and low == high:
            break
    return (low + high) / 2


def normal_quantile(p: float) -> float:
    """Find the value that a standard normal stays below with this probability."""
    from statistics import NormalDist  # with fractions and random: no worker needs it

    return NormalDist().inv_cdf(p)


def t_two_sided_p(t: float, *, df: float) -> float:
    """Compute the probability of a Student t at least this far from zero."""
    return 2.0 * _t_upper(abs(t), df)


def _t_upper(t: float, df: float) -> float:
    """Compute the probability of a Student t above a value of zero or more."""
    if math.isinf(df):
        return math.erfc(t / math.sqrt(2.0)) / 2
    return incomplete_beta(df / (df + t * t), df / 2, 0.5) / 2


def normal_two_sided_p(z: float) -> float:
    """Compute the probability of a standard normal at least this far from zero."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def binomial_cdf(k: int, *, n: int, p: float) -> float:
    """Compute P(Bin(n, p) <= k)."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return incomplete_beta(1 - p, n - k, k + 1)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularized incomplete beta function, to about nine digits.

    By its continued fraction (modified Lentz), on the side where that converges fast. SciPy has
    it too, and is 140 MB that a light installation does without.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(1 - x, b, a)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_front) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value


def samples_needed(q: float, *, alpha: float = TWO_SIDED_ALPHA) -> int:
    """Count the independent samples for which a two-sided interval of a quantile exists.

    Below it the interval would reach past the largest (or smallest) sample.
    """
    return math.ceil(math.log(alpha / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=1024)
def interval_ranks(n: int, q: float, alpha: float = TWO_SIDED_ALPHA) -> tuple[int, int] | None:
    """List the ranks (from 1) of the order statistics that enclose a quantile, if there are any.

    l is the largest rank with P(Bin(n, q) <= l-1) <= alpha/2, u the smallest with
    P(Bin(n, q) >= u) <= alpha/2.
    """
    reach = 2.0 * math.sqrt(n * q * (1 - q))  # about where a normal distribution has them
    low = _last(lambda r: binomial_cdf(r - 1, n=n, p=q) <= alpha / 2, near=n * q - reach, high=n)
    below_high = _last(
        lambda r: 1 - binomial_cdf(r - 1, n=n, p=q) > alpha / 2, near=n * q + reach, high=n
    )
    if low < 1 or below_high >= n:
        return None
    return low, below_high + 1


def _last(holds: Callable[[int], bool], *, near: float, high: int) -> int:
    """Find the last integer in (0, high] for which a monotone test holds; 0 if none.

    Beginning where it is likely to be: the test is dear, and a blind search asks it often.
    """
    low, step = min(max(int(near), 0), high), 4
    while low > 0 and not holds(low):
        high, low, step = low - 1, max(low - step, 0), 4 * step
    top = min(low + step, high)
    while top < high and holds(top):
        low, step = top, 4 * step
        top = min(low + step, high)
    high = min(high, top)
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
