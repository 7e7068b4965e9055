"""Latencies of runs: distribution and course, percentiles, statistics side by side, phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.history import segment
from trtbench.analysis.stored_comparison import comparison_rows
from trtbench.analysis.summary import QUANTILES, ColumnSummary
from trtbench.core.properties import network_name, protocol_of
from trtbench.core.results import Comparison
from trtbench.core.run import Run
from trtbench.core.samples import Column
from trtbench.core.units import (
    MISSING,
    common_unit,
    counted,
    text_from_count,
    text_from_duration,
    text_from_number,
    unit_for_seconds,
)
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
    Span,
    bar_group,
    curves,
    line,
)
from trtbench.report.document import (
    Block,
    Cell,
    Details,
    Figure,
    Section,
    Table,
    Text,
    Time,
    column,
    section_of,
    table,
)
from trtbench.report.labels import labels_from_runs, shortened_apart
from trtbench.report.run_facts import (
    PHASES,
    REPORTED,
    column_title,
    headline_column,
    headline_summary,
    headline_title,
    named,
    of_head,
    overlapping,
    quantile,
    summary_of,
    typical_time,
    words_on_protocols,
)

ORDER = 30

MOST_PANELS = 6
MOST_CURVES = 12
MOST_BARS = 40
MOST_BOXES = 40
MOST_PHASES = 24
BOXES_WITH_TABLE = 4
"""More columns than this do not fit below a picture."""
MOST_OUTLIERS = 60
MOST_RINGS = 80
UNEVEN = 3.0
"""Series that differ in length by more than this factor get an axis of their own."""
LEAST_SEGMENTED = 50
"""Fewer samples than this show no change of level that could be distinguished from noise."""
POINTS = 160
WIDE = 20.0
"""Latencies that differ by more than this factor are drawn on a log scale."""
MOST_PAIRS = 8
OPEN_PAIRS = 2
MARK = "*"
"""Beside a ratio of what was not measured alike, or not often enough."""
STACKED = ("h2d", "gpu", "d2h")
SHOWN = ("host", "enqueue", *STACKED)
MOST_POINTS = 1500
MIDDLE = (0.05, 0.95)
ROOM = 2.0
"""Beyond the middle 90 %, a chart shows so many of their widths, and says what it cuts off.

