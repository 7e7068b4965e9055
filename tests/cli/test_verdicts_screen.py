"""Comparisons on the screen."""

from __future__ import annotations

from typing import Any

import numpy as np

from trtbench.domain.result import (
    Comparison,
    Environment,
    Finding,
    LaunchFacts,
    Run,
    RunRecord,
    Verdict,
)
from trtbench.domain.samples import times_from_columns
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.report.documents.comparison import document_from_comparisons
from trtbench.report.renderers.terminal import text
from trtbench.workflows.compare.compare import Compared

UNKNOWN: dict[str, Any] = {"ratio": None, "interval": None, "launches": 0}


def made(id: str, *findings: Finding) -> Run:
    record = RunRecord(
        id=id,
        created="2026-11-15T06:18:58+00:00",
        spec=RunSpec(model=ModelRef(path=f"{id}.engine", format="engine"), runtime="tensorrt"),
        environment=Environment(host="h", os="Linux"),
        findings=findings,
        launches=(LaunchFacts(),),
    )
    host = 1e-3 + 1e-6 * np.random.default_rng(0).standard_normal(200)
    return Run(record=record, times=times_from_columns({"host": host}))


def test_a_wrong_side_is_named_and_a_reason_given_once() -> None:
    wrong = Finding(code="H03", severity="error", message="two inputs gave equal outputs")
    note = Finding(code="H30", severity="note", message="random input")
    reason = "different protocols: gpu against serve"
    verdicts = tuple(
        Verdict(metric=metric, kind="incomparable", reason=reason, **UNKNOWN)
        for metric in ("host", "gpu")
    )
    comparison = Comparison(baseline="a", candidate="b", design="apart", verdicts=verdicts)
    compared = Compared(
        baseline=made("a", note),
        candidate=made("b", wrong, note),
        comparison=comparison,
        mode="stored runs",
    )
    out = text(document_from_comparisons([compared]), width=None)
    assert "error H03 (candidate): two inputs gave equal outputs" in out
    assert "random input" not in out
    assert out.count(reason) == 1
    assert f"host, gpu: {reason}" in out
    assert "1 launch a side" in out
