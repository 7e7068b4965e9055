"""Runs at several batch sizes or arrival rates, and the cases of sweeps.

For the output of ``bench --slo`` and ``sweep`` and for reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.summary import ColumnSummary
from trtbench.analysis.sweep import Chosen, SweepRow, compares_models, quantities, quantities_of
from trtbench.core import properties, units
from trtbench.core.codec import json_from_value
from trtbench.core.run import Decision, LoadSearch, RatePoint, Run, precision_of
from trtbench.report import document as doc
from trtbench.report import run_facts
from trtbench.report.charts import Axis, Bars, Line, Mark, bar_group, curves, line
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.sections.findings import group_findings, short_title
from trtbench.report.sections.layers import PRECISIONS
from trtbench.report.sections.summary import finding_names

if TYPE_CHECKING:
    from trtbench.sweep.plan import KindEstimate, SweepPlan

ORDER = 70
NEAR_ANSWER, WIDE_DOUBT = 0.05, 0.1  # parts of the rate that a search found

MOST_CURVES = 8
MOST_FIGURES = 8
MEDIAN = "p50"
BATCH_AXIS = Axis("Batch size", "items", "log2")
RATE_AXIS = Axis("Throughput", "items/s", low=0)


def make(runs: Sequence[Run]) -> list[doc.Section | None]:
    """Show throughput against batch size, searches for a rate, and sweeps."""
    return [
        doc.optional_section("throughput", "Throughput", _throughput(runs)),
        doc.optional_section("load", "Load", _load_blocks(runs)),
        doc.optional_section("sweep", "Sweep", _mean_time_bars(runs)),
    ]


def _throughput(runs: Sequence[Run]) -> Iterator[doc.Figure]:
    """Plot throughput for models that were measured at several batch sizes."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        summary = run_facts.summary_of(run)
        if summary.head and summary.items_per_s and run.record.batch:
            # Engines with a fixed batch size are one file per batch size of the same network; if
            # the precision is unknown, only the file tells networks apart.
            network = properties.network_name(run.record) if precision_of(run.record) else None
            key = properties.series_key(run.record, model=network)
            groups.setdefault(key, []).append(run)
    series = {
        key: sorted(members, key=lambda run: run.record.items_per_query)
        for key, members in groups.items()
        if len({run.record.batch for run in members}) > 1
    }
    # A series is named by what differs from other series; a single one by its model.
    differing = [len(set(parts)) > 1 for parts in zip(*series, strict=True)]
    networks: dict[str, list[Line]] = {}
    for key, same in series.items():
        name = " · ".join(p for p, differs in zip(key, differing, strict=True) if differs and p)
        x = [run.record.items_per_query for run in same]
        y = [run_facts.summary_of(run).items_per_s for run in same]
        name = str(same[0].extra.get("name") or name or key[0])
        curve = line(name, f"run:{runs.index(same[0])}", x, y, "both")
        networks.setdefault(properties.network_name(same[0].record), []).append(curve)
    taken: set[str] = set()
    for network, lines in list(networks.items())[:MOST_FIGURES]:
        id = f"inference_throughput_vs_batch_size_{run_facts.unique_stem(network, taken=taken)}"
        title = f"Throughput against batch size: {units.shortened(network)}"
        more = len(lines) > MOST_CURVES
        caption = f"{MOST_CURVES} of {len(lines)} series; the summary has all." if more else None
        yield doc.Figure(id, title, curves(BATCH_AXIS, RATE_AXIS, lines[:MOST_CURVES]), caption)


def _load_blocks(runs: Sequence[Run]) -> Iterator[doc.Block]:
    taken: set[str] = set()
    for run in runs:
        if run.load is not None:
            model, slo = properties.model_name(run.record), run.load.slo
            stem = run_facts.unique_stem(f"{model} {slo.statistic}", taken=taken)
            name = units.shortened(f"{model}, {slo.text}")
            yield from _search_blocks(run.load, stem=stem, name=name)


def document_from_load(search: LoadSearch, run: Run) -> doc.Document:
    """Describe a search for the highest rate that meets a latency bound."""
    parts = properties.title_of_record(run.record).split(" · ")
    title = " · ".join([*parts[:-1], f"load, {run.record.spec.arrivals} arrivals"])
    blocks = [*_search_blocks(search)]
    if named := finding_names(run.findings, beside=None):
        blocks.append(doc.key_values("findings", [("findings", f"{named} (trtbench runs show)")]))
    return doc.document_from_blocks("load", blocks, title=title, created=run.record.created)


