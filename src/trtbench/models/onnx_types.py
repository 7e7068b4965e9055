"""Which types the numbers of an ONNX graph have: those that are stored, and those nodes work on.

What a caller feeds, and what is cast only to be handed out, is not computed with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trtbench.domain.spec import Value


class Node(Value, frozen=True, kw_only=True):
    """One node of a graph."""

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Typed(NamedTuple):
    """What a graph tells of its types, by ONNX's numbers."""

    nodes: list[Node]
    stored: Mapping[str, int]
    """Types of weights and constants, by name."""
    fed: Mapping[str, int]
    """Types of inputs that a caller feeds."""
    numbers: Mapping[tuple[str, str], int]
    """Whole numbers among attributes, by a node's first output and their own name."""


SAME_VALUES = ("Cast", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze",
               "Tile", "Transpose", "Unsqueeze")  # fmt: skip
"""Operators that give out values of their first input and no others."""
_MOVES = {*SAME_VALUES, "Concat", "Pad", "Shape", "Size", "Split"}
"""Operators that compute nothing."""
_FLOATS = {1: "fp32", 10: "fp16", 11: "fp64", 16: "bf16"}
_BYTES = {2: "int8", 3: "int8", 4: "int16", 5: "int16"}
"""Whole numbers that are as often indices or pixels: they count where they are quantized."""
_PACKED = {17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8", 21: "int4", 22: "int4", 23: "fp4",
           25: "int2", 26: "int2"}  # fmt: skip
_STORED = {**_BYTES, **_PACKED}
_QUANTIZE, _DEQUANTIZE = QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
_UINT8 = 2
"""What QuantizeLinear gives where nothing says otherwise."""
_IN_8_BITS = re.compile(
    r"QLinear|QOrdered|QAttention|QGemm|QEmbed|DynamicQuantize|(Conv|MatMul)Integer(?!16)"
)
"""Operators that compute in 8 bits whatever types a file lists."""
_IN_BITS = {"MatMulNBits": "bits", "GatherBlockQuantized": "bits", "QMoE": "expert_weight_bits"}
"""Operators that take packed weights, and what says how many bits each has."""
_BITS = {2: "int2", 4: "int4", 8: "int8"}


def held_types(graphs: Iterable[Typed]) -> frozenset[str]:
    """Tell the types of the numbers of graphs: all below FP32, and FP64 where it is alone."""
    found = {name for graph in graphs for name in _types_in(graph)}
    return frozenset(found if found == {"fp64"} else found - {"fp32", "fp64"})


def _types_in(graph: Typed) -> set[str]:
    kinds = {**graph.fed, **graph.stored}
    known = {**_FLOATS, **_PACKED}
    found = {known[kind] for kind in graph.stored.values() if kind in known}
    for node in graph.nodes:
        if node.operator in _MOVES:
            kinds |= dict.fromkeys(node.outputs, _moved(node, kinds, graph.numbers))
            continue
        taken = (kinds.get(name, 0) for name in node.inputs)
        found |= {_FLOATS[kind] for kind in taken if kind in _FLOATS}
        found |= _packed_in(node, kinds, graph)
    return found


def _moved(node: Node, kinds: Mapping[str, int], numbers: Mapping[tuple[str, str], int]) -> int:
    """Tell the type of what a node gives out that computes nothing."""
    if node.operator in ("Shape", "Size"):
        return 0
    to = numbers.get((_first(node.outputs), "to"), 0) if node.operator == "Cast" else None
    return kinds.get(_first(node.inputs), 0) if to is None else to


def _packed_in(node: Node, kinds: Mapping[str, int], graph: Typed) -> set[str]:
    """Tell the types of few bits that a node quantizes to, unpacks or computes in."""
    if node.operator in _IN_BITS:
        bits = graph.numbers.get((_first(node.outputs), _IN_BITS[node.operator]), 4)
        return {_BITS[bits]} if bits in _BITS else set()
    if node.operator == "MatMulBnb4":
        return {"fp4"}
    if node.operator not in QUANTIZERS:
        return {"int8"} if _IN_8_BITS.match(node.operator) else set()
    if node.operator == _DEQUANTIZE and _first(node.inputs) in graph.fed:
        return set()  # pixels on their way in
    taken = node.inputs[:1] if node.operator == _DEQUANTIZE else ()
    told = {kinds.get(name, 0) for name in (*taken, *node.inputs[2:3])}
    if node.operator == _QUANTIZE and not any(node.inputs[2:3]):
        told = {graph.numbers.get((_first(node.outputs), "output_dtype"), 0) or _UINT8}
    return {_STORED[kind] for kind in told if kind in _STORED}


def few_bits(operator: str) -> str | None:
    """Name the type that an operator computes in by itself; of packed weights, the usual one."""
    if operator in _IN_BITS:
        return "int4"
    return "int8" if _IN_8_BITS.match(operator) else None


def _first(names: Iterable[str]) -> str:
    return next(iter(names), "")
