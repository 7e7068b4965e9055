"""The demo's files are what digits.json says they are."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from trtbench.core.errors import InputError
from trtbench.data import demo_file, demo_files

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
