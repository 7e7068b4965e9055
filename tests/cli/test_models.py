"""Models that users bring: open dimensions, dimensions of one name, sequences, texts, no rank."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import leftovers
from command import QUICK, Say
from models import identity, save_text
from trtbench.store.store import Store

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
M = Path("m.onnx")
ONCE = ("--duration", "20ms", "--launches", "1")
IMAGE = ("x", FLOAT, ["N", 3, "H", "W"])
TRTEXEC = ("build", M, "--dry-run", "-r", "trtexec")


def measured_shapes(say: Say, *words: object) -> list[tuple[int | str | None, ...]]:
    said = say("bench", *words, *QUICK)
    assert said.status == 0, said.err
    return [tensor.shape for tensor in Store(Path("store")).load("last").record.inputs]  # type: ignore[union-attr]


VERBS = {
    "bench": ["bench", M, "--dry-run"],
    "build": TRTEXEC,
    "quantize": ["quantize", M, "--precision", "fp16", "-o", "q.onnx"],
    "quantize plan": ["quantize", M, "--precision", "int8", "--random", "4", "--dry-run"],
    "check": ["check", M, M, "--random", "2"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([IMAGE], "H 224, W 224 (usual sizes; change with --shape x:1x3x224x224)"),
        ([("x", FLOAT, ["N", "foo"]), ("h", FLOAT, [2, None, 5])], "foo 128"),
        ([("waveforms", FLOAT, ["N", "L"]), ("sr", INT64, [])], "L 16000 (usual sizes;"),
    ],
    ids=["image", "nothing known", "sound"],
)
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_says_what_open_dimensions_became(
    name: str, inputs: list[tuple[str, int, list[int | str | None]]], words: str, say: Say
) -> None:
    identity(M, *inputs)  # type: ignore[arg-type]
    said = say(*VERBS[name])
    assert said.status == 0, said.err
    assert (said.err if "--dry-run" in VERBS[name] else said.out + said.err).count(words) == 1


@pytest.mark.process
@pytest.mark.parametrize("verb", ["bench", "profile", "check", "compare", "quantize"])
@pytest.mark.parametrize("data", ["photos", "photos/0.png"])
def test_photos_are_data_in_every_verb(verb: str, data: str, say: Say) -> None:
    text = "net (float[N, 3, 32, 32] x) => (float[N, rows] o) { c = Conv (x, w) o = Flatten (c) }"
    save_text(M, text, w=np.ones((1, 3, 3, 3), np.float32))
    Path("photos").mkdir()
    for name in range(4):
        Image.new("RGB", (40, 40), (60 * name, 0, 0)).save(f"photos/{name}.png")
    kinds = {
        "check": [M],
        "compare": [M, *ONCE, "--max-launches", "1"],
        "quantize": ["--precision", "int8"],
    }
    held = ["--held-out", "photos"] if verb == "quantize" else []
    words = [*kinds.get(verb, QUICK), *held, "--task", "classification"]
    said = say(verb, M, *words, "--data", data)
    assert said.status == 0, said.err


def test_fp16_products_of_transposed_inputs_are_measured(say: Say) -> None:
    text = "net (float16[4, 1, 8] x) => (float16[1, 4, 3] o) { t = Transpose <perm = [1, 0, 2]> (x)"
    save_text(M, f"{text} o = MatMul (t, w) }}", w=np.ones((8, 3), np.float16))
    assert say("bench", M, *QUICK).status == 0, "ONNX Runtime 1.31 crashed while loading it"


def test_models_whose_shapes_contradict_and_outputs_vary_are_cast(say: Say) -> None:
    nodes = "y = Mul (x, x) b = Greater (y, half) n = NonZero (b) o = Cast <to = 1> (n)"
    text = f"net (float[N, 8] x) => (float[2, K] o) <float[8] y> {{ {nodes} }}"
    save_text(M, text, check=False, half=np.float32(0.25))
    assert say(*VERBS["quantize"]).status == 0


def test_random_calibration_is_at_least_one_batch_of_the_model(say: Say) -> None:
    text = "net (float[3, 3, 8, 8] x) => (float[3, 1, 6, 6] o) { o = Conv (x, w) }"
    save_text(M, text, w=np.ones((1, 3, 3, 3), np.float32))
    said = say("quantize", M, "--precision", "int8", "--random", 2)
    assert said.status == 0, said.err
    assert "3 items in 1 batch of 3" in said.words


def test_what_would_load_an_engine_is_named_before_anything_runs(say: Say, trtexec: Any) -> None:
    identity(M, ("x", FLOAT, [1, 3, 8, 8]))
    bench, check = ("bench", trtexec.engine()), ("check", M, trtexec.engine(), "-r", "onnxruntime")
    assert find_spec("tensorrt") or "'tensorrt==10.9.0.*'" in say(*bench, "-r", "tensorrt").err
    assert " items" not in (said := say(*check, "-r", "tensorrt")).err, said


WRONG = """--columns weight; --by weight; --filter weight>1; --expect weight>1; --draw a.pdf;
--draw m.onnx/a.png; --expect layers>0 --junit m.onnx/a.xml; -o m.onnx/a.csv; --junit a.xml;
sweep m.onnx --format a; sweep m.onnx --axis gap=5; sweep m.onnx --where top1>50%; layers --batch 8;
quantize m.onnx --precision int8 --random --method percentile --percentile 200 -o q.onnx;
import profile.json --precision fp17"""


@pytest.mark.parametrize("words", WRONG.split(";"))
def test_what_cannot_be_shown_is_refused_before_anything_is_measured(words: str, say: Say) -> None:
    """Unknown words are answered with one list of the known ones."""
    identity(M, ("x", FLOAT, [1, 3, 8, 8]))
    Path("profile.json").write_text(leftovers.profile_text())
    words = words.strip().replace("layers --", "profile profile.json --")
    said = say(*(f"profile m.onnx {words}" if words.startswith("-") else words).split())
    assert said.status in (1, 2), said
    assert said.err.count("weight_bytes") == ("--columns" in words)
    assert not [*Path().rglob("run.json")]


@pytest.mark.parametrize("width", [144, 7919])
def test_a_guess_that_fails_is_replaced_by_a_size_that_works_or_not_offered_again(
    width: int, say: Say
) -> None:
    text = f"net (float[N, foo] x) => (float[M, {width}] o) {{ o = Reshape (x, rows) }}"
    save_text(M, text, rows=np.array([-1, width]))
    for words in (["bench", M, *QUICK], VERBS["quantize"], VERBS["check"]):
        said = say(*words)
        assert said.status == (width != 144), said.err
        assert ("foo 576 (it does not run on 1x128; change with" in said.out + said.err) is (
            width == 144
        )
        assert "fix: --shape x:1x128" not in said.err


def test_a_build_takes_the_shapes_of_bench(say: Say) -> None:
    identity(M, IMAGE)
    plan = TRTEXEC
    assert "--optShapes=x:1x3x224x224" in say(*plan).out
    said = say(*plan, "--batch", 8)
    assert "--optShapes=x:8x3x224x224" in said.out
    assert "batch" not in said.err, "what was given is not assumed"
    said = say(*plan, "--shape", "x:4x3x32x64")
    assert ("--maxShapes=x:4x3x32x64" in said.out, said.err) == (True, "")
    identity(M, ("x", FLOAT, [2, 3]))
    said = say(*plan, "--batch", 8)
    assert (said.status, "is fixed at 2" in said.err) == (1, True)


def test_a_dimension_of_the_same_name_follows_the_one_that_was_given(say: Say) -> None:
    identity(M, ("x", FLOAT, ["N", "L"]), ("y", FLOAT, [2, "N"]), ("z", FLOAT, ["L"]))
    assert "open dimensions" not in say("bench", M, "--dry-run", "--shape", "x:4x32").err
    assert measured_shapes(say, M, "--shape", "x:4x32") == [(4, 32), (2, 4), (32,)]
    ends = {"min": "x:1x8", "opt": "x:4x32", "max": "x:8x64"}
    flags = [word for end, shape in ends.items() for word in (f"--shape-{end}", shape)]
    planned = say(*TRTEXEC, *flags).out
    for end, shapes in {
        "min": {"x:1x8", "y:2x1", "z:8"},
        "opt": {"x:4x32", "y:2x4", "z:32"},
        "max": {"x:8x64", "y:2x8", "z:64"},
    }.items():
        found = planned.split(f"--{end}Shapes=")[1].split()[0].strip("'")
        assert set(found.split(",")) == shapes


def test_a_length_that_others_make_up_is_their_sum(say: Say) -> None:
    identity(
        M,
        ("mask", INT64, ["batch", "past_sequence_length + sequence_length"]),
        ("ids", INT64, ["batch", "sequence_length"]),
        ("past", FLOAT, ["batch", 4, "past_sequence_length", 8]),
        ("next", INT64, ["batch", "sequence_length + 1"]),
    )
    assert measured_shapes(say, M) == [(1, 256), (1, 128), (1, 4, 128, 8), (1, 129)]
    given = measured_shapes(say, M, "--shape", "ids:2x1")
    assert given == [(2, 129), (2, 1), (2, 4, 128, 8), (2, 2)]


@pytest.mark.parametrize("written", ["[640, 480]", "640", "none", ""])
def test_sides_are_those_that_the_exporter_wrote_down(written: str, say: Say) -> None:
    model = onnx.load(identity(M, ("images", FLOAT, ["batch", 3, "height", "width"])))
    helper.set_model_props(model, {"imgsz": written, "names": "{0: 'person'}"})
    onnx.save(model, M)
    height, width = {"[640, 480]": (640, 480), "640": (640, 640)}.get(written, (224, 224))
    quantize = ("quantize", M, "--precision", "fp16", "--dry-run")
    for plan in (("bench", M, "--dry-run"), TRTEXEC, quantize):
        why = "image size of its metadata" if "640" in written else "usual sizes"
        assert f"height {height}, width {width} ({why}; change" in say(*plan).err, plan


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("sequence", "(seq(float[2, 2]) s) => (int64 o) { o = SequenceLength (s) }"),
        ("optional", "(optional(seq(float[2, 2])) s) => (bool o) { o = OptionalHasElement (s) }"),
    ],
)
@pytest.mark.parametrize("name", ["bench", "run", "profile", "check", "quantize"])
def test_inputs_that_are_no_tensors_are_refused_alike(name: str, kind: str, text: str, say: Say):
    save_text(M, f"net {text}", check=False)
    said = say(*VERBS.get(name, ("bench", M, *QUICK)))
    assert (said.status, said.out) == (1, "")
    assert "error: the model has inputs that are not tensors" in said.err
    assert f"  s   {kind}" in said.err
    assert "fix: export it with a tensor for each of them" in said.err


def test_outputs_that_are_no_tensors_are_measured_with_the_rest(say: Say) -> None:
    """Classifiers of other libraries give a sequence of maps beside their labels."""
    text = "parts = SplitToSequence <axis = 1> (x) o = Identity (x)"
    text = f"net (float[N, 4] x) => (seq(float[1, 1]) parts, float[] o) {{ {text} }}"
    save_text(M, text, check=False)
    assert measured_shapes(say, M) == [(1, 4)]
    record = Store(Path("store")).load("last").record  # type: ignore[union-attr]
    assert [each.name for each in record.outputs] == ["o"]
    assert say("check", M, M, "--random", "2").status == 0
    assert say("profile", M, *QUICK).status == 0


def test_a_model_without_a_rank_takes_the_shape_it_is_given(say: Say) -> None:
    text = "net (float[] x) => (float[] o) { o = Transpose <perm = [1, 0]> (x) }"
    save_text(M, text, check=False)
    said = say("bench", M, *QUICK)
    assert (said.status, "--shape x:" in said.err) == (1, True)
    assert measured_shapes(say, M, "--shape", "x:3x5") == [(3, 5)]


def test_integers_that_nothing_suggests_are_tried_and_texts_are_fed(say: Say) -> None:
    ends = "(float[1, 3, 1] x, int64[4] towards, string[2] words) => (float[] o, string[2] same)"
    save_text(M, f"net {ends} {{ o = Expand (x, towards) same = Identity (words) }}", check=False)
    said = say("bench", M, *QUICK)
    assert said.status == 0, said.err
    assert "input values: towards 1 (change with --input towards=VALUE)" in said.out + said.err
    said = say("bench", M, "--input", "towards=7", *QUICK)
    assert said.status == 1
    assert "fix: --input towards=VALUE, --shape towards:SIZE" in said.err


def test_dimensions_called_a_question_mark_are_not_one_dimension(say: Say) -> None:
    identity(M, ("x", FLOAT, ["?", "?"]))
    assert measured_shapes(say, M) == [(1, 128)]
    assert "dimension 1 of x 128" in say("bench", M, "--dry-run").err


def test_an_opset_older_than_the_runtime_is_named(say: Say) -> None:
    identity(M, ("x", FLOAT, [2, 3]))
    model = onnx.load(M)
    model.graph.node[0].op_type, model.opset_import[0].version = "Sigmoid", 1
    model.graph.node[0].attribute.append(helper.make_attribute("consumed_inputs", [0]))
    onnx.save(model, M)
    said = say("bench", M, *QUICK, status=1)
    assert "error: the model has opset 1; ONNX Runtime runs 7 and later" in said.err


@pytest.mark.parametrize("name", ["seq", "sequence_length", "num_tokens", "frames"])
def test_a_sequence_in_front_is_one_item(name: str, say: Say) -> None:
    identity(M, ("x", FLOAT, [name, 8]), ("position", INT64, [name]))
    said = say("bench", M, *QUICK)
    assert f"dynamic dimensions: {name} 128 (usual sizes; change with --shape x:128x8)" in said.err
    assert "items/s" in said.out
    assert "batch" not in said.out  # of one item


@pytest.mark.parametrize("verb", ["bench", "profile", "compare", "check", "eval", "gate"])
def test_weights_need_a_factory_which_is_one_flag_everywhere(verb: str, say: Say) -> None:
    Path("w.pth").write_bytes(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n.")
    words = [verb, *["w.pth"] * (1 + (verb in ("compare", "check", "eval"))), "-r", "torch"]
    words += ["--task", "classification", "--data", "."] * (verb == "eval")
    words += ["--metric", "median<1s"] * (verb == "gate")
    said = say(*words, "--device", "cpu")
    assert (said.status, "holds weights without the module" in said.err) == (2, True)
    assert "fix: --factory package.module:function" in said.err
    assert "holds weights" not in say(*words, "--device", "gpu", "--factory", "n:make").err
    if verb == "bench":
        plan = say(*words, "--device", "cpu", "--factory", "n:make", "--trust", "--dry-run").json
        assert plan["spec"]["options"] == {"factory": "n:make", "trust": "on"}
        identity(M, IMAGE)
        said = say("bench", M, "--factory", "n:make", "--dry-run")
        assert (said.status, "factory" in said.err) == (2, True)
