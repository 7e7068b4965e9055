"""Casts an ONNX model to FP16 or BF16 by changing its types, operator by operator.

The types of each operator are read from the ONNX definitions, not from a list: where a definition
does not allow the type, the node stays FP32, and Cast nodes are inserted between the two.
"""

from __future__ import annotations

import copy
import fnmatch
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from trtbench.core.errors import InputError, UsageError, first_line, near_miss
from trtbench.models.onnx_model import SMALL_BYTES, names_read, opset_of, stored_tensors, subgraphs

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto
    from onnx.defs import OpSchema

Low = Literal["fp16", "bf16"]

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
"""Values of TensorProto.DataType, which are part of the ONNX format."""
LOW = {FLOAT16: "FP16", BFLOAT16: "BF16"}
TYPES = {"fp16": FLOAT16, "bf16": BFLOAT16}
FP16_MAX = 65504.0
AXIS_OPSET = 13  # Q/DQ nodes have scales per channel from this opset on
QDQ_OPSET = 19  # Q/DQ nodes accept FP16 from this opset on
EXACT = "_exact"  # suffix of a tensor of the stand-in before it is rounded
EXACT_ANYWAY = (
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Slice", "Concat",
    "Split", "Gather", "MaxPool", "Relu", "Expand", "Dropout",
)  # fmt: skip
"""Operators that only return values of their input."""
ASKED_FOR = "requested"

_WORDS = {FLOAT: "tensor(float)", FLOAT16: "tensor(float16)", BFLOAT16: "tensor(bfloat16)"}
_SUFFIX = {FLOAT: "fp32", FLOAT16: "fp16", BFLOAT16: "bf16"}


class NodeTypes(NamedTuple):
    """The floating-point type of each input and output; ``None`` where it was not FP32."""

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A cast model, and what was changed."""

    model: ModelProto
    stand_in: ModelProto
    """The FP32 model with every tensor rounded as in the cast one: it runs everywhere."""
    changed: dict[str, int]
    kept: dict[str, str]  # floating-point nodes that stay FP32, and why


def cast(
    model: ModelProto, *, precision: Low, keep_io: bool = False, keep: Sequence[str] = ()
) -> Cast:
    """Cast a model that was loaded with its weights; the given model is modified."""
    model, low = prepared(model), TYPES[precision]
    quantized = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    # Below opset 13, operators lack types; Conv and pooling support BF16 from opset 22 on.
    opset = max({"fp16": 13, "bf16": 22}[precision], QDQ_OPSET if quantized else 0)
    model = at_opset(model, opset, what=precision)
    edges, kept = _plan(model, low=low, keep=keep)
    changed = dict(Counter(n.op_type for n in model.graph.node if n.name in edges).most_common())
    _rewrite(model, edges, low=low, keep_io=keep_io)
    return Cast(model=model, stand_in=stand_in(model), changed=changed, kept=kept)


def prepared(model: ModelProto) -> ModelProto:
    """Return the model with named nodes, inlined functions and FP32 constants as weights."""
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
    """Give every node a unique name: that of its first output if it has none."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or next(filter(None, node.output), f"{node.op_type}_{index}")
        while name in taken:
            name += "_"
        node.name = name
        taken.add(name)


def at_opset(model: ModelProto, needed: int, *, what: str) -> ModelProto:
    """Return the model converted to an opset; unchanged if its opset is not older."""
    import onnx

    have = opset_of(model)
    if have is None:  # it has only operators of other domains
        model.opset_import.add(version=needed)
    if have is None or have >= needed:
        return model
    if model.ir_version < 4:  # weights were inputs as well: the converter demands them
        stored = {each.name for each in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in stored]
        if len(inputs) + len(stored) > len(model.graph.input):
            model.ir_version = 4
            del model.graph.input[:]
            model.graph.input.extend(inputs)
    try:
        raised = onnx.version_converter.convert_version(model, needed)
    except Exception as problem:  # the converter raises RuntimeError and others
        message = f"the model cannot be converted from opset {have} to {needed}, which {what} needs"
        fix = f"trtbench export ... --opset {needed}"
        raise InputError(message, facts={"reason": first_line(problem)}, fix=fix) from None
    raised.metadata_props.extend(model.metadata_props[len(raised.metadata_props) :])
    name_nodes(raised)
    return raised


