"""Warm-up and steady state: when to begin measuring, and whether what was measured stood still.

``WarmupWatch`` looks while warming up; ``segment`` looks at the measured series afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.samples import Column, IterationTimes
from trtbench.domain.spec import Value, Warmup

WINDOW_ITERATIONS = 20
WINDOW_S = 0.1
"""A window is long enough for both; two in a row are compared (pyperf's rule, tightened)."""
MEDIAN_TOLERANCE = 0.01
QUARTILE_TOLERANCE = 0.05

MOST_BLOCKS = 500
LEAST_BLOCKS = 20
PENALTY = 4.0
PENALTY_COARSE = 10.0
PENALTY_MOST = 40.0
"""A cut costs c sigma² ln m, c = 4 (1 + r) / (1 - r) at lag-one correlation r.

r is what remains about the cuts of a coarse search, because a fine one explains correlation away.
Calibrated on AR(1) series: at most 2 % false up to a correlation of 0.3; a step of 3 % is found in
99 % of series of 300 and more, and of 100 if the noise is 1 % (88 % at 2 %).
"""
CORRELATED = 0.3
"""Above it blocks are enlarged first, as long as enough of them remain."""
EQUAL_SHARE = 0.01
"""Segment means closer than 1 % are the same."""
CLEAN_WINDOW = 200
CLEAN_WIDTH = 3.0
"""Blocks further from the local median than 3 (p90 - p10) are disturbances, not segments."""

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
    count = len(column)
    most = MOST_BLOCKS
    while True:
        blocks, size = block_medians(column, most=most)
        coarse = _search(blocks, penalty=PENALTY_COARSE)
        correlation = _lag_one(blocks, coarse) if len(blocks) >= LEAST_BLOCKS else 0.0
        if correlation <= CORRELATED or len(blocks) < 10 * LEAST_BLOCKS:
            break
        most = len(blocks) // 2
    found = _search(blocks, penalty=_penalty(max(0.0, correlation)))
    return _classified(blocks, found, size=size, count=count)


def _penalty(correlation: float) -> float:
    return min(PENALTY_MOST, PENALTY * (1 + correlation) / (1 - min(correlation, 0.99)))


def block_medians(column: Column, *, most: int = MOST_BLOCKS) -> tuple[Column, int]:
    """Take the medians of at most so many equal blocks, disturbances levelled, and their size."""
    size = max(1, math.ceil(len(column) / most))
    m = len(column) // size
    blocks: Column = column[: m * size].reshape(m, size)
    blocks = np.asarray(np.median(blocks, axis=1) if size > 1 else blocks[:, 0])
    return _without_disturbances(blocks), size


def _without_disturbances(blocks: Column) -> Column:
    clean: Column = np.array(blocks)
    for begin in range(0, len(blocks), CLEAN_WINDOW):
        part = blocks[begin : begin + CLEAN_WINDOW]
        p10, median, p90 = np.percentile(part, (10, 50, 90))
        far = np.abs(part - median) > CLEAN_WIDTH * (p90 - p10)
        if p90 > p10:
            clean[begin : begin + CLEAN_WINDOW][far] = median
    return clean


def _search(blocks: Column, *, penalty: float) -> list[int]:
    """Find the cuts with the least squared error plus a penalty for each (optimal partition)."""
    m = len(blocks)
    least = max(5, m // 50)
    if m < 2 * least or m < LEAST_BLOCKS:
        return []
    beta = penalty * _noise(blocks) ** 2 * math.log(m)
    centred = blocks - blocks.mean()
    total = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    best = np.full(m + 1, np.inf)
    best[0] = -beta
    came_from = np.zeros(m + 1, dtype=np.int64)
    index = np.arange(m + 1)
    for end in range(least, m + 1):
        begins = slice(0, end - least + 1)
        within = squares[begins] + (total[end] - total[begins]) ** 2 / (end - index[begins])
        candidates = best[begins] - within
        choice = int(np.argmin(candidates))
        best[end] = candidates[choice] + squares[end] + beta
        came_from[end] = choice
    return _walk_back(came_from, m)


def _walk_back(came_from: NDArray[np.integer], end: int) -> list[int]:
    cuts: list[int] = []
    while end > 0:
        end = int(came_from[end])
        if end > 0:
            cuts.append(end)
    return cuts[::-1]


def _noise(blocks: Column) -> float:
    steps = np.diff(blocks)
    sigma = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
    # A coarse clock makes most steps zero; changes far below the 1 % that count may be ignored.
    return max(sigma, 5e-4 * abs(float(np.median(blocks))))


def _lag_one(blocks: Column, cuts: list[int]) -> float:
    """Compute the lag-one correlation about the segment means: a step is not correlation."""
    rest = np.concatenate([part - part.mean() for part in np.split(blocks, cuts)])
    power = float(rest @ rest)
    return float(rest[1:] @ rest[:-1]) / power if power > 0 else 0.0


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
