"""Layouts in which other tools keep iteration times, as the evaluation toolkit accepts them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trtbench.trtexec._json import parse_error
from trtbench.trtexec._rows import RowTable, milliseconds
from trtbench.trtexec._time_keys import duration_names

_ROW_LISTS = ("times", "iterations", "runs")
_COLUMN_SETS = ("perIteration", "per_iteration", "iteration_times")
_DEEPEST = 6


def tables_from_document(document: object, *, where: str) -> list[RowTable]:
    """Find the rows or columns of a decoded document, wherever they are nested."""
    for rows in _candidates(document, depth=0):
        if rows.rows and duration_names(rows.keys):
            return [rows]
    keys = ", ".join(list(document)[:6]) if isinstance(document, dict) else type(document).__name__
    raise parse_error(
        where,
        what="has no iteration times",
        place="the whole document",
        expected="rows with computeMs or latencyMs, in a list or under times or perIteration",
        found=keys or "an empty object",
    )


def _candidates(value: object, *, depth: int) -> Iterator[RowTable]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        yield from _rows(value)
        return
    if not isinstance(value, dict):
        return
    named = [value[name] for name in (*_ROW_LISTS, *_COLUMN_SETS) if name in value]
    yield from _columns(value)
    for each in (*named, *value.values()):
        yield from _candidates(each, depth=depth + 1)


def _rows(values: list[object]) -> Iterator[RowTable]:
    rows = [row for row in values if isinstance(row, dict)]
    if rows and len(rows) == len(values):
        table = RowTable(expected_rows=len(rows))
        for row in rows:
            table.add_row({str(key): value for key, value in row.items()})
        yield table


def _columns(value: dict[str, object]) -> Iterator[RowTable]:
    """Take ``{key: [numbers]}`` with columns of equal length as a table."""
    lists = {key: each for key, each in value.items() if isinstance(each, list) and each}
    wanted = duration_names(lists)
    if not wanted:
        return
    length = len(lists[next(iter(wanted.values()))])
    equal = {key: each for key, each in lists.items() if len(each) == length}
    matrix = np.array([[milliseconds(v) for v in each] for each in equal.values()])
    table = RowTable(expected_rows=length)
    table.add_matrix(matrix.T, tuple(equal))
    yield table
