"""From the bytes of a times file to tables, whichever way it is wrapped."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from trtbench.errors import ParseError
from trtbench.trtexec._json import documents_from_json, parse_error, quoted, text_from_bytes
from trtbench.trtexec._rows import PIECE_BYTES, ArrayReader, RowTable, milliseconds
from trtbench.trtexec._time_keys import duration_names

_ROW_LISTS = ("times", "iterations", "runs")
_COLUMN_SETS = ("perIteration", "per_iteration", "iteration_times")
_DEEPEST = 6
EXPECTED = "the rows of trtexec --exportTimes"
_WRAPPINGS = 3
"""How often a file may be a string that holds the file."""


def tables_from_stream(stream: BinaryIO, *, where: str, wrappings: int = 0) -> list[RowTable]:
    """Read arrays piece by piece; other layouts, and JSON within a string, as a whole."""
    size = _size(stream)
    head = stream.read(PIECE_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = text_from_bytes(head + stream.read(), where=where, expected=EXPECTED)
        stream = io.BytesIO(text.encode("utf-8", "replace"))
        head = stream.read(PIECE_BYTES)
    if head.startswith(b"\xef\xbb\xbf"):
        head = b"   " + head[3:]
    first = head.lstrip(b" \t\r\n\0")[:1]
    if first == b"[":
        return ArrayReader(stream, where=where, head=head, size=size).read()
    if first not in (b"{", b'"') or wrappings >= _WRAPPINGS:
        raise _not_json(head, where=where)
    documents = documents_from_json(
        head + stream.read(), where=where, expected=EXPECTED, unwrap=False
    )
    if first == b'"' and isinstance(documents[0], str) and len(documents) == 1:
        inner = io.BytesIO(documents[0].encode("utf-8", "replace"))
        return tables_from_stream(inner, where=where, wrappings=wrappings + 1)
    return [table for each in documents for table in tables_from_document(each, where=where)]


def _not_json(head: bytes, *, where: str) -> ParseError:
    text = text_from_bytes(head, where=where, expected=EXPECTED)
    return parse_error(
        where,
        what="is not a times file of trtexec",
        place="byte 0",
        expected=EXPECTED,
        found=quoted(text.lstrip()),
    )


def _size(stream: BinaryIO) -> int | None:
    try:
        here = stream.tell()
        stream.seek(0, io.SEEK_END)
        size = stream.tell()
        stream.seek(here)
    except (OSError, AttributeError):  # a pipe
        return None
    return size - here


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
