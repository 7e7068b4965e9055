"""Latencies of runs: distribution and course, percentiles, statistics side by side, phases."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trtbench.core.run import Run
from trtbench.core.samples import Column
from trtbench.core.units import counted, text_from_duration, unit_for_seconds
from trtbench.report.charts import (
    Axis,
    Bars,
    Bins,
    Box,
    Boxes,
    Histogram,
    Lines,
    Mark,
    Panel,
    bar_group,
    curves,
    line,
)
from trtbench.report.document import Block, Figure, Section, Table, Text, section_of
from trtbench.report.run_facts import (
    PHASES,
    headline_column,
    headline_summary,
    headline_title,
    labels_from_runs,
    named,
    overlapping,
    summary_of,
    words_on_protocols,
)
from trtbench.report.sections.summary import statistics_of

ORDER = 30

MOST_PANELS = 6
MOST_CURVES = 12
MOST_BOXES = 40
MOST_PHASES = 24
MOST_OUTLIERS = 60
MOST_RINGS = 80
POINTS = 160
WIDE = 20.0
"""Latencies that differ by more than this factor are drawn on a log scale."""
BINS = (20, 120)
STACKED = ("h2d", "gpu", "d2h")
MOST_POINTS = 1500
MIDDLE = (0.05, 0.95)
ROOM = 2.0
"""Beyond the middle 90 %, a chart shows so many of their widths, and says what it cuts off.

