"""Times files (``--exportTimes``) of every TensorRT version, and what their columns mean.

| variant | written by   | keys                                             | warm-up rows |
|---------|--------------|--------------------------------------------------|--------------|
| ``7.0`` | 7.0          | In, Compute, Out stamps; endToEndMs              | in the file  |
| ``7.1`` | 7.1 to 7.2   | Enq and In stamps, swapped by trtexec; endToEndMs | in the file |
| ``8.0`` | 8.0 to 8.2   | Enq, H2d, Compute, D2h stamps; endToEndMs        | in the file  |
| ``8.4`` | 8.4          | the same without endToEndMs                      | in the file  |
| ``8.5`` | 8.5 to 11    | the same keys as 8.4                             | left out     |
| ``other`` | other tools | durations only                                  | unknown      |

A file that is cut off is an error, never a shorter file: the facts say how many rows were read.

trtexec writes every row with the same keys, so a decoder for just these keys reads many rows at
once; rows that differ are read one by one, with ``nan`` and ``inf``. Files are read piece by piece:
one of any size needs little memory beyond its columns.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import ParseError
from trtbench.core.samples import Column, IterationTimes, join_launches, times_from_columns
from trtbench.trtexec.exports import (
    DECIMALS,
    documents_from_json,
    json_from_rows,
    number_from_value,
    parse_error,
    quoted,
    text_from_bytes,
    value_from_text,
    with_json_words,
)

_DURATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "latency": (("latencyMs",), ("latency", "hostlatency", "totallatency", "latencytime")),
    "enqueue": ((), ("enqueue", "enqueuetime")),
    "h2d": (("h2dMs", "inMs"), ("h2d", "h2dlatency", "in")),
    "gpu": (("computeMs",), ("compute", "gpu", "gpucompute", "gpucomputetime", "computetime")),
    "d2h": (("d2hMs", "outMs"), ("d2h", "d2hlatency", "out")),
    "end_to_end": (("endToEndMs",), ("endtoend", "e2e", "endtoendlatency")),
}
"""Columns of durations: the keys that any trtexec writes, and what other tools call them, in
small letters without signs and unit."""
_KEYS = {name: printed[0] if printed else f"{name}Ms" for name, (printed, _) in _DURATIONS.items()}
"""As trtexec writes them since TensorRT 8.0; other units are turned into these."""
_PHASES = ("Enq", "H2d", "Compute", "D2h", "In", "Out")
KNOWN_KEYS = frozenset(
    [f"{end}{phase}Ms" for phase in _PHASES for end in ("start", "end")]
    + [key for printed, _ in _DURATIONS.values() for key in printed]
)
_UNITS = {
    "milliseconds": 1.0, "microseconds": 1e-3, "nanoseconds": 1e-6, "seconds": 1e3, "msec": 1.0,
    "usec": 1e-3, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3,
}  # fmt: skip
"""Milliseconds in what a key ends with, the longest ending first."""
_NOT_LETTERS = re.compile(r"[^a-z0-9]")
_SECONDS_ALONE = re.compile(r"(?:[^a-zA-Z0-9]s\W?|[a-z0-9]S)\Z")
"""A single s is a unit only where it stands apart: ``gpu_s``, not the plural ``gpus``."""


def duration_names(keys: Iterable[str]) -> dict[str, str]:
    """Find the key of each duration column among the keys of a file."""
    given = list(keys)
    found: dict[str, str] = {}
    for name, (printed, _) in _DURATIONS.items():
        key = next((key for key in printed if key in given), None)
        key = key or next((key for key in given if column_of(key) == name), None)
        if key is not None:
            found[name] = key
    return found


def column_of(key: str) -> str | None:
    """The column a key stands for, whatever its spelling and unit."""
    return _meaning(key)[0]


def milliseconds_of(key: str) -> float | None:
    """The milliseconds in a key's unit, ``None`` where it names none."""
    return _meaning(key)[1]


