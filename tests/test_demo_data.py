"""The demo's files are what digits.json says they are."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from trtbench.data import demo_file, demo_files
from trtbench.errors import InputError

LIMIT_BYTES = 500_000
MODELS = {"fp32": "digits.onnx", "int8": "digits.int8.onnx"}


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return json.loads(demo_file("digits.json").read_text(encoding="utf-8"))


def model(precision: str) -> onnx.ModelProto:
    return onnx.load(demo_file(MODELS[precision]))


def test_the_files_are_there_and_small() -> None:
    assert demo_files() == ("digits.int8.onnx", "digits.json", "digits.npz", "digits.onnx")
    for name in demo_files():
        assert 0 < demo_file(name).stat().st_size < LIMIT_BYTES, name


def test_a_wrong_name_suggests_the_near_miss() -> None:
    with pytest.raises(InputError, match=r"digits\.int8\.onnx\?"):
        demo_file("digits.int4.onnx")


def test_the_record_names_the_bytes(facts: dict[str, Any]) -> None:
    found = {
        name: hashlib.sha256(demo_file(name).read_bytes()).hexdigest() for name in facts["sha256"]
    }
    assert found == facts["sha256"]
    assert set(found) == set(demo_files()) - {"digits.json"}


def test_the_record_tells_how_the_files_were_made(facts: dict[str, Any]) -> None:
    assert {"torch", "numpy", "onnx", "onnxruntime", "scikit-learn"} == set(facts["libraries"])
    assert isinstance(facts["seed"], int)
    assert "CC BY 4.0" in facts["data_licence"]
    assert (Path(__file__).resolve().parents[1] / facts["made_by"]).is_file()


def test_the_held_out_images_are_plain_uint8(facts: dict[str, Any]) -> None:
    with np.load(demo_file("digits.npz"), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    count = facts["split"]["held_out"]
    assert images.dtype == np.uint8
    assert images.shape == (count, 1, 32, 32)
    assert images.max() == 255
    assert labels.shape == (count,)
    assert set(labels.tolist()) == set(range(10))


def test_the_held_out_images_are_the_end_of_the_data_set(facts: dict[str, Any]) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    with np.load(demo_file("digits.npz")) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    assert sum(facts["split"].values()) == len(digits.target)
    assert labels.tolist() == digits.target[-len(labels) :].tolist()
    # The mean over each 4×4 cell of an enlarged image follows the original pixel.
    cells = images.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)) * (16 / 255)
    originals = digits.images[-len(labels) :]
    assert np.corrcoef(cells.ravel(), originals.ravel())[0, 1] > 0.95


@pytest.mark.parametrize("precision", MODELS)
def test_a_model_is_one_checked_file_for_tensorrt_8_6(precision: str) -> None:
    loaded = model(precision)
    onnx.checker.check_model(loaded, full_check=True)
    assert [(entry.domain, entry.version) for entry in loaded.opset_import] == [("", 17)]
    assert loaded.ir_version <= 8
    assert not any(
        tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in loaded.graph.initializer
    )


@pytest.mark.parametrize("precision", MODELS)
def test_the_batch_is_dynamic_and_the_names_are_promised(precision: str) -> None:
    graph = model(precision).graph
    (image,), (logits,) = graph.input, graph.output
    assert (image.name, logits.name) == ("image", "logits")
    assert image.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim] == [
        "batch",
        1,
        32,
        32,
    ]
    assert logits.type.tensor_type.shape.dim[0].dim_param == "batch"
    session = onnxruntime.InferenceSession(
        demo_file(MODELS[precision]), providers=["CPUExecutionProvider"]
    )
    for batch in (1, 3):
        (result,) = session.run(None, {"image": np.zeros((batch, 1, 32, 32), np.float32)})
        assert result.shape == (batch, 10)


@pytest.mark.parametrize("precision", MODELS)
def test_onnx_runtime_reaches_the_recorded_accuracy(facts: dict[str, Any], precision: str) -> None:
    with np.load(demo_file("digits.npz")) as arrays:
        images, labels = arrays["images"].astype(np.float32) / 255, arrays["labels"]
    session = onnxruntime.InferenceSession(
        demo_file(MODELS[precision]), providers=["CPUExecutionProvider"]
    )
    (logits,) = session.run(["logits"], {"image": images})
    recorded = facts["accuracy"][precision]
    correct = int((logits.argmax(axis=1) == labels).sum())
    # Kernels differ between processors, so one image on the border may fall either way.
    assert abs(correct - recorded["correct"]) <= 1
    assert recorded["of"] == len(labels)
    assert recorded["fraction"] == pytest.approx(recorded["correct"] / recorded["of"])
    assert recorded["fraction"] > 0.95


def test_int8_is_symmetric_and_leaves_the_biases_alone() -> None:
    graph = model("int8").graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    quantizers = [node for node in graph.node if node.op_type == "QuantizeLinear"]
    dequantizers = [node for node in graph.node if node.op_type == "DequantizeLinear"]
    assert quantizers
    for node in (*quantizers, *dequantizers):
        zero_point = arrays[node.input[2]]
        assert zero_point.dtype == np.int8, node.name
        assert not zero_point.any(), node.name
    stored = [arrays[node.input[0]] for node in dequantizers if node.input[0] in arrays]
    assert len(stored) == 5
    assert all(array.dtype == np.int8 and array.ndim > 1 for array in stored)


def test_all_but_the_first_and_the_last_layer_is_quantized_per_channel() -> None:
    graph = model("int8").graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    first, *middle, last = (node for node in graph.node if node.op_type in ("Conv", "Gemm"))
    assert first.input[0] == "image"
    assert {arrays[node.input[1]].dtype for node in (first, last)} == {np.dtype(np.float32)}
    assert len(middle) == 5
    for node in middle:
        data, weight = (makers[name] for name in node.input[:2])
        assert data.op_type == weight.op_type == "DequantizeLinear"
        assert arrays[weight.input[1]].size == arrays[weight.input[0]].shape[0]


def test_fp32_has_no_trace_of_quantization() -> None:
    assert not any("Linear" in node.op_type for node in model("fp32").graph.node)
