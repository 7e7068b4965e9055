"""When to begin measuring: whether times have become steady. Light: every worker imports it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.domain.samples import Column
from trtbench.domain.spec import Warmup

WINDOW_ITERATIONS = 20
WINDOW_S = 0.1
"""A window is long enough for both; two in a row are compared (pyperf's rule, tightened)."""
MEDIAN_TOLERANCE = 0.01
QUARTILE_TOLERANCE = 0.05


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
