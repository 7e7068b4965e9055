"""The history of measurements that were repeated over time, and changes of their level.

For the output of ``trtbench history`` and for reports.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from trtbench.analysis import history
from trtbench.core import units
from trtbench.core.run import UNDATED, Run, when_text
from trtbench.report import document as doc
from trtbench.report.charts import Axis, curves, line
from trtbench.report.run_facts import summary_of, unique_stem

ORDER = 88

BARS = "▁▂▃▄▅▆▇█"
CAPTION = (
    "Changes are detected by fitting constant levels and Welch's t-test (p below 0.001, at least "
    "2 %, five runs on each side), and are confirmed once two more runs agree. What changed at "
    "the same time is a possible cause, not a proven one."
)


def make(runs: Sequence[Run]) -> doc.Section | None:
    """Show measurements that were repeated over time, with changes of their level."""
    groups: dict[history.SeriesKey, list[history.Point]] = {}
    for run in runs:
        head, record = summary_of(run).head, run.record
        dated = record.facts.get("created_from") not in UNDATED
        if head and dated and units.instant_from_text(record.created) is not None:
            facts, value = history.facts_from_record(record), head.typical
            point = history.Point(run=run.id, created=record.created, median_s=value, facts=facts)
            groups.setdefault(history.key_from_record(record), []).append(point)
    found = [
        history.series_from_points(key, points)
        for key, points in groups.items()
        if len({point.created for point in points}) >= 3
    ]
    taken: set[str] = set()
    blocks: list[doc.Block] = []
    for each in sorted(found, key=lambda series: not series.changes)[:6]:
        blocks += _series_blocks(each, unique_stem(each.key.name, taken=taken))
    return doc.optional_section("history", "History", blocks)


def document_from_series(series: Sequence[history.Series]) -> doc.Document:
    taken: set[str] = set()
    sections = []
    for each in series[:60]:  # charts in one document; more would take long to draw
        name = unique_stem(each.key.name, taken=taken)
        sections.append(doc.Section(name, each.key.name, tuple(_series_blocks(each, name))))
    if any(each.changes for each in series):
        sections.append(doc.Section("changes", "", (doc.Text(CAPTION),)))
    newest = max(point.created for each in series for point in each.points)
    data: dict[str, object] = {"series": [each.key for each in series]}
    return doc.Document(title="History", created=newest, sections=tuple(sections), data=data)


def _series_blocks(series: history.Series, name: str) -> Iterator[doc.Block]:
    first, last = series.points[0], series.points[-1]
    yield _figure(series, name)
    # The latest values as block characters.
    shown = series.values[-40:]
    low, high = min(shown), max(shown)
    bars = BARS[3] * len(shown)
    if high > low:
        bars = "".join(BARS[min(int((v - low) / (high - low) * len(BARS)), 7)] for v in shown)
    words = (
        f"{bars}  {units.counted(len(series.points), 'run')}, {first.created[:10]} "
        f"to {last.created[:10]}, now {units.text_from_duration(last.median_s)}"
    )
    yield doc.Text(words if series.changes else f"{words}, no change of level")
    if not series.changes:
        return

    def change_cell(change: history.HistoryChange) -> doc.Cell:
        part = change.at.change
        text = units.text_from_fraction(part, digits=1, signed=True)
        return doc.Cell(part, text, "bad" if part > 0 else "good")

    def causes(change: history.HistoryChange) -> str:
        found = (f"{each.name}: {each.before} → {each.after}" for each in change.causes)
        return "; ".join(found) or "nothing recorded"

    columns = (
        doc.column("created", "Since", lambda x: doc.Cell(x.created, when_text(x.created))),
        doc.column("change", get=change_cell),
        doc.column("before", "Before", "at.before", "time"),
        doc.column("after", "After", "at.after", "time"),
        doc.column("p", "p", "at.p", ".1g", rank=4),
        doc.column(
            "confirmed", "Confirmed", lambda x: "yes" if x.at.confirmed else "not yet", rank=1
        ),
        doc.column("causes", "Changed at the same time", causes, fit="wrap", rank=2),
        doc.column("run", "First run", rank=3),
    )
    yield doc.table(f"changes_{name}", series.changes, columns)


def _figure(series: history.Series, name: str) -> doc.Figure:
    values = sorted(series.values)
    unit, scale = units.unit_for_seconds(values[len(values) // 2])
    x = [history.epoch_s(point.created) for point in series.points]
    level_x: list[float] = []
    level_y: list[float | None] = []
    for begin, end in series.levels():  # the median of each level
        level = median(series.values[begin:end])
        level_x += [x[begin], x[end - 1], x[end - 1]]
        level_y += [level, level, None]
    lines = [
        line("runs", "run:0", x, series.values, "points", scale=scale),
        line("level", "median", level_x, level_y, scale=scale),
    ]
    for change in series.changes:
        before, after = change.at.before, change.at.after
        size = units.text_from_fraction(change.at.change, digits=1, signed=True)
        role = "outlier" if change.at.change > 0 else "gpu"
        y = (before, (before + after) / 2, after)
        at = [x[change.at.index]] * 3
        lines.append(line(None, role, at, y, "dotted", scale=scale, texts=("", size, "")))
    chart = curves(Axis("When", scale="time"), Axis("Median", unit), lines)
    return doc.Figure(f"history_{name}", series.key.name, chart)
