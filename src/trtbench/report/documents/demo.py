"""The demo: every run in a row, and INT8 against FP32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtbench.domain.result import Run, Scores
from trtbench.report.cells import bytes_cell, fraction_cell, rate_cell
from trtbench.report.document import Block, Cell, Document, Heading, Section, Text, table_from_rows
from trtbench.report.documents.comparison import reasons, verdict_table
from trtbench.report.documents.run import quantile_cell
from trtbench.report.headings import (
    BATCH_HEADING,
    MEDIAN_HEADING,
    MODEL_HEADING,
    P99_HEADING,
    PRECISION_HEADING,
    SIZE_HEADING,
    THROUGHPUT_HEADING,
)
from trtbench.report.labels import model_name, precision_name
from trtbench.report.numbers import text_from_duration, unit_for_seconds
from trtbench.report.run_facts import summary_of

if TYPE_CHECKING:
    from trtbench.workflows.demo import Demo

SHOWN_METRICS = 2
CONTENDED = "H09"
"""The finding that other work held the CPU."""
HEADINGS = (
    MODEL_HEADING,
    PRECISION_HEADING,
    BATCH_HEADING,
    MEDIAN_HEADING,
    P99_HEADING,
    THROUGHPUT_HEADING,
    Heading(key="top1", title="Top-1", align="right", rank=1),
    SIZE_HEADING,
)


def document_from_demo(found: Demo) -> Document:
    """Describe what the demo measured and judged."""
    rows = [_row(run, found.scores) for run in found.runs]
    table = table_from_rows("demo", headings=HEADINGS, rows=rows)
    sections = [Section(id="runs", title="", blocks=(table,))]
    for batch, compared in found.compared.items():
        verdicts = compared.comparison.verdicts[:SHOWN_METRICS]
        blocks: tuple[Block, ...] = (
            verdict_table(verdicts, id=f"verdicts_{batch}"),
            *reasons(verdicts),
        )
        title = f"INT8 against FP32, batch {batch}"
        sections.append(Section(id=f"batch-{batch}", title=title, blocks=blocks))
    if words := words_on_neighbours(found.runs):
        busy = Text(text=words, tone="unclear")
        sections.append(Section(id="neighbours", title="", blocks=(busy,)))
    created = max(run.record.created for run in found.runs)
    return Document(title="", created=created, sections=tuple(sections))


def words_on_neighbours(runs: Sequence[Run]) -> str | None:
    """Say that the machine did other work meanwhile: that, not the tool, blurs the answers."""
    found = [each for run in runs for each in run.findings if each.code == CONTENDED]
    if not found:
        return None
    return (
        f"This machine did other work meanwhile, in {len(found)} of {len(runs)} runs: times are "
        "longer and answers less clear than on a quiet one. Stop it, then: trtbench demo"
    )


def _row(run: Run, scores: dict[str, Scores]) -> tuple[Cell | str | int | None, ...]:
    spec, summary, precision = run.record.spec, summary_of(run), precision_name(run.record)
    head = summary.column(summary.headline)
    unit = unit_for_seconds(head.median)
    top1 = scores[precision or ""].scores[0].value
    median = text_from_duration(head.median, bounds=head.median_interval, unit=unit)
    return (
        model_name(run.record),
        precision,
        spec.batch,
        Cell(value=head.median, text=median),
        quantile_cell(head, 0.99, unit),
        rate_cell(summary.items_per_s, what="items"),
        fraction_cell(top1),
        bytes_cell(spec.model.size_bytes),
    )
