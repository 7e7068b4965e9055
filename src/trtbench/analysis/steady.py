"""Warm-up and steady state: when to begin measuring, and whether what was measured stood still.

``WarmupWatch`` looks while warming up; ``segment`` looks at the measured series afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from trtbench.analysis.changepoints import (
    LEAST_POINTS,
    RESOLUTION,
    level_cuts,
    without_disturbances,
)
from trtbench.domain.samples import Column, IterationTimes
from trtbench.domain.spec import Value, Warmup

WINDOW_ITERATIONS = 20
WINDOW_S = 0.1
"""A window is long enough for both; two in a row are compared (pyperf's rule, tightened)."""
MEDIAN_TOLERANCE = 0.01
QUARTILE_TOLERANCE = 0.05

MOST_BLOCKS = 500
LEAST_BLOCKS = 20
CORRELATED = 0.3
"""Above it blocks are enlarged first, as long as enough of them remain."""
EQUAL_SHARE = 0.01
"""Segment means closer than 1 % are the same."""

SteadyKind = Literal["flat", "warm-up", "slowdown", "no steady state"]


class WarmupWatch:
    """Tells, while warming up, whether the times have become steady.

    Feed it durations as they come; two consecutive windows must agree. It keeps only the
    current window, so it may watch for as long as it likes.
    """

    def __init__(self, warmup: Warmup | None = None) -> None:
        self.warmup = warmup or Warmup()
        self.iterations = 0
        self.seconds = 0.0
        self.agreed = False
        self._window: list[float] = []
        self._window_s = 0.0
        self._before: tuple[float, float, float] | None = None

    def add(self, durations: Sequence[float] | Column | float) -> bool:
        """Take durations in seconds and tell whether the warm-up may end as steady."""
        for duration in np.atleast_1d(np.asarray(durations, dtype=np.float64)).tolist():
            self.iterations += 1
            self.seconds += duration
            self._window.append(duration)
            self._window_s += duration
            if len(self._window) >= WINDOW_ITERATIONS and self._window_s >= WINDOW_S:
                self._close_window()
        return self.steady

    @property
    def floor_reached(self) -> bool:
        """Whether the least warm-up that was asked for is over."""
        floor = self.warmup.floor
        return self.iterations >= (floor.iterations or 0) and self.seconds >= (floor.seconds or 0.0)

    @property
    def steady(self) -> bool:
        """Whether the floor is reached and the last two windows agree."""
        return self.floor_reached and self.agreed

    @property
    def capped(self) -> bool:
        """Whether the longest warm-up that was allowed is over."""
        return self.seconds >= self.warmup.cap_s

    @property
    def done(self) -> bool:
        """Whether to stop warming up: steady, at the cap, or at the floor if that is all."""
        if not self.warmup.until_steady:
            return self.floor_reached
        return self.steady or (self.capped and self.floor_reached)

    def _close_window(self) -> None:
        now = tuple(float(v) for v in np.percentile(self._window, (25, 50, 75)))
        self.agreed = self._before is not None and _agree(self._before, (now[0], now[1], now[2]))
        self._before = (now[0], now[1], now[2])
        self._window, self._window_s = [], 0.0


def _agree(before: tuple[float, float, float], now: tuple[float, float, float]) -> bool:
    if min(before) <= 0:
        return before == now
    low, middle, high = (b / a - 1 for a, b in zip(before, now, strict=True))
    return abs(middle) <= MEDIAN_TOLERANCE and max(abs(low), abs(high)) <= QUARTILE_TOLERANCE


class Segmentation(Value, frozen=True, kw_only=True):
    """A series cut where its level changes, and what that says about a steady state."""

    kind: SteadyKind
    changes: tuple[int, ...]
    """Iterations at which a new segment begins."""
    means: tuple[float, ...]
    """Level of each segment in seconds; one more than changes."""
    steady_from: int
    """Iteration from which the level equals that of the end."""
    count: int
    block: int
    """Iterations whose median made one point of the search."""

    @property
    def largest_change(self) -> float:
        """Largest distance of a segment from the last, relative to the last."""
        last = self.means[-1] if self.means else 0.0
        return max((abs(m - last) / last for m in self.means), default=0.0) if last else 0.0


def segment_launches(times: IterationTimes, *, column: str | None = None) -> list[Segmentation]:
    """Segment every launch of the headline, or of the column that was named."""
    return [segment(part) for part in times.by_launch(column or times.headline)]


def segment(column: Column) -> Segmentation:
    """Cut a series into segments of equal level and classify it."""
    column = np.asarray(column, dtype=np.float64)
    most = MOST_BLOCKS
    while True:
        blocks, size = block_medians(column, most=most)
        found, correlation = _cuts(blocks)
        if correlation <= CORRELATED or len(blocks) < 10 * LEAST_BLOCKS:
            return _classified(blocks, found, size=size, count=len(column))
        most = len(blocks) // 2


def _cuts(blocks: Column) -> tuple[list[int], float]:
    if len(blocks) < LEAST_BLOCKS:
        return [], 0.0
    least = max(LEAST_POINTS, len(blocks) // 50)
    resolution = RESOLUTION * abs(float(np.median(blocks)))
    return level_cuts(blocks, least=least, resolution=resolution)


def block_medians(column: Column, *, most: int = MOST_BLOCKS) -> tuple[Column, int]:
    """Take the medians of at most so many equal blocks, disturbances levelled, and their size."""
    size = max(1, math.ceil(len(column) / most))
    m = len(column) // size
    blocks: Column = column[: m * size].reshape(m, size)
    blocks = np.asarray(np.median(blocks, axis=1) if size > 1 else blocks[:, 0])
    return without_disturbances(blocks), size


def _classified(blocks: Column, cuts: list[int], *, size: int, count: int) -> Segmentation:
    parts = np.split(blocks, cuts)
    means = [float(part.mean()) for part in parts] if len(blocks) else []
    spread = float(parts[-1].std(ddof=1)) if len(parts[-1]) > 1 else 0.0
    tolerance = max(EQUAL_SHARE * min(means), spread) if means else 0.0
    differs = [abs(mean - means[-1]) > tolerance for mean in means]
    last_different = max((k for k, d in enumerate(differs) if d), default=-1)
    steady = cuts[last_different] if last_different >= 0 else 0
    return Segmentation(
        kind=_kind(means, differs, share=steady / max(1, len(blocks))),
        changes=tuple(cut * size for cut in cuts),
        means=tuple(means),
        steady_from=steady * size,
        count=count,
        block=size,
    )


def _kind(means: list[float], differs: list[bool], *, share: float) -> SteadyKind:
    if not any(differs):
        return "flat"
    if share > 0.5:
        return "no steady state"
    faster_before = any(d and mean < means[-1] for d, mean in zip(differs, means, strict=True))
    return "slowdown" if faster_before else "warm-up"
