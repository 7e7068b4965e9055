"""How the samples of each run are distributed and how they went over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.report.document import (
    Axis,
    Bins,
    Block,
    Box,
    Boxes,
    Figure,
    Histogram,
    Line,
    Lines,
    Mark,
    Panel,
    Section,
    Text,
)
from trtbench.report.facts import headline_column, headline_summary, headline_title, measured
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import text_from_count, text_from_duration, unit_for_seconds
from trtbench.report.sampling import View, bin_edges, ecdf, view_of
from trtbench.report.timeline import panel_from_run

ORDER = 30

MOST_PANELS = 6
MOST_CURVES = 12
BOXES_PER_FIGURE = 20

SERIES_CAPTION = (
    "Rings are far out (three interquartile ranges), triangles lie above the drawn range; "
    "the dark line is the running median."
)


@dataclass(frozen=True)
class _Drawn:
    """The runs of one figure with what its pictures share: names, colours and unit."""

    runs: list[Run]
    names: list[str]
    roles: list[str]
    columns: list[Column]
    unit: str
    scale: float

    def part(self, begin: int, end: int) -> _Drawn:
        lists = {name: getattr(self, name)[begin:end] for name in ("runs", "names", "roles")}
        return replace(self, columns=self.columns[begin:end], **lists)

    def axis(self, view: View) -> Axis:
        return Axis(
            title=headline_title(self.runs),
            unit=self.unit,
            scale="log" if view.log else "linear",
            low=view.low,
            high=view.high,
        )


def _drawn_from_runs(runs: Sequence[Run]) -> _Drawn:
    names, chosen = labels_from_runs(runs), measured(runs)
    columns = [headline_column(run) for _, run in chosen]
    unit, scale = unit_for_seconds(float(np.median([np.median(column) for column in columns])))
    return _Drawn(
        runs=[run for _, run in chosen],
        names=[names[index] for index, _ in chosen],
        roles=[f"run:{index}" for index, _ in chosen],
        columns=[column / scale for column in columns],
        unit=unit,
        scale=scale,
    )


def make(runs: Sequence[Run]) -> Section | None:
    """Draw histogram, ECDF, box plots of several runs, and the series over time."""
    if not measured(runs):
        return None
    drawn = _drawn_from_runs(runs)
    blocks: list[Block] = [
        _histogram(drawn.part(0, MOST_PANELS)),
        _ecdf(drawn.part(0, MOST_CURVES)),
    ]
    if len(drawn.runs) > 1:
        blocks += _boxes(drawn)
    blocks.append(_series(drawn.part(0, MOST_PANELS)))
    if len(drawn.runs) > MOST_PANELS:
        note = (
            f"Histograms and series show the first {MOST_PANELS} of "
            f"{len(drawn.runs)} runs, curves the first {min(MOST_CURVES, len(drawn.runs))}; "
            "tables and box plots show all."
        )
        blocks.insert(0, Text(text=note))
    return Section(id="latency", title="Latency", blocks=tuple(blocks))


def _histogram(drawn: _Drawn) -> Figure:
    view = view_of(drawn.columns)
    edges = bin_edges(drawn.columns, view)
    groups = tuple(
        Bins(
            name=name,
            role=role,
            counts=tuple(int(count) for count in np.histogram(column, edges)[0]),
            marks=_marks(run, drawn.scale),
            beyond=_beyond(column, view, drawn),
        )
        for name, role, run, column in zip(
            drawn.names, drawn.roles, drawn.runs, drawn.columns, strict=True
        )
    )
    chart = Histogram(
        x=drawn.axis(view),
        y=Axis(title="Samples"),
        edges=tuple(edges.tolist()),
        groups=groups,
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


def _beyond(column: Column, view: View, drawn: _Drawn) -> str | None:
    count = view.beyond(column)
    if not count:
        return None
    noun = "sample" if count == 1 else "samples"
    longest = text_from_duration(float(column.max()) * drawn.scale)
    return f"{text_from_count(count)} {noun} outside, max {longest}"


def _ecdf(drawn: _Drawn) -> Figure:
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
    return Figure(
        id="latency_ecdf",
        title="Share of samples at or below a latency",
        chart=chart,
        caption="Empirical distribution function. A curve further left is faster.",
    )


def _boxes(drawn: _Drawn) -> list[Figure]:
    figures = []
    for number, begin in enumerate(range(0, len(drawn.runs), BOXES_PER_FIGURE), start=1):
        part = drawn.part(begin, begin + BOXES_PER_FIGURE)
        view = view_of(part.columns)
        boxes = tuple(
            _box(name, role, column, view, drawn)
            for name, role, column in zip(part.names, part.roles, part.columns, strict=True)
        )
        figures.append(
            Figure(
                id="latency_boxes" if number == 1 else f"latency_boxes_{number}",
                title="Runs side by side",
                chart=Boxes(value=part.axis(view), boxes=boxes),
                caption="Box: quartiles and median. Whiskers: last sample within 1.5 box lengths.",
            )
        )
    return figures


def _box(name: str, role: str, column: Column, view: View, drawn: _Drawn) -> Box:
    q1, median, q3 = (float(q) for q in np.quantile(column, (0.25, 0.5, 0.75)))
    reach = 1.5 * (q3 - q1)
    inside = column[(column >= q1 - reach) & (column <= q3 + reach)]
    low, high = float(inside.min()), float(inside.max())
    outside = np.sort(column[((column < low) | (column > high)) & (column <= view.high)])
    shown = outside[np.linspace(0, len(outside) - 1, min(60, len(outside))).astype(int)]
    return Box(
        name=name,
        role=role,
        low=low,
        q1=q1,
        median=median,
        q3=q3,
        high=high,
        outliers=tuple(shown.tolist()),
        beyond=_beyond(column, view, drawn),
    )


def _series(drawn: _Drawn) -> Figure:
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
    )
    return Figure(
        id="latency_series",
        title="Latency over time",
        chart=chart,
        caption=SERIES_CAPTION + (" Each run has its own range." if len(panels) > 1 else ""),
    )
