"""Sweeps: what one would do, a row for every case it did, the best of them, and all as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trtbench.analysis.summary import ColumnSummary
from trtbench.analysis.sweep import Chosen, SweepRow, compares_models, quantities, quantities_of
from trtbench.core.codec import json_from_value
from trtbench.core.properties import network_name
from trtbench.core.run import Run, precision_of
from trtbench.core.units import (
    text_from_duration,
    text_from_long_time,
    text_from_rate,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, Bars, bar_group
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Section,
    Table,
    Text,
    Time,
    column,
    document_from_blocks,
    note_lines,
    score_column,
    section_of,
    table,
)
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.run_facts import (
    headline_summary,
    headline_title,
    labels_from_runs,
    quantile_cell,
    shortened,
    words_on_protocols,
)
from trtbench.report.sections.findings import gather, short_title
from trtbench.report.sections.layers import PRECISIONS

if TYPE_CHECKING:
    from trtbench.sweep.plan import KindEstimate, SweepPlan


ORDER = 75

MOST_BARS = 24
DENSE = 0.6
"""Of all pairs of network and kind; with fewer, groups of bars are mostly gaps."""


def make(runs: Sequence[Run]) -> Section | None:
    """Draw runs by network, batch and precision, where at least two of these differ."""
    chosen = [run for run in runs if headline_summary(run)]
    batches = {run.record.batch for run in chosen}
    kinds = {(precision_of(run.record), run.record.spec.runtime) for run in chosen}
    networks = {network_name(run.record) for run in chosen}
    if sum(len(each) > 1 for each in (batches, kinds, networks)) < 2:
        return None

    def order(run: Run) -> tuple[str, int, str, int]:
        record, kind = run.record, precision_of(run.record)
        rank = PRECISIONS.index(kind) if kind in PRECISIONS else len(PRECISIONS)
        return network_name(record), record.items_per_query, record.spec.runtime, rank

    roles = {run.id: f"run:{index}" for index, run in enumerate(runs)}
    return section_of("sweep", "Sweep", [_bars(sorted(chosen, key=order), roles)])


def _bars(runs: Sequence[Run], roles: dict[str, str]) -> Figure:
    """Draw the mean times by network and batch, or a bar for each run where few of these meet."""
    heads = {run.id: head.mean for run in runs if (head := headline_summary(run))}
    unit, scale = unit_for_seconds(float(np.median(list(heads.values()))))

    def kind(run: Run) -> str:
        return f"{run.record.spec.runtime} {precision_of(run.record) or 'as is'}"

    def place(run: Run) -> str:
        name, batch = shortened(network_name(run.record), length=28), run.record.batch
        return f"{name} · batch {batch}" if batch else name

    rows = list(dict.fromkeys(map(place, runs)))
    means = {(place(run), kind(run)): heads[run.id] for run in runs}
    kinds = {kind(run): roles[run.id] for run in reversed(runs)}  # a kind keeps its colour
    title = "Network and batch"
    if len(means) < len(runs) or len(means) < DENSE * len(rows) * len(kinds):
        title, rows = "Run", list(labels_from_runs(runs))
        kinds = {"mean": roles[runs[0].id]}
        means = {(row, "mean"): heads[run.id] for row, run in zip(rows, runs, strict=True)}
    groups = tuple(
        bar_group(each, role, (means.get((row, each)) for row in rows[:MOST_BARS]), scale=scale)
        for each, role in reversed(kinds.items())
    )
    axis = Axis(f"{headline_title(runs)}, mean per batch", unit, low=0)
    chart = Bars(axis, title, tuple(rows[:MOST_BARS]), groups, stacked=False)
    first = f"The first {MOST_BARS} of {len(rows)}." if len(rows) > MOST_BARS else None
    caption = " ".join(filter(None, (first, words_on_protocols(runs)))) or None
    return Figure("inference_time_bar_all", "Inference time of all", chart, caption)


# ---- the sweep command


def document_from_sweep(
    rows: Sequence[SweepRow],
    *,
    title: str = "",
    chosen: Chosen | None = None,
    where: str = "",
    by: str = "",
) -> Document:
    """Describe every case, model by model, and where a condition is given what meets it."""
    if compares_models(rows):
        sections = [section_of("models", "", [_cases("sweep", rows, models=True)])]
    else:
        sections = []
        for number, model in enumerate(dict.fromkeys(row.model for row in rows)):
            cases = _cases(f"sweep_{number}", [row for row in rows if row.model == model])
            sections.append(section_of(f"model-{number}", model, [cases]))
    sections.append(section_of("remarks", "", _remarks(rows)))
    if chosen is not None:
        blocks: list[Block] = []
        if chosen.rows:
            blocks.append(_cases("chosen", chosen.rows, models=True))
            blocks.append(Text(f"best by {by}: {_name(chosen.rows[0])}", "good"))
        for name, number in chosen.unknown.items():
            how = "longer runs give it" if name[:1] == "p" else "--data gives accuracies"
            blocks.append(Text(f"{name} is not known for {number} rows: {how}", "unclear"))
        measured = sum(row.reason is None for row in rows)
        words = f"where {where}: {len(chosen.rows)} of {measured}"
        sections.append(Section("chosen", words, tuple(blocks)))
    return Document(title=title, sections=tuple(each for each in sections if each))


def document_from_plan(plan: SweepPlan, kinds: Sequence[KindEstimate]) -> Document:
    """Describe what a sweep would do: how much of each kind, what is kept, how long it takes."""

    def time(each: KindEstimate) -> Cell:
        if each.count == each.cached:
            return Cell()
        if each.seconds is None:
            return Cell(None, "unknown")
        basis = f"{each.guessed} by their settings alone" if each.guessed else "as before"
        return Cell(each.seconds, f"{text_from_long_time(each.seconds)} ({basis})")

    work = (
        column("work", "Work", "kind"),
        column("count", "Count", kind="right"),
        column("kept", "Kept", "cached", "right", rank=1),
        column("to_do", "To do", lambda each: each.count - each.cached, "right"),
        column("time_s", "Time", time, fit="wrap"),
    )
    blocks: list[Block] = [table("work", kinds, work)]
    if plan.elsewhere:
        words = (
            "Each case is quantized, built, measured and judged on the machine it is sent to; the "
            "steps are planned there."
        )
        blocks.append(Text(words))
    rounds = f", {plan.matrix.rounds} rounds" if plan.matrix.rounds > 1 else ""
    blocks.append(Text(f"{len(plan.cases)} cases{rounds}:"))
    rows = [each for each in plan.cases if not each.refused]
    blocks.append(table("cases", rows, [column("case", "Case", "name", fit="wrap")]))
    for reason, count in Counter(plan.refused.values()).items():
        blocks.append(Text(f"{count} cannot be measured: {reason}", "unclear"))
    known = [each.seconds for each in kinds if each.seconds is not None]
    bound = "" if len(known) == len(kinds) else "at least "
    blocks.append(Text(f"time: {bound}{text_from_long_time(sum(known))}"))
    return document_from_blocks("plan", blocks)


def _cases(id: str, rows: Sequence[SweepRow], *, models: bool = False) -> Table:
    """List cases; columns that none of them can fill are left out."""
    columns = list(_case_columns(rows))
    if models:
        star = column("model", get=lambda row: row.model + (" ★" if row.on_front else ""))
        one = len({row.label for row in rows}) == 1
        columns = [star, *(each for each in columns if not one or each[0].key != "case")]
    return table(id, rows, columns)


def _case_columns(rows: Sequence[SweepRow]) -> Iterator[Column]:
    def median(row: SweepRow) -> Cell | Time:
        if row.head is None:
            return Cell(None, "failed", "bad")
        return Time(row.head.median, row.head.median_interval)

    def pair(found: ColumnSummary | None) -> Cell:
        if found is None:
            return Cell()
        unit = unit_for_seconds(found.mean)
        ends = (text_from_duration(each, unit=unit) for each in (found.mean, found.max))
        return Cell(found.mean, " / ".join(ends))

    def p99(row: SweepRow) -> Cell:
        head = row.head
        return quantile_cell(head.quantile(0.99), unit_for_seconds(head.median)) if head else Cell()

    def rate(row: SweepRow) -> Cell:
        value = row.summary.items_per_s if row.summary else None
        return Cell(value, text_from_rate(value))

    def score(metric: str) -> Callable[[SweepRow], Cell]:
        def cell(row: SweepRow) -> Cell:
            found = row.scores.get(metric)
            if found is None:
                return Cell()
            share = found.declared.is_share
            return Cell(
                found.value, f"{100 * found.value:.2f} %" if share else f"{found.value:.4g}"
            )

        return cell

    def known(name: str) -> bool:
        return any(getattr(row, name) is not None for row in rows)

    if len({row.batch for row in rows}) > 1 or any(row.batch not in (None, 1) for row in rows):
        yield column("batch")
    yield column("case", "Case", lambda x: x.label + (" ★" if x.on_front else ""), fit="wrap")
    yield column("median_s", get=median)
    yield column("latency_s", "Latency", lambda row: pair(row.head), "right", rank=5)
    if any(row.column("gpu") for row in rows):
        yield column("gpu_s", "GPU", lambda row: pair(row.column("gpu")), "right", rank=4)
    yield column("p99_s", get=p99)
    yield column("items_per_s", get=rate)
    if any(row.size_bytes for row in rows):
        yield column("size_bytes")
    for place, metric in enumerate(dict.fromkeys(name for row in rows for name in row.scores)):
        yield score_column(metric, place, score(metric))
    for name in ("layers", "parameters"):
        if known(name):
            yield column(name, name.capitalize(), kind="count", rank=8)


def _remarks(rows: Sequence[SweepRow]) -> Iterator[Text]:
    """Say what columns and marks mean, what failed, and what makes numbers doubtful."""
    if any(row.summary for row in rows):
        gpu = any(row.column("gpu") for row in rows)
        words = "Latency: mean / maximum per batch as the host sees it"
        yield Text(words + (", GPU the same of GPU time, where known." if gpu else "."))
    if any(row.on_front for row in rows):
        of = "the table" if compares_models(rows) else "the model"
        yield Text(f"★ no other row of {of} beats it in all of latency, throughput, accuracy.")
    for row in rows:
        if row.reason is not None:
            yield Text(f"failed: {_name(row)}: {row.reason}", "bad")
    yield from note_lines(dict.fromkeys(row.remark for row in rows if row.remark))
    measured = [row for row in rows if row.reason is None]
    grave = gather(
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
        yield Text(f"warnings: {', '.join(said)}; the report says more.", "unclear")


def _name(row: SweepRow) -> str:
    return f"{row.model} · {row.label}" + (f" · batch {row.batch}" if row.batch else "")


def csv_from_rows(rows: Sequence[SweepRow]) -> str:
    """Write one line per case, in seconds, bytes and per cent."""
    names = quantities(rows)
    tail = ("interval_low", "interval_high", "launches", "on_front", "reason", "remark", "runs")

    def line(row: SweepRow) -> list[object]:
        values, interval = quantities_of(row), row.interval
        return [
            *(values.get(name) for name in names),
            interval.low if interval else None,
            interval.high if interval else None,
            row.summary.launches if row.summary else None,
            int(row.on_front),
            row.reason,
            row.remark,
            " ".join(row.runs),
        ]

    return csv_from_lines([*names, *tail], map(line, rows))


def json_from_rows(rows: Sequence[SweepRow], *, title: str) -> str:
    """Write the rows with all their statistics."""
    document = [
        {**quantities_of(row), "reason": row.reason, "remark": row.remark, "runs": row.runs,
         "on_front": row.on_front, "summary": row.summary, "scores": row.scores,
         "findings": [f"{each.code} {each.message}" for each in row.findings]}
        for row in rows
    ]  # fmt: skip
    return json_from_value({"title": title, "rows": document}).decode()
