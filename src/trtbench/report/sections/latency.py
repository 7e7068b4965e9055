"""Latencies of runs: distribution, time series, percentiles, phases, and GPU telemetry."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trtbench.core.properties import protocol_of, streams_of
from trtbench.core.run import Run
from trtbench.core.samples import Column
from trtbench.core.units import counted, text_from_duration, unit_for_seconds
from trtbench.report import charts, run_facts
from trtbench.report import document as doc
from trtbench.report.sections.summary import statistics_blocks

ORDER = 30

FIGURES = (
    ("gpu_utilization", "GPU during the measurement", run_facts.QUANTITIES[:4]),
    ("gpu_power", "Power and temperature", run_facts.QUANTITIES[4:]),
)

MOST_PANELS = 6
MOST_CURVES = 12
MOST_BOXES = 40
MOST_PHASES = 24
STACKED = ("h2d", "gpu", "d2h")
RANGE_MARGIN = 2.0
"""Margin of charts on each side of the middle 90 % of samples, in widths of that range.

It covers all of a normal distribution, and cuts off long tails, with a note."""


def make(runs: Sequence[Run]) -> list[doc.Section | None]:
    """Show distribution, time series and percentiles of latencies, phases, and telemetry."""
    rows = []
    for index, (name, run) in enumerate(run_facts.labelled(runs)):
        samples = run.times.durations().get(run.times.headline, np.empty(0))
        if np.isfinite(samples).any():
            rows.append(_Row(name, f"run:{index}", run, samples[np.isfinite(samples)]))
    latency: list[doc.Block] = []
    percentiles: list[doc.Block] = []
    if rows:
        # All charts use the same unit.
        unit, scale = unit_for_seconds(float(np.median([np.median(row.samples) for row in rows])))
        rows = [row._replace(samples=row.samples / scale) for row in rows]
        if (count := len(rows)) > MOST_PANELS:
            note = (
                f"Histograms and series show the first {MOST_PANELS} of {count} runs, box plots "
                f"the first {min(MOST_BOXES, count)}; tables show all."
            )
            latency.append(doc.Text(note))
        latency += [
            _histogram(rows[:MOST_PANELS], unit, scale),
            _box_plot(rows[:MOST_BOXES], unit, scale),
            _series(rows[:MOST_PANELS], unit),
        ]
        percentiles.append(_percentile_curve(rows[:MOST_CURVES], unit))
    caption = (
        "Percentiles are interpolated. If there are too few effective samples for a 95 % interval, "
        "the number of samples needed is shown instead; the tail has its own number of them, "
        "because slow queries can be less correlated than the rest."
    )
    percentiles += [
        each.having(caption=" ".join(filter(None, (caption, each.caption))))
        for each in statistics_blocks(dict(run_facts.labelled(runs)), id="percentiles", every=True)
        if isinstance(each, doc.Table)
    ]
    return [
        doc.optional_section("latency", "Latency", latency),
        doc.optional_section("percentiles", "Percentiles", percentiles),
        doc.optional_section("phases", "Phases", _phases(runs)),
        doc.optional_section("telemetry", "Telemetry", _telemetry(runs)),
    ]


class _Row(NamedTuple):
    """A run with its name, colour role, and samples in the unit of the charts."""

    name: str
    role: str
    run: Run
    samples: Column

    def outside_text(self, axis: charts.Axis, scale: float) -> str | None:
        """Return a text on samples outside the drawn range, or ``None``."""
        low, high = axis.low or 0.0, axis.high or 0.0
        count = int(np.count_nonzero((self.samples < low) | (self.samples > high)))
        longest = text_from_duration(float(self.samples.max()) * scale)
        return f"{counted(count, 'sample')} outside, max {longest}" if count else None


def _display_range(columns: Sequence[Column]) -> tuple[float, float]:
    """Return limits that show nearly all samples, without extreme outliers."""
    ends = []
    for samples in columns:
        low, high = (float(q) for q in np.quantile(samples, (0.05, 0.95)))
        room = RANGE_MARGIN * (high - low)
        ends.append((max(float(samples.min()), low - room), min(float(samples.max()), high + room)))
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    pad = 0.0 if high > low else abs(low) * 0.05 or 1e-9
    return low - pad, high + pad


def _axis(rows: Sequence[_Row], unit: str) -> charts.Axis:
    low, high = _display_range([row.samples for row in rows])
    # With a larger ratio of the limits, several runs are drawn on a log scale.
    log = len(rows) > 1 and low > 0 and high / low > 6.0
    title = run_facts.headline_title([row.run for row in rows])
    return charts.Axis(title, unit, "log" if log else "linear", low, high)


def _histogram(rows: Sequence[_Row], unit: str, scale: float) -> doc.Figure:
    axis = _axis(rows, unit)
    count = int(np.clip(max(len(row.samples) for row in rows) // 5, 20, 120)) + 1
    space = np.geomspace if axis.scale == "log" else np.linspace
    edges = space(axis.low or 0.0, axis.high or 0.0, count)
    groups = []
    for row in rows:
        marks = []
        if (head := run_facts.summary_of(row.run).head) is not None:
            text = text_from_duration(head.median, bounds=head.median_interval)
            marks.append(charts.Mark(head.median / scale, f"median {text}", role="median"))
            tail = head.quantile(0.99)
            if tail.value is not None:
                text = f"p99 {text_from_duration(tail.value, bounds=tail.interval)}"
                marks.append(charts.Mark(tail.value / scale, text))
        counts = tuple(np.histogram(row.samples, edges)[0].tolist())
        outside = row.outside_text(axis, scale)
        groups.append(charts.Bins(row.name, row.role, counts, tuple(marks), outside))
    chart = charts.Histogram(axis, charts.Axis("Samples"), tuple(edges.tolist()), tuple(groups))
    caption = "Samples per bin; every run on the same axis." if len(groups) > 1 else None
    return doc.Figure("latency_hist", "How latencies are distributed", chart, caption)


def _box_plot(rows: Sequence[_Row], unit: str, scale: float) -> doc.Figure:
    axis = _axis(rows, unit)
    boxes = []
    for row in rows:
        q1, median, q3 = (float(q) for q in np.quantile(row.samples, (0.25, 0.5, 0.75)))
        reach = 1.5 * (q3 - q1)
        inside = row.samples[(row.samples >= q1 - reach) & (row.samples <= q3 + reach)]
        low, high = float(inside.min()), float(inside.max())
        far = (row.samples < low) | (row.samples > high)
        outside = np.sort(row.samples[far & (row.samples <= (axis.high or 0.0))])
        kept = np.linspace(0, len(outside) - 1, min(60, len(outside))).astype(int)
        shown, beyond = tuple(outside[kept].tolist()), row.outside_text(axis, scale)
        boxes.append(charts.Box(row.name, row.role, low, q1, median, q3, high, shown, beyond))
    title = "Runs side by side" if len(boxes) > 1 else "Latency as a box plot"
    words = "Box: quartiles and median. Whiskers: last sample within 1.5 times the box length."
    caption = run_facts.with_protocols(words, [row.run for row in rows])
    return doc.Figure("speed_benchmark", title, charts.Boxes(axis, tuple(boxes)), caption)


def _series(rows: Sequence[_Row], unit: str) -> doc.Figure:
    by_time = all(row.run.times.start is not None and row.run.times.launch is None for row in rows)
    panels = []
    for row in rows:
        times, values = row.run.times, row.samples
        finite = np.isfinite(times.durations()[times.headline])
        x = np.flatnonzero(finite).astype(float)
        if by_time and times.start is not None:
            x = times.start[finite]
        low, high = _display_range([values])
        inside = np.flatnonzero((values >= low) & (values <= high))
        above = np.flatnonzero(values > high)
        shown = inside[_points_to_draw(values[inside], 1500)]
        lines = [charts.line(row.name, row.role, x[shown], values[shown], "points")]
        if len(above):
            at = x[above[_points_to_draw(values[above], 80)]]
            lines.append(charts.line("above the range", "outlier", at, [high] * len(at), "beyond"))
        stretches = np.array_split(np.arange(len(values)), max(1, min(60, len(values) // 8)))
        medians = [float(np.median(values[part])) for part in stretches]
        middles = np.interp([float(part.mean()) for part in stretches], np.arange(len(x)), x)
        lines.append(charts.line("running median", "median", middles, medians))
        launch = np.zeros(len(x)) if times.launch is None else times.launch[finite]
        marks = tuple(charts.Mark(float(x[k + 1]), "") for k in np.flatnonzero(np.diff(launch)))
        panels.append(charts.Panel(row.name, low, high, lines=tuple(lines), marks=marks))
    seconds = charts.Axis("Time since the measurement began", "s")
    axis = seconds if by_time else charts.Axis("Sample, in order of time")
    y = charts.Axis(run_facts.headline_title([row.run for row in rows]), unit)
    chart = charts.Lines(axis, y, tuple(panels))
    caption = "Triangles: samples above the range. Solid line: running median."
    caption += " Each run has its own range." if len(panels) > 1 else ""
    return doc.Figure("latency_series", "Latency over time", chart, caption)


def _points_to_draw(samples: Column, most: int) -> NDArray[np.int64]:
    """Return indices of samples to draw: the lowest and highest of every section."""
    if len(samples) <= most:
        return np.arange(len(samples))
    chosen: set[int] = set()
    for begin, end in pairwise(np.linspace(0, len(samples), most // 2 + 1).astype(int)):
        part = samples[begin:end]
        chosen |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(chosen))


def _percentile_curve(rows: Sequence[_Row], unit: str) -> doc.Figure:
    lines = []
    for row in rows:
        ordered = np.sort(row.samples)
        count, head = len(ordered), run_facts.summary_of(row.run).head
        # Evenly spaced on the tail axis, where the last of n samples is at log10(n).
        shares = 1 - 10 ** -np.linspace(0, math.log10(max(count, 2)), 160)
        values = np.quantile(ordered, shares)
        sure = shares <= (head.supported[1] if head else 0.0)
        unsure = ~sure
        if sure.any():
            unsure[np.flatnonzero(sure)[-1]] = True
            lines.append(charts.line(row.name, row.role, shares[sure], values[sure]))
        if unsure.any():
            label = None if sure.any() else row.name
            lines.append(charts.line(label, row.role, shares[unsure], values[unsure], "dotted"))
    known = [y for each in lines for y in each.y if y is not None]
    # Latencies that differ by more than this factor are drawn on a log scale.
    wide = min(known) > 0 and max(known) / min(known) > 20.0
    drawn = [row.run for row in rows]
    y = charts.Axis(run_facts.headline_title(drawn), unit, "log" if wide else "linear")
    words = "Dotted: beyond the last percentile with enough effective samples."
    chart = charts.curves(charts.Axis("Percentile", scale="tail"), y, lines)
    caption = run_facts.with_protocols(words, drawn)
    return doc.Figure("percentiles", "Latency by percentile", chart, caption)


def _phases(runs: Sequence[Run]) -> Iterator[doc.Figure]:
    """Show the mean time of each phase, for runs with more than one phase."""
    found = [(label, run, _phase_means(run)) for label, run in run_facts.labelled(runs)]
    rows = [row for row in found if len(row[2]) > 1]
    if not rows:
        return
    caption = "Means, because only means add up; medians are in the table of percentiles."
    if any(streams_of(r.record) > 1 or protocol_of(r.record) == "pipeline" for _, r, _ in rows):
        caption += " With several streams queries overlap, so their times exceed 1 / throughput."
    if len(rows) > MOST_PHASES:
        caption += f" The first {MOST_PHASES} of {len(rows)} runs."
    means = [each for *_, each in rows[:MOST_PHASES]]
    spans = [sum(each.get(name, 0.0) for name in STACKED) for each in means]
    pairs = list(zip(means, spans, strict=True))
    rest = [max(0.0, each["host"] - span) if "host" in each else None for each, span in pairs]
    unit, scale = unit_for_seconds(max(max(each.get("host", 0.0), span) for each, span in pairs))
    parts = [(run_facts.PHASES[name], name, [each.get(name) for each in means]) for name in STACKED]
    groups = tuple(
        charts.bar_group(name, role, values, scale=scale)
        for name, role, values in (*parts, ("rest of host", "other", rest))
        if any(value is not None for value in values)
    )
    axis = charts.Axis("Mean time per query", unit, low=0)
    chart = charts.Bars(axis, "Run", tuple(label for label, *_ in rows[:MOST_PHASES]), groups)
    yield doc.Figure("phases", "Where the time of a query goes", chart, caption)


def _phase_means(run: Run) -> dict[str, float]:
    shown = ("host", *STACKED)
    means = {
        each.column: each.mean
        for each in run_facts.summary_of(run).columns
        if each.reported and each.column in shown and np.isfinite(each.mean)
    } or {
        name: float(np.nanmean(samples))
        for name, samples in run.times.durations().items()
        if name in shown and np.isfinite(samples).any()
    }
    return means if "gpu" in means else {}


def _telemetry(runs: Sequence[Run]) -> Iterator[doc.Block]:
    """Show every sampled quantity over time, and a table of means."""
    named = enumerate(run_facts.labelled(runs))
    seen = [(k, label, run) for k, (label, run) in named if run.telemetry]
    for id, title, quantities in FIGURES:
        panels = []
        for quantity in quantities:
            lines = []
            for index, label, run in seen[:6]:
                shown = run.telemetry[:: -(-len(run.telemetry) // 1200)]
                values = quantity.values(shown)
                if any(value is not None for value in values):
                    x = [each.at_s - shown[0].at_s for each in shown]
                    lines.append(charts.line(label, f"run:{index}", x, values))
            if lines:
                top = max(value for each in lines for value in each.y if value is not None)
                # From zero, so that noise does not look like a change.
                high, axis = quantity.highest or top * 1.08 or 1.0, quantity.axis
                panels.append(charts.Panel(quantity.title, 0.0, high, axis, tuple(lines)))
        if panels:
            x_axis = charts.Axis("Time since the first sample", "s")
            chart = charts.Lines(x_axis, panels[0].y or charts.Axis(""), tuple(panels))
            outside = "Sampled from outside the measuring process."
            yield doc.Figure(id, title, chart, f"{outside} Memory is for the whole device.")

    def mean(quantity: run_facts.Quantity) -> doc.Column:
        def value(row: tuple[int, str, Run]) -> float | None:
            values = [each for each in quantity.values(row[2].telemetry) if each is not None]
            return fmean(values) if values else None

        return doc.column(quantity.key, quantity.axis.label, value, "number")

    def energy(row: tuple[int, str, Run]) -> float | None:
        return run_facts.joules_per_item(row[2])

    columns = (
        doc.column("run", get=1),
        doc.column("looks", "Samples", lambda row: len(row[2].telemetry), "right"),
        *map(mean, run_facts.QUANTITIES),
        doc.column("energy_per_item_j", "Energy per item (J)", energy, "number"),
    )
    caption = "Means of the samples; energy from the device's counter, or from the sampled power."
    if any(protocol_of(run.record) == "coldl2" for *_, run in seen):
        caption += " With coldl2, energy includes flushing the cache, unlike times."
    if seen:
        yield doc.table("telemetry", seen, columns, caption=caption)
