"""FP16 and BF16 ONNX: the types of a model changed in the file, operator by operator.

What an operator may take is read from ONNX's own definitions, so nothing is listed by hand: a
type that the definition does not allow stays FP32, and a Cast is put where the two meet.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, UsageError, first_line, near_miss
from trtbench.core.samples import AnyArray
from trtbench.models.onnx_model import SMALL_BYTES, opset_of, reads_of, stored_tensors, subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto
    from onnx.defs import OpSchema

Low = Literal["fp16", "bf16"]

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
"""Numbers of TensorProto.DataType, which ONNX will never change."""
LOW = {FLOAT16: "FP16", BFLOAT16: "BF16"}
TYPES = {"fp16": FLOAT16, "bf16": BFLOAT16}
FP16_MAX = 65504.0
LOWEST_OPSET = {"fp16": 13, "bf16": 22}
"""Below 13, operators lack types and rules are older; BF16 came to Conv and pooling with 22."""
QDQ_OPSET = 19
"""Q/DQ nodes take FP16 from here on."""
EXACT = "_exact"
"""Behind the name of a tensor of the stand-in: the same before it is rounded."""
EXACT_ANYWAY = (
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Concat",
    "Split", "Gather", "MaxPool", "Relu", "Expand", "Dropout",
)  # fmt: skip
"""Operators that return no value their input does not have."""
ASKED_FOR = "asked for"

_WORDS = {FLOAT: "tensor(float)", FLOAT16: "tensor(float16)", BFLOAT16: "tensor(bfloat16)"}
_SUFFIX = {FLOAT: "fp32", FLOAT16: "fp16", BFLOAT16: "bf16"}
_TYPE_BY_ATTRIBUTE = ("Cast", "ConstantOfShape")
"""Operators whose output type is an attribute that is changed with it."""
_SHAPE_SOURCES = ("Shape", "Size")
_DATA_FIRST = ("Expand", "Reshape", "Tile", "Slice", "Pad", "Resize")
"""Operators whose first input is data; the others only say how it is laid out."""


class Edges(NamedTuple):
    """The floating-point type of each input and output; ``None`` where it is no FP32 edge."""

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A model with other types, and what was done to it."""

    model: ModelProto
    stand_in: ModelProto
    """The FP32 model with every tensor rounded as in the cast one: what runs anywhere."""
    changed: dict[str, int]
    kept: dict[str, str]
    """Floating-point nodes that stay FP32, and why."""


def cast(
    model: ModelProto, *, precision: Low, keep_io: bool = False, keep: Sequence[str] = ()
) -> Cast:
    """Change the types of a model that was loaded with its weights; the model itself is used up."""
    model, low = prepared(model), TYPES[precision]
    quantized = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    opset = max(LOWEST_OPSET[precision], QDQ_OPSET if quantized else 0)
    model = at_opset(model, opset, what=precision)
    edges, kept = _plan(model, low=low, keep=keep)
    changed = Counter(node.op_type for node in model.graph.node if node.name in edges)
    _Rewriting(model, low=low).rewrite(edges, keep_io=keep_io)
    return Cast(
        model=model,
        stand_in=stand_in(model),
        changed=dict(changed.most_common()),
        kept=kept,
    )


def prepared(model: ModelProto) -> ModelProto:
    """A model with every node named, functions inlined and FP32 constants stored as weights."""
    from onnx import numpy_helper

    if model.functions:
        from onnx.inliner import inline_local_functions

        model = inline_local_functions(model)
    name_nodes(model)
    graph = model.graph
    for node in [node for node in graph.node if node.op_type == "Constant"]:
        value = node.attribute[0]
        if value.name == "value" and value.t.data_type == FLOAT:
            tensor = value.t
        elif value.name in ("value_float", "value_floats"):
            numbers = value.f if value.name == "value_float" else list(value.floats)
            tensor = numpy_helper.from_array(np.array(numbers, np.float32))
        else:
            continue
        stored = graph.initializer.add()
        stored.CopyFrom(tensor)
        stored.name = node.output[0]
        graph.node.remove(node)
    return model


