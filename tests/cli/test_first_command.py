"""What a new user types first: a model with open dimensions, no verb, several models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from onnx import TensorProto

from models import conv_model, identity, tiny_model
from trtbench.cli import run
from trtbench.store.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


QUICK = ("--iterations", "20", "--warmup", "5ms", "--no-until-steady")


def shapes(store: Path) -> list[tuple[int | str | None, ...]]:
    entry = Store(store).load("last")
    return [tensor.shape for tensor in entry.record.inputs]  # type: ignore[union-attr]


def test_open_images_become_one_of_the_usual_size_and_it_is_said(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    assert run(["bench", str(model), *QUICK, "--store", str(store)]) == 0
    assert shapes(store) == [(1, 3, 224, 224)]
    assert "open dimensions: batch 1, H 224, W 224" in capsys.readouterr().err


def test_open_sequences_have_one_length_in_all_inputs(store: Path, tmp_path: Path) -> None:
    kind, dims = TensorProto.INT64, ["batch", "sequence"]
    model = identity(tmp_path / "m.onnx", ("ids", kind, dims), ("mask", kind, dims))
    assert run(["bench", str(model), *QUICK, "--store", str(store)]) == 0
    assert shapes(store) == [(1, 128), (1, 128)]
    assert run(["bench", str(model), *QUICK, "--batch", "3", "--store", str(store)]) == 0
    assert shapes(store) == [(3, 128), (3, 128)]


def test_what_no_name_suggests_is_one_error_with_a_ready_command(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", "foo", 7, "bar"]))
    assert run(["bench", str(model), *QUICK, "--store", str(store)]) == 2
    told = capsys.readouterr().err
    assert "'foo', 'bar'" in told
    assert "fix: --shape x:1x1x7x1" in told


def stored(words: list[str], store: Path) -> list[str]:
    """Flags of verbs that keep runs."""
    return [] if words[0] in ("build", "quantize") else ["--store", str(store)]


ODD = ("x", TensorProto.FLOAT, ["N", "foo", 7, "bar"])
REFUSALS = {
    "bench": ["bench", "MODEL", "--dry-run"],
    "profile": ["profile", "MODEL", "--dry-run"],
    "build": ["build", "MODEL", "--dry-run", "-r", "trtexec"],
    "quantize": ["quantize", "MODEL", "--precision", "fp16", "-o", "q.onnx"],
    "quantize plan": ["quantize", "MODEL", "--precision", "int8", "--calibration", "random",
                      "--dry-run"],
    "sweep plan": ["sweep", "MODEL", "--batch", "1,2", "--dry-run"],
    "sweep": ["sweep", "MODEL", "--batch", "1,2", "-o", "swept"],
    "check": ["check", "MODEL", "MODEL", "--random", "2"],
    "localize": ["localize", "MODEL", "MODEL", "--random", "2"],
    "lottery": ["lottery", "MODEL", "-r", "trtexec"],
    "build times": ["build", "MODEL", "-r", "trtexec", "--times", "3"],
    "upgrade": ["upgrade", f"a={sys.executable}", f"b={sys.executable}", "MODEL"],
}  # fmt: skip
BUILDS = ("build", "lottery", "upgrade")


@pytest.mark.parametrize("words", REFUSALS.values(), ids=REFUSALS)
def test_every_verb_and_its_dry_run_refuse_at_once_what_nothing_suggests(
    words: list[str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ODD, ("y", TensorProto.FLOAT, [2, "baz", 5]))
    typed = [str(model) if word == "MODEL" else word for word in words]
    assert run([*typed, *stored(words, store)]) == 2
    told = capsys.readouterr()
    flag = "--shape-opt" if words[0] in BUILDS else "--shape"
    assert f"fix: {flag} x:1x1x7x1 {flag} y:2x1x5" in told.err
    assert "'foo', 'bar' of " in told.err
    assert not told.out
    assert not (tmp_path / "swept").exists()


ASSUMING = {
    "bench": ["bench", "MODEL", "--dry-run"],
    "build": ["build", "MODEL", "--dry-run", "-r", "trtexec"],
    "quantize plan": ["quantize", "MODEL", "--precision", "fp16", "--dry-run"],
    "quantize": ["quantize", "MODEL", "--precision", "fp16", "-o", "q.onnx"],
    "check": ["check", "MODEL", "MODEL", "--random", "2"],
}


@pytest.mark.parametrize("words", ASSUMING.values(), ids=ASSUMING)
def test_every_verb_says_what_open_dimensions_became(
    words: list[str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    typed = [str(model) if word == "MODEL" else word for word in words]
    assert run([*typed, *stored(words, store)]) == 0
    told = capsys.readouterr()
    flag = "--shape-opt" if words[0] in BUILDS else "--shape"
    said = f"H 224, W 224 (say otherwise with {flag} x:1x3x224x224)"
    assert (told.err if "--dry-run" in words else told.out + told.err).count(said) == 1


def test_localize_says_what_open_dimensions_became(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = conv_model(tmp_path / "m.onnx", size="H")
    assert run(["quantize", str(model), "--precision", "fp16", "-o", "q.onnx"]) == 0
    capsys.readouterr()
    words = ["localize", str(model), "q.onnx", "--random", "2", "--no-speed"]
    assert run([*words, "--store", str(store)]) == 0
    assert capsys.readouterr().out.count("say otherwise with --shape") == 1


def test_a_build_of_an_open_model_has_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    assert run(["build", str(model), "--dry-run", "-r", "trtexec"]) == 0
    assert "--optShapes=x:1x3x224x224" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["build", "build --times 1"])
def test_a_build_takes_the_words_of_bench(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    plan = [*verb.split(), str(model), "--dry-run", "-r", "trtexec"]
    assert run([*plan, "--batch", "8"]) == 0
    told = capsys.readouterr()
    assert "--optShapes=x:8x3x224x224" in told.out
    assert "batch" not in told.err, "what was given is not assumed"
    assert run([*plan, "--shape", "x:4x3x32x64"]) == 0
    told = capsys.readouterr()
    assert "--maxShapes=x:4x3x32x64" in told.out
    assert not told.err
    fixed = identity(tmp_path / "f.onnx", ("x", TensorProto.FLOAT, [2, 3]))
    assert run([*verb.split(), str(fixed), "--dry-run", "-r", "trtexec", "--batch", "8"]) == 1
    assert "is fixed at 2" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["model.onnx", "net.engine", "torchvision:resnet18"])
def test_a_forgotten_verb_is_named(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word, "--batch", "4"]) == 2
    assert f"fix: trtbench bench {word} --batch 4" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["no/such", "a.b.c", "-x", "_flags", "bnech"])
def test_a_wrong_verb_is_no_traceback(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([word]) == 2
    assert "error:" in capsys.readouterr().err


def test_several_models_are_measured_one_by_one(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tiny_model(tmp_path / f"{name}.onnx")) for name in "ab"]
    assert run(["bench", *names, *QUICK, "--store", str(store)]) == 0
    out = capsys.readouterr().out
    assert "a.onnx" in out
    assert "b.onnx" in out
    assert len(list((store / "runs").glob("*/run.json"))) == 2
    assert run(["bench", *names, *QUICK, "--json", "--store", str(store)]) == 2