def _search_blocks(search: LoadSearch, *, stem: str = "", name: str = "") -> Iterator[doc.Block]:
    """Show the result, all rates, and the curve; ``stem`` makes ids unique."""
    end = f"_{stem}" if stem else ""
    yield doc.key_values(f"load{end}", _search_result(search))
    if not search.points:
        return
    statistic = search.slo.statistic
    yield rate_table(search.points, statistic, id=f"rates{end}")
    id, limit = f"latency_vs_rate{end}", search.slo.limit_s
    yield rate_figure(search.points, statistic, limit_s=limit, id=id, name=name)


def _search_result(search: LoadSearch) -> Iterator[tuple[str, doc.Cell]]:
    """Give the answer, its doubt, and what was measured near it."""

    def rate(value: float) -> str:
        return units.text_from_rate(value, digits=3)

    statistic, bound, points = search.slo.statistic, search.slo.text, search.points
    likely = search.likely_hz or search.highest_hz
    low, high = search.highest_hz or 0.0, search.broken_hz
    place = likely or (points[0].rate_hz if points else 0.0)
    wide = NEAR_ANSWER * place
    ends = place - wide, place + wide
    if likely is not None:
        ends = min(low, ends[0]), max(high or place, ends[1])
    near = [each for each in points if ends[0] <= each.rate_hz <= ends[1]]
    if likely is None:
        lowest = f"{rate(place)} is the lowest rate tried"
        lone = f"{statistic} is {units.text_from_seconds(search.lone_s)} without load"
        cell = doc.Cell(None, f"no rate meets {bound}; {lowest if points else lone}", "bad")
        if (high and high > place) or any(each.decision == "unclear" for each in points):
            most = f"at most {rate(high)} meets {bound}" if high else f"whether one meets {bound}"
            cell = doc.Cell(None, f"unknown, {most}; {lowest}", "unclear")
        yield "highest rate", cell
    elif search.at_least:
        text = f"{rate(likely)} or more meets {bound} (no higher rate was tried)"
        yield "highest rate", doc.Cell(likely, text, "good")
    else:
        doubt = f" ({rate(low)} to {rate(high)})" if high else ""
        if high and not low:
            doubt = f" (at most {rate(high)}, no lower bound known)"
        yield "highest rate", doc.Cell(likely, f"about {rate(likely)} meets {bound}{doubt}", "good")
    if near:
        tails = [each.percentile_s for each in near]
        times = [units.text_from_seconds(x, digits=3) for x in (min(tails), max(tails))]
        tried = [rate(near[0].rate_hz), rate(near[-1].rate_hz)]
        found, where = (" to ".join(dict.fromkeys(each)) for each in (times, tried))
        text = f"{found} in {units.counted(len(near), 'probe')} at {where}"
        yield statistic, doc.Cell(None, text)
    if likely and high and not search.at_least and high - low > 2 * WIDE_DOUBT * likely:
        stalls = any(each.stalled_s for each in points)
        why = "stalls are too few to count" if stalls else "the machine is noisy"
        text = f"wide: {why}, or the time too short (see --time-limit)"
        yield "doubt", doc.Cell(None, text, "unclear")
    if not search.complete:
        yield "search", doc.Cell(None, "ended early", "unclear")
    part = (likely or 0.0) / search.capacity_hz if search.capacity_hz else 0.0
    share = f"; the answer is {units.text_from_fraction(part, digits=0)} of it" if part else ""
    capacity = f"{units.text_from_rate(search.capacity_hz)}, back to back{share}"
    yield "capacity", doc.Cell(search.capacity_hz, capacity)


def rate_table(points: Sequence[RatePoint], statistic: str, *, id: str) -> doc.Table:
    """Return a table of rates with latencies, and whether each meets the bound."""
    words: dict[Decision, tuple[str, doc.Tone]] = {
        "accepted": ("met", "good"), "refused": ("missed", "bad"), "unclear": ("unclear",) * 2,
    }  # fmt: skip

    def decision(each: RatePoint) -> doc.Cell:
        word, tone = words[each.decision]
        return doc.Cell(each.decision, "overloaded" if each.overloaded else word, tone)

    columns = [
        doc.column("rate_hz", "Rate", kind="rate"),
        doc.column("achieved_hz", "Served", kind="rate", rank=3),
        doc.column("median_s", rank=2),
        doc.column(
            f"{statistic}_s", statistic, lambda x: doc.Time(x.percentile_s, x.interval), "right"
        ),
        doc.column("decision", "Bound", decision),
        doc.column("samples", "Queries", kind="right", rank=5),
        doc.column("late_share", "Sent late", kind="percent", rank=6),
    ]
    shown = columns[:2] + columns[3:] if statistic == MEDIAN else columns
    unit = units.common_unit(each.percentile_s for each in points)
    return doc.table(id, points, shown, unit=unit)


