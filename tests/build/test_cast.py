"""Casts to FP16 and BF16: what comes out runs, is close, and loses nothing in silence."""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_cases import one_node, outputs, saved, types_of

import models
from trtbench.analysis.check import tensor_diffs
from trtbench.convert.cast import cast
from trtbench.convert.quantize import quantize
from trtbench.core.errors import UsageError
from trtbench.core.jobs import Stage
from trtbench.core.results import QuantSpec
from trtbench.core.spec import ModelRef
from trtbench.data import demo_file
from trtbench.models.onnx_model import load_onnx

DIGITS = demo_file("digits.onnx")
OLD_RUNTIME = tuple(int(part) for part in version("onnxruntime").split(".")[:2]) < (1, 24)
"""The newest for Python 3.10."""


@pytest.mark.parametrize("keep_io", [False, True])
def test_fp16_runs_on_onnx_runtime_and_is_close(tmp_path: Path, images: np.ndarray, keep_io: bool):
    made = cast(load_onnx(DIGITS), precision="fp16", keep_io=keep_io)
    wanted = TensorProto.FLOAT if keep_io else TensorProto.FLOAT16
    assert types_of(made.model) == {"image": wanted, "logits": wanted}
    assert {t.data_type for t in made.model.graph.initializer} == {TensorProto.FLOAT16}
    reference = outputs(DIGITS, image=images[:8])
    for model in (made.model, made.stand_in):
        found = outputs(saved(model, tmp_path / "m.onnx"), image=images[:8])
        (diff,) = tensor_diffs(reference, found)
        assert diff.sqnr_db is not None
        assert 45 < diff.sqnr_db < 80


def test_bf16_raises_the_opset_and_rounds_more_than_fp16(tmp_path: Path, images: np.ndarray):
    made = cast(load_onnx(DIGITS), precision="bf16")
    assert made.model.opset_import[0].version == 22
    assert types_of(made.model)["image"] == TensorProto.BFLOAT16
    saved(made.model, tmp_path / "b.onnx")
    found = outputs(saved(made.stand_in, tmp_path / "s.onnx"), image=images[:8])
    (diff,) = tensor_diffs(outputs(DIGITS, image=images[:8]), found)
    assert diff.sqnr_db is not None
    assert 30 < diff.sqnr_db < 55


def test_the_stand_in_rounds_as_the_type_does(tmp_path: Path) -> None:
    weights = np.array([1.0009765625 + 2**-12, 3.0], np.float32)
    made = cast(load_onnx(one_node(tmp_path, weights)), precision="fp16")
    x = np.array([[1 / 3, 30000.0]], np.float32)
    found = outputs(saved(made.stand_in, tmp_path / "s.onnx"), x=x)["z"]
    with np.errstate(over="ignore"):
        wanted = (x.astype(np.float16) * weights.astype(np.float16)).astype(np.float32)
    assert np.isinf(wanted[0, 1])  # 90000 is beyond FP16: the difference must show it
    np.testing.assert_array_equal(found, wanted)


def test_weights_beyond_fp16_keep_their_node_in_fp32(tmp_path: Path) -> None:
    made = cast(load_onnx(one_node(tmp_path, np.array([1e6, 1.0]))), precision="fp16")
    assert list(made.kept) == ["first"]
    assert "65504" in made.kept["first"]
    assert made.changed == {"Relu": 1}
    (weight,) = made.model.graph.initializer
    assert weight.data_type == TensorProto.FLOAT
    saved(made.model, tmp_path / "m.onnx")


def test_nodes_are_held_by_name_and_pattern(tmp_path: Path, images: np.ndarray) -> None:
    made = cast(load_onnx(DIGITS), precision="fp16", keep=["/0/*"])
    assert set(made.kept) == {"/0/0.0/Conv", "/0/0.2/Relu"}
    casts = [node for node in made.model.graph.node if node.op_type == "Cast"]
    assert len(casts) == 2  # one into the FP32 part, one out of it
    saved(made.model, tmp_path / "m.onnx")
    with pytest.raises(UsageError, match=r"did you mean /8/Gemm"):
        cast(load_onnx(DIGITS), precision="fp16", keep=["/8/Gem"])


def test_integer_inputs_masks_and_casts_keep_their_meaning(tmp_path: Path) -> None:
    path = models.multi_input_model(tmp_path / "text.onnx")
    made = cast(load_onnx(path), precision="fp16")
    kinds = types_of(made.model)
    assert kinds["input_ids"] == TensorProto.INT64
    assert kinds["scale"] == TensorProto.FLOAT16
    ids = np.arange(6).reshape(2, 3)
    feed = {
        "input_ids": ids, "attention_mask": np.ones_like(ids), "use_scale": np.array([True]),
        "scale": np.full((2, 1), 0.5, np.float32),
    }  # fmt: skip
    found = outputs(saved(made.model, tmp_path / "m.onnx"), **feed)
    (diff,) = tensor_diffs(outputs(path, **feed), found)
    assert diff.rel_l2 is not None
    assert diff.rel_l2 < 1e-3


SCALED_BY_COLUMNS = """net (float[1, n] x) => (float[1, n] y) {
    [shape] shape = Shape(x)
    [to_float] dims = Cast<to = 1>(shape)
    [pick] columns = Gather(dims, one)
    [rest] rest = Sub(columns, c)
    [scale] y = Mul(x, rest)
}"""


