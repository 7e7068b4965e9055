"""What ``--json`` prints is what the published schemas say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from layer_files import write_engine

import leftovers
from bindings.rtx import Rtx
from models import conv_model
from trtbench.cli import run
from trtbench.cli import trtbench as group
from trtbench.data import demo_file
from trtbench.verbs._outputs import FILES, OUTPUTS, schema_of
from trtbench.workflows import demo

SHORT = ["--batch", "2", "--warmup", "20ms"]
OF_ENGINES = {"build", "lottery", "profile"}
OF_TWO_VERSIONS = {"upgrade"}
OF_PYTORCH = {"export"}
OF_PARQUET = {"runs export"}
OF_THE_DEMO = {"demo"}


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(None):  # type: ignore[arg-type]
        command = group.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        yield before + name, command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


def test_every_verb_that_prints_json_has_a_schema() -> None:
    for name, command in commands(group):
        flags = {flag for param in command.params for flag in param.opts}
        assert ("--json" in flags) == (name in OUTPUTS), name


@pytest.mark.parametrize("verb", [*OUTPUTS, *FILES])
def test_schemas_are_schemas(verb: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(verb))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schemas")


@pytest.fixture(scope="module")
def words(folder: Path) -> dict[str, list[str]]:
    """Make a command for every verb that runs anywhere, in an order in which they can be run."""
    model, other = str(conv_model(folder / "net.onnx")), str(folder / "net.int8.onnx")
    first, second = (str(write_engine(folder, name)) for name in ("fp16", "int8"))
    leftovers.run_set(folder / "set")
    out = ["-o", str(folder / "out")]
    return {
        "bench": ["bench", model, *SHORT, "--iterations", "30", "--launches", "2", "--tag", "one"],
        "quantize": ["quantize", model, "--precision", "int8", "--calibration", "random",
                     "--items", "8", "-o", other],
        "check": ["check", model, other, "--random", "8", "--floor", "off", *out],
        "localize": ["localize", model, other, "--random", "8", "--repair", "--where",
                     "sqnr>=200dB or close>=0%", "--no-speed", *out],
        "compare": ["compare", "last", "last", "--output-dir", str(folder / "compared")],
        "gate": ["gate", "last", "--metric", "median<10s", *out],
        "runs": ["runs"],
        "runs show": ["runs", "show", "last"],
        "runs fsck": ["runs", "fsck"],
        "history": ["history", "--least", "1"],
        "inspect": ["inspect", model],
        "doctor": ["doctor"],
        "import": ["import", str(folder / "set"), "--no-pictures"],
        "diff": ["diff", first, second],
        "sweep": ["sweep", model, "--batch", "1,2", "--duration", "20ms", "--launches", "2",
                  "--where", "median<10s", "--format", "none", "-o", str(folder / "sweep")],
        "eval": ["eval", str(demo_file("digits.onnx")), "--task", "classification", "--batch", "64",
                 "--data", str(demo_file("digits.npz")), "-o", str(folder / "judged")],
    }  # fmt: skip


@pytest.fixture
def holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Run a verb with ``--json`` and hold what it prints to its schema."""
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def held(verb: str, *words: str) -> None:
        status = run([*verb.split(), *words, "--json"])
        printed = capsys.readouterr()
        assert status == 0, (verb, printed.err)
        jsonschema.validate(json.loads(printed.out), schema_of(verb))

    return held


def test_what_is_printed_is_what_the_schema_says(
    words: dict[str, list[str]], holds: Callable[..., None]
) -> None:
    others = OF_ENGINES | OF_TWO_VERSIONS | OF_PYTORCH | OF_PARQUET | OF_THE_DEMO
    assert set(words) | others == set(OUTPUTS)
    for verb, command in words.items():
        holds(verb, *command[len(verb.split()) :])
    holds("profile", words["diff"][2])
    holds("diff", *words["diff"][1:], "--why")
    holds("compare", "last", "tag:one", "--why")


def test_verbs_of_engines(trtexec: Any, holds: Callable[..., None]) -> None:
    model, engine = str(trtexec.onnx()), str(trtexec.engine())
    quick = ["--launches", "1", "--duration", "50ms"]
    holds("build", model, "--precision", "fp16")
    holds("build", model, "--times", "2")
    holds("lottery", model, "--builds", "2", *quick)
    holds("profile", engine, "--warmup", "50ms", "--duration", "50ms")


@pytest.mark.xdist_group("rtx")
def test_an_upgrade_and_a_build_by_tensorrt_rtx(
    rtx: Rtx, tmp_path: Path, holds: Callable[..., None]
) -> None:
    model, python = (
        str(conv_model(tmp_path / "net.onnx", batch=1)),
        rtx.python or sys.executable,
    )
    real = ["-r", "tensorrt-rtx", "--target", "sm_86"]
    holds("build", model, *real, "--python", python)
    holds("upgrade", f"old={python}", f"new={python}", model, "--builds", "2", *real)


def test_an_export_by_pytorch(
    torch_python: str, tmp_path: Path, holds: Callable[..., None]
) -> None:
    code = "import sys, torch\ntorch.jit.script(torch.nn.Linear(3, 2).eval()).save(sys.argv[1])"
    source = str(tmp_path / "net.pt")
    subprocess.run([torch_python, "-c", code, source], check=True)
    words = ["--input-shape", "1x3", "--python", torch_python, "-o", str(tmp_path / "net.onnx")]
    holds("export", source, *words)


@pytest.mark.real("pyarrow")
def test_an_export_of_runs(tmp_path: Path, holds: Callable[..., None]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    holds("bench", str(conv_model(tmp_path / "net.onnx")), *SHORT, "--iterations", "30")
    holds("runs export", "--to", "parquet", "-o", str(tmp_path / "parquet"))


@pytest.mark.slow
def test_the_demo_made_short(
    tmp_path: Path, holds: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"DURATION_S": 0.05, "LAUNCHES": 2, "BATCHES": (1,)}
    for name, value in short.items():
        monkeypatch.setattr(demo, name, value)
    holds("demo", "-o", str(tmp_path / "report"))


def test_a_schema_is_printed_and_an_unknown_verb_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["schema", "runs", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "trtbench runs show --json"
    assert run(["--json-schema", "run.json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "run.json"
    assert run(["--json-schema", "benhc"]) == 2
    assert "trtbench --json-schema bench" in capsys.readouterr().err


def test_the_record_of_a_run_is_what_its_schema_says(folder: Path) -> None:
    model = str(conv_model(folder / "kept.onnx"))
    asked = ["--duration", "50ms", "--store", str(folder / "kept"), "-o", str(folder / "kept-run")]
    assert run(["bench", model, *SHORT, *asked]) == 0
    record = json.loads((folder / "kept-run" / "run.json").read_text())
    jsonschema.validate(record, schema_of("run.json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "spec": None}, schema_of("run.json"))
