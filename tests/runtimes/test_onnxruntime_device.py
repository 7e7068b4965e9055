"""ONNX Runtime with bound tensors, on the CPU provider, and traces of where nodes ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from trtbench.domain.spec import Length, ModelRef, RunSpec, Warmup
from trtbench.errors import UnavailableError, UsageError
from trtbench.runtimes import onnxruntime
from trtbench.runtimes._ort_device import end_trace, nodes_by_provider


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 4]) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    return RunSpec(
        model=ModelRef(path=str(path), format="onnx"),
        runtime="onnxruntime",
        batch=2,
        warmup=Warmup(floor=Length(iterations=2), until_steady=False),
        stop=Length(iterations=20),
    )


def changed(spec: RunSpec, **changes: Any) -> RunSpec:
    return msgspec.structs.replace(spec, **changes)


def test_bound_tensors_give_the_same_outputs(spec: RunSpec) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    plain, bound = (
        onnxruntime.open_session(changed(spec, options={"io_binding": wish}))
        for wish in ("off", "on")
    )
    for session in (plain, bound):
        session.bind({"x": x})
    np.testing.assert_array_equal(plain.fetch()["y"], bound.fetch()["y"])
    bound.bind({"x": -x})
    np.testing.assert_array_equal(bound.fetch()["y"], -np.maximum(-x, 0))


def test_transfers_can_be_left_out_only_with_bound_tensors(spec: RunSpec, tmp_path: Path) -> None:
    asked = changed(spec, options={"io_binding": "on"}, transfers=False)
    outcome, times = onnxruntime.bench(asked, folder=tmp_path, stage=lambda stage: None)
    assert len(times) == 20
    assert outcome.conditions["transfers"].value is False
    with pytest.raises(UsageError, match="--no-transfers"):
        onnxruntime.open_session(changed(spec, transfers=False))


def test_a_trace_tells_where_nodes_ran(spec: RunSpec, tmp_path: Path) -> None:
    import onnxruntime as library

    options = library.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    options.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = library.InferenceSession(spec.model.path, options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.zeros((2, 4), np.float32)})
    assert end_trace(session) == {"CPUExecutionProvider": 2}
    assert list(tmp_path.glob("trace*")) == []


def test_nodes_are_counted_once_however_often_they_ran(tmp_path: Path) -> None:
    def event(name: str, provider: str) -> dict[str, Any]:
        return {"cat": "Node", "name": f"{name}_kernel_time", "args": {"provider": provider}}

    events = [
        event("conv", "CUDAExecutionProvider"),
        event("conv", "CUDAExecutionProvider"),
        event("topk", "CPUExecutionProvider"),
        {"cat": "Session", "name": "model_run", "args": {}},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    assert nodes_by_provider(path) == {"CUDAExecutionProvider": 1, "CPUExecutionProvider": 1}


def test_a_provider_that_is_not_installed_says_what_to_install(spec: RunSpec) -> None:
    import onnxruntime as library

    if "CUDAExecutionProvider" in library.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    with pytest.raises(UnavailableError) as caught:
        onnxruntime.open_session(changed(spec, options={"providers": "cuda"}))
    assert caught.value.fix == "pip install onnxruntime-gpu"
