"""What TensorRT's ONNX parser refuses in quantized models, looked for before it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

_ACCEPTED = ("INT8", "FLOAT8E4M3FN", "INT4", "FLOAT4E2M1")


def refusals(model: ModelProto) -> tuple[str, ...]:
    """Name every Q/DQ node that TensorRT would refuse, and why."""
    from onnx import TensorProto

    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        name = node.name or node.output[0]
        weights = stored.get(node.input[0])
        zero = stored.get(node.input[2]) if len(node.input) > 2 else None
        for tensor in (weights if node.op_type == "DequantizeLinear" else None, zero):
            kind = TensorProto.DataType.Name(tensor.data_type) if tensor is not None else "INT8"
            if kind not in _ACCEPTED:
                found.append(f"{name}: the type is {kind}, TensorRT takes {' '.join(_ACCEPTED)}")
                break
        if zero is not None and not _all_zero(zero):
            found.append(f"{name}: the zero point is not zero")
    return tuple(found)


def quantized_operators(model: ModelProto) -> dict[str, int]:
    """Count the nodes that read through a DequantizeLinear, by kind; control flow is none."""
    from collections import Counter

    from trtbench.build.onnx_file import subgraphs

    sources = {name: node.op_type for node in model.graph.node for name in node.output}
    kinds = Counter(
        node.op_type
        for node in model.graph.node
        if node.op_type != "QuantizeLinear"
        and not any(True for _ in subgraphs(node))
        and any(sources.get(name) == "DequantizeLinear" for name in node.input)
    )
    return dict(kinds.most_common())


def _all_zero(tensor: TensorProto) -> bool:
    from onnx import numpy_helper

    return not np.any(numpy_helper.to_array(tensor).astype(np.float32))
