"""Small ONNX models that carry a precision in their own types, made with onnx.helper alone."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from models import save_graph


def typed(path: Path, kind: int, *, opset: int = 17) -> Path:
    """Write a product whose weights and input are of one type: "x" [4, 32] to "y" [4, 32]."""
    values = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    weight = helper.make_tensor("weight", kind, values.shape, values.flatten())
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["y"], name="product")]
    return _save(path, nodes, [weight], kind=kind, opset=opset)


def quantized(path: Path, kind: int, *, opset: int = 19) -> Path:
    """Write a product between Q/DQ pairs with scales of our own: "x" [4, 32] to "y" [4, 32]."""
    values = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    scale = numpy_helper.from_array(np.float32(0.05), "scale")
    zero = helper.make_tensor("zero", kind, [], [0])
    weight = numpy_helper.from_array(values, "weight")
    nodes = []
    for name in ("x", "weight"):
        nodes += [
            helper.make_node("QuantizeLinear", [name, "scale", "zero"], [f"{name}_q"]),
            helper.make_node("DequantizeLinear", [f"{name}_q", "scale", "zero"], [f"{name}_dq"]),
        ]
    nodes.append(helper.make_node("MatMul", ["x_dq", "weight_dq"], ["y"], name="product"))
    return _save(path, nodes, [scale, zero, weight], kind=TensorProto.FLOAT, opset=opset)


def _save(path: Path, nodes: list, weights: list, *, kind: int, opset: int) -> Path:
    x, y = (helper.make_tensor_value_info(name, kind, [4, 32]) for name in "xy")
    graph = helper.make_graph(nodes, "net", [x], [y], initializer=weights)
    return save_graph(graph, path, check=False, opset=opset)
