"""Files that programs read are what the printed schemas say."""

import json
from pathlib import Path

import jsonschema
import pytest

import trtbench
from models import conv_model
from trtbench.cli import run


def schema_of(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert run(["--json-schema", name]) == 0
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(printed)
    return printed


def test_a_run_is_what_its_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = conv_model(tmp_path / "net.onnx", batch=1)
    made = trtbench.bench(model, iterations=20, warmup="1ms", store=tmp_path / "store")
    record = json.loads((Path(made.path) / "run.json").read_text())
    schema = schema_of("run.json", capsys)
    jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "spec": 3}, schema)


@pytest.mark.parametrize("name", ["scores.json", "sweep.toml", "hosts.toml", "trtbench.toml"])
def test_other_files_have_schemas(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema_of(name, capsys)["title"] == name


def test_a_file_without_a_schema_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json-schema", "run.jsn"]) == 2
    assert "--json-schema run.json" in capsys.readouterr().err
