"""Distributions and robust estimates: t, normal and binomial quantiles, Yuen's trimmed t.

Every worker imports it, so it only needs numpy.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

TWO_SIDED_ALPHA = 0.05  # order-statistic intervals are two-sided 95 %
MAX_TERMS = 20_000  # of the continued fraction; the square root of the larger parameter is enough


@lru_cache(maxsize=256)
def t_quantile(p: float, *, df: float) -> float:
    """Return the quantile of Student's t distribution with ``df`` degrees of freedom."""
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
    return (low + high) / 2


def normal_quantile(p: float) -> float:
    from statistics import NormalDist  # slow to import, and workers do not need it

    return NormalDist().inv_cdf(p)


def t_two_sided_p(t: float, *, df: float) -> float:
    return 2.0 * _t_upper(abs(t), df)


def _t_upper(t: float, df: float) -> float:
    if math.isinf(df):
        return math.erfc(t / math.sqrt(2.0)) / 2
    return incomplete_beta(df / (df + t * t), df / 2, 0.5) / 2


def binomial_cdf(k: int, *, n: int, p: float) -> float:
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return incomplete_beta(1 - p, n - k, k + 1)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Compute the regularized incomplete beta function, to about nine digits.

    Uses its continued fraction (modified Lentz) on the side where it converges fast. Own code,
    because SciPy would add 140 MB to the installation.
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
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, MAX_TERMS):
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
    return math.exp(log_front) * value / a


def samples_needed(q: float) -> int:
    """Return the least number of independent samples for a two-sided interval of a quantile."""
    return math.ceil(math.log(TWO_SIDED_ALPHA / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=1024)
def interval_ranks(n: int, q: float) -> tuple[int, int] | None:
    """Return the ranks (from 1) of the order statistics that enclose a quantile, or ``None``.

    l is the largest rank with P(Bin(n, q) <= l-1) <= alpha/2, u the smallest with
    P(Bin(n, q) >= u) <= alpha/2.
    """
    low, near = lower_rank(n, q), n * q + 2.0 * math.sqrt(n * q * (1 - q))
    tail = TWO_SIDED_ALPHA / 2
    below_high = _last(lambda r: 1 - binomial_cdf(r - 1, n=n, p=q) > tail, near=near, high=n)
    if low < 1 or below_high >= n:
        return None
    return low, below_high + 1


def lower_rank(n: int, q: float) -> int:
    """Return the rank (from 1) of the order statistic below a quantile; 0 if there is none."""
    near = n * q - 2.0 * math.sqrt(n * q * (1 - q))  # a normal approximation as the starting point
    return _last(lambda r: binomial_cdf(r - 1, n=n, p=q) <= TWO_SIDED_ALPHA / 2, near=near, high=n)


def _last(holds: Callable[[int], bool], *, near: float, high: int) -> int:
    """Find the last integer in (0, high] for which a monotone test holds; 0 if none."""
    found, middle = 0, min(max(int(near), 0), high)
    for reach in (6, 60, high):  # the test is expensive: first near the expected result
        low, top = max(middle - reach, 0), min(middle + reach, high)
        found = low + bisect_left(range(low + 1, top + 1), True, key=lambda r: not holds(r))
        if (low == 0 or found > low) and (top == high or found < top):
            break
    return found


TRIM = 0.2
MIN_TRIMMED = 8  # with fewer values, trimming loses more precision than outliers do
LEVEL = 0.99  # confidence level: one in a hundred equal pairs may appear different

DETECTABLE_FACTOR = {
    3: 7.33, 4: 3.72, 5: 2.63, 6: 2.11, 8: 2.30, 10: 1.70, 15: 1.18, 20: 0.95, 30: 0.73, 40: 0.62
}  # fmt: skip
"""By launches: the effect found in 80 % of comparisons, in standard deviations; simulated
(``benchmarks/stats.py --detectable``)."""


@dataclass(frozen=True)
class Trimmed:
    """A trimmed mean with its standard error and degrees of freedom."""

    mean: float
    error: float
    df: float
    count: int

    def half_width(self, level: float = LEVEL) -> float:
        return t_quantile((1 + level) / 2, df=self.df) * self.error

    def interval(self) -> tuple[float, float]:
        half = self.half_width()
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Two-sided p-value of the hypothesis that the mean is zero."""
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return t_two_sided_p(self.mean / self.error, df=self.df)


def trimmed(values: Sequence[float]) -> Trimmed | None:
    """Return Yuen's trimmed mean; ``None`` with fewer than two values."""
    k = len(values)
    if k < 2:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = trimmed_count(k)
    winsorised = np.clip(ordered, ordered[cut], ordered[k - cut - 1])
    error = float(winsorised.std(ddof=1)) / ((1 - 2 * TRIM if cut else 1.0) * math.sqrt(k))
    return Trimmed(float(ordered[cut : k - cut].mean()), error, k - 2 * cut - 1, k)


def trimmed_count(k: int) -> int:
    """Return how many of k values are trimmed at each end."""
    return int(TRIM * k) if k >= MIN_TRIMMED else 0


def difference(before: Sequence[float], after: Sequence[float]) -> Trimmed | None:
    """Estimate after - before of unpaired values (Yuen-Welch); ``None`` with fewer than two."""
    a, b = trimmed(before), trimmed(after)
    if a is None or b is None:
        return None
    error, df = math.hypot(a.error, b.error), a.df + b.df
    if error:
        df = error**4 / (a.error**4 / a.df + b.error**4 / b.df)
    return Trimmed(b.mean - a.mean, error, df, a.count + b.count)


def detectable_effect(effects: Sequence[float]) -> float | None:
    """Return the smallest relative effect found in 80 % of comparisons with such launches."""
    launches, known = len(effects), sorted(DETECTABLE_FACTOR)
    if launches < 3:
        return None
    factors = [math.log(DETECTABLE_FACTOR[k]) for k in known]
    factor = math.exp(float(np.interp(math.log(launches), np.log(known), factors)))
    if launches >= known[-1]:
        factor = DETECTABLE_FACTOR[known[-1]] * math.sqrt(known[-1] / launches)
    return math.expm1(factor * float(np.std(np.asarray(effects), ddof=1)))
