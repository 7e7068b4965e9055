"""Nodes that ONNX Runtime runs: timed by its profiler in order, and the types it computed in."""

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import typed_models
from command import QUICK, Say
from models import conv_model, tiny_model
from quick import bench
from trtbench.core.properties import title_of_record
from trtbench.data import demo_file
from trtbench.layers.join import join_layers
from trtbench.runtimes.onnxruntime import rows_of_runs, types_of_trace
from trtbench.store.store import Store

pytestmark = pytest.mark.process
BRIEF = ("--duration", "50ms", "--warmup", "20ms", "--no-until-steady")


def test_every_node_that_runs_has_a_time(tmp_path: Path, say: Say) -> None:
    model = conv_model(tmp_path / "net.onnx", layers=3, batch=1)
    store = Store(tmp_path / "store")
    run = bench(model, store, options={"optimization": "disable"}, profile=True)
    assert run.layers.count is not None
    assert run.layers.count >= 20
    table = join_layers(run.layers, run.graph)
    kinds = [layer.kind for layer in table.layers]
    assert kinds.count("Conv") == 3
    assert kinds[-1] == "MatMul"
    assert all(layer.seconds > 0 for layer in table.layers)
    assert not list(Path("/tmp").glob(f"trtbench-ort*{run.id}*"))
    slow = conv_model(tmp_path / "slow.onnx", layers=3, batch=64)
    other = bench(slow, store, options={"optimization": "disable"}, profile=True)
    shown = say("diff", "--why", run.id, other.id, status=0).out
    assert "trtbench diff" in shown
    assert "trtbench build" not in shown, "ONNX Runtime builds no engine"


@pytest.mark.parametrize("name", ["digits.onnx", "digits.int8.onnx"])
def test_nodes_that_were_fused_and_renamed_are_known_by_the_model(
    name: str, tmp_path: Path, say: Say
) -> None:
    model = tmp_path / name
    model.write_bytes(demo_file(name).read_bytes())
    shown = say("profile", model, "--batch", "4", *BRIEF, status=0).out
    assert "is another network" not in shown
    assert "without it a query takes" in shown
    run = next((tmp_path / "store" / "runs").iterdir())
    rows = say("profile", run, model, "--all", "--json").json["layers"]
    # Which one ONNX Runtime computes is the processor's choice: Conv, FusedConv, QLinearConv.
    heavy = [row for row in rows if row["kind"].endswith(("Conv", "Gemm"))]
    assert len(heavy) >= 6
    assert all(row["flops"] for row in heavy), [row["name"] for row in heavy]
    assert all("Conv" in row["onnx_nodes"] for row in heavy if "Conv" in row["kind"])
    found = {operator for row in heavy for operator in row["operators"].split()}
    assert found <= {"Conv", "Gemm", "Relu"}, "on x86_64 an activation is fused"


def test_nodes_are_sorted_into_their_runs_without_those_inside_them() -> None:
    def event(cat: str, name: str, ts: int, dur: int) -> dict[str, object]:
        return {"cat": cat, "name": name, "ts": ts, "dur": dur, "args": {"op_name": "Add"}}

    events = [
        event("Session", "model_run", 0, 10), event("Node", "a_kernel_time", 1, 2),
        event("Node", "a_fence_before", 1, 0), event("Node", "if_kernel_time", 4, 5),
        event("Node", "b_kernel_time", 4, 3), event("Node", "c_kernel_time", 9, 1),
        event("Session", "model_run", 20, 10), event("Node", "a_kernel_time", 21, 4),
        event("Node", "lost_kernel_time", 90, 4),
    ]  # fmt: skip
    assert rows_of_runs(events) == [
        [(f"{name} (Add)", pytest.approx(us * 1e-6)) for name, us in times]
        for times in ([("a", 2), ("if", 2), ("b", 3), ("c", 1)], [("a", 4)])
    ]


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
