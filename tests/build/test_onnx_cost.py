"""What a network costs by its ONNX file: operations, bytes and shapes."""

from pathlib import Path

import numpy as np
import pytest

import models
from trtbench.analysis.onnx_graph import OnnxNode, OnnxTensor, cost_from_model, flops_of
from trtbench.core.errors import InputError
from trtbench.data import demo_file
from trtbench.models.onnx_model import read_onnx


def tensor(*shape: int, dtype: str = "float32", weight: bool = False) -> OnnxTensor:
    return OnnxTensor(name="t", dtype=dtype, shape=shape, weight=weight)


def node(op: str, inputs: list[OnnxTensor], output: OnnxTensor, **attributes: object) -> OnnxNode:
    return OnnxNode(
        name="n", op=op, inputs=tuple(inputs), outputs=(output,), attributes=attributes,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "flops"),
    [
        # 2 · N · K · C · R · S · P · Q, and one addition of the bias per output
        (node("Conv", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)], tensor(1, 4, 8, 8)), 13824),
        (
            node("Conv", [tensor(1, 3, 8, 8), tensor(4, 3, 3, 3), tensor(4)], tensor(1, 4, 8, 8)),
            13824 + 256,
        ),
        # depthwise: the weight's second dimension is C / groups
        (node("Conv", [tensor(1, 8, 4, 4), tensor(8, 1, 3, 3)], tensor(1, 8, 4, 4)), 2304),
        (node("ConvTranspose", [tensor(1, 2, 4, 4), tensor(2, 3, 2, 2)], tensor(1, 3, 8, 8)), 768),
        (node("MatMul", [tensor(2, 5, 7), tensor(7, 11)], tensor(2, 5, 11)), 2 * 2 * 5 * 7 * 11),
        (node("Gemm", [tensor(7, 5), tensor(7, 11)], tensor(5, 11), transA=1), 2 * 5 * 7 * 11),
        (
            node("Einsum", [tensor(2, 3), tensor(3, 4)], tensor(2, 4), equation="ij,jk->ik"),
            2 * 2 * 3 * 4,
        ),
        (
            node("Attention", [tensor(1, 4, 16, 8)] * 3, tensor(1, 4, 16, 8)),
            4 * 1 * 4 * 16 * 16 * 8,
        ),
        (node("LSTM", [tensor(5, 2, 3), tensor(1, 16, 3), tensor(1, 16, 4)], tensor(5)), 2240),
        (node("MaxPool", [tensor(1, 1, 4, 4)], tensor(1, 1, 2, 2), kernel_shape=(2, 2)), 16),
        (node("GlobalAveragePool", [tensor(1, 2, 4, 4)], tensor(1, 2, 1, 1)), 32),
        (node("Relu", [tensor(3, 4)], tensor(3, 4)), 12),
        (node("Reshape", [tensor(3, 4)], tensor(12)), 0),
        (node("Unheard", [tensor(3, 4)], tensor(12)), None),
        (node("MatMul", [tensor(2, 3), tensor(3, 4)], OnnxTensor(name="y")), None),
    ],
)
def test_operations_by_hand(made: OnnxNode, flops: int | None) -> None:
    assert flops_of(made) == flops


def test_the_demo_network_has_the_cost_its_maker_states_and_quantized_costs_the_same() -> None:
    model, quantized = (read_onnx(demo_file(f"digits{kind}.onnx")) for kind in ("", ".int8"))
    cost = cost_from_model(model)
    # Six 3×3 convolutions and a linear layer, 32×32 pixels, two strides of 2.
    shapes = [(1, 16, 32), (16, 32, 16), (32, 32, 16), (32, 64, 8), (64, 64, 8), (64, 64, 8)]
    macs = sum(9 * a * b * size * size for a, b, size in shapes) + 640
    others = cost.flops - 2 * macs
    assert 0 < others < 0.01 * cost.flops  # biases, ReLU and pooling
    weights = sum(9 * a * b + b for a, b, _ in shapes) + 650
    assert model.parameters == weights
    assert model.weight_bytes == 4 * weights
    assert cost.unknown == ()
    convolutions = [
        sorted(node.precision for node in each.nodes if node.op == "Conv")
        for each in (model, quantized)
    ]
    assert convolutions == [["fp32"] * 6, ["fp32"] + ["int8 (Q/DQ)"] * 5], "the first is kept"
    assert quantized.parameters == weights  # scales and zero points are none
    assert cost_from_model(quantized).flops == cost.flops
    assert quantized.weight_bytes < 0.3 * model.weight_bytes


def test_operations_and_activations_grow_with_the_batch_and_weights_do_not() -> None:
    one, eight = (read_onnx(demo_file("digits.onnx"), batch=batch) for batch in (1, 8))
    costs = [cost_from_model(model) for model in (one, eight)]
    assert costs[1].flops == 8 * costs[0].flops
    assert one.assumed == {"batch": 1}
    assert eight.assumed == {"batch": 8}
    for small, large in zip(costs[0].nodes, costs[1].nodes, strict=True):
        assert small.weight_bytes == large.weight_bytes
        assert small.written_bytes is not None
        assert large.written_bytes == 8 * small.written_bytes


def test_shapes_may_be_given_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    path = models.multi_input_model(tmp_path / "text.onnx")
    model = read_onnx(path, shapes={"input_ids": (2, 7), "attention_mask": (2, 7)})
    gather = next(each for each in model.nodes if each.op == "Gather")
    assert gather.outputs[0].dims == (2, 7, 8)
    with pytest.raises(InputError, match="no input called 'input_id'"):
        read_onnx(path, shapes={"input_id": (2, 7)})
    with pytest.raises(InputError, match="wrong rank"):
        read_onnx(path, shapes={"input_ids": (2, 7, 1)})


HALF = """net (float[batch, 6, 4, 4] x) => (float[batch, 2, 4, 4] y) {
    shape = Shape(x)
    channels = Gather(shape, one)
    more = Add(channels, one)
    half = Div(more, two)
    part = Slice(x, zero, half, one)
    y = Conv(part, w)
}"""
"""The first half of the channels, cut as an exporter writes it, then a 1×1 convolution."""


def test_shapes_are_found_behind_arithmetic_with_dimensions(tmp_path: Path) -> None:
    weights = {"zero": [0], "one": [1], "two": [2], "w": np.ones((2, 3, 1, 1))}
    model = read_onnx(models.save_text(tmp_path / "half.onnx", HALF, **weights), batch=5)
    cost = cost_from_model(model)
    assert model.nodes[0].op == "Shape"  # nothing is taken out of the listing
    assert model.nodes[4].outputs[0].dims == (5, 3, 4, 4), model.notes
    assert cost.nodes[-1].flops == 2 * 5 * 2 * 3 * 4 * 4
    assert cost.unknown == ()


def test_external_weights_are_counted_without_being_read(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "m.onnx")
    whole = read_onnx(models.conv_model(tmp_path / "w.onnx", channels=16, layers=3))
    models.external_data_path(path).unlink()
    model = read_onnx(path)
    assert model.parameters == whole.parameters
    assert cost_from_model(model).flops == cost_from_model(whole).flops
    assert model.external_files == ("m.onnx.data",)