@functools.cache
def _meaning(key: str) -> tuple[str | None, float | None]:
    """Read ``GPU compute (ms)``, ``gpuComputeMs`` and ``gpu_compute_us`` by word and unit."""
    plain = _NOT_LETTERS.sub("", key.lower().replace("µ", "u"))
    for ending, factor in (*_UNITS.items(), ("", None)):
        if ending == "s" and not _SECONDS_ALONE.search(key):
            continue
        if plain.endswith(ending):
            word = plain[: len(plain) - len(ending)]
            for name, (_, words) in _DURATIONS.items():
                if word in words:
                    return name, factor
    return None, None


PIECE_BYTES = 512 * 1024
LONGEST_ROW_BYTES = 1024 * 1024
_MOST_KEYS = 64
_KEY = re.compile(r"[ -!#-\[\]-~]+")
_SPACE = re.compile(rb"[ \t\r\n\0]*")
_BRACES = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)


class Layout(NamedTuple):
    """The keys of rows, and what reads many rows that have just these, all of them numbers."""

    keys: tuple[str, ...]
    decoder: msgspec.json.Decoder[list[Any]]
    values: Callable[[Any], tuple[float, ...]]

    def matrix(self, rows: bytes) -> Column | None:
        """Read whole rows with the commas between them; ``None`` where any row differs."""
        try:
            found = self.decoder.decode(b"[" + rows + b"]")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        numbers = chain.from_iterable(map(self.values, found))
        return np.fromiter(numbers, np.float64).reshape(-1, len(self.keys))


def layout_from_row(row: bytes) -> Layout | None:
    """Learn the keys from a row."""
    keys = tuple(_row_from_json(row, strict=True) or ())
    if not 1 < len(keys) <= _MOST_KEYS or not all(map(_KEY.fullmatch, keys)):
        return None
    fields = {f"field_{place}": key for place, key in enumerate(keys)}
    kind = msgspec.defstruct(
        "Row",
        [(name, float) for name in fields],
        rename=fields,
        forbid_unknown_fields=True,
        gc=False,
    )
    return Layout(keys, msgspec.json.Decoder(list[kind]), operator.attrgetter(*fields))  # type: ignore[valid-type]