All of a normal distribution is shown, and of a long tail what leaves the rest readable."""
WIDE_RANGE = 6.0
"""When the ends of a range differ by more than this factor, several runs need a log scale."""


def make(runs: Sequence[Run]) -> list[Section]:
    """Make every section of this file that has something to say."""
    made = (make_latency(runs), make_percentiles(runs), make_against(runs), make_phases(runs))
    return [section for section in made if section]


def make_latency(runs: Sequence[Run]) -> Section | None:
    """Draw histogram, ECDF, box plots of several runs, and the series over time."""
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
        if words := words_on_protocols([row.run for row in rows]):
            blocks.append(Text(words))
        if (count := len(rows)) > MOST_PANELS:
            note = (
                f"Histograms and series show the first {MOST_PANELS} of {count} runs, curves the "
                f"first {min(MOST_CURVES, count)} and box plots the first "
                f"{min(MOST_BOXES, count)}; tables show all."
            )
            blocks.append(Text(note))
        first = rows[:MOST_PANELS]
        blocks += [
            _histogram(first, unit, scale),
            _ecdf(rows[:MOST_CURVES], unit),
            *_speed_blocks(rows, unit, scale),
            _series(first, unit, scale),
        ]
    return section_of("latency", "Latency", [*blocks, *_printed(runs)])


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


def _bin_edges(columns: Sequence[Column], axis: Axis) -> Column:
    """Divide the range by the Freedman–Diaconis rule of the most regular column, 20 to 120 bins."""
    assert axis.low is not None
    assert axis.high is not None
    log = axis.scale == "log"
    widths = []
    for samples in columns:
        q1, q3 = np.quantile(np.log(samples) if log else samples, (0.25, 0.75))
        widths.append(2 * float(q3 - q1) / len(samples) ** (1 / 3))
    width = min((each for each in widths if each > 0), default=0.0)
    span = math.log(axis.high / axis.low) if log else axis.high - axis.low
    count = int(np.clip(span / width if width else 40, 20, 120))
    space = np.geomspace if log else np.linspace
    return np.asarray(space(axis.low, axis.high, count + 1), np.float64)


def _histogram(rows: Sequence[_Row], unit: str, scale: float) -> Figure:
    axis = _axis(rows, unit)
    edges = _bin_edges([row.samples for row in rows], axis)
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


def _ecdf(rows: Sequence[_Row], unit: str, *, most: int = 600) -> Figure:
    lines = []
    for row in rows:
        values = np.sort(row.samples)
        share = np.arange(1, len(values) + 1) / len(values) * 100
        if len(values) > most:
            # Both ends matter more than the middle, so they are kept one by one.
            ends = np.r_[0:50, len(values) - 50 : len(values)]
            keep = np.unique(np.r_[np.linspace(0, len(values) - 1, most - 100).astype(int), ends])
            values, share = values[keep], share[keep]
        lines.append(line(row.name, row.role, values, share, "steps"))
    chart = curves(_axis(rows, unit), Axis("Samples not slower", "%", low=0, high=100), lines)
    words = words_on_protocols([row.run for row in rows]) or "A curve further left is faster."
    caption = f"Empirical distribution function. {words}"
    return Figure("latency_ecdf", "Share of samples at or below a latency", chart, caption)


def _speed_blocks(rows: Sequence[_Row], unit: str, scale: float) -> list[Block]:
    """Draw runs as boxes, and list the numbers of all runs below them."""

    def time(get: Callable[[ColumnSummary], Time]) -> Callable[[_Row], Any]:
        def known(head: ColumnSummary) -> Time:
            value, bounds = get(head)
            return Time(value if value is None or math.isfinite(value) else None, bounds)

        return lambda row: of_head(known)(row.run)

    def tail(q: float) -> Callable[[_Row], Any]:
        return time(lambda head: Time(head.quantile(q).value, head.quantile(q).interval))

    def fps(row: _Row) -> float | None:
        head, items = headline_summary(row.run), row.run.record.known_items
        return (
            items / head.mean if head and items and head.mean and not overlapping(row.run) else None
        )

    columns = (
        column("run", get="name"),
        column("mean_s", "Mean", time(lambda head: Time(head.mean)), "right"),
        column("std_s", "Std", time(lambda head: Time(head.std)), "right"),
        column("median_s", "Median", time(lambda h: Time(h.median, h.median_interval)), "right"),
        column("p95_s", "p95", tail(0.95), "right"),
        column("p99_s", "p99", tail(0.99), "right"),
        column("min_s", "Min", time(lambda head: Time(head.min)), "right"),
        column("max_s", "Max", time(lambda head: Time(head.max)), "right"),
        column("fps", "FPS", fps, "number"),
    )
    caption = (
        "FPS is the batch over the mean latency: items per second, one query at a time. It is not "
        "shown where queries overlap: see the items per second of the summary."
    )
    listed = table("speed_benchmark", rows, columns, caption=caption, unit=(unit, scale))
    part = rows[:MOST_BOXES]
    axis = _axis(part, unit)
    boxes = []
    for row in part:
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
    # The table on its side: a row per statistic, a column per box.
    statistics = tuple(
        (heading.title, *(row[place].shown for row in listed.rows))
        for place, heading in enumerate(listed.headings)
        if place and len(rows) <= BOXES_WITH_TABLE
    )
    title = "Runs side by side" if len(boxes) > 1 else "Latency as a box"
    words = "Box: quartiles and median. Whiskers: last sample within 1.5 box lengths."
    caption = " ".join(filter(None, (words, words_on_protocols([row.run for row in part]))))
    chart = Boxes(axis, tuple(boxes), statistics)
    return [Figure("speed_benchmark", title, chart, caption), listed]


def _series(rows: Sequence[_Row], unit: str, scale: float) -> Figure:
    by_time = all(row.run.times.start is not None and row.run.times.launch is None for row in rows)
    panels = tuple(_series_panel(row, scale, by_time=by_time) for row in rows)
    ends = [max((max(line.x) for line in each.lines if line.x), default=0.0) for each in panels]
    seconds = Axis("Time since the measurement began", "s")
    chart = Lines(
        seconds if by_time else Axis("Sample, in order of time"),
        Axis(headline_title([row.run for row in rows]), unit),
        panels,
        shared_x=max(ends) <= UNEVEN * min(ends),
    )
    caption = (
        "Circles are outliers (three interquartile ranges), triangles lie above the drawn range; "
        "the unbroken line is the running median."
    )
    caption += " Each run has its own range." if len(panels) > 1 else ""
    return Figure("latency_series", "Latency over time", chart, caption)


def _thin(samples: Column, most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Positions to draw: the lowest and highest of every stretch, so no spike is lost."""
    if len(samples) <= most:
        return np.arange(len(samples))
    chosen: set[int] = set()
    for begin, end in pairwise(np.linspace(0, len(samples), most // 2 + 1).astype(int)):
        part = samples[begin:end]
        chosen |= {begin + int(part.argmin()), begin + int(part.argmax())}
    return np.array(sorted(chosen))


def _series_panel(row: _Row, scale: float, *, by_time: bool) -> Panel:
    """Describe the headline column over time, in units of ``scale`` seconds."""
    times = row.run.times
    finite = np.isfinite(times.durations()[times.headline])
    start, launch, values = times.start, times.launch, row.samples
    x = start[finite] if by_time and start is not None else np.flatnonzero(finite).astype(float)
    low, high = _ends([values])
    inside = (values >= low) & (values <= high)
    q1, q3 = np.quantile(values, (0.25, 0.75))
    far = (values < q1 - 3 * (q3 - q1)) | (values > q3 + 3 * (q3 - q1))
    plain, rings, above = (
        np.flatnonzero(which) for which in (inside & ~far, inside & far, values > high)
    )
    plain = plain[_thin(values[plain])]
    lines = [line(row.name, row.role, x[plain], values[plain], "points")]
    if len(rings):
        rings = rings[_thin(values[rings], MOST_RINGS)]
        lines.append(line("outlier", "outlier", x[rings], values[rings], "ring"))
    if len(above):
        at = x[above[_thin(values[above], MOST_RINGS)]]
        lines.append(line("above the range", "outlier", at, [high] * len(at), "beyond"))
    stretches = np.array_split(np.arange(len(values)), max(1, min(60, len(values) // 8)))
    medians = [float(np.median(values[part])) for part in stretches]
    middles = np.interp([float(part.mean()) for part in stretches], np.arange(len(x)), x)
    lines.append(line("running median", "median", middles, medians))
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()
    if launch is not None:
        borders = np.flatnonzero(np.diff(launch[finite])) + 1
        marks = tuple(Mark(float(x[at]), "") for at in borders)
    # Over several launches there is no one series to segment.
    one = launch is None or len(np.unique(launch)) == 1
    if one and len(values) >= LEAST_SEGMENTED:
        found = segment(values)
        if found.kind == "warm-up" and 0 < found.steady_from < len(x):
            spans = (Span(float(x[0]), float(x[found.steady_from]), "still warming up"),)
    return Panel(row.name, low, high, lines=tuple(lines), marks=marks, spans=spans)


def _printed(runs: Sequence[Run]) -> Iterator[Block]:
    """Draw what other tools printed of runs without samples."""
    pairs = [
        (label, run, head)
        for label, run in named(runs)
        if (head := headline_summary(run)) is not None and head.reported
    ]
    if not pairs:
        return
    shown = sorted(pairs, key=lambda pair: pair[2].typical)[:MOST_BARS]
    heads = [head for *_, head in shown]
    unit, scale = unit_for_seconds(sorted(head.typical for head in heads)[len(heads) // 2])
    groups = []
    for name, role, values in (
        ("median or mean", "run:0", [head.typical for head in heads]),
        ("p99", "run:1", [head.statistic("p99") for head in heads]),
    ):
        known = [None if v is None or math.isnan(v) else v for v in values]
        texts = ["" if v is None else text_from_duration(v) for v in known]
        if any(texts):
            groups.append(bar_group(name, role, known, scale=scale, labels=texts))
    axis = Axis(headline_title([run for _, run, _ in shown]), unit, low=0)
    names = tuple(label for label, *_ in shown)
    chart = Bars(axis, "Run", names, tuple(groups), stacked=False)
    words = f" The fastest {MOST_BARS} of {len(pairs)}." if len(pairs) > MOST_BARS else ""
    yield Figure("latency_reported", "Latency as reported", chart, REPORTED + words)


# ---- percentiles


def make_percentiles(runs: Sequence[Run]) -> Section | None:
    """Draw the percentile curve and list the percentiles of every column of every run."""
    pairs = [
        (label, column)
        for label, run in named(runs)
        for column in summary_of(run).columns
        if column.count or column.reported
    ]
    if not pairs:
        return None
    unit = common_unit(column.typical for _, column in pairs)

    def plain(name: str) -> Callable[[tuple[str, ColumnSummary]], Cell]:
        def cell(row: tuple[str, ColumnSummary]) -> Cell:
            value = getattr(row[1], name)
            known = value if math.isfinite(value) else None
            return Cell(known, text_from_duration(value, unit=unit))

        return cell

    def quantile_at(place: int) -> Callable[[tuple[str, ColumnSummary]], Cell | Time]:
        return lambda row: quantile(row[1].quantiles[place])

    def effective(row: tuple[str, ColumnSummary]) -> Cell:
        value = row[1].effective
        text = text_from_count(math.floor(value))
        return Cell(None, MISSING) if row[1].reported else Cell(value, text)

    columns = (
        column("run", get=lambda row: row[0]),
        column("column", "Time", lambda row: column_title(row[1])),
        column("samples", "Samples", lambda x: None if x[1].reported else x[1].count, "count"),
        column("effective_samples", "Effective", effective, "right"),
        column("min_s", "Min", plain("min"), "right"),
        *(
            column(f"p{100 * q:g}_s", f"p{100 * q:g}", quantile_at(place), "right")
            for place, q in enumerate(QUANTILES)
        ),
        column("max_s", "Max", plain("max"), "right"),
        column("mean_s", "Mean", plain("mean"), "right"),
        column("std_s", "Std", plain("std"), "right"),
    )
    caption = (
        "Percentiles by nearest rank. A percentile is left out, with the number of samples it "
        "needs, where the effective samples do not support a 95 % interval for it."
    )
    caption += f" {REPORTED}" if any(column.reported for _, column in pairs) else ""
    listed = table("percentiles", pairs, columns, caption=caption, unit=unit)
    return section_of("percentiles", "Percentiles", [*_percentile_curve(runs), listed])


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


# ---- statistics of two runs, in the columns of the evaluation toolkit


def make_against(runs: Sequence[Run]) -> Section | None:
    """Put differences and ratios of every statistic into one table per pair."""
    pairs = pairs_from_runs(runs)[:MOST_PAIRS]
    if not pairs:
        return None
    note = (
        "Times in milliseconds; percentiles are interpolated as in the file of the same columns. "
        "Whether a difference is real is decided by the verdicts, not by this table."
    )
    blocks: list[Block] = [Text(note)]
    for number, pair in enumerate(pairs, start=1):
        listed = _pair_table(pair, id="against" if len(pairs) == 1 else f"against_{number}")
        folded = Details(f"{pair[2]} against {pair[0]}", (listed,))
        blocks.append(listed if number <= OPEN_PAIRS else folded)
    title = "PyTorch against engine" if _is_torch(pairs[0][1]) else "Side by side"
    return section_of("against", title, blocks)


def pairs_from_runs(runs: Sequence[Run]) -> list[tuple[str, Run, str, Run]]:
    """Pair PyTorch with the engines of the same network and batch, and sides of comparisons.

    Each pair is name and run of the baseline, and of the candidate. Of the engines, those
    measured by the same protocol are taken where there are any.
    """
    engines = [
        each
        for each in runs
        if each.record.facts.get("executes_engine") is True
        or each.record.spec.model.format == "engine"
    ]
    torch = {network_name(each.record) for each in runs if _is_torch(each)}
    built = {network_name(each.record) for each in engines}
    only = len(torch) == len(built) == 1  # then they belong together, whatever files are called
    found: dict[tuple[str, str], tuple[str, Run, str, Run]] = {}
    labelled = named(runs)
    for name, run in labelled:
        alike = [
            each
            for each in (engines if _is_torch(run) else ())
            if each.record.batch == run.record.batch
            and (only or network_name(each.record) == network_name(run.record))
        ]
        same = [each for each in alike if protocol_of(each.record) == protocol_of(run.record)]
        partners = {each.id for each in same or alike}
        for other_name, other in labelled:
            carried = other.extra.get("comparisons", ())
            compared = any(
                isinstance(each, Comparison) and each.baseline == run.id
                for each in (carried if isinstance(carried, (list, tuple)) else ())
            )
            if other.id in partners or compared:
                found.setdefault((run.id, other.id), (name, run, other_name, other))
    return list(found.values())


def _is_torch(run: Run) -> bool:
    return run.record.spec.model.format == "torch"


def _pair_table(pair: tuple[str, Run, str, Run], *, id: str) -> Table:
    before, baseline, after, candidate = pair

    def cell(value: float | str | None, mark: str = "") -> Cell:
        text = value if isinstance(value, str) else text_from_number(value)
        return Cell(value, text + mark)

    titles = shortened_apart((before, after), length=48)
    columns = (
        column("metric"),
        column("pt", titles[0], lambda row: cell(row.pt), "right"),
        column("engine", titles[1], lambda row: cell(row.engine), "right"),
        column("engine_minus_pt", "Difference", lambda row: cell(row.engine_minus_pt), "right"),
        column(
            "engine_over_pt_ratio", "Ratio",
            lambda row: cell(row.engine_over_pt_ratio, MARK if row.note else ""), "right",
        ),
    )  # fmt: skip
    rows = [
        each
        for each in comparison_rows(baseline, candidate)
        if any(value not in (None, "Unknown") for value in (each.pt, each.engine))
    ]
    reasons = "; ".join(dict.fromkeys(each.note for each in rows if each.note))
    caption = f"{MARK} no evidence of a difference: {reasons}" if reasons else None
    return table(id, rows, columns, caption=caption)


# ---- phases


def make_phases(runs: Sequence[Run]) -> Section | None:
    """Stack the phases of every run that saw more than one; others have nothing to divide."""
    found = [(label, run, _phase_means(run)) for label, run in named(runs)]
    rows = [row for row in found if len(row[2]) > 1]
    if not rows:
        return None

    def median(name: str) -> Callable[[Any], Cell | Time]:
        def cell(row: tuple[str, Run, Any]) -> Cell | Time:
            found = next((c for c in summary_of(row[1]).columns if c.column == name), None)
            known = found is not None and (found.count or found.reported)
            return typical_time(found) if found is not None and known else Cell()

        return cell

    columns = (
        column("run", get=lambda row: row[0]),
        *(column(f"{name}_median_s", PHASES[name], median(name), "right") for name in SHOWN),
    )
    unit = common_unit(each.typical for _, run, _ in rows for each in summary_of(run).columns)
    caption = "Medians. Enqueue is host time and overlaps with the device's work."
    listed = table("phases", rows, columns, caption=caption, unit=unit)
    return section_of("phases", "Phases", (_phase_figure(rows), listed))


def _phase_means(run: Run) -> dict[str, float]:
    means = {
        each.column: each.mean
        for each in summary_of(run).columns
        if each.reported and each.column in SHOWN and np.isfinite(each.mean)
    } or {
        name: float(np.nanmean(samples))
        for name, samples in run.times.durations().items()
        if name in SHOWN and np.isfinite(samples).any()
    }
    return means if "gpu" in means else {}


def _phase_figure(rows: Sequence[tuple[str, Run, dict[str, float]]]) -> Figure:
    caption = "Means, because only means add up."
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
    return Figure("phases", "Where the time of a query goes", chart, caption)
