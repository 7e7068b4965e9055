"""Reads and writes times files (``--exportTimes``) of every TensorRT version.

| variant | written by   | keys                                             | warm-up rows |
|---------|--------------|--------------------------------------------------|--------------|
| ``7.0`` | 7.0          | In, Compute, Out stamps; endToEndMs              | in the file  |
| ``7.1`` | 7.1 to 7.2   | Enq and In stamps, swapped by trtexec; endToEndMs | in the file |
| ``8.0`` | 8.0 to 8.2   | Enq, H2d, Compute, D2h stamps; endToEndMs        | in the file  |
| ``8.4`` | 8.4          | the same without endToEndMs                      | in the file  |
| ``8.5`` | 8.5 to 11    | the same keys as 8.4                             | left out     |
| ``other`` | other tools | durations only                                  | unknown      |

A truncated file is an error. trtexec writes every row with the same keys, so a decoder for these
keys reads many rows at once; rows that differ are read one by one.
"""

import contextlib
import functools
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import BinaryIO, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, ParseError
from trtbench.core.samples import Column, IterationTimes, join_launches, times_from_columns
from trtbench.trtexec import exports

_DURATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "latency": (("latencyMs",), ("latency", "hostlatency", "totallatency", "latencytime")),
    "enqueue": ((), ("enqueue", "enqueuetime")),
    "h2d": (("h2dMs", "inMs"), ("h2d", "h2dlatency", "in")),
    "gpu": (("computeMs",), ("compute", "gpu", "gpucompute", "gpucomputetime", "computetime")),
    "d2h": (("d2hMs", "outMs"), ("d2h", "d2hlatency", "out")),
    "end_to_end": (("endToEndMs",), ("endtoend", "e2e", "endtoendlatency")),
}
"""Columns of durations: the keys of trtexec, and the names in other tools (lower case, without
punctuation and unit)."""
_KEYS = {name: printed[0] if printed else f"{name}Ms" for name, (printed, _) in _DURATIONS.items()}
"""The keys of trtexec since TensorRT 8.0; columns in other units are converted to these."""
_PHASES = ("Enq", "H2d", "Compute", "D2h", "In", "Out")
KNOWN_KEYS = frozenset(
    [f"{end}{phase}Ms" for phase in _PHASES for end in ("start", "end")]
    + [key for printed, _ in _DURATIONS.values() for key in printed]
)
_UNITS = {
    "milliseconds": 1.0, "microseconds": 1e-3, "nanoseconds": 1e-6, "seconds": 1e3, "msec": 1.0,
    "usec": 1e-3, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\d.])\s*([a-zA-Zµ]*)")
_NOT_LETTERS = re.compile(r"[^a-z0-9]")
_SECONDS_ALONE = re.compile(r"(?:[^a-zA-Z0-9]s\W?|[a-z0-9]S)\Z")
"""A single s is a unit only if it is separate: ``gpu_s``, not the plural ``gpus``."""