def _plan(
    model: ModelProto, *, low: int, keep: Sequence[str]
) -> tuple[dict[str, NodeTypes], dict[str, str]]:
    """Return the new types of each node by name, and why other nodes stay FP32."""
    from onnx import numpy_helper

    types = tensor_types(model)
    held = matching_nodes(model, keep)
    stored = {tensor.name for tensor in model.graph.initializer}
    given = {value.name for value in model.graph.input}
    shapes: set[str] = set()
    for node in model.graph.node:  # FP16 represents integers exactly only up to 2048
        # The first input of these is data; the others are shapes and indices.
        laid_out = node.op_type in ("Expand", "Reshape", "Tile", "Slice", "Pad", "Resize")
        read = node.input[:1] if laid_out else node.input
        inputs = [name for name in read if name and name not in stored]
        derived = bool(inputs) and all(name in shapes for name in inputs)
        if derived:
            held.setdefault(node.name, "computes shapes")
        if derived or node.op_type in ("Shape", "Size"):
            shapes.update(node.output)
        whole = types.get(node.output[0]) not in (FLOAT, *LOW) if node.op_type == "Cast" else False
        if whole and node.input[0] in given:
            held.setdefault(node.name, "makes integers of an input")
    beyond: dict[str, float] = {}
    for tensor in model.graph.initializer if low == FLOAT16 else ():
        if tensor.data_type == FLOAT:
            values = np.abs(numpy_helper.to_array(tensor))  # FP16 can represent infinity
            if (size := float(values[np.isfinite(values)].max(initial=0.0))) > FP16_MAX:
                beyond[tensor.name] = size
    edges: dict[str, NodeTypes] = {}
    kept: dict[str, str] = {}
    for node in model.graph.node:
        found, reason = _edges(node, types, model=model, low=low)
        if any(True for _ in subgraphs(node)):
            found, reason = None, "control flow stays in FP32"
        if found is None and reason is None:
            continue  # it has no floating-point inputs or outputs
        large = max((beyond[name] for name in node.input if name in beyond), default=None)
        if large is not None and node.name not in held:
            held[node.name] = f"has the value {large:.3g}, beyond FP16's 65504"
        if node.name in held or found is None:
            kept[node.name] = held.get(node.name) or reason or "unknown operator"
        else:
            edges[node.name] = found
    return edges, kept


def _edges(
    node: NodeProto, types: Mapping[str, int], *, model: ModelProto, low: int
) -> tuple[NodeTypes | None, str | None]:
    """Return the types of a node in the low precision, or why it must stay FP32."""
    import onnx

    if not any(types.get(name) == FLOAT for name in (*node.input, *node.output)):
        return None, None
    opset = opset_of(model, node.domain)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset or 0, node.domain)
    except onnx.defs.SchemaError:
        return None, f"ONNX does not define {node.domain or 'ai.onnx'}:{node.op_type}"
    if any(name and name not in types for name in (*node.input, *node.output)):
        return None, "has sequences, or tensors of unknown type"

    def new_type(formals: Sequence[OpSchema.FormalParameter], index: int) -> int:
        parameter = formals[min(index, len(formals) - 1)]  # the last one may be repeated
        return low if _WORDS[low] in parameter.types else FLOAT

    inputs = tuple(
        new_type(schema.inputs, index) if types.get(name) == FLOAT else None
        for index, name in enumerate(node.input)
    )
    if node.op_type in ("Cast", "ConstantOfShape"):  # an attribute sets the type of its output
        made = [new_type(schema.outputs, 0)]
    else:
        kinds = {
            name: own or types[name] for name, own in zip(node.input, inputs, strict=True) if name
        }
        given = {name: onnx.helper.make_tensor_type_proto(kinds[name], None) for name in kinds}
        opsets = list(model.opset_import)
        try:
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, given, opset_imports=opsets, ir_version=model.ir_version
            )
        except Exception as problem:  # such as a BitCast to a type of another size
            return None, f"{node.op_type} does not allow it: {first_line(problem)}"
        made = [found[x].tensor_type.elem_type if x in found else FLOAT for x in node.output]
    pairs = zip(node.output, made, strict=True)
    outputs = tuple(own if types.get(name) == FLOAT else None for name, own in pairs)
    if low not in (*inputs, *outputs):
        return None, f"{node.op_type} has no such type in opset {opset}"
    return NodeTypes(inputs=inputs, outputs=outputs), None