def rate_figure(
    points: Sequence[RatePoint], statistic: str, *, id: str, name: str, limit_s: float
) -> doc.Figure:
    """Plot the percentile and the median against the rate, without overloaded rates."""
    sustained = [each for each in points if not each.overloaded] or list(points)
    most_s = max(each.percentile_s for each in sustained)
    unit, scale = units.unit_for_seconds(most_s)
    x = [each.rate_hz for each in sustained]
    tails, ends = [each.percentile_s for each in sustained], [each.interval for each in sustained]
    lines = [line(statistic, "run:0", x, tails, "both", scale=scale, ends=ends)]
    if statistic != MEDIAN:
        medians = [each.median_s for each in sustained]
        lines.append(line("median", "run:1", x, medians, "both", scale=scale))
    # A bound above this multiple of the highest latency is not drawn.
    drawn = [Mark(limit_s / scale, "bound", "y")] if limit_s <= 3 * most_s else []
    rates = Axis("Arrival rate", "queries/s", low=0)
    times = Axis("Latency from the scheduled time", unit, low=0)
    title = f"Latency against load: {name}" if name else "Latency against load"
    return doc.Figure(id, title, curves(rates, times, lines, marks=drawn))


MOST_BARS = 24


def _mean_time_bars(runs: Sequence[Run]) -> Iterator[doc.Figure]:
    """Plot mean times by network, batch size and precision, if at least two of them differ."""
    chosen = [run for run in runs if run_facts.summary_of(run).head]
    batches = {run.record.batch for run in chosen}
    types = {(precision_of(run.record), run.record.spec.runtime) for run in chosen}
    networks = {properties.network_name(run.record) for run in chosen}
    if sum(len(each) > 1 for each in (batches, types, networks)) < 2:
        return

    def sort_key(run: Run) -> tuple[str, int, str, int]:
        record, kind = run.record, precision_of(run.record)
        rank = PRECISIONS.index(kind) if kind in PRECISIONS else len(PRECISIONS)
        return properties.network_name(record), record.items_per_query, record.spec.runtime, rank

    roles = {run.id: f"run:{index}" for index, run in enumerate(runs)}
    # Grouped bars by network and batch, or a bar for each run if most groups were incomplete.
    runs = sorted(chosen, key=sort_key)
    heads = {run.id: head.mean for run in runs if (head := run_facts.summary_of(run).head)}
    unit, scale = units.unit_for_seconds(float(np.median(list(heads.values()))))

    def kind(run: Run) -> str:
        own = f"{run.record.spec.runtime} {precision_of(run.record) or 'as is'}"
        return str(run.extra.get("name") or own)

    def row_name(run: Run) -> str:
        name = units.shortened(properties.network_name(run.record), length=28)
        batch = run.record.batch
        return f"{name} · batch {batch}" if batch else name

    rows = list(dict.fromkeys(map(row_name, runs)))
    means = {(row_name(run), kind(run)): heads[run.id] for run in runs}
    kinds = {kind(run): roles[run.id] for run in reversed(runs)}  # a kind keeps its colour
    title = "Network and batch"
    # With few pairs of network and kind, grouped bars would be mostly gaps.
    if len(means) < len(runs) or len(means) < 0.6 * len(rows) * len(kinds):
        title, rows = "Run", list(run_facts.labels_from_runs(runs))
        kinds = {"mean": roles[runs[0].id]}
        means = {(row, "mean"): heads[run.id] for row, run in zip(rows, runs, strict=True)}
    groups = tuple(
        bar_group(each, role, (means.get((row, each)) for row in rows[:MOST_BARS]), scale=scale)
        for each, role in reversed(kinds.items())
    )
    drawn = [value for group in groups for value in group.values if value]
    far = max(drawn) > 50 * min(drawn)  # else the short bars would not be seen
    axis = Axis(f"{run_facts.headline_title(runs)}, mean per batch", unit)
    axis = axis.having(scale="log", low=min(drawn) / 3) if far else axis.having(low=0)
    chart = Bars(axis, title, tuple(rows[:MOST_BARS]), groups, stacked=False)
    first = f"The first {MOST_BARS} of {len(rows)} are shown." if len(rows) > MOST_BARS else ""
    caption = run_facts.with_protocols(first, runs) or None
    yield doc.Figure("inference_time_bar_all", "Inference time of all runs", chart, caption)