def duration_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the key of each duration column among the keys of a file."""
    given = list(keys)
    found: dict[str, str] = {}
    for name, (printed, _) in _DURATIONS.items():
        of_trtexec = [key for key in printed if key in given]
        of_others = [key for key in given if column_and_unit(key)[0] == name]
        if candidates := of_trtexec + of_others:
            found[name] = candidates[0]
    return found


@functools.cache
def column_and_unit(key: str) -> tuple[str | None, float | None]:
    """Return the column of a key (``GPU compute (ms)``, ``gpu_us``), and its unit in ms."""
    plain = _NOT_LETTERS.sub("", key.lower().replace("µ", "u"))
    for ending, factor in (*_UNITS.items(), ("", None)):
        if not plain.endswith(ending) or (ending == "s" and not _SECONDS_ALONE.search(key)):
            continue
        for name, (_, words) in _DURATIONS.items():
            if plain.removesuffix(ending) in words:
                return name, factor
    return None, None


def timed(key: str, value: object) -> tuple[str, float]:
    """Return a time in the unit of its key; a text such as ``2005.6 us`` has its own unit."""
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not match[2]:
        return key, exports.number_from_value(float(match[1]) if match else value)
    factor = _UNITS.get(match[2].lower().replace("µ", "u"), math.nan)
    own = column_and_unit(key)[1]
    return (key if own else f"{key}Ms"), float(match[1]) * factor / (own or 1.0)


PIECE_BYTES = 512 * 1024
LONGEST_ROW_BYTES = 1024 * 1024
_WARMING_BYTES = 8 * 1024 * 1024
"""Freeing one block of this size keeps glibc from returning memory to the system after every
piece, which costs a third of the time."""
_SPACE = re.compile(rb"[ \t\r\n\0]*")
_NUMBERS = re.compile(rb'[ \t\r\n\0]*\[\s*[-\d."]')  # a list without rows
_BRACES = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)

_MOST_KEYS = 64  # of rows that are read many at once


@functools.lru_cache(maxsize=16)
def _decoder(keys: tuple[str, ...]) -> msgspec.json.Decoder[list[msgspec.Struct]]:
    """Return a decoder for rows that have exactly these keys, each with a number."""
    names = {f"k{place}": key for place, key in enumerate(keys)}
    fields = [(name, float) for name in names]
    row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _matrix_from_rows(rows: bytes, keys: tuple[str, ...]) -> Column | None:
    """Return complete rows as an array (rows, keys); ``None`` if one of them differs."""
    try:
        found = _decoder(keys).decode(b"[%b]" % rows)
    except msgspec.MsgspecError:
        return None
    numbers = chain.from_iterable(map(msgspec.structs.astuple, found))
    return np.fromiter(numbers, np.float64, len(found) * len(keys)).reshape(-1, len(keys))


def _keys_of_row(row: bytes) -> tuple[str, ...]:
    """Return the keys of a row of numbers; none for other rows, which are read one by one."""
    found = _row_from_json(row) or {}
    plain = all(type(value) in (int, float) for value in found.values())
    return tuple(found) if plain and len(found) <= _MOST_KEYS else ()


class RowTable:
    """A growing table of rows; keys that a row lacks are nan."""

    def __init__(self, *, expected_rows: int = 0) -> None:
        self.keys: list[str] = []
        self.rows = 0
        self._data = np.empty((0, 0))
        self._expected_rows = expected_rows

    def add(self, keys: tuple[str, ...], matrix: Column) -> None:
        """Append rows that all have the same keys."""
        end = self.rows + len(matrix)
        new = [key for key in keys if key not in self.keys]
        if new:
            self.keys += new
            # Pages after the last row are not touched, so too large an estimate costs no memory.
            wider = np.empty((max(end, self._expected_rows), len(self.keys)))
            wider[: self.rows, : -len(new)] = self._data[: self.rows]
            wider[: self.rows, -len(new) :] = math.nan
            self._data = wider
        elif end > len(self._data):  # in place: the system moves pages without a copy
            self._data.resize((max(end, len(self._data) * 5 // 4), len(self.keys)), refcheck=False)
        target = self._data[self.rows : end]
        if tuple(self.keys) == keys:
            target[:] = matrix
        else:
            target[:] = math.nan
            target[:, [self.keys.index(key) for key in keys]] = matrix
        self.rows = end

    def add_row(self, row: Mapping[str, object]) -> None:
        """Append one row; values that are neither numbers nor times become nan."""
        numbers = dict(timed(key, value) for key, value in row.items())
        self.add(tuple(numbers), np.array([list(numbers.values())]))

    def columns(self) -> dict[str, Column]:
        return {key: self._data[: self.rows, index] for index, key in enumerate(self.keys)}


class ArrayReader:
    """Reads ``[ {..}, {..} ] [ {..} ] ...`` from a stream into one table per array."""

    def __init__(self, source: BinaryIO, *, where: str, head: bytes) -> None:
        self._source, self._where, self._buffer = source, where, head
        self._position = self._consumed = 0
        here = source.tell()
        self._size = source.seek(0, io.SEEK_END) - here
        source.seek(here)
        self._keys: tuple[str, ...] = ()  # of the last rows that were read many at once
        self._irregular_until = 0  # rows before this byte of the file are read one by one
        self.tables: list[RowTable] = []

    def read(self) -> list[RowTable]:
        """Return the tables in the stream; anything but arrays of objects is an error."""
        np.empty(_WARMING_BYTES, np.uint8)
        while self._next_byte():
            self._expect(b"[", "'[' (an array of rows) or the end of the file")
            self._position += 1
            buffered = len(self._buffer) - self._position
            left = max(self._size - self._consumed - self._position, buffered)
            rows = self._buffer.count(b"}", self._position) + 1
            expected = int(rows * (left / max(buffered, 1)) * 1.02) + 16
            self.tables.append(RowTable(expected_rows=expected))
            while self._next_byte() != b"]":
                if self.tables[-1].rows:
                    self._expect(b",", "',' or ']' after a row")
                    self._position += 1
                self._expect(b"{", "'{' (a row)")
                self._read_rows(self.tables[-1])
            self._position += 1
        return self.tables

    def _read_rows(self, table: RowTable) -> None:
        """Add the complete rows in the buffer to a table, or one row if their keys differ."""
        end = self._buffer.find(b"]", self._position)
        stop = self._buffer.rfind(b"}", self._position, end if end >= 0 else None) + 1
        if stop and self._consumed + self._position >= self._irregular_until:
            rows = self._buffer[self._position : stop]
            matrix = _matrix_from_rows(rows, self._keys) if self._keys else None
            if matrix is None:
                self._keys = _keys_of_row(rows[: rows.index(b"}") + 1])
                matrix = _matrix_from_rows(rows, self._keys) if self._keys else None
            if matrix is not None:
                table.add(self._keys, matrix)
                self._position = stop
                return
            self._irregular_until = self._consumed + stop
        end = self._buffer.find(b"}", self._position) + 1
        row = _row_from_json(self._buffer[self._position : end]) if end else None
        if row is None:
            end = self._row_end()
            row = _row_from_json(self._buffer[self._position : end])
        if row is None:
            raise self._error('a row of numbers: { "key" : number, ... }')
        table.add_row(row)
        self._position = end

    def _row_end(self) -> int:
        """Return the end of the current row; more is read if the buffer ends before it."""
        while True:
            depth = 0
            for match in _BRACES.finditer(self._buffer, self._position):
                depth += {b"{": 1, b"}": -1}.get(match.group(), 0)
                if depth == 0:
                    return match.end()
            if len(self._buffer) - self._position > LONGEST_ROW_BYTES:
                raise self._error(f"a row that ends within {LONGEST_ROW_BYTES} bytes")
            if not self._read_more():
                self._position = len(self._buffer)
                raise self._error("'}' (the end of a row)")

    def _next_byte(self) -> bytes:
        """Skip white space and return the next byte; empty at the end of the file."""
        while True:
            match = _SPACE.match(self._buffer, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._buffer):
                return self._buffer[self._position : self._position + 1]
            if not self._read_more():
                return b""

    def _read_more(self) -> bool:
        piece = self._source.read(PIECE_BYTES)
        self._consumed += self._position
        self._buffer = self._buffer[self._position :] + piece
        self._position = 0
        return bool(piece)

    def _expect(self, byte: bytes, expected: str) -> None:
        if self._next_byte() != byte:
            raise self._error(expected)

    def _error(self, expected: str) -> ParseError:
        at = self._buffer[self._position : self._position + 40]
        found = repr(at.decode("utf-8", "replace")) if at else "the end of the file"
        rows = sum(table.rows for table in self.tables)
        return exports.parse_error(
            self._where,
            what="is cut off" if not at else _NOT_TIMES,
            place=f"byte {self._consumed + self._position}, after row {rows}",
            expected=expected,
            facts={"found": found, "rows read": rows},
            fix="let trtexec write it again with --exportTimes" if not at else None,
        )


def _row_from_json(text: bytes) -> dict[str, object] | None:
    """Return a JSON object, which may hold ``nan`` and ``inf``; ``None`` if it is invalid."""
    row: object = None
    try:
        row = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        with contextlib.suppress(ParseError):
            plain = exports.with_json_constants(text.decode("utf-8", "replace"))
            row, _ = exports.value_from_text(plain, where="row")
    return row if isinstance(row, dict) else None


_NESTED_KEYS = ("times", "iterations", "runs", "perIteration", "per_iteration", "iteration_times")
_MAX_DEPTH = 6
EXPECTED, _NOT_TIMES = "the rows of trtexec --exportTimes", "is not a times file of trtexec"


def _time_tables(value: object, *, depth: int, listed: bool = True) -> Iterator[RowTable]:
    """Yield the tables of durations in a JSON value, at any depth; ``listed``: may be latencies."""
    if depth > _MAX_DEPTH:
        return
    table = RowTable()
    if isinstance(value, list):
        for row in value:
            if isinstance(row, dict):
                table.add_row(row)
            elif listed:
                table.add_row({"latency": row})
        if table.rows and duration_names(table.keys):
            yield table
    elif isinstance(value, dict):
        # Columns of equal length, {key: [numbers]}, are a table.
        lists = {key: each for key, each in value.items() if isinstance(each, list) and each}
        wanted = duration_names(lists)
        if wanted:
            length = len(lists[next(iter(wanted.values()))])
            equal = {key: each for key, each in lists.items() if len(each) == length}
            columns = [[timed(key, v) for v in each] for key, each in equal.items()]
            numbers = [[number for _, number in column] for column in columns]
            table.add(tuple(column[0][0] for column in columns), np.array(numbers).T)
            yield table
        for name in (*(name for name in _NESTED_KEYS if name in value), *value):
            yield from _time_tables(value[name], depth=depth + 1, listed=name in _NESTED_KEYS)


Variant = Literal["7.0", "7.1", "8.0", "8.4", "8.5", "other"]

DEFAULT_WARMUP_MS = 200.0  # the default of --warmUp in every version of trtexec
_ENDS = ("start", "end")
STAMPS = {
    f"{end}_{phase}": f"{end}{name}Ms"
    for phase, name in (("enqueue", "Enq"), ("h2d", "H2d"), ("gpu", "Compute"), ("d2h", "D2h"))
    for end in _ENDS
}
_IN_OUT = {f"{end}_{k}": f"{end}{v}Ms" for k, v in (("h2d", "In"), ("d2h", "Out")) for end in _ENDS}
_SWAPPED = {
    f"{end}_{k}": f"{end}{v}Ms" for k, v in (("enqueue", "In"), ("h2d", "Enq")) for end in _ENDS
}


@dataclass(frozen=True, eq=False, kw_only=True)
class TimesArray:
    """The rows of one run without warm-up; columns are in milliseconds, as printed."""

    variant: Variant
    columns: dict[str, Column]
    warmup_rows: int = 0
    warmup_ms: float | None = None
    """The warm-up time used to remove rows; ``None`` if no rows could be removed."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def without_unit(self) -> bool:
        """Whether neither a key nor a value says the unit of a duration; it is taken for ms."""
        return any(not column_and_unit(key)[1] for key in duration_names(self.columns).values())

    @cached_property
    def swapped(self) -> bool:
        """Whether the Enq and In stamps are swapped, as TensorRT 7.1 and 7.2 write them."""
        if self.variant != "7.1" or "inMs" not in self.columns:
            return False
        columns = self.columns
        spans = (columns[f"end{name}"] - columns[f"start{name}"] for name in ("EnqMs", "InMs"))
        enqueue, h2d = (float(np.median(np.abs(span - columns["inMs"]))) for span in spans)
        return enqueue <= h2d

    @cached_property
    def stamps_ms(self) -> dict[str, Column]:
        """Time stamps by the names of their phases, which are the same for all versions."""
        names = {**STAMPS, **(_IN_OUT if self.variant in ("7.0", "7.1") else {})}
        if self.swapped:
            names |= _SWAPPED
        return {name: self.columns[key] for name, key in names.items() if key in self.columns}

    @property
    def enqueue_resolution_s(self) -> float | None:
        """The resolution of enqueue times from stamps with six digits; ``None`` if finer."""
        stamps = self.stamps_ms.get("end_enqueue")
        if stamps is None or not len(stamps):
            return None
        finite = stamps[np.isfinite(stamps)][-4096:]
        largest = float(np.max(np.abs(finite), initial=0.0))
        if largest == 0:
            return None
        # trtexec prints with the default precision of a C++ stream.
        step_ms = 10.0 ** (math.floor(math.log10(largest)) - 6 + 1)
        coarse = finite[np.abs(finite) >= 10.0 ** math.floor(math.log10(largest))] / step_ms
        if np.abs(coarse - np.rint(coarse)).max(initial=0.0) > 1e-3:
            return None
        return step_ms / 1e3


