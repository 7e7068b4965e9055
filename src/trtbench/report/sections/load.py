"""Throughput and latency under load: against batch, streams, rate of arrivals and gaps.

For the screen of ``bench --load`` and for the sections of reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from trtbench.analysis.load import point_from_runs
from trtbench.analysis.sweep import FrontPlace, choice_from_surface
from trtbench.core.properties import (
    gap_of,
    model_name,
    network_name,
    protocol_of,
    series_key,
    streams_of,
)
from trtbench.core.run import Decision, LoadSearch, RatePoint, Run, precision_of
from trtbench.core.units import (
    common_unit,
    counted,
    text_from_fraction,
    text_from_rate,
    text_from_seconds,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, Bars, Line, Mark, bar_group, curves, line
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Figure,
    Section,
    Table,
    Text,
    Time,
    Tone,
    column,
    document_from_blocks,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import (
    PHASES,
    AlikeKey,
    file_stem,
    headline_summary,
    name_of_key,
    names_of_keys,
    of_head,
    series_over,
    shortened,
    summary_of,
    typical_time,
)
from trtbench.report.sections.summary import title_of

ORDER = 70

MOST_CURVES = 8
MOST_FIGURES = 8
STATISTIC = "p99"
MEDIAN = "p50"
"""By nearest rank, as all percentiles of a bound are."""
FAR = 3
"""Times the highest latency: a bound further up would leave no room for the curve."""
BATCH_AXIS = Axis("Batch size", "items", "log2")
RATE_AXIS = Axis("Throughput", "items/s", low=0)


def make(runs: Sequence[Run]) -> list[Section]:
    """Make every section of this file that has something to say."""
    made = (make_throughput(runs), make_streams(runs), make_load(runs), make_gaps(runs))
    return [section for section in made if section]


# ---- batch


def make_throughput(runs: Sequence[Run]) -> Section | None:
    """Draw items per second against batch for each model measured at several, and list them."""
    groups: dict[AlikeKey, list[Run]] = {}
    for run in runs:
        if headline_summary(run) and summary_of(run).items_per_s and run.record.batch:
            # Engines of fixed batch are one file per batch of one network; without a precision,
            # only the files distinguish networks.
            network = network_name(run.record) if precision_of(run.record) else None
            key = series_key(run.record, leave_out=("batch",), model=network)
            groups.setdefault(key, []).append(run)
    series = {
        key: sorted(members, key=lambda run: run.record.items_per_query)
        for key, members in groups.items()
        if len({run.record.batch for run in members}) > 1
    }
    if not series:
        return None
    rows: list[tuple[str, Run]] = []
    networks: dict[str, list[Line]] = {}
    for name, same in zip(names_of_keys(list(series)), series.values(), strict=True):
        x, y = [run.record.items_per_query for run in same], [rate_of(run) for run in same]
        curve = line(name, f"run:{runs.index(same[0])}", x, y, "both")
        networks.setdefault(network_name(same[0].record), []).append(curve)
        rows += [(name, run) for run in same]
    blocks: list[Block] = []
    taken: set[str] = set()
    for network, lines in list(networks.items())[:MOST_FIGURES]:
        id = f"inference_throughput_vs_batch_size_{file_stem(network, taken=taken)}"
        title = f"Throughput against batch size: {shortened(network)}"
        more = len(lines) > MOST_CURVES
        caption = f"{MOST_CURVES} of {len(lines)} series; the table has all." if more else None
        chart = curves(BATCH_AXIS, RATE_AXIS, lines[:MOST_CURVES])
        blocks.append(Figure(id, title, chart, caption))

    def per_item(row: tuple[str, Run]) -> Cell | Time:
        head, items = headline_summary(row[1]), row[1].record.known_items
        return Time(head.typical / items) if head and items else Cell()

    columns = (
        column("series", "Series", 0),
        column("batch", get=lambda row: row[1].record.batch),
        column("items_per_s", get=lambda row: rate_of(row[1])),
        column("median_s", "Median latency", lambda x: of_head(typical_time)(x[1]), "right"),
        column("median_per_item_s", "Latency per item", per_item, "right"),
        column("id", get=lambda row: row[1].id),
    )
    unit = common_unit(head.typical for _, run in rows if (head := headline_summary(run)))
    listed = table("throughput", rows, columns, unit=unit)
    return section_of("throughput", "Throughput", [*blocks, listed])


def rate_of(run: Run) -> float:
    """Items per second; 0 where unknown."""
    return summary_of(run).items_per_s or 0.0


# ---- streams


def make_streams(runs: Sequence[Run]) -> Section | None:
    """Show items per second over batch and streams, and what to use."""

    def place(run: Run) -> FrontPlace | None:
        return (run.record.items_per_query, streams_of(run.record)) if rate_of(run) else None

    blocks: list[Block] = []
    taken: set[str] = set()
    for key, found in series_over(runs, place, leave_out=("batch", "streams")).items():
        counts = sorted({streams for _, streams in found})
        if len(counts) < 2:
            continue
        rates = {place: median(map(rate_of, members)) for place, members in found.items()}
        batches = sorted({batch for batch, _ in rates})
        name, stem = shortened(name_of_key(key)), file_stem(key[0], taken=taken)
        chosen, best = choice_from_surface(rates)
        lines, columns = [], [column("batch", "Batch", lambda batch: batch, "right")]
        for number, streams in enumerate(counts):
            of = {batch: value for (batch, each), value in rates.items() if each == streams}
            words = counted(streams, "stream")
            lines.append(line(words, f"run:{number}", map(float, of), of.values(), "both"))
            id = f"streams_{streams}_items_per_s"
            columns.append(column(id, f"{streams} str.", of.get, "rate"))
        title = f"Throughput over batch and streams: {name}"
        chart = curves(BATCH_AXIS, RATE_AXIS, lines)
        blocks.append(Figure(f"throughput_vs_streams_{stem}", title, chart))
        caption = "Items per second; latencies of several streams overlap."
        blocks.append(table(f"streams_{stem}", batches, columns, caption=caption))
        use = f"use batch {chosen[0]} with {counted(chosen[1], 'stream')}"
        if chosen == best:
            edges = ["more items"] if chosen[0] == batches[-1] else []
            edges += ["more streams"] if chosen[1] == counts[-1] else []
            more = f"; {' or '.join(edges)} may give more" if edges else ""
            words = f"{use}, the best that was measured{more}."
        else:
            share = text_from_fraction(rates[chosen] / rates[best], digits=0)
            most = f"batch {best[0]} with {best[1]}"
            words = f"{use}: {share} of the best ({most}) with the fewest items in flight."
        blocks.append(Text(f"{name}: {words}"))
    return section_of("streams", "Streams and batch", blocks)


# ---- rate of arrivals


def make_load(runs: Sequence[Run]) -> Section | None:
    """Show every search, and p99 and median against the rate of models measured at several."""
    blocks: list[Block] = []
    taken: set[str] = set()
    for run in runs:
        if run.load is not None:
            name = f"{model_name(run.record)}, {run.load.slo.text}"
            stem = file_stem(f"{model_name(run.record)} {run.load.slo.statistic}", taken=taken)
            blocks += _search_blocks(run.load, stem=stem, name=shortened(name))

    def rate(run: Run) -> float | None:
        return run.record.spec.rate_hz if run.times.host is not None else None

    for key, rates in series_over(runs, rate, leave_out=("rate_hz",)).items():
        points = [point_from_runs(windows) for windows in rates.values()]
        stem, name = file_stem(key[0], taken=taken), shortened(name_of_key(key))
        id = f"latency_vs_rate_{stem}"
        blocks += [
            rate_figure(points, statistic=STATISTIC, id=id, name=name),
            rate_table(points, statistic=STATISTIC, id=f"rates_{stem}", bounded=False),
        ]
    return section_of("load", "Load", blocks)


def document_from_load(search: LoadSearch, run: Run) -> Document:
    """Describe a search for the highest rate under a bound, the answer first."""
    parts = title_of(run).split(" · ")
    title = " · ".join([*parts[:-1], f"load, {run.record.spec.arrivals} arrivals"])
    created = run.record.created
    return document_from_blocks("load", _search_blocks(search), title=title, created=created)


def _search_blocks(search: LoadSearch, *, stem: str = "", name: str = "") -> Iterator[Block]:
    """Show the answer, every rate, and the curve; of several searches each has a stem."""
    end = f"_{stem}" if stem else ""
    yield key_values(f"load{end}", _answer(search))
    if not search.points:
        return
    statistic = search.slo.statistic
    yield rate_table(search.points, statistic=statistic, id=f"rates{end}")
    id, limit = f"latency_vs_rate{end}", search.slo.limit_s
    marks = [] if search.highest_hz is None else [(search.highest_hz, "highest")]
    yield rate_figure(
        search.points, statistic=statistic, marks=marks, limit_s=limit, id=id, name=name
    )


def _answer(search: LoadSearch) -> Iterator[tuple[str, Cell]]:
    def rate(value: float) -> str:
        return text_from_rate(value, digits=3)

    highest, above, bound = search.highest_hz, search.next_hz, search.slo.text
    if highest is None:
        why = f": {search.slo.statistic} {text_from_seconds(search.lone_s)} without any load"
        if search.points:
            why = f"; {rate(search.points[0].rate_hz)} was the lowest"
        yield "highest rate", Cell(None, f"no rate meets {bound}{why}", "bad")
    else:
        part = highest / search.capacity_hz if search.capacity_hz else None
        words, beyond = rate(highest), ""
        if search.at_least:
            words, beyond = f"{words} or more", " (no higher rate was to be tried)"
        elif above is not None:
            broken = search.broken_hz
            unclear = [] if broken == above else [f"{rate(above)} is unclear"]
            refused = [] if broken is None else [f"{rate(broken)} does not"]
            beyond = f" ({', '.join(unclear + refused)})"
        share = text_from_fraction(part, digits=0)
        text = f"{words} meets {bound}{beyond}, {share} of the capacity"
        yield "highest rate", Cell(highest, text, "good")
    if not search.complete:
        yield "search", Cell(None, "ended early: other rates would have followed", "unclear")
    if search.likely_hz is not None and not search.at_least:
        likely = f"{rate(search.likely_hz)}, where the curve crosses the bound"
        yield "best guess", Cell(search.likely_hz, likely)
    capacity = f"{text_from_rate(search.capacity_hz)}, one query after the other"
    yield "capacity", Cell(search.capacity_hz, capacity)


def rate_table(
    points: Sequence[RatePoint], *, statistic: str, id: str = "rates", bounded: bool = True
) -> Table:
    """List every rate with its percentile and what was decided; of a bounded median no other."""
    words: dict[Decision, tuple[str, Tone]] = {
        "accepted": ("met", "good"), "refused": ("missed", "bad"), "unclear": ("unclear",) * 2,
    }  # fmt: skip

    def decision(each: RatePoint) -> Cell:
        word, tone = words[each.decision]
        text = "overloaded" if each.overloaded else word if bounded else "ok"
        return Cell(each.decision, text, tone)

    columns = [
        column("rate_hz", "Rate", kind="rate"),
        column("achieved_hz", "Served", kind="rate", rank=3),
        column("median_s", rank=2),
        column(f"{statistic}_s", statistic, lambda x: Time(x.percentile_s, x.interval), "right"),
        column("decision", "Bound" if bounded else "Load", decision),
        column("windows", "Windows", lambda each: len(each.windows), "right", rank=4),
        column("samples", "Queries", kind="right", rank=5),
        column("late_share", "Sent late", kind="percent", rank=6),
    ]
    shown = columns[:2] + columns[3:] if statistic == MEDIAN else columns
    return table(id, points, shown, unit=common_unit(each.percentile_s for each in points))


def rate_figure(
    points: Sequence[RatePoint],
    *,
    statistic: str,
    marks: Sequence[tuple[float, str]] = (),
    limit_s: float | None = None,
    id: str = "latency_vs_rate",
    name: str = "",
) -> Figure:
    """Draw the percentile and the median against the rate; overloaded rates are left out."""
    borne = [each for each in points if not each.overloaded] or list(points)
    most_s = max(each.percentile_s for each in borne)
    unit, scale = unit_for_seconds(most_s)
    x = [each.rate_hz for each in borne]
    tails, ends = [each.percentile_s for each in borne], [each.interval for each in borne]
    lines = [line(statistic, "run:0", x, tails, "both", scale=scale, ends=ends)]
    if statistic != MEDIAN:
        medians = [each.median_s for each in borne]
        lines.append(line("median", "run:1", x, medians, "both", scale=scale))
    drawn = [Mark(at, text) for at, text in marks]
    if limit_s is not None and limit_s <= FAR * most_s:
        drawn.append(Mark(limit_s / scale, "bound", "y"))
    rates = Axis("Rate of arrivals", "queries/s", low=0)
    times = Axis("Latency from when a query was due", unit, low=0)
    title = f"Latency against load: {name}" if name else "Latency against load"
    return Figure(id, title, curves(rates, times, lines, marks=drawn))


# ---- gaps between queries


def make_gaps(runs: Sequence[Run]) -> Section | None:
    """Show medians against the mean gap for runs that differ in it alone, with the clock."""

    def gap(run: Run) -> float | None:
        serial = protocol_of(run.record) == "serve" and streams_of(run.record) == 1
        timed = run.times.host is not None or run.times.gpu is not None
        return gap_of(run.record) if serial and timed else None

    def gap_text(gap_s: float) -> str:
        return text_from_seconds(gap_s, digits=3) if gap_s else "none"

    def medians(name: str, members: Sequence[Run]) -> float | None:
        values: list[float] = []
        for run in members:
            clock = run.record.facts.get("sm_clock_after_hz")
            values += [each.median for each in summary_of(run).columns if each.column == name]
            values += [clock] if name == "clock" and isinstance(clock, (int, float)) else []
        return median(values) if values else None

    blocks: list[Block] = []
    taken: set[str] = set()
    for key, found in series_over(runs, gap, leave_out=("gap_s",)).items():
        host, gpu, clock = (
            {each: medians(name, members) for each, members in found.items()}
            for name in ("host", "gpu", "clock")
        )
        known = [value for value in (*host.values(), *gpu.values()) if value is not None]
        unit = unit_for_seconds(max(known))
        stem = file_stem(key[0], taken=taken)
        bars = tuple(
            bar_group(PHASES[name], name, values.values(), scale=unit[1])
            for name, values in (("host", host), ("gpu", gpu))
            if any(value is not None for value in values.values())
        )
        names = tuple(map(gap_text, found))
        axis = Axis("Median", unit[0], low=0)
        chart = Bars(axis, "Mean gap between queries", names, bars, stacked=False)
        title = f"Latency against gap: {shortened(name_of_key(key))}"
        blocks.append(Figure(f"latency_vs_gap_{stem}", title, chart))
        first = next(iter(host.values()))
        changes = {k: v / first - 1 if v and first else None for k, v in host.items()}
        columns = (
            column("gap_s", "Gap", lambda each: Cell(each, gap_text(each)), "right"),
            column("host_median_s", "Host", host.get, "time"),
            column("gpu_median_s", "GPU", gpu.get, "time"),
            column("change", "Against the shortest", changes.get, "change", rank=1),
            column("sm_clock_hz", "SM clock", clock.get, "frequency", rank=2),
        )
        blocks.append(table(f"gaps_{stem}", found, columns, unit=unit))
    return section_of("gaps", "Gaps between queries", blocks)