def name_nodes(model: ModelProto) -> None:
    """Name every node, by kind and place where it has no name, each differently."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken:
            name += "_"
        node.name = name
        taken.add(name)


def at_opset(model: ModelProto, needed: int, *, what: str) -> ModelProto:
    """The model at an opset, or as it is where it has that one or a later one."""
    import onnx

    have = opset_of(model) or 0
    if have >= needed:
        return model
    try:
        raised = onnx.version_converter.convert_version(model, needed)
    except Exception as problem:  # the converter raises RuntimeError and others
        raise InputError(
            f"the model cannot be brought from opset {have} to {needed}, which {what} needs",
            facts={"reason": first_line(problem)},
            fix=f"trtbench export ... --opset {needed}",
        ) from None
    raised.metadata_props.extend(model.metadata_props[len(raised.metadata_props) :])
    name_nodes(raised)
    return raised


def _plan(
    model: ModelProto, *, low: int, keep: Sequence[str]
) -> tuple[dict[str, Edges], dict[str, str]]:
    """What the edges of each node become, by its name, and why other nodes stay FP32."""
    from onnx import numpy_helper

    types = tensor_types(model)
    held = matching_nodes(model, keep)
    held |= dict.fromkeys(_shape_arithmetic(model) - set(held), "computes shapes")
    beyond: dict[str, float] = {}
    for tensor in model.graph.initializer if low == FLOAT16 else ():
        if tensor.data_type == FLOAT:
            values = np.abs(numpy_helper.to_array(tensor))  # infinity itself FP16 can hold
            if (size := float(values[np.isfinite(values)].max(initial=0.0))) > FP16_MAX:
                beyond[tensor.name] = size
    edges: dict[str, Edges] = {}
    kept: dict[str, str] = {}
    for node in model.graph.node:
        found, reason = _edges(node, types, model=model, low=low)
        if any(True for _ in subgraphs(node)):
            found, reason = None, "control flow is left in FP32"
        if found is None and reason is None:
            continue  # nothing of it is floating-point
        large = max((beyond[name] for name in node.input if name in beyond), default=None)
        if large is not None and node.name not in held:
            held[node.name] = f"holds {large:.3g}, beyond FP16's 65504"
        if node.name in held or found is None:
            kept[node.name] = held.get(node.name) or reason or "unknown operator"
        else:
            edges[node.name] = found
    return edges, kept


def _edges(
    node: NodeProto, types: Mapping[str, int], *, model: ModelProto, low: int
) -> tuple[Edges | None, str | None]:
    """What a node's edges become in the low type, or why it must stay FP32.

    Neither is given for a node that has no FP32 edge at all.
    """
    import onnx

    if not any(types.get(name) == FLOAT for name in (*node.input, *node.output)):
        return None, None
    opset = opset_of(model, node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset or 0, node.domain)
    except onnx.defs.SchemaError:
        return None, f"ONNX does not define {node.domain or 'ai.onnx'}:{node.op_type}"

    def formal(formals: Sequence[OpSchema.FormalParameter], index: int) -> OpSchema.FormalParameter:
        return formals[min(index, len(formals) - 1)]  # the last one may be repeated

    def becomes(parameter: OpSchema.FormalParameter) -> int:
        return low if _WORDS[low] in parameter.types else FLOAT

    inputs = tuple(
        becomes(formal(schema.inputs, index)) if types.get(name) == FLOAT else None
        for index, name in enumerate(node.input)
    )
    tied = {formal(schema.inputs, index).type_str for index in range(len(node.input))}
    outputs: list[int | None] = []
    for index, name in enumerate(node.output):  # follows inputs of its type; attributes set others
        own = formal(schema.outputs, index)
        follows = own.type_str in tied or node.op_type in _TYPE_BY_ATTRIBUTE
        given = becomes(own) if follows else FLOAT
        outputs.append(given if types.get(name) == FLOAT else None)
    if low not in (*inputs, *outputs):
        return None, f"{node.op_type} has no such type in opset {opset}"
    return Edges(inputs=inputs, outputs=tuple(outputs)), None


def tensor_types(model: ModelProto) -> dict[str, int]:
    """The element type of every tensor of the outer graph."""
    import onnx

    light = onnx.ModelProto()  # shape inference takes no 2 GiB
    stored = list(model.graph.initializer)
    del model.graph.initializer[:]
    light.CopyFrom(model)
    model.graph.initializer.extend(stored)
    for tensor in stored:
        small = len(tensor.raw_data) <= SMALL_BYTES
        kept = {"name": tensor.name, "dims": tensor.dims, "data_type": tensor.data_type}
        light.graph.initializer.append(tensor if small else onnx.TensorProto(**kept))
    graph = onnx.shape_inference.infer_shapes(light).graph
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.value_info, *graph.input, *graph.output)
        if value.type.HasField("tensor_type")
    }
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def matching_nodes(model: ModelProto, keep: Sequence[str]) -> dict[str, str]:
    """The nodes a user wants to keep, by name or by a pattern with * and ?."""
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
        held |= dict.fromkeys(matches, ASKED_FOR)
    return held


def _shape_arithmetic(model: ModelProto) -> set[str]:
    """Nodes that compute with dimensions: FP16 counts exactly only up to 2048."""
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


def _as_low(values: NDArray[np.float32], low: int) -> AnyArray:
    """numpy's FP16, or the BF16 that onnx brings along."""
    if low == FLOAT16:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    import ml_dtypes

    return values.astype(ml_dtypes.bfloat16)


