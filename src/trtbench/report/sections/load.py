"""Throughput and latency under load: against batch and rate of arrivals.

For the screen of ``bench --load`` and for the sections of reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.load import point_from_runs
from trtbench.core.properties import (
    model_name,
    network_name,
    series_key,
)
from trtbench.core.run import Decision, LoadSearch, RatePoint, Run, precision_of
from trtbench.core.units import (
    common_unit,
    text_from_fraction,
    text_from_rate,
    text_from_seconds,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, Line, Mark, curves, line
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Figure,
    Section,
    Table,
    Time,
    Tone,
    column,
    document_from_blocks,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import (
    AlikeKey,
    file_stem,
    headline_summary,
    name_of_key,
    names_of_keys,
    series_over,
    shortened,
    summary_of,
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
    return [section for section in (make_throughput(runs), make_load(runs)) if section]


# ---- batch


def make_throughput(runs: Sequence[Run]) -> Section | None:
    """Draw items per second against batch for each model measured at several."""
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
    networks: dict[str, list[Line]] = {}
    for name, same in zip(names_of_keys(list(series)), series.values(), strict=True):
        x, y = [run.record.items_per_query for run in same], [rate_of(run) for run in same]
        curve = line(name, f"run:{runs.index(same[0])}", x, y, "both")
        networks.setdefault(network_name(same[0].record), []).append(curve)
    blocks: list[Block] = []
    taken: set[str] = set()
    for network, lines in list(networks.items())[:MOST_FIGURES]:
        id = f"inference_throughput_vs_batch_size_{file_stem(network, taken=taken)}"
        title = f"Throughput against batch size: {shortened(network)}"
        more = len(lines) > MOST_CURVES
        caption = f"{MOST_CURVES} of {len(lines)} series; the summary has all." if more else None
        chart = curves(BATCH_AXIS, RATE_AXIS, lines[:MOST_CURVES])
        blocks.append(Figure(id, title, chart, caption))

    return section_of("throughput", "Throughput", blocks)


def rate_of(run: Run) -> float:
    """Items per second; 0 where unknown."""
    return summary_of(run).items_per_s or 0.0


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
    yield rate_figure(search.points, statistic=statistic, limit_s=limit, id=id, name=name)


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
    near = limit_s is not None and limit_s <= FAR * most_s
    drawn = [Mark(limit_s / scale, "bound", "y")] if limit_s is not None and near else []
    rates = Axis("Rate of arrivals", "queries/s", low=0)
    times = Axis("Latency from when a query was due", unit, low=0)
    title = f"Latency against load: {name}" if name else "Latency against load"
    return Figure(id, title, curves(rates, times, lines, marks=drawn))
