"""The list of runs on the screen."""

from __future__ import annotations

import datetime

import pytest

from trtbench.core.errors import UsageError
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers.terminal import text
from trtbench.store.directory import Entry
from trtbench.workflows.stored.runs import day_from_text


def entry(protocol: str, *, precision: str | None = None, host: str | None = None) -> Entry:
    return Entry(
        id=f"20261115-061858-{protocol}",
        kind="run",
        created="2026-11-15T06:18:58+00:00",
        model="resnet18.engine",
        runtime="tensorrt",
        path="runs/x",
        precision=precision,
        protocol=protocol,
        host=host,
        samples=100,
        median_s=1.634e-4,
    )


def lines(*entries: Entry) -> list[str]:
    return text(document_from_entries(entries), width=None).splitlines()


def test_medians_of_different_protocols_are_told_apart() -> None:
    head, first, second = lines(entry("serve", precision="half"), entry("coldl2"))
    place = head.index("Protocol")
    assert first[place:].startswith("serve")
    assert second[place:].startswith("coldl2")
    assert "half" in first
    assert "Protocol" not in lines(entry("serve"))[0]


def test_the_machine_is_shown_where_runs_of_several_are_listed() -> None:
    head, first, second = lines(entry("serve", host="orin"), entry("serve", host="ci-t4"))
    place = head.index("Machine")
    assert first[place:].startswith("orin")
    assert second[place:].startswith("ci-t4")
    assert "Machine" not in lines(entry("serve", host="orin"), entry("serve", host="orin"))[0]


def test_days_are_counted_back_as_far_as_there_are_any() -> None:
    days = [day_from_text(text) for text in ("7d", "yesterday", "today")]
    assert (days[2] - days[0]).days in (7, 8)  # midnight may pass between two of them
    assert days[0] < days[1] < days[2]
    assert day_from_text("2026-11-15") == datetime.date(2026, 11, 15)
    for odd in ("9999999d", f"{10**30}d", "9" * 5000 + "d", "²d", "2026-13-01", "soon"):
        with pytest.raises(UsageError, match="is not a day"):
            day_from_text(odd)
