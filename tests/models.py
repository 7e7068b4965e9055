"""Tiny ONNX models for the tests, made with onnx.helper alone.

Every model is opset 17 and IR 8, with seeded weights, so that the same call writes the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
CUSTOM_DOMAIN = "com.example.unheard"

Dimension = int | str


def conv_model(
    path: Path,
    *,
    channels: int = 8,
    size: Dimension = 16,
    layers: int = 2,
    batch: Dimension = "batch",
) -> Path:
    """Write a chain of 3×3 convolutions: "image" [batch, 3, size, size] to "logits" [batch, 10]."""
    rng = np.random.default_rng(0)
    nodes, weights, last, width = [], [], "image", 3
    for index in range(layers):
        scale = np.sqrt(2 / (9 * width))
        weights.append(_weight(f"conv{index}.weight", scale * _normal(rng, channels, width, 3, 3)))
        nodes += [
            helper.make_node(
                "Conv", [last, f"conv{index}.weight"], [f"conv{index}"], pads=[1, 1, 1, 1]
            ),
            helper.make_node("Relu", [f"conv{index}"], [f"relu{index}"]),
        ]
        last, width = f"relu{index}", channels
    weights.append(_weight("head.weight", _normal(rng, width, 10)))
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("MatMul", ["features", "head.weight"], ["logits"]),
    ]
    inputs = [_value("image", TensorProto.FLOAT, [batch, 3, size, size])]
    outputs = [_value("logits", TensorProto.FLOAT, [batch, 10])]
    return _save(path, nodes=nodes, weights=weights, inputs=inputs, outputs=outputs)


def slow_model(
    path: Path, *, width: int = 512, layers: int = 2, rows: Dimension = 64, passes: int = 16
) -> Path:
    """Write a chain of layers × passes matrix products: "x" [rows, width] to "y".

    One inference costs 2 · rows · width² · layers · passes floating-point operations: about
    1 GFLOP, tens of milliseconds on one core, by default. A pass reuses the weights of the one
    before, so the time can grow without the file.
    """
    rng = np.random.default_rng(0)
    weights = [_weight(f"weight{index}", _reflection(rng, width)) for index in range(layers)]
    names = ["x", *(f"product{index}" for index in range(layers * passes - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[index], f"weight{index % layers}"], [names[index + 1]])
        for index in range(layers * passes)
    ]
    inputs = [_value("x", TensorProto.FLOAT, [rows, width])]
    outputs = [_value("y", TensorProto.FLOAT, [rows, width])]
    return _save(path, nodes=nodes, weights=weights, inputs=inputs, outputs=outputs)


def threshold_model(path: Path, *, above: float, batch: Dimension = "batch") -> Path:
    """Write "x" [batch, 30] to the "places" of values above a limit, as many as there are, and "y".

    The places are floating-point numbers, so that they look like scores of classes.
    """
    text = f"""net (float[{batch}, 30] x) => (float[found] places, float[{batch}, 30] y) {{
        mask = Greater(x, limit)
        found = NonZero(mask)
        rows, columns = Split<axis = 0>(found)
        whole = Squeeze(columns)
        places = Cast<to = 1>(whole)
        y = Relu(x)
    }}"""
    return save_text(path, text, limit=[above])


def linear_model(
    path: Path, *, inputs: int = 16, outputs: int = 3, name: str = "y", divisor: float = 1.0
) -> Path:
    """Write y = x W + 0 / divisor: NaN for a divisor of zero."""
    weight = np.linspace(-1, 1, inputs * outputs).reshape(inputs, outputs)
    numbers = {"w": weight, "zero": np.zeros(1), "d": np.array([divisor])}
    steps = [("MatMul", ["x", "w"], "p"), ("Div", ["zero", "d"], "q"), ("Add", ["p", "q"], name)]
    return _save(
        path,
        nodes=[helper.make_node(op, given, [made]) for op, given, made in steps],
        inputs=[_value("x", TensorProto.FLOAT, ["batch", inputs])],
        outputs=[_value(name, TensorProto.FLOAT, ["batch", outputs])],
        weights=[_weight(key, value.astype(np.float32)) for key, value in numbers.items()],
    )


def tiny_model(path: Path, *, batch: Dimension = "batch") -> Path:
    """Write one small product and a Relu, far below 50 µs: "x" [batch, 16] to "y" [batch, 4]."""
    ends = f"(float[{batch}, 16] x) => (float[{batch}, 4] y)"
    weight = _normal(np.random.default_rng(0), 16, 4)
    text = f"net {ends} {{product = MatMul(x, weight) y = Relu(product)}}"
    return save_text(path, text, weight=weight)


def identity(path: Path, *inputs: tuple[str, int, list[Dimension]]) -> Path:
    """Write a model that gives its inputs back: (name, type, dimensions) each."""
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name, _, _ in inputs]
    return _save(
        path,
        nodes=nodes,
        weights=[],
        inputs=[_value(name, kind, dims) for name, kind, dims in inputs],
        outputs=[_value(f"{name}_out", kind, dims) for name, kind, dims in inputs],
    )


def multi_input_model(path: Path, *, vocabulary: int = 100, width: int = 8) -> Path:
    """Write a toy text encoder with four inputs of three types and two dynamic dimensions.

    "input_ids" and "attention_mask" are int64 [batch, sequence], "use_scale" is bool [1], "scale"
    is float [batch, 1]; "embedding" is float [batch, width]. An id outside the vocabulary fails.
    """
    text = f"""net (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask,
                 bool[1] use_scale, float[batch, 1] scale) => (float[batch, {width}] embedding) {{
        tokens = Gather(table, input_ids)
        mask = Cast<to = 1>(attention_mask)
        mask3 = Unsqueeze(mask, last_axis)
        kept = Mul(tokens, mask3)
        pooled = ReduceSum<keepdims = 0>(kept, sequence_axis)
        scaled = Mul(pooled, scale)
        embedding = Where(use_scale, scaled, pooled)
    }}"""
    table = _normal(np.random.default_rng(0), vocabulary, width)
    return save_text(path, text, table=table, last_axis=[2], sequence_axis=[1])


def external_data_model(path: Path) -> Path:
    """Write a model whose weights lie beside it, in a file of the same name plus ``.data``."""
    return move_weights_beside(conv_model(path, channels=16, layers=3))


def move_weights_beside(path: Path) -> Path:
    """Move the weights of a model into a file of their own."""
    model = onnx.load(path)
    location = external_data_path(path)
    location.unlink(missing_ok=True)  # onnx appends to a file that is already there
    onnx.save_model(
        model, path, save_as_external_data=True, location=location.name, size_threshold=0
    )
    return path


def external_data_path(path: Path) -> Path:
    """Return where ``external_data_model`` puts the weights of the model at this path."""
    return path.with_name(path.name + ".data")


def unsupported_operator_model(path: Path) -> Path:
    """Write a well-formed model with an operator that no runtime knows: "x" [batch, 4] to "y"."""
    ends = "(float[batch, 4] x) => (float[batch, 4] y)"
    return save_text(path, f"net {ends} {{[strange] y = {CUSTOM_DOMAIN}.Unheard(x)}}")


def save_graph(
    graph: onnx.GraphProto, path: Path, *, check: bool = True, opset: int = OPSET
) -> Path:
    """Write a graph as a model of an opset and of the least IR for it, once checked."""
    others = sorted({node.domain for node in graph.node} - {""})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(each, 1) for each in others)]
    ir_version = IR_VERSION if opset <= OPSET else IR_VERSION + 1
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    if check:
        onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def save_text(path: Path, text: str, *, check: bool = True, **weights: object) -> Path:
    """Write a graph in ONNX's text form: ``net (float[n, 3] x) => (float[n, 3] y) {y = Relu(x)}``.

    Numbers among the weights are stored as FP32 if they are floating-point.
    """
    graph = onnx.parser.parse_graph(text)
    graph.name = path.stem
    for node in graph.node:
        if not node.domain:  # the parser sets it, and helper.make_node does not
            node.ClearField("domain")
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    graph.initializer.extend(
        numpy_helper.from_array(a.astype(np.float32) if a.dtype == np.float64 else a, name)
        for name, a in arrays.items()
    )
    return save_graph(graph, path, check=check)


def truncate(path: Path, *, keep: float = 0.5) -> Path:
    """Cut a file in place to this fraction of its bytes, as an interrupted copy would."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def _reflection(rng: np.random.Generator, width: int) -> np.ndarray:
    # A dense orthogonal matrix that costs nothing to make: a chain of them, however long, keeps
    # the values in range.
    axis = _normal(rng, width)
    return np.eye(width) - np.outer(axis, axis) * (2 / (axis @ axis))


def _weight(name: str, values: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float32), name)


def _value(name: str, kind: int, shape: Sequence[Dimension]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _save(
    path: Path,
    *,
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
) -> Path:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, initializer=weights)
    return save_graph(graph, path)
