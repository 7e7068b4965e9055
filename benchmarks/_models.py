"""ONNX models of known cost for the benchmarks, made with onnx.helper alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def conv_chain(path: Path, *, layers: int, channels: int = 8, size: int = 8) -> Path:
    """A chain of identical convolutions: with N layers, one more costs 1/N more."""
    generator = np.random.default_rng(0)
    scale = 1 / np.sqrt(9 * channels)
    nodes, weights = [], []
    name = "input"
    for index in range(layers):
        weight = generator.normal(0, scale, (channels, channels, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{index}"))
        output = "output" if index == layers - 1 else f"x{index}"
        nodes.append(
            helper.make_node(
                "Conv", [name, f"w{index}"], [output], kernel_shape=[3, 3], pads=[1, 1, 1, 1]
            )
        )
        name = output
    shape = [1, channels, size, size]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def sigmoid_chain(path: Path, *, layers: int, size: int = 8) -> Path:
    """A chain of the cheapest operators: about a microsecond each, whatever the threads."""
    names = ["input", *(f"x{index}" for index in range(layers - 1)), "output"]
    nodes = [helper.make_node("Sigmoid", [one], [other]) for one, other in pairwise(names)]
    shape = [1, 3, size, size]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names[::layers]
    ]
    graph = helper.make_graph(nodes, "sigmoids", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