class RowTable:
    """Rows that grow in number; a key that a row lacks is nan there."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.rows = 0
        self._data = np.empty((0, 0))

    def add(self, keys: tuple[str, ...], matrix: Column) -> None:
        """Append rows that all have the same keys."""
        end = self.rows + len(matrix)
        new = [key for key in keys if key not in self.keys]
        if new:
            self.keys += new
            wider = np.full((end, len(self.keys)), math.nan)
            wider[: self.rows, : -len(new)] = self._data[: self.rows]
            self._data = wider
        elif end > len(self._data):  # in place, as the system moves pages without copying them
            self._data.resize((max(end, len(self._data) * 3 // 2), len(self.keys)), refcheck=False)
        target = self._data[self.rows : end]
        if tuple(self.keys) == keys:
            target[:] = matrix
        else:
            target[:] = math.nan
            target[:, [self.keys.index(key) for key in keys]] = matrix
        self.rows = end

    def add_row(self, row: Mapping[str, object]) -> None:
        """Append one row of anything; what is not a number becomes nan."""
        self.add(tuple(row), np.array([[number_from_value(each) for each in row.values()]]))

    def columns(self) -> dict[str, Column]:
        return {key: self._data[: self.rows, index] for index, key in enumerate(self.keys)}


class ArrayReader:
    """Reads ``[ {..}, {..} ] [ {..} ] ...`` from a stream: one table for each array."""

    def __init__(self, source: BinaryIO, *, where: str, head: bytes) -> None:
        self._source = source
        self._where = where
        self._buffer = head
        self._position = 0
        self._passed = 0
        self._layout: Layout | None = None
        self._differs_until = 0
        """Up to this byte of the file rows are read one by one."""
        self.tables: list[RowTable] = []

    def read(self) -> list[RowTable]:
        """Read to the end of the stream; anything but arrays of objects is an error."""
        while self._next_byte():
            self._expect(b"[", "'[' (an array of rows) or the end of the file")
            self.tables.append(RowTable())
            while self._next_byte() != b"]":
                if self.tables[-1].rows:
                    self._expect(b",", "',' or ']' after a row")
                if self._next_byte() != b"{":
                    raise self._broken("'{' (a row)")
                self._read_rows(self.tables[-1])
            self._position += 1
        return self.tables

    def _read_rows(self, table: RowTable) -> None:
        """Read the rows that lie complete in the buffer, or one row if they differ in layout."""
        end = self._buffer.find(b"]", self._position)
        stop = self._buffer.rfind(b"}", self._position, end if end >= 0 else None) + 1
        if stop and self._passed + self._position >= self._differs_until:
            rows = self._buffer[self._position : stop]
            matrix = self._layout.matrix(rows) if self._layout else None
            if matrix is None:
                self._layout = layout_from_row(rows[: rows.find(b"}") + 1])
                matrix = self._layout.matrix(rows) if self._layout else None
            if matrix is not None and self._layout is not None:
                table.add(self._layout.keys, matrix)
                self._position = stop
                return
            self._differs_until = self._passed + stop
        end = self._buffer.find(b"}", self._position) + 1
        row = _row_from_json(self._buffer[self._position : end], strict=True) if end else None
        if row is None:
            end = self._row_end()
            row = _row_from_json(self._buffer[self._position : end])
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
        piece = self._source.read(PIECE_BYTES)
        self._passed += self._position
        self._buffer = self._buffer[self._position :] + piece
        self._position = 0
        return bool(piece)

    def _expect(self, byte: bytes, expected: str) -> None:
        if self._next_byte() != byte:
            raise self._broken(expected)
        self._position += 1

    def _broken(self, expected: str) -> ParseError:
        at = self._buffer[self._position : self._position + 40]
        rows = sum(table.rows for table in self.tables)
        return parse_error(
            self._where,
            what="is cut off" if not at else _NOT_TIMES,
            place=f"byte {self._passed + self._position}, after row {rows}",
            expected=expected,
            found=quoted(at),
            facts={"rows read": rows},
            fix="let trtexec write it again with --exportTimes" if not at else None,
        )


def _row_from_json(text: bytes, *, strict: bool = False) -> dict[str, object] | None:
    """Read one object, with ``nan`` and ``inf`` unless strict; ``None`` if it is none."""
    row: object = None
    try:
        row = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        if not strict:
            with contextlib.suppress(ParseError):
                plain = with_json_words(text.decode("utf-8", "replace"))
                row, _ = value_from_text(plain, where="row")
    return row if isinstance(row, dict) else None


_NESTS = ("times", "iterations", "runs", "perIteration", "per_iteration", "iteration_times")
_DEEPEST = 6
EXPECTED, _NOT_TIMES = "the rows of trtexec --exportTimes", "is not a times file of trtexec"
_WRAPPINGS = 3
"""How often a file may be a string that holds the file."""


def tables_from_stream(stream: BinaryIO, *, where: str, wrappings: int = 0) -> list[RowTable]:
    """Read arrays piece by piece; other layouts, and JSON within a string, as a whole."""
    head = stream.read(PIECE_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb"):
        text = text_from_bytes(head + stream.read(), where=where, expected=EXPECTED)
        stream = io.BytesIO(text.encode("utf-8", "replace"))
        head = stream.read(PIECE_BYTES)
    first = head.lstrip(b" \t\r\n\0")[:1]
    if first == b"[":
        return ArrayReader(stream, where=where, head=head).read()
    if first not in (b"{", b'"') or wrappings >= _WRAPPINGS:
        text_from_bytes(head, where=where, expected=EXPECTED)  # empty and binary files
        raise parse_error(where, what=_NOT_TIMES, place="byte 0", expected=EXPECTED)
    documents = documents_from_json(
        head + stream.read(), where=where, expected=EXPECTED, unwrap=False
    )
    if first == b'"' and isinstance(documents[0], str) and len(documents) == 1:
        inner = io.BytesIO(documents[0].encode("utf-8", "replace"))
        return tables_from_stream(inner, where=where, wrappings=wrappings + 1)
    return [_table_in(each, where=where) for each in documents]


def _table_in(document: object, *, where: str) -> RowTable:
    for rows in _candidates(document, depth=0):
        if rows.rows and duration_names(rows.keys):
            return rows
    what, expected = "has no iteration times", "rows with computeMs or latencyMs"
    raise parse_error(where, what=what, place="the whole document", expected=expected)


def _candidates(value: object, *, depth: int) -> Iterator[RowTable]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        table = RowTable()
        for row in value:
            table.add_row(row)
        yield table
    elif isinstance(value, dict):
        # Columns of equal length, {key: [numbers]}, are a table.
        lists = {key: each for key, each in value.items() if isinstance(each, list) and each}
        wanted = duration_names(lists)
        if wanted:
            length = len(lists[next(iter(wanted.values()))])
            equal = {key: each for key, each in lists.items() if len(each) == length}
            table = RowTable()
            columns = [[number_from_value(v) for v in each] for each in equal.values()]
            table.add(tuple(equal), np.array(columns).T)
            yield table
        named = [value[name] for name in _NESTS if name in value]
        for each in (*named, *value.values()):
            yield from _candidates(each, depth=depth + 1)


Variant = Literal["7.0", "7.1", "8.0", "8.4", "8.5", "other"]

DEFAULT_WARMUP_MS = 200.0
"""trtexec's own default for --warmUp, in every version."""
_PRINTED_DIGITS = 6
"""trtexec prints with the default precision of a C++ stream."""
_ENDS = ("start", "end")
STAMPS = {
    f"{end}_{phase}": f"{end}{name}Ms"
    for phase, name in (("enqueue", "Enq"), ("h2d", "H2d"), ("gpu", "Compute"), ("d2h", "D2h"))
    for end in _ENDS
}
"""Columns of stamps and the keys they have had since TensorRT 8.0."""
_IN_OUT = {f"{end}_{k}": f"{end}{v}Ms" for k, v in (("h2d", "In"), ("d2h", "Out")) for end in _ENDS}
_SWAPPED = {
    f"{end}_{k}": f"{end}{v}Ms" for k, v in (("enqueue", "In"), ("h2d", "Enq")) for end in _ENDS
}


