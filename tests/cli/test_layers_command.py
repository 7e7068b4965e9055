"""``trtbench layers`` on files, at the shell's edge: tables, files, expectations, bad input."""

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


def test_a_profile_brings_along_the_layer_information_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["layers", str(write_engine(tmp_path, "int8")), "--top", "2"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 6 layers" in shown
    assert "read with what lies beside it: graph.json" in shown
    words = " ".join(shown.split())
    assert "int8 3 layers, 58.1 % of time" in words
    assert "quantize 2 layers, 13.0 µs (30.2 % of time)" in words


def test_layers_as_json_csv_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = str(write_engine(tmp_path, "int8"))
    assert trtbench(["layers", profile, "--json", "--all"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sum_s"] == pytest.approx(43e-6)
    assert document["layers"][0]["name"] == "/b/Conv"
    assert trtbench(["layers", profile, "--csv", "--sort", "order"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["index"] for row in rows] == list("012345")
    assert sum(float(row["average_s"]) for row in rows) == pytest.approx(43e-6)
    target = tmp_path / "out" / "layers.json"
    assert trtbench(["layers", profile, "-o", str(target)]) == 0
    assert len(json.loads(target.read_text())) == 6
    capsys.readouterr()
    assert trtbench(["layers", profile, "-o", str(tmp_path / "layers.xls")]) == 2
    assert ".parquet" in capsys.readouterr().err


@pytest.mark.real("pyarrow")
def test_layers_as_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "layers.parquet"
    assert trtbench(["layers", str(write_engine(tmp_path, "int8")), "-o", str(target)]) == 0
    table = parquet.read_table(target)
    assert table.num_rows == 6
    assert sum(table["average_s"].to_pylist()) == pytest.approx(43e-6)


def test_groups_on_the_screen_and_as_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = str(write_engine(tmp_path, "int8"))
    assert trtbench(["layers", profile, "--by", "precision", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert groups[0] == pytest.approx(
        {"precision": "int8", "layers": 3, "average_s": 25e-6, "share": 25 / 43,
         "flops": groups[0]["flops"], "traffic_bytes": groups[0]["traffic_bytes"],
         "precisions": "int8"}
    )  # fmt: skip
    assert trtbench(["layers", profile, "--by", "colour"]) == 2
    assert "grouped by" in capsys.readouterr().err


def test_expectations_decide_the_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = str(write_engine(tmp_path, "int8"))
    junit = tmp_path / "layers.xml"
    good = ["--expect", "count(Conv)==3", "--expect", "share(precision=int8)>=50%"]
    assert trtbench(["layers", profile, *good, "--junit", str(junit)]) == 0
    assert 'failures="0"' in junit.read_text()
    capsys.readouterr()
    assert trtbench(["layers", profile, *good, "--expect", "count(MatMul)==1"]) == 3
    assert "FAIL count(MatMul)==1" in " ".join(capsys.readouterr().out.split())
    assert trtbench(["layers", profile, "--expect", "share(precision=int8)>0.5"]) == 2


def test_profile_and_graph_of_different_engines_are_said_not_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = write_engine(tmp_path, "int8")
    renamed = (tmp_path / "int8.graph.json").read_text().replace("/a/", "/x/").replace("/b/", "/y/")
    other = tmp_path / "another.graph.json"
    other.write_text(renamed)
    assert trtbench(["layers", str(profile), str(other)]) == 0
    shown = capsys.readouterr().out
    assert "different engines and were not joined" in shown


def test_a_graph_alone_and_a_profile_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = write_engine(tmp_path, "int8")
    graph = tmp_path / "int8.graph.json"
    alone = tmp_path / "alone"
    alone.mkdir()
    assert trtbench(["layers", str(graph.rename(alone / "graph.json"))]) == 0
    shown = capsys.readouterr().out
    assert "nothing was timed" in shown
    assert trtbench(["layers", str(profile)]) == 0
    assert "no layer information" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("broken.profile.json", '[ { "count" : 3 }, { "name" : "a", "timeMs" : ', 1),
        ("words.json", '{"hello": 1}', 1),
        ("nan.profile.json",
         '[ { "count" : 1 }, { "name" : "a", "timeMs" : nan, "averageMs" : nan, '
         '"medianMs" : nan, "percentage" : nan } ]', 1),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, status: int
) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert trtbench(["layers", str(path)]) == status
    assert capsys.readouterr().err.startswith("error: ")


def test_a_name_with_a_quote_and_a_nan_share_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.profile.json"
    path.write_text(
        '[\n  { "count" : 2 }\n, { "name" : "say "x"", "timeMs" : 2, "averageMs" : 1, '
        '"medianMs" : 1, "percentage" : nan }\n]\n'
    )
    assert trtbench(["layers", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["name"] == 'say "x"'


def test_runs_and_files_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = str(write_engine(tmp_path, "int8"))
    assert trtbench(["layers", "last", profile]) == 2
    assert trtbench(["layers", "nobody"]) == 2
    assert "error: " in capsys.readouterr().err


def test_inspect_shows_the_first_so_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_engine(tmp_path, "fp16")
    graph = str(tmp_path / "fp16.graph.json")
    assert trtbench(["inspect", graph, "--top", "2"]) == 0
    shown = capsys.readouterr().out
    assert "/b/Conv" in shown
    assert "/c/Conv" not in shown
    assert trtbench(["inspect", graph, "--all"]) == 0
    assert "/c/Conv" in capsys.readouterr().out
