"""Arrays of flat rows, read piece by piece so that a file of any size needs little memory.

Knows brackets, braces and columns; does not know what a column means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import msgspec
import numpy as np

from trtbench.domain.samples import Column
from trtbench.errors import ParseError
from trtbench.trtexec._json import (
    number_from_value,
    parse_error,
    quoted,
    value_from_text,
    with_json_words,
)
from trtbench.trtexec._numbers import Layout, layout_from_rows, matrix_from_rows
from trtbench.trtexec._time_keys import column_of

PIECE_BYTES = 512 * 1024
"""Small enough to stay in the processor's cache while it is searched and turned into numbers."""
LONGEST_ROW_BYTES = 1024 * 1024
_KEPT_BYTES = 8 * 1024 * 1024
"""glibc returns memory to the system after every piece, and faults it in again for the next,
until a block of this size has once been freed; that costs a third of the time."""
_SPACE = re.compile(rb"[ \t\r\n\0]*")
_BRACES = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
_QUANTITY = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(ns|us|µs|microseconds|ms|s)\s*\Z")
_MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "microseconds": 1e-3, "ms": 1.0, "s": 1e3}


class RowTable:
    """Columns that grow by rows; a key that a row lacks is nan there."""

    def __init__(self, *, expected_rows: int = 1024) -> None:
        self.keys: list[str] = []
        self.rows = 0
        self.seen: dict[str, int] = {}
        """How many rows had a key."""
        self._data = np.empty((0, max(expected_rows, 1)))

    def add_matrix(self, matrix: Column, keys: tuple[str, ...]) -> None:
        """Append rows that all have the same keys."""
        count = len(matrix)
        self._reserve(keys, count)
        target = self._data[:, self.rows : self.rows + count]
        if tuple(self.keys) == keys:
            target[:] = matrix.T
        else:
            target[:] = math.nan
            target[[self.keys.index(key) for key in keys]] = matrix.T
        self.rows += count
        for key in keys:
            self.seen[key] = self.seen.get(key, 0) + count

    def add_row(self, row: Mapping[str, object]) -> None:
        """Append one row of anything; what is not a number becomes nan."""
        flat = dict(_flattened(row))
        numbers = [milliseconds(value) for value in flat.values()]
        self.add_matrix(np.array([numbers], np.float64), tuple(flat))

    def columns(self) -> dict[str, Column]:
        """Compute the columns, and no more memory than they need."""
        data = self._data[:, : self.rows]
        if self.rows < self._data.shape[1] // 2:
            data = data.copy()
        return {key: data[index] for index, key in enumerate(self.keys)}

    def _reserve(self, keys: tuple[str, ...], count: int) -> None:
        new = [key for key in keys if key not in self.seen]
        capacity = self._data.shape[1]
        if not new and self.rows + count <= capacity:
            return
        if self.rows + count > capacity:
            capacity = max(capacity * 3 // 2, self.rows + count)
        data = np.empty((len(self.keys) + len(new), capacity))
        data[: len(self.keys), : self.rows] = self._data[:, : self.rows]
        data[len(self.keys) :, : self.rows] = math.nan
        self._data = data
        self.keys += new


def _flattened(row: Mapping[str, object], *, depth: int = 0) -> Iterator[tuple[str, object]]:
    """List the numbers of a row that is nested: ``{"latency_ms": {"total": 1.5}}``."""
    for key, value in row.items():
        inner = _inside(key, value, depth) if isinstance(value, dict) and depth < 3 else []
        if any(column_of(name) for name, _ in inner):
            yield from inner
        else:
            yield key, value


def _inside(key: str, value: Mapping[object, object], depth: int) -> list[tuple[str, object]]:
    inner = _flattened({str(k): v for k, v in value.items()}, depth=depth + 1)
    return [(_joined(key, name), each) for name, each in inner]


def _joined(key: str, name: str) -> str:
    if column_of(key) is not None and name.lower() in _WHOLE:
        return key
    return name if column_of(name) is not None else f"{key}_{name}"


_WHOLE = ("total", "value", "all", "time", "duration")
"""Under the name of a duration, words that mean all of it."""


def milliseconds(value: object) -> float:
    """Read a number, or a text with a unit such as ``1000us``, as milliseconds."""
    if isinstance(value, str):
        match = _QUANTITY.match(value)
        try:
            return float(match.group(1)) * _MILLISECONDS[match.group(2)] if match else math.nan
        except ValueError:
            return math.nan
    return number_from_value(value)


class ArrayReader:
    """Reads ``[ {..}, {..} ] [ {..} ] ...`` from a stream: one table for each array."""

    def __init__(self, source: BinaryIO, *, where: str, head: bytes, size: int | None) -> None:
        self._source = source
        self._where = where
        self._size = size
        self._buffer = head
        self._position = 0
        self._passed = 0
        """Bytes of the file before the buffer."""
        self._ended = False
        self._layout: Layout | None = None
        self._differs_until = 0
        """Up to this byte of the file rows are read one by one."""
        self.tables: list[RowTable] = []

    def read(self) -> list[RowTable]:
        """Read to the end of the stream; anything but arrays of objects is an error."""
        np.empty(_KEPT_BYTES, np.uint8)
        while self._next_byte():
            self._expect(b"[", "'[' (an array of rows) or the end of the file")
            self.tables.append(RowTable(expected_rows=self._expected_rows()))
            self._read_array(self.tables[-1])
        return self.tables

    def _read_array(self, table: RowTable) -> None:
        if self._next_byte() == b"]":
            self._position += 1
            return
        while True:
            if self._next_byte() != b"{":
                raise self._broken("'{' (a row)")
            self._read_rows(table)
            if self._next_byte() == b"]":
                self._position += 1
                return
            self._expect(b",", "',' or ']' after a row")

    def _read_rows(self, table: RowTable) -> None:
        """Read the rows that lie complete in the buffer, or one row if they differ in layout."""
        if self._passed + self._position < self._differs_until:
            self._read_row(table)
            return
        end = self._buffer.find(b"]", self._position)
        stop = self._buffer.rfind(b"}", self._position, end if end >= 0 else None) + 1
        matrix = self._matrix(self._buffer[self._position : stop]) if stop else None
        if matrix is None or self._layout is None:
            self._differs_until = self._passed + stop
            self._read_row(table)
            return
        table.add_matrix(matrix, self._layout.keys)
        self._position = stop

    def _matrix(self, rows: bytes) -> Column | None:
        if self._layout is not None:
            matrix = matrix_from_rows(rows, self._layout)
            if matrix is not None:
                return matrix
        self._layout = layout_from_rows(rows)
        return matrix_from_rows(rows, self._layout) if self._layout else None

    def _read_row(self, table: RowTable) -> None:
        end = self._buffer.find(b"}", self._position) + 1
        row = row_from_json(self._buffer[self._position : end], strict=True) if end else None
        if row is None:
            end = self._row_end()
            row = row_from_json(self._buffer[self._position : end])
        if row is None:
            raise self._broken('a row of numbers: { "key" : number, ... }')
        table.add_row(row)
        self._position = end

    def _row_end(self) -> int:
        """Find the brace that closes the row at hand, reading on where the buffer ends."""
        while True:
            depth = 0
            for match in _BRACES.finditer(self._buffer, self._position):
                depth += {b"{": 1, b"}": -1}.get(match.group(), 0)
                if depth == 0:
                    return match.end()
            if len(self._buffer) - self._position > LONGEST_ROW_BYTES:
                raise self._broken(f"a row that ends within {LONGEST_ROW_BYTES} bytes")
            if not self._read_on():
                self._position = len(self._buffer)
                raise self._broken("'}' (the end of a row)")

    def _next_byte(self) -> bytes:
        """Skip blanks and give the byte at hand; none at the end of the file."""
        while True:
            match = _SPACE.match(self._buffer, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._buffer):
                return self._buffer[self._position : self._position + 1]
            if not self._read_on():
                return b""

    def _read_on(self) -> bool:
        piece = b"" if self._ended else self._source.read(PIECE_BYTES)
        self._ended = not piece
        self._passed += self._position
        self._buffer = self._buffer[self._position :] + piece
        self._position = 0
        return bool(piece)

    def _expect(self, byte: bytes, expected: str) -> None:
        if self._next_byte() != byte:
            raise self._broken(expected)
        self._position += 1

    def _expected_rows(self) -> int:
        """Guess from the rows at hand, so that columns rarely have to be moved as they grow."""
        rows = self._buffer.count(b"}", self._position) + 1
        bytes_at_hand = len(self._buffer) - self._position
        left = max((self._size or 0) - self._passed - self._position, bytes_at_hand)
        return int(rows * (left / max(bytes_at_hand, 1)) * 1.02) + 16

    def _broken(self, expected: str) -> ParseError:
        at = self._buffer[self._position : self._position + 40]
        rows = sum(table.rows for table in self.tables)
        return parse_error(
            self._where,
            what="is cut off" if not at else "is not a times file of trtexec",
            place=f"byte {self._passed + self._position}, after row {rows}",
            expected=expected,
            found=quoted(at),
            facts={"rows read": rows},
            fix="let trtexec write it again with --exportTimes" if not at else None,
        )


def row_from_json(text: bytes, *, strict: bool = False) -> dict[str, object] | None:
    """Read one object, with ``nan`` and ``inf`` unless strict; ``None`` if it is none."""
    row: object = None
    try:
        row = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        if strict:
            return None
        row = _lenient_row(text)
    return row if isinstance(row, dict) else None


def _lenient_row(text: bytes) -> object:
    try:
        row, _ = value_from_text(with_json_words(text.decode("utf-8", "replace")), where="row")
    except ParseError:
        return None
    return row