def document_from_sweep(
    rows: Sequence[SweepRow], *, title: str = "", chosen: Chosen | None = None
) -> doc.Document:
    """Describe the cases of a sweep by model, and those that meet a condition."""
    whole, sections = compares_models(rows), list[doc.Section | None]()
    for number, model in enumerate([""] if whole else dict.fromkeys(row.model for row in rows)):
        own = [row for row in rows if whole or row.model == model]
        cases = doc.table(f"sweep_{number}", own, _case_columns(own, whole))
        sections.append(doc.optional_section(f"model-{number}", model, [cases]))
    sections.append(doc.optional_section("remarks", "", _remarks(rows)))
    if chosen is not None:
        blocks: list[doc.Block] = []
        if chosen.rows:
            blocks.append(doc.table("chosen", chosen.rows, _case_columns(chosen.rows, True)))
            blocks.append(doc.Text(f"best by {chosen.by}: {_case_name(chosen.rows[0])}", "good"))
        for name, number in chosen.unknown.items():
            how = "it needs longer runs" if name[:1] == "p" else "accuracies need --data"
            blocks.append(doc.Text(f"{name} is unknown for {number} rows: {how}", "unclear"))
        measured = sum(row.reason is None for row in rows)
        words = f"where {chosen.where}: {len(chosen.rows)} of {measured}"
        sections.append(doc.Section("chosen", words, tuple(blocks)))
    return doc.Document(title=title, sections=tuple(each for each in sections if each))


def document_from_plan(plan: SweepPlan, kinds: Sequence[KindEstimate]) -> doc.Document:
    """Describe the work of a planned sweep: its steps, cached results, and time."""

    def time(each: KindEstimate) -> doc.Cell:
        if each.count == each.cached:
            return doc.Cell()
        if each.seconds is None:
            return doc.Cell(None, "unknown")
        basis = f"{each.guessed} estimated from settings" if each.guessed else "as before"
        return doc.Cell(each.seconds, f"{units.text_from_long_time(each.seconds)} ({basis})")

    work = (
        doc.column("work", "Work", "kind"),
        doc.column("count", "Count", kind="right"),
        doc.column("kept", "Kept", "cached", "right", rank=1),
        doc.column("to_do", "To do", lambda each: each.count - each.cached, "right"),
        doc.column("time_s", "Time", time, fit="wrap"),
    )
    blocks: list[doc.Block] = [doc.table("work", kinds, work)]
    if plan.elsewhere:
        steps = "quantized, built, measured and evaluated"
        blocks.append(doc.Text(f"Each case is {steps} on the machine it is sent to."))
    rounds = f", {plan.matrix.rounds} rounds" if plan.matrix.rounds > 1 else ""
    blocks.append(doc.Text(f"{len(plan.cases)} cases{rounds}:"))
    rows = [each for each in plan.cases if not each.refused]
    blocks.append(doc.table("cases", rows, [doc.column("case", "Case", "case.name", fit="wrap")]))
    for reason, count in Counter(plan.refused.values()).items():
        blocks.append(doc.Text(f"{count} cannot be measured: {reason}", "unclear"))
    blocks += doc.note_lines(dict.fromkeys(note for each in plan.cases for note in each.notes))
    known = [each.seconds for each in kinds if each.seconds is not None]
    bound = "" if len(known) == len(kinds) else "at least "
    blocks.append(doc.Text(f"time: {bound}{units.text_from_long_time(sum(known))}"))
    return doc.document_from_blocks("plan", blocks)


