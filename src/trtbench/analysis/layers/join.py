"""Profile, layer information and ONNX nodes of one engine, joined into one table.

Layers meet in the order of execution where the names agree, else by name, those of one name in
their order. A profile and layer information of different engines are not joined: the table says
so and holds the times alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from trtbench.analysis.layers.computing import (
    computing_type,
    edge_types,
    kind_of,
    named_kind,
    role_of,
)
from trtbench.analysis.layers.cost import NodeCosts, flops_of, traffic_of
from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.naming import (
    foreign_ends,
    nodes_between,
    nodes_of,
    operators_named,
    region_of,
)
from trtbench.domain.samples import EngineGraph, LayerInfo, LayerProfile, LayerTime, TensorInfo
from trtbench.units import text_from_shape

SAME_ENGINE = 0.9
"""Share of the timed layers that layer information must name to be taken for the same engine;
a builder that was run again changes far more of the names than this."""

Met = tuple[LayerTime | None, LayerInfo | None]


def join_layers(
    profile: LayerProfile | None,
    graph: EngineGraph | None = None,
    *,
    costs: NodeCosts | None = None,
) -> LayerTable:
    """Join what was timed, what the inspector tells and what the nodes cost."""
    timed = profile is not None and bool(profile.layers)
    said: list[str] = []
    if profile is not None and graph is not None and timed and not same_engine(profile, graph):
        said.append(_other_engine(profile, graph))
        graph = None
    met = _met(profile, graph)
    total = math.fsum(time.average_s for time, _ in met if time) if timed else 0.0
    layers = [
        _layer(index, time, info, total=total, costs=costs)
        for index, (time, info) in enumerate(met)
    ]
    said += _notes(profile, graph, layers, costs)
    return LayerTable(
        layers=tuple(layers),
        count=profile.count if profile else None,
        timed=timed,
        detailed=graph is not None and graph.detailed,
        tensors=_tensor_types(graph),
        notes=tuple(dict.fromkeys(said)),
    )


def _tensor_types(graph: EngineGraph | None) -> dict[str, str]:
    layers = graph.layers if graph else ()
    tensors = (each for info in layers for each in (*info.inputs, *info.outputs))
    return {each.name: each.dtype for each in tensors if each.dtype}


def same_engine(profile: LayerProfile, graph: EngineGraph) -> bool:
    """Tell whether a profile and layer information name the same layers, or nearly all."""
    named = Counter(info.name for info in graph.layers)
    timed = Counter(layer.name for layer in profile.layers)
    shared = sum((named & timed).values())
    return shared >= SAME_ENGINE * sum(timed.values())


def info_of_times(
    profile: LayerProfile, graph: EngineGraph | None
) -> list[tuple[LayerTime, LayerInfo | None]]:
    """Find what is known of each timed layer, in the order of the profile."""
    waiting: dict[str, list[LayerInfo]] = {}
    for info in reversed(graph.layers if graph else ()):
        waiting.setdefault(info.name, []).append(info)
    met: list[tuple[LayerTime, LayerInfo | None]] = []
    for time in profile.layers:
        same = waiting.get(time.name)
        met.append((time, same.pop() if same else None))
    return met


def _met(profile: LayerProfile | None, graph: EngineGraph | None) -> list[Met]:
    """Meet times and layers; a layer that was not timed stays in its place in the graph."""
    if profile is None or not profile.layers:
        return [(None, info) for info in (graph.layers if graph else ())]
    met = info_of_times(profile, graph)
    if graph is None:
        return list(met)
    taken = {id(info): time for time, info in met if info is not None}
    if len(taken) == len(graph.layers) == len(met):
        return list(met)
    rest: list[Met] = [(time, None) for time, info in met if info is None]
    return [(taken.get(id(info)), info) for info in graph.layers] + rest


def _layer(
    index: int,
    time: LayerTime | None,
    info: LayerInfo | None,
    *,
    total: float,
    costs: NodeCosts | None,
) -> Layer:
    name = info.name if info else time.name if time else ""
    role = role_of(name, info)
    precision, basis = computing_type(info, role)
    taken, given = edge_types(info)
    nodes = _nodes(name, info, costs)
    return Layer(
        index=index,
        name=name,
        kind=kind_of(info, name),
        role=role,
        precision=precision,
        precision_basis=basis,
        precision_in=taken,
        precision_out=given,
        shape_in=_shape(info.inputs if info else ()),
        shape_out=_shape(info.outputs if info else ()),
        time_s=time.average_s if time else None,
        median_s=time.median_s if time else None,
        min_s=time.min_s if time else None,
        max_s=time.max_s if time else None,
        share=time.average_s / total if time and total > 0 else None,
        tactic=info.tactic if info else None,
        stream=info.stream if info else None,
        weights=info.weights_count if info else None,
        nodes=nodes,
        operators=(costs.operators(nodes) if costs else ()) or operators_named(nodes),
        asked=costs.asked(nodes) if costs and role == "compute" else asked_by_name(name),
        flops=flops_of(info, nodes, role, costs),
        traffic_bytes=traffic_of(info, nodes, role, costs),
        region=region_of(name),
        reads=tuple(each.name for each in info.inputs) if info else (),
        writes=tuple(each.name for each in info.outputs) if info else (),
    )


def asked_by_name(name: str) -> str | None:
    """Tell from the name alone that weights were quantized: ``w + QuantizeLinear_7 + Conv_9``."""
    parts = name.split(" + ")
    quantizes = any("QuantizeLinear" in part for part in parts)
    works = any("QuantizeLinear" not in part and part in nodes_of(name) for part in parts)
    return "int8" if quantizes and works else None


def _nodes(name: str, info: LayerInfo | None, costs: NodeCosts | None) -> tuple[str, ...]:
    """List the ONNX nodes: as the inspector tells them, else as the name and the model do."""
    if info is not None and info.origin:
        return info.origin
    ends = foreign_ends(name)
    if ends is not None and costs is not None:
        between = nodes_between(*ends, costs.order)
        if between:
            return between
    if info is None and costs is not None and (own := named_kind(name)) is not None:
        return costs.behind(*own)
    return nodes_of(name)


def _shape(tensors: Sequence[TensorInfo]) -> str | None:
    """Write the shape of the first tensor that has one."""
    dims = next((each.dimensions for each in tensors if each.dimensions), None)
    return text_from_shape([None if dim < 0 else dim for dim in dims]) if dims else None


def _other_engine(profile: LayerProfile, graph: EngineGraph) -> str:
    named = Counter(info.name for info in graph.layers)
    shared = sum((named & Counter(layer.name for layer in profile.layers)).values())
    return (
        f"profile and layer information are of different engines and were not joined: of "
        f"{len(profile.layers)} timed layers {shared} are among the {len(graph.layers)} of the "
        "engine"
    )


def _notes(
    profile: LayerProfile | None,
    graph: EngineGraph | None,
    layers: Sequence[Layer],
    costs: NodeCosts | None,
) -> list[str]:
    notes = []
    own = any(named_kind(each.name) for each in layers)
    if graph is None:
        unknown = "types and shapes" if own else "kinds, types and shapes"
        notes.append(f"no layer information: {unknown} are not known")
    elif not graph.detailed:
        notes.append("built with layer names only: kinds, types and shapes are not known")
    if profile is None or not profile.layers:
        notes.append("no profile: nothing was timed")
    elif graph is not None:
        missing = sum(1 for layer in layers if layer.time_s is None)
        extra = sum(1 for layer in layers if layer.time_s is not None and layer.kind is None)
        if missing:
            notes.append(f"{missing} layers of the engine are not in the profile")
        if extra and graph.detailed:
            notes.append(f"{extra} timed layers are not in the layer information")
    repeated = _repeated(layers)
    if repeated:
        notes.append(f"{repeated} layers share their name with another; each is kept as its own")
    if costs is not None and layers and not any(costs.knows(each.nodes) for each in layers):
        notes.append(
            "the runtime names no layer as the ONNX model does: operations are not counted"
            if own
            else "no layer came from a node of this ONNX model: it is of another network"
        )
    return notes


def _repeated(layers: Sequence[Layer]) -> int:
    counts: Mapping[str, int] = Counter(layer.name for layer in layers)
    return sum(count for count in counts.values() if count > 1)
