"""What bursts of queries on a GPU, both sides in turn, say; ``turn_plan.py`` says how many.

A burst is timed by one pair of events around queries back to back: what a query takes of the GPU,
without the wandering of single ones. Series of single queries of the same launch are the judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from trtbench.analysis.robust import difference, trimmed
from trtbench.analysis.turns import denial
from trtbench.analysis.verdict import BURSTS_GATE, MARGIN, verdict_from_effects
from trtbench.domain.comparison import Verdict
from trtbench.domain.result import LaunchFacts
from trtbench.units import text_from_fraction

REPEATED = 0.5
"""Effects by place count where they lie at most so much as far apart as those by launch: places
repeat then. Where they do not, each way of looking is another chance to be wrong."""
BOUND = 0.9
"""Enqueueing that takes so much of a query's time keeps the GPU waiting."""


def burst_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute the median ln(candidate / baseline) over the bursts of each launch that has them."""
    return tuple(
        float(np.median(np.log(np.asarray(b.burst_s) / np.asarray(a.burst_s))))
        for a, b in zip(baseline, candidate, strict=False)
        if a.burst_s and len(a.burst_s) == len(b.burst_s)
    )


def placed_effects(
    baseline: Sequence[LaunchFacts], candidate: Sequence[LaunchFacts]
) -> tuple[float, ...]:
    """Compute ln(candidate / baseline) of launches that loaded at the same place of the order.

    Where an engine comes to lie in memory depends on that alone, and what it costs is in neither
    side's favour then. Empty unless every launch has its counterpart.
    """
    first, second = (
        sorted((each for each in side if each.burst_s), key=_place)
        for side in (baseline, candidate)
    )
    places = list(map(_place, first))
    if places != list(map(_place, second)) or -1 in places:
        return ()
    return tuple(b - a for a, b in zip(_levels(first), _levels(second), strict=True))


def _place(launch: LaunchFacts) -> int:
    return -1 if launch.load_order is None else launch.load_order


def burst_verdict(
    baseline: Sequence[LaunchFacts],
    candidate: Sequence[LaunchFacts],
    *,
    singly: Sequence[float] = (),
    margin: float = MARGIN,
) -> Verdict | None:
    """Judge GPU time by bursts; ``None`` where there were none.

    ``singly`` are the effects on the GPU time of single queries: where these contradict the
    bursts, or the GPU waited for the host, nothing is said.
    """
    effects = burst_effects(baseline, candidate)
    if not effects:
        return None
    judge = partial(
        verdict_from_effects, metric="gpu", design="bursts", gate=BURSTS_GATE, margin=margin
    )
    placed = placed_effects(baseline, candidate)
    if not placed or np.std(placed) > REPEATED * np.std(effects):
        placed = ()
    apart = difference(*map(_levels, (baseline, candidate)))
    told = judge(effects, otherwise=(apart, trimmed(placed)))
    reason = _bound(baseline, candidate) or _contradiction(told, judge(singly) if singly else None)
    if reason is None:
        return told
    return told.having(kind="unclear", interval=None, reason=reason, launches_needed=None)


def _levels(launches: Sequence[LaunchFacts]) -> list[float]:
    """Take the logarithm of each launch's time: processes place an engine in memory for themselves.

    A clock that drifts from launch to launch is in them, and not in the ratio of the two sides.
    """
    return [float(np.log(np.median(each.burst_s))) for each in launches if each.burst_s]


def _bound(*sides: Sequence[LaunchFacts]) -> str | None:
    """Say that the GPU waited for the host on a side: its times are the host's then."""
    for name, launches in zip(("baseline", "candidate"), sides, strict=True):
        parts = [
            each.burst_enqueue_s / float(np.median(each.burst_s))
            for each in launches
            if each.burst_s and each.burst_enqueue_s
        ]
        if parts and float(np.median(parts)) >= BOUND:
            return (
                f"the GPU waited for the host: enqueueing takes {100 * np.median(parts):.0f} % of "
                f"a query of the {name}, and its GPU time is not known"
            )
    return None


def _contradiction(told: Verdict, singly: Verdict | None) -> str | None:
    """Say that single queries give another answer, and not by a trifle."""
    if singly is None or denial(told, singly) is None:
        return None
    ratios = (told.ratio or 1.0, singly.ratio or 1.0)
    if abs(math.log(ratios[0] / ratios[1])) < BURSTS_GATE:
        return None
    one, other = (text_from_fraction(ratio - 1, signed=True) for ratio in ratios)
    return f"{one} in bursts, but {other} in single queries: it depends on how it is used"
