"""What ``--json`` prints is what the published schemas say; the goldens hold most verbs to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from models import conv_model
from trtbench.cli import run
from trtbench.cli import trtbench as group
from trtbench.verbs._outputs import FILES, OUTPUTS, schema_of

SHORT = ["--batch", "2", "--warmup", "20ms", "--iterations", "30"]


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


def test_verbs_of_engines(trtexec: Any, holds: Callable[..., None]) -> None:
    model = str(trtexec.onnx())
    holds("compare", model, "--builds", "2", "--launches", "1", "--duration", "50ms")


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
    holds("bench", str(conv_model(tmp_path / "net.onnx")), *SHORT)
    holds("runs export", "--to", "parquet", "-o", str(tmp_path / "parquet"))


def test_a_schema_is_printed_and_an_unknown_verb_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["schema", "runs", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "trtbench runs show --json"
    assert run(["--json-schema", "run.json"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "run.json"
    assert run(["--json-schema", "benhc"]) == 2
    assert "trtbench --json-schema bench" in capsys.readouterr().err


def test_the_record_of_a_run_is_what_its_schema_says(tmp_path: Path) -> None:
    model = str(conv_model(tmp_path / "net.onnx"))
    words = ["--store", str(tmp_path / "store"), "-o", str(tmp_path / "run")]
    assert run(["bench", model, *SHORT, *words]) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    jsonschema.validate(record, schema_of("run.json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "spec": None}, schema_of("run.json"))
