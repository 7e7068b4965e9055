"""What makes a run another run, and which metric is better low: declared once, not guessed."""

from collections.abc import Iterator

import numpy as np
import pytest

from analysis_values import run, stated
from trtbench.analysis.comparability import differences, refuse_unknown_keys
from trtbench.analysis.history import key_from_record
from trtbench.analysis.summary import summarize
from trtbench.analysis.sweep import SweepRow, choose, mark_best
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import UsageError
from trtbench.core.metrics import Metric, metric
from trtbench.core.properties import PROPERTIES, Property, series_key, title_of_record
from trtbench.core.run import Run, Score
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.report.run_facts import labels_from_runs

MODEL = ModelRef(path="m.onnx", format="onnx")


def a_run(tiles: int, **changes: object) -> Run:
    given = {"spec": RunSpec(model=MODEL, runtime="onnxruntime"), "conditions": stated(tiles=tiles)}
    return run(IterationTimes(host=np.full(9, 1e-3)), id=f"r{tiles}", **{**given, **changes})


@pytest.fixture
def tiles() -> Iterator[None]:
    added = Property(
        name="tiles",
        words="tiles of the scheduler",
        read=lambda record: record.conditions["tiles"].value,
        write=lambda count: f"{count} tiles",
        condition=True,
        code="H25",
    )
    PROPERTIES.append(added)
    yield
    PROPERTIES.remove(added)


@pytest.mark.usefixtures("tiles")
def test_one_declaration_reaches_title_label_series_history_and_comparability() -> None:
    few, many = a_run(2), a_run(8)
    assert "2 tiles" in title_of_record(few.record)
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


def test_only_declared_metrics_are_shares() -> None:
    assert all(metric(name).is_share for name in ("top1", "AP50", "PCK@0.05"))
    others = ("apnea", "topology", "argument", "mapping_loss", "covid")
    assert not any(metric(name).is_share for name in others)


def test_an_undeclared_metric_is_refused_where_it_would_rank() -> None:
    assert metric("apnea") == Metric("apnea")
    with pytest.raises(UsageError, match="low or a high apnea"):
        metric("apnea").less_is_better  # noqa: B018


def rows(name: str, *scores: Score) -> list[SweepRow]:
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


def test_a_score_tells_its_direction_where_the_task_is_not_installed() -> None:
    scores = [Score(metric="apnea", value=v, better="low") for v in (0.3, 0.1, 0.2)]
    marked = mark_best(rows("apnea", *scores))
    assert [row.on_front for row in marked] == [True, True, False]
    everything = condition_from_text("batch==1", names=("batch",))
    best = choose(rows("apnea", *scores), everything, by="apnea").rows
    assert [row.scores["apnea"].value for row in best] == [0.1, 0.2, 0.3]
    undeclared = rows("apnea", Score(metric="apnea", value=0.3))
    with pytest.raises(UsageError, match="apnea"):
        choose(undeclared, everything, by="apnea")
