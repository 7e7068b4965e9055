"""Models that strangers bring: dimensions by the same name, sums, sequences, texts, no rank."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from models import conv_model, identity
from trtbench.cli import run
from trtbench.models.onnx_outline import outline_of
from trtbench.store.store import Store

QUICK = ("--iterations", "20", "--warmup", "5ms", "--no-until-steady")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    return tmp_path


def measured_shapes(*words: str) -> list[tuple[int | str | None, ...]]:
    assert run(["bench", *words, *QUICK]) == 0
    return [tensor.shape for tensor in Store(Path("store")).load("last").record.inputs]  # type: ignore[union-attr]


def test_a_dimension_of_the_same_name_follows_the_one_that_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    identity(Path("m.onnx"), ("x", FLOAT, ["N", "L"]), ("y", FLOAT, [2, "N"]), ("z", FLOAT, ["L"]))
    assert run(["bench", "m.onnx", "--dry-run", "--shape", "x:4x32"]) == 0
    assert "open dimensions" not in capsys.readouterr().err
    assert measured_shapes("m.onnx", "--shape", "x:4x32") == [(4, 32), (2, 4), (32,)]
    build = ["build", "m.onnx", "--dry-run", "-r", "trtexec"]
    assert (
        run([*build, "--shape-min", "x:1x8", "--shape-opt", "x:4x32", "--shape-max", "x:8x64"]) == 0
    )
    told = capsys.readouterr().out
    for end, shapes in {
        "min": "x:1x8,y:2x1,z:8",
        "opt": "x:4x32,y:2x4,z:32",
        "max": "x:8x64,y:2x8,z:64",
    }.items():
        found = told.split(f"--{end}Shapes=")[1].split()[0].strip("'")
        assert set(found.split(",")) == set(shapes.split(","))


def test_a_length_that_others_make_up_is_their_sum(capsys: pytest.CaptureFixture[str]) -> None:
    total = "past_sequence_length + sequence_length"
    identity(
        Path("m.onnx"),
        ("mask", INT64, ["batch", total]),
        ("ids", INT64, ["batch", "sequence_length"]),
        ("past", FLOAT, ["batch", 4, "past_sequence_length", 8]),
        ("next", INT64, ["batch", "sequence_length + 1"]),
    )
    assert measured_shapes("m.onnx") == [(1, 256), (1, 128), (1, 4, 128, 8), (1, 129)]
    assert measured_shapes("m.onnx", "--shape", "ids:2x1") == [
        (2, 129),
        (2, 1),
        (2, 4, 128, 8),
        (2, 2),
    ]


@pytest.mark.parametrize("written", ["[640, 480]", "640", "none", ""])
def test_sides_are_those_that_the_exporter_wrote_down(
    written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = identity(Path("m.onnx"), ("images", FLOAT, ["batch", 3, "height", "width"]))
    model = onnx.load(path)
    helper.set_model_props(model, {"imgsz": written, "names": "{0: 'person'}"})
    onnx.save(model, path)
    height, width = {"[640, 480]": (640, 480), "640": (640, 640)}.get(written, (224, 224))
    said = f"height {height}, width {width} (say otherwise"
    plans = (
        ["bench", "m.onnx", "--dry-run"],
        ["build", "m.onnx", "--dry-run", "-r", "trtexec"],
        ["quantize", "m.onnx", "--precision", "fp16", "--dry-run"],
    )
    for plan in plans:
        assert run(plan) == 0
        assert said in capsys.readouterr().err, plan


def sequence_of(*shape: int) -> onnx.TypeProto:
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, list(shape)))


def write(inputs: list[onnx.ValueInfoProto], nodes: list[onnx.NodeProto], *outputs: object) -> None:
    graph = helper.make_graph(nodes, "odd", inputs, list(outputs))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, "m.onnx")


def write_no_tensors(kind: str) -> None:
    taken = sequence_of(2, 2)
    if kind == "optional":
        taken = helper.make_optional_type_proto(taken)
    node = {"sequence": "SequenceLength", "optional": "OptionalHasElement"}[kind]
    counted = helper.make_tensor_value_info(
        "o", INT64 if kind == "sequence" else TensorProto.BOOL, []
    )
    write([helper.make_value_info("s", taken)], [helper.make_node(node, ["s"], ["o"])], counted)


REFUSING = {
    "bench": ["bench", "m.onnx", *QUICK],
    "bench plan": ["bench", "m.onnx", "--dry-run"],
    "profile plan": ["profile", "m.onnx", "--dry-run"],
    "check": ["check", "m.onnx", "m.onnx", "--random", "2"],
    "quantize": ["quantize", "m.onnx", "--precision", "fp16", "-o", "q.onnx"],
}


@pytest.mark.parametrize("kind", ["sequence", "optional"])
@pytest.mark.parametrize("words", REFUSING.values(), ids=REFUSING)
def test_inputs_that_are_no_tensors_are_refused_alike(
    words: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_no_tensors(kind)
    assert run(words) == 1
    told = capsys.readouterr()
    assert "error: the model takes inputs that are no tensors" in told.err
    assert f"  s   {kind}" in told.err
    assert "fix: export it with a tensor for each of them" in told.err
    assert not told.out


def test_a_sweep_has_a_row_for_a_model_that_it_cannot_feed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_no_tensors("sequence")
    assert run(["sweep", "m.onnx", "--batch", "1,2", "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 cannot be measured: the model takes inputs that are no tensors" in said


@pytest.mark.parametrize("plan", [(), ("--dry-run",)])
def test_texts_are_no_random_values_for_a_plan_either(
    plan: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    identity(Path("m.onnx"), ("x", TensorProto.STRING, ["N", 1]))
    assert run(["bench", "m.onnx", *QUICK, *plan]) == 1
    told = capsys.readouterr()
    assert "random inputs cannot be drawn: no random values for inputs of type str" in told.err
    assert "fix: --inputs data.npz" in told.err


def test_outputs_that_are_no_tensors_are_measured_with_the_rest() -> None:
    """Classifiers of other libraries give a sequence of maps beside their labels."""
    write(
        [helper.make_tensor_value_info("x", FLOAT, ["N", 4])],
        [
            helper.make_node("SplitToSequence", ["x"], ["parts"], axis=1),
            helper.make_node("Identity", ["x"], ["o"]),
        ],
        helper.make_value_info("parts", sequence_of(1, 1)),
        helper.make_tensor_value_info("o", FLOAT, None),
    )
    assert measured_shapes("m.onnx") == [(1, 4)]
    record = Store(Path("store")).load("last").record
    assert [each.name for each in record.outputs] == ["o"]  # type: ignore[union-attr]
    assert run(["check", "m.onnx", "m.onnx", "--random", "2"]) == 0
    assert run(["profile", "m.onnx", *QUICK]) == 0


def test_a_model_that_tells_no_rank_takes_the_shape_it_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(
        [helper.make_tensor_value_info("x", FLOAT, None)],
        [helper.make_node("Transpose", ["x"], ["o"], perm=[1, 0])],
        helper.make_tensor_value_info("o", FLOAT, None),
    )
    assert run(["bench", "m.onnx", *QUICK]) == 1
    assert "--shape x:1" in capsys.readouterr().err
    assert measured_shapes("m.onnx", "--shape", "x:3x5") == [(3, 5)]


@pytest.mark.parametrize("kind", range(1, 17))
def test_every_type_of_an_input_is_told_as_numpy_calls_it(kind: int) -> None:
    path = identity(Path("m.onnx"), ("x", kind, ["N", "L"]))
    told = outline_of(path).inputs[0].dtype
    assert told == (
        "bfloat16"
        if kind == TensorProto.BFLOAT16
        else "str"
        if kind == TensorProto.STRING
        else helper.tensor_dtype_to_np_dtype(kind).name
    )


@pytest.mark.parametrize("words", [["--batch", "8", "m.onnx"], ["-r", "torch", "m.onnx"],
                                   ["--shape=x:1x2", "m.onnx", "--json"]])  # fmt: skip
def test_a_verb_is_missed_also_where_flags_come_first(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert f"fix: trtbench bench {' '.join(words)}" in capsys.readouterr().err


def test_a_file_in_the_place_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    Path("trtexec_stdout.log").touch()
    assert run(["trtexec_stdout.log"]) == 2
    assert (
        "fix: trtbench inspect trtexec_stdout.log, or trtbench import trtexec_stdout.log"
        in capsys.readouterr().err
    )


def test_of_several_models_one_that_is_not_there_is_said_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    identity(Path("m.onnx"), ("x", FLOAT, [2]))
    assert run(["bench", "m.onnx", "n.onnx", *QUICK]) == 1
    assert "n.onnx" in capsys.readouterr().err
    assert not Path("store/runs").exists()


@pytest.mark.parametrize("name", ["seq", "sequence_length", "num_tokens", "frames"])
def test_a_sequence_in_front_is_one_item(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    identity(Path("m.onnx"), ("x", FLOAT, [name, 8]), ("position", INT64, [name]))
    assert measured_shapes("m.onnx") == [(128, 8), (128,)]
    told = capsys.readouterr()
    assert f"open dimensions: {name} 128 (say otherwise with --shape x:128x8)" in told.err
    assert "items/s (batch 1)" in told.out


def test_trtexec_is_told_what_open_dimensions_of_an_onnx_file_become(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By itself it would take ones: an image of one pixel."""
    identity(Path("m.onnx"), ("x", FLOAT, ["N", 3, "H", "W"]))
    plan = ["bench", "m.onnx", "-r", "trtexec", "--opt", "version=8.6", "--dry-run"]
    assert run(plan) == 0
    told = capsys.readouterr()
    assert "--shapes=x:1x3x224x224" in told.out
    assert "open dimensions: batch 1, H 224, W 224" in told.err
    assert run([*plan, "--shape", "x:2x3x8x8"]) == 0
    assert "--shapes=x:2x3x8x8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["run", "m.onnx"], "trtbench bench m.onnx"),
        (["measure", "m.onnx", "--batch", "2"], "trtbench bench m.onnx --batch 2"),
        (["quantise", "m.onnx"], "trtbench quantize m.onnx"),
        (["BENCH", "m.onnx"], "trtbench bench m.onnx"),
        (["run"], "trtbench runs"),
        (["--verbose", "bench", "m.onnx"], "add --help to the command to see its flags"),
        (["runs", "list"], "trtbench runs, or with "),
        (["bench"], "write it like trtbench bench model.onnx --batch 8"),
        (["quantize", "m.onnx"], "write it like trtbench quantize "),
        (["bench", "m.onnx", "-r", "tensorrt"], "trtbench build m.onnx, and bench the engine; or "),
        (["bench", "https://example.org/m.onnx"], "download it first"),
        (["export", "m.onnx"], "trtbench bench m.onnx"),
        (["gate", "none.toml"], "give a file that is there"),
        (["eval", "m.onnx", "--task", "classification", "--data", "none"], "--data with a folder"),
    ],
)
def test_what_strangers_type_is_answered_with_what_to_type(
    words: list[str], fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(Path("m.onnx"), ("x", FLOAT, [2, 4]))
    assert run(words) in (1, 2)
    assert f"fix: {fix}" in capsys.readouterr().err


def test_a_shape_that_a_file_leaves_out_is_called_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(
        [
            helper.make_tensor_value_info("x", FLOAT, None),
            helper.make_tensor_value_info("y", FLOAT, []),
            helper.make_value_info("s", sequence_of(2, 2)),
        ],
        [helper.make_node("Transpose", ["x"], ["o"], perm=[1, 0])],
        helper.make_tensor_value_info("o", FLOAT, None),
    )
    assert run(["inspect", "m.onnx"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for said in (
        "x float32 unknown shape",
        "y float32 scalar",
        "s sequence output",
        "o float32 unknown",
    ):
        assert said in told


@pytest.mark.parametrize(
    ("flags", "fix"),
    [
        ("--precision fp16", "trtbench quantize m.onnx --precision fp16 makes a file of it"),
        ("--cuda-graph on", "leave --cuda-graph and --streams out"),
        ("--streams 3", "leave --cuda-graph and --streams out"),
        ("--protocol pipeline", "--protocol serve"),
        ("--spin-wait", "leave --spin-wait out"),
        ("--no-transfers", "leave --no-transfers out"),
        ("--opt spinning=x", "--opt spinning=NAME, where NAME is one of "),
        ("--opt optimization=most", "--opt optimization="),
        ("--opt inter_threads=two", "--opt inter_threads=1"),
    ],
)
def test_a_plan_refuses_what_the_run_would(
    flags: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    identity(Path("m.onnx"), ("x", FLOAT, [2, 4]))
    assert run(["bench", "m.onnx", *flags.split(), "--dry-run"]) == 2
    told = capsys.readouterr()
    assert f"fix: {fix}" in told.err
    assert not told.out


def test_inspect_estimates_for_the_sizes_that_bench_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    conv_model(Path("m.onnx"), size="H")
    assert run(["inspect", "m.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["estimated_for"] == "batch=1, H=224"
