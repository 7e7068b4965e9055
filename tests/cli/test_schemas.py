"""What ``--json`` prints is what the published schemas say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import jsonschema
import pytest
from layer_files import write_engine

import leftovers
from models import conv_model
from trtbench.cli import run
from trtbench.cli import trtbench as group
from trtbench.cli._outputs import FILES, OUTPUTS, schema_of, write_schemas

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
SHORT = ["--batch", "2", "--warmup", "20ms"]
NEEDS_MORE = {"build", "demo", "eval", "explain", "export", "export-runs", "profile"}
"""Verbs that need a GPU, PyTorch, data or a minute; their values have tests of their own."""


def test_published_schemas_are_those_of_the_values(tmp_path: Path) -> None:
    fresh = {str(p.relative_to(tmp_path)): p.read_text() for p in write_schemas(tmp_path)}
    published = {str(p.relative_to(PUBLISHED)): p.read_text() for p in PUBLISHED.rglob("*.json")}
    assert fresh == published, "make schemas"


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
    """Give a command for every verb that runs anywhere, in an order in which they can be run."""
    model, other = str(conv_model(folder / "net.onnx")), str(folder / "net.int8.onnx")
    first, second = (str(write_engine(folder, name)) for name in ("fp16", "int8"))
    leftovers.run_set(folder / "set")
    out = ["-o", str(folder / "out")]
    return {
        "bench": ["bench", model, *SHORT, "--iterations", "30", "--launches", "2"],
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
        "layers": ["layers", second],
        "diff": ["diff", first, second],
        "why": ["why", first, second],
        "sweep": ["sweep", model, "--batch", "1,2", "--duration", "20ms", "--launches", "2",
                  "--where", "median<10s", "--format", "none", "-o", str(folder / "sweep")],
    }  # fmt: skip


def test_what_is_printed_is_what_the_schema_says(
    words: dict[str, list[str]],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRTBENCH_STORE", str(folder / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    assert set(words) | NEEDS_MORE == set(OUTPUTS)
    for verb, command in words.items():
        status = run([*command, "--json"])
        printed = capsys.readouterr()
        assert status == 0, (verb, printed.err)
        jsonschema.validate(json.loads(printed.out), schema_of(verb))


def test_a_schema_is_printed_and_an_unknown_verb_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["schema", "runs", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "trtbench runs show --json"
    assert run(["schema", "run.json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "run.json"
    assert run(["schema", "benhc"]) == 2
    assert "trtbench schema bench" in capsys.readouterr().err


def test_the_record_of_a_run_is_what_its_schema_says(folder: Path) -> None:
    model = str(conv_model(folder / "kept.onnx"))
    asked = ["--duration", "50ms", "--store", str(folder / "kept"), "-o", str(folder / "kept-run")]
    assert run(["bench", model, *SHORT, *asked]) == 0
    record = json.loads((folder / "kept-run" / "run.json").read_text())
    jsonschema.validate(record, schema_of("run.json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "spec": None}, schema_of("run.json"))
