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
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.samples import Column, IterationTimes, join_launches, times_from_columns
from trtbench.errors import ParseError
from trtbench.trtexec._json import parse_error
from trtbench.trtexec._rows import RowTable
from trtbench.trtexec._time_keys import KNOWN_KEYS, column_of, duration_names, in_milliseconds
from trtbench.trtexec._time_source import EXPECTED, tables_from_stream

Variant = Literal["7.0", "7.1", "8.0", "8.4", "8.5", "other"]

DEFAULT_WARMUP_MS = 200.0
"""trtexec's own default for --warmUp, in every version."""
_PRINTED_DIGITS = 6
"""trtexec prints with the default precision of a C++ stream."""
STAMPS = {
    "start_enqueue": "startEnqMs",
    "end_enqueue": "endEnqMs",
    "start_h2d": "startH2dMs",
    "end_h2d": "endH2dMs",
    "start_gpu": "startComputeMs",
    "end_gpu": "endComputeMs",
    "start_d2h": "startD2hMs",
    "end_d2h": "endD2hMs",
}
"""Columns of stamps and the keys they have had since TensorRT 8.0."""
_IN_OUT = {
    "start_h2d": "startInMs",
    "end_h2d": "endInMs",
    "start_d2h": "startOutMs",
    "end_d2h": "endOutMs",
}
_SWAPPED = {
    "start_enqueue": "startInMs",
    "end_enqueue": "endInMs",
    "start_h2d": "startEnqMs",
    "end_h2d": "endEnqMs",
}


def variant_of(columns: dict[str, Column], *, warmup_ms: float | None) -> Variant:
    """Name the schema by its keys, and 8.4 apart from 8.5 by whether warm-up rows are there."""
    if "startInMs" in columns:
        return "7.1" if "startEnqMs" in columns else "7.0"
    if "startComputeMs" not in columns:
        return "other"
    if "endToEndMs" in columns:
        return "8.0"
    begins_ms = min(columns["startComputeMs"][:1], default=math.inf)
    limit_ms = DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms
    return "8.4" if begins_ms < limit_ms / 2 else "8.5"


def warmup_of(
    columns: dict[str, Column], *, variant: Variant, warmup_ms: float | None
) -> float | None:
    """Take the length of warm-up to look for in files that have it: as stated, else the default."""
    if "startComputeMs" not in columns or variant in ("8.5", "other"):
        return None
    return DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms


def count_warmup_rows(columns: dict[str, Column], *, warmup_ms: float | None) -> int:
    """Count the rows before the first that is no warm-up, which is where trtexec begins."""
    if warmup_ms is None:
        return 0
    measured = columns["startComputeMs"] >= warmup_ms
    return int(np.argmax(measured)) if measured.any() else len(measured)


@dataclass(frozen=True, eq=False, kw_only=True)
class TimesArray:
    """The rows of one run, warm-up removed: columns as printed, in milliseconds."""

    variant: Variant
    columns: dict[str, Column]
    warmup_rows: int = 0
    """Rows removed because they belong to the warm-up."""
    warmup_ms: float | None = None
    """The length of warm-up those rows were recognised by; ``None`` when none was applied."""
    unknown_keys: dict[str, int] = field(default_factory=dict)
    """Keys no version of trtexec writes, and how many rows have them."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @cached_property
    def swapped(self) -> bool:
        """Whether the Enq and In stamps have changed places, as TensorRT 7.1 and 7.2 write them."""
        if self.variant != "7.1" or "inMs" not in self.columns:
            return False
        given = self.columns["inMs"]
        errors = [
            float(np.median(np.abs(self._span(start, end) - given)))
            for start, end in (("startEnqMs", "endEnqMs"), ("startInMs", "endInMs"))
        ]
        return errors[0] <= errors[1]

    def _span(self, start: str, end: str) -> Column:
        return self.columns[end] - self.columns[start]

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
    def columns(self) -> dict[str, Column]:
        """Columns of the whole file, of the keys that all arrays have."""
        if len(self.arrays) == 1:
            return self.arrays[0].columns
        shared = [
            key for key in self.arrays[0].columns if all(key in a.columns for a in self.arrays)
        ]
        return {key: np.concatenate([a.columns[key] for a in self.arrays]) for key in shared}

    @property
    def warmup_rows(self) -> int:
        return sum(array.warmup_rows for array in self.arrays)

    @property
    def unknown_keys(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for array in self.arrays:
            for key, count in array.unknown_keys.items():
                total[key] = total.get(key, 0) + count
        return total

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
    tables = tables_from_stream(_stream(source), where=where)
    arrays = tuple(_array(table, warmup_ms, where=where) for table in tables)
    if not any(len(array) for array in arrays):
        raise parse_error(where, what="has no rows", place="the whole file", expected=EXPECTED)
    return TimesFile(arrays=arrays)


def times_from_file(file: TimesFile, *, array: int | None = None) -> IterationTimes:
    """Make the measured times in seconds, every array as a launch of its own, or one array.

    Arrays of one file are separate processes, so they are launches; where they measured
    different things (a batch sweep), take them one by one. Phases that were not run (h2d and
    d2h all exactly zero: transfers were off) are absent, and so are rows of inf or nan.
    """
    if array is not None:
        return _times(file.arrays[array])
    launches = [_times(each) for each in file.arrays if len(each)]
    return launches[0] if len(launches) == 1 else join_launches(launches)


def _stream(source: bytes | bytearray | memoryview | BinaryIO) -> BinaryIO:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source)
    return source


def without_warmup(array: TimesArray, warmup_ms: float | None) -> TimesArray:
    """Leave warm-up out of an array that was read with all its rows (``warmup_ms=0``)."""
    return _cut(array.columns, warmup_ms, unknown_keys=array.unknown_keys)


def _array(table: RowTable, warmup_ms: float | None, *, where: str) -> TimesArray:
    columns = in_milliseconds(table.columns())
    if table.rows and not duration_names(columns):
        raise _not_times(columns, where=where)
    unknown = {
        key: n for key, n in table.seen.items() if key not in KNOWN_KEYS and column_of(key) is None
    }
    return _cut(columns, warmup_ms, unknown_keys=unknown)


def _cut(
    columns: dict[str, Column], warmup_ms: float | None, *, unknown_keys: dict[str, int]
) -> TimesArray:
    variant = variant_of(columns, warmup_ms=warmup_ms)
    applied = warmup_of(columns, variant=variant, warmup_ms=warmup_ms)
    skipped = count_warmup_rows(columns, warmup_ms=applied)
    if skipped == len(next(iter(columns.values()), ())):
        skipped, applied = 0, None
    return TimesArray(
        variant=variant,
        columns={key: column[skipped:] for key, column in columns.items()},
        warmup_rows=skipped,
        warmup_ms=applied,
        unknown_keys=unknown_keys,
    )


def _not_times(columns: dict[str, Column], *, where: str) -> ParseError:
    return parse_error(
        where,
        what="is not a times file of trtexec",
        place="row 1",
        expected="rows with computeMs or latencyMs",
        found="rows with " + ", ".join(list(columns)[:6]),
        fix="trtbench import takes profiles and layer information too, each by its content"
        if "name" in columns
        else None,
    )


def _measured(array: TimesArray) -> NDArray[np.bool_]:
    """Tell the rows whose durations are all numbers."""
    mask = np.ones(len(array), bool)
    for key in duration_names(array.columns).values():
        mask &= np.isfinite(array.columns[key])
    return mask


def _times(array: TimesArray) -> IterationTimes:
    measured = _measured(array)
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
