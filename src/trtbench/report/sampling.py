"""From ten thousand samples to what fits on a picture; statistics never pass through here.

Knows arrays; not runs and not drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.samples import Column

MOST_POINTS = 1500
MIDDLE = (0.05, 0.95)
ROOM = 2.0
"""Beyond the middle 90 %, a picture shows so many of their widths, and says what it cuts off.

All of a normal distribution is shown, and of a long tail what leaves the rest readable."""
WIDE = 6.0
"""When the ends of a range differ by more than this factor, several runs need a log scale."""


@dataclass(frozen=True)
class View:
    """The range a picture shows."""

    low: float
    high: float
    log: bool = False

    def beyond(self, column: Column) -> int:
        """Count the samples outside."""
        return int(np.count_nonzero((column < self.low) | (column > self.high)))


def view_of(columns: Sequence[Column]) -> View:
    """Choose a range that shows nearly all samples and lets no single one squeeze the rest."""
    ends = [_ends(column) for column in columns if len(column)]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    if high > low:
        return View(low, high, log=len(ends) > 1 and low > 0 and high / low > WIDE)
    pad = abs(low) * 0.05 or 1e-9
    return View(low - pad, high + pad)


def bin_edges(columns: Sequence[Column], view: View) -> Column:
    """Divide the range by the Freedman–Diaconis rule of the most regular column, 20 to 120 bins."""
    scaled = [np.log(column) if view.log else column for column in columns if len(column)]
    widths = [2 * _iqr(column) / len(column) ** (1 / 3) for column in scaled]
    width = min((each for each in widths if each > 0), default=0.0)
    span = float(np.log(view.high / view.low)) if view.log else view.high - view.low
    count = int(np.clip(span / width if width else 40, 20, 120))
    space = np.geomspace if view.log else np.linspace
    return np.asarray(space(view.low, view.high, count + 1), np.float64)


def thin(column: Column, *, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Choose positions to draw: the lowest and highest of every stretch, so no spike is lost."""
    if len(column) <= most:
        return np.arange(len(column))
    edges = np.linspace(0, len(column), most // 2 + 1).astype(int)
    chosen: set[int] = set()
    for begin, end in pairwise(edges):
        part = column[begin:end]
        chosen |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(chosen))


def running_median(column: Column, *, blocks: int = 60) -> tuple[Column, Column]:
    """Compute the medians of consecutive stretches and the positions of their middles."""
    count = max(1, min(blocks, len(column) // 8))
    parts = np.array_split(np.arange(len(column)), count)
    middles = np.array([float(part.mean()) for part in parts])
    return middles, np.array([float(np.median(column[part])) for part in parts])


def ecdf(column: Column, *, most: int = 600) -> tuple[Column, Column]:
    """Pair values with the share of samples not above them, thinned evenly in share."""
    ordered = np.sort(column)
    share = np.arange(1, len(ordered) + 1) / len(ordered)
    if len(ordered) > most:
        # Both ends matter more than the middle, so they are kept one by one.
        ends = np.r_[0:50, len(ordered) - 50 : len(ordered)]
        keep = np.unique(np.r_[np.linspace(0, len(ordered) - 1, most - 100).astype(int), ends])
        ordered, share = ordered[keep], share[keep]
    return ordered, share


def fences(column: Column) -> tuple[float, float]:
    """List the limits beyond which a sample counts as far out: three interquartile ranges."""
    q1, q3 = np.quantile(column, (0.25, 0.75))
    return float(q1 - 3 * (q3 - q1)), float(q3 + 3 * (q3 - q1))


def _ends(column: Column) -> tuple[float, float]:
    low, high = (float(q) for q in np.quantile(column, MIDDLE))
    room = ROOM * (high - low)
    return max(float(column.min()), low - room), min(float(column.max()), high + room)


def _iqr(column: Column) -> float:
    q1, q3 = np.quantile(column, (0.25, 0.75))
    return float(q3 - q1)
