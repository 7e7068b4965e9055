"""Which values the inputs of an ONNX file may have, as far as its graph tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trtbench.build.onnx_file import load_onnx

if TYPE_CHECKING:
    from onnx import ModelProto

_LIMITS = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}
"""ONNX's numbers of integer types."""

_SAME_VALUES = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def index_limits(model: ModelProto) -> dict[str, int]:
    """Count, for inputs that look up rows of a stored table, how many rows there are."""
    sizes = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    origin = {value.name: value.name for value in model.graph.input if value.name not in sizes}
    limits: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in _SAME_VALUES and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        if node.op_type != "Gather" or node.input[0] not in sizes or node.input[1] not in origin:
            continue
        axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
        name, rows = origin[node.input[1]], int(sizes[node.input[0]][axis])
        limits[name] = min(rows, limits.get(name, rows))
    return limits


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
