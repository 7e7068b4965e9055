"""A trtexec that holds to the types of the model gets a model that carries them."""

import re
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest

import models
from command import Say
from trtbench.models.onnx_outline import outline_of


@pytest.fixture
def model(trtexec: Any) -> Path:
    trtexec.version("11.1.0")
    return models.conv_model(trtexec.folder / "net.onnx")


def document(say: Say, *words: object) -> Any:
    return say("build", *words, "--json").json


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_strongly_typed_trtexec_gets_a_cast_model(model: Path, say: Say, precision: str) -> None:
    words = (model, "-r", "trtexec", "--precision", precision)
    plan = document(say, *words, "--dry-run")
    assert plan["steps"][-1].startswith(f"1. cast the model to {precision}")
    made = document(say, *words)
    kept = model.with_name(f"net.engine.{precision}.onnx")
    assert outline_of(kept).carried == {precision}
    assert f"--onnx={kept}" in shlex.split(made["command"])
    assert [made["command"]] == plan["commands"]
    assert kept.name in made["files"]
    assert f"cast the model to {precision}" in made["notes"][0]


def test_a_strongly_typed_trtexec_gets_a_quantized_model(model: Path, say: Say) -> None:
    words = ["-r", "trtexec", "--precision", "int8", "--calibration", "random"]
    words += ["--opt", "calibration_items=8"]
    made = document(say, model, *words)
    assert outline_of(model.with_name("net.engine.int8.onnx")).carried == {"int8"}
    assert "quantized with random data: no evidence of accuracy" in made["notes"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--precision", "int8"), "int8 needs data to quantize"),
        (("--precision", "best"), "'best' means nothing to TensorRT 11.1"),
        (("--precision", "fp8"), "FP8 is built from a model that was quantized"),
        (("--precision", "fp16", "--opt", "resize=crop"), "has no option 'resize'"),
    ],
)
def test_what_cannot_be_typed_is_refused(model: Path, say: Say, flags: tuple[str, ...], words: str):
    assert words in say("build", model, "-r", "trtexec", *flags, status=2).err


def test_no_precision_is_without_effect_when_types_are_to_hold(trtexec: Any, say: Say) -> None:
    path = models.conv_model(trtexec.folder / "net.onnx")
    flags = ("-r", "trtexec", "--opt", "typing=strong", "--opt", "version=10.9", "--dry-run")
    cast = document(say, path, *flags, "--precision", "fp16")
    assert any("cast the model to fp16" in step for step in cast["steps"])
    assert "--stronglyTyped" in cast["commands"][0]
    plain = document(say, path, *flags, "--precision", "fp32")
    assert "--noTF32" in plain["commands"][0]


@pytest.mark.parametrize("version", ["8.6", "10.9"])
def test_a_typed_model_is_built_in_its_types(trtexec: Any, say: Say, version: str) -> None:
    """As the Python API builds it: no flag of its own is needed for what the model carries."""
    path = models.conv_model(trtexec.folder / "net.onnx")
    for made in ("fp16", "int8"):
        data = () if made == "fp16" else ("--data", "random")
        say("quantize", path, "--precision", made, *data, "-o", f"{made}.onnx")
    flags = ("-r", "trtexec", "--opt", f"version={version}", "--dry-run")
    for made in ("fp16", "int8"):
        [line] = document(say, f"{made}.onnx", *flags)["commands"]
        wanted = f"--{made}" if version == "8.6" else "--stronglyTyped"
        assert wanted in line.split()
        assert "--noTF32" not in line
    [line] = document(say, "int8.onnx", *flags, "--precision", "fp16", "--device", "cuda")[
        "commands"
    ]
    assert {"--int8", "--fp16"} <= {*line.split()}
    assert "--device" not in line
    [line] = document(say, "int8.onnx", *flags, "--device", "cuda:1")["commands"]
    assert "--device=1" in line.split()


@pytest.mark.parametrize("precision", ["int8", "best"])
def test_scales_that_trtexec_makes_up_are_said(trtexec: Any, say: Say, precision: str) -> None:
    path = models.conv_model(trtexec.folder / "net.onnx")
    words = (path, "-r", "trtexec", "--precision", precision)
    steps = document(say, *words, "--dry-run")["steps"]
    assert any("makes up INT8 scales" in step for step in steps)
    assert any("makes up INT8 scales" in note for note in document(say, *words)["notes"])
    cache = trtexec.folder / "scales.cache"
    cache.write_text("TRT-100900-EntropyCalibration2\nimage: 3c010a14\n")
    told = document(say, *words, "--calibration-cache", cache, "--dry-run")
    assert not any("makes up" in step for step in told["steps"])


def test_an_opset_that_the_parser_does_not_know_is_the_fix(trtexec: Any, say: Say) -> None:
    """Only where parsing failed: a build that fails later has another cause."""
    path = models.conv_model(trtexec.folder / "net.onnx")
    model = onnx.load(path)
    model.opset_import[0].version = 20
    onnx.save(model, path)
    trtexec.version("8.6.1")
    for behaviour, fix in (("no-parse", "the model has opset 20, .*: trtbench export SOURCE "
                            "--opset 17"), ("no-build", "look into")):  # fmt: skip
        trtexec.behave(behaviour)
        told = say("build", path, "-r", "trtexec", status=1)
        assert re.search(f"fix: {fix}", told.words), told


pytestmark = pytest.mark.xdist_group("rtx")
HERE = ("net.onnx", "-r", "tensorrt")


def test_shapes_are_numbers_after_the_flag_and_a_plan_prints_a_command_for_the_same(say: Say):
    def job(*arguments: str) -> Any:
        plan = document(say, *arguments, "--dry-run")
        return plan["job"]["spec"], plan["commands"]

    models.conv_model(Path("net.onnx"))
    spec, _ = job(*HERE, "--input-shape", "-1", "3", "16", "16")
    assert spec["shapes"]["image"] == {
        "min": [1, 3, 16, 16],
        "opt": [128, 3, 16, 16],
        "max": [256, 3, 16, 16],
    }
    named = job(*HERE, "--input-shape", "image:4x3x16x16")[0]
    assert named["shapes"]["image"]["max"] == [4, 3, 16, 16]
    shapes = ("--shape-opt", "image:2x3x16x16", "--shape-opt", "image:64x3x16x16")
    spec, _ = job(*HERE, *shapes)
    assert spec["shapes"]["image"]["opt"][0] == 2
    assert [each["image"]["opt"][0] for each in spec["more_profiles"]] == [64]
    asked = [*HERE, "--precision", "fp16", "--workspace", "1GiB", "--refit"]
    asked += ["--shape-min", "image:1x3x16x16", "--shape-max", "image:8x3x16x16"]
    spec, commands = job(*asked)
    again, same = job(*shlex.split(commands[0])[2:])
    assert again == spec
    assert same == commands
