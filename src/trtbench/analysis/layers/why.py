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

from trtbench.analysis.layers.causes import Cause, Pieces, interruptions, layer_causes, remedy_for
from trtbench.analysis.layers.difference import Change, EngineDiff, difference
from trtbench.analysis.layers.engine_facts import EngineFacts
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.naming import short_name
from trtbench.analysis.layers.precision import is_weighted, narrowest, wider
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import Value
from trtbench.units import text_from_fraction, text_from_seconds

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
    """Tell how much longer a piece takes than expected."""
    expected = change.a_s / gain if _weighted(change, a) else change.a_s
    return change.b_s - expected


DOMINANT = 0.4
"""Share of all time from which one layer is the one to look at."""
ENQUEUE_BOUND = 0.8
"""trtexec warns from the same share of enqueue time over GPU time on."""
CLOCK_STEP = 0.02
"""Clocks nearer to one another than this are one clock."""
SMALL_LAYER_S = 16e-6
SMALL_SHARE = 0.15
"""Half the layers this short, and this far from the roof: too little work."""
LEAST_LAYERS = 3


def clock_ratio(a: EngineFacts, b: EngineFacts) -> float:
    """Tell how much faster the baseline's clock ran; 1 where nobody knows, or GPUs differ."""
    if not a.sm_clock_hz or not b.sm_clock_hz or a.gpu != b.gpu:
        return 1.0
    ratio = a.sm_clock_hz / b.sm_clock_hz
    return ratio if abs(ratio - 1) > CLOCK_STEP else 1.0


def at_clock(table: LayerTable, ratio: float) -> LayerTable:
    """Estimate the times at another clock, as if all of them went with it."""
    if ratio == 1.0:
        return table
    layers = tuple(
        layer.having(time_s=None if layer.time_s is None else layer.time_s / ratio)
        for layer in table.layers
    )
    return table.having(layers=layers)


def surrounding_causes(
    a: EngineFacts, b: EngineFacts, left: LayerTable, right: LayerTable
) -> list[Cause]:
    """Find what lies around the layers: copies, clocks, and a host that does not keep up."""
    found = [_clocks(a, b, right), _enqueue(a, b, left, right)]
    if a.transfers_s is not None and b.transfers_s is not None and b.gpu_s:
        found.append(_transfers(a, b))
    return [each for each in found if each is not None]


def hints(table: LayerTable) -> list[Cause]:
    """Point at what can be seen and not be put in seconds."""
    found = (_dominant(table), _batch(table))
    return [each for each in found if each is not None]


def _clocks(a: EngineFacts, b: EngineFacts, table: LayerTable) -> Cause | None:
    ratio, total = clock_ratio(a, b), table.total_s
    if ratio == 1.0 or total is None:
        return None
    words, command = remedy_for("clocks", None, None)
    clocks = [f"{(facts.sm_clock_hz or 0) / 1e6:.0f} MHz" for facts in (a, b)]
    return Cause(
        code="clocks",
        title="the GPU ran at another clock",
        seconds=total - total / ratio,
        evidence=(
            f"{clocks[0]} in the baseline, {clocks[1]} in the candidate; at most this much, if "
            "every layer goes with the clock",
        ),
        try_=words,
        command=command,
    )


def _dominant(table: LayerTable) -> Cause | None:
    """Point at a layer that holds much of the time; its cost is under another cause already."""
    layer = max(table.layers, key=lambda each: each.seconds, default=None)
    if layer is None or (layer.share or 0.0) < DOMINANT:
        return None
    words, command = remedy_for("dominant", layer, None)
    return Cause(
        code="dominant",
        title=f"one layer takes {text_from_fraction(layer.share, digits=0)} of the time",
        seconds=None,
        layers=(layer.name,),
        evidence=(f"{short_name(layer.name)}: {text_from_seconds(layer.time_s)}",),
        try_=words,
        command=command,
    )


def _batch(table: LayerTable) -> Cause | None:
    """Say when there is too little work: layers as short as a launch, far from the roof."""
    timed = sorted(layer.seconds for layer in table.layers if layer.seconds > 0)
    shares = sorted(layer.roofline for layer in table.layers if layer.roofline is not None)
    if len(timed) < LEAST_LAYERS or len(shares) < LEAST_LAYERS:
        return None
    middle, share = timed[len(timed) // 2], shares[len(shares) // 2]
    if middle > SMALL_LAYER_S or share > SMALL_SHARE:
        return None
    words, command = remedy_for("batch", None, None)
    return Cause(
        code="batch",
        title="too little work to fill the GPU",
        seconds=None,
        evidence=(
            f"half of the layers take {text_from_seconds(middle, digits=2)} or less and reach "
            f"{text_from_fraction(share, digits=0)} of the roofline or less",
        ),
        try_=words,
        command=command,
    )


def _transfers(a: EngineFacts, b: EngineFacts) -> Cause:
    words, command = remedy_for("transfers", None, None)
    seconds = (b.transfers_s or 0.0) - (a.transfers_s or 0.0)
    bound = " and take longer than computing" if (b.transfers_s or 0.0) >= (b.gpu_s or 0.0) else ""
    return Cause(
        code="transfers",
        title=f"copies to and from the GPU take longer{bound}",
        seconds=seconds,
        evidence=(
            f"{text_from_seconds(a.transfers_s)} in the baseline, "
            f"{text_from_seconds(b.transfers_s)} in the candidate",
        ),
        try_=words,
        command=command,
    )


def _enqueue(a: EngineFacts, b: EngineFacts, left: LayerTable, right: LayerTable) -> Cause | None:
    """Find where the GPU waits for the host: its time beyond the layers' own, in the candidate."""
    if not b.enqueue_s or not b.gpu_s or b.enqueue_s < ENQUEUE_BOUND * b.gpu_s:
        return None
    words, command = remedy_for("enqueue", None, None)
    waits = [
        max(0.0, facts.gpu_s - (table.total_s or facts.gpu_s)) if facts.gpu_s else 0.0
        for facts, table in ((a, left), (b, right))
    ]
    seconds = waits[1] - waits[0]
    return Cause(
        code="enqueue",
        title="the host does not launch fast enough (enqueue-bound)",
        seconds=seconds if seconds > 0 else None,
        evidence=(
            f"enqueueing takes {text_from_seconds(b.enqueue_s)}, the GPU "
            f"{text_from_seconds(b.gpu_s)}",
        ),
        try_=words,
        command=command,
    )
