"""The percentiles of each run, as a curve and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.column_summary import QUANTILES, ColumnSummary, Quantile
from trtbench.domain.result import Run
from trtbench.report.cells import count_cell
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Block, Cell, Figure, Heading, Section, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import (
    MISSING,
    UnitScale,
    common_unit,
    text_from_count,
    text_from_duration,
    unit_for_seconds,
)
from trtbench.report.run_facts import (
    REPORTED,
    column_title,
    headline_column,
    headline_summary,
    headline_title,
    measured,
    summary_of,
    words_on_protocols,
)

ORDER = 40

MOST_CURVES = 12
POINTS = 160
DOTTED = "Where a curve is dotted, too few independent samples support it."
WIDE = 20.0
"""Latencies that differ by more than this factor are drawn on a log scale."""

HEADINGS = (
    RUN_HEADING,
    Heading(key="column", title="Time"),
    Heading(key="samples", title="Samples", align="right"),
    Heading(key="effective_samples", title="Effective", align="right"),
    Heading(key="min_s", title="Min", align="right"),
    *(Heading(key=f"p{100 * q:g}_s", title=f"p{100 * q:g}", align="right") for q in QUANTILES),
    Heading(key="max_s", title="Max", align="right"),
    Heading(key="mean_s", title="Mean", align="right"),
    Heading(key="std_s", title="Std", align="right"),
)


def make(runs: Sequence[Run]) -> Section | None:
    """Draw the percentile curve and list the percentiles of every column of every run."""
    pairs = [
        (label, column)
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        for column in summary_of(run).columns
        if column.count or column.reported
    ]
    if not pairs:
        return None
    unit = common_unit(column.typical for _, column in pairs)
    rows = [_row(label, column, unit) for label, column in pairs]
    caption = (
        "Percentiles by nearest rank. A percentile is left out, with the number of samples it "
        "would take, where the effective samples do not support a 95 % interval for it."
    )
    if any(column.reported for _, column in pairs):
        caption += " " + REPORTED
    table = table_from_rows("percentiles", headings=HEADINGS, rows=rows, caption=caption)
    blocks: tuple[Block, ...] = (_curve(runs), table) if measured(runs) else (table,)
    return Section(id="percentiles", title="Percentiles", blocks=blocks)


def _row(label: str, column: ColumnSummary, unit: UnitScale) -> tuple[Cell | str | int, ...]:
    return (
        label,
        column_title(column),
        *_counts(column),
        _plain(column.min, unit),
        *(_cell(each, unit) for each in column.quantiles),
        _plain(column.max, unit),
        _plain(column.mean, unit),
        _plain(column.std, unit),
    )


def _counts(column: ColumnSummary) -> tuple[Cell, Cell]:
    if column.reported:
        return Cell(text=MISSING), Cell(text=MISSING)
    return (
        count_cell(column.count),
        Cell(value=column.effective, text=text_from_count(math.floor(column.effective))),
    )


def _plain(value: float, unit: UnitScale) -> Cell:
    text = text_from_duration(value, unit=unit)
    return Cell(value=value if math.isfinite(value) else None, text=text)


def _cell(quantile: Quantile, unit: UnitScale) -> Cell:
    if quantile.value is None:
        needed = f" (needs {text_from_count(quantile.needed)})" if quantile.needed else ""
        return Cell(text=f"{MISSING}{needed}")
    text = text_from_duration(quantile.value, bounds=quantile.interval, unit=unit)
    return Cell(value=quantile.value, text=text)


def _curve(runs: Sequence[Run]) -> Figure:
    names, chosen = labels_from_runs(runs), measured(runs)[:MOST_CURVES]
    medians = [float(np.median(headline_column(run))) for _, run in chosen]
    unit, scale = unit_for_seconds(float(np.median(medians)))
    lines = [
        line
        for index, run in chosen
        for line in _lines(run, name=names[index], role=f"run:{index}", scale=scale)
    ]
    values = [y for line in lines for y in line.y if y is not None]
    wide = min(values) > 0 and max(values) / min(values) > WIDE
    title = headline_title([run for _, run in chosen])
    chart = Lines(
        x=Axis(title="Percentile", scale="tail"),
        y=Axis(title=title, unit=unit, scale="log" if wide else "linear"),
        panels=(Panel(lines=tuple(lines)),),
    )
    return Figure(
        id="percentiles",
        title="Latency by percentile",
        chart=chart,
        caption=" ".join(filter(None, (DOTTED, words_on_protocols([run for _, run in chosen])))),
    )


def _lines(run: Run, *, name: str, role: str, scale: float) -> list[Line]:
    ordered = np.sort(headline_column(run)) / scale
    count, head = len(ordered), headline_summary(run)
    effective = head.effective if head else 1.0
    # A two-sided 95 % interval for a quantile q exists from ln(0.025) / ln(q) samples on.
    supported = math.exp(math.log(0.025) / max(effective, 1.0))
    # Evenly spaced on the axis they are drawn on, where the last sample of n lies at log10(n).
    tails = 10 ** -np.linspace(0, math.log10(max(count, 2)), POINTS)
    shares = 1 - tails
    values = ordered[np.clip(np.ceil(shares * count).astype(int) - 1, 0, count - 1)]
    sure = shares <= supported
    unsure = ~sure
    if sure.any():
        unsure[np.flatnonzero(sure)[-1]] = True
    parts: list[tuple[str | None, NDArray[np.bool_], str]] = [
        (name, sure, "line"),
        (None, unsure, "dotted"),
    ]
    return [
        Line(
            name=label,
            role=role,
            x=tuple(shares[mask].tolist()),
            y=tuple(values[mask].tolist()),
            style="dotted" if style == "dotted" else "line",
        )
        for label, mask, style in parts
        if mask.any()
    ]
