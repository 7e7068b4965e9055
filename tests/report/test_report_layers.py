"""Layers of runs in a report: the slowest, and two runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from made_runs import made_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "analysis"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from layer_files import FP16, INT8
from layer_sets import graph, profile

from trtbench.core.run import Run
from trtbench.report.compose import document_from_runs


@pytest.fixture
def runs() -> list[Run]:
    """The same network in FP16 (54 µs) and in INT8 (43 µs)."""
    made = []
    for name, layers in (("fp16", FP16), ("int8", INT8)):
        names = [layer["Name"] for layer, _ in layers]
        times = profile(names, [us for _, us in layers])
        found = graph([layer for layer, _ in layers])
        made.append(made_run(id=name, precision=name, layers=times, graph=found))  # type: ignore[arg-type]
    return made


def test_two_runs_are_set_against_each_other(runs: list[Run]) -> None:
    document = document_from_runs(runs)
    tables = {table.id: table for table in document.tables()}
    moved = sum(float(str(row[4].value or 0)) for row in tables["layers_diff"].rows)
    assert moved == pytest.approx(-11e-6)


def test_runs_of_different_networks_are_not_set_against_each_other(runs: list[Run]) -> None:
    times = profile(["something", "else"], [1, 2])
    stranger = made_run(id="other", model="other.onnx", layers=times)
    document = document_from_runs([runs[0], stranger])
    assert "layers_diff" not in {table.id for table in document.tables()}
