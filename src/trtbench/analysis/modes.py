"""The shape of a distribution: two modes, the worst samples, and the steps of its clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trtbench.domain.samples import Column

RESOLUTION_S = 1e-10
"""Times are compared in tenths of nanoseconds: below that floating point makes differences."""


@dataclass(frozen=True)
class Modes:
    """A split of samples into two groups, and how far apart they are."""

    low: float
    high: float
    """Means of the groups."""
    minor_share: float
    separation: float
    """Ashman's D: above 2 the modes can be told apart, above 4 nobody doubts it."""
    gap: float
    """From the 90th percentile of the lower to the 10th of the upper group, over the median."""


def modes(column: Column) -> Modes | None:
    """Split samples by Otsu's rule between their 0.5th and 98th percentile."""
    ordered = np.sort(np.asarray(column, dtype=np.float64))
    n = len(ordered)
    ordered = ordered[math.floor(0.005 * n) : math.ceil(0.98 * n)]
    n = len(ordered)
    if n < 20 or ordered[0] == ordered[-1]:
        return None
    cut = _otsu(ordered)
    low, high = ordered[:cut], ordered[cut:]
    spread = math.hypot(float(low.std()), float(high.std()))
    distance = float(high.mean() - low.mean())
    gap = float(np.quantile(high, 0.1) - np.quantile(low, 0.9)) / float(np.median(ordered))
    return Modes(
        low=float(low.mean()),
        high=float(high.mean()),
        minor_share=min(len(low), len(high)) / n,
        separation=math.sqrt(2) * distance / spread if spread > 0 else math.inf,
        gap=gap,
    )


def _otsu(ordered: Column) -> int:
    """Compute the cut with the largest variance between the groups."""
    n = len(ordered)
    sums = np.cumsum(ordered - ordered.mean())[:-1]
    sizes = np.arange(1, n)
    return int(np.argmax(sums**2 / (sizes * (n - sizes)))) + 1


def worst(column: Column, *, count: int = 5) -> list[int]:
    """List the positions of the largest samples, the worst first."""
    count = min(count, len(column))
    found = np.argpartition(column, len(column) - count)[len(column) - count :]
    return [int(index) for index in found[np.argsort(-column[found], kind="stable")]]


def quantum(column: Column) -> tuple[float | None, float]:
    """List the step in which values move, and the share of the commonest value."""
    if len(column) < 20:
        return None, 0.0
    values, counts = np.unique(np.round(column / RESOLUTION_S), return_counts=True)
    equal = float(counts.max()) / len(column)
    if len(values) < 2 or len(values) > len(column) / 2:
        return None, equal
    return float(np.diff(values).min()) * RESOLUTION_S, equal
