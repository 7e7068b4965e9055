"""What low types make of the values that reach them: beyond their limits, or rounded to zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trtbench.build.localize_graph import LOW, Graph, Part, quantized_type
from trtbench.build.localize_rewrite import EXACT, EXACT_ANYWAY
from trtbench.domain.arrays import AnyArray
from trtbench.domain.localize import TypeRange

if TYPE_CHECKING:
    from onnx import NodeProto

LIMITS = {"FP16": 65504.0, "BF16": 3.3895313892515355e38}
"""The largest magnitude that a floating-point type holds."""
_SMALLEST = {"FP16": 2.0**-25, "BF16": 0.0}
"""Half of the smallest number: what is below becomes zero."""
STEPS = {"INT8": 127.0, "UINT8": 255.0, "INT16": 32767.0, "UINT16": 65535.0, "FP8": 448.0,
         "INT4": 7.0, "UINT4": 15.0, "FP4": 6.0}  # fmt: skip
"""The largest magnitude of a quantized type, in steps of its scale."""
_ZERO_BELOW = {"FP8": 2.0**-10, "FP4": 0.25}
"""What becomes zero in quantized floating-point types, in steps; of integers half a step."""


@dataclass
class RangeWatch:
    """Collects what passes at one place where values take a low type."""

    tensor: str
    what: str
    node: str
    type: str
    limit: float
    smallest: float
    largest: float = 0.0
    beyond: int = 0
    zeroed: int = 0
    elements: int = 0
    nonzero: int | None = None
    """Of these; ``None`` where they are stored in the low type and nobody knows."""

    def add(self, array: AnyArray) -> None:
        values = np.abs(array.astype(np.float64))
        finite = values[np.isfinite(values)]
        self.elements += values.size
        self.nonzero = (self.nonzero or 0) + int(np.count_nonzero(values))
        self.largest = max(self.largest, float(finite.max(initial=0.0)))
        self.beyond += int(np.count_nonzero(finite > self.limit * (1 + 1e-6)))
        self.zeroed += int(np.count_nonzero((finite > 0) & (finite < self.smallest)))

    def result(self) -> TypeRange:
        count = max(1, self.elements)
        alive = count if self.nonzero is None else max(1, self.nonzero)
        return TypeRange(
            tensor=self.tensor, what=self.what, node=self.node, type=self.type, limit=self.limit,
            largest=self.largest, beyond=self.beyond / count, zeroed=self.zeroed / alive,
        )  # fmt: skip


def watches_of(graph: Graph, parts: Sequence[Part]) -> dict[str, list[tuple[str, RangeWatch]]]:
    """Find where values of each part take a low type; by part, with the tensor to look at.

    The tensor is that of the stand-in; weights are looked at here and now, under no name.
    """
    places = {node.name: node for node in graph.nodes}
    return {
        part.tensor: [
            each for name in part.theirs for each in _watches(graph, places[name], set(part.theirs))
        ]
        for part in parts
        if part.type is not None
    }


def _watches(graph: Graph, node: NodeProto, own: set[str]) -> Iterator[tuple[str, RangeWatch]]:
    if node.op_type == "QuantizeLinear" and node.input[0] in graph.active:
        maker = graph.maker(node.input[0])
        what = "output" if maker is not None and maker.name in own else "input"
        scale = _stored(graph, node.input[1])
        if scale is not None and scale.size == 1:
            yield node.input[0], _quantized(graph, node, node.input[0], what, float(scale.item()))
        return
    if node.op_type == "DequantizeLinear" or node.op_type == "QuantizeLinear":
        yield from _weights(graph, node)
        return
    for name in node.output if node.op_type not in EXACT_ANYWAY else ():
        kind = LOW.get(graph.types.get(name, 0))
        if kind is not None and name in graph.active:
            yield (
                name + EXACT,
                RangeWatch(name, "output", node.name, kind, LIMITS[kind], _SMALLEST[kind]),
            )


def _weights(graph: Graph, node: NodeProto) -> Iterator[tuple[str, RangeWatch]]:
    """Look at stored values: integers before a DQ node, or what a Q node makes such of."""
    values, scale = _stored(graph, node.input[0]), _stored(graph, node.input[1])
    if values is None or scale is None:
        return
    steps = scale.astype(np.float64)
    if steps.size > 1:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        shape = [1] * values.ndim
        shape[axis] = -1
        if steps.size != values.shape[axis]:
            return  # in blocks
        steps = steps.reshape(shape)
    kind = quantized_type(graph, node)
    is_narrow = node.op_type == "DequantizeLinear"
    sizes = np.abs(values.astype(np.float64)) * (steps if is_narrow else 1.0)
    readers = graph.readers.get(node.output[0], [])
    reader = graph.nodes[readers[0]].name if readers else node.name
    limit = float(steps.max()) * STEPS[kind]
    if not sizes.any():
        return  # a bias of zeros loses nothing
    watch = RangeWatch(node.input[0], "weights", reader, kind, limit, 0.0)
    watch.elements, watch.largest = values.size, float(sizes.max(initial=0.0))
    below = _ZERO_BELOW.get(kind, 0.5)
    zero = (values.astype(np.float64) == 0) if is_narrow else (sizes > 0) & (sizes < below * steps)
    watch.zeroed = int(np.count_nonzero(zero))
    yield "", watch


def _quantized(graph: Graph, node: NodeProto, tensor: str, what: str, scale: float) -> RangeWatch:
    kind = quantized_type(graph, node)
    below = _ZERO_BELOW.get(kind, 0.5)
    maker = graph.maker(tensor)
    name = maker.name if what == "output" and maker is not None else node.name
    readers = graph.readers.get(node.output[0], [])
    if what == "input" and readers:  # the node behind the DQ node is the one people know
        behind = graph.readers.get(graph.nodes[readers[0]].output[0], [])
        name = graph.nodes[behind[0]].name if behind else name
    return RangeWatch(tensor, what, name, kind, scale * STEPS[kind], scale * below)


def _stored(graph: Graph, name: str) -> AnyArray | None:
    from onnx import numpy_helper

    tensor = graph.stored.get(name)
    return None if tensor is None else numpy_helper.to_array(tensor)
