"""What ONNX says about the types of operators, and small changes that make a model easy to cast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.errors import InputError, first_line

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto
    from onnx.defs import OpSchema

    FormalParameter = OpSchema.FormalParameter

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
"""Numbers of TensorProto.DataType, which ONNX will never change."""

TYPES = {"fp16": FLOAT16, "bf16": BFLOAT16}
FP16_MAX = 65504.0

LOWEST_OPSET = {"fp16": 13, "bf16": 22}
"""Below 13, operators lack types and rules are older; BF16 came to Conv and pooling with 22."""
QDQ_OPSET = 19
"""Q/DQ nodes take FP16 from here on."""

_WORDS = {FLOAT: "tensor(float)", FLOAT16: "tensor(float16)", BFLOAT16: "tensor(bfloat16)"}
_TYPE_BY_ATTRIBUTE = ("Cast", "ConstantOfShape")
"""Operators whose output type is an attribute that is changed with it."""


@dataclass(frozen=True, kw_only=True)
class Edges:
    """The floating-point type of each input and output; ``None`` where the type does not matter."""

    inputs: tuple[int | None, ...] = ()
    outputs: tuple[int | None, ...] = ()


def edges_of(
    node: NodeProto, types: dict[str, int], *, model: ModelProto, low: int
) -> tuple[Edges | None, str | None]:
    """Tell what a node's edges become in the low type, or why it must stay FP32.

    Neither is given for a node that has no FP32 edge at all.
    """
    floats = [name for name in (*node.input, *node.output) if types.get(name) == FLOAT]
    if not floats:
        return None, None
    schema = schema_of(node, model)
    if schema is None:
        return None, f"ONNX does not define {node.domain or 'ai.onnx'}:{node.op_type}"
    inputs = tuple(
        _becomes(_formal(schema.inputs, index), low) if types.get(name) == FLOAT else None
        for index, name in enumerate(node.input)
    )
    tied = {_formal(schema.inputs, index).type_str for index in range(len(node.input))}
    outputs = tuple(
        _output(node, _formal(schema.outputs, index), tied, low)
        if types.get(name) == FLOAT
        else None
        for index, name in enumerate(node.output)
    )
    if low not in (*inputs, *outputs):
        return None, f"{node.op_type} has no such type in opset {_version(model, node.domain)}"
    return Edges(inputs=inputs, outputs=outputs), None


def _becomes(formal: FormalParameter, low: int) -> int:
    return low if _WORDS[low] in formal.types else FLOAT


def _output(node: NodeProto, formal: FormalParameter, tied: set[str], low: int) -> int:
    """Let an output follow the inputs it shares a type with; attributes set other types."""
    if formal.type_str in tied or node.op_type in _TYPE_BY_ATTRIBUTE:
        return _becomes(formal, low)
    return FLOAT


def _formal(formals: Sequence[FormalParameter], index: int) -> FormalParameter:
    return formals[min(index, len(formals) - 1)]  # the last one may be repeated


def schema_of(node: NodeProto, model: ModelProto) -> OpSchema | None:
    """Find the definition of an operator in the opset of the model."""
    import onnx

    try:
        return onnx.defs.get_schema(node.op_type, _version(model, node.domain) or 0, node.domain)
    except onnx.defs.SchemaError:
        return None


def _version(model: ModelProto, domain: str) -> int | None:
    versions = {entry.domain: entry.version for entry in model.opset_import}
    return versions.get(domain if domain != "ai.onnx" else "")


def tensor_types(model: ModelProto) -> dict[str, int]:
    """Find the element type of every tensor of the outer graph."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(_without_large_weights(model))
    graph = inferred.graph
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.value_info, *graph.input, *graph.output)
        if value.type.HasField("tensor_type")
    }
    types.update({tensor.name: tensor.data_type for tensor in graph.initializer})
    return types


def _without_large_weights(model: ModelProto) -> ModelProto:
    """Make a copy that shape inference can take, which must not hold 2 GiB."""
    from onnx import ModelProto as Model
    from onnx import TensorProto

    from trtbench.build.onnx_file import SMALL_BYTES

    light = Model()
    stored = list(model.graph.initializer)
    del model.graph.initializer[:]
    light.CopyFrom(model)
    model.graph.initializer.extend(stored)
    for tensor in stored:
        if len(tensor.raw_data) <= SMALL_BYTES:
            light.graph.initializer.append(tensor)
        else:
            dims = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
            light.graph.initializer.append(dims)
    return light


def raise_opset(model: ModelProto, *, precision: str) -> ModelProto:
    """Bring a model to the lowest opset that has the types it is to be cast to."""
    quantized = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    needed = max(LOWEST_OPSET[precision], QDQ_OPSET if quantized else 0)
    return at_opset(model, needed, what=precision)


def at_opset(model: ModelProto, needed: int, *, what: str) -> ModelProto:
    """Bring a model to an opset, unless it has that one or a later one."""
    import onnx

    have = _version(model, "") or 0
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


def name_nodes(model: ModelProto) -> None:
    """Name every node, by kind and place where it has no name, so that each can be spoken of."""
    taken: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in taken:
            name += "_"
        node.name = name
        taken.add(name)


def lift_constants(model: ModelProto) -> None:
    """Turn floating-point Constant nodes into stored weights."""
    from onnx import numpy_helper

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


def rounded(values: NDArray[np.float32], low: int) -> NDArray[np.float32]:
    """Round to the low type, to nearest even, and come back to float32."""
    return as_low(values, low).astype(np.float32)


def as_low(values: NDArray[np.float32], low: int) -> AnyArray:
    """Convert to numpy's FP16, or to the BF16 that onnx brings along."""
    if low == FLOAT16:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    import ml_dtypes

    return values.astype(ml_dtypes.bfloat16)


def largest(tensor: TensorProto) -> float:
    """Find the largest finite magnitude that a tensor holds."""
    from onnx import numpy_helper

    values = np.abs(numpy_helper.to_array(tensor))
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0
