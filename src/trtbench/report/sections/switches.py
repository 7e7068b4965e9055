"""What the first query after a change of shape or profile costs, where runs timed changes."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.switching import switches_from_facts
from trtbench.domain.result import Run
from trtbench.report.cells import fraction_cell, seconds_cell
from trtbench.report.document import Cell, Heading, Section, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.labels import labels_from_runs
from trtbench.report.run_switch import cost_in_words

ORDER = 76
HEADINGS = (
    RUN_HEADING,
    Heading(key="to", title="Change to"),
    Heading(key="stay_s", title="Staying", align="right"),
    Heading(key="cost_s", title="First query after it (95 %)"),
    Heading(key="share", title="Share", align="right", rank=1),
)
CAPTION = (
    "Whole queries as the host sees them, without a CUDA graph, four of a shape in a row: the "
    "first of each four against the median of the others."
)


def make(runs: Sequence[Run]) -> Section | None:
    """List both directions of every run that changed shapes."""
    rows: list[list[Cell | str]] = []
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        for each in switches_from_facts(run.record.facts):
            share = each.cost_s / each.stay_s if each.stay_s else None
            rows.append(
                [
                    label,
                    each.to,
                    seconds_cell(each.stay_s),
                    Cell(value=each.cost_s, text=cost_in_words(each)),
                    fraction_cell(share, digits=1, signed=True),
                ]
            )
    if not rows:
        return None
    table = table_from_rows("switches", headings=HEADINGS, rows=rows, caption=CAPTION)
    return Section(id="switches", title="Changes of shape", blocks=(table,))
