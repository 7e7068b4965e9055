"""Robust one- and two-sample estimates over launches: Yuen's trimmed t, and what it can detect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trtbench.analysis.distributions import t_quantile, t_two_sided_p

TRIM = 0.2
FEWEST_TRIMMED = 8
"""Below this, trimming costs more degrees of freedom than outliers cost precision."""
LEVEL = 0.99
"""Comparisons are judged at 99 %, so that one in a hundred equal pairs may look different."""

DETECTABLE_FACTOR = {
    3: 7.33, 4: 3.72, 5: 2.63, 6: 2.11, 8: 2.30, 10: 1.70, 15: 1.18, 20: 0.95, 30: 0.73, 40: 0.62
}  # fmt: skip
"""Effect found in 80 % of comparisons at 99 %, in standard deviations of a launch's effect.

For Yuen's test of so many launches, by simulation (``benchmarks/stats.py --detectable``).
"""


@dataclass(frozen=True)
class Trimmed:
    """A trimmed mean with its standard error and degrees of freedom."""

    mean: float
    error: float
    df: float
    count: int

    def interval(self, *, level: float = LEVEL) -> tuple[float, float]:
        """Compute the t-interval of the mean."""
        half = t_quantile((1 + level) / 2, df=self.df) * self.error
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Two-sided probability of a mean this far from zero by chance."""
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return t_two_sided_p(self.mean / self.error, df=self.df)


def trimmed(values: Sequence[float], *, trim: float = TRIM) -> Trimmed | None:
    """Estimate the middle of values by Yuen's trimmed mean; ``None`` below two values."""
    k = len(values)
    if k < 2:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = trimmed_count(k, trim=trim)
    winsorised = np.clip(ordered, ordered[cut], ordered[k - cut - 1])
    error = float(winsorised.std(ddof=1)) / ((1 - 2 * trim if cut else 1.0) * math.sqrt(k))
    middle = float(ordered[cut : k - cut].mean())
    return Trimmed(middle, error, k - 2 * cut - 1, k)


def trimmed_count(k: int, *, trim: float = TRIM) -> int:
    """Tell how many of k values are cut off at either end."""
    return int(trim * k) if k >= FEWEST_TRIMMED else 0


def difference(before: Sequence[float], after: Sequence[float]) -> Trimmed | None:
    """Estimate after - before of unpaired values (Yuen-Welch); ``None`` below two on a side."""
    a, b = trimmed(before), trimmed(after)
    if a is None or b is None:
        return None
    error = math.hypot(a.error, b.error)
    if error == 0:
        return Trimmed(b.mean - a.mean, 0.0, a.df + b.df, a.count + b.count)
    df = error**4 / (a.error**4 / a.df + b.error**4 / b.df)
    return Trimmed(b.mean - a.mean, error, df, a.count + b.count)


def detectable_effect(effects: Sequence[float]) -> float | None:
    """Take the smallest relative effect found in 80 % of comparisons with launches like these."""
    if len(effects) < 3:
        return None
    spread = float(np.std(np.asarray(effects), ddof=1))
    return math.expm1(detectable_factor(len(effects)) * spread)


def detectable_factor(launches: int) -> float:
    """Compute the factor for a number of launches, between the simulated ones by square roots."""
    known = sorted(DETECTABLE_FACTOR)
    if launches >= known[-1]:
        return DETECTABLE_FACTOR[known[-1]] * math.sqrt(known[-1] / launches)
    factors = [math.log(DETECTABLE_FACTOR[k]) for k in known]
    return math.exp(float(np.interp(math.log(launches), np.log(known), factors)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust probabilities for the number of comparisons (Holm's step-down)."""
    order = np.argsort(np.asarray(p_values), kind="stable")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for position, index in enumerate(order.tolist()):
        running = max(running, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = running
    return adjusted
