"""Outputs of a sweep's cases against those of the model as it was given."""

from __future__ import annotations

import json

import pytest
from sweeps import SHORT

import models
import trtbench
from trtbench.analysis.condition_text import condition_from_text
from trtbench.analysis.sweep import SweepRow, choose, quantities
from trtbench.cli import run as command
from trtbench.errors import UsageError
from trtbench.report.documents.sweep import document_from_sweep
from trtbench.report.renderers.md import markdown
from trtbench.report.renderers.terminal import text
from trtbench.store.store import Store
from trtbench.workflows.stored.report import load_runs
from trtbench.workflows.sweep.matrix import matrix_from_table


@pytest.mark.process
def test_outputs_of_every_case_are_held_against_the_model_as_given(tmp_path):
    model = models.tiny_model(tmp_path / "tiny.onnx")
    found = trtbench.sweep(
        model, precision=["fp32", "fp16"], batch=[1], runtime="onnxruntime", check=20,
        axis={name: [value] for name, value in SHORT.items()},
        output=tmp_path / "sweep", store=tmp_path / "store",
    )  # fmt: skip
    same, half = found.rows
    assert (same.max_abs, same.remark) == (0, None)
    assert half.max_abs > 0
    assert half.sqnr_db > 30
    kept = json.loads((found.runs[1].path / "checks.json").read_text())
    assert kept[0]["reference"] == "tiny.onnx"
    made = list((tmp_path / "store" / "steps").glob("check-*/made.json"))
    assert len(made) == 1  # both sides in one comparison, kept for the next sweep
    runs, _ = load_runs([str(tmp_path / "sweep")], store=Store(tmp_path / "store"))
    assert {run.id for run in runs} == {run.id for run in found.runs}
    assert all(run.extra["checks"] for run in runs)
    with pytest.raises(UsageError, match="not in this store"):
        load_runs([str(tmp_path / "sweep")], store=Store(tmp_path / "other"))
    page = markdown(document_from_sweep(found.rows))
    assert "SQNR" in page
    assert "same" in page


def test_rows_are_chosen_by_what_their_outputs_differ_by():
    rows = [
        SweepRow(model="m", runtime="r", max_abs=0.0),
        SweepRow(model="m", runtime="r", max_abs=0.1, sqnr_db=40.0),
        SweepRow(model="m", runtime="r", max_abs=0.9, sqnr_db=10.0),
        SweepRow(model="m", runtime="r"),
    ]
    near = condition_from_text("sqnr >= 30", names=quantities(rows))
    chosen = choose(rows, near, by="max_abs")
    assert {row.max_abs for row in chosen.rows} == {0.0, 0.1}


def test_cases_are_told_apart_on_a_narrow_screen():
    rows = [
        SweepRow(model="m", runtime="onnxruntime", precision=precision, batch=8, size_bytes=1 << 20,
                 options={"machine": machine}, max_abs=0.1, sqnr_db=40.0, layers=12,
                 parameters=123_456)
        for precision in ("fp32", "int8") for machine in ("lab-h100-number-1", "lab-orin")
    ]  # fmt: skip
    drawn = text(document_from_sweep(rows), width=60)
    assert "…" not in drawn
    assert drawn.count("int8") == drawn.count("machine=lab-orin") == 2


def test_a_sweep_on_this_machine_fetches_no_engines(tmp_path, capsys):
    model = models.tiny_model(tmp_path / "tiny.onnx")
    with pytest.raises(UsageError, match="from other machines"):
        trtbench.sweep(model, fetch_engines=True, output=tmp_path / "s", store=tmp_path / "store")
    assert not (tmp_path / "s").exists()


def test_a_dry_run_for_other_machines_says_that_they_plan(tmp_path, capsys):
    model = models.tiny_model(tmp_path / "tiny.onnx")
    words = ["sweep", str(model), "-r", "tensorrt", "--batch", "1", "--dry-run", "--executor",
             "ssh", "--store", str(tmp_path / "store")]  # fmt: skip
    assert command(words) == 0
    said = capsys.readouterr().out
    assert "planned there" in " ".join(said.split())
    assert "cannot be measured" not in said


def test_a_check_of_fewer_than_no_inputs_is_refused():
    with pytest.raises(UsageError, match="at least 1 input"):
        matrix_from_table({"models": ["m.onnx"], "check": -1}, where="test")
