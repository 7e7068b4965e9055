"""Series over time as a document: a picture and a table of changes for each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from trtbench.analysis.history import HistoryChange, Series, instant
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Figure,
    Heading,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.headings import CHANGE_HEADING
from trtbench.report.labels import file_stem
from trtbench.report.numbers import UnitScale, text_from_duration, unit_for_seconds
from trtbench.units import counted, text_from_fraction

BARS = "▁▂▃▄▅▆▇█"
LETTERS = 40
"""Of the little picture of a series."""
MOST_SERIES = 60
"""Pictures in one document; more take long to draw and nobody looks at them."""

HEADINGS = (
    Heading(key="created", title="Since"),
    CHANGE_HEADING,
    Heading(key="before", title="Before", align="right"),
    Heading(key="after", title="After", align="right"),
    Heading(key="p", title="p", align="right", rank=4),
    Heading(key="confirmed", title="Confirmed", rank=1),
    Heading(key="causes", title="What changed around it", fit="wrap", rank=2),
    Heading(key="run", title="First run", rank=3),
)
CAPTION = (
    "A change is a suspicion with a place, found by levels that fit best and Welch's t (p below "
    "0.001, 2 % or more, five runs on each side); confirmed once two further runs agree. What "
    "changed around it is a suspect, not a proof."
)


def document_from_series(series: Sequence[Series]) -> Document:
    """Describe series, those with changes first."""
    taken: set[str] = set()
    sections = tuple(_section(each, file_stem(each.key.name, taken=taken))
                     for each in series[:MOST_SERIES])  # fmt: skip
    newest = max(point.created for each in series for point in each.points)
    if any(each.changes for each in series):
        sections += (Section(id="changes", title="", blocks=(Text(text=CAPTION),)),)
    data: dict[str, object] = {"series": [each.key for each in series]}
    return Document(title="History", created=newest, sections=sections, data=data)


def causes_text(change: HistoryChange) -> str:
    """Put what changed into one line."""
    told = (f"{each.name}: {each.before} → {each.after}" for each in change.causes)
    return "; ".join(told) or "nothing that was recorded"


def value_text(value: float, series: Series, unit: UnitScale | None = None) -> str:
    """Write a value of a series: a time, or a ratio to a reference."""
    return f"{value:.4g} ×" if series.reference else text_from_duration(value, unit=unit)


def _section(series: Series, name: str) -> Section:
    blocks: list[Block] = [figure_from_series(series, name), Text(text=_words(series))]
    if series.changes:
        rows = [_row(change, series) for change in series.changes]
        blocks.append(table_from_rows(f"changes_{name}", headings=HEADINGS, rows=rows))
    return Section(id=name, title=series.key.name, blocks=tuple(blocks))


def _words(series: Series) -> str:
    """Draw the series with letters, and say how many runs it has and where it stands."""
    first, last = series.points[0], series.points[-1]
    runs = counted(len(series.points), "run")
    words = (
        f"{sparkline(series.values)}  {runs}, {first.created[:10]} to "
        f"{last.created[:10]}, now {value_text(last.value, series)}"
    )
    return words if series.changes else f"{words}, no change of level"


def sparkline(values: Sequence[float]) -> str:
    """Draw a series with block characters, newest at the right."""
    shown = values[-LETTERS:]
    low, high = min(shown), max(shown)
    if high <= low:
        return BARS[3] * len(shown)
    return "".join(BARS[min(int((v - low) / (high - low) * len(BARS)), 7)] for v in shown)


def _row(change: HistoryChange, series: Series) -> tuple[Cell | str, ...]:
    at = change.at
    return (
        Cell(value=change.created, text=change.created[:16].replace("T", " ")),
        Cell(
            value=at.change,
            text=text_from_fraction(at.change, digits=1, signed=True),
            tone="bad" if at.change > 0 else "good",
        ),
        Cell(value=at.before, text=value_text(at.before, series)),
        Cell(value=at.after, text=value_text(at.after, series)),
        Cell(value=at.p, text=f"{at.p:.1g}"),
        "yes" if at.confirmed else "not yet",
        causes_text(change),
        change.run,
    )


def figure_from_series(series: Series, name: str) -> Figure:
    """Describe runs over time with their levels and changes, as a picture."""
    values = sorted(series.values)
    unit, scale = unit_for_seconds(values[len(values) // 2])
    if series.reference:
        unit, scale = "×", 1.0
    x = tuple(instant(point.created) for point in series.points)
    lines = [
        Line(name="runs", role="run:0", x=x, y=tuple(v / scale for v in series.values),
             style="points"),
        _levels(series, x, scale),
    ]  # fmt: skip
    lines += [_step(each, x[each.at.index], scale) for each in series.changes]
    title = f"Ratio to {series.reference}" if series.reference else "Median"
    chart = Lines(
        x=Axis(title="When", scale="time"),
        y=Axis(title=title, unit=unit),
        panels=(Panel(lines=tuple(lines)),),
    )
    return Figure(id=f"history_{name}", title=series.key.name, chart=chart)


def _step(change: HistoryChange, at: float, scale: float) -> Line:
    """Draw a change as an upright from the old level to the new one, with its size beside it."""
    size = text_from_fraction(change.at.change, digits=1, signed=True)
    middle = (change.at.before + change.at.after) / 2
    return Line(
        name=None,
        role="outlier" if change.at.change > 0 else "gpu",
        x=(at, at, at),
        y=(change.at.before / scale, middle / scale, change.at.after / scale),
        style="dotted",
        texts=("", size, ""),
    )


def _levels(series: Series, x: tuple[float, ...], scale: float) -> Line:
    """Draw the median of each level from its first run to its last."""
    xs: list[float] = []
    ys: list[float | None] = []
    for begin, end in series.levels():
        level = median(series.values[begin:end]) / scale
        xs += [x[begin], x[end - 1], x[end - 1]]
        ys += [level, level, None]
    return Line(name="level", role="median", x=tuple(xs), y=tuple(ys))
