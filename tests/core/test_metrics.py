"""Metrics are declared, not guessed from how they are spelled."""

from __future__ import annotations

import types

import pytest

from trtbench.analysis.summary import summarize
from trtbench.analysis.sweep import SweepRow, choose, with_front
from trtbench.core.conditions import condition_from_text
from trtbench.core.errors import UsageError
from trtbench.core.metrics import Metric, is_share, less_is_better, metric
from trtbench.core.run import Score
from trtbench.core.samples import IterationTimes
from trtbench.tasks import TASKS


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
