"""What two runs can be held against each other by: a time that both have and that means the same.

GPU time is GPU time whatever the protocol; the time a caller sees is not.
"""

from __future__ import annotations

from collections.abc import Collection

from trtbench.analysis.comparability import Difference, blocking_reasons
from trtbench.analysis.verdict import incomparable
from trtbench.domain.comparison import Design, Verdict
from trtbench.domain.samples import IterationTimes

GPU = "gpu"


def shared_columns(baseline: IterationTimes, candidate: IterationTimes) -> list[str]:
    """List the times that both sides have, in the order of the first."""
    other = candidate.durations()
    return [name for name in baseline.durations() if name in other]


def metric_of_both(
    baseline: IterationTimes, candidate: IterationTimes, found: Collection[Difference] = ()
) -> str:
    """Choose what the sides are judged by: the headline they share, else GPU time."""
    headline, shared = baseline.headline, shared_columns(baseline, candidate)
    if _reason(baseline, candidate, found) is None:
        return headline
    usable = GPU in shared and blocking_reasons(found, metric=GPU) is None
    return GPU if usable else headline


def refused_headline(
    baseline: IterationTimes,
    candidate: IterationTimes,
    found: Collection[Difference],
    *,
    design: Design,
) -> Verdict | None:
    """Say why the sides cannot be judged by what their callers see; ``None`` when they can."""
    reason = _reason(baseline, candidate, found)
    return (reason and incomparable(baseline.headline, reason=reason, design=design)) or None


def _reason(
    baseline: IterationTimes, candidate: IterationTimes, found: Collection[Difference]
) -> str | None:
    headline = baseline.headline
    if candidate.headline != headline:
        return f"{headline} was not measured on both sides: the candidate has {candidate.headline}"
    return blocking_reasons(found, metric=headline)
