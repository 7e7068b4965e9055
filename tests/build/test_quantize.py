"""Quantizations: what comes out runs, is close, and is what TensorRT takes."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_cases import control_flow, lookup, one_node
from onnxruntime import SessionOptions

import models
from command import Say
from trtbench.analysis.onnx_graph import notes_from_metadata
from trtbench.convert.calibration import open_items
from trtbench.convert.conversions import quant_spec, run_quantize
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import Sidecar
from trtbench.core.spec import ModelRef, TensorSpec
from trtbench.data import demo_file
from trtbench.models import onnx_model as onnx_file
from trtbench.models import onnx_session
from trtbench.models.identity import read_sidecar
from trtbench.models.onnx_model import load_onnx, save_onnx, stored_bytes
from trtbench.requests.models import QuantizeRequest

DIGITS = demo_file("digits.onnx")
OLD_RUNTIME = tuple(int(part) for part in version("onnxruntime").split(".")[:2]) < (1, 24)
"""The newest for Python 3.10."""


def quantize(model: Path, precision: Any, **more: Any) -> Sidecar:
    return run_quantize(QuantizeRequest(model=model, precision=precision, **more))


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_int8_is_what_tensorrt_takes_and_close_on_held_out_items(
    tmp_path: Path, calibration: Path, method: str
) -> None:
    output = tmp_path / "digits.int8.onnx"
    sidecar = quantize(
        DIGITS, "int8", output=output, method=method, keep=("/8/Gemm",), data=calibration,
        items=48,
    )  # fmt: skip
    model = onnx.load(output)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    pairs = [n for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert pairs
    for node in pairs:
        assert stored[node.input[2]].data_type == TensorProto.INT8
        assert not numpy_helper.to_array(stored[node.input[2]]).any()
    assert sidecar.changed["Conv"] == 6
    assert "Gemm" not in sidecar.changed
    (diff,) = sidecar.difference
    assert diff.elements == 16 * 10
    assert diff.sqnr_db is not None
    assert 20 < diff.sqnr_db < 60
    assert (sidecar.calibration.items, sidecar.calibration.batch) == (48, 8)
    assert "held out" in (sidecar.compared_on or "")
    assert read_sidecar(output) == sidecar
    assert {path.name for path in tmp_path.iterdir()} == {
        "calibration.npz", "digits.int8.onnx", "digits.int8.json",
    }  # fmt: skip


def test_random_calibration_is_stamped_everywhere(tmp_path: Path, say: Say) -> None:
    model = models.conv_model(tmp_path / "conv.onnx")
    words = ["quantize", model, "--precision", "int8", "--calibration", "random"]
    assert "random data" in say(*words, "--items", "16", "--method", "minmax", status=0).out
    made = tmp_path / "conv.int8.onnx"
    metadata = {entry.key: entry.value for entry in onnx.load(made).metadata_props}
    assert metadata["trtbench.calibration"] == "random"
    assert notes_from_metadata(metadata)
    sidecar = read_sidecar(made)
    assert any("random data" in note for note in sidecar.notes)
    assert "random data" in say("inspect", made, status=0).out
    bench = ["bench", made, "--batch", "1", "--iterations", "20", "--json"]
    assert "random data" in say(*bench, status=0).out


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_calibrating_on_nothing_is_refused(precision: str, say: Say) -> None:
    words = ("quantize", DIGITS, "--precision", precision, "-o", "x.onnx")
    assert "--random" in say(*words, status=2).err


def test_an_old_opset_is_raised_and_infinite_values_are_left_alone(tmp_path: Path) -> None:
    text = """net (float[batch, 4] x) => (float[batch, 4] y) {
        hidden = MatMul(x, w) zero = Sub(x, x) low = Log(zero)
        masked = Add(hidden, low) y = Max(hidden, masked)
    }"""
    model = onnx.load(models.save_text(tmp_path / "net.onnx", text, w=np.eye(4)))
    model.opset_import[0].version = 11
    onnx.save(model, tmp_path / "net.onnx")
    made = quantize(tmp_path / "net.onnx", "int8", data="random", items=16)
    assert (made.opset, made.difference[0].nonfinite) == (13, 0)
    assert "has infinite values" in made.kept.values()


def test_scores_keep_their_steps_beside_a_mask(tmp_path: Path, monkeypatch: Any) -> None:
    """And sympy, which ONNX Runtime would call if it is there, makes no difference."""
    text = """net (float[n, 4, 8] x, bool[n, 1, 4] on) => (float[n, 4, 8] y) {
        k = Transpose<perm = [0, 2, 1]>(x) scores = MatMul(x, k) bias = Where(on, zero, low)
        [mask] m = Add(scores, bias) p = Softmax(m) v = MatMul(p, x) y = MatMul(v, w)
    }"""
    models.save_text(tmp_path / "m.onnx", text, w=np.eye(8), zero=0.0, low=np.float32(-3e38))
    on, x = np.ones((32, 1, 4), bool), np.random.default_rng(0).random((32, 4, 8), np.float32)
    on[:, :, 3:] = False
    np.savez(tmp_path / "data.npz", x=x, on=on)
    (tmp_path / "sympy.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = quantize(tmp_path / "m.onnx", "int8", data=tmp_path / "data.npz")
    assert made.kept == {"mask": "adds a mask before Softmax"}
    assert (made.difference[0].sqnr_db or 0) > 20


FULL = (np.linspace(-127, 127, 64).astype(np.int8) // 2 * 2).reshape(8, 8)
SHARED = {
    "one DequantizeLinear": "d = DequantizeLinear(w, s, z) e = Identity(d)",
    "one weight": "d = DequantizeLinear(w, s, z) e = DequantizeLinear(w, s, z)",
    "a constant": f"v = Constant<value = int8[8, 8] {{{', '.join(map(str, FULL.ravel()))}}}>() "
    "d = DequantizeLinear(v, s, z) e = DequantizeLinear(v, s, z)",
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_weight_that_several_nodes_share_gives_a_model_that_runs(say: Say, kind: str) -> None:
    """ONNX Runtime 1.31 converts it once for each, where two products do not fit into 16 bits."""
    rounded = "{0}q = QuantizeLinear({0}, {0}s, z) {0}r = DequantizeLinear({0}q, {0}s, z)"
    text = "net (float[1, 8] x) => (float[1, 8] y) {" + SHARED[kind]
    steps = (rounded.format("x"), "a = MatMul(xr, d)", rounded.format("a"), "b = MatMul(ar, e)")
    steps += (rounded.format("b"), "y = Identity(br)}")
    values = {"w": FULL, "z": np.int8(0), "s": np.float32(0.01)}
    scales = {"xs": np.float32(1 / 127), "as": np.float32(0.05), "bs": np.float32(0.3)}
    models.save_text(Path("q.onnx"), " ".join((text, *steps)), **values, **scales)
    models.save_text(Path("m.onnx"), text + "a = MatMul(x, d) y = MatMul(a, e)}", **values)
    assert "PASS" in say("check", "m.onnx", "q.onnx", "--random", 4, status=0).out


def test_sums_that_can_overflow_are_noted(say: Say) -> None:
    steps = "q = QuantizeLinear(x, s, u) a = QLinearMatMul(q, s, u, w, s, z, s, u)"
    text = f"net (float[1, 8] x) => (float[1, 8] y) {{{steps} y = DequantizeLinear(a, s, u)}}"
    values = {"w": np.full((8, 8), 127, np.int8), "s": np.float32(1), "z": np.int8(0)}
    models.save_text(Path("m.onnx"), text, **values, u=np.uint8(128))
    said = say("bench", "m.onnx", "--duration", "50ms", "--no-until-steady", "--explain", status=0)
    assert ("QLinearMatMul can overflow" in said.out + said.err) == onnx_session.sums_overflow()


@pytest.mark.parametrize(("flags", "exact"), [("avx2 avx512f", True), ("avx512_vnni", False)])
def test_products_take_the_longer_way_only_where_they_overflow(
    monkeypatch: pytest.MonkeyPatch, flags: str, exact: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(onnx_session, "read_text", lambda path: flags)
    options, added = SessionOptions(), list[str]()
    monkeypatch.setattr(SessionOptions, "add_session_config_entry", lambda _, *e: added.extend(e))
    onnx_session.open_onnx(str(demo_file("digits.int8.onnx")), options)
    assert added == ["session.x64quantprecision", "1"] * exact


def test_copies_of_a_shared_bias_do_not_take_the_name_of_another_tensor(tmp_path: Path) -> None:
    text = """net (float[1, 2, 8] x) => (float[1, 2, 8] y, float[1, 2, 8] z) {
        b1 = Conv(x, w, b) b0 = Neg(b1) c = Conv(b0, w, b) y = Neg(c) z = Conv(y, w, b)
    }"""
    weights = {"w": np.ones((2, 2, 1)), "b": np.ones(2)}
    model = models.save_text(tmp_path / "m.onnx", text, **weights)
    (y, z) = quantize(model, "int8", data="random", items=4).difference
    assert min(y.sqnr_db or 0, z.sqnr_db or 0) > 20


def test_a_model_without_anything_to_quantize_names_its_operators(say: Say) -> None:
    one_node(Path(), np.ones(2), op="Add").rename("m.onnx")  # a constant, no weight of a layer
    words = ("quantize", "m.onnx", "--precision", "int8", "--random", 4, "-o", "q.onnx")
    assert "operators    1 Add, 1 Relu" in say(*words, status=1).err
    text = "then_branch = body () => (float[2] a) {a = Sqrt(x)}, else_branch = other () => "
    text += "(float[2] b) {b = Neg(x)}"
    text = f"net (float[2] x, bool c) => (float[2] y) {{y = If(c) <{text}>}}"
    models.save_text(Path("m.onnx"), text, check=False)
    assert "fix: export it without If" in say(*words, status=1).err
    models.save_text(Path("m.onnx"), "n (double[2, 2] x) => (double[2, 2] y) {y = MatMul(x, x)}")
    assert "fix: export it in FP32" in say(*words, status=1).err


@pytest.mark.parametrize("op", ["If", "Loop"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_control_flow_is_left_alone_and_the_rest_is_converted(
    tmp_path: Path, op: str, precision: str
) -> None:
    source = control_flow(tmp_path / "net.onnx", op)
    calibration = "random" if precision == "int8" else None
    if OLD_RUNTIME and (op, precision) == ("Loop", "int8"):
        with pytest.raises(InputError, match="could not quantize"):
            quantize(source, precision, data=calibration, items=32)
        return
    sidecar = quantize(source, precision, data=calibration, items=32, method="minmax")
    assert sidecar.changed == {"MatMul": 2}
    (diff,) = sidecar.difference
    assert diff.sqnr_db is not None
    assert diff.sqnr_db > 20


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_random_indices_stay_within_the_table(tmp_path: Path, precision: str) -> None:
    source = lookup(tmp_path / "net.onnx", rows=5)
    calibration = "random" if precision == "int8" else None
    sidecar = quantize(source, precision, data=calibration, items=32)
    assert sidecar.difference[0].nonfinite == 0
    assert sidecar.unverified is None


@pytest.mark.parametrize("n", ["n", "1"])
def test_a_state_with_its_items_further_back_is_calibrated_item_by_item(tmp_path: Path, n: str):
    text = f"""net (float[n, 3] x, float[2, {n}, 4] state) => (float[n, 8] y) {{
        h = MatMul(x, w) last = Gather<axis = 0>(state, one) y = Concat<axis = 1>(h, last)
    }}"""
    model = models.save_text(tmp_path / "m.onnx", text, w=np.ones((3, 4)), one=1, check=False)
    assert quantize(model, "int8", data="random", items=8).changed["MatMul"] == 1


def test_an_operator_nobody_knows_is_told_once_and_without_the_folder_of_the_job(tmp_path: Path):
    model = onnx.load(one_node(tmp_path, np.ones(4)))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Strange", "my.ops"
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(model, tmp_path / "one.onnx")
    sidecar = quantize(tmp_path / "one.onnx", "fp16")
    assert "Strange" in (sidecar.unverified or "")
    assert ".partial" not in (sidecar.unverified or "")
    assert sidecar.notes == ()


def test_a_model_too_large_for_one_file_gets_a_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_onnx(DIGITS)
    held = stored_bytes(model)
    assert 0.9 < held / DIGITS.stat().st_size < 1  # without serializing, which 2 GiB forbid
    monkeypatch.setattr(onnx_file, "ONE_FILE_BYTES", held - 1)
    written = save_onnx(model, tmp_path / "m.onnx")
    assert [path.name for path in written] == ["m.onnx", "m.onnx.data"]
    again = load_onnx(tmp_path / "m.onnx")
    assert stored_bytes(again) == held
    monkeypatch.setattr(onnx_file, "ONE_FILE_BYTES", held)
    assert len(save_onnx(again, tmp_path / "m.onnx")) == 1
    assert not (tmp_path / "m.onnx.data").exists()


def test_a_result_overwrites_neither_its_source_nor_somebody_elses_json(tmp_path: Path) -> None:
    model = models.tiny_model(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="overwrite"):
        quant_spec(QuantizeRequest(model=model, precision="fp16", output=model))
    (tmp_path / "m.fp16.json").write_text('{"mine": 1}')
    quantize(model, "fp16")
    assert (tmp_path / "m.fp16.json").read_text() == '{"mine": 1}'
    assert read_sidecar(tmp_path / "m.fp16.onnx") is not None


MODELOPT = """
import onnx
from onnxruntime import quantization as ort
def quantize(onnx_path, output_path, calibration_data, **settings):
    model = onnx.load(onnx_path)
    model.producer_name = "modelopt"
    onnx.save(model, onnx_path)  # as ModelOpt 0.47 does with models that it prepares
    class Reader(ort.CalibrationDataReader):
        rest = iter([calibration_data])
        def get_next(self):
            return next(self.rest, None)
    ort.quantize_static(onnx_path, output_path, Reader())
