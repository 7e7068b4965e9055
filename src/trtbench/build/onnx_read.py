"""Reads an ONNX file as the plain values that inspection and estimates work on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trtbench.analysis.onnx_graph import BITS, Attribute, OnnxModel, OnnxNode, OnnxTensor
from trtbench.analysis.open_shapes import batch_place, with_assumed_shapes
from trtbench.build.onnx_file import external_files, load_onnx, stored_tensors
from trtbench.build.onnx_shapes import infer_values
from trtbench.domain.spec import NO_TENSORS, TensorSpec
from trtbench.errors import UsageError, first_line, refuse_unknown

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

_NOT_PARAMETERS = ("int64", "int32", "uint64", "uint32", "bool", "str")
_DATA_INPUTS = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "MatMul": 2}
"""Inputs of weighted operators that must be quantized for the operator to be."""

UNTOLD_SHAPE = "unknown shape"

Shapes = Mapping[str, tuple[int, ...]]


def read_onnx(path: Path, *, shapes: Shapes | None = None, batch: int | None = None) -> OnnxModel:
    """Read a model and infer the shape of every tensor, with open dimensions settled.

    An open leading dimension becomes the batch, any other open dimension what its name suggests,
    else 1, unless shapes say otherwise; ``assumed`` tells which.
    """
    model = load_onnx(path, weights=False)
    files = external_files(model)
    specs = tuple(map(_shown, _real_inputs(model)))
    outputs = tuple(map(_shown, model.graph.output))
    counts = _count_stored(model)
    _drop_weights(model)
    assumed = _settle(model, shapes or {}, batch=batch or 1)
    notes: tuple[str, ...] = ()
    values: list[ValueInfoProto] = []
    try:
        values = infer_values(model)
    except Exception as problem:  # onnx raises several kinds, and inspection goes on without
        notes = (f"shapes could not be inferred: {first_line(problem)}",)
    return OnnxModel(
        inputs=specs,
        outputs=outputs,
        nodes=_nodes(model, values),
        opsets={entry.domain: entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        producer=" ".join(filter(None, (model.producer_name, model.producer_version))) or None,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        external_files=files,
        assumed=assumed,
        notes=notes,
        **counts,
    )


def count_parameters(path: Path) -> int:
    """Count stored weights as ``read_onnx`` does, without inferring any shape."""
    return int(_count_stored(load_onnx(path, weights=False))["parameters"])


def dtype_name(kind: int) -> str:
    """Name an ONNX type as numpy does; types numpy lacks keep ONNX's name."""
    from onnx import TensorProto

    name = str(TensorProto.DataType.Name(kind)).lower()
    plain = {"float": "float32", "double": "float64", "string": "str"}
    return plain.get(name, name)


def spec_from_value(value: ValueInfoProto) -> TensorSpec:
    """Describe an input or output."""
    return _spec(value)


def input_specs(model: ModelProto) -> tuple[TensorSpec, ...]:
    """Describe what has to be fed."""
    return tuple(_spec(value) for value in _real_inputs(model))


def _shown(value: ValueInfoProto) -> TensorSpec:
    """Describe a tensor for people: one whose shape the file leaves out is no scalar."""
    spec = _spec(value)
    told = spec.dtype in NO_TENSORS or _shape(value) is not None
    return spec if told else spec.having(shape=(UNTOLD_SHAPE,))


def _spec(value: ValueInfoProto) -> TensorSpec:
    tensor = value.type.tensor_type
    kind = (value.type.WhichOneof("value") or "").removesuffix("_type").replace("_", " ")
    if kind in NO_TENSORS:
        return TensorSpec(name=value.name, dtype=kind, shape=())
    return TensorSpec(
        name=value.name, dtype=dtype_name(tensor.elem_type), shape=_shape(value) or ()
    )


def _shape(value: ValueInfoProto) -> tuple[int | str | None, ...] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None)
        for dim in tensor.shape.dim
    )


