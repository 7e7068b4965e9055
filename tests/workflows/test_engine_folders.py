"""A folder with a profile and layer information is an engine, without being a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trtbench.cli import trtbench as group
from trtbench.errors import InputError, UsageError
from trtbench.workflows.explain.engines import two_engines
from trtbench.workflows.explain.source import engine_from_words

NAMES = ("conv1 + relu1", "conv2 + relu2", "fc")


def write_engine(folder: Path, *, scale: float = 1.0, stem: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    times = [
        {"name": name, "timeMs": 10 * scale, "averageMs": scale, "percentage": 100 / len(NAMES)}
        for name in NAMES
    ]
    (folder / f"{stem}profile.json").write_text(json.dumps([{"count": 10}, *times]))
    layers = [
        {
            "Name": name,
            "LayerType": "CaskConvolution",
            "Inputs": [],
            "Outputs": [],
            "TacticName": "",
        }
        for name in NAMES
    ]
    (folder / f"{stem}graph.json").write_text(json.dumps({"Layers": layers, "Bindings": []}))
    return folder


def test_a_folder_of_files_is_read_as_one_engine(tmp_path: Path) -> None:
    folder = write_engine(tmp_path / "fp16")
    (folder / "notes.bin").write_bytes(b"\0\1\2")
    engine = engine_from_words([str(folder)], store=None)
    assert engine.label == "fp16"
    assert [layer.name for layer in engine.table.layers] == list(NAMES)
    assert engine.table.timed
    assert {layer.kind for layer in engine.table.layers} != {None}


def test_files_with_the_engines_name_are_taken_together(tmp_path: Path) -> None:
    folder = write_engine(tmp_path / "fp16", stem="net.onnx.engine.")
    engine = engine_from_words([str(folder)], store=None)
    assert len(engine.table.layers) == len(NAMES)


def test_two_folders_are_two_sides(tmp_path: Path) -> None:
    a, b = write_engine(tmp_path / "a"), write_engine(tmp_path / "b", scale=2)
    first, second = two_engines(str(a), f"{b}/", store=None)
    assert second.table.total_s == pytest.approx(2 * first.table.total_s)


def test_a_folder_of_several_engines_is_refused_by_name(tmp_path: Path) -> None:
    write_engine(tmp_path, stem="fp16.")
    write_engine(tmp_path, stem="int8.")
    with pytest.raises(UsageError, match="2 engines") as caught:
        engine_from_words([str(tmp_path)], store=None)
    assert "fp16.profile.json" in str(caught.value.fix)


def test_a_folder_without_layers_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a run nor layer times"):
        engine_from_words([str(tmp_path)], store=None)


@pytest.mark.parametrize("verb", ["layers", "diff", "why"])
def test_the_verbs_take_folders(verb: str, tmp_path: Path) -> None:
    folders = [write_engine(tmp_path / "a"), write_engine(tmp_path / "b", scale=2)]
    words = [str(folder) for folder in (folders[:1] if verb == "layers" else folders)]
    result = CliRunner().invoke(group, [verb, *words, "--store", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    assert "fc" in result.output


def test_a_file_that_is_not_there_is_not_called_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        engine_from_words([str(tmp_path / "fp16.profile.json")], store=None)
