"""Why one engine is not faster than another: causes in seconds, with evidence and what to try.

Every piece of the difference belongs to one cause. A cause costs what was measured, and explains
at most what is left of the difference after the causes above it, so that explanations never add
up to more than there is to explain.

What there is to explain: where the candidate computes in a narrower type, how much longer it takes
than the baseline would if all its products and convolutions had gained as those that did gain by
that type; else how much longer it takes than the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from trtbench.analysis.layers.causes import Cause, Pieces, interruptions, layer_causes
from trtbench.analysis.layers.difference import Change, EngineDiff, difference
from trtbench.analysis.layers.facts import EngineFacts
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.precision import is_weighted, narrowest, wider
from trtbench.analysis.layers.surroundings import (
    at_clock,
    clock_ratio,
    hints,
    surrounding_causes,
)
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value

LEAST_GAIN = 1.02
"""A speed-up below this is none: nothing can be expected of the other layers."""


class Explained(Value, frozen=True, kw_only=True):
    """A cause, and how much of the difference it explains."""

    cause: Cause
    explains_s: float
    share: float | None
    """Of the whole that is to be explained."""


class Why(ShortView, Value, frozen=True, kw_only=True):
    """Why a candidate is not faster than a baseline."""

    baseline_s: float
    candidate_s: float
    expected_s: float
    """Baseline with the gain that the narrower type brought where it was used."""
    gain: float
    """How many times as fast the layers in the narrower type are; 1 where there are none."""
    shortfall_s: float
    """What there is to explain; zero or less where nothing is missing."""
    causes: tuple[Explained, ...]
    gains_s: float
    """What layers that got faster than expected bring; zero or less."""
    unexplained_s: float
    diff: EngineDiff


def why(
    a: LayerTable,
    b: LayerTable,
    *,
    baseline: EngineFacts | None = None,
    candidate: EngineFacts | None = None,
) -> Why | None:
    """Find causes and rank them by what they explain; ``None`` where a side has no profile."""
    if a.total_s is None or b.total_s is None:
        return None
    left, right = baseline or EngineFacts(), candidate or EngineFacts()
    level = at_clock(b, clock_ratio(left, right))
    diff = difference(a, level)
    asked = narrowest(right.asked) or _asked_by_layers(b)
    gain = _gain(diff, a, b, asked)
    excess = {(each.a, each.b): _excess(each, a, gain) for each in diff.changes}
    pieces = Pieces(a=a, b=level, gain=gain, asked=asked, broken=interruptions(b), excess=excess)
    within = layer_causes(diff.changes, pieces)
    around = surrounding_causes(left, right, a, b)
    missing = math.fsum(excess.values())
    shortfall = missing + math.fsum(each.seconds or 0.0 for each in around)
    every = (*within, *around)
    causes = [each for each in every if each.seconds is None or each.seconds > 0]
    explained = _credited([*causes, *hints(b)], shortfall)
    return Why(
        baseline_s=a.total_s,
        candidate_s=b.total_s,
        expected_s=(level.total_s or 0.0) - missing,
        gain=gain,
        shortfall_s=shortfall,
        causes=explained,
        gains_s=math.fsum(min(0.0, each.seconds or 0.0) for each in every),
        unexplained_s=max(0.0, shortfall) - math.fsum(each.explains_s for each in explained),
        diff=diff,
    )


def _credited(causes: Iterable[Cause], shortfall: float) -> tuple[Explained, ...]:
    """Rank causes by their cost, and credit each with what is left of the difference."""
    left = whole = max(0.0, shortfall)
    found = []
    for cause in sorted(causes, key=lambda each: -(each.seconds or 0.0)):
        explains = min(left, cause.seconds or 0.0)
        left -= explains
        share = explains / whole if whole and cause.seconds is not None else None
        found.append(Explained(cause=cause, explains_s=explains, share=share))
    return tuple(found)


def _asked_by_layers(table: LayerTable) -> str | None:
    """Take the narrowest type that any layer computes in for the one that was asked."""
    return narrowest(" ".join({layer.precision for layer in table.layers if layer.precision}))


def _weighted(change: Change, a: LayerTable) -> bool:
    return any(is_weighted(a.layers[index]) for index in change.a)


def _gain(diff: EngineDiff, a: LayerTable, b: LayerTable, asked: str | None) -> float:
    """Tell how many times as fast the layers got that did gain by the narrower type."""
    narrower = [
        each
        for each in diff.changes
        if each.b_s < each.a_s and each.b and _weighted(each, a) and _narrowed(each, a, b, asked)
    ]
    before, after = (math.fsum(getattr(each, side) for each in narrower) for side in ("a_s", "b_s"))
    ratio = before / after if after else 1.0
    return ratio if ratio >= LEAST_GAIN else 1.0


def _narrowed(change: Change, a: LayerTable, b: LayerTable, asked: str | None) -> bool:
    one = _main(change.a, a)
    other = _main(change.b, b)
    return wider(one, other) and not wider(other, asked)


def _main(indices: Sequence[int], table: LayerTable) -> str | None:
    """Write the type of the layer that takes most of the time."""
    layers = [table.layers[index] for index in indices if table.layers[index].precision]
    return max(layers, key=lambda layer: layer.seconds).precision if layers else None


def _excess(change: Change, a: LayerTable, gain: float) -> float:
    """How much longer a piece takes than expected."""
    expected = change.a_s / gain if _weighted(change, a) else change.a_s
    return change.b_s - expected
