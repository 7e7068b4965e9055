"""Small ONNX files that casts and quantizers once tripped over, and their outputs."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import save_graph
from trtbench.convert.calibration import FeedFile
from trtbench.convert.verify import run_all
from trtbench.models.onnx_model import check_onnx, save_onnx


def outputs(path: Path, feeds: Path) -> dict[str, np.ndarray]:
    return run_all(path, FeedFile(feeds))


def saved(model: onnx.ModelProto, path: Path) -> Path:
    save_onnx(model, path)
    check_onnx(path)
    return path


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    values = (*model.graph.input, *model.graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def one_node(tmp_path: Path, weights: np.ndarray, op: str = "Mul") -> Path:
    graph = helper.make_graph(
        [
            helper.make_node(op, ["x", "w"], ["y"], name="first"),
            helper.make_node("Relu", ["y"], ["z"], name="last"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", len(weights)])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", len(weights)])],
        [numpy_helper.from_array(weights.astype(np.float32), "w")],
    )
    return save_graph(graph, tmp_path / "one.onnx")


def control_flow(path: Path, op: str) -> Path:
    """A product, an If or a Loop that reads it and a weight from outside, and another product."""

    def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[object, ...] = ("n", 8)):
        return helper.make_tensor_value_info(name, kind, shape)

    flag, count = TensorProto.BOOL, TensorProto.INT64
    if op == "If":
        bodies = {
            f"{word}_branch": helper.make_graph(
                [helper.make_node(kind, ["h", "w"], [word])], word, [], [value(word)]
            )
            for word, kind in (("then", "MatMul"), ("else", "Add"))
        }
        node = helper.make_node("If", ["go"], ["o"], name="choose", **bodies)
        inputs = [value("x"), value("go", flag, ())]
    else:
        steps = [
            helper.make_node("Identity", ["on"], ["on_out"]),
            helper.make_node("MatMul", ["state", "w"], ["state_out"]),
        ]
        body = helper.make_graph(
            steps, "body",
            [value("i", count, ()), value("on", flag, ()), value("state")],
            [value("on_out", flag, ()), value("state_out")],
        )  # fmt: skip
        node = helper.make_node("Loop", ["trips", "", "h"], ["o"], name="again", body=body)
        inputs = [value("x")]
    weights = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32) / 3
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            node,
            helper.make_node("MatMul", ["o", "w"], ["y"]),
        ],
        "g",
        inputs,
        [value("y")],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.int64(2), "trips")],
    )
    return save_graph(graph, path)


def lookup(path: Path, *, rows: int) -> Path:
    """A table of few rows, looked up by an input of integers."""
    shape = ("n", 3)
    nodes = [
        helper.make_node("Cast", ["ids"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"]),
    ]
    values = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (*shape, 4))],
        [numpy_helper.from_array(values, "table"), numpy_helper.from_array(values[:4], "w")],
    )
    return save_graph(graph, path)
