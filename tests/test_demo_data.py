"""The demo's files are what digits.json says they are."""

import hashlib
import json
from typing import Any

import numpy as np
import onnxruntime
import pytest

from trtbench.data import demo_file

MODELS = {"fp32": "digits.onnx", "int8": "digits.int8.onnx"}


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return json.loads(demo_file("digits.json").read_text(encoding="utf-8"))


def test_the_record_names_the_bytes(facts: dict[str, Any]) -> None:
    found = {
        name: hashlib.sha256(demo_file(name).read_bytes()).hexdigest() for name in facts["sha256"]
    }
    assert found == facts["sha256"]
    every = {each.name for each in demo_file("digits.json").parent.iterdir()}
    assert set(found) == every - {"digits.json"}


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
