"""How near each layer comes to what its GPU allows: the roofline of its type."""

from __future__ import annotations

from trtbench.analysis.layers.gpus import GpuPeak
from trtbench.analysis.layers.layer import Bound, Layer, LayerTable

LIGHT = ("pooling", "pointwise", "resize", "shuffle", "slice", "padding", "softmax", "concat")
"""Kinds that do so little with each byte that only memory can limit them."""


def with_rates(table: LayerTable, peak: GpuPeak | None) -> LayerTable:
    """Add achieved rates, and shares of the roofline where the GPU is known."""
    layers = tuple(_rated(layer, peak) for layer in table.layers)
    return table.having(layers=layers, gpu=peak.name if peak else None)


def roof_s(layer: Layer, peak: GpuPeak) -> float | None:
    """Estimate the least time a layer can take on a GPU, in its own type."""
    known = [end for end in _limits(layer, peak) if end is not None]
    return max(known) if known else None


def bound_of(layer: Layer, peak: GpuPeak) -> Bound | None:
    """Tell which ceiling comes first; ``None`` when one of the two is not known."""
    computing, moving = _limits(layer, peak)
    light = layer.converts or (layer.kind or "").lower() in LIGHT
    if moving is None or (computing is None and not light):
        return None
    return "compute" if computing is not None and computing > moving else "memory"


def _limits(layer: Layer, peak: GpuPeak) -> tuple[float | None, float | None]:
    """Find the seconds that arithmetic and memory take at best."""
    rate = peak.peak(layer.precision)
    computing = layer.flops / rate if layer.flops is not None and rate else None
    moving = layer.traffic_bytes / peak.bytes_per_s if layer.traffic_bytes is not None else None
    return computing, moving


def _rated(layer: Layer, peak: GpuPeak | None) -> Layer:
    seconds = layer.time_s
    if not seconds:
        return layer
    bound = bound_of(layer, peak) if peak else None
    least = roof_s(layer, peak) if peak and bound else None
    return layer.having(
        flops_per_s=layer.flops / seconds if layer.flops else None,
        bytes_per_s=layer.traffic_bytes / seconds if layer.traffic_bytes is not None else None,
        roofline=least / seconds if least is not None else None,
        bound=bound,
    )
