"""Precision truth: which type really computes, what was asked and not done, what changing costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtbench.analysis.layers.edges import Edge, Unions, edges_of, neighbours, through
from trtbench.analysis.layers.layer import CONVERSIONS, QUANTIZED, Layer, LayerTable, Role, total_s
from trtbench.domain.spec import Value

RANKS = {
    "fp64": 0, "fp32": 1, "tf32": 2, "bf16": 3, "fp16": 3, "int8": 4, "uint8": 4, "fp8": 4,
    "int4": 5, "fp4": 5,
}  # fmt: skip
"""How narrow a type is: a higher rank is narrower, and as a rule faster."""

WEIGHTED = ("convolution", "convactpool", "deconvolution", "gemm", "fusion", "matrixmultiply",
            "fullyconnected", "einsum")  # fmt: skip
"""Kinds of layers that a narrower type is asked for; the others follow."""


class TypeShare(Value, frozen=True, kw_only=True):
    """What one type computes of an engine."""

    precision: str
    layers: int
    seconds: float | None
    share: float | None
    """Of the time of all layers, conversions included."""
    flops: int | None
    flops_share: float | None


class Unmet(Value, frozen=True, kw_only=True):
    """A layer that computes in a wider type than was asked for."""

    index: int
    name: str
    asked: str
    got: str
    seconds: float | None
    because: str
    """Who asked: the model, by its Q/DQ or types, or the build, by its flags."""


class Conversions(Value, frozen=True, kw_only=True):
    """Layers of one role that only make tensors fit."""

    role: Role
    layers: int
    seconds: float | None
    share: float | None


class Island(Value, frozen=True, kw_only=True):
    """Quantized layers that hang together, and what it costs to reach them and to leave."""

    layers: tuple[int, ...]
    seconds: float | None
    before: tuple[str, ...]
    """Layers outside that feed it."""
    after: tuple[str, ...]
    """Layers outside that it feeds."""
    conversions: tuple[int, ...]
    conversion_s: float | None


class PrecisionTruth(Value, frozen=True, kw_only=True):
    """What an engine computes in, as against what it is called."""

    types: tuple[TypeShare, ...]
    unmet: tuple[Unmet, ...]
    conversions: tuple[Conversions, ...]
    conversion_s: float | None
    islands: tuple[Island, ...]


def precision_truth(table: LayerTable, *, asked: str | None = None) -> PrecisionTruth:
    """Look at the types of all layers; ``asked`` is what the build was allowed or told to use."""
    converting = [layer for layer in table.layers if layer.converts]
    return PrecisionTruth(
        types=_types(table),
        unmet=tuple(_unmet(table.layers, narrowest(asked))),
        conversions=_conversions(table, converting),
        conversion_s=total_s(converting) if table.timed else None,
        islands=islands_of(table),
    )


def narrowest(words: str | None) -> str | None:
    """Find the narrowest type among words such as ``fp16+int8`` or ``FP32, INT8``."""
    if not words:
        return None
    text = words.lower()
    found = [name for name in RANKS if name in text]
    return max(found, key=lambda name: RANKS[name], default=None)


def wider(got: str | None, asked: str | None) -> bool:
    """Tell whether a type is wider than another; what is not known is not."""
    if got not in RANKS or asked not in RANKS:
        return False
    return RANKS[got] < RANKS[asked]


def is_weighted(layer: Layer) -> bool:
    """Tell the layers that a narrower type is meant for: products and convolutions."""
    kind = (layer.kind or "").lower()
    return layer.role == "compute" and (kind in WEIGHTED or bool(layer.weights))


def _types(table: LayerTable) -> tuple[TypeShare, ...]:
    total, flops = table.total_s, sum(layer.flops or 0 for layer in table.layers)
    members: dict[str, list[Layer]] = {}
    for layer in table.layers:
        if layer.role == "compute" and layer.precision:
            members.setdefault(layer.precision, []).append(layer)
    found = []
    for precision, layers in members.items():
        seconds = total_s(layers) if total is not None else None
        counted = [layer.flops for layer in layers if layer.flops is not None]
        found.append(
            TypeShare(
                precision=precision,
                layers=len(layers),
                seconds=seconds,
                share=seconds / total if seconds is not None and total else None,
                flops=sum(counted) if counted else None,
                flops_share=sum(counted) / flops if counted and flops else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (-(each.seconds or 0.0), -each.layers)))


def _unmet(layers: Sequence[Layer], allowed: str | None) -> Iterable[Unmet]:
    """Find layers that stayed wider, the slowest first."""
    found = []
    for layer in layers:
        got = layer.precision
        by_model = layer.role == "compute" and wider(got, layer.asked)
        by_build = is_weighted(layer) and wider(got, allowed)
        if got is None or not (by_model or by_build):
            continue
        found.append(
            Unmet(
                index=layer.index,
                name=layer.name,
                asked=(layer.asked if by_model else allowed) or "",
                got=got,
                seconds=layer.time_s,
                because="the model's Q/DQ or types" if by_model else "the build's flags",
            )
        )
    return sorted(found, key=lambda each: -(each.seconds or 0.0))


def _conversions(table: LayerTable, converting: Sequence[Layer]) -> tuple[Conversions, ...]:
    total = table.total_s
    found = []
    for role in CONVERSIONS:
        members = [layer for layer in converting if layer.role == role]
        if not members:
            continue
        seconds = total_s(members) if total is not None else None
        found.append(
            Conversions(
                role=role,
                layers=len(members),
                seconds=seconds,
                share=seconds / total if seconds is not None and total else None,
            )
        )
    return tuple(sorted(found, key=lambda each: -(each.seconds or 0.0)))


def islands_of(table: LayerTable) -> tuple[Island, ...]:
    """Find quantized layers that hang together by quantized tensors, in order of execution.

    Between two islands a tensor has to become wide and narrow again. An engine that stays
    quantized from end to end is one island.
    """
    layers, edges = table.layers, edges_of(table)
    low = {layer.index for layer in layers if _is_low(layer)}
    if not low:
        return ()
    unions = Unions(len(layers))
    for begin, end, tensor in edges:
        if begin in low and end in low and table.tensors.get(tensor) in QUANTIZED:
            unions.join(begin, end)
    before, after = neighbours(edges, len(layers))
    sets = [each for each in unions.sets(sorted(low)) if any(_computes(layers[i]) for i in each)]
    return tuple(_island(each, table, edges, before, after) for each in sets)


def _is_low(layer: Layer) -> bool:
    """Say whether a layer computes quantized, or only passes quantized tensors on."""
    if layer.role == "compute":
        return layer.precision in QUANTIZED
    passes = layer.role in ("reformat", "nothing", "copy")
    return passes and layer.precision_in in QUANTIZED and layer.precision_out in QUANTIZED


def _computes(layer: Layer) -> bool:
    return layer.role == "compute"


def _island(
    members: list[int],
    table: LayerTable,
    edges: list[Edge],
    before: list[list[int]],
    after: list[list[int]],
) -> Island:
    layers, inside = table.layers, set(members)
    borders = [
        other
        for begin, end, _ in edges
        for one, other in ((begin, end), (end, begin))
        if one in inside and other not in inside and layers[other].role in ("quantize", "cast")
    ]
    conversions = tuple(dict.fromkeys(borders))
    own = [layers[index] for index in members if layers[index].role == "compute"]
    roles = ("quantize", "cast", "reformat", "nothing", "copy")
    reached = [
        tuple(
            dict.fromkeys(
                layers[index].name
                for member in members
                for index in through(member, steps, layers, roles=roles)
                if index not in inside and layers[index].role == "compute"
            )
        )
        for steps in (before, after)
    ]
    return Island(
        layers=tuple(layer.index for layer in own),
        seconds=total_s(own) if table.timed else None,
        before=reached[0],
        after=reached[1],
        conversions=conversions,
        conversion_s=total_s(layers[index] for index in conversions) if table.timed else None,
    )