All of a normal distribution is shown, and of a long tail what leaves the rest readable."""
WIDE_RANGE = 6.0
"""When the ends of a range differ by more than this factor, several runs need a log scale."""


def make(runs: Sequence[Run]) -> list[Section]:
    """Make every section of this file that has something to say."""
    made = (make_latency(runs), make_percentiles(runs), make_phases(runs))
    return [section for section in made if section]


def make_latency(runs: Sequence[Run]) -> Section | None:
    """Draw histograms, box plots of all runs, and the series over time."""
    blocks: list[Block] = []
    rows = [
        _Row(name, f"run:{index}", run, samples)
        for index, (name, run) in enumerate(named(runs))
        if len(samples := headline_column(run))
    ]
    if rows:
        # All charts share the unit that suits most of the runs.
        unit, scale = unit_for_seconds(float(np.median([np.median(row.samples) for row in rows])))
        for row in rows:
            row.samples = row.samples / scale
        if (count := len(rows)) > MOST_PANELS:
            note = (
                f"Histograms and series show the first {MOST_PANELS} of {count} runs, box plots "
                f"the first {min(MOST_BOXES, count)}; tables show all."
            )
            blocks.append(Text(note))
        first = rows[:MOST_PANELS]
        blocks += [
            _histogram(first, unit, scale),
            _box_plot(rows[:MOST_BOXES], unit, scale),
            _series(first, unit),
        ]
    return section_of("latency", "Latency", blocks)


class _Row:
    """A run with its name, its colour and its samples, in the unit of the charts."""

    def __init__(self, name: str, role: str, run: Run, samples: Column) -> None:
        self.name, self.role, self.run, self.samples = name, role, run, samples

    def beyond(self, axis: Axis, scale: float) -> str | None:
        """Say what lies outside the drawn range."""
        low, high = axis.low or 0.0, axis.high or 0.0
        outside = (self.samples < low) | (self.samples > high)
        longest = text_from_duration(float(self.samples.max()) * scale)
        count = int(np.count_nonzero(outside))
        return f"{counted(count, 'sample')} outside, max {longest}" if count else None


def _ends(columns: Sequence[Column]) -> tuple[float, float]:
    """A range that shows nearly all samples and lets no single one squeeze the rest."""
    ends = []
    for samples in columns:
        low, high = (float(q) for q in np.quantile(samples, MIDDLE))
        room = ROOM * (high - low)
        ends.append((max(float(samples.min()), low - room), min(float(samples.max()), high + room)))
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    pad = 0.0 if high > low else abs(low) * 0.05 or 1e-9
    return low - pad, high + pad


def _axis(rows: Sequence[_Row], unit: str) -> Axis:
    low, high = _ends([row.samples for row in rows])
    log = len(rows) > 1 and low > 0 and high / low > WIDE_RANGE
    title = headline_title([row.run for row in rows])
    return Axis(title, unit, "log" if log else "linear", low, high)


def _histogram(rows: Sequence[_Row], unit: str, scale: float) -> Figure:
    axis = _axis(rows, unit)
    count = int(np.clip(max(len(row.samples) for row in rows) // 5, *BINS)) + 1
    space = np.geomspace if axis.scale == "log" else np.linspace
    edges = space(axis.low or 0.0, axis.high or 0.0, count)
    groups = []
    for row in rows:
        marks = []
        if (head := headline_summary(row.run)) is not None:
            text = text_from_duration(head.median, bounds=head.median_interval)
            marks.append(Mark(head.median / scale, f"median {text}", role="median"))
            tail = head.quantile(0.99)
            if tail.value is not None:
                text = f"p99 {text_from_duration(tail.value, bounds=tail.interval)}"
                marks.append(Mark(tail.value / scale, text))
        counts = tuple(np.histogram(row.samples, edges)[0].tolist())
        groups.append(Bins(row.name, row.role, counts, tuple(marks), row.beyond(axis, scale)))
    chart = Histogram(axis, Axis("Samples"), tuple(edges.tolist()), tuple(groups))
    caption = "Samples per bin; every run on the same axis." if len(groups) > 1 else None
    return Figure("latency_hist", "How latencies are distributed", chart, caption)


def _box_plot(rows: Sequence[_Row], unit: str, scale: float) -> Figure:
    axis = _axis(rows, unit)
    boxes = []
    for row in rows:
        q1, median, q3 = (float(q) for q in np.quantile(row.samples, (0.25, 0.5, 0.75)))
        reach = 1.5 * (q3 - q1)
        inside = row.samples[(row.samples >= q1 - reach) & (row.samples <= q3 + reach)]
        low, high = float(inside.min()), float(inside.max())
        far = (row.samples < low) | (row.samples > high)
        outside = np.sort(row.samples[far & (row.samples <= (axis.high or 0.0))])
        most = min(MOST_OUTLIERS, len(outside))
        shown = tuple(outside[np.linspace(0, len(outside) - 1, most).astype(int)].tolist())
        beyond = row.beyond(axis, scale)
        boxes.append(Box(row.name, row.role, low, q1, median, q3, high, shown, beyond))
    title = "Runs side by side" if len(boxes) > 1 else "Latency as a box"
    words = "Box: quartiles and median. Whiskers: last sample within 1.5 box lengths."
    caption = " ".join(filter(None, (words, words_on_protocols([row.run for row in rows]))))
    return Figure("speed_benchmark", title, Boxes(axis, tuple(boxes)), caption)


def _series(rows: Sequence[_Row], unit: str) -> Figure:
    by_time = all(row.run.times.start is not None and row.run.times.launch is None for row in rows)
    panels = tuple(_series_panel(row, by_time=by_time) for row in rows)
    seconds = Axis("Time since the measurement began", "s")
    x = seconds if by_time else Axis("Sample, in order of time")
    chart = Lines(x, Axis(headline_title([row.run for row in rows]), unit), panels)
    caption = "Triangles lie above the drawn range; the unbroken line is the running median."
    caption += " Each run has its own range." if len(panels) > 1 else ""
    return Figure("latency_series", "Latency over time", chart, caption)


def thinned(samples: Column, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Positions to draw: the lowest and highest of every stretch, so no spike is lost."""
    if len(samples) <= most:
        return np.arange(len(samples))
    chosen: set[int] = set()
    for begin, end in pairwise(np.linspace(0, len(samples), most // 2 + 1).astype(int)):
        part = samples[begin:end]
        chosen |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(chosen))


def _series_panel(row: _Row, *, by_time: bool) -> Panel:
    times = row.run.times
    finite = np.isfinite(times.durations()[times.headline])
    start, launch, values = times.start, times.launch, row.samples
    x = start[finite] if by_time and start is not None else np.flatnonzero(finite).astype(float)
    low, high = _ends([values])
    inside, above = (
        np.flatnonzero((values >= low) & (values <= high)),
        np.flatnonzero(values > high),
    )
    shown = inside[thinned(values[inside])]
    lines = [line(row.name, row.role, x[shown], values[shown], "points")]
    if len(above):
        at = x[above[thinned(values[above], MOST_RINGS)]]
        lines.append(line("above the range", "outlier", at, [high] * len(at), "beyond"))
    stretches = np.array_split(np.arange(len(values)), max(1, min(60, len(values) // 8)))
    medians = [float(np.median(values[part])) for part in stretches]
    middles = np.interp([float(part.mean()) for part in stretches], np.arange(len(x)), x)
    lines.append(line("running median", "median", middles, medians))
    marks: tuple[Mark, ...] = ()
    if launch is not None:
        borders = np.flatnonzero(np.diff(launch[finite])) + 1
        marks = tuple(Mark(float(x[at]), "") for at in borders)
    return Panel(row.name, low, high, lines=tuple(lines), marks=marks)


# ---- percentiles


def make_percentiles(runs: Sequence[Run]) -> Section | None:
    """Draw the percentile curve and list the percentiles of every column of every run."""
    caption = (
        "Percentiles by nearest rank. A percentile is left out, with the number of samples it "
        "needs, where the effective samples do not support a 95 % interval for it."
    )
    blocks = [
        each.having(caption=" ".join(filter(None, (caption, each.caption))))
        for each in statistics_of(dict(named(runs)), id="percentiles", every=True)
        if isinstance(each, Table)
    ]
    return section_of("percentiles", "Percentiles", [*_percentile_curve(runs), *blocks])


def _percentile_curve(runs: Sequence[Run]) -> Iterator[Figure]:
    every = zip(labels_from_runs(runs), runs, map(headline_column, runs), strict=True)
    chosen = [(f"run:{k}", *each) for k, each in enumerate(every) if len(each[2])][:MOST_CURVES]
    if not chosen:
        return
    unit, scale = unit_for_seconds(float(np.median([np.median(each[3]) for each in chosen])))
    lines = []
    for role, name, run, samples in chosen:
        ordered = np.sort(samples) / scale
        count, head = len(ordered), headline_summary(run)
        # A two-sided 95 % interval for a quantile q exists from ln(0.025) / ln(q) samples on.
        supported = math.exp(math.log(0.025) / max(head.effective if head else 1.0, 1.0))
        # Evenly spaced on the axis they are drawn on, where the last sample of n lies at log10(n).
        shares = 1 - 10 ** -np.linspace(0, math.log10(max(count, 2)), POINTS)
        values = ordered[np.clip(np.ceil(shares * count).astype(int) - 1, 0, count - 1)]
        sure = shares <= supported
        unsure = ~sure
        if sure.any():
            unsure[np.flatnonzero(sure)[-1]] = True
            lines.append(line(name, role, shares[sure], values[sure]))
        if unsure.any():
            label = None if sure.any() else name
            lines.append(line(label, role, shares[unsure], values[unsure], "dotted"))
    known = [y for each in lines for y in each.y if y is not None]
    wide = min(known) > 0 and max(known) / min(known) > WIDE
    drawn = [run for _, _, run, _ in chosen]
    y = Axis(headline_title(drawn), unit, "log" if wide else "linear")
    words = "Where a curve is dotted, too few independent samples support it."
    chart = curves(Axis("Percentile", scale="tail"), y, lines)
    caption = " ".join(filter(None, (words, words_on_protocols(drawn))))
    yield Figure("percentiles", "Latency by percentile", chart, caption)


# ---- phases


def make_phases(runs: Sequence[Run]) -> Section | None:
    """Stack the phases of every run that saw more than one; others have nothing to divide."""
    found = [(label, run, _phase_means(run)) for label, run in named(runs)]
    rows = [row for row in found if len(row[2]) > 1]
    if not rows:
        return None
    caption = "Means, because only means add up; the percentiles above have the medians."
    if any(overlapping(run) for _, run, _ in rows):
        caption += " With several streams queries overlap: bars are longer than the time between "
        caption += "answers."
    if len(rows) > MOST_PHASES:
        caption += f" The first {MOST_PHASES} of {len(rows)} runs."
    means = [each for *_, each in rows[:MOST_PHASES]]
    spans = [sum(each.get(name, 0.0) for name in STACKED) for each in means]
    rest = [
        max(0.0, each["host"] - span) if "host" in each else None
        for each, span in zip(means, spans, strict=True)
    ]
    longest = max(max(each.get("host", 0.0), s) for each, s in zip(means, spans, strict=True))
    unit, scale = unit_for_seconds(longest)
    parts = [(PHASES[name], name, [each.get(name) for each in means]) for name in STACKED]
    groups = tuple(
        bar_group(name, role, values, scale=scale)
        for name, role, values in (*parts, ("rest of host", "other", rest))
        if any(value is not None for value in values)
    )
    axis = Axis("Mean time per query", unit, low=0)
    chart = Bars(axis, "Run", tuple(label for label, *_ in rows[:MOST_PHASES]), groups)
    figure = Figure("phases", "Where the time of a query goes", chart, caption)
    return section_of("phases", "Phases", [figure])


def _phase_means(run: Run) -> dict[str, float]:
    shown = ("host", *STACKED)
    means = {
        each.column: each.mean
        for each in summary_of(run).columns
        if each.reported and each.column in shown and np.isfinite(each.mean)
    } or {
        name: float(np.nanmean(samples))
        for name, samples in run.times.durations().items()
        if name in shown and np.isfinite(samples).any()
    }
    return means if "gpu" in means else {}
