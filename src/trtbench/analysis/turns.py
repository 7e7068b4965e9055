"""How two sides take turns, and whether what they show in turn is what they show alone.

The times alone are the judge of the design: a verdict that they deny is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.verdict import MARGIN, verdict_from_effects
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import LaunchFacts, Run
from trtbench.domain.spec import Value
from trtbench.units import text_from_fraction

TURNS_S = 0.2
"""Seconds of pairs in one launch: more iterations in one launch hardly help, more launches do."""
FEWEST_PAIRS, MOST_PAIRS = 6, 200
ALONE_S = 0.1
"""Seconds of queries alone in one launch, of both sides together."""
BLOCK_S = 0.004
"""Seconds of a block alone: short, so that both sides meet the same machine."""
FEWEST_IN_BLOCK, MOST_IN_BLOCK = 2, 50
FEWEST_BLOCKS, MOST_BLOCKS = 2, 10

Stretch = tuple[int, int]
"""A side, and how many queries it runs before the other's turn."""


class TurnPlan(Value, frozen=True, kw_only=True):
    """How many queries a launch holds: pairs in turn, and blocks of each side alone."""

    pairs: int
    settle: int
    """Pairs run before those that count: each side finds the caches as the other leaves them."""
    blocks: int
    in_block: int

    @property
    def dropped(self) -> int:
        """Queries at the beginning of a block that still feel the other side."""
        return max(1, self.in_block // 5)


def plan_from_pace(pace_s: Sequence[float], *, pairs: int | None = None) -> TurnPlan:
    """Settle the size of a launch by what a query of each side takes, unless pairs are given."""
    both = max(sum(pace_s), 1e-9)
    wanted = pairs or _within(TURNS_S / both, FEWEST_PAIRS, MOST_PAIRS)
    in_block = _within(2 * BLOCK_S / both, FEWEST_IN_BLOCK, MOST_IN_BLOCK)
    return TurnPlan(
        pairs=wanted,
        settle=_within(wanted / 10, 1, 10),
        blocks=_within(ALONE_S / (in_block * both), FEWEST_BLOCKS, MOST_BLOCKS),
        in_block=in_block,
    )


def order_of_turns(count: int, *, seed: int, launch: int) -> NDArray[np.int64]:
    """Draw the side of each turn: every pair holds both, in random order."""
    first = np.random.default_rng([seed, launch]).integers(0, 2, size=count)
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


def alone_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Give ln(candidate / baseline) of the times alone, one per launch that has them."""
    return tuple(
        _alone_effect(a.alone_s, b.alone_s)
        for a, b in zip(baseline, candidate, strict=False)
        if a.alone_s and b.alone_s
    )


def interference(baseline: Run, candidate: Run) -> tuple[float, float] | None:
    """Tell how much slower each side was in turns than alone; ``None`` where nobody looked."""
    moved = [_moved(run) for run in (baseline, candidate)]
    if moved[0] is None or moved[1] is None:
        return None
    return moved[0], moved[1]


def hold_to_alone(
    comparison: Comparison, alone: Sequence[float], *, margin: float = MARGIN
) -> Comparison:
    """Withdraw what the times alone deny, and keep what they say beside it."""
    if not comparison.verdicts:
        return comparison
    head = comparison.verdicts[0]
    held, told = held_to_alone(head, alone, margin=margin)
    verdicts = comparison.verdicts
    if held is not head:
        verdicts = tuple(_withdrawn(each, held.reason) for each in verdicts)
    return msgspec.structs.replace(comparison, verdicts=verdicts, alone=told)


def held_to_alone(
    head: Verdict, alone: Sequence[float], *, margin: float = MARGIN
) -> tuple[Verdict, Verdict | None]:
    """Judge the times alone as those in turns were; gives the verdict that is left, and theirs."""
    if not alone:
        return head, None
    told = verdict_from_effects(alone, metric=head.metric, design=head.design, margin=margin)
    reason = denial(head, told)
    return (head if reason is None else _withdrawn(head, reason)), told


def denial(head: Verdict, alone: Verdict) -> str | None:
    """Say why a verdict in turns does not hold alone: another verdict, beyond both intervals."""
    if alone.kind in ("unclear", "incomparable", head.kind) or head.kind == "incomparable":
        return None
    if head.interval is None or alone.interval is None or alone.ratio is None or head.ratio is None:
        return None
    one, other = head.interval, alone.interval
    if one.low <= other.high and other.low <= one.high:
        return None
    ratios = (text_from_fraction(ratio - 1, signed=True) for ratio in (head.ratio, alone.ratio))
    return "{} in turns, but {} alone: taking turns changed what was measured".format(*ratios)


def _withdrawn(verdict: Verdict, reason: str) -> Verdict:
    if verdict.kind == "incomparable":
        return verdict
    return msgspec.structs.replace(
        verdict, kind="unclear", interval=None, reason=reason, launches_needed=None
    )


def _alone_effect(before: Sequence[float], after: Sequence[float]) -> float:
    """Pair block by block where blocks alternated, else the medians."""
    if len(before) == len(after):
        return float(np.median(np.log(np.asarray(after) / np.asarray(before))))
    return math.log(float(np.median(after)) / float(np.median(before)))


def _moved(run: Run) -> float | None:
    if run.record.duet is None or run.times.host is None:
        return None
    parts = zip(run.times.by_launch("host"), run.record.launches, strict=False)
    ratios = [
        float(np.median(part)) / facts.solo_median_s - 1
        for part, facts in parts
        if facts.solo_median_s and len(part)
    ]
    return float(np.median(ratios)) if ratios else None


def _within(value: float, least: int, most: int) -> int:
    return int(min(max(round(value), least), most))
