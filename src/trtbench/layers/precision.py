"""Precision truth: which type really computes, what was asked and not done, what changing costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtbench.core.spec import Value
from trtbench.layers.table import (
    CONVERSIONS,
    QUANTIZED,
    Layer,
    LayerTable,
    Role,
    Unions,
    edges_of,
    neighbours,
    through,
    total_s,
)

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
    computing = [layer for layer in table.layers if layer.role == "compute"]
    total, all_flops = table.total_s, sum(layer.flops or 0 for layer in table.layers)

    def times(layers: Sequence[Layer]) -> tuple[float | None, float | None]:
        seconds = total_s(layers)
        return (None, None) if total is None else (seconds, seconds / total if total else None)

    types = []
    for precision in dict.fromkeys(layer.precision for layer in computing if layer.precision):
        layers = [layer for layer in computing if layer.precision == precision]
        counted = [layer.flops for layer in layers if layer.flops is not None]
        seconds, share = times(layers)
        types.append(
            TypeShare(
                precision=precision,
                layers=len(layers),
                seconds=seconds,
                share=share,
                flops=sum(counted) if counted else None,
                flops_share=sum(counted) / all_flops if counted and all_flops else None,
            )
        )
    conversions = []
    for role in CONVERSIONS:
        layers = [layer for layer in converting if layer.role == role]
        seconds, share = times(layers)
        if layers:
            conversions.append(
                Conversions(role=role, layers=len(layers), seconds=seconds, share=share)
            )
    return PrecisionTruth(
        types=tuple(sorted(types, key=lambda each: (-(each.seconds or 0.0), -each.layers))),
        unmet=tuple(_unmet(computing, narrowest(asked))),
        conversions=tuple(sorted(conversions, key=lambda each: -(each.seconds or 0.0))),
        conversion_s=total_s(converting) if table.timed else None,
        islands=_islands(table),
    )


def narrowest(words: str | None) -> str | None:
    """Find the narrowest type among words such as ``fp16+int8`` or ``FP32, INT8``."""
    if not words:
        return None
    text = words.lower()
    found = [name for name in RANKS if name in text]
    return max(found, key=lambda name: RANKS[name], default=None)


def wider(got: str | None, asked: str | None) -> bool:
    """Whether a type is wider than another; what is not known is not."""
    if got not in RANKS or asked not in RANKS:
        return False
    return RANKS[got] < RANKS[asked]


def is_weighted(layer: Layer) -> bool:
    """Whether a narrower type is meant for a layer: products and convolutions."""
    kind = (layer.kind or "").lower()
    return layer.role == "compute" and (kind in WEIGHTED or bool(layer.weights))


def _unmet(computing: Sequence[Layer], allowed: str | None) -> Iterable[Unmet]:
    """Find layers that stayed wider, the slowest first."""
    for layer in sorted(computing, key=lambda each: -each.seconds):
        got, by_model = layer.precision, wider(layer.precision, layer.asked)
        if got is not None and (by_model or (is_weighted(layer) and wider(got, allowed))):
            yield Unmet(
                index=layer.index,
                name=layer.name,
                asked=(layer.asked if by_model else allowed) or "",
                got=got,
                seconds=layer.time_s,
                because="the model's Q/DQ or types" if by_model else "the build's flags",
            )


def _islands(table: LayerTable) -> tuple[Island, ...]:
    """Find quantized layers that hang together by quantized tensors, in order of execution.

    Between two islands a tensor has to become wide and narrow again. An engine that stays
    quantized from end to end is one island.
    """
    layers, edges = table.layers, edges_of(table)
    low = set()
    for layer in layers:
        ends = (layer.precision_in, layer.precision_out)
        passes = layer.role in ("reformat", "nothing", "copy")
        if (layer.role == "compute" and layer.precision in QUANTIZED) or (
            passes and all(end in QUANTIZED for end in ends)
        ):
            low.add(layer.index)
    unions = Unions(len(layers))
    for begin, end, tensor in edges:
        if begin in low and end in low and table.tensors.get(tensor) in QUANTIZED:
            unions.join(begin, end)
    directions = neighbours(edges, len(layers))
    roles = ("quantize", "cast", "reformat", "nothing", "copy")
    found = []
    for members in unions.sets(sorted(low)):
        own = [layers[index] for index in members if layers[index].role == "compute"]
        inside = set(members)
        if not own:
            continue
        borders = dict.fromkeys(
            other
            for begin, end, _ in edges
            for one, other in ((begin, end), (end, begin))
            if one in inside and other not in inside and layers[other].role in ("quantize", "cast")
        )
        before, after = (
            dict.fromkeys(
                layers[index].name
                for member in members
                for index in through(member, steps, layers, roles=roles)
                if index not in inside and layers[index].role == "compute"
            )
            for steps in directions
        )
        found.append(
            Island(
                layers=tuple(layer.index for layer in own),
                seconds=total_s(own) if table.timed else None,
                before=tuple(before),
                after=tuple(after),
                conversions=tuple(borders),
                conversion_s=total_s(layers[i] for i in borders) if table.timed else None,
            )
        )
    return tuple(found)
