"""Throughput and latency under load: against batch, streams, rate of arrivals and gaps.

For the screen of ``bench --load`` and for the sections of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from trtbench.analysis.load import knee, point_from_runs
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
from trtbench.report.charts import Axis, Lines, Mark, Panel, curves, line
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
    fraction_cell,
    key_values,
    section_of,
    table,
)
from trtbench.report.labels import (
    AlikeKey,
    file_stem,
    name_of_key,
    names_of_keys,
    series_over,
    shortened,
)
from trtbench.report.run_facts import (
    PHASES,
    headline_summary,
    headline_title,
    summary_of,
    typical_time,
)
from trtbench.report.sections.summary import title_of

ORDER = 70

MOST_CURVES = 8
MOST_FIGURES = 8
LABELLED_CURVES = 4
"""Words beside the points of more curves than this would cover one another."""
STATISTIC = "p99"
MEDIAN = "p50"
"""By nearest rank, as all percentiles of a bound are."""
FAR = 3
"""Times the highest latency: a bound further up would leave no room for the curve."""
LATE = 0.01
"""As finding H36 has it."""
MHZ = 1e6
WIDE, BEFORE = 10, 4
"""Gaps that differ by more than the first are drawn by logarithm, none at all this far before."""
BATCH_AXIS = Axis("Batch size", "items", "log2")
RATE_AXIS = Axis("Throughput", "items/s", low=0)


def make(runs: Sequence[Run]) -> list[Section]:
    """Make every section of this file that has something to say."""
    made = (make_throughput(runs), make_streams(runs), make_load(runs), make_gaps(runs))
    return [section for section in made if section]


# ---- batch


def make_throughput(runs: Sequence[Run]) -> Section | None:
    """Draw items per second and latency against batch for each model measured at several."""
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
    found = [
        (name, f"run:{runs.index(members[0])}", members)
        for name, members in zip(names_of_keys(list(series)), series.values(), strict=True)
    ]
    blocks: list[Block] = []
    if len(found) > MOST_CURVES:
        blocks.append(
            Text(f"Pictures show {MOST_CURVES} series at most; the table has all {len(found)}.")
        )
    networks: dict[str, list[tuple[str, str, list[Run]]]] = {}
    for curve in found:
        networks.setdefault(network_name(curve[2][0].record), []).append(curve)
    taken: set[str] = set()
    for network, members in list(networks.items())[:MOST_FIGURES]:
        id = f"inference_throughput_vs_batch_size_{file_stem(network, taken=taken)}"
        title = f"Throughput against batch size: {shortened(network)}"
        lines = [
            line(name, role, [run.record.items_per_query for run in same], _rates(same), "both")
            for name, role, same in members[:MOST_CURVES]
        ]
        blocks.append(Figure(id, title, curves(BATCH_AXIS, RATE_AXIS, lines)))
    drawn = found[:MOST_CURVES]
    every = [run for _, _, same in drawn for run in same]
    unit, scale = unit_for_seconds(max(map(_typical, every)))
    few = len(drawn) <= LABELLED_CURVES
    lines = [
        line(
            name, role, [_typical(run) / scale for run in same], _rates(same), "both",
            texts=[f"batch {run.record.batch}" for run in same] if few else (),
        )
        for name, role, same in drawn
    ]  # fmt: skip
    chart = curves(Axis(f"{headline_title(every)}, median", unit, low=0), RATE_AXIS, lines)
    caption = "One point per batch size. The best batch lies where the curve bends to the right."
    blocks.append(Figure("throughput_vs_latency", "Throughput against latency", chart, caption))

    def per_item(row: tuple[str, Run]) -> float | None:
        items = row[1].record.known_items
        return _typical(row[1]) / items if items else None

    def typical(row: tuple[str, Run]) -> Time:
        head = headline_summary(row[1])
        return typical_time(head) if head else Time(None)

    columns = (
        column("series", "Series", lambda row: row[0]),
        column("batch", get=lambda row: row[1].record.batch),
        column("items_per_s", get=lambda row: summary_of(row[1]).items_per_s),
        column("median_s", "Median latency", typical, "right"),
        column("median_per_item_s", "Latency per item", per_item, "time"),
        column("id", get=lambda row: row[1].id),
    )
    rows = [(name, run) for name, _, same in found for run in same]
    listed = table("throughput", rows, columns, unit=common_unit(_typical(run) for _, run in rows))
    return section_of("throughput", "Throughput", [*blocks, listed])


def _rates(runs: Sequence[Run]) -> list[float | None]:
    return [summary_of(run).items_per_s for run in runs]


def _typical(run: Run) -> float:
    head = headline_summary(run)
    assert head is not None  # a series holds only runs that have one
    return head.typical


# ---- streams


def make_streams(runs: Sequence[Run]) -> Section | None:
    """Show items per second over batch and streams, the knee, and what to use."""

    def rate(run: Run) -> float:
        return summary_of(run).items_per_s or 0.0

    def place(run: Run) -> FrontPlace | None:
        return (run.record.items_per_query, streams_of(run.record)) if rate(run) else None

    blocks: list[Block] = []
    taken: set[str] = set()
    for key, found in series_over(runs, place, leave_out=("batch", "streams")).items():
        counts = sorted({streams for _, streams in found})
        if len(counts) < 2:
            continue
        rates = {place: median(map(rate, members)) for place, members in found.items()}
        name, stem = shortened(name_of_key(key)), file_stem(key[0], taken=taken)
        lines = [
            line(
                counted(streams, "stream"),
                f"run:{number}",
                [float(batch) for batch, each in rates if each == streams],
                [value for (_, each), value in rates.items() if each == streams],
                "both",
            )
            for number, streams in enumerate(counts)
        ]
        title = f"Throughput over batch and streams: {name}"
        chart = curves(BATCH_AXIS, RATE_AXIS, lines)
        blocks.append(Figure(f"throughput_vs_streams_{stem}", title, chart))
        choice = choice_from_surface(rates)
        best = (choice.batch, choice.streams) if choice else None

        def cells(
            streams: int,
            rates: dict[FrontPlace, float] = rates,
            best: FrontPlace | None = best,
        ) -> Callable[[Any], Cell]:
            def cell(items: int) -> Cell:
                at = (items, streams)
                tone: Tone = "good" if at == best else "plain"
                return Cell(rates.get(at), text_from_rate(rates.get(at)), tone)

            return cell

        columns = (
            column("batch", "Batch", lambda batch: batch, "right"),
            *(
                column(f"streams_{n}_items_per_s", f"{n} str.", cells(n), "right")
                for n in counts
            ),
        )  # fmt: skip
        caption = "Items per second; latencies of several streams overlap."
        batches = sorted({batch for batch, _ in rates})
        blocks.append(table(f"streams_{stem}", batches, columns, caption=caption))
        if choice is None:
            continue
        use = f"use batch {choice.batch} with {counted(choice.streams, 'stream')}"
        if best == (choice.best_batch, choice.best_streams):
            edges = ["more items"] if choice.batch == batches[-1] else []
            edges += ["more streams"] if choice.streams == counts[-1] else []
            more = f"; {' or '.join(edges)} may give more" if edges else ""
            words = f"{use}, the best that was measured{more}."
        else:
            share = text_from_fraction(choice.items_per_s / choice.best_items_per_s, digits=0)
            most = f"batch {choice.best_batch} with {choice.best_streams}"
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
        bend = knee(points)
        marks = [] if bend is None else [(bend, "knee")]
        stem, name = file_stem(key[0], taken=taken), shortened(name_of_key(key))
        id = f"latency_vs_rate_{stem}"
        blocks += [
            rate_figure(points, statistic=STATISTIC, marks=marks, id=id, name=name),
            rate_table(points, statistic=STATISTIC, id=f"rates_{stem}", bounded=False),
        ]
        if bend is not None:
            words = "above it waiting grows faster than load"
            blocks.append(Text(f"Knee at {text_from_rate(bend, digits=3)}: {words}."))
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
    known = ((search.highest_hz, "highest"), (search.knee_hz, "knee"))
    marks = [(at, text) for at, text in known if at is not None]
    yield rate_table(search.points, statistic=statistic, id=f"rates{end}")
    id, limit = f"latency_vs_rate{end}", search.slo.limit_s
    yield rate_figure(
        search.points, statistic=statistic, marks=marks, limit_s=limit, id=id, name=name
    )
    late = max(each.late_share for each in search.points)
    if late > LATE:
        words = (
            f"note: up to {100 * late:.0f} % of a window's queries were sent late by the sender "
            "itself, which counts in these latencies; keep a core free for it."
        )
        yield Text(words, "unclear")


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
    if search.knee_hz is not None:
        words = f"{rate(search.knee_hz)}: above it waiting grows faster than load"
        yield "knee", Cell(search.knee_hz, words)
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
        column(
            "late_share", "Sent late", lambda x: fraction_cell(x.late_share, digits=1), "right",
            rank=6,
        ),
    ]  # fmt: skip
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


class GapRow(NamedTuple):
    """The medians of runs with one gap, and the clock after them."""

    gap_s: float
    host_s: float | None
    gpu_s: float | None
    clock_hz: float | None


def make_gaps(runs: Sequence[Run]) -> Section | None:
    """Draw medians against the mean gap for runs that differ in it alone, with the clock."""

    def gap(run: Run) -> float | None:
        serial = protocol_of(run.record) == "serve" and streams_of(run.record) == 1
        timed = run.times.host is not None or run.times.gpu is not None
        return gap_of(run.record) if serial and timed else None

    def row(gap_s: float, members: Sequence[Run]) -> GapRow:
        found: dict[str, list[float]] = {"host": [], "gpu": [], "clock": []}
        for run in members:
            for each in summary_of(run).columns:
                if each.column in found:
                    found[each.column].append(each.median)
            clock = run.record.facts.get("sm_clock_after_hz")
            if isinstance(clock, (int, float)):
                found["clock"].append(float(clock))
        return GapRow(gap_s, *(median(values) if values else None for values in found.values()))

    blocks: list[Block] = []
    taken: set[str] = set()
    for key, found in series_over(runs, gap, leave_out=("gap_s",)).items():
        rows = [row(each, members) for each, members in found.items()]
        stem = file_stem(key[0], taken=taken)
        title = f"Latency against gap: {shortened(name_of_key(key))}"
        blocks.append(Figure(f"latency_vs_gap_{stem}", title, _gap_chart(rows)))
        first = rows[0].host_s

        def change(row: GapRow, first: float | None = first) -> Cell:
            value = row.host_s / first - 1 if row.host_s and first else None
            return fraction_cell(value, digits=1, signed=True)

        columns = (
            column("gap_s", "Gap", lambda x: Cell(x.gap_s, _gap_text(x.gap_s)), "right"),
            column("host_median_s", "Host", "host_s", "time"),
            column("gpu_median_s", "GPU", "gpu_s", "time"),
            column("change", "Against the shortest", change, "right", rank=1),
            column(
                "sm_clock_hz", "SM clock",
                lambda x: Cell(x.clock_hz, f"{x.clock_hz / MHZ:.0f} MHz" if x.clock_hz else None),
                "right", rank=2,
            ),
        )  # fmt: skip
        blocks.append(table(f"gaps_{stem}", rows, columns))
        blocks += [Text(words)] if (words := _gap_words(rows[0], rows[-1])) else []
    return section_of("gaps", "Gaps between queries", blocks)


def _gap_text(gap_s: float) -> str:
    return text_from_seconds(gap_s, digits=3) if gap_s else "none"


def _gap_chart(rows: Sequence[GapRow]) -> Lines:
    known = [value for row in rows for value in (row.host_s, row.gpu_s) if value is not None]
    unit, scale = unit_for_seconds(max(known))
    gap_unit, gap_scale = unit_for_seconds(max(row.gap_s for row in rows))
    some = [row.gap_s for row in rows if row.gap_s]
    # Gaps of several sizes lie at their logarithm, and no gap before all of them.
    wide = max(some) >= WIDE * min(some)
    none = min(some) / BEFORE if wide else 0.0
    x = [max(row.gap_s, none) / gap_scale for row in rows]
    marks = (Mark(none / gap_scale, "no gap"),) if wide and len(some) < len(rows) else ()
    lines = tuple(
        line(PHASES[name], role, x, values, "both", scale=scale)
        for name, role, values in (
            ("host", "run:0", [row.host_s for row in rows]),
            ("gpu", "run:1", [row.gpu_s for row in rows]),
        )
        if any(value is not None for value in values)
    )
    times = Axis("Median", unit, low=0)
    panels = [Panel(lines=lines, marks=marks, y=times, low=0)]
    clocks = [row.clock_hz for row in rows]
    if any(clock is not None for clock in clocks):
        clock = line("SM clock", "run:2", x, clocks, "both", scale=MHZ)
        panels.append(Panel(lines=(clock,), y=Axis("SM clock", "MHz", low=0), low=0))
    title = "Mean gap between queries"
    axis = Axis(title, gap_unit, "log") if wide else Axis(title, gap_unit, low=0)
    return Lines(axis, times, tuple(panels))


def _gap_words(first: GapRow, last: GapRow) -> str:
    """Say what the longest gap costs, by the host or, without it, by the GPU."""
    by_host = first.host_s is not None
    before, after = (row.host_s if by_host else row.gpu_s for row in (first, last))
    if before is None or after is None:
        return ""
    times = " instead of ".join(text_from_seconds(each, digits=3) for each in (after, before))
    change = text_from_fraction(after / before - 1, digits=1, signed=True)
    rest = f"after one of {_gap_text(first.gap_s)}" if first.gap_s else "back to back"
    clock = ""
    if first.clock_hz is not None and last.clock_hz is not None:
        mhz = f"{last.clock_hz / MHZ:.0f} instead of {first.clock_hz / MHZ:.0f} MHz"
        clock = f"; the SM clock is {mhz}"
    gap = _gap_text(last.gap_s)
    return f"After a gap of {gap} a query takes {times} {rest} ({change}){clock}."
