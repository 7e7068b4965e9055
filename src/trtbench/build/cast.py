"""FP16 and BF16 ONNX: the types of a model changed in the file, operator by operator.

What an operator may take is read from ONNX's own definitions, so nothing is listed by hand: a
type that the definition does not allow stays FP32, and a Cast is put where the two meet.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trtbench.build.cast_types import (
    FLOAT,
    FP16_MAX,
    TYPES,
    Edges,
    edges_of,
    largest,
    lift_constants,
    name_nodes,
    raise_opset,
    rounded,
    tensor_types,
)
from trtbench.build.onnx_file import subgraphs
from trtbench.errors import UsageError, near_miss

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

Low = Literal["fp16", "bf16"]

_SHAPE_SOURCES = ("Shape", "Size")
_DATA_FIRST = ("Expand", "Reshape", "Tile", "Slice", "Pad", "Resize")
"""Operators whose first input is data; the others only say how it is laid out."""
ASKED_FOR = "asked for"
_UNCAST = "control flow is left in FP32"


@dataclass(frozen=True, kw_only=True)
class CastPlan:
    """Which nodes of a model change type, and what each of their edges becomes."""

    precision: Low
    keep_io: bool
    edges: dict[str, Edges]
    """By node name; nodes that are not here stay as they are."""
    kept: dict[str, str] = field(default_factory=dict)
    """Floating-point nodes that stay FP32, and why."""

    @property
    def low(self) -> int:
        return TYPES[self.precision]


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A model with other types, and what was done to it."""

    model: ModelProto
    stand_in: ModelProto
    """The FP32 model with every tensor rounded as the cast one would: what runs anywhere."""
    changed: dict[str, int]
    kept: dict[str, str]
    facts: dict[str, int]


def cast(
    model: ModelProto, *, precision: Low, keep_io: bool = False, keep: Sequence[str] = ()
) -> Cast:
    """Change the types of a model that was loaded with its weights; the model itself is used up."""
    model = raise_opset(prepared(model), precision=precision)
    plan = make_plan(model, precision=precision, keep_io=keep_io, keep=keep)
    lost = _lost_weights(model, plan)
    stand_in = simulate(model, plan)
    kinds = Counter(node.op_type for node in model.graph.node if node.name in plan.edges)
    return Cast(
        model=apply(model, plan),
        stand_in=stand_in,
        changed=dict(kinds.most_common()),
        kept=plan.kept,
        facts={"weights_rounded_to_zero": lost},
    )


def prepared(model: ModelProto) -> ModelProto:
    """Name every node, and put constants and functions where they can be worked on."""
    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    name_nodes(model)
    lift_constants(model)
    return model


def make_plan(model: ModelProto, *, precision: Low, keep_io: bool, keep: Sequence[str]) -> CastPlan:
    """Decide what becomes of every node, without touching the model."""
    types = tensor_types(model)
    held = matching_nodes(model, keep)
    held.update(dict.fromkeys(_shape_arithmetic(model) - set(held), "computes shapes"))
    if precision == "fp16":
        held.update(_overflowing(model, held))
    edges: dict[str, Edges] = {}
    kept: dict[str, str] = {}
    for node in model.graph.node:
        found, reason = edges_of(node, types, model=model, low=TYPES[precision])
        if any(True for _ in subgraphs(node)):
            found, reason = None, _UNCAST
        if found is None and reason is None:
            continue  # nothing of it is floating-point
        if node.name in held or found is None:
            kept[node.name] = held.get(node.name) or reason or "unknown operator"
            continue
        edges[node.name] = found
    return CastPlan(precision=precision, keep_io=keep_io, edges=edges, kept=kept)


def apply(model: ModelProto, plan: CastPlan) -> ModelProto:
    """Rewrite the model to the plan."""
    from trtbench.build.cast_rewrite import rewrite

    return rewrite(model, edges=plan.edges, low=plan.low, keep_io=plan.keep_io)


def simulate(model: ModelProto, plan: CastPlan) -> ModelProto:
    """Make the FP32 model that rounds every tensor as the cast model would.

    Sums stay FP32, as they do on tensor cores. ONNX Runtime has no BF16 on a CPU, and may compute
    FP16 in FP32 and leave the rounding out: neither would show what the cast costs.
    """
    from trtbench.build.cast_rewrite import rewrite_rounding

    return rewrite_rounding(model, edges=plan.edges, low=plan.low)


def matching_nodes(model: ModelProto, keep: Sequence[str]) -> dict[str, str]:
    """Find the nodes a user wants to hold, by name or by a pattern with * and ?."""
    names = [node.name for node in model.graph.node]
    held: dict[str, str] = {}
    for pattern in keep:
        matches = [name for name in names if name == pattern or fnmatch.fnmatch(name, pattern)]
        if not matches:
            guess = near_miss(pattern, names)
            raise UsageError(
                f"the model has no node {pattern!r}",
                fix=f"did you mean {guess}?" if guess else "trtbench inspect MODEL --layers",
            )
        held.update(dict.fromkeys(matches, ASKED_FOR))
    return held


def _shape_arithmetic(model: ModelProto) -> set[str]:
    """List nodes that compute with dimensions: FP16 counts exactly only up to 2048."""
    stored = {tensor.name for tensor in model.graph.initializer}
    shapes: set[str] = set()
    found: set[str] = set()
    for node in model.graph.node:
        read = node.input[:1] if node.op_type in _DATA_FIRST else node.input
        inputs = [name for name in read if name and name not in stored]
        derived = bool(inputs) and all(name in shapes for name in inputs)
        if derived:
            found.add(node.name)
        if derived or node.op_type in _SHAPE_SOURCES:
            shapes.update(node.output)
    return found


def _overflowing(model: ModelProto, held: dict[str, str]) -> dict[str, str]:
    """List nodes with stored values that FP16 cannot hold; infinity itself it can."""
    beyond = {
        tensor.name: value
        for tensor in model.graph.initializer
        if tensor.data_type == FLOAT and (value := largest(tensor)) > FP16_MAX
    }
    return {
        node.name: f"holds {value:.3g}, beyond FP16's 65504"
        for node in model.graph.node
        if node.name not in held
        for value in [max((beyond[name] for name in node.input if name in beyond), default=None)]
        if value is not None
    }


def _lost_weights(model: ModelProto, plan: CastPlan) -> int:
    """Count stored values that are not zero and become zero."""
    low = {name for name, _ in low_inputs(model, plan)}
    return sum(_to_zero(each, plan) for each in model.graph.initializer if each.name in low)


def low_inputs(model: ModelProto, plan: CastPlan) -> Iterator[tuple[str, NodeProto]]:
    """List the inputs that the plan changes, with the node they go into."""
    for node in model.graph.node:
        for name, wanted in zip(
            node.input, plan.edges.get(node.name, Edges()).inputs, strict=False
        ):
            if wanted == plan.low:
                yield name, node


def _to_zero(tensor: TensorProto, plan: CastPlan) -> int:
    import numpy as np
    from onnx import numpy_helper

    if tensor.data_type != FLOAT:
        return 0
    values = numpy_helper.to_array(tensor)
    return int(np.count_nonzero((values != 0) & (rounded(values, plan.low) == 0)))