def tensor_types(model: ModelProto) -> dict[str, int]:
    import onnx

    light = onnx.ModelProto()  # shape inference does not accept 2 GiB
    stored = list(model.graph.initializer)
    del model.graph.initializer[:]
    light.CopyFrom(model)
    model.graph.initializer.extend(stored)
    for tensor in stored:
        small = len(tensor.raw_data) <= SMALL_BYTES
        kept = {"name": tensor.name, "dims": tensor.dims, "data_type": tensor.data_type}
        light.graph.initializer.append(tensor if small else onnx.TensorProto(**kept))
    graph = onnx.shape_inference.infer_shapes(light).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    typed = (value for value in values if value.type.HasField("tensor_type"))
    types = {value.name: value.type.tensor_type.elem_type for value in typed}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def matching_nodes(model: ModelProto, keep: Sequence[str]) -> dict[str, str]:
    """Return the nodes to keep that match names or patterns with * and ?."""
    names = [node.name for node in model.graph.node]
    held: dict[str, str] = {}
    for pattern in keep:
        matches = [name for name in names if name == pattern or fnmatch.fnmatch(name, pattern)]
        if not matches:
            guess = near_miss(pattern, names)
            fix = f"did you mean {guess}?" if guess else "trtbench inspect MODEL --layers"
            raise UsageError(f"the model has no node {pattern!r}", fix=fix)
        held |= dict.fromkeys(matches, ASKED_FOR)
    return held


