"""The same measurement at several times: how it went, and what changed around it.

For the screen of ``trtbench history`` and for the section of reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from trtbench.analysis.history import (
    HistoryChange,
    Point,
    Series,
    SeriesKey,
    epoch_s,
    facts_from_record,
    key_from_record,
    series_from_points,
)
from trtbench.core.run import Run
from trtbench.core.units import (
    counted,
    instant_from_text,
    text_from_duration,
    text_from_fraction,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, curves, line
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Figure,
    Section,
    Text,
    column,
    duration_cell,
    section_of,
    table,
)
from trtbench.report.run_facts import file_stem, summary_of

ORDER = 88

BARS = "▁▂▃▄▅▆▇█"
MOST_SERIES = 60
"""Charts in one document; more take long to draw and are hardly looked at."""
CAPTION = (
    "A change is a suspicion with a place, found by levels that fit best and Welch's t (p below "
    "0.001, 2 % or more, five runs on each side); confirmed once two further runs agree. What "
    "changed around it is a suspect, not a proof."
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw every measurement that was repeated over time, and list the changes of its level."""
    groups: dict[SeriesKey, list[Point]] = {}
    for run in runs:
        head, record = summary_of(run).head, run.record
        if head and instant_from_text(record.created) is not None:
            facts, value = facts_from_record(record), head.typical
            point = Point(run=run.id, created=record.created, median_s=value, facts=facts)
            groups.setdefault(key_from_record(record), []).append(point)
    found = [
        series_from_points(key, points)
        for key, points in groups.items()
        if len({point.created for point in points}) >= 3
    ]
    taken: set[str] = set()
    blocks: list[Block] = []
    for each in sorted(found, key=lambda series: not series.changes)[:6]:
        blocks += _series_blocks(each, file_stem(each.key.name, taken=taken))
    return section_of("history", "History", blocks)


def document_from_series(series: Sequence[Series]) -> Document:
    """Describe series, those with changes first."""
    taken: set[str] = set()
    sections = []
    for each in series[:MOST_SERIES]:
        name = file_stem(each.key.name, taken=taken)
        sections.append(Section(name, each.key.name, tuple(_series_blocks(each, name))))
    if any(each.changes for each in series):
        sections.append(Section("changes", "", (Text(CAPTION),)))
    newest = max(point.created for each in series for point in each.points)
    data: dict[str, object] = {"series": [each.key for each in series]}
    return Document(title="History", created=newest, sections=tuple(sections), data=data)


def _series_blocks(series: Series, name: str) -> Iterator[Block]:
    first, last = series.points[0], series.points[-1]
    yield _figure(series, name)
    # The newest values as block characters.
    shown = series.values[-40:]
    low, high = min(shown), max(shown)
    bars = BARS[3] * len(shown)
    if high > low:
        bars = "".join(BARS[min(int((v - low) / (high - low) * len(BARS)), 7)] for v in shown)
    words = (
        f"{bars}  {counted(len(series.points), 'run')}, {first.created[:10]} "
        f"to {last.created[:10]}, now {text_from_duration(last.median_s)}"
    )
    yield Text(words if series.changes else f"{words}, no change of level")
    if not series.changes:
        return

    def size(change: HistoryChange) -> Cell:
        part = change.at.change
        text = text_from_fraction(part, digits=1, signed=True)
        return Cell(part, text, "bad" if part > 0 else "good")

    def causes(change: HistoryChange) -> str:
        found = (f"{each.name}: {each.before} → {each.after}" for each in change.causes)
        return "; ".join(found) or "nothing that was recorded"

    columns = (
        column("created", "Since", lambda x: Cell(x.created, x.created[:16].replace("T", " "))),
        column("change", get=size),
        column("before", "Before", lambda x: duration_cell(x.at.before), "right"),
        column("after", "After", lambda x: duration_cell(x.at.after), "right"),
        column("p", "p", "at.p", ".1g", rank=4),
        column("confirmed", "Confirmed", lambda x: "yes" if x.at.confirmed else "not yet", rank=1),
        column("causes", "What changed around it", causes, fit="wrap", rank=2),
        column("run", "First run", rank=3),
    )
    yield table(f"changes_{name}", series.changes, columns)


def _figure(series: Series, name: str) -> Figure:
    """Describe runs over time with their levels and changes, as a chart."""
    values = sorted(series.values)
    unit, scale = unit_for_seconds(values[len(values) // 2])
    x = [epoch_s(point.created) for point in series.points]
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
    chart = curves(Axis("When", scale="time"), Axis("Median", unit), lines)
    return Figure(f"history_{name}", series.key.name, chart)
