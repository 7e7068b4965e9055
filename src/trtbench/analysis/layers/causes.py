"""Causes of a difference between two engines: each piece of work belongs to one of them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trtbench.analysis.layers.difference import Change
from trtbench.analysis.layers.edges import edges_of, neighbours, through
from trtbench.analysis.layers.layer import CONVERSIONS, QUANTIZED, Layer, LayerTable
from trtbench.analysis.layers.naming import short_name
from trtbench.analysis.layers.precision import is_weighted, wider
from trtbench.analysis.layers.signature import operators_of
from trtbench.domain.spec import Value
from trtbench.units import text_from_fraction, text_from_seconds

CauseCode = Literal[
    "interruption", "precision", "reformat", "fusion", "memory", "dominant", "kernel", "rest",
    "added", "clocks", "enqueue", "transfers", "batch",
]  # fmt: skip

CEILING = 0.6
"""Share of the memory's rate from which a layer counts as at its ceiling; copies reach 0.8."""
SHOWN = 3


class Cause(Value, frozen=True, kw_only=True):
    """One reason, what it costs, what shows it, and what to do."""

    code: CauseCode
    title: str
    seconds: float | None
    """``None`` where it is seen and cannot be put in seconds."""
    layers: tuple[str, ...] = ()
    """Names of the candidate's layers, the costliest first."""
    nodes: tuple[str, ...] = ()
    """ONNX nodes of the layer it is about, where it is about one."""
    evidence: tuple[str, ...] = ()
    try_: str = ""
    """What to do, in words."""
    command: str | None = None


LayerPlaces = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """What is needed to tell causes apart."""

    a: LayerTable
    b: LayerTable
    gain: float
    asked: str | None
    broken: dict[int, int]
    excess: dict[LayerPlaces, float]

    def of(self, change: Change) -> float:
        return self.excess[change.a, change.b]


def interruptions(table: LayerTable) -> dict[int, int]:
    """Find layers between quantized ones that are not quantized, and the conversions around them.

    Gives for each such layer, and for each conversion that is there because of it, the layer.
    """
    edges = edges_of(table)
    before, after = neighbours(edges, len(table.layers))
    found: dict[int, int] = {}
    for layer in table.layers:
        if layer.role != "compute" or layer.precision is None or layer.precision in QUANTIZED:
            continue
        around = [
            [table.layers[each].precision in QUANTIZED for each in _next(layer, steps, table)]
            for steps in (before, after)
        ]
        if all(any(side) for side in around):
            found[layer.index] = layer.index
            for steps in (before, after):
                found.update(dict.fromkeys(_conversions(layer.index, steps, table), layer.index))
    return found


def _next(layer: Layer, steps: list[list[int]], table: LayerTable) -> Iterator[int]:
    """Find the layers beside one, beyond what only makes tensors fit."""
    return through(layer.index, steps, table.layers, roles=(*CONVERSIONS, "nothing"))


def _conversions(start: int, steps: list[list[int]], table: LayerTable) -> Iterator[int]:
    """Walk over the conversions next to a layer."""
    waiting = list(steps[start])
    while waiting:
        index = waiting.pop()
        if table.layers[index].role in CONVERSIONS or table.layers[index].role == "nothing":
            yield index
            waiting += steps[index]


def layer_causes(changes: Sequence[Change], pieces: Pieces) -> list[Cause]:
    """Put every piece under one cause; what got faster makes a cause cheaper or negative."""
    sorted_out: dict[tuple[CauseCode, int], list[Change]] = {}
    for change in changes:
        sorted_out.setdefault(_cause_of(change, pieces), []).append(change)
    return [_cause(code, at, members, pieces) for (code, at), members in sorted_out.items()]


def _cause_of(change: Change, pieces: Pieces) -> tuple[CauseCode, int]:
    """Decide which cause a piece belongs to; the number keeps interruptions apart."""
    broken = next((pieces.broken[i] for i in change.b if i in pieces.broken), None)
    quantizes = pieces.asked in QUANTIZED
    if broken is not None and quantizes and (change.role in CONVERSIONS or not change.a):
        return "interruption", broken
    if change.role in CONVERSIONS:
        return "reformat", -1
    if not change.a:
        return "added", -1
    if broken is not None and quantizes and not _weighted(change.b, pieces.b):
        return "interruption", broken
    if change.b and _stayed_wide(change, pieces):
        return "precision", -1
    if "fusion" in change.changed and len(change.b) > len(change.a):
        return "fusion", -1
    if change.b and _at_ceiling(change.b, pieces.b):
        return "memory", -1
    return ("kernel" if change.b_s > change.a_s else "rest"), -1


def _weighted(indices: Iterable[int], table: LayerTable) -> bool:
    return any(is_weighted(table.layers[index]) for index in indices)


def _stayed_wide(change: Change, pieces: Pieces) -> bool:
    return any(
        is_weighted(layer) and wider(layer.precision, pieces.asked)
        for layer in _layers(change.b, pieces.b)
    )


def _at_ceiling(indices: Sequence[int], table: LayerTable) -> bool:
    layer = max(_layers(indices, table), key=lambda each: each.seconds)
    return layer.bound == "memory" and (layer.roofline or 0.0) >= CEILING


def _layers(indices: Iterable[int], table: LayerTable) -> list[Layer]:
    return [table.layers[index] for index in indices]