def _rewrite(model: ModelProto, edges: Mapping[str, NodeTypes], *, low: int, keep_io: bool) -> None:
    """Set the types of every node in one pass, with casts between different types."""
    from onnx import helper

    graph, types = model.graph, tensor_types(model)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    casts: dict[tuple[str, int], str] = {}
    lowered: set[str] = set()  # tensors that were FP32 when the nodes that read them were written

    def as_type(name: str, wanted: int) -> str:
        """Return the name of a tensor in the wanted type; a cast is added if needed."""
        if types.get(name) == wanted:
            return name
        if (name, wanted) not in casts:
            made = casts[name, wanted] = f"{name}_{_SUFFIX[wanted]}"
            types[made] = wanted
            if name in weights:
                graph.initializer.add().CopyFrom(_converted(weights[name], wanted, made))
            else:
                node = helper.make_node("Cast", [name], [made], to=wanted, name=f"{made}_cast")
                nodes.append(node)
        return casts[name, wanted]

    exact = {n.input[0] for n in graph.node if n.op_type == "Cast" and n.name not in edges}
    for value in graph.input if not keep_io else ():
        if value.type.tensor_type.elem_type == FLOAT and value.name not in (exact | weights.keys()):
            value.type.tensor_type.elem_type = types[value.name] = low
            lowered.add(value.name)
    empty = {name for name, tensor in weights.items() if 0 in tensor.dims}
    for node in list(graph.node):
        if node.op_type == "Resize":  # ONNX Runtime's optimizer fails on an empty roi in FP16
            node.input[:] = ["" if name in empty else name for name in node.input]
        planned = edges.get(node.name)
        for index, name in enumerate(node.input):
            unplanned = FLOAT if name in lowered else None
            wanted = planned.inputs[index] if planned else unplanned
            if wanted is not None and name:
                node.input[index] = as_type(name, wanted)
        for body in subgraphs(node):  # it stays FP32, and so do the outer tensors it reads
            rename_reads(body, lambda name: as_type(name, FLOAT) if name in lowered else name)
        nodes.append(node)
        for name, given in zip(node.output, planned.outputs if planned else (), strict=False):
            if given == low:
                types[name] = low
                lowered.add(name)
        if planned is not None and low in planned.outputs:
            if node.op_type == "ConstantOfShape" and not node.attribute:  # zeros of FP32
                zero = helper.make_tensor("", FLOAT, [1], [0.0])
                node.attribute.append(helper.make_attribute("value", zero))
            for attribute in node.attribute:
                if node.op_type == "Cast" and attribute.name == "to":
                    attribute.i = low
                if node.op_type == "ConstantOfShape" and attribute.name == "value":
                    attribute.t.CopyFrom(_converted(attribute.t, low, attribute.t.name))
    for value in graph.output:
        name = value.name
        if name not in lowered or value.type.tensor_type.elem_type != FLOAT:
            continue
        if not keep_io:
            value.type.tensor_type.elem_type = low
            continue
        inside = f"{name}_{_SUFFIX[low]}"
        for names in (each for node in nodes for each in (node.input, node.output)):
            for index, each in enumerate(names):
                names[index] = inside if each == name else each
        nodes.append(helper.make_node("Cast", [inside], [name], to=FLOAT, name=f"{name}_cast"))
    del graph.node[:]
    graph.node.extend(nodes)
    drop_unused(graph)
    # Weights that exist in only one type keep their name.
    gone = weights.keys() - {tensor.name for tensor in graph.initializer}
    old = {made: name for (name, _), made in casts.items() if name in gone}
    for tensor in graph.initializer:
        tensor.name = old.get(tensor.name, tensor.name)
    rename_reads(graph, lambda name: old.get(name, name), own=False)
    del graph.value_info[:]


def _converted(tensor: TensorProto, wanted: int, name: str) -> TensorProto:
    """Return a tensor in another type: numpy's FP16, or the BF16 of onnx's ml_dtypes."""
    from onnx import numpy_helper

    kind: np.dtype[Any] = np.dtype(np.float32 if wanted == FLOAT else np.float16)
    if wanted == BFLOAT16:
        import ml_dtypes

        kind = np.dtype(ml_dtypes.bfloat16)
    with np.errstate(over="ignore"):
        return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), name)


def rename_reads(graph: GraphProto, new: Callable[[str], str], *, own: bool = True) -> None:
    """Rename the inputs of all nodes of a graph and its subgraphs; see ``own`` for outputs."""
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
    """Remove initializers that no node reads."""
    used = {value.name for value in graph.output}.union(*map(names_read, graph.node))
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    gone = {tensor.name for tensor in graph.initializer} - {tensor.name for tensor in kept}
    del graph.initializer[:]
    graph.initializer.extend(kept)
    inputs = [value for value in graph.input if value.name not in gone]
    del graph.input[:]
    graph.input.extend(inputs)


def round_trip(source: str, target: str, kind: int) -> list[NodeProto]:
    """Return nodes that round a tensor to a low type and convert it back to FP32."""
    from onnx import helper

    return [
        helper.make_node("Cast", [source], [f"{target}_low"], to=kind),
        helper.make_node("Cast", [f"{target}_low"], [target], to=FLOAT),
    ]


def stand_in(model: ModelProto) -> ModelProto:
    """Return a copy in FP32 that rounds every tensor which is FP16 or BF16 in the model.

    Sums stay FP32, as on tensor cores. ONNX Runtime's CPU has no BF16, and may compute FP16 in FP32
    without rounding: neither would show the error of a cast.
    """
    from onnx import numpy_helper

    made, types = copy.deepcopy(model), tensor_types(model)
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
                    "not supported",
                    fix="cast the model with trtbench quantize, which keeps bodies in FP32",
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
