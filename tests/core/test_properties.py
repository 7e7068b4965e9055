"""What makes a run another run, and which metric is better low: declared once, not guessed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import models
from analysis_values import run, stated
from trtbench.analysis.comparability import differences, refuse_unknown_keys
from trtbench.analysis.history import key_from_record
from trtbench.analysis.summary import summarize
from trtbench.analysis.sweep import SweepRow, choose, with_front
from trtbench.core import properties
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import UsageError
from trtbench.core.metrics import Metric, is_share, less_is_better, metric
from trtbench.core.properties import PROPERTIES, Property, declare, series_key
from trtbench.core.run import Run, Score
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.report.run_facts import labels_from_runs
from trtbench.report.sections.summary import title_of
from trtbench.tasks import TASKS

MODEL = ModelRef(path="m.onnx", format="onnx")


def a_run(tiles: int, **changes: object) -> Run:
    given = {"spec": RunSpec(model=MODEL, runtime="onnxruntime"), "conditions": stated(tiles=tiles)}
    return run(IterationTimes(host=np.full(9, 1e-3)), id=f"r{tiles}", **{**given, **changes})


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "PROPERTIES", PROPERTIES)
    before = list(PROPERTIES)
    declare(
        Property(
            name="tiles",
            words="tiles of the scheduler",
            read=lambda record: record.conditions["tiles"].value,
            write=lambda count: f"{count} tiles",
            condition=True,
            code="H25",
        )
    )
    yield  # type: ignore[misc]
    PROPERTIES[:] = before


class TiledSpec(RunSpec, frozen=True, kw_only=True):
    tiles: int = 1


def test_a_new_field_of_a_spec_is_a_property_by_itself() -> None:
    before = list(PROPERTIES)
    declare(*properties.properties_of_fields(TiledSpec))
    try:
        few, many = (
            a_run(0, conditions={}, spec=TiledSpec(model=MODEL, runtime="onnxruntime", tiles=count))
            for count in (2, 8)
        )
        assert "tiles 2" in title_of(few)
        assert labels_from_runs([few, many]) == ("tiles 2", "tiles 8")
        assert "tiles 8" in key_from_record(many.record).name
        (found,) = differences(few.record, many.record)
        assert (found.key, found.blocking) == ("tiles", True)
    finally:
        PROPERTIES[:] = before


@pytest.mark.usefixtures("tiles")
def test_one_declaration_reaches_title_label_series_history_and_comparability() -> None:
    few, many = a_run(2), a_run(8)
    assert "2 tiles" in title_of(few)
    assert labels_from_runs([few, many]) == ("2 tiles", "8 tiles")
    assert series_key(few.record) != series_key(many.record)
    assert "8 tiles" in key_from_record(many.record).name
    (found,) = differences(few.record, many.record)
    assert (found.key, found.blocking, found.code) == ("tiles", True, "H25")
    assert not differences(few.record, many.record, accept=["tiles"])[0].blocking
    refuse_unknown_keys(["tiles"])


def test_what_is_not_declared_is_a_remark() -> None:
    (found,) = differences(a_run(2).record, a_run(8).record)
    assert (found.key, found.blocking) == ("tiles", False)
    assert labels_from_runs([a_run(2), a_run(8)]) == ("m.onnx (1)", "m.onnx (2)")


def test_names_of_properties_are_unique_and_steps_are_fields_of_a_spec() -> None:
    names = [each.name for each in PROPERTIES]
    assert len(set(names)) == len(names)
    fields = set(RunSpec.__struct_fields__)
    assert {name for each in PROPERTIES for name in each.asked} <= fields
    assert set(properties.ladder_fields()) <= fields


def test_the_shape_counts_within_one_model_only() -> None:
    small, large = (
        a_run(1, inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 3, s, s)),))
        for s in (32, 96)
    )
    other = a_run(
        1,
        spec=RunSpec(model=ModelRef(path="n.onnx", format="onnx"), runtime="onnxruntime"),
        inputs=(TensorSpec(name="x", dtype="float32", shape=(1, 3, 64, 64)),),
    )
    assert labels_from_runs([small, large]) == ("3x32x32", "3x96x96")
    assert labels_from_runs([small, other]) == ("m.onnx", "n.onnx")


@pytest.mark.parametrize("name", ["ece", "nll", "wer", "rmse", "abs_rel", "mae_to_first", "loss"])
def test_less_is_better_of_errors(name: str) -> None:
    assert less_is_better(name)


@pytest.mark.parametrize("name", ["top1", "top10", "mAP", "mAP50", "PCK@0.2", "d1", "bleu"])
def test_more_is_better_of_hits(name: str) -> None:
    assert not less_is_better(name)


def test_only_declared_metrics_are_shares() -> None:
    assert all(map(is_share, ("top1", "AP50", "PCK@0.05")))
    assert not any(map(is_share, ("apnea", "topology", "argument", "mapping_loss", "covid")))


def test_an_undeclared_metric_is_refused_where_it_would_rank() -> None:
    assert metric("apnea") == Metric("apnea")
    with pytest.raises(UsageError, match="low or a high apnea"):
        less_is_better("apnea")


def rows(name: str, *scores: Score) -> list[SweepRow]:
    import numpy as np

    times = [1e-3 * (place + 1) for place in range(len(scores))]
    return [
        SweepRow(
            model="m.onnx",
            runtime=f"r{place}",
            batch=1,
            summary=summarize(IterationTimes(host=np.full(50, time))),
            scores={name: score},
        )
        for place, (time, score) in enumerate(zip(times, scores, strict=True))
    ]


def test_a_plug_in_declares_its_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slower model is on the front when its declared error is lower."""
    found = TASKS.load("classification")
    parts = {each: getattr(found, each) for each in ("FLAGS", "open_source", "decode", "judge")}
    guest = types.ModuleType("guest")
    vars(guest).update(parts, METRICS=(Metric("apnea", better="low"),))
    entry = types.SimpleNamespace(name="guest", value="guest", dist=None, load=lambda: guest)
    monkeypatch.setattr(TASKS, "entry_points", lambda: {"guest": entry})
    monkeypatch.setattr("trtbench.core.metrics._TASKS", {})
    TASKS.load("guest")
    assert less_is_better("apnea")
    marked = with_front(rows("apnea", *(Score(metric="apnea", value=v) for v in (0.3, 0.1, 0.2))))
    assert [row.on_front for row in marked] == [True, True, False]


