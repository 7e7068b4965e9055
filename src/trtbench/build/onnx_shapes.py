"""Shapes of every tensor, also behind arithmetic with dimensions that onnx's inference gives up on.

Exporters write ``x.chunk(2)`` as Shape, Gather, Add, Div and Slice. With the inputs settled, all of
that is constant: it is computed here, and inference goes on behind it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trtbench.build.onnx_file import SMALL_BYTES
from trtbench.domain.arrays import AnyArray

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

ROUNDS = 100
"""Every round gets past one more stage of a network; a cap, in case one never settles."""

_ARITHMETIC = frozenset(
    {
        "Add", "Cast", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand", "Floor",
        "Gather", "Identity", "Max", "Min", "Mod", "Mul", "Neg", "Range", "ReduceProd", "Reshape",
        "Slice", "Squeeze", "Sub", "Unsqueeze", "Where",
    }
)  # fmt: skip

_WIDEST = 8
"""Bytes of the widest type: what is larger may have been left out when the file was read."""

Values = dict[str, AnyArray]


def infer_values(model: ModelProto) -> list[ValueInfoProto]:
    """Infer type and shape of every tensor that can be told; the model itself stays as it is."""
    import onnx

    work = onnx.ModelProto()
    work.CopyFrom(model)
    for _ in range(ROUNDS):
        inferred = onnx.shape_inference.infer_shapes(work, data_prop=True)
        if not _fold(inferred):
            break
        work = inferred
        del work.graph.value_info[:]
    graph = inferred.graph
    stored = [
        onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in graph.initializer
    ]
    return [*stored, *graph.value_info, *graph.input, *graph.output]


def _fold(model: ModelProto) -> bool:
    """Replace nodes that compute nothing but dimensions by what they give."""
    from onnx import numpy_helper

    graph = model.graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.input)
        if _is_static(value)
    }
    known = _constants(model)
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    folded: list[NodeProto] = []
    for node in graph.node:
        value = _value(node, shapes, known, model)
        if value is None or value.nbytes > SMALL_BYTES or node.output[0] in outputs:
            continue
        known[node.output[0]] = value
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        folded.append(node)
    for node in folded:
        graph.node.remove(node)
    return bool(folded)


def _is_static(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


def _constants(model: ModelProto) -> Values:
    """Find small stored values; floats are those of scale factors."""
    from onnx import numpy_helper

    found = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if math.prod(tensor.dims) * _WIDEST <= SMALL_BYTES and not tensor.external_data
    }
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            value = numpy_helper.to_array(node.attribute[0].t)
            if value.nbytes <= SMALL_BYTES:
                found[node.output[0]] = value
    return found


def _value(
    node: NodeProto, shapes: dict[str, list[int]], known: Values, model: ModelProto
) -> AnyArray | None:
    if node.op_type == "Shape" and node.input[0] in shapes:
        dims = np.array(shapes[node.input[0]], np.int64)
        ends: dict[str, int] = {str(each.name): int(each.i) for each in node.attribute}
        return dims[ends.get("start", 0) : ends.get("end", len(dims))]
    names = [name for name in node.input if name]
    if node.op_type not in _ARITHMETIC or not names or not all(name in known for name in names):
        return None
    return _evaluate(node, {name: known[name] for name in names}, model)


def _evaluate(node: NodeProto, feeds: Values, model: ModelProto) -> AnyArray | None:
    """Compute one node with ONNX's own reference."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape)
        )
        for name, value in feeds.items()
    ]
    output = onnx.helper.make_tensor_value_info(node.output[0], 0, None)
    graph = onnx.helper.make_graph([node], "one", inputs, [output])
    single = onnx.helper.make_model(graph, opset_imports=list(model.opset_import))
    try:
        results: Any = ReferenceEvaluator(single).run(None, feeds)
    except Exception:  # what cannot be computed stays unknown
        return None
    return np.asarray(results[0])
