"""How two sides take turns, and when a warm-up may end. Light: every worker imports it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.core.samples import Column
from trtbench.core.spec import Value, Warmup

TURNS_S = 0.4  # seconds of pairs in one launch: more launches help, more pairs hardly do
FEWEST_PAIRS, MOST_PAIRS = 8, 200
NOISE, NOISY_S = 0.005, 1.6  # what pairs may leave unsure, and seconds to spend on it
ALONE_S = 0.1  # seconds of queries alone in one launch, of both sides together
BLOCK_S = 0.004  # seconds of a block alone: short, so that both sides meet the same machine
SHORT_S = 0.02  # a query as long as this does not feel what ran before it
MOST_IN_BLOCK = 50
FEWEST_BLOCKS, MOST_BLOCKS = 2, 10

BURST_S = 0.012  # seconds of a burst: long beside the hand-over, short beside a drift of the clocks
SMALLEST, LARGEST = 4, 100
BURSTS = 4  # bursts of each side in a launch: they agree within 0.1 %, launches are what varies
SETTLE = 2  # pairs of bursts before those that count: clocks rise, caches settle

_TO_SD, _OF_MEDIAN = 1.4826, 1.2533  # from MAD to deviation; from samples to their median

Stretch = tuple[int, int]  # a side, and how many queries it runs before the other's turn


class TurnPlan(Value, frozen=True, kw_only=True):
    """How many queries a launch holds: pairs in turn, and blocks of each side alone."""

    pairs: int
    settle: int  # pairs before those that count: caches as the other side leaves them
    blocks: int
    in_block: int

    @property
    def dropped(self) -> int:
        """Queries at the beginning of a block that still feel the other side."""
        return max(1, self.in_block // 5) if self.in_block > 1 else 0


def plan_from_pace(pace_s: Sequence[float], *, pairs: int | None = None) -> TurnPlan:
    """Settle the size of a launch by what a query of each side takes, unless pairs are given."""
    both = max(sum(pace_s), 1e-9)
    wanted = pairs or _within(TURNS_S / both, FEWEST_PAIRS, MOST_PAIRS)
    fewest = 1 if min(pace_s) > SHORT_S else 2
    in_block = _within(2 * BLOCK_S / both, fewest, MOST_IN_BLOCK)
    blocks = _within(ALONE_S / (in_block * both), FEWEST_BLOCKS, MOST_BLOCKS)
    return TurnPlan(
        pairs=wanted, settle=_within(wanted / 10, 1, 10), blocks=blocks, in_block=in_block
    )


def pairs_for_noise(first_s: Column, second_s: Column) -> int:
    """Settle how many pairs further launches have, by how far those of the first lie apart.

    On a machine that others disturb, slow queries need more than the fewest; else more launches
    would be needed, each with a process to start and a model to load.
    """
    apart = np.log(second_s / first_s)
    spread = _TO_SD * float(np.median(np.abs(apart - np.median(apart))))
    wanted = (_OF_MEDIAN * spread / NOISE) ** 2
    most = NOISY_S / max(float(np.median(first_s) + np.median(second_s)), 1e-9)
    return max(len(apart), int(min(wanted, most)))


def order_of_turns(count: int, *, seed: int, launch: int) -> NDArray[np.int64]:
    """Draw the side of each turn: every pair holds both, in random order.

    Every second launch has the order of the one before it with the sides exchanged: whatever a
    place in the order brings hits both alike, however few turns there are.
    """
    drawn = np.random.default_rng([seed, launch // 2]).integers(0, 2, size=count)
    first = drawn if launch % 2 == 0 else 1 - drawn
    return np.stack([first, 1 - first], axis=1).reshape(-1)


def stretches(turns: NDArray[np.int64], *, length: int = 1) -> list[Stretch]:
    """Join turns of one side that follow one another; each turn is so many queries."""
    found: list[Stretch] = []
    for side in turns.tolist():
        if found and found[-1][0] == side:
            found[-1] = (side, found[-1][1] + length)
        else:
            found.append((side, length))
    return found


class BurstPlan(Value, frozen=True, kw_only=True):
    """How large the bursts of one launch are, and how many each side has."""

    size: int
    lead: int
    turns: int

    @property
    def words(self) -> str:
        return f"{self.turns} bursts of {self.size} queries"


def bursts_from_pace(pace_s: Sequence[float], *, turns: int | None = None) -> BurstPlan:
    """Settle bursts by what a query of the slower side takes: both sides get the same."""
    size = int(min(max(BURST_S / max(*pace_s, 1e-9), SMALLEST), LARGEST))
    lead = max(1, size // 8)
    return BurstPlan(size=size, lead=lead, turns=turns or BURSTS)


def _within(value: float, least: int, most: int) -> int:
    return int(min(max(round(value), least), most))


WINDOW_ITERATIONS = 20
WINDOW_S = 0.1  # two windows in a row are compared (pyperf's rule, tightened)
MEDIAN_TOLERANCE = 0.01
QUARTILE_TOLERANCE = 0.05


class WarmupWatch:
    """Watches, while warming up, whether the times have become steady: two windows agree."""

    def __init__(self, warmup: Warmup | None = None) -> None:
        self.warmup = warmup or Warmup()
        self.iterations = 0
        self.seconds = 0.0
        self.agreed = False
        self._window: list[float] = []
        self._window_s = 0.0
        self._before: Column | None = None

    def add(self, durations: Sequence[float] | Column | float) -> bool:
        """Take durations in seconds; gives whether the warm-up may end as steady."""
        for duration in np.atleast_1d(np.asarray(durations, dtype=np.float64)).tolist():
            self.iterations += 1
            self.seconds += duration
            self._window.append(duration)
            self._window_s += duration
            if len(self._window) < WINDOW_ITERATIONS or self._window_s < WINDOW_S:
                continue
            now, before = np.percentile(self._window, (25, 50, 75)), self._before
            self.agreed = before is not None and bool(np.all(now == before))
            if before is not None and min(before) > 0:
                low, middle, high = np.abs(now / before - 1)
                quartiles = max(low, high) <= QUARTILE_TOLERANCE
                self.agreed = bool(middle <= MEDIAN_TOLERANCE and quartiles)
            self._before, self._window, self._window_s = now, [], 0.0
        return self.steady

    @property
    def floor_reached(self) -> bool:
        """Whether the least warm-up requested is over."""
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