@dataclass(frozen=True, eq=False, kw_only=True)
class TimesArray:
    """The rows of one run, warm-up removed: columns as printed, in milliseconds."""

    variant: Variant
    columns: dict[str, Column]
    warmup_rows: int = 0
    warmup_ms: float | None = None
    """The length of warm-up those rows were recognised by; ``None`` when none was applied."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @cached_property
    def swapped(self) -> bool:
        """Whether the Enq and In stamps have changed places, as TensorRT 7.1 and 7.2 write them."""
        if self.variant != "7.1" or "inMs" not in self.columns:
            return False
        columns, errors = self.columns, []
        for name in ("EnqMs", "InMs"):
            span = columns[f"end{name}"] - columns[f"start{name}"]
            errors.append(float(np.median(np.abs(span - columns["inMs"]))))
        return errors[0] <= errors[1]

    @cached_property
    def stamps_ms(self) -> dict[str, Column]:
        """Points in time under the names of their phases, whatever the version called them."""
        names = {**STAMPS, **(_IN_OUT if self.variant in ("7.0", "7.1") else {})}
        if self.swapped:
            names |= _SWAPPED
        return {name: self.columns[key] for name, key in names.items() if key in self.columns}

    @property
    def enqueue_resolution_s(self) -> float | None:
        """How coarse enqueue times are that come from stamps of six digits; ``None`` if finer.

        At 5 s a stamp is a multiple of 0.01 ms, which is often longer than the enqueue itself.
        """
        stamps = self.stamps_ms.get("end_enqueue")
        if stamps is None or not len(stamps):
            return None
        finite = stamps[np.isfinite(stamps)][-4096:]
        largest = float(np.max(np.abs(finite), initial=0.0))
        if largest == 0:
            return None
        step_ms = 10.0 ** (math.floor(math.log10(largest)) - _PRINTED_DIGITS + 1)
        coarse = finite[np.abs(finite) >= 10.0 ** math.floor(math.log10(largest))] / step_ms
        if np.abs(coarse - np.rint(coarse)).max(initial=0.0) > 1e-3:
            return None
        return step_ms / 1e3


@dataclass(frozen=True, eq=False, kw_only=True)
class TimesFile:
    """A times file: one array for each export that was written into it, one after another."""

    arrays: tuple[TimesArray, ...]

    def __len__(self) -> int:
        return sum(len(array) for array in self.arrays)

    @property
    def variant(self) -> str:
        """The schema, or ``mixed`` when the arrays differ."""
        variants = {array.variant for array in self.arrays}
        return next(iter(variants)) if len(variants) == 1 else "mixed"

    @property
    def warmup_rows(self) -> int:
        return sum(array.warmup_rows for array in self.arrays)

    @property
    def enqueue_resolution_s(self) -> float | None:
        """The coarsest of the arrays."""
        found = [array.enqueue_resolution_s for array in self.arrays]
        return max((each for each in found if each is not None), default=None)


def read_times(
    source: bytes | bytearray | memoryview | BinaryIO, *, where: str, warmup_ms: float | None = None
) -> TimesFile:
    """Read a times file from bytes or, piece by piece, from anything that has ``read``.

    Rows whose computation began before ``warmup_ms`` are removed from the beginning of every
    array. When it is not given, trtexec's default of 200 ms is assumed for the versions that
    write warm-up rows. 8.4 and 8.5 have the same keys: an array that begins in the first half
    of those 200 ms shows its warm-up. If the rule leaves nothing, there was no such warm-up.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    tables = tables_from_stream(source, where=where)
    arrays = tuple(_array(table, warmup_ms, where=where) for table in tables)
    if not any(len(array) for array in arrays):
        raise parse_error(where, what="has no rows", place="the whole file", expected=EXPECTED)
    return TimesFile(arrays=arrays)


