"""How the samples of each run are distributed and how they went over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.steady import segment
from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.report.box_plots import MOST_BOXES, speed_blocks
from trtbench.report.charts import (
    Axis,
    BarGroup,
    Bars,
    Bins,
    Histogram,
    Line,
    Lines,
    Mark,
    Panel,
    Span,
)
from trtbench.report.document import Block, Figure, Section, Text
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import text_from_duration, unit_for_seconds
from trtbench.report.picture_runs import Drawn, drawn_from_runs, words_beyond
from trtbench.report.run_facts import (
    REPORTED,
    headline_summary,
    headline_title,
    measured,
    words_on_protocols,
)
from trtbench.report.sampling import View, bin_edges, ecdf, fences, running_median, thin, view_of

ORDER = 30

MOST_PANELS = 6
MOST_CURVES = 12
UNEVEN = 3.0
"""Series that differ in length by more than this factor get an axis of their own."""

SERIES_CAPTION = (
    "Rings are far out (three interquartile ranges), triangles lie above the drawn range; "
    "the unbroken line is the running median."
)
MOST_BARS = 40
MOST_RINGS = 80
LEAST_SEGMENTED = 50
"""Fewer samples than this show no change of level that could be told from noise."""


def make(runs: Sequence[Run]) -> Section | None:
    """Draw histogram, ECDF, box plots of several runs, and the series over time."""
    printed = printed_blocks(runs)
    if not measured(runs):
        return Section(id="latency", title="Latency", blocks=printed) if printed else None
    drawn = drawn_from_runs(runs)
    blocks: list[Block] = [
        _histogram(drawn.part(0, MOST_PANELS)),
        _ecdf(drawn.part(0, MOST_CURVES)),
    ]
    blocks += speed_blocks(drawn)
    blocks.append(_series(drawn.part(0, MOST_PANELS)))
    blocks += printed
    if len(drawn.runs) > MOST_PANELS:
        note = (
            f"Histograms and series show the first {MOST_PANELS} of "
            f"{len(drawn.runs)} runs, curves the first {min(MOST_CURVES, len(drawn.runs))} and box "
            f"plots the first {min(MOST_BOXES, len(drawn.runs))}; tables show all."
        )
        blocks.insert(0, Text(text=note))
    if words := words_on_protocols(drawn.runs):
        blocks.insert(0, Text(text=words))
    return Section(id="latency", title="Latency", blocks=tuple(blocks))


def _histogram(drawn: Drawn) -> Figure:
    view = view_of(drawn.columns)
    edges = bin_edges(drawn.columns, view)
    groups = tuple(
        Bins(
            name=name,
            role=role,
            counts=tuple(int(count) for count in np.histogram(column, edges)[0]),
            marks=_marks(run, drawn.scale),
            beyond=words_beyond(column, view, drawn),
        )
        for name, role, run, column in zip(
            drawn.names, drawn.roles, drawn.runs, drawn.columns, strict=True
        )
    )
    chart = Histogram(
        x=drawn.axis(view), y=Axis(title="Samples"), edges=tuple(edges.tolist()), groups=groups
    )
    return Figure(
        id="latency_hist",
        title="How latencies are distributed",
        chart=chart,
        caption="Samples per bin; every run on the same axis." if len(groups) > 1 else None,
    )


def _marks(run: Run, scale: float) -> tuple[Mark, ...]:
    head = headline_summary(run)
    if head is None:
        return ()
    median = text_from_duration(head.median, bounds=head.median_interval)
    marks = [Mark(at=head.median / scale, text=f"median {median}", role="median")]
    tail = head.quantile(0.99)
    if tail.value is not None:
        text = f"p99 {text_from_duration(tail.value, bounds=tail.interval)}"
        marks.append(Mark(at=tail.value / scale, text=text))
    return tuple(marks)


def _ecdf(drawn: Drawn) -> Figure:
    view = view_of(drawn.columns)
    lines = []
    for name, role, column in zip(drawn.names, drawn.roles, drawn.columns, strict=True):
        values, share = ecdf(column)
        x, y = tuple(values.tolist()), tuple((share * 100).tolist())
        lines.append(Line(name=name, role=role, x=x, y=y, style="steps"))
    chart = Lines(
        x=drawn.axis(view),
        y=Axis(title="Samples not slower", unit="%", low=0, high=100),
        panels=(Panel(lines=tuple(lines)),),
    )
    words = words_on_protocols(drawn.runs) or "A curve further left is faster."
    return Figure(
        id="latency_ecdf",
        title="Share of samples at or below a latency",
        chart=chart,
        caption=f"Empirical distribution function. {words}",
    )


def _series(drawn: Drawn) -> Figure:
    by_time = all(run.times.start is not None and run.times.launch is None for run in drawn.runs)
    panels = tuple(
        panel_from_run(
            run, title=name, role=role, scale=drawn.scale, view=view_of([column]), by_time=by_time
        )
        for run, name, role, column in zip(
            drawn.runs, drawn.names, drawn.roles, drawn.columns, strict=True
        )
    )
    chart = Lines(
        x=Axis(title="Time since the measurement began", unit="s")
        if by_time
        else Axis(title="Sample, in order of time"),
        y=Axis(title=headline_title(drawn.runs), unit=drawn.unit),
        panels=panels,
        shared_x=not _uneven(panels),
    )
    return Figure(
        id="latency_series",
        title="Latency over time",
        chart=chart,
        caption=SERIES_CAPTION + (" Each run has its own range." if len(panels) > 1 else ""),
    )


def _uneven(panels: Sequence[Panel]) -> bool:
    ends = [max((max(line.x) for line in each.lines if line.x), default=0.0) for each in panels]
    return max(ends) > UNEVEN * min(ends)


def printed_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Draw what other tools printed of runs without samples; nothing where there is none."""
    pairs = [
        (label, run, head)
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        if (head := headline_summary(run)) is not None and head.reported
    ]
    if not pairs:
        return ()
    shown = sorted(pairs, key=lambda pair: pair[2].typical)[:MOST_BARS]
    heads = [head for *_, head in shown]
    unit, scale = unit_for_seconds(sorted(head.typical for head in heads)[len(heads) // 2])
    groups = (
        _group("median or mean", "run:0", heads, [head.typical for head in heads], scale),
        _group("p99", "run:1", heads, [head.statistic("p99") for head in heads], scale),
    )
    words = f" The fastest {MOST_BARS} of {len(pairs)}." if len(pairs) > MOST_BARS else ""
    chart = Bars(
        value=Axis(title=headline_title([run for _, run, _ in shown]), unit=unit, low=0),
        category_title="Run",
        categories=tuple(label for label, *_ in shown),
        groups=tuple(group for group in groups if any(v is not None for v in group.values)),
        stacked=False,
    )
    figure = Figure(
        id="latency_reported", title="Latency as reported", chart=chart, caption=REPORTED + words
    )
    return (figure,)


def _group(
    name: str,
    role: str,
    heads: Sequence[ColumnSummary],
    values: Sequence[float | None],
    scale: float,
) -> BarGroup:
    known = [None if v is None or math.isnan(v) else v for v in values]
    texts = tuple("" if v is None else text_from_duration(v) for v in known)
    scaled = tuple(None if v is None else v / scale for v in known)
    return BarGroup(name=name, role=role, values=scaled, labels=texts)


def panel_from_run(
    run: Run, *, title: str, role: str, scale: float, view: View, by_time: bool
) -> Panel:
    """Describe the headline column over time, in units of ``scale`` seconds."""
    column = run.times.durations()[run.times.headline]
    finite = np.isfinite(column)
    values = column[finite] / scale
    start = run.times.start
    x = start[finite] if by_time and start is not None else np.flatnonzero(finite).astype(float)
    middles, medians = running_median(values)
    lines = [
        *_points(values, x, view, role=role, name=title),
        Line(
            name="running median",
            role="median",
            x=_tuple(np.interp(middles, np.arange(len(x)), x)),
            y=_tuple(medians),
        ),
    ]
    launch = run.times.launch
    return Panel(
        title=title,
        low=view.low,
        high=view.high,
        lines=tuple(lines),
        marks=() if launch is None else _launch_marks(launch[finite], x),
        spans=_spans(values, x, several=launch is not None and len(np.unique(launch)) > 1),
    )


def _points(values: Column, x: Column, view: View, *, role: str, name: str) -> list[Line]:
    inside = (values >= view.low) & (values <= view.high)
    low, high = fences(values)
    far = (values < low) | (values > high)
    plain, ring, beyond = (
        np.flatnonzero(chosen) for chosen in (inside & ~far, inside & far, values > view.high)
    )
    shown = plain[thin(values[plain])]
    lines = [
        Line(name=name, role=role, x=_tuple(x[shown]), y=_tuple(values[shown]), style="points")
    ]
    if len(ring):
        ring = ring[thin(values[ring], most=MOST_RINGS)]
        lines.append(
            Line(
                name="far out",
                role="outlier",
                x=_tuple(x[ring]),
                y=_tuple(values[ring]),
                style="ring",
            )
        )
    if len(beyond):
        at = x[beyond[thin(values[beyond], most=MOST_RINGS)]]
        edge = _tuple(np.full(len(at), view.high))
        lines.append(
            Line(name="above the range", role="outlier", x=_tuple(at), y=edge, style="beyond")
        )
    return lines


def _launch_marks(launch: NDArray[np.int64], x: Column) -> tuple[Mark, ...]:
    borders = np.flatnonzero(np.diff(launch)) + 1
    return tuple(Mark(at=float(x[at]), text="") for at in borders)


def _spans(values: Column, x: Column, *, several: bool) -> tuple[Span, ...]:
    """Shade what comes before the steady part; over launches there is no one series to segment."""
    if several or len(values) < LEAST_SEGMENTED:
        return ()
    segmentation = segment(values)
    begin = segmentation.steady_from
    if segmentation.kind != "warm-up" or not 0 < begin < len(x):
        return ()
    return (Span(low=float(x[0]), high=float(x[begin]), text="still warming up"),)


def _tuple(values: Column) -> tuple[float, ...]:
    return tuple(values.tolist())
