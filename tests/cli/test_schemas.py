"""Files that programs read are what the printed schemas say."""

import json
from pathlib import Path

import jsonschema
import pytest

import trtbench
from command import Say
from models import conv_model


def schema_of(name: str, say: Say) -> dict[str, object]:
    printed: dict[str, object] = say("--json-schema", name).json
    jsonschema.Draft202012Validator.check_schema(printed)
    return printed


def test_a_run_is_what_its_schema_says(tmp_path: Path, say: Say) -> None:
    model = conv_model(tmp_path / "net.onnx", batch=1)
    made = trtbench.bench(model, iterations=20, warmup="1ms", store=tmp_path / "store")
    record = json.loads((Path(made.path) / "run.json").read_text())
    schema = schema_of("run.json", say)
    jsonschema.validate(record, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**record, "spec": 3}, schema)


@pytest.mark.parametrize("name", ["scores.json", "sweep.toml", "hosts.toml", "trtbench.toml"])
def test_other_files_have_schemas(name: str, say: Say) -> None:
    assert schema_of(name, say)["title"] == name


def test_a_file_without_a_schema_is_refused(say: Say) -> None:
    assert "--json-schema run.json" in say("--json-schema", "run.jsn", status=2).err