def _cause(code: CauseCode, at: int, members: Sequence[Change], pieces: Pieces) -> Cause:
    seconds = math.fsum(pieces.of(each) for each in members)
    ordered = sorted(members, key=lambda each: -pieces.of(each))
    own = [each for each in ordered if each.b]
    names = [layer.name for each in own for layer in _layers(each.b, pieces.b)]
    if at >= 0:
        names = list(dict.fromkeys([pieces.b.layers[at].name, *names]))
    title = _title(code, own, pieces, at)
    words, command = remedy_for(code, pieces.b.layers[at] if at >= 0 else None, pieces.asked)
    return Cause(
        code=code,
        title=title,
        seconds=seconds,
        layers=tuple(names),
        nodes=pieces.b.layers[at].nodes if at >= 0 else (),
        evidence=tuple(_evidence(code, own, pieces)),
        try_=words,
        command=command,
    )


def _title(code: CauseCode, members: Sequence[Change], pieces: Pieces, at: int) -> str:
    asked = (pieces.asked or "the narrower type").upper()
    count = sum(len(each.b) for each in members)
    if code == "interruption":
        layer = pieces.b.layers[at]
        got = (layer.precision or "another type").upper()
        return f"{_called(layer)} interrupts {asked}: it computes in {got}"
    titles = {
        "precision": f"{count} layers do not compute in {asked}",
        "reformat": f"{count} conversions of layout and type",
        "fusion": f"fusions lost: {count} layers do what fewer did",
        "memory": f"{count} layers are limited by memory, at its ceiling",
        "kernel": f"{count} layers whose kernels are slower than the baseline's",
        "rest": "layers that gained less than the others",
        "added": f"{count} layers that the baseline does not have",
    }
    return titles[code]


def _called(layer: Layer) -> str:
    """Name a layer so that it can be found in the model: a generated name says nothing."""
    if not layer.nodes or any(node in layer.name for node in layer.nodes):
        return short_name(layer.name)
    more = f" and {len(layer.nodes) - 1} more" if len(layer.nodes) > 1 else ""
    return f"{layer.nodes[0]}{more} ({short_name(layer.name)})"


def _evidence(code: CauseCode, members: Sequence[Change], pieces: Pieces) -> Iterator[str]:
    """Name the costliest pieces with both times."""
    for change in members[:SHOWN]:
        if pieces.of(change) <= 0:
            break
        names = [layer.name for layer in _layers(change.b, pieces.b)]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        was = f"{text_from_seconds(change.a_s)} before" if change.a else "not in the baseline"
        types = f", {change.precision_b}" if change.precision_b else ""
        roof = ""
        if code == "memory":
            layer = max(_layers(change.b, pieces.b), key=lambda each: each.seconds)
            roof = f", {text_from_fraction(layer.roofline, digits=0)} of the roofline"
        yield f"{short_name(names[0])}{more}: {text_from_seconds(change.b_s)}, {was}{types}{roof}"


_REMEDIES = {
    "precision": (
        "see which nodes have no Q/DQ around them, and quantize them too",
        "trtbench quantize MODEL.onnx --precision {asked}",
    ),
    "reformat": (
        "let neighbours agree in type: quantize both inputs of every Add and Concat, or leave "
        "small islands out",
        "trtbench quantize MODEL.onnx --precision {asked} --exclude 'NODE*'",
    ),
    "fusion": (
        "give the builder more time to find the fusion, or move the Q/DQ that splits it",
        "trtbench build MODEL.onnx --optimization-level 5",
    ),
    "memory": (
        "no narrower arithmetic helps: fuse with neighbours, or store narrower tensors",
        "trtbench layers CANDIDATE --by bound",
    ),
    "dominant": (
        "look at this layer first: the rest cannot make up for it",
        "trtbench layers CANDIDATE --filter {name}",
    ),
    "kernel": (
        "let the builder time more kernels, and time them anew",
        "trtbench build MODEL.onnx --optimization-level 5 --no-timing-cache",
    ),
    "rest": ("compare their kernels one by one", "trtbench diff BASELINE CANDIDATE --all"),
    "added": (
        "see what they are for; Q/DQ that was not folded shows as layers of its own",
        "trtbench diff BASELINE CANDIDATE",
    ),
    "clocks": ("measure both at one clock", "trtbench profile CANDIDATE --lock-clocks base"),
    "enqueue": ("launch as a CUDA graph", "trtbench bench CANDIDATE --cuda-graph on"),
    "transfers": (
        "keep tensors on the GPU, or let inputs have the narrower type",
        "trtbench bench CANDIDATE --no-transfers",
    ),
    "batch": (
        "more items per query, or several queries at a time",
        "trtbench bench CANDIDATE --batch 8",
    ),
    "interruption": (
        "quantize this node too, take it out, or leave its neighbours unquantized",
        "trtbench quantize MODEL.onnx --precision {asked} --op Conv --op Gemm --op {op}",
    ),
}


def remedy_for(code: str, layer: Layer | None, asked: str | None) -> tuple[str, str]:
    """Write words and a command; names are quoted for a shell."""
    words, command = _REMEDIES[code]
    operators = operators_of(layer) if layer else ()
    filled = command.format(
        asked=asked if asked in ("int8", "fp8", "fp16", "bf16") else "int8",
        op=operators[0] if operators else "KIND",
        name=shlex.quote(layer.name if layer else "NAME"),
    )
    return words, filled
