"""What a new user types first: a model with open dimensions, no verb, several models."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from models import identity, tiny_model
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


def test_a_build_of_an_open_model_has_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["N", 3, "H", "W"]))
    assert run(["build", str(model), "--dry-run", "-r", "trtexec"]) == 0
    assert "--optShapes=x:1x3x224x224" in capsys.readouterr().out


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