class _Rewriting:
    """One pass over a graph: what type each tensor has by now, and the nodes made so far."""

    def __init__(self, model: ModelProto, *, low: int) -> None:
        self.graph, self.low, self.types = model.graph, low, tensor_types(model)
        self.weights = {tensor.name: tensor for tensor in self.graph.initializer}
        self.nodes: list[NodeProto] = []
        self.casts: dict[tuple[str, int], str] = {}
        self.lowered: set[str] = set()
        """Tensors that were FP32 when their readers were written."""

    def rewrite(self, edges: Mapping[str, Edges], *, keep_io: bool) -> None:
        for value in self.graph.input if not keep_io else ():
            if value.type.tensor_type.elem_type == FLOAT and value.name not in self.weights:
                value.type.tensor_type.elem_type = self.low
                self._lower(value.name)
        for node in list(self.graph.node):
            self._take(node, edges.get(node.name))
        self._finish(keep_io=keep_io)

    def _lower(self, name: str) -> None:
        self.types[name] = self.low
        self.lowered.add(name)

    def _take(self, node: NodeProto, planned: Edges | None) -> None:
        """Put one node in, with casts before it where types do not meet."""
        for index, name in enumerate(node.input):
            wanted = planned.inputs[index] if planned else None
            if planned is None and name in self.lowered:
                wanted = FLOAT
            if wanted is not None and name:
                node.input[index] = self._as_type(name, wanted)
        for body in subgraphs(node):  # it stays FP32, and so does what it reads from outside
            rename_reads(
                body, lambda name: self._as_type(name, FLOAT) if name in self.lowered else name
            )
        self.nodes.append(node)
        if planned is None:
            return
        for name, given in zip(node.output, planned.outputs, strict=True):
            if given == self.low:
                self._lower(name)
        if self.low in planned.outputs:
            for attribute in node.attribute:
                if node.op_type == "Cast" and attribute.name == "to":
                    attribute.i = self.low
                if node.op_type == "ConstantOfShape" and attribute.name == "value":
                    attribute.t.CopyFrom(_converted(attribute.t, self.low, attribute.t.name))

    def _as_type(self, name: str, wanted: int) -> str:
        """The name under which a tensor is there in the wanted type."""
        from onnx import helper

        if self.types.get(name) == wanted:
            return name
        key = (name, wanted)
        if key not in self.casts:
            made = self.casts[key] = f"{name}_{_SUFFIX[wanted]}"
            self.types[made] = wanted
            if name in self.weights:
                stored = self.graph.initializer.add()
                stored.CopyFrom(_converted(self.weights[name], wanted, made))
            else:
                node = helper.make_node("Cast", [name], [made], to=wanted, name=f"{made}_cast")
                self.nodes.append(node)
        return self.casts[key]

    def _finish(self, *, keep_io: bool) -> None:
        """Settle the outputs, and drop weights that nothing reads any more."""
        from onnx import helper

        for value in self.graph.output:
            name = value.name
            if name not in self.lowered or value.type.tensor_type.elem_type != FLOAT:
                continue
            if not keep_io:
                value.type.tensor_type.elem_type = self.low
                continue
            inside = f"{name}_{_SUFFIX[self.low]}"
            for names in (each for node in self.nodes for each in (node.input, node.output)):
                for index, each in enumerate(names):
                    names[index] = inside if each == name else each
            back = helper.make_node("Cast", [inside], [name], to=FLOAT, name=f"{name}_cast")
            self.nodes.append(back)
        kept = list(self.nodes)
        del self.graph.node[:]
        self.graph.node.extend(kept)
        drop_unused(self.graph)
        # Weights that exist in one type only keep the name they had.
        left = {tensor.name for tensor in self.graph.initializer}
        gone = self.weights.keys() - left
        old = {made: name for (name, _), made in self.casts.items() if name in gone}
        for tensor in self.graph.initializer:
            tensor.name = old.get(tensor.name, tensor.name)
        rename_reads(self.graph, lambda name: old.get(name, name), own=False)
        del self.graph.value_info[:]