def times_from_file(file: TimesFile) -> IterationTimes:
    """The measured times in seconds, every array as a launch of its own.

    Arrays of one file are separate processes, so they are launches; where they measured
    different things (a batch sweep), take them one by one. Phases that were not run (h2d and
    d2h all exactly zero: transfers were off) are absent, and so are rows of inf or nan.
    """
    launches = [_times(each) for each in file.arrays if len(each)]
    return launches[0] if len(launches) == 1 else join_launches(launches)


def _array(table: RowTable, warmup_ms: float | None, *, where: str) -> TimesArray:
    columns = table.columns()
    for name, key in duration_names(columns).items():
        factor = milliseconds_of(key)
        if factor not in (None, 1.0):  # latencyUs, latency_s
            columns[_KEYS[name]] = columns.pop(key) * factor
    if table.rows and not duration_names(columns):
        expected, found = "rows with computeMs or latencyMs", ", ".join(list(columns)[:6])
        raise parse_error(where, what=_NOT_TIMES, place="row 1", expected=expected, found=found)
    return without_warmup(columns, warmup_ms)


def without_warmup(columns: dict[str, Column], warmup_ms: float | None) -> TimesArray:
    """Name the schema by its keys, and leave out the rows before the first that is no warm-up."""
    limit_ms = DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms
    starts = columns.get("startComputeMs")
    variant: Variant
    if "startInMs" in columns:
        variant = "7.1" if "startEnqMs" in columns else "7.0"
    elif starts is None:
        variant = "other"
    elif "endToEndMs" in columns:
        variant = "8.0"
    else:  # the same keys: files of 8.4 begin with the warm-up
        variant = "8.4" if min(starts[:1], default=math.inf) < limit_ms / 2 else "8.5"
    skipped, applied = 0, None
    if starts is not None and variant not in ("8.5", "other"):
        measured = starts >= limit_ms
        if measured.any():
            skipped, applied = int(np.argmax(measured)), limit_ms
    return TimesArray(
        variant=variant,
        columns={key: column[skipped:] for key, column in columns.items()},
        warmup_rows=skipped,
        warmup_ms=applied,
    )


