"""Whether what two sides show in turn is what they show alone; ``turn_plan.py`` says how.

The times alone are the judge of the design: a verdict that they deny is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.verdict import MARGIN, verdict_from_effects
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import LaunchFacts, Run
from trtbench.units import text_from_fraction


def alone_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute ln(candidate / baseline) of the times alone, one per launch that has them."""
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
    return comparison.having(verdicts=verdicts, alone=told)


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
    return verdict.having(kind="unclear", interval=None, reason=reason, launches_needed=None)


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
