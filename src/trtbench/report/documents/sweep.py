"""A sweep: what it would do, a row for every case it did, and the best of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.scores import is_share
from trtbench.analysis.sweep import Chosen, SweepRow, compares_models
from trtbench.domain.result import Scalar
from trtbench.report.cells import bytes_cell, count_cell, rate_cell
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    Section,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.documents.run import quantile_cell
from trtbench.report.finding_list import gather, short_title
from trtbench.report.headings import (
    BATCH_HEADING,
    ITEMS_HEADING,
    MEDIAN_HEADING,
    MODEL_HEADING,
    P99_HEADING,
    SIZE_HEADING,
    score_heading,
)
from trtbench.report.numbers import MISSING, text_from_duration, unit_for_seconds
from trtbench.units import text_from_long_time

if TYPE_CHECKING:
    from trtbench.workflows.sweep.estimate import KindEstimate
    from trtbench.workflows.sweep.plan import SweepPlan

SweepColumn = tuple[Heading, Callable[[SweepRow], "Cell | Scalar"]]

CASE = Heading(key="case", title="Case", fit="wrap")
LATENCY = Heading(key="latency_s", title="Latency", align="right", rank=5)
GPU = Heading(key="gpu_s", title="GPU", align="right", rank=4)
MAX_ABS = Heading(key="max_abs", title="Max abs", align="right", rank=4)
SQNR = Heading(key="sqnr_db", title="SQNR", align="right", rank=3)
OUTPUT_WORDS = (
    "Max abs, SQNR: how far outputs are from those of the model as given (SQNR: signal to "
    "noise; more is nearer)."
)
PLANNED_THERE = (
    "Each case is quantized, built, measured and judged on the machine it is sent to; what it "
    "takes is planned there."
)
FRONT = "★ no other row of {of} beats it in all of latency, throughput, accuracy."
LATENCY_WORDS = "Latency: mean / maximum per batch as the host sees it"
GPU_WORDS = "the same of GPU time, where a runtime tells it"
WORK = (
    Heading(key="work", title="Work"),
    Heading(key="count", title="Count", align="right"),
    Heading(key="kept", title="Kept", align="right", rank=1),
    Heading(key="to_do", title="To do", align="right"),
    Heading(key="time_s", title="Time", fit="wrap"),
)
STEPS = (
    Heading(key="kind", title="Step"),
    Heading(key="key", title="Key", rank=1),
    Heading(key="title", title="What", fit="wrap"),
)
CASES = (
    Heading(key="case", title="Case", fit="wrap"),
    Heading(key="needs", title="Needs", fit="wrap", rank=1),
)


def document_from_sweep(
    rows: Sequence[SweepRow],
    *,
    title: str = "",
    chosen: Chosen | None = None,
    where: str = "",
    by: str = "",
    advice: Sequence[str] = (),
) -> Document:
    """Describe every case, model by model, and where a condition is given what meets it."""
    if compares_models(rows):
        sections = [Section(id="models", title="", blocks=(_table("sweep", rows, models=True),))]
    else:
        sections = [
            Section(id=f"model-{number}", title=model, blocks=(_table(f"sweep_{number}", mine),))
            for number, (model, mine) in enumerate(_by_model(rows))
        ]
    if remarks := (*(Text(text=each) for each in advice), *_remarks(rows)):
        sections.append(Section(id="remarks", title="", blocks=remarks))
    if chosen is not None:
        sections.append(_chosen(chosen, rows, where=where, by=by))
    return Document(title=title, created="", sections=tuple(sections))


def document_from_plan(plan: SweepPlan, kinds: Sequence[KindEstimate]) -> Document:
    """Describe what a sweep would do: how much of each kind, what is kept, how long it takes."""
    work = [(each.kind, each.count, each.cached, each.count - each.cached, _estimate(each))
            for each in kinds]  # fmt: skip
    steps = [(step.kind, step.key[:8], step.title) for step in plan.steps.values()]
    cases = [
        (case.name, " ".join(key[:8] for key in plan.chains[place]))
        for place, case in enumerate(plan.cases)
        if place not in plan.refused
    ]
    rounds = plan.matrix.rounds
    often = f", {rounds} rounds" if rounds > 1 else ""
    known = [each.seconds for each in kinds if each.seconds is not None]
    bound = "" if len(known) == len(kinds) else "at least "
    blocks: list[Block] = [
        table_from_rows("work", headings=WORK, rows=work),
        *([table_from_rows("steps", headings=STEPS, rows=steps)] if steps else []),
        *([Text(text=PLANNED_THERE)] if plan.elsewhere else []),
        Text(text=f"{len(plan.cases)} cases{often}:"),
        table_from_rows("cases", headings=CASES, rows=cases),
        *(
            Text(text=f"{count} cannot be measured: {reason}", tone="unclear")
            for reason, count in Counter(plan.refused.values()).items()
        ),
        Text(text=f"time: {bound}{text_from_long_time(sum(known))}"),
    ]
    return document_from_blocks("plan", blocks)


def _by_model(rows: Sequence[SweepRow]) -> Iterator[tuple[str, list[SweepRow]]]:
    for model in dict.fromkeys(row.model for row in rows):
        yield model, [row for row in rows if row.model == model]


def _table(id: str, rows: Sequence[SweepRow], *, models: bool = False) -> Table:
    """List cases; columns that none of them can fill are left away."""
    columns = list(_columns(rows))
    if models:
        columns.insert(0, (MODEL_HEADING, _model_name))
        if len({row.label for row in rows}) == 1:
            columns = [each for each in columns if each[0] is not CASE]
    cells = [[value(row) for _, value in columns] for row in rows]
    return table_from_rows(id, headings=tuple(heading for heading, _ in columns), rows=cells)


def _model_name(row: SweepRow) -> str:
    return row.model + (" ★" if row.on_front else "")


def _columns(rows: Sequence[SweepRow]) -> Iterator[SweepColumn]:
    if len({row.batch for row in rows}) > 1 or any(row.batch not in (None, 1) for row in rows):
        yield BATCH_HEADING, lambda row: row.batch
    yield CASE, lambda row: row.label + (" ★" if row.on_front else "")
    yield MEDIAN_HEADING, _median
    yield LATENCY, lambda row: _pair(row.head)
    if any(row.column("gpu") for row in rows):
        yield GPU, lambda row: _pair(row.column("gpu"))
    yield P99_HEADING, _p99
    yield ITEMS_HEADING, _items
    if any(row.size_bytes for row in rows):
        yield SIZE_HEADING, _size
    for place, metric in enumerate(dict.fromkeys(name for row in rows for name in row.scores)):
        yield score_heading(metric, place), _score(metric)
    if any(row.max_abs is not None for row in rows):
        yield MAX_ABS, lambda row: Cell(value=row.max_abs, text=_difference(row.max_abs))
        yield SQNR, _sqnr
    for name in ("layers", "parameters"):
        if any(getattr(row, name) is not None for row in rows):
            yield Heading(key=name, title=name.capitalize(), align="right", rank=8), _count(name)


def _median(row: SweepRow) -> Cell:
    if row.head is None:
        return Cell(text="failed", tone="bad")
    text = text_from_duration(row.head.median, bounds=row.head.median_interval)
    return Cell(value=row.head.median, text=text)


def _pair(found: ColumnSummary | None) -> Cell:
    if found is None:
        return Cell()
    unit = unit_for_seconds(found.mean)
    ends = (text_from_duration(each, unit=unit) for each in (found.mean, found.max))
    return Cell(value=found.mean, text=" / ".join(ends))


def _p99(row: SweepRow) -> Cell:
    head = row.head
    return Cell() if head is None else quantile_cell(head, 0.99, unit_for_seconds(head.median))


def _items(row: SweepRow) -> Cell:
    rate = row.summary.items_per_s if row.summary else None
    return rate_cell(rate)


def _size(row: SweepRow) -> Cell:
    return bytes_cell(row.size_bytes)


def _difference(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def _sqnr(row: SweepRow) -> Cell:
    text = "same" if row.max_abs == 0 else None if row.sqnr_db is None else f"{row.sqnr_db:.1f} dB"
    return Cell(value=row.sqnr_db, text=text or MISSING)


def _score(metric: str) -> Callable[[SweepRow], Cell]:
    def cell(row: SweepRow) -> Cell:
        score = row.scores.get(metric)
        if score is None:
            return Cell()
        share = is_share(metric)
        text = f"{100 * score.value:.2f} %" if share else f"{score.value:.4g}"
        return Cell(value=score.value, text=text)

    return cell


def _count(name: str) -> Callable[[SweepRow], Cell]:
    return lambda row: count_cell(getattr(row, name))


def _remarks(rows: Sequence[SweepRow]) -> Iterator[Text]:
    """Say what columns and marks mean, what failed, and what to know of the rest."""
    if any(row.summary for row in rows):
        gpu = any(row.column("gpu") for row in rows)
        yield Text(text=LATENCY_WORDS + (f", GPU {GPU_WORDS}." if gpu else "."))
    if any(row.max_abs is not None for row in rows):
        yield Text(text=OUTPUT_WORDS)
    if any(row.on_front for row in rows):
        yield Text(text=FRONT.format(of="the table" if compares_models(rows) else "the model"))
    for row in rows:
        if row.reason is not None:
            yield Text(text=f"failed: {_name(row)}: {row.reason}", tone="bad")
    for remark in dict.fromkeys(row.remark for row in rows if row.remark):
        yield Text(text=f"note: {remark}")
    yield from _warnings(rows)


def _warnings(rows: Sequence[SweepRow]) -> Iterator[Text]:
    """Name what makes numbers doubtful, once, and of which rows unless it is so of all."""
    measured = [row for row in rows if row.reason is None]
    by_name = compares_models(rows) and len({row.model for row in measured}) == len(measured)
    grave = gather(
        (row.model if by_name else str(place), each)
        for place, row in enumerate(measured)
        for each in row.findings
        if each.severity != "note"
    )
    said = []
    for item in grave.items if grave else ():
        which = ", ".join(item.runs) if by_name else f"{len(item.runs)} of {len(measured)} rows"
        told = "" if len(item.runs) == len(measured) else f" ({which})"
        said.append(f"{item.finding.code} {short_title(item)}{told}")
    if said:
        yield Text(text=f"warnings: {', '.join(said)}; the report says more.", tone="unclear")


def _chosen(chosen: Chosen, rows: Sequence[SweepRow], *, where: str, by: str) -> Section:
    """List what meets a condition, the best first, and what could not be judged."""
    blocks: list[Block] = []
    if chosen.rows:
        blocks.append(_table("chosen", chosen.rows, models=True))
        blocks.append(Text(text=f"best by {by}: {_name(chosen.rows[0])}", tone="good"))
    for name, number in chosen.unknown.items():
        how = "longer runs tell" if name[:1] == "p" else "--data tells accuracies"
        blocks.append(Text(text=f"{name} is not known of {number} rows: {how}", tone="unclear"))
    measured = sum(row.reason is None for row in rows)
    title = f"where {where}: {len(chosen.rows)} of {measured}"
    return Section(id="chosen", title=title, blocks=tuple(blocks))


def _name(row: SweepRow) -> str:
    return f"{row.model} · {row.label}" + (f" · batch {row.batch}" if row.batch else "")


def _estimate(each: KindEstimate) -> Cell:
    if each.count == each.cached:
        return Cell()
    if each.seconds is None:
        return Cell(text="unknown")
    basis = f" ({each.guessed} by their settings alone)" if each.guessed else " (as before)"
    return Cell(value=each.seconds, text=text_from_long_time(each.seconds) + basis)