"""


def test_a_quantizer_that_writes_to_its_input_writes_to_a_copy(
    tmp_path: Path, calibration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library" / "modelopt" / "onnx" / "quantization.py"
    library.parent.mkdir(parents=True)
    library.write_text(MODELOPT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    model = tmp_path / "m.onnx"
    apart = {"save_as_external_data": True, "location": "m.data", "size_threshold": 0}
    onnx.save(onnx.load(DIGITS), model, **apart)
    before = [path.read_bytes() for path in (model, tmp_path / "m.data")]
    made = quantize(model, "int8", via="modelopt", data=calibration, items=8)
    assert made.changed["Conv"] == 6
    assert [path.read_bytes() for path in (model, tmp_path / "m.data")] == before


def test_images_are_cropped_scaled_and_normalised(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 20:60] = (255, 0, 51)  # the part that a centre crop keeps
    image.fromarray(pixels).save(tmp_path / "a.png")
    tensor = TensorSpec(name="x", dtype="float32", shape=("batch", 3, 16, 16))
    how = {"normalize": "0.5/0.5,0.5,0.25"}
    items, told = read(tmp_path, tensor, "classification", how)
    assert items.shape == (1, 3, 16, 16)
    np.testing.assert_allclose(items[0, :, 8, 8], [1.0, -1.0, (0.2 - 0.5) / 0.25], atol=1e-6)
    assert told == {
        "task": "classification", "fit": "crop", "resize": 18, "crop": "16x16",
        "interpolation": "bilinear", "normalize": "0.5/0.5,0.5,0.25", "colour": "rgb",
    }  # fmt: skip
    boxed, told = read(tmp_path, tensor, "pose", {})
    np.testing.assert_allclose(boxed[0, :, 0, 8], 114 / 255)
    np.testing.assert_allclose(boxed[0, :, 8, 8], [1.0, 0.0, 0.2], atol=1e-6)
    assert told == {
        "task": "pose", "fit": "letterbox", "size": "16x16", "normalize": "none",
        "interpolation": "cv2-bilinear", "colour": "rgb",
    }  # fmt: skip


def read(
    folder: Path, tensor: TensorSpec, task: str, settings: dict[str, Any]
) -> tuple[np.ndarray, dict[str, Any]]:
    model = ModelRef(path="net.onnx", format="onnx")
    items, told = open_items(folder, [tensor], model=model, limit=5, task=task, settings=settings)
    return items.rows[tensor.name], told