def test_a_score_tells_its_direction_where_the_task_is_not_installed() -> None:
    scores = [Score(metric="apnea", value=v, better="low") for v in (0.3, 0.1, 0.2)]
    assert [row.on_front for row in with_front(rows("apnea", *scores))] == [True, True, False]
    everything = condition_from_text("batch==1", names=("batch",))
    best = choose(rows("apnea", *scores), everything, by="apnea").rows
    assert [row.scores["apnea"].value for row in best] == [0.1, 0.2, 0.3]
    undeclared = rows("apnea", Score(metric="apnea", value=0.3))
    with pytest.raises(UsageError, match="apnea"):
        choose(undeclared, everything, by="apnea")


def trtbench(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "trtbench", *words, "--store", "store"],
        cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_of_two_sizes_are_labelled_so_and_no_curve_runs_through_both(tmp_path: Path) -> None:
    models.identity(tmp_path / "m.onnx", ("x", TensorProto.FLOAT, ["n", 3, "h", "w"]))
    runs = []
    for size in (32, 96):
        for batch in (1, 2):
            told = trtbench(
                tmp_path, "bench", "m.onnx", "--shape", f"x:{batch}x3x{size}x{size}",
                "--iterations", "20", "--warmup", "1ms", "--no-until-steady", "--json",
            )  # fmt: skip
            runs.append(json.loads(told)["run"]["id"])
    trtbench(tmp_path, "report", *runs, "--format", "json,md", "-o", "out")
    page = (tmp_path / "out" / "report.md").read_text()
    assert "3x32x32 · batch 1" in page
    assert "3x96x96 · batch 2" in page
    assert "batch 2 (1)" not in page
    document = (tmp_path / "out" / "report.json").read_text()
    curves = [
        line
        for figure in _figures(json.loads(document))
        if "throughput" in figure.get("id", "")
        for panel in figure["chart"]["panels"]
        for line in panel["lines"]
    ]
    names = {line["name"] for line in curves if line.get("name")}
    assert {"3x32x32", "3x96x96"} <= names
    assert all(len(line["x"]) == 2 for line in curves if line.get("name") in names)


def _figures(value: object) -> Iterator[dict]:  # type: ignore[type-arg]
    if isinstance(value, dict):
        if "chart" in value:
            yield value
        for inner in value.values():
            yield from _figures(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _figures(inner)