def read_times(
    source: bytes | BinaryIO, *, where: str, warmup_ms: float | None = None
) -> tuple[TimesArray, ...]:
    """Return the arrays of a times file, one per export in it.

    Rows that start to compute before ``warmup_ms`` are removed from the start of every array.
    The default is 200 ms for the versions that write warm-up rows. 8.4 and 8.5 have the same
    keys: an array that starts in the first half of the warm-up includes it (8.4). If no rows
    would be left, none are removed.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    head = stream.read(PIECE_BYTES)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb"):
        text = exports.text_from_bytes(head + stream.read(), where=where, expected=EXPECTED)
        stream = io.BytesIO(text.encode("utf-8", "replace"))
        head = stream.read(PIECE_BYTES)
    first = head.lstrip(b" \t\r\n\0")[:1]
    if first == b"[" and not _NUMBERS.match(head):
        tables = ArrayReader(stream, where=where, head=head).read()
    elif first in (b"[", b"{"):
        data = head + stream.read()
        documents = exports.documents_from_json(data, where=where, expected=EXPECTED)
        tables = [next(_time_tables(each, depth=0), RowTable()) for each in documents]
    else:
        exports.text_from_bytes(head, where=where, expected=EXPECTED)  # empty and binary files
        raise exports.parse_error(where, what=_NOT_TIMES, place="byte 0", expected=EXPECTED)
    arrays = []
    for table in tables:
        columns = table.columns()
        for name, key in duration_names(columns).items():
            factor = column_and_unit(key)[1]
            if factor not in (None, 1.0):  # latencyUs, latency_s
                columns[_KEYS[name]] = columns.pop(key) * factor
        if table.rows and not duration_names(columns):
            wanted, facts = "rows with computeMs or latencyMs", {"found": ", ".join([*columns][:6])}
            raise exports.parse_error(
                where, what=_NOT_TIMES, place="row 1", expected=wanted, facts=facts
            )
        arrays.append(without_warmup(columns, warmup_ms))
    if not any(_measured(array).any() for array in arrays):
        what = "has no rows" if not any(map(len, arrays)) else "has no rows of finite times"
        raise exports.parse_error(where, what=what, expected=EXPECTED)
    return tuple(arrays)


def _measured(array: TimesArray) -> NDArray[np.bool_]:
    """Which rows have durations that are all finite."""
    measured = np.ones(len(array), bool)
    for key in duration_names(array.columns).values():
        measured &= np.isfinite(array.columns[key])
    return measured


def times_from_arrays(arrays: Iterable[TimesArray]) -> IterationTimes:
    """Return the measured times in seconds, with one launch per array.

    Arrays in one file are from separate processes, so they are launches; if they measured
    different things (a batch sweep), pass them one by one. h2d and d2h are left out if they
    are all zero, because transfers were off; so are rows with inf or nan.
    """
    launches = []
    for array in arrays:
        if not len(array):
            continue
        names, measured = duration_names(array.columns), _measured(array)
        keep = slice(None) if measured.all() else measured
        spans = {name: array.columns[key][keep] for name, key in names.items()}
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
        launches.append(times_from_columns(columns))
    return launches[0] if len(launches) == 1 else join_launches(launches)


def without_warmup(
    columns: dict[str, Column], warmup_ms: float | None, *, stated: bool = False
) -> TimesArray:
    """Return the array without warm-up rows; its variant follows from the keys.

    A ``stated`` warm-up is left out of any file; files of TensorRT 8.5 and later begin after it.
    """
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
    starts = columns.get("startInMs", starts) if stated else starts
    if starts is not None and (stated or variant != "8.5"):
        measured = starts >= limit_ms
        if measured.any():
            skipped, applied = int(np.argmax(measured)), limit_ms
    if stated and applied is None:
        last = "has no start times" if starts is None else f"ends after {max(starts):.0f} ms"
        message = f"a warm-up of {limit_ms:g} ms cannot be left out: the file {last}"
        raise InputError(message, fix="a shorter --warmup, or none")
    kept = {key: column[skipped:] for key, column in columns.items()}
    return TimesArray(variant=variant, columns=kept, warmup_rows=skipped, warmup_ms=applied)


def statistics_as_printed(
    columns: Mapping[str, Column], *, warmup_ms: float
) -> dict[str, dict[str, float]]:
    """Return min, max and median in ms as trtexec prints them (its mean is less precise)."""
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
            "min": float(span.min()),
            "max": float(span.max()),
            "median": float(np.median(span)),
        }
        for label, span in (("GPU Compute Time", gpu), ("Latency", h2d + gpu + d2h))
    }


def times_json(times: IterationTimes) -> bytes:
    """Return ``times.json``: an object with twelve keys per iteration; unknown values are null.

    The format has no key for the enqueue duration, which is the difference of two stamps. If
    only the duration is known, the first stamp is the start of the iteration.
    """
    columns: dict[str, Column | None] = {
        key: times.stamps.get(name) for name, key in STAMPS.items()
    }
    if columns["startEnqMs"] is None and times.enqueue is not None and times.start is not None:
        columns |= {"startEnqMs": times.start, "endEnqMs": times.start + times.enqueue}
    columns |= {_KEYS[name]: getattr(times, name) for name in ("h2d", "gpu", "d2h", "latency")}
    lists: list[list[float | None]] = [
        [None] * len(times) if column is None else np.round(column * 1e3, exports.DECIMALS).tolist()
        for column in columns.values()
    ]
    rows = zip(*lists, strict=True)
    return exports.json_from_rows(dict(zip(columns, row, strict=True)) for row in rows)
