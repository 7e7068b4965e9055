"""Plan how two sides take turns, and when a warm-up ends. Every worker imports it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.core.samples import Column
from trtbench.core.spec import Value, Warmup

TURNS_S = 0.4  # seconds of pairs per launch: more launches improve a result, more pairs hardly do
MIN_PAIRS, MAX_PAIRS = 8, 200
NOISE, NOISY_S = 0.005, 1.6  # error to reach with more pairs, and the most seconds for it
ALONE_S = 0.1  # seconds of queries alone per launch, both sides together
BLOCK_S = 0.004  # seconds per block alone: short, so that both sides see the same conditions
SHORT_S = 0.02  # longer queries are not affected by what ran before them
MAX_IN_BLOCK = 50
MIN_BLOCKS, MAX_BLOCKS = 2, 10

BURST_S = 0.012  # seconds per burst: longer than the hand-over, shorter than a drift of the clocks
SMALLEST, LARGEST = 4, 100  # queries per burst
BURSTS = 4  # bursts of each side per launch: they agree within 0.1 %, launches vary more
SETTLE = 2  # pairs of bursts that are discarded first: clocks rise, caches fill

_TO_SD, _OF_MEDIAN = 1.4826, 1.2533  # standard deviation over MAD; error of a median over a mean

Stretch = tuple[int, int]  # a side, and its number of queries before the other side's turn


class TurnPlan(Value, frozen=True, kw_only=True):
    """The queries of one launch: pairs in turn, and blocks of each side alone."""

    pairs: int
    settle: int  # pairs that are discarded first, until caches are in a typical state
    blocks: int
    in_block: int

    @property
    def dropped(self) -> int:
        """Queries at the start of a block that are discarded, as the other side affects them."""
        return max(1, self.in_block // 5) if self.in_block > 1 else 0


def plan_from_pace(pace_s: Sequence[float], *, pairs: int | None = None) -> TurnPlan:
    """Plan a launch by the time of a query of each side; ``pairs`` overrides their number."""
    both = max(sum(pace_s), 1e-9)
    pairs = pairs or _clamp(TURNS_S / both, MIN_PAIRS, MAX_PAIRS)
    fewest = 1 if min(pace_s) > SHORT_S else 2
    in_block = _clamp(2 * BLOCK_S / both, fewest, MAX_IN_BLOCK)
    blocks = _clamp(ALONE_S / (in_block * both), MIN_BLOCKS, MAX_BLOCKS)
    return TurnPlan(pairs=pairs, settle=_clamp(pairs / 10, 1, 10), blocks=blocks, in_block=in_block)


def pairs_for_noise(first_s: Column, second_s: Column) -> int:
    """Return the number of pairs in further launches, by the noise of the first launch.

    On a noisy machine, slow queries need more than the minimum of pairs; otherwise more launches
    would be needed, each with a process to start and a model to load.
    """
    apart = np.log(second_s / first_s)
    spread = _TO_SD * float(np.median(np.abs(apart - np.median(apart))))
    wanted = (_OF_MEDIAN * spread / NOISE) ** 2
    most = NOISY_S / max(float(np.median(first_s) + np.median(second_s)), 1e-9)
    return max(len(apart), int(min(wanted, most)))


def order_of_turns(count: int, *, seed: int, launch: int) -> NDArray[np.int64]:
    """Return the side of each turn: every pair has both sides in random order.

    Every second launch swaps the sides of the one before, so that the order affects both equally.
    """
    drawn = np.random.default_rng([seed, launch // 2]).integers(0, 2, size=count)
    first = drawn if launch % 2 == 0 else 1 - drawn
    return np.stack([first, 1 - first], axis=1).reshape(-1)


def stretches(turns: NDArray[np.int64], *, length: int = 1) -> list[Stretch]:
    """Merge consecutive turns of the same side; each turn is ``length`` queries."""
    found: list[Stretch] = []
    for side in turns.tolist():
        if found and found[-1][0] == side:
            found[-1] = (side, found[-1][1] + length)
        else:
            found.append((side, length))
    return found


class BurstPlan(Value, frozen=True, kw_only=True):
    """The bursts of one launch: queries per burst, and bursts per side."""

    size: int
    lead: int
    turns: int


def bursts_from_pace(pace_s: Sequence[float], *, turns: int | None = None) -> BurstPlan:
    """Plan bursts by the query time of the slower side; both sides get the same."""
    size = int(min(max(BURST_S / max(*pace_s, 1e-9), SMALLEST), LARGEST))
    return BurstPlan(size=size, lead=max(1, size // 8), turns=turns or BURSTS)


def _clamp(value: float, least: int, most: int) -> int:
    return int(min(max(round(value), least), most))


WINDOW_ITERATIONS = 20
WINDOW_S = 0.1  # two windows in a row are compared (pyperf's rule, tightened)
MEDIAN_TOLERANCE = 0.01
QUARTILE_TOLERANCE = 0.05


class WarmupWatch:
    """Detects when times have become steady during warm-up: two consecutive windows agree."""

    def __init__(self, warmup: Warmup | None = None) -> None:
        self.warmup = warmup or Warmup()
        self.iterations = 0
        self.seconds = 0.0
        self.agreed = False
        self._window: list[float] = []
        self._window_s = 0.0
        self._before: Column | None = None

    def add(self, durations: Sequence[float] | Column | float) -> bool:
        """Add durations in seconds; return whether the times are steady."""
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
        """Whether the minimum warm-up is over."""
        floor = self.warmup.floor
        return self.iterations >= (floor.iterations or 0) and self.seconds >= (floor.seconds or 0.0)

    @property
    def steady(self) -> bool:
        """Whether the minimum warm-up is over and the last two windows agree."""
        return self.floor_reached and self.agreed

    @property
    def capped(self) -> bool:
        """Whether the maximum warm-up is over."""
        return self.seconds >= self.warmup.cap_s

    @property
    def done(self) -> bool:
        """Whether the warm-up is over: steady, or at its maximum or fixed length."""
        if not self.warmup.until_steady:
            return self.floor_reached
        return self.steady or (self.capped and self.floor_reached)
