"""The same measurement at several times: how it went, and what changed around it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trtbench.analysis.history import key_from_record
from trtbench.domain.result import Run
from trtbench.report.alike import AlikeKey, names_of_keys
from trtbench.report.cells import change_cell, duration_cell
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.headings import CHANGE_HEADING, ID_HEADING, MEDIAN_HEADING
from trtbench.report.labels import shortened
from trtbench.report.machine import facts_from_environment
from trtbench.report.numbers import common_unit, unit_for_seconds
from trtbench.report.run_facts import headline_summary, headline_title
from trtbench.units import instant_from_text

ORDER = 88

LEAST_RUNS = 3
MOST_SERIES = 6
VOLATILE = ("Load before (1, 5, 15 min)",)
"""Facts that differ every time and explain nothing."""

HEADINGS = (
    Heading(key="series", title="Series"),
    Heading(key="created", title="When"),
    MEDIAN_HEADING,
    CHANGE_HEADING,
    Heading(key="changed", title="What changed around it"),
    ID_HEADING,
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw medians over time for every measurement that was repeated, and list the changes."""
    series = _series(runs)
    if not series:
        return None
    names = names_of_keys(list(series))
    rows = [
        row
        for name, members in zip(names, series.values(), strict=True)
        for row in _rows(name, members)
    ]
    caption = "Runs of different days differ for many reasons; a change is not yet a verdict."
    table = table_from_rows("history", headings=HEADINGS, rows=rows, caption=caption)
    return Section(id="history", title="History", blocks=(_figure(names, series, runs), table))


def _series(runs: Sequence[Run]) -> dict[AlikeKey, list[Run]]:
    groups: dict[AlikeKey, list[Run]] = {}
    for run in runs:
        if headline_summary(run) and _seconds(run) is not None:
            groups.setdefault(_key(run), []).append(run)
    return {
        key: sorted(members, key=lambda run: _seconds(run) or 0.0)
        for key, members in groups.items()
        if len({_seconds(run) for run in members}) >= LEAST_RUNS
    }


def _key(run: Run) -> AlikeKey:
    """Name the series of a run by the parts that a history tells apart."""
    return tuple(str(part or "") for part in msgspec.structs.astuple(key_from_record(run.record)))


def _seconds(run: Run) -> float | None:
    return instant_from_text(run.record.created)


def _rows(name: str, members: Sequence[Run]) -> list[tuple[Cell | str, ...]]:
    heads = [head for run in members if (head := headline_summary(run))]
    unit = common_unit(head.typical for head in heads)
    rows: list[tuple[Cell | str, ...]] = []
    for place, (run, head) in enumerate(zip(members, heads, strict=True)):
        before = heads[place - 1].typical if place else 0.0
        change = head.typical / before - 1 if before else None
        rows.append(
            (
                name,
                run.record.created,
                duration_cell(head.typical, bounds=head.median_interval, unit=unit),
                change_cell(change, digits=1),
                _changes(members[place - 1], run) if place else "",
                run.id,
            )
        )
    return rows


def _changes(before: Run, after: Run) -> str:
    old, new = (facts_from_environment(run.record.environment) for run in (before, after))
    told = [
        f"{name}: {old.get(name, 'unknown')} → {new.get(name, 'unknown')}"
        for name in dict.fromkeys((*old, *new))
        if name not in VOLATILE and old.get(name) != new.get(name)
    ]
    sha = (before.record.spec.model.sha256, after.record.spec.model.sha256)
    if None not in sha and sha[0] != sha[1]:
        told.insert(0, "the model's file")
    return "; ".join(shortened(each, length=60) for each in told[:6])


def _figure(names: Sequence[str], series: dict[AlikeKey, list[Run]], runs: Sequence[Run]) -> Figure:
    shown = list(zip(names, series.values(), strict=True))[:MOST_SERIES]
    medians = [h.typical for _, members in shown for run in members if (h := headline_summary(run))]
    unit, scale = unit_for_seconds(sorted(medians)[len(medians) // 2])
    lines = tuple(_line(name, members, scale, runs) for name, members in shown)
    chart = Lines(
        x=Axis(title="When", scale="time"),
        y=Axis(title=f"{headline_title(runs)}, median", unit=unit),
        panels=(Panel(lines=lines),),
    )
    caption = "Bars are the 95 % intervals of the medians."
    return Figure(id="history", title="Medians over time", chart=chart, caption=caption)


def _line(name: str, members: Sequence[Run], scale: float, runs: Sequence[Run]) -> Line:
    heads = [head for run in members if (head := headline_summary(run))]
    ends = [head.median_interval for head in heads]
    return Line(
        name=name,
        role=f"run:{list(runs).index(members[0])}",
        x=tuple(_seconds(run) or 0.0 for run in members),
        y=tuple(head.typical / scale for head in heads),
        low=tuple(each.low / scale if each else None for each in ends),
        high=tuple(each.high / scale if each else None for each in ends),
        style="both",
    )
