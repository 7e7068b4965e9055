"""Ranks of several candidates side by side, one table for each output with classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trtbench.analysis.check_classes import ClassCheck
from trtbench.domain.result import Scalar
from trtbench.report.document import Cell, Heading, Table, table_from_rows
from trtbench.units import text_from_fraction

if TYPE_CHECKING:
    from trtbench.workflows.check.values import Checked

Columns = list[tuple[str, ClassCheck]]
"""Candidates by name, of which several may have the same."""


def rank_tables(checked: Checked) -> Iterator[Table]:
    """Hold candidates beside each other, rank by rank; one alone has its table already."""
    outputs: dict[str, Columns] = {}
    for each in checked.candidates:
        for check in each.checks:
            if check.classes is not None:
                column = (each.side.model.name, check.classes)
                outputs.setdefault(check.output, []).append(column)
    for number, (output, columns) in enumerate(outputs.items()):
        if len(columns) < 2:
            continue
        if not any(each.unranked for _, each in columns):  # else not all are of the same input
            yield _best(checked.reference.model.name, columns, f"top_{number}", output)
        yield _differences(columns, f"ranks_{number}", output)


def _best(reference: str, columns: Columns, id: str, output: str) -> Table:
    """List score and class at every rank of one input, the reference's first."""
    first = columns[0][1]
    sides = [(reference, first.top_reference), *((name, each.top) for name, each in columns)]
    rows: list[list[Cell | Scalar]] = [[place + 1] for place in range(len(first.top_reference))]
    for _, top in sides:
        for place, row in enumerate(rows):
            best = top[place] if place < len(top) else None
            if best is None:
                row += [None, None]
            else:
                row += [Cell(value=best.score, text=f"{best.score:.4g}"), best.label]
    return table_from_rows(
        id, headings=_headings([name for name, _ in sides], ("score", "class")), rows=rows,
        caption=f"Best classes of {output} of the first input: score and class side by side.",
    )  # fmt: skip


def _differences(columns: Columns, id: str, output: str) -> Table:
    """List the error of every candidate's score at each rank, and how often the class differs."""
    rows: list[list[Cell | Scalar]] = []
    for place in range(min(len(each.ranks) for _, each in columns)):
        rows.append([place + 1])
        for _, each in columns:
            rank = each.ranks[place]
            shown = "–" if rank.mae is None else f"{rank.mae:.3g}"
            rows[-1] += [
                Cell(value=rank.mae, text=shown),
                Cell(value=rank.disagree, text=text_from_fraction(rank.disagree)),
            ]
    return table_from_rows(
        id, headings=_headings([name for name, _ in columns], ("MAE", "disagree")), rows=rows,
        caption=f"Ranks of {output} over all inputs: error of the score, and other class.",
    )  # fmt: skip


def _headings(names: Iterable[str], what: tuple[str, str]) -> tuple[Heading, ...]:
    pairs = [
        Heading(key=f"{word}_{number}", title=f"{name} {word}", align="right", fit="wrap")
        for number, name in enumerate(names)
        for word in what
    ]
    return (Heading(key="rank", title="Rank", align="right"), *pairs)
