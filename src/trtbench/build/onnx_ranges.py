"""Which values the inputs of an ONNX file were quantized for, as far as its graph tells."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trtbench.build.onnx_file import load_onnx

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