def _case_columns(rows: Sequence[SweepRow], models: bool) -> Iterator[doc.Column]:
    def median(row: SweepRow) -> doc.Cell | doc.Time:
        return run_facts.typical(row.head) if row.head else doc.Cell(None, "failed", "bad")

    def mean_and_max(found: ColumnSummary | None) -> doc.Cell:
        if found is None:
            return doc.Cell()
        unit = units.unit_for_seconds(found.mean)
        ends = (units.text_from_duration(each, unit=unit) for each in (found.mean, found.max))
        return doc.Cell(found.mean, " / ".join(ends))

    def p99(row: SweepRow) -> doc.Cell | doc.Time:
        return run_facts.quantile(row.head.quantile(0.99)) if row.head else doc.Cell()

    def rate(row: SweepRow) -> float | None:
        return row.summary.items_per_s if row.summary else None

    def score(metric: str, row: SweepRow) -> doc.Cell:
        found = row.scores.get(metric)
        if found is None:
            return doc.Cell()
        return doc.format_cell(found.value, "percent" if found.declared.is_share else ".4g")

    def speedup(row: SweepRow) -> doc.Cell:
        return doc.Cell(row.speedup, f"{row.speedup:.3g}×" if row.speedup else None)

    def starred(name: str, row: SweepRow) -> str:
        return f"{getattr(row, name)}{' ★' * row.on_front}"

    if models:
        yield doc.column("model", get=partial(starred, "model"))
    if len({row.batch for row in rows}) > 1 or any(row.batch not in (None, 1) for row in rows):
        yield doc.column("batch")
    if not models or len({row.label for row in rows}) > 1:
        label = "label" if models else partial(starred, "label")
        yield doc.column("case", "Case", label, fit="wrap")
    yield doc.column("median_s", get=median)
    if any(row.speedup not in (None, 1.0) for row in rows):
        yield doc.column("speedup", "Speed-up", speedup, "right")
    yield doc.column("latency_s", "Latency", lambda row: mean_and_max(row.head), "right", rank=5)
    if any(row.column("gpu") for row in rows):
        yield doc.column("gpu_s", "GPU", lambda x: mean_and_max(x.column("gpu")), "right", rank=4)
    yield doc.column("p99_s", get=p99)
    yield doc.column("items_per_s", get=rate, kind="rate")
    if any(row.size_bytes for row in rows):
        yield doc.column("size_bytes")
    for place, metric in enumerate(dict.fromkeys(name for row in rows for name in row.scores)):
        yield doc.score_column(metric, place, partial(score, metric))
    for name in ("layers", "parameters"):
        if any(getattr(row, name) is not None for row in rows):
            yield doc.column(name, name.capitalize(), kind="count", rank=8)


def _remarks(rows: Sequence[SweepRow]) -> Iterator[doc.Text]:
    """Yield explanations of columns and marks, failures, and warnings."""
    if any(row.summary for row in rows):
        gpu = any(row.column("gpu") for row in rows)
        words = "Latency: mean / maximum per batch as the host sees it"
        yield doc.Text(words + ("; GPU: the same for GPU time." if gpu else "."))
    of = "the same batch and shapes" if compares_models(rows) else "equal model, batch and shapes"
    if any(row.speedup not in (None, 1.0) for row in rows):
        names = sorted({row.summary.headline for row in rows if row.summary})
        mixed = f"; {' and '.join(names)} times are compared" if len(names) > 1 else ""
        yield doc.Text(f"Speed-up: of the median, against the first row of {of}{mixed}.")
    if any(row.on_front for row in rows):
        yield doc.Text(f"★ no other row of {of} beats it in all of latency, throughput, accuracy.")
    for row in rows:
        if row.reason is not None:
            yield doc.Text(f"failed: {_case_name(row)}: {row.reason}", "bad")
    yield from doc.note_lines(dict.fromkeys(row.remark for row in rows if row.remark))
    measured = [row for row in rows if row.reason is None]
    grave = group_findings(
        (str(place), each)
        for place, row in enumerate(measured)
        for each in row.findings
        if each.severity != "note"
    )
    if grave:
        said = (
            f"{item.finding.code} {short_title(item)} ({len(item.runs)} of {len(measured)} rows)"
            for item in grave.items
        )
        yield doc.Text(f"warnings: {', '.join(said)}; see the report.", "unclear")


def _case_name(row: SweepRow) -> str:
    return f"{row.model} · {row.label}" + (f" · batch {row.batch}" if row.batch else "")


def csv_from_rows(rows: Sequence[SweepRow]) -> str:
    """Return CSV with one line per case, in seconds, bytes and per cent."""
    names = quantities(rows)
    tail = ("interval_low", "interval_high", "launches", "on_front", "reason", "remark", "runs")

    def line(row: SweepRow) -> list[object]:
        values, summary = quantities_of(row), row.summary
        return [
            *(values.get(name) for name in names),
            *((found.low, found.high) if summary and (found := summary.interval) else (None, None)),
            summary.launches if summary else None,
            int(row.on_front),
            row.reason,
            row.remark,
            " ".join(row.runs),
        ]

    return csv_from_lines([*names, *tail], map(line, rows))


def json_from_rows(rows: Sequence[SweepRow], *, title: str) -> str:
    document = [
        {**quantities_of(row), "reason": row.reason, "remark": row.remark, "runs": row.runs,
         "on_front": row.on_front, "summary": row.summary, "scores": row.scores,
         "findings": [f"{each.code} {each.message}" for each in row.findings]}
        for row in rows
    ]  # fmt: skip
    return json_from_value({"title": title, "rows": document}).decode()