def _times(array: TimesArray) -> IterationTimes:
    measured = np.ones(len(array), bool)  # rows whose durations are all numbers
    for key in duration_names(array.columns).values():
        measured &= np.isfinite(array.columns[key])
    keep = slice(None) if measured.all() else measured
    spans = {name: array.columns[key][keep] for name, key in duration_names(array.columns).items()}
    stamps = {name: column[keep] for name, column in array.stamps_ms.items()}
    if "enqueue" not in spans and {"start_enqueue", "end_enqueue"} <= stamps.keys():
        spans["enqueue"] = stamps["end_enqueue"] - stamps["start_enqueue"]
    if not any(spans[name].any() for name in ("h2d", "d2h") if name in spans):
        spans = {name: span for name, span in spans.items() if name not in ("h2d", "d2h")}
    columns: dict[str, NDArray[np.generic]] = {
        name: column / 1e3 for name, column in (*spans.items(), *stamps.items())
    }
    begin = stamps.get("start_h2d", stamps.get("start_gpu"))
    if begin is not None and len(begin):
        columns["start"] = (begin - begin[0]) / 1e3
    return times_from_columns(columns)


def statistics_as_printed(
    columns: Mapping[str, Column], *, warmup_ms: float
) -> dict[str, dict[str, float]]:
    """Extremes and median as trtexec prints them, in milliseconds; empty for other columns.

    Its means are left out: they are sums in single precision, off by percents in long runs.
    """
    names, starts = duration_names(columns), columns.get("startComputeMs")
    if starts is None or not names.keys() >= {"h2d", "gpu", "d2h"}:
        return {}
    measured = starts >= warmup_ms
    if not measured.any():
        return {}
    first = int(np.argmax(measured))
    h2d, gpu, d2h = (columns[names[name]][first:] for name in ("h2d", "gpu", "d2h"))
    return {
        label: {
            "min_ms": float(np.min(span)),
            "max_ms": float(np.max(span)),
            "median_ms": float(np.median(span)),
        }
        for label, span in (("GPU Compute Time", gpu), ("Latency", h2d + gpu + d2h))
    }


SPANS = {"h2dMs": "h2d", "computeMs": "gpu", "d2hMs": "d2h", "latencyMs": "latency"}


def times_json(times: IterationTimes) -> bytes:
    """Write ``times.json``: one object of twelve keys per iteration; what was not seen is null.

    The format has no key for the enqueue span: it is the difference of two stamps. Where only the
    span is known, the stamps count from the start of the iteration.
    """
    columns: dict[str, Column | None] = {
        key: times.stamps.get(name) for name, key in STAMPS.items()
    }
    if columns["startEnqMs"] is None and times.enqueue is not None and times.start is not None:
        columns |= {"startEnqMs": times.start, "endEnqMs": times.start + times.enqueue}
    columns |= {key: getattr(times, name) for key, name in SPANS.items()}
    lists: list[list[float | None]] = [
        [None] * len(times) if column is None else np.round(column * 1e3, DECIMALS).tolist()
        for column in columns.values()
    ]
    keys = list(columns)
    return json_from_rows(dict(zip(keys, row, strict=True)) for row in zip(*lists, strict=True))
