"""The demo's files are what digits.json says they are."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from trtbench.data import demo_file, demo_files

MODELS = {"fp32": "digits.onnx", "int8": "digits.int8.onnx"}


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return json.loads(demo_file("digits.json").read_text(encoding="utf-8"))


def test_the_record_names_the_bytes(facts: dict[str, Any]) -> None:
    found = {
        name: hashlib.sha256(demo_file(name).read_bytes()).hexdigest() for name in facts["sha256"]
    }
    assert found == facts["sha256"]
    assert set(found) == set(demo_files()) - {"digits.json"}


@pytest.mark.parametrize("precision", MODELS)
def test_a_model_is_one_file_for_tensorrt_8_6_with_a_dynamic_batch(precision: str) -> None:
    loaded = onnx.load(demo_file(MODELS[precision]))
    onnx.checker.check_model(loaded, full_check=True)
    assert [(entry.domain, entry.version) for entry in loaded.opset_import] == [("", 17)]
    assert loaded.ir_version <= 8
    stored = {tensor.data_location for tensor in loaded.graph.initializer}
    assert onnx.TensorProto.EXTERNAL not in stored
    (image,), (logits,) = loaded.graph.input, loaded.graph.output
    assert (image.name, logits.name) == ("image", "logits")
    dims = [d.dim_param or d.dim_value for d in image.type.tensor_type.shape.dim]
    assert dims == ["batch", 1, 32, 32]


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
