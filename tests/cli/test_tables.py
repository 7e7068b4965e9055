"""Runs, comparisons and progress on the screen."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from analysis_values import run, spec
from trtbench.core.errors import UsageError
from trtbench.core.results import Compared, Comparison, Verdict
from trtbench.core.run import Finding, Interval, Run
from trtbench.core.samples import times_from_columns
from trtbench.core.spec import ModelRef
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers.terminal import text
from trtbench.report.sections.findings import gather
from trtbench.report.sections.summary import document_from_run
from trtbench.report.sections.verdicts import document_from_comparisons
from trtbench.requests.execution import Event
from trtbench.store.directory import Entry
from trtbench.verbs._screen import Talk
from trtbench.workflows.runs import day_from_text


def entry(protocol: str, *, host: str | None = None) -> Entry:
    return Entry(
        id=f"20261115-061858-{protocol}",
        kind="run",
        created="2026-11-15T06:18:58+00:00",
        model="resnet18.engine",
        runtime="tensorrt",
        path="runs/x",
        protocol=protocol,
        host=host,
        samples=100,
        median_s=1.634e-4,
    )


def lines(*entries: Entry) -> list[str]:
    return text(document_from_entries(entries), width=None).splitlines()


@pytest.mark.parametrize(
    ("heading", "first", "second"),
    [
        ("Protocol", entry("serve"), entry("coldl2")),
        ("Machine", entry("serve", host="orin"), entry("serve", host="ci-t4")),
    ],
)
def test_what_differs_between_runs_has_a_column(heading: str, first: Entry, second: Entry) -> None:
    head, *rows = lines(first, second)
    place, key = head.index(heading), {"Protocol": "protocol", "Machine": "host"}[heading]
    for row, each in zip(rows, (first, second), strict=True):
        assert row[place:].startswith(getattr(each, key))
    assert heading not in lines(first, first)[0]


def test_days_are_counted_back_as_far_as_there_are_any() -> None:
    days = [day_from_text(text) for text in ("7d", "yesterday", "today")]
    assert (days[2] - days[0]).days in (7, 8)  # midnight may pass between two of them
    assert days[0] < days[1] < days[2]
    assert day_from_text("2026-11-15") == datetime.date(2026, 11, 15)
    for odd in ("9999999d", f"{10**30}d", "9" * 5000 + "d", "²d", "2026-13-01", "soon"):
        with pytest.raises(UsageError, match="is not a day"):
            day_from_text(odd)


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is drawn before anything has been reported."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Talk("check") as talk:
        talk(Event(kind="stage", text="a.onnx: 3 of 9 items", done=0.3))
    assert "3 of 9 items" in capsys.readouterr().err


UNKNOWN: dict[str, Any] = {"ratio": None, "interval": None, "launches": 0}


def made(id: str, *findings: Finding) -> Run:
    host = 1e-3 + 1e-6 * np.random.default_rng(0).standard_normal(200)
    model = ModelRef(path=f"{id}.engine", format="engine")
    asked = spec(model=model, runtime="tensorrt")
    return run(times_from_columns({"host": host}), id=id, spec=asked, findings=findings)


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


def judged(kind: str, *, rate: str = "unclear") -> str:
    """The screen of a comparison with this verdict."""
    interval = Interval(low=1.10, high=1.20, level=0.99, meaning="test")
    verdicts = tuple(
        Verdict(
            metric=metric, kind=word, ratio=1.15, interval=interval, reason="[]: noisy", launches=5
        )
        for metric, word in (("host", kind), ("throughput", rate))
    )
    comparison = Comparison(baseline="a", candidate="b", design="duet", verdicts=verdicts)
    compared = Compared(baseline=made("a"), candidate=made("b"), comparison=comparison)
    return text(document_from_comparisons([compared]), width=None)


def test_a_speed_up_is_shown_with_its_interval_and_only_where_there_is_one() -> None:
    out = judged("slower")
    assert "0.870x, 0.833x to 0.909x" in out
    assert "of means" not in out, "the means are too noisy to say anything"
    means = judged("slower", rate="slower").partition("of means")[2].splitlines()[0]
    assert "FPS" in means
    assert "-" not in means
    for kind in ("unclear", "same", "incomparable"):
        assert "speed-up" not in judged(kind)


FINDINGS = (
    Finding(code="H09", severity="warning", message="the CPU was contended: load 12"),
    Finding(code="H14", severity="warning", message="one launch"),
    Finding(code="H15", severity="warning", message="the level moved", remedy="--warmup 5s"),
    Finding(code="H10", severity="note", message="the CPU may change its speed"),
    Finding(code="H11", severity="note", message="measured in a virtual machine"),
    Finding(code="H18", severity="note", message="heavy tail"),
    Finding(code="H30", severity="note", message="random input, the same every time"),
    Finding(code="H36", severity="note", message="queries came as fast as they were answered"),
)


def test_a_default_run_has_its_numbers_first_and_three_lines_of_findings() -> None:
    found = made("a", *FINDINGS)
    brief = text(document_from_run(found, explain=False), width=80).splitlines()
    full = text(document_from_run(found), width=80).splitlines()
    without = text(document_from_run(made("a"), explain=False), width=80).splitlines()
    assert len(brief) == len(without) + 3
    assert brief[: len(without)] == without, "numbers first"
    assert "random input, back-to-back, closed loop" in brief[-1]
    assert "--explain" in brief[-1]
    assert max(map(len, brief[len(without) :])) <= 80
    assert len(full) > len(brief)
    assert any("--warmup 5s" in line for line in full)


def test_what_holds_for_every_default_run_is_one_entry_of_a_report() -> None:
    found = gather([(name, finding) for name in ("a", "b") for finding in FINDINGS])
    assert found is not None
    usual = [item for item in found.items if "H30" in item.finding.code]
    assert [item.finding.message for item in usual] == [
        "default conditions: random input, back-to-back, closed loop"
    ]
    assert usual[0].runs == ("a", "b")
    assert len(found.items) == len(FINDINGS) - 1
