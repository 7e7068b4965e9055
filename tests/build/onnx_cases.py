"""Small ONNX files that casts and quantizers once tripped over, and their outputs."""

from pathlib import Path

import numpy as np
import onnx

from models import save_text
from trtbench.convert.verify import run_all
from trtbench.models.onnx_model import check_onnx, save_onnx


def outputs(path: Path, **feed: np.ndarray) -> dict[str, np.ndarray]:
    return run_all(path, [feed])


def saved(model: onnx.ModelProto, path: Path) -> Path:
    save_onnx(model, path)
    check_onnx(path)
    return path


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    values = (*model.graph.input, *model.graph.output)
    return {value.name: value.type.tensor_type.elem_type for value in values}


def one_node(tmp_path: Path, weights: np.ndarray, op: str = "Mul") -> Path:
    ends = f"(float[batch, {len(weights)}] x) => (float[batch, {len(weights)}] z)"
    nodes = f"{{[first] y = {op}(x, w) [last] z = Relu(y)}}"
    return save_text(tmp_path / "one.onnx", f"net {ends} {nodes}", w=weights.astype(np.float32))


BODIES = {
    "If": """[choose] o = If (go) <
        then_branch = one () => (float[n, 8] a) {a = MatMul(h, w)},
        else_branch = two () => (float[n, 8] b) {b = Add(h, w)}>""",
    "Loop": """[again] o = Loop (trips, , h) <
        body = body (int64 i, bool on, float[n, 8] s) => (bool on_out, float[n, 8] s_out) {
            on_out = Identity(on)
            s_out = MatMul(s, w)
        }>""",
}


def control_flow(path: Path, op: str) -> Path:
    """A product, an If or a Loop that reads it and a weight from outside, and another product."""
    inputs = "float[n, 8] x, bool go" if op == "If" else "float[n, 8] x"
    nodes = f"{{h = MatMul(x, w) {BODIES[op]} y = MatMul(o, w)}}"
    weights = np.random.default_rng(0).normal(size=(8, 8)) / 3
    text = f"net ({inputs}) => (float[n, 8] y) {nodes}"
    return save_text(path, text, w=weights, trips=np.int64(2))


def lookup(path: Path, *, rows: int) -> Path:
    """A table of few rows, looked up by an input of integers."""
    nodes = "{i = Cast<to = 7>(ids) e = Gather(table, i) y = MatMul(e, w)}"
    values = np.random.default_rng(0).normal(size=(rows, 4))
    text = f"net (int64[n, 3] ids) => (float[n, 3, 4] y) {nodes}"
    return save_text(path, text, table=values, w=values[:4])