def _real_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """List inputs without stored weights, which old files list among them."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


def _settle(model: ModelProto, shapes: Shapes, *, batch: int) -> dict[str, int]:
    """Write numbers over open dimensions of the inputs; give the numbers by name."""
    inputs = {value.name: value for value in _real_inputs(model)}
    for name in shapes:
        refuse_unknown(name, inputs, f"the model has no input {name!r}", listed="inputs")
    assumed: dict[str, int] = {}
    declared = {each.name: each for each in input_specs(model)}
    usual = {
        each.name: each.shape for each in with_assumed_shapes(tuple(declared.values()), batch=False)
    }
    for name, value in inputs.items():
        dims = value.type.tensor_type.shape.dim
        given = shapes.get(name)
        if given is not None and len(given) != len(dims):
            raise UsageError(
                f"the input {name!r} has {len(dims)} dimensions, not {len(given)}",
                facts={"shape": "x".join(map(str, _shape(value) or ()))},
            )
        for axis, dim in enumerate(dims):
            if given is None and dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            label = dim.dim_param or f"{name}[{axis}]"
            size = usual[name][axis]
            counts = axis == batch_place(declared[name])
            guess = batch if counts else size if isinstance(size, int) and size > 0 else 1
            number = given[axis] if given else assumed.get(label, guess)
            if not dim.HasField("dim_value"):
                assumed[label] = number
            dim.dim_value = number
    # What was inferred for open dimensions must not contradict the numbers.
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return assumed


def _count_stored(model: ModelProto) -> dict[str, Any]:
    """Count parameters and bytes; scales and zero points belong to the arithmetic, not to those."""
    helpers = {
        name
        for node in model.graph.node
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for name in node.input[1:]
    }
    parameters: dict[str, int] = {}
    total = 0
    for tensor in stored_tensors(model.graph):
        dtype, elements = dtype_name(tensor.data_type), _elements(tensor)
        total += -(-elements * BITS.get(dtype, 0) // 8)
        if dtype not in _NOT_PARAMETERS and tensor.name not in helpers:
            parameters[dtype] = parameters.get(dtype, 0) + elements
    return {
        "parameters": sum(parameters.values()),
        "weight_bytes": total,
        "weights_by_type": parameters,
    }


def _elements(tensor: TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count


def _drop_weights(model: ModelProto) -> None:
    """Shape inference copies the model; large values, which no shape hangs on, are left out."""
    from trtbench.build.onnx_file import SMALL_BYTES

    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > SMALL_BYTES:
            tensor.ClearField("raw_data")
        if len(tensor.float_data) * 4 > SMALL_BYTES:
            tensor.ClearField("float_data")


def _nodes(model: ModelProto, values: list[ValueInfoProto]) -> tuple[OnnxNode, ...]:
    graph = model.graph
    known = {value.name: value for value in (*graph.input, *graph.output, *values)}
    tensors = {
        name: OnnxTensor(
            name=name,
            dtype=dtype_name(value.type.tensor_type.elem_type) if _is_tensor(value) else None,
            shape=_shape(value) if _is_tensor(value) else None,
        )
        for name, value in known.items()
    }
    for tensor in graph.initializer:
        tensors[tensor.name] = OnnxTensor(
            name=tensor.name,
            dtype=dtype_name(tensor.data_type),
            shape=tuple(tensor.dims),
            weight=True,
        )
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and _is_weight(node.input[0], tensors):
            tensors[node.output[0]] = tensors.get(
                node.output[0], OnnxTensor(name=node.output[0])
            ).having(weight=True)
    sources = {name: node for node in graph.node for name in node.output}
    return tuple(_node(node, index, tensors, sources) for index, node in enumerate(graph.node))


def _is_tensor(value: ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and value.type.tensor_type.elem_type != 0


def _node(
    node: NodeProto, index: int, tensors: Mapping[str, OnnxTensor], sources: Mapping[str, NodeProto]
) -> OnnxNode:
    attributes = {each.name: _attribute(each) for each in node.attribute}
    return OnnxNode(
        name=node.name or f"{node.op_type}_{index}",
        op=node.op_type,
        domain=node.domain,
        inputs=tuple(tensors.get(name, OnnxTensor(name=name)) for name in node.input),
        outputs=tuple(tensors.get(name, OnnxTensor(name=name)) for name in node.output),
        attributes={name: value for name, value in attributes.items() if value is not None},
        quantized=_quantized(node, tensors, sources),
    )


def _quantized(
    node: NodeProto, tensors: Mapping[str, OnnxTensor], sources: Mapping[str, NodeProto]
) -> str | None:
    """Find the type behind the DequantizeLinear nodes that feed a weighted operator."""
    names = list(node.input)[: _DATA_INPUTS.get(node.op_type, 0)]
    behind = [_dequantized(sources.get(name), sources) for name in names]
    if not behind or not all(behind):
        return None
    kinds = {tensors[each].dtype for each in behind if each and each in tensors}
    return kinds.pop() if len(kinds) == 1 else None


def _dequantized(node: NodeProto | None, sources: Mapping[str, NodeProto]) -> str | None:
    """Find the quantized tensor a value comes from, through transposes of weights."""
    while node is not None and node.op_type in ("Transpose", "Reshape", "Identity", "Cast"):
        node = sources.get(node.input[0])
    return node.input[0] if node is not None and node.op_type == "DequantizeLinear" else None


def _attribute(attribute: AttributeProto) -> Attribute | None:
    """Read numbers and texts; tensors and graphs are not looked at here."""
    from onnx import AttributeProto, helper

    kinds = AttributeProto.AttributeType
    if attribute.type in (kinds.INT, kinds.FLOAT):
        return helper.get_attribute_value(attribute)  # type: ignore[no-any-return]
    if attribute.type == kinds.STRING:
        return attribute.s.decode("utf-8", "replace")
    if attribute.type in (kinds.INTS, kinds.FLOATS):
        return tuple(helper.get_attribute_value(attribute))
    return None


def _is_weight(name: str, tensors: Mapping[str, OnnxTensor]) -> bool:
    return name in tensors and tensors[name].weight


_LIMITS = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}
"""ONNX's numbers of integer types."""


def input_ranges(path: Path) -> dict[str, tuple[float, float]]:
    """Read the range of each input from the QuantizeLinear node that takes it, where one does."""
    from onnx import numpy_helper

    model = load_onnx(path)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    inputs = {value.name for value in model.graph.input} - set(stored)
    found: dict[str, tuple[float, float]] = {}
    for node in model.graph.node:
        if node.op_type != "QuantizeLinear" or node.input[0] not in inputs:
            continue
        scale = stored.get(node.input[1])
        zero = stored.get(node.input[2]) if len(node.input) > 2 else None
        if scale is None:
            continue
        steps = numpy_helper.to_array(scale)
        if steps.size != 1:
            continue
        low, high = _LIMITS.get(zero.data_type if zero is not None else 2, (-128, 127))
        offset = float(numpy_helper.to_array(zero).reshape(-1)[0]) if zero is not None else 0.0
        step = float(np.asarray(steps).reshape(-1)[0])
        found[node.input[0]] = ((low - offset) * step, (high - offset) * step)
    return found
