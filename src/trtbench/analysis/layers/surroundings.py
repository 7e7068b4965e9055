"""Causes around the layers: copies, a host that is too slow, clocks, and too little work."""

from __future__ import annotations

from trtbench.analysis.layers.causes import Cause
from trtbench.analysis.layers.facts import EngineFacts
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.naming import short_name
from trtbench.analysis.layers.remedies import remedy_for
from trtbench.units import text_from_fraction, text_from_seconds

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
    """How many times as fast the baseline's clock ran; 1 where nobody knows, or GPUs differ."""
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
    """The GPU waits for the host: GPU time beyond the layers' own, in the candidate."""
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
