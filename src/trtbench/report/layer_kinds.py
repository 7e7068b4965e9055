"""Layers by kind and precision: which sort of work the time goes to.

Knows layer times and what an engine's inspector tells; no blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from trtbench.domain.samples import EngineGraph, LayerInfo, LayerProfile

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
    counts: Counter[tuple[str, str]] = Counter()
    seconds: dict[tuple[str, str], float] = {}
    for info, time_s in _joined(profile, graph):
        key = (kind_of(info), precision_of(info))
        counts[key] += 1
        seconds[key] = seconds.get(key, 0.0) + time_s
    found = [
        Share(*key, layers=count, seconds=seconds[key] if profile else None)
        for key, count in counts.items()
    ]
    return sorted(found, key=lambda each: (-(each.seconds or 0.0), -each.layers, each.kind))


def kind_of(info: LayerInfo | None) -> str:
    """Name what a layer does, in the inspector's words."""
    if info is None:
        return UNKNOWN
    parameter = info.extra.get("ParameterType")
    return str(parameter or info.type or UNKNOWN)


def precision_of(info: LayerInfo | None) -> str:
    """Tell the type a layer gives out, which is the one it was run in as far as anyone knows."""
    tensors = (*info.outputs, *info.inputs) if info else ()
    return next((each.dtype for each in tensors if each.dtype), UNKNOWN)


def _joined(
    profile: LayerProfile | None, graph: EngineGraph
) -> Iterator[tuple[LayerInfo | None, float]]:
    """Meet layers by name, those of one name in their order; a time without layer is kept."""
    if profile is None:
        yield from ((info, 0.0) for info in graph.layers)
        return
    waiting: dict[str, list[LayerInfo]] = {}
    for info in reversed(graph.layers):
        waiting.setdefault(info.name, []).append(info)
    for layer in profile.layers:
        same = waiting.get(layer.name)
        yield (same.pop() if same else None), layer.average_s