def test_arithmetic_with_dimensions_stays_exact(tmp_path: Path) -> None:
    path = models.save_text(tmp_path / "shape.onnx", SCALED_BY_COLUMNS, one=[1], c=[4095.0])
    made = cast(load_onnx(path), precision="fp16")
    assert {made.kept[name] for name in ("to_float", "pick", "rest")} == {"computes shapes"}
    assert made.changed == {"Shape": 1, "Mul": 1}
    x = np.ones((1, 4097), np.float32)
    found = outputs(saved(made.model, tmp_path / "m.onnx"), x=x)["y"]
    assert np.all(found == 2)  # in FP16, 4097 - 4095 would be 1 or 0


def test_indices_in_a_floating_point_input_stay_exact(tmp_path: Path) -> None:
    text = "net (float[n] x) => (float[n] y) {at = Cast<to = 7>(x) y = Gather(table, at)}"
    path = models.save_text(tmp_path / "m.onnx", text, table=np.arange(5000.0) % 7)
    made = saved(cast(load_onnx(path), precision="fp16").model, tmp_path / "c.onnx")
    at = np.array([4097, 4099], np.float32)
    assert outputs(made, x=at)["y"].tolist() == [4097 % 7, 4099 % 7]


def test_an_empty_region_of_a_resize_becomes_none(tmp_path: Path) -> None:
    """ONNX Runtime's optimizer gathers from it in FP16: "indices element out of data bounds"."""
    text = "net (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) {y = Resize(x, roi, scales)}"
    scales = [1.0, 1.0, 2.0, 2.0]
    path = models.save_text(tmp_path / "m.onnx", text, roi=np.zeros(0), scales=scales)
    made = cast(load_onnx(path), precision="fp16").model
    assert "" in [node.input[1] for node in made.graph.node if node.op_type == "Resize"]
    saved(made, tmp_path / "c.onnx")


@pytest.mark.parametrize("opset", [7, 17])
def test_default_zeros_and_weights_that_are_no_inputs_can_be_cast(tmp_path: Path, opset: int):
    text = "net (float[2] x) => (float[2] y) {zeros = ConstantOfShape(two) p = Mul(x, w) %s}"
    text = text % ("y = Add(p, zeros)" if opset > 8 else "y = Relu(p)")
    path = models.save_text(tmp_path / "m.onnx", text, two=[2], w=np.ones(2), check=False)
    model = onnx.load(path)
    if opset < 9:
        del model.graph.node[0]
        model.opset_import[0].version, model.ir_version = opset, 3
        onnx.save(model, path)
    made = saved(cast(load_onnx(path), precision="fp16").model, tmp_path / "c.onnx")
    assert outputs(made, x=np.ones(2, np.float32))["y"].tolist() == [1, 1]


@pytest.mark.skipif(
    OLD_RUNTIME, reason="FP16 kernels of ONNX Runtime before 1.24 are 17 % off here"
)
def test_a_quantized_model_can_be_cast_too(tmp_path: Path, images: np.ndarray) -> None:
    made = cast(load_onnx(demo_file("digits.int8.onnx")), precision="fp16")
    path = saved(made.model, tmp_path / "m.onnx")
    assert made.model.opset_import[0].version >= 19
    found, wanted = (outputs(each, image=images[:8]) for each in (path, DIGITS))
    (diff,) = tensor_diffs(wanted, found)
    assert diff.sqnr_db is not None
    assert diff.sqnr_db > 20


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [("q = QuantizeLinear(r, one) y = DequantizeLinear(q, one)", set()),
     ("[s] s = SplitToSequence(r) [at] z = SequenceAt(s, at0) y = Flatten(z)", {"s", "at"})],
)  # fmt: skip
def test_outputs_have_the_type_that_onnx_infers(tmp_path: Path, nodes: str, kept: set[str]) -> None:
    text = f"net (float[1, 1] x) => (float[1, 1] y) {{r = Relu(x) {nodes}}}"
    path = models.save_text(tmp_path / "m.onnx", text, one=np.float32(1), at0=np.int64(0))
    model = load_onnx(path)
    model.opset_import[0].version, model.ir_version = 23, 10
    made = cast(model, precision="fp16")
    assert made.kept.keys() == kept
    assert outputs(saved(made.model, path), x=np.ones((1, 1), np.float32))["y"].tolist() == [[1]]


def test_a_plugin_without_a_domain_is_left_as_it_is(tmp_path: Path) -> None:
    """TensorRT's parser finds plugins in any domain; ONNX's checker knows of none."""
    path, ends = tmp_path / "net.onnx", "(float[1, 4] x) => (float[1, 4] y)"
    models.save_text(path, f"net {ends} {{r = Relu(x) y = EfficientNMS_TRT(r)}}", check=False)
    spec = QuantSpec(
        model=ModelRef(path=str(path), format="onnx"), output=str(tmp_path / "half.onnx"),
        precision="fp16", via="cast", keep_io=True,
    )  # fmt: skip
    outcome = quantize(spec, folder=tmp_path, stage=Stage())
    assert outcome.changed == {"Relu": 1}
    made = onnx.load(tmp_path / "half.onnx").graph.node
    assert [node.op_type for node in made] == ["Cast", "Relu", "Cast", "EfficientNMS_TRT"]
