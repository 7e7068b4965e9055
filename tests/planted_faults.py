"""Small networks with a fault planted in one layer, for the type that cannot bear it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16


def network(path: Path, weights: list[np.ndarray], *, names: str = "fc{}") -> Path:
    """Products with a ReLU after each but the last."""
    nodes, stored, at = [], [], "x"
    for place, values in enumerate(weights):
        last = place == len(weights) - 1
        name = names.format(place)
        stored.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.weight"))
        to = "y" if last else f"{name}.out"
        nodes.append(helper.make_node("MatMul", [at, f"{name}.weight"], [to], name=name))
        if not last:
            nodes.append(helper.make_node("Relu", [to], [f"{name}.act"], name=f"{name}.relu"))
            at = f"{name}.act"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", weights[-1].shape[1]])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def plain_weights(rng: np.random.Generator, layers: int, *, classes: int = 8) -> list[np.ndarray]:
    widths = [WIDTH] * layers + [classes]
    return [rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairwise(widths)]


def overflowing(path: Path, *, layer: int, seed: int, layers: int = 8, factor: float = 4e4) -> Path:
    """A layer whose values go beyond FP16's 65504; the next one brings them back."""
    weights = plain_weights(np.random.default_rng(seed), layers)
    weights[layer] *= factor  # FP16 holds the weights themselves
    weights[layer + 1] /= factor
    return network(path, weights)


def with_outlier(path: Path, *, layer: int, seed: int, layers: int = 8) -> Path:
    """A layer with one large weight on a channel that is always zero.

    It changes nothing, but one scale for all weights of the layer leaves nothing of the others.
    """
    rng = np.random.default_rng(seed)
    weights = plain_weights(rng, layers)
    channel = int(rng.integers(WIDTH))
    weights[layer - 1][:, channel] = 0
    weights[layer][channel, int(rng.integers(weights[layer].shape[1]))] = 150
    return network(path, weights)
