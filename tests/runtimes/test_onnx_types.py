"""ONNX files: the precision of the numbers they compute with, and files that are not taken."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import models
from trtbench.core.errors import InputError
from trtbench.core.run import known_value
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.measure.model_facts import conditions_of_model
from trtbench.models.identity import model_ref
from trtbench.runtimes.onnxruntime import open_session

F32, F16, F64, U8, I8, U16 = (
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.UINT8,
    TensorProto.INT8, TensorProto.UINT16,
)  # fmt: skip
MICROSOFT = "com.microsoft"
node = helper.make_node


def weight(kind: int = F32, name: str = "w", shape: tuple[int, ...] = (8, 8)) -> onnx.TensorProto:
    count = int(np.prod(shape))
    return helper.make_tensor(name, kind, shape, [1] * count)


def scale(name: str = "s") -> onnx.TensorProto:
    return numpy_helper.from_array(np.float32(0.1), name)


def precision_of_graph(
    path: Path,
    nodes: list[onnx.NodeProto],
    stored: list[onnx.TensorProto],
    *,
    ends: tuple[int, int] = (F32, F32),
    functions: Any = (),
) -> object:
    values = [helper.make_tensor_value_info(name, kind, ["batch", 8])
              for name, kind in zip("xy", ends, strict=True)]  # fmt: skip
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1),
              helper.make_opsetid("own", 1)]  # fmt: skip
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions))
    path.write_bytes(model.SerializeToString())
    return known_value(conditions_of_model(model_ref(path))["precision"])


CAST_IN = [node("Cast", ["x"], ["c"], to=F32), node("MatMul", ["c", "w"], ["y"])]
QUANTIZED = [
    node("QuantizeLinear", ["x", "s"], ["q"]),
    node("DequantizeLinear", ["q", "s"], ["d"]),
    node("MatMul", ["d", "w"], ["y"]),
]


@pytest.mark.parametrize(
    ("made", "stored", "ends", "name"),
    [
        (CAST_IN, [weight()], (F16, F32), "fp32"),
        ([node("MatMul", ["x", "w"], ["z"]), node("Cast", ["z"], ["y"], to=F16)], [weight()],
         (F32, F16), "fp32"),
        ([node("Identity", ["x"], ["i"]), node("Cast", ["i"], ["c"], to=F32),
          node("MatMul", ["c", "w"], ["y"])], [weight()], (F16, F32), "fp32"),
        ([node("Relu", ["x"], ["r"]), node("Cast", ["r"], ["c"], to=F32),
          node("MatMul", ["c", "w"], ["y"])], [weight()], (F16, F32), "fp16"),
        ([node("Cast", ["x"], ["c"], to=F16), node("MatMul", ["c", "w"], ["z"]),
          node("Cast", ["z"], ["y"], to=F32)], [weight(F16)], (F32, F32), "fp16"),
        ([node("Cast", ["x"], ["c"], to=F64), node("MatMul", ["c", "w"], ["z"]),
          node("Cast", ["z"], ["y"], to=F32)], [weight(F64)], (F32, F32), "fp64"),
        (QUANTIZED, [weight(), scale()], (F32, F32), "int8"),
        ([node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=U16), *QUANTIZED[1:]],
         [weight(), scale()], (F32, F32), "int16"),
        ([node("DequantizeLinear", ["x", "s", "z"], ["d"]), node("MatMul", ["d", "w"], ["y"])],
         [weight(), scale(), weight(U8, "z", ())], (U8, F32), "fp32"),
        ([node("Identity", ["z"], ["same"]), node("QuantizeLinear", ["x", "s", "same"], ["q"]),
          *QUANTIZED[1:]], [weight(), scale(), weight(I8, "z", ())], (F32, F32), "int8"),
    ],
    ids=["input", "output", "passed on", "used", "inside", "double", "no zero point", "16 bits",
         "pixels", "zero point elsewhere"],
)  # fmt: skip
def test_edges_do_not_name_what_is_computed(
    tmp_path: Path, made: Any, stored: Any, ends: tuple[int, int], name: str
) -> None:
    assert precision_of_graph(tmp_path / "net.onnx", made, stored, ends=ends) == name


@pytest.mark.parametrize(
    ("operator", "attributes", "name"),
    [
        ("MatMulNBits", {"bits": 4, "K": 8, "N": 8, "block_size": 16}, "int4"),
        ("MatMulNBits", {"bits": 8, "K": 8, "N": 8, "block_size": 16}, "int8"),
        ("MatMulNBits", {"bits": 2, "K": 8, "N": 8, "block_size": 16}, "int2"),
        ("MatMulBnb4", {"K": 8, "N": 8, "block_size": 16}, "fp4"),
        ("DynamicQuantizeLSTM", {"hidden_size": 8}, "int8"),
        ("QAttention", {"num_heads": 2}, "int8"),
        ("QLinearAdd", {}, "int8"),
        ("FusedMatMul", {}, "fp32"),
    ],
)
def test_operators_of_few_bits_are_told_by_what_they_are(
    tmp_path: Path, operator: str, attributes: dict[str, int], name: str
) -> None:
    nodes = [node(operator, ["x", "w", "s"], ["y"], domain=MICROSOFT, **attributes)]
    stored = [weight(U8), scale()]
    assert precision_of_graph(tmp_path / "net.onnx", nodes, stored) == name


def test_graphs_within_and_functions_count_too(tmp_path: Path) -> None:
    """The body of a branch sees what is stored around it."""
    out = helper.make_tensor_value_info("z", F32, ["batch", 8])
    body = helper.make_graph(
        [node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
         node("DequantizeLinear", ["q", "s", "zero"], ["d"]), node("MatMul", ["d", "w"], ["z"])],
        "body", [], [out],
    )  # fmt: skip
    other = helper.make_graph([node("Identity", ["x"], ["z"])], "other", [], [out])
    choice = node("If", ["yes"], ["y"], then_branch=body, else_branch=other)
    stored = [weight(), scale(), weight(I8, "zero", ()), weight(TensorProto.BOOL, "yes", ())]
    assert precision_of_graph(tmp_path / "if.onnx", [choice], stored) == "int8"
    packed = helper.make_function(
        "own", "Packed", ["a", "b"], ["c"],
        [node("QuantizeLinear", ["a", "b"], ["q"]), node("DequantizeLinear", ["q", "b"], ["c"])],
        [helper.make_opsetid("", 21)],
    )  # fmt: skip
    nodes = [node("Packed", ["x", "s"], ["p"], domain="own"), node("MatMul", ["p", "w"], ["y"])]
    stored = [weight(), scale()]
    path = tmp_path / "function.onnx"
    assert precision_of_graph(path, nodes, stored, functions=[packed]) == "int8"


def load(path, **kw):
    model = ModelRef(path=str(path), format="onnx")
    return open_session(RunSpec(model=model, runtime="onnxruntime", threads=1, **kw))


def refuse(path, **kw) -> InputError:
    with pytest.raises(InputError) as caught:
        load(path, **kw)
    return caught.value


HEADS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"PK\x03\x04", b"GGUF")
TEXTS = (
    b"hello, I am a text\n", "Bäume stehen hier, und ein Zeilenende\n".encode(), b'{"model": 1}',
    b"Because it begins with a byte that a model could begin with\nit is none\n",
)  # fmt: skip


@pytest.mark.parametrize("data", [*TEXTS, *(head + bytes(100) for head in HEADS)])
def test_something_else_is_not_an_onnx_file(tmp_path, data):
    (tmp_path / "m.onnx").write_bytes(data)
    problem = refuse(tmp_path / "m.onnx")
    assert problem.message == "m.onnx is not an ONNX file"
    assert problem.facts["file"] == str(tmp_path / "m.onnx")


def test_a_pointer_of_git_lfs_says_how_to_get_the_file(tmp_path):
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (tmp_path / "m.onnx").write_text(text)
    assert refuse(tmp_path / "m.onnx").fix == "git lfs pull"


def test_a_truncated_model_is_cut_short_at_every_length(tmp_path):
    whole = models.tiny_model(tmp_path / "whole.onnx").read_bytes()
    for length in range(1, len(whole)):
        (tmp_path / "m.onnx").write_bytes(whole[:length])
        problem = refuse(tmp_path / "m.onnx")
        assert problem.message == "m.onnx is damaged or cut short", length
        assert problem.fix


def test_weights_in_another_file(tmp_path):
    path = models.external_data_model(tmp_path / "m.onnx")
    weights = models.external_data_path(path)
    load(path)
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert refuse(path).facts["reason"]
    weights.unlink()
    assert "m.onnx.data" in refuse(path).facts["reason"]


def test_an_unsupported_operator_is_named(tmp_path):
    problem = refuse(models.unsupported_operator_model(tmp_path / "m.onnx"))
    assert "operator that ONNX Runtime does not have" in problem.message
    assert "Unheard" in problem.facts["reason"]
    assert problem.fix
