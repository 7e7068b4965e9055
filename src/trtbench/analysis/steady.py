"""Steady state: whether what was measured stood still. ``warmup.py`` looks before."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from trtbench.analysis.changepoints import (
    LEAST_POINTS,
    RESOLUTION,
    level_cuts,
    without_disturbances,
)
from trtbench.domain.samples import Column, IterationTimes
from trtbench.domain.spec import Value

MOST_BLOCKS = 500
LEAST_BLOCKS = 20
CORRELATED = 0.3
"""Above it blocks are enlarged first, as long as enough of them remain."""
EQUAL_SHARE = 0.01
"""Segment means closer than 1 % are the same."""

SteadyKind = Literal["flat", "warm-up", "slowdown", "no steady state"]


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


def segment_launches(times: IterationTimes) -> list[Segmentation]:
    """Segment every launch of the headline."""
    return [segment(part) for part in times.by_launch(times.headline)]


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
