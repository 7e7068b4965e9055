"""The list of runs on the screen, and progress before it."""

from __future__ import annotations

import datetime

import pytest

from trtbench.core.errors import UsageError
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers.terminal import text
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
