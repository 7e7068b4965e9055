"""Casts and quantizations: what comes out runs, is close, and is what TensorRT takes."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import models
from trtbench.analysis.numeric import tensor_diff, tensor_diffs
from trtbench.analysis.onnx_stamp import notes_from_metadata
from trtbench.build.cast import cast
from trtbench.build.onnx_file import check_onnx, load_onnx, save_onnx, stored_bytes
from trtbench.build.onnx_read import input_specs
from trtbench.build.onnx_rules import refusals
from trtbench.build.onnx_verify import run_all
from trtbench.build.quantize_data import (
    FeedFile,
    array_items,
    feeds_sha256,
    random_items,
    save_feeds,
)
from trtbench.build.quantize_images import Preprocessing, image_items
from trtbench.cli import run as run_command
from trtbench.data import demo_file
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UnavailableError, UsageError
from trtbench.tasks import classification
from trtbench.workflows._conversion import read_sidecar
from trtbench.workflows.quantize import Data, quant_spec, run_quantize
from typed_models import typed

DIGITS = demo_file("digits.onnx")
OLD_RUNTIME = tuple(int(part) for part in version("onnxruntime").split(".")[:2]) < (1, 24)
"""The newest for Python 3.10."""


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    with np.load(demo_file("digits.npz")) as data:
        return data["images"].astype(np.float32) / 255


@pytest.fixture
def calibration(tmp_path: Path, images: np.ndarray) -> Path:
    path = tmp_path / "calibration.npz"
    np.savez(path, image=images[:80])
    return path


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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "one.onnx")
    return tmp_path / "one.onnx"


@pytest.mark.parametrize("keep_io", [False, True])
def test_fp16_runs_on_onnx_runtime_and_is_close(
    tmp_path: Path, images: np.ndarray, keep_io: bool
) -> None:
    made = cast(load_onnx(DIGITS), precision="fp16", keep_io=keep_io)
    feeds = tmp_path / "feeds.npz"
    save_feeds(feeds, [{"image": images[:8]}])
    wanted = TensorProto.FLOAT if keep_io else TensorProto.FLOAT16
    assert types_of(made.model) == {"image": wanted, "logits": wanted}
    assert {t.data_type for t in made.model.graph.initializer} == {TensorProto.FLOAT16}
    reference = outputs(DIGITS, feeds)
    for model in (made.model, made.stand_in):
        found = outputs(saved(model, tmp_path / "m.onnx"), feeds)
        (diff,) = tensor_diffs(reference, found)
        assert diff.sqnr_db is not None
        assert 45 < diff.sqnr_db < 80


def test_bf16_raises_the_opset_and_rounds_more_than_fp16(
    tmp_path: Path, images: np.ndarray
) -> None:
    made = cast(load_onnx(DIGITS), precision="bf16")
    assert made.model.opset_import[0].version == 22
    assert types_of(made.model)["image"] == TensorProto.BFLOAT16
    saved(made.model, tmp_path / "b.onnx")
    feeds = tmp_path / "feeds.npz"
    save_feeds(feeds, [{"image": images[:8]}])
    found = outputs(saved(made.stand_in, tmp_path / "s.onnx"), feeds)
    (diff,) = tensor_diffs(outputs(DIGITS, feeds), found)
    assert diff.sqnr_db is not None
    assert 30 < diff.sqnr_db < 55


def test_the_stand_in_rounds_as_the_type_does(tmp_path: Path) -> None:
    weights = np.array([1.0009765625 + 2**-12, 3.0], np.float32)
    made = cast(load_onnx(one_node(tmp_path, weights)), precision="fp16")
    feeds = tmp_path / "feeds.npz"
    x = np.array([[1 / 3, 30000.0]], np.float32)
    save_feeds(feeds, [{"x": x}])
    found = outputs(saved(made.stand_in, tmp_path / "s.onnx"), feeds)["z"]
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


def test_weights_that_become_zero_are_counted(tmp_path: Path) -> None:
    path = one_node(tmp_path, np.array([1e-9, 1.0, 0.0]))
    assert cast(load_onnx(path), precision="fp16").facts["weights_rounded_to_zero"] == 1
    assert cast(load_onnx(path), precision="bf16").facts["weights_rounded_to_zero"] == 0


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
    feeds = tmp_path / "feeds.npz"
    ids = np.arange(6).reshape(2, 3)
    save_feeds(
        feeds,
        [
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "use_scale": np.array([True]),
                "scale": np.full((2, 1), 0.5, np.float32),
            }
        ],
    )
    found = outputs(saved(made.model, tmp_path / "m.onnx"), feeds)
    (diff,) = tensor_diffs(outputs(path, feeds), found)
    assert diff.rel_l2 is not None
    assert diff.rel_l2 < 1e-3


def shape_arithmetic_model(path: Path) -> Path:
    """Scale by the number of columns, computed in floating point from Shape."""
    graph = helper.make_graph(
        [
            helper.make_node("Shape", ["x"], ["shape"], name="shape"),
            helper.make_node("Cast", ["shape"], ["dims"], to=TensorProto.FLOAT, name="to_float"),
            helper.make_node("Gather", ["dims", "one"], ["columns"], name="pick"),
            helper.make_node("Sub", ["columns", "c"], ["rest"], name="rest"),
            helper.make_node("Mul", ["x", "rest"], ["y"], name="scale"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n"])],
        [
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array([4095.0], np.float32), "c"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_arithmetic_with_dimensions_stays_exact(tmp_path: Path) -> None:
    path = shape_arithmetic_model(tmp_path / "shape.onnx")
    made = cast(load_onnx(path), precision="fp16")
    assert {made.kept[name] for name in ("to_float", "pick", "rest")} == {"computes shapes"}
    assert made.changed == {"Shape": 1, "Mul": 1}
    feeds = tmp_path / "feeds.npz"
    save_feeds(feeds, [{"x": np.ones((1, 4097), np.float32)}])
    found = outputs(saved(made.model, tmp_path / "m.onnx"), feeds)["y"]
    assert np.all(found == 2)  # in FP16, 4097 - 4095 would be 1 or 0


@pytest.mark.skipif(
    OLD_RUNTIME, reason="FP16 kernels of ONNX Runtime before 1.24 are 17 % off here"
)
def test_a_quantized_model_can_be_cast_too(tmp_path: Path, images: np.ndarray) -> None:
    made = cast(load_onnx(demo_file("digits.int8.onnx")), precision="fp16")
    path = saved(made.model, tmp_path / "m.onnx")
    assert made.model.opset_import[0].version >= 19
    feeds = tmp_path / "feeds.npz"
    save_feeds(feeds, [{"image": images[:8]}])
    (diff,) = tensor_diffs(outputs(DIGITS, feeds), outputs(path, feeds))
    assert diff.sqnr_db is not None
    assert diff.sqnr_db > 20


def control_flow_model(path: Path) -> Path:
    """An If whose branches read tensors from outside."""

    def branch(name: str, op: str) -> onnx.GraphProto:
        node = helper.make_node(op, ["twice", "w"], [name])
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])
        return helper.make_graph([node], name, [], [out])

    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["twice"], name="double"),
            helper.make_node(
                "If", ["flag"], ["y"], name="choose",
                then_branch=branch("a", "Add"), else_branch=branch("b", "Mul"),
            ),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, [1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(np.array([3.0], np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def test_branches_get_what_they_read_in_fp32(tmp_path: Path) -> None:
    made = cast(load_onnx(control_flow_model(tmp_path / "if.onnx")), precision="fp16")
    assert "control flow" in made.kept["choose"]
    path = saved(made.model, tmp_path / "m.onnx")
    for flag, wanted in ((True, 7.0), (False, 12.0)):
        feeds = tmp_path / "feeds.npz"
        save_feeds(feeds, [{"x": np.array([2.0], np.float32), "flag": np.array([flag])}])
        assert outputs(path, feeds)["y"].tolist() == [wanted]


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_int8_is_what_tensorrt_takes_and_close_on_held_out_items(
    tmp_path: Path, calibration: Path, method: str
) -> None:
    output = tmp_path / "digits.int8.onnx"
    spec = quant_spec(DIGITS, precision="int8", output=output, method=method, keep=("/8/Gemm",))
    sidecar = run_quantize(spec, data=Data(calibration=str(calibration), items=48))
    model = onnx.load(output)
    assert refusals(model) == ()
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
    assert sidecar.calibration is not None
    assert (sidecar.calibration.items, sidecar.calibration.batch) == (48, 8)
    assert "held out" in (sidecar.compared_on or "")
    assert read_sidecar(output) == sidecar
    assert {path.name for path in tmp_path.iterdir()} == {
        "calibration.npz", "digits.int8.onnx", "digits.int8.json",
    }  # fmt: skip


def test_additions_of_constants_are_left_alone(tmp_path: Path) -> None:
    """TensorRT refuses a quantized constant that is no weight of a layer."""
    path = one_node(tmp_path, np.array([1.0, 2.0]), op="Add")
    with pytest.raises(InputError, match="nothing was quantized"):
        run_quantize(
            quant_spec(path, precision="int8", output=tmp_path / "q.onnx", method="minmax"),
            data=Data(calibration="random", items=8),
        )


def test_a_bias_in_int32_and_a_zero_point_are_refused(tmp_path: Path) -> None:
    def node(kind: int, zero: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["y"], name="dq")],
            "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
            [
                helper.make_tensor("w", kind, [2], [1, 2]),
                helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
                helper.make_tensor("z", kind, [], [zero]),
            ],
        )  # fmt: skip
        return helper.make_model(graph)

    assert refusals(node(TensorProto.INT8, 0)) == ()
    assert "INT32" in refusals(node(TensorProto.INT32, 0))[0]
    assert "zero point" in refusals(node(TensorProto.INT8, 3))[0]
    assert "UINT8" in refusals(node(TensorProto.UINT8, 0))[0]


def test_random_calibration_is_stamped_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = models.conv_model(tmp_path / "conv.onnx")
    words = ["quantize", str(model), "--precision", "int8", "--calibration", "random"]
    assert run_command([*words, "--items", "16", "--method", "minmax"]) == 0
    assert "random data" in capsys.readouterr().out
    made = tmp_path / "conv.int8.onnx"
    metadata = {entry.key: entry.value for entry in onnx.load(made).metadata_props}
    assert metadata["trtbench.calibration"] == "random"
    assert notes_from_metadata(metadata)
    sidecar = read_sidecar(made)
    assert sidecar is not None
    assert any("random data" in note for note in sidecar.notes)
    assert run_command(["inspect", str(made)]) == 0
    assert "random data" in capsys.readouterr().out
    store = str(tmp_path / "store")
    bench = ["bench", str(made), "--batch", "1", "--iterations", "20", "--store", store, "--json"]
    assert run_command(bench) == 0
    assert "random data" in capsys.readouterr().out


def test_the_same_data_gives_the_same_hash_and_other_data_another(images: np.ndarray) -> None:
    feeds = [{"image": images[:4]}, {"image": images[4:8]}]
    assert feeds_sha256(feeds) == feeds_sha256([dict(feed) for feed in feeds])
    assert feeds_sha256(feeds) != feeds_sha256(feeds[:1])
    changed = images[:4].copy()
    changed[0, 0, 0, 0] += 1
    assert feeds_sha256(feeds) != feeds_sha256([{"image": changed}, feeds[1]])


def test_calibrating_on_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for precision in ("int8", "fp8"):
        assert run_command(["quantize", str(DIGITS), "--precision", precision, "-o", "x.onnx"]) == 2
        assert "--calibration random" in capsys.readouterr().err


def test_fp8_without_modelopt_says_what_to_install(tmp_path: Path, calibration: Path) -> None:
    spec = quant_spec(DIGITS, precision="fp8", output=tmp_path / "m.onnx")
    with pytest.raises(UnavailableError, match="ModelOpt") as caught:
        run_quantize(spec, data=Data(calibration=str(calibration)))
    assert "nvidia-modelopt[onnx]" in (caught.value.fix or "")
    assert not (tmp_path / "m.onnx").exists()
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"picture": np.zeros((4, 1, 32, 32), np.float32)}, "no array for the input 'image'"),
        ({"image": np.zeros((4, 1, 32, 32))}, "wrong type"),
        ({"image": np.zeros((4, 3, 32, 32), np.float32)}, "wrong shape"),
        ({"image": np.zeros((0, 1, 32, 32), np.float32)}, "number of items"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    tensor = TensorSpec(name="image", dtype="float32", shape=("batch", 1, 32, 32))
    with pytest.raises(InputError, match=message):
        array_items(path, [tensor])


def test_inputs_without_a_batch_are_fed_as_they_are(tmp_path: Path) -> None:
    tensors = [
        TensorSpec(name="ids", dtype="int64", shape=("batch", 4)),
        TensorSpec(name="flag", dtype="bool", shape=(1,)),
    ]
    items = random_items(tensors, count=6, seed=0, shapes={})
    feeds = items.feeds(batch=4, fixed=False)
    assert [feed["ids"].shape for feed in feeds] == [(4, 4), (2, 4)]
    assert [feed["flag"].shape for feed in feeds] == [(1,), (1,)]
    save_feeds(tmp_path / "f.npz", feeds)
    again = list(FeedFile(tmp_path / "f.npz"))
    assert feeds_sha256(again) == feeds_sha256(feeds)


def test_images_are_cropped_scaled_and_normalised(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 20:60] = (255, 0, 51)  # the part that a centre crop keeps
    image.fromarray(pixels).save(tmp_path / "a.png")
    tensor = TensorSpec(name="x", dtype="float32", shape=("batch", 3, 16, 16))
    how = Preprocessing(mean=(0.5,), std=(0.5, 0.5, 0.25))
    (array,) = image_items(tmp_path, [tensor], how=how, limit=5).rows.values()
    assert array.shape == (1, 3, 16, 16)
    np.testing.assert_allclose(array[0, :, 8, 8], [1.0, -1.0, (0.2 - 0.5) / 0.25], atol=1e-6)
    boxed = image_items(tmp_path, [tensor], how=Preprocessing(resize="letterbox"), limit=5).rows[
        "x"
    ]
    np.testing.assert_allclose(boxed[0, :, 0, 8], 114 / 255)
    np.testing.assert_allclose(boxed[0, :, 8, 8], [1.0, 0.0, 0.2], atol=1e-6)


def test_a_task_prepares_images_as_it_does_for_judging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same pixels, to the bit, that an evaluation would feed."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for index in range(10):
        folder = tmp_path / "photos" / f"class{index % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (50, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    model = models.conv_model(tmp_path / "net.onnx")
    words = ["quantize", str(model), "--precision", "int8", "--calibration"]
    words += [str(tmp_path / "photos"), "--task", "classification", "--json"]
    assert run_command([*words, "--normalize", "imagenet"]) == 0
    made = json.loads(capsys.readouterr().out)
    told = made["calibration"]
    assert told["preprocessing"]["task"] == "classification"
    assert told["preprocessing"]["normalize"] == "imagenet"
    assert (told["items"], made["compared_on"][:2]) == (8, "2 ")  # a fifth, not half, is held out
    inputs = input_specs(load_onnx(model, weights=False))
    settings = {"data": str(tmp_path / "photos"), "unlabelled": True, "normalize": "imagenet"}
    source = classification.open_source({**settings, "interpolation": "bilinear"}, inputs)
    order = np.random.default_rng(0).permutation(10)[:8]
    fed = np.stack([source.prepare(source.load(int(i)))[inputs[0].name] for i in order])
    assert told["sha256"] == feeds_sha256([{inputs[0].name: fed}])
    assert run_command([*words, "--mean", "imagenet"]) == 2
    assert "--mean and --task both say" in capsys.readouterr().err


def test_a_folder_without_images_and_a_broken_image_are_refused(tmp_path: Path) -> None:
    tensor = TensorSpec(name="x", dtype="float32", shape=(1, 3, 8, 8))
    with pytest.raises(InputError, match="no images"):
        image_items(tmp_path, [tensor], how=Preprocessing(), limit=5)
    (tmp_path / "broken.jpg").write_bytes(b"no image at all")
    with pytest.raises(InputError, match="cannot be read as an image"):
        image_items(tmp_path, [tensor], how=Preprocessing(), limit=5)


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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("op", ["If", "Loop"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_control_flow_is_left_alone_and_the_rest_is_converted(
    tmp_path: Path, op: str, precision: str
) -> None:
    source = control_flow(tmp_path / "net.onnx", op)
    data = Data(calibration="random" if precision == "int8" else None, items=32)
    if OLD_RUNTIME and (op, precision) == ("Loop", "int8"):
        with pytest.raises(InputError, match="could not quantize") as caught:
            run_quantize(quant_spec(source, precision=precision), data=data)
        assert "pip install -U onnxruntime" in str(caught.value.fix)
        return
    sidecar = run_quantize(quant_spec(source, precision=precision), data=data)
    assert sidecar.changed == {"MatMul": 2}
    (diff,) = sidecar.difference
    assert diff.sqnr_db is not None
    assert diff.sqnr_db > 20


def lookup(path: Path, *, rows: int, through: str = "Cast") -> Path:
    """A table of few rows, looked up by an input of integers."""
    shape = ("n", 3)
    nodes = [
        helper.make_node(through, ["ids"], ["i"], **({"to": 7} if through == "Cast" else {})),
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
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_random_indices_stay_within_the_table(tmp_path: Path, precision: str) -> None:
    source = lookup(tmp_path / "net.onnx", rows=5)
    data = Data(calibration="random" if precision == "int8" else None, items=32)
    sidecar = run_quantize(quant_spec(source, precision=precision), data=data)
    assert sidecar.difference[0].nonfinite == 0
    assert sidecar.unverified is None


def test_inputs_the_model_cannot_take_are_told_with_a_way_out(tmp_path: Path) -> None:
    source = lookup(tmp_path / "net.onnx", rows=5, through="Neg")  # not followed: out of range
    with pytest.raises(InputError, match="does not run on the inputs that were drawn") as caught:
        run_quantize(quant_spec(source, precision="fp16"))
    assert "--inputs" in (caught.value.fix or "")
    data = Data(calibration="random", items=32)
    with pytest.raises(InputError, match="could not quantize") as caught:
        run_quantize(quant_spec(source, precision="int8"), data=data)
    assert "out of data bounds" in caught.value.facts["reason"]
    assert "--calibration data.npz" in (caught.value.fix or "")


def test_a_half_model_is_quantized_in_an_opset_that_has_it(tmp_path: Path) -> None:
    source = typed(tmp_path / "half.onnx", TensorProto.FLOAT16)
    spec = quant_spec(source, precision="int8")
    sidecar = run_quantize(spec, data=Data(calibration="random", items=16))
    assert sidecar.opset == 19
    assert refusals(load_onnx(Path(spec.output))) == ()


def test_an_operator_nobody_knows_is_told_once_and_without_the_folder_of_the_job(
    tmp_path: Path,
) -> None:
    model = onnx.load(one_node(tmp_path, np.ones(4)))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Strange", "my.ops"
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(model, tmp_path / "one.onnx")
    sidecar = run_quantize(quant_spec(tmp_path / "one.onnx", precision="fp16"))
    assert "Strange" in (sidecar.unverified or "")
    assert ".partial" not in (sidecar.unverified or "")
    assert sidecar.notes == ()


def test_a_model_too_large_for_one_file_gets_a_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_onnx(DIGITS)
    held = stored_bytes(model)
    assert 0.9 < held / DIGITS.stat().st_size < 1  # without serializing, which 2 GiB forbid
    monkeypatch.setattr("trtbench.build.onnx_file.ONE_FILE_BYTES", held - 1)
    written = save_onnx(model, tmp_path / "m.onnx")
    assert [path.name for path in written] == ["m.onnx", "m.onnx.data"]
    again = load_onnx(tmp_path / "m.onnx")
    assert stored_bytes(again) == held
    monkeypatch.setattr("trtbench.build.onnx_file.ONE_FILE_BYTES", held)
    assert len(save_onnx(again, tmp_path / "m.onnx")) == 1
    assert not (tmp_path / "m.onnx.data").exists()


def test_no_more_items_are_calibrated_with_than_asked_for(
    tmp_path: Path, calibration: Path
) -> None:
    spec = quant_spec(DIGITS, precision="int8", output=tmp_path / "m.onnx")
    sidecar = run_quantize(spec, data=Data(calibration=str(calibration), items=8))
    assert sidecar.calibration is not None
    assert sidecar.calibration.items == 8


def test_a_result_never_overwrites_its_source(tmp_path: Path) -> None:
    model = models.tiny_model(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="overwrite"):
        quant_spec(model, precision="fp16", output=model)


def test_somebody_elses_json_is_left_alone(tmp_path: Path) -> None:
    model = models.tiny_model(tmp_path / "m.onnx")
    (tmp_path / "m.fp16.json").write_text('{"mine": 1}')
    run_quantize(quant_spec(model, precision="fp16"))
    assert (tmp_path / "m.fp16.json").read_text() == '{"mine": 1}'
    assert read_sidecar(tmp_path / "m.fp16.onnx") is not None


def test_external_data_is_read_and_one_file_written(tmp_path: Path) -> None:
    model = models.external_data_model(tmp_path / "m.onnx")
    sidecar = run_quantize(quant_spec(model, precision="fp16"))
    assert sidecar.difference[0].sqnr_db is not None
    models.external_data_path(model).unlink()
    with pytest.raises(InputError, match="another file"):
        run_quantize(quant_spec(model, precision="bf16"))


def test_differences_by_hand() -> None:
    reference = np.array([1.0, -2.0, 2.0, 0.0])
    diff = tensor_diff(reference, np.array([1.0, -2.0, 2.3, 0.0]), rtol=0.1, atol=0.0)
    assert diff.close == 0.75
    assert diff.max_abs == pytest.approx(0.3)
    assert diff.max_at == (2,)
    assert diff.mean_abs == pytest.approx(0.075)
    assert diff.rel_l2 == pytest.approx(0.1)
    assert diff.sqnr_db == pytest.approx(20.0)
    assert diff.bias == pytest.approx(0.075 / 1.5)
    assert diff.cosine == pytest.approx(9.6 / (3 * np.sqrt(1 + 4 + 2.3**2)))


def test_the_reference_scales_the_tolerance() -> None:
    """numpy scales by its second argument; swapping the two changes the verdict here."""
    assert tensor_diff(np.array([1.0]), np.array([1.11]), rtol=0.1, atol=0).close == 0.0
    assert tensor_diff(np.array([1.11]), np.array([1.0]), rtol=0.1, atol=0).close == 1.0


def test_differences_at_the_edges() -> None:
    same = tensor_diff(np.ones(3), np.ones(3))
    assert (same.rel_l2, same.sqnr_db, same.cosine, same.close) == (0.0, None, 1.0, 1.0)
    broken = tensor_diff(np.ones(3), np.array([1.0, np.nan, np.inf]))
    assert broken.nonfinite == 2
    assert broken.rel_l2 == 0.0
    masked = tensor_diff(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert (masked.nonfinite, masked.close) == (0, 1.0)
    zeros = tensor_diff(np.zeros(2), np.ones(2))
    assert (zeros.rel_l2, zeros.cosine) == (None, None)
    assert "shapes differ" in (tensor_diff(np.ones(2), np.ones(3)).note or "")
    missing = tensor_diffs({"a": np.ones(1)}, {"b": np.ones(1)})
    assert [diff.name for diff in missing] == ["a", "b"]
    assert all(diff.note for diff in missing)