def _converted(tensor: TensorProto, wanted: int, name: str) -> TensorProto:
    from onnx import numpy_helper

    values = numpy_helper.to_array(tensor)
    values = _as_low(values, wanted) if wanted != FLOAT else values.astype(np.float32)
    return numpy_helper.from_array(values, name)


def rename_reads(graph: GraphProto, new: Callable[[str], str], *, own: bool = True) -> None:
    """Rename what the nodes of a graph and its bodies read; with ``own``, not what it makes."""
    made: set[str] = set()
    if own:
        made = {name for node in graph.node for name in node.output}
        made |= {value.name for value in graph.input} | {each.name for each in graph.initializer}
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name and name not in made:
                node.input[index] = new(name)
        for body in subgraphs(node):
            rename_reads(body, new, own=own)


def drop_unused(graph: GraphProto) -> None:
    """Drop stored values that nothing reads."""
    used = {value.name for value in graph.output}.union(*map(reads_of, graph.node))
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    gone = {tensor.name for tensor in graph.initializer} - {tensor.name for tensor in kept}
    del graph.initializer[:]
    graph.initializer.extend(kept)
    inputs = [value for value in graph.input if value.name not in gone]
    del graph.input[:]
    graph.input.extend(inputs)


def copied(model: ModelProto) -> ModelProto:
    """A copy that can be changed."""
    made = type(model)()
    made.CopyFrom(model)
    return made


def stand_in(model: ModelProto) -> ModelProto:
    """A copy with FP32 in place of FP16 and BF16, and every such tensor rounded.

    Sums stay FP32, as they do on tensor cores. ONNX Runtime's CPU has no BF16, and may compute FP16
    in FP32 and leave the rounding out: neither would show what a cast costs.
    """
    from onnx import helper, numpy_helper

    def round_trip(source: str, target: str, kind: int) -> list[NodeProto]:
        return [
            helper.make_node("Cast", [source], [f"{target}_low"], to=kind),
            helper.make_node("Cast", [f"{target}_low"], [target], to=FLOAT),
        ]

    made, types = copied(model), tensor_types(model)
    graph = made.graph
    if not any(kind in LOW for kind in types.values()):
        return made
    for node in model.graph.node:
        for body in subgraphs(node):
            stored_low = any(tensor.data_type in LOW for tensor in stored_tensors(body))
            casts = any(a.name == "to" and a.i in LOW for n in body.node for a in n.attribute)
            if stored_low or casts:
                raise InputError(
                    f"the body of {node.op_type} {node.name} computes in FP16 or BF16, which is "
                    "not looked into",
                    fix="trtbench quantize leaves bodies in FP32",
                )
    for tensor in stored_tensors(graph):
        if tensor.data_type in LOW:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    stored = {tensor.name for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    rounded: dict[str, str] = {}
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type.elem_type
        if kind in LOW:
            value.type.tensor_type.elem_type = FLOAT
            if value in graph.input and value.name not in stored:
                rounded[value.name] = f"{value.name}_rounded"
                nodes += round_trip(value.name, rounded[value.name], kind)
    for node in graph.node:
        nodes.append(node)
        for index, name in enumerate(node.input):
            node.input[index] = rounded.get(name, name)
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in LOW:
                attribute.i = FLOAT
        for index, name in enumerate(node.output):
            if types.get(name) in LOW and node.op_type not in EXACT_ANYWAY:
                node.output[index] = name + EXACT
                nodes += round_trip(name + EXACT, name, types[name])
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return made
