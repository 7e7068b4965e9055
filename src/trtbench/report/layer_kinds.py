"""Layers by kind and precision: which sort of work the time goes to.

Knows layer times and what an engine's inspector tells; no blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.layer import Layer, total_s
from trtbench.domain.samples import EngineGraph, LayerProfile

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Share:
    """The layers of one kind and precision; seconds are ``None`` where nothing was timed."""

    kind: str
    precision: str
    layers: int
    seconds: float | None


def shares(profile: LayerProfile | None, graph: EngineGraph) -> list[Share]:
    """Add up layers by kind and precision, the most time (or the most layers) first."""
    table = join_layers(profile, graph)
    members: dict[tuple[str, str], list[Layer]] = {}
    for layer in table.layers:
        key = (layer.kind or UNKNOWN, layer.precision or layer.precision_out or UNKNOWN)
        members.setdefault(key, []).append(layer)
    found = [
        Share(*key, layers=len(layers), seconds=total_s(layers) if table.timed else None)
        for key, layers in members.items()
    ]
    return sorted(found, key=lambda each: (-(each.seconds or 0.0), -each.layers, each.kind))
