"""The same measurement at several times: how it went, and what changed around it.

For the screen of ``trtbench history`` and for the section of reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from trtbench.analysis.history import HistoryChange, Series, instant, key_from_record
from trtbench.analysis.summary import ColumnSummary
from trtbench.core.run import Run
from trtbench.core.units import (
    common_unit,
    counted,
    instant_from_text,
    text_from_change,
    text_from_duration,
    text_from_fraction,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, curves, line
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Section,
    Text,
    column,
    duration_cell,
    section_of,
    table,
)
from trtbench.report.labels import AlikeKey, file_stem, names_of_keys, shortened
from trtbench.report.run_facts import facts_from_environment, headline_summary, headline_title

ORDER = 88

LEAST_RUNS = 3
MOST_CURVES = 6
MOST_CHANGES = 6
VOLATILE = ("Load before (1, 5, 15 min)",)
"""Facts that differ every time and explain nothing."""
BARS = "▁▂▃▄▅▆▇█"
LETTERS = 40
"""Of the sparkline of a series."""
MOST_SERIES = 60
"""Charts in one document; more take long to draw and nobody looks at them."""
WHEN = Axis("When", scale="time")
CAPTION = (
    "A change is a suspicion with a place, found by levels that fit best and Welch's t (p below "
    "0.001, 2 % or more, five runs on each side); confirmed once two further runs agree. What "
    "changed around it is a suspect, not a proof."
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw medians over time for every measurement that was repeated, and list the changes."""
    groups: dict[AlikeKey, list[tuple[float, Run, ColumnSummary]]] = {}
    for run in runs:
        head, at = headline_summary(run), instant_from_text(run.record.created)
        if head and at is not None:
            parts = msgspec.structs.astuple(key_from_record(run.record))
            groups.setdefault(tuple(str(part or "") for part in parts), []).append((at, run, head))
    series = {
        key: sorted(members, key=lambda each: each[0])
        for key, members in groups.items()
        if len({at for at, *_ in members}) >= LEAST_RUNS
    }
    if not series:
        return None
    named_series = list(zip(names_of_keys(list(series)), series.values(), strict=True))
    rows: list[tuple[Any, ...]] = []
    for name, members in named_series:
        shared = common_unit(head.typical for *_, head in members)
        for before, after in zip([None, *members[:-1]], members, strict=True):
            old = before[2].typical if before else 0.0
            change = after[2].typical / old - 1 if old else None
            rows.append((name, shared, *after[1:], before, change))
    columns = (
        column("series", "Series", lambda row: row[0]),
        column("created", "When", lambda row: row[2].record.created),
        column(
            "median_s",
            get=lambda x: duration_cell(x[3].typical, bounds=x[3].median_interval, unit=x[1]),
        ),
        column("change", get=lambda x: Cell(x[5], text_from_change(x[5], digits=1))),
        column(
            "changed", "What changed around it", lambda x: _changes(x[4][1], x[2]) if x[4] else ""
        ),
        column("id", get=lambda row: row[2].id),
    )  # fmt: skip
    caption = "Runs of different days differ for many reasons; a change is not yet a verdict."
    listed = table("history", rows, columns, caption=caption)
    shown = named_series[:MOST_CURVES]
    medians = sorted(head.typical for _, members in shown for *_, head in members)
    unit, scale = unit_for_seconds(medians[len(medians) // 2])
    lines = [
        line(
            name,
            f"run:{list(runs).index(members[0][1])}",
            [at for at, *_ in members],
            [head.typical for *_, head in members],
            "both",
            scale=scale,
            ends=[head.median_interval for *_, head in members],
        )
        for name, members in shown
    ]
    chart = curves(WHEN, Axis(f"{headline_title(runs)}, median", unit), lines)
    caption = "Bars are the 95 % intervals of the medians."
    figure = Figure("history", "Medians over time", chart, caption)
    return section_of("history", "History", (figure, listed))


def _changes(before: Run, after: Run) -> str:
    old, new = (facts_from_environment(run.record.environment) for run in (before, after))
    found = [
        f"{name}: {old.get(name, 'unknown')} → {new.get(name, 'unknown')}"
        for name in dict.fromkeys((*old, *new))
        if name not in VOLATILE and old.get(name) != new.get(name)
    ]
    sha = (before.record.spec.model.sha256, after.record.spec.model.sha256)
    if None not in sha and sha[0] != sha[1]:
        found.insert(0, "the model's file")
    return "; ".join(shortened(each, length=60) for each in found[:MOST_CHANGES])


# ---- the history command


def document_from_series(series: Sequence[Series]) -> Document:
    """Describe series, those with changes first."""
    taken: set[str] = set()
    sections = []
    for each in series[:MOST_SERIES]:
        name = file_stem(each.key.name, taken=taken)
        first, last = each.points[0], each.points[-1]
        words = (
            f"{sparkline(each.values)}  {counted(len(each.points), 'run')}, {first.created[:10]} "
            f"to {last.created[:10]}, now {_value_text(last.value, each)}"
        )
        words += "" if each.changes else ", no change of level"
        blocks: list[Block] = [figure_from_series(each, name), Text(words)]
        if each.changes:
            blocks.append(table(f"changes_{name}", each.changes, _change_columns(each)))
        sections.append(Section(name, each.key.name, tuple(blocks)))
    if any(each.changes for each in series):
        sections.append(Section("changes", "", (Text(CAPTION),)))
    newest = max(point.created for each in series for point in each.points)
    data: dict[str, object] = {"series": [each.key for each in series]}
    return Document(title="History", created=newest, sections=tuple(sections), data=data)


def _change_columns(series: Series) -> tuple[Column, ...]:
    def size(change: HistoryChange) -> Cell:
        part = change.at.change
        text = text_from_fraction(part, digits=1, signed=True)
        return Cell(part, text, "bad" if part > 0 else "good")

    def causes(change: HistoryChange) -> str:
        found = (f"{each.name}: {each.before} → {each.after}" for each in change.causes)
        return "; ".join(found) or "nothing that was recorded"

    return (
        column("created", "Since", lambda x: Cell(x.created, x.created[:16].replace("T", " "))),
        column("change", get=size),
        column(
            "before", "Before", lambda x: Cell(x.at.before, _value_text(x.at.before, series)),
            "right",
        ),
        column(
            "after", "After", lambda x: Cell(x.at.after, _value_text(x.at.after, series)), "right"
        ),
        column("p", "p", lambda x: Cell(x.at.p, f"{x.at.p:.1g}"), "right", rank=4),
        column("confirmed", "Confirmed", lambda x: "yes" if x.at.confirmed else "not yet", rank=1),
        column("causes", "What changed around it", causes, fit="wrap", rank=2),
        column("run", "First run", rank=3),
    )  # fmt: skip


def _value_text(value: float, series: Series) -> str:
    """Write a value of a series: a time, or a ratio to a reference."""
    return f"{value:.4g} ×" if series.reference else text_from_duration(value)


def sparkline(values: Sequence[float]) -> str:
    """Draw a series with block characters, newest at the right."""
    shown = values[-LETTERS:]
    low, high = min(shown), max(shown)
    if high <= low:
        return BARS[3] * len(shown)
    return "".join(BARS[min(int((v - low) / (high - low) * len(BARS)), 7)] for v in shown)


def figure_from_series(series: Series, name: str) -> Figure:
    """Describe runs over time with their levels and changes, as a chart."""
    values = sorted(series.values)
    unit, scale = unit_for_seconds(values[len(values) // 2])
    if series.reference:
        unit, scale = "×", 1.0
    x = [instant(point.created) for point in series.points]
    level_x: list[float] = []
    level_y: list[float | None] = []
    for begin, end in series.levels():  # the median of each level, from its first run to its last
        level = median(series.values[begin:end])
        level_x += [x[begin], x[end - 1], x[end - 1]]
        level_y += [level, level, None]
    lines = [
        line("runs", "run:0", x, series.values, "points", scale=scale),
        line("level", "median", level_x, level_y, scale=scale),
    ]
    for change in series.changes:
        before, after = change.at.before, change.at.after
        size = text_from_fraction(change.at.change, digits=1, signed=True)
        role = "outlier" if change.at.change > 0 else "gpu"
        y = (before, (before + after) / 2, after)
        at = [x[change.at.index]] * 3
        lines.append(line(None, role, at, y, "dotted", scale=scale, texts=("", size, "")))
    title = f"Ratio to {series.reference}" if series.reference else "Median"
    return Figure(f"history_{name}", series.key.name, curves(WHEN, Axis(title, unit), lines))
