"""Axes of a sweep mean what they say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import analysis_values as values
from models import conv_model, tiny_model
from trtbench.analysis.summary import summary_from_run
from trtbench.analysis.sweep import SweepRow, mark_pareto_front
from trtbench.cli import run as cli
from trtbench.store.directory import read_record

SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--format", "none"]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["rows"]
    return rows


def test_switches_are_switches(trtexec: Any, place: Path) -> None:
    conv_model(place / "net.onnx")
    words = ["net.onnx", "-r", "trtexec", "--axis", "transfers=on,off", "--axis", "spin_wait=on"]
    assert cli(["sweep", *words, "--axis", "telemetry=off", *SHORT, "-o", "out"]) == 0
    specs = [read_record(place / "store" / "runs" / row["runs"][0]).spec
             for row in rows_of(place / "out")]  # fmt: skip
    assert [(each.transfers, each.spin_wait) for each in specs] == [(True, True), (False, True)]
    assert [row["transfers"] for row in rows_of(place / "out")] == ["on", "off"]


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("transfers=on,maybe", "neither on nor off"),
        ("threads=1,two", "not an integer"),
        ("streams=0", "--axis streams=1"),
        ("warmup=5parsecs", "5parsecs"),
        ("protocol=serv", "--axis protocol=serve"),
    ],
)
def test_a_value_that_its_field_does_not_take_is_refused_first(
    axis: str, said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_model(place / "net.onnx")
    assert cli(["sweep", "net.onnx", "--precision", "int8", "--axis", axis, "-o", "out"]) == 2
    assert said in capsys.readouterr().err
    assert not (place / "store" / "steps").exists()


def test_booleans_of_yaml_are_words_where_words_are_meant(place: Path) -> None:
    tiny_model(place / "net.onnx")
    (place / "sweep.yaml").write_text(
        "models: net.onnx\noptions: {cuda_graph: [off], until_steady: [off], duration: 20ms}\n"
        "exclude: [{until_steady: on}]\n"
    )
    assert cli(["sweep", "sweep.yaml", "--format", "none", "-o", "out"]) == 0
    spec = read_record(place / "store" / "runs" / rows_of(place / "out")[0]["runs"][0]).spec
    assert (spec.cuda_graph, spec.warmup.until_steady) == ("off", False)


def row(runtime: str, people: int, ms: float | None) -> SweepRow:
    times = None if ms is None else values.launches_of([np.full(20, ms / 1e3)])
    return SweepRow(model="net", runtime=runtime, batch=1, options={"shape.M": people},
                    summary=times and summary_from_run(values.run(times)))  # fmt: skip


def test_baselines_stars_and_speedups_are_of_equal_shapes() -> None:
    rows = [row("torch", 1, 4), row("torch", 2, 6), row("torch", 5, None),
            row("tensorrt", 1, 1), row("tensorrt", 2, 3), row("tensorrt", 5, 8)]  # fmt: skip
    found = mark_pareto_front(rows)
    assert [each.speedup for each in found] == [1, 1, None, 4, 2, None]
    assert [each.on_front for each in found] == [False, False, False, True, True, False]
