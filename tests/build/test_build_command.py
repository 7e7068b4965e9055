"""``trtbench build`` with the builders of the Python API, from the command line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto

import models
from bindings.rtx import Rtx
from trtbench.cli import run as trtbench

pytestmark = pytest.mark.xdist_group("rtx")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return models.conv_model(tmp_path / "net.onnx")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert trtbench(["build", *arguments]) == status
    return capsys.readouterr()


def job(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    document = json.loads(printed(capsys, *arguments, "--dry-run", "--json").out)
    return document["job"]["spec"], document["commands"]


def test_input_shapes_are_numbers_after_the_flag(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, _ = job(capsys, "net.onnx", "-r", "tensorrt", "--input-shape", "-1", "3", "16", "16")
    assert spec["shapes"]["image"] == {
        "min": [1, 3, 16, 16],
        "opt": [128, 3, 16, 16],
        "max": [256, 3, 16, 16],
    }
    named = job(capsys, "net.onnx", "-r", "tensorrt", "--input-shape", "image:4x3x16x16")[0]
    assert named["shapes"]["image"]["max"] == [4, 3, 16, 16]


def test_repeated_shapes_are_further_profiles(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = ("--shape-opt", "image:2x3x16x16", "--shape-opt", "image:64x3x16x16")
    spec, _ = job(capsys, "net.onnx", "-r", "tensorrt", *shapes)
    assert spec["shapes"]["image"]["opt"][0] == 2
    assert [each["image"]["opt"][0] for each in spec["more_profiles"]] == [64]


def test_the_command_of_a_plan_asks_for_the_same_again(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["net.onnx", "-r", "tensorrt", "--precision", "fp16", "--workspace", "1GiB", "--refit"]
    asked += ["--shape-min", "image:1x3x16x16", "--shape-max", "image:8x3x16x16"]
    spec, commands = job(capsys, *asked)
    again, same = job(capsys, *shlex.split(commands[0])[2:])
    assert again == spec
    assert same == commands


def test_a_plan_shows_the_steps(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-r", "tensorrt", "--precision", "fp16", "--opt", "version=11.4", "--dry-run")
    out = printed(capsys, "net.onnx", *flags).out
    assert "# 1. cast the model to fp16: TensorRT 11.4 builds the types" in out
    steps = json.loads(printed(capsys, "net.onnx", *flags, "--json").out)["steps"]
    assert any(step.startswith("1. cast the model to fp16") for step in steps)


def test_a_shape_that_is_no_shape_is_refused(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("-r", "tensorrt", "--input-shape", "image:axb", "--dry-run")
    told = printed(capsys, "net.onnx", *flags, status=2).err
    assert "--input-shape image:axb cannot be read" in told
    assert "fix: write it like --input-shape -1 3 224 224" in told


def test_trtexec_refuses_what_it_has_no_words_for(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("-r", "trtexec", "--target", "sm_86", "--opt", "version=10.9", "--dry-run")
    told = printed(capsys, "net.onnx", *flags, status=2).err
    assert "trtexec cannot" in told
    assert "target" in told


def test_an_engine_from_the_command_line(
    rtx: Rtx, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = ("--python", rtx.python) if rtx.python else ()
    flags = ("-r", "tensorrt-rtx", "-o", "out.engine", "--precision", "fp16", *python)
    shapes = ("--input-shape", "-1", "3", "16", "16", "--target", "sm_86,sm_89")
    told = printed(capsys, "net.onnx", *flags, *shapes)
    assert Path("out.engine").stat().st_size > 1000
    facts = dict(line.split(maxsplit=1) for line in told.out.splitlines())
    assert facts["precision"] == "fp16"
    assert "cast the model to fp16" in told.err
    assert re.search(r"from the model on 4 random inputs .*logits rel\. L2 .*, SQNR \d\d", told.err)
    metadata = json.loads(Path("out.engine.json").read_text())
    assert metadata["spec"]["targets"] == ["sm_86", "sm_89"]


def test_errors_of_a_build_are_one_line_facts_and_a_fix(
    rtx: Rtx, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = ("--python", rtx.python) if rtx.python else ()
    open_in_odd_places = ("x", TensorProto.FLOAT, ["N", "foo", 7, "bar"])
    models.identity(model.with_name("odd.onnx"), open_in_odd_places)
    told = printed(capsys, "odd.onnx", "-r", "tensorrt-rtx", *python, status=2).err
    assert "error: dynamic dimensions need a value" in told
    assert "fix: --shape-opt x:1x1x7x1" in told
    assert "Traceback" not in told
