"""A trtexec that holds to the types of the model gets a model that carries them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import models
from trtbench.cli import run as trtbench
from trtbench.models.onnx_outline import outline_of
from trtbench.workflows.make.quantize import Data, quant_spec, run_quantize
from trtbench.workflows.request.making import QuantizeRequest


@pytest.fixture
def model(trtexec: Any) -> Path:
    trtexec.version("11.1.0")
    return models.conv_model(trtexec.folder / "net.onnx")


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert trtbench(["build", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_strongly_typed_trtexec_gets_a_cast_model(
    model: Path, capsys: pytest.CaptureFixture[str], precision: str
) -> None:
    words = (str(model), "-r", "trtexec", "--precision", precision)
    plan = document(capsys, *words, "--dry-run")
    assert plan["steps"][-1].startswith(f"1. cast the model to {precision}")
    made = document(capsys, *words)
    kept = model.with_name(f"net.engine.{precision}.onnx")
    assert outline_of(kept).carried == {precision}
    assert f"--onnx={kept}" in shlex.split(made["command"])
    assert [made["command"]] == plan["commands"]
    assert kept.name in made["files"]
    assert f"cast the model to {precision}" in made["notes"][0]


def test_a_strongly_typed_trtexec_gets_a_quantized_model(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-r", "trtexec", "--precision", "int8", "--calibration", "random"]
    words += ["--opt", "calibration_items=8"]
    made = document(capsys, str(model), *words)
    assert outline_of(model.with_name("net.engine.int8.onnx")).carried == {"int8"}
    assert "quantized with random data: no evidence of accuracy" in made["notes"]
    assert any("logits rel. L2" in note for note in made["notes"])


def test_random_scales_are_said_of_every_run_of_the_engine(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-r", "trtexec", "--precision", "int8", "--calibration", "random"]
    made = document(capsys, str(model), *words, "--opt", "calibration_items=8")
    bench = ["bench", made["path"], "-r", "trtexec", "--duration", "0.1s", "--json"]
    assert trtbench(bench) == 0
    notes = json.loads(capsys.readouterr().out)["run"]["notes"]
    assert "quantized with random data: no evidence of accuracy" in notes
    Path(made["path"]).with_name("net.engine.json").write_text("{}")
    assert trtbench(bench) == 0
    assert "random data" not in str(json.loads(capsys.readouterr().out)["run"]["notes"])


def test_a_stamp_in_the_model_goes_into_the_record_of_its_engine(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = quant_spec(QuantizeRequest(model=model, precision="int8"))
    run_quantize(spec, data=Data(calibration="random", items=16))
    made = document(capsys, spec.output, "-r", "trtexec")
    assert any("calibrated with random data" in note for note in made["notes"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--precision", "int8"), "int8 needs data to quantize"),
        (("--precision", "best"), "'best' means nothing to TensorRT 11.1"),
        (("--precision", "fp8"), "there are no data"),
        (("--precision", "fp16", "--opt", "resize=crop"), "has no option 'resize'"),
    ],
)
def test_what_cannot_be_typed_is_refused(
    model: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    assert trtbench(["build", str(model), "-r", "trtexec", *flags]) == 2
    assert words in capsys.readouterr().err


def test_no_precision_is_without_effect_when_types_are_to_hold(
    trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(models.conv_model(trtexec.folder / "net.onnx"))
    flags = ("-r", "trtexec", "--opt", "typing=strong", "--opt", "version=10.9", "--dry-run")
    cast = document(capsys, path, *flags, "--precision", "fp16")
    assert any("cast the model to fp16" in step for step in cast["steps"])
    assert "--stronglyTyped" in cast["commands"][0]
    plain = document(capsys, path, *flags, "--precision", "fp32")
    assert "--noTF32" in plain["commands"][0]


def test_an_opset_too_new_for_trtexec_is_said_before(
    trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(models.conv_model(trtexec.folder / "net.onnx"))
    plan = document(capsys, path, "-r", "trtexec", "--opt", "version=8.0", "--dry-run")
    assert any(f"opset {models.OPSET}" in step for step in plan["steps"])


@pytest.mark.parametrize("precision", ["int8", "best"])
def test_scales_that_trtexec_makes_up_are_said(
    trtexec: Any, capsys: pytest.CaptureFixture[str], precision: str
) -> None:
    path = str(models.conv_model(trtexec.folder / "net.onnx"))
    words = (path, "-r", "trtexec", "--precision", precision)
    assert any(
        "makes up INT8 scales" in step for step in document(capsys, *words, "--dry-run")["steps"]
    )
    assert any("makes up INT8 scales" in note for note in document(capsys, *words)["notes"])
    cache = trtexec.folder / "scales.cache"
    cache.write_text("TRT-100900-EntropyCalibration2\nimage: 3c010a14\n")
    told = document(capsys, *words, "--calibration-cache", str(cache), "--dry-run")
    assert not any("makes up" in step for step in told["steps"])
