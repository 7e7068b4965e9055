"""``trtbench diff`` and ``trtbench why`` on files, at the shell's edge."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from layer_files import write_engine

from trtbench.cli import run as trtbench


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def sides(tmp_path: Path) -> list[str]:
    return [str(write_engine(tmp_path, name)) for name in ("fp16", "int8")]


def test_a_diff_shows_both_sums_and_what_moved(
    sides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["diff", *sides]) == 0
    shown = capsys.readouterr().out
    assert "54.0 µs in layers" in shown
    assert "43.0 µs in layers" in shown
    assert "−11.0 µs (−20.4 %)" in shown
    assert "only in B: 2 layers, 13.0 µs" in shown


def test_a_diff_as_data_adds_up(sides: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert trtbench(["diff", *sides, "--json", "--all"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(row["delta_s"] for row in document["changes"]) == pytest.approx(-11e-6)
    assert document["explained"] == pytest.approx(1)
    assert trtbench(["diff", *sides, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["aligned_by"] for row in rows} == {"origin", "none"}


def test_why_names_the_layer_and_gives_a_command(
    sides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["why", *sides]) == 0
    shown = capsys.readouterr().out
    assert "1. /act/Gelu interrupts INT8: it computes in FP16: 8.00 µs" in shown
    assert "trtbench quantize MODEL.onnx --precision int8 --op Conv --op Gemm --op Gelu" in shown
    assert trtbench(["why", *sides, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    explained = sum(each["explains_s"] for each in document["causes"])
    assert explained <= document["shortfall_s"] + 1e-12
    assert document["causes"][0]["layers"][0] == "/act/Gelu"


def test_files_of_one_side_may_be_joined_by_commas(
    tmp_path: Path, sides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    both = f"{sides[1]},{tmp_path / 'int8.graph.json'}"
    assert trtbench(["diff", sides[0], both, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["b_s"] == pytest.approx(43e-6)


def test_why_needs_times_on_both_sides(
    tmp_path: Path, sides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "bare" / "graph.json"
    graph.parent.mkdir()
    (tmp_path / "int8.graph.json").rename(graph)
    assert trtbench(["why", sides[0], str(graph)]) == 1
    assert "no layer times" in capsys.readouterr().err
    assert trtbench(["diff", sides[0], str(graph)]) == 0
    assert "no time is known" in capsys.readouterr().out


def test_an_engine_against_itself_has_nothing_to_explain(
    sides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["why", sides[0], sides[0]]) == 0
    assert "nothing is missing" in capsys.readouterr().out
    assert trtbench(["diff", sides[0], sides[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["delta_s"] == 0
