"""Types that ONNX Runtime computed in, where they are none of those that a file holds."""

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import typed_models
from command import QUICK, Say
from models import tiny_model
from quick import bench
from trtbench.core.properties import title_of_record
from trtbench.data import demo_file
from trtbench.runtimes.onnxruntime import types_of_trace
from trtbench.store.store import Store


def event(operator: str, *kinds: str) -> dict[str, Any]:
    shapes = [{kind: [1, 8]} for kind in kinds]
    arguments = {"op_name": operator, "input_type_shape": shapes}
    return {"cat": "Node", "name": "node_kernel_time", "args": arguments}


@pytest.mark.parametrize(
    ("events", "held", "ran"),
    [
        ([event("Cast", "float16"), event("Conv", "float", "float")], {"fp16"}, {"fp32"}),
        ([event("FusedConv", "float16"), event("Cast", "float")], {"fp16"}, {"fp16"}),
        ([event("QLinearConv", "uint8", "float"), event("MatMul", "float")], {"int8"},
         {"int8", "fp32"}),
        ([event("MatMulNBits", "float", "uint8")], {"int4"}, {"int4"}),
        ([event("MatMulNBits", "float", "uint8")], {"int8"}, {"int8"}),
        ([event("Relu", "float")], {"fp16"}, set()),
        ([{"cat": "Session", "name": "model_run"}], {"fp16"}, set()),
    ],
)  # fmt: skip
def test_a_trace_tells_what_multiplied(events: list[Any], held: set[str], ran: set[str]) -> None:
    assert types_of_trace(events, frozenset(held)) == ran


def test_a_check_says_where_types_were_not_computed_in(say: Say) -> None:
    say("quantize", demo_file("digits.onnx"), "--precision", "fp16", "-o", "half.onnx", status=0)
    ran = say("bench", "half.onnx", *QUICK, status=0).words
    said = say("check", demo_file("digits.onnx"), "half.onnx", "--random", 4, status=0).words
    assert ("was computed in fp32" in said) == ("fp16, computed in fp32" in ran)


def test_what_no_node_computes_in_is_said_beside_the_label(tmp_path: Path) -> None:
    """Q/DQ around a product means FP32 where ONNX Runtime may not fuse them."""
    store = Store(tmp_path / "store")
    path = typed_models.quantized(tmp_path / "net.onnx", TensorProto.INT8)
    run = bench(path, store, options={"optimization": "disable"})
    assert run.record.facts["computes_in"] == "fp32"
    assert "int8, computed in fp32" in title_of_record(run.record)
    [finding] = [each for each in run.findings if each.code == "H26"]
    assert finding.evidence == {"held": "int8", "ran": "fp32"}
    fused = bench(path, store)
    assert "computes_in" not in fused.record.facts
    assert "H26" not in {each.code for each in fused.findings}
    assert "computes_in" not in bench(tiny_model(tmp_path / "plain.onnx"), store).record.facts
