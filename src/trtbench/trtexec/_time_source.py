"""From the bytes of a times file to tables, whichever way it is wrapped."""

from __future__ import annotations

import io
from typing import BinaryIO

from trtbench.errors import ParseError
from trtbench.trtexec import _rows
from trtbench.trtexec._json import documents_from_json, parse_error, quoted, text_from_bytes
from trtbench.trtexec._time_layouts import tables_from_document

EXPECTED = "the rows of trtexec --exportTimes"
_WRAPPINGS = 3
"""How often a file may be a string that holds the file."""


def tables_from_stream(stream: BinaryIO, *, where: str, wrappings: int = 0) -> list[_rows.RowTable]:
    """Read arrays piece by piece; other layouts, and JSON within a string, as a whole."""
    size = _size(stream)
    head = stream.read(_rows.PIECE_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = text_from_bytes(head + stream.read(), where=where, expected=EXPECTED)
        stream = io.BytesIO(text.encode("utf-8", "replace"))
        head = stream.read(_rows.PIECE_BYTES)
    if head.startswith(b"\xef\xbb\xbf"):
        head = b"   " + head[3:]
    first = head.lstrip(b" \t\r\n\0")[:1]
    if first == b"[":
        return _rows.ArrayReader(stream, where=where, head=head, size=size).read()
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
