"""Layer times in decoded JSON: re-dumped exports, ``{layer: [ms, ...]}``, other nestings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

from trtbench.trtexec._json import number_from_value

_NAMES = ("name", "layerName", "layer_name", "layer")
_TOTALS = ("timeMs", "time_ms", "totalMs", "total_ms", "total_time_ms")
_AVERAGES = ("averageMs", "avgMs", "average_ms", "avg_ms", "avg_time_ms", "mean_ms", "meanMs")
_MEDIANS = ("medianMs", "median_ms")
_MINIMA = ("minMs", "min_ms", "min_time_ms")
_MAXIMA = ("maxMs", "max_ms", "max_time_ms")
_PERCENTAGES = ("percentage", "percent_of_total", "percent")
_NESTS = ("layers", "profile", "layer_times", "per_layer", "perLayer")
_DEEPEST = 6


class Record(NamedTuple):
    """One layer as found, in milliseconds; what was not found is nan."""

    name: str
    total_ms: float = math.nan
    average_ms: float = math.nan
    median_ms: float = math.nan
    min_ms: float = math.nan
    max_ms: float = math.nan
    percentage: float = math.nan


FoundLayers = tuple["int | None", list[Record]]


def profiles_from_document(value: object) -> list[FoundLayers]:
    """Find the layer records of a decoded document, wherever they are nested."""
    return next(iter(_candidates(value, depth=0)), [])


def _candidates(value: object, *, depth: int) -> Iterator[list[FoundLayers]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        found = _list_records(value)
        if found[1]:
            yield [found]
        elif value and all(isinstance(each, list) for each in value):
            yield [pair for each in value for pair in profiles_from_document(each)]
    elif isinstance(value, dict):
        series = _series_records(value)
        if series[1]:
            yield [series]
        inner = [value[name] for name in _NESTS if name in value] + list(value.values())
        for each in inner:
            for pairs in _candidates(each, depth=depth + 1):
                yield [(count or _count(value), records) for count, records in pairs]


def _count(value: dict[str, object]) -> int | None:
    count = value.get("count", value.get("iterations"))
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def _list_records(values: list[object]) -> FoundLayers:
    rows = [row for row in values if isinstance(row, dict)]
    headers = [_count(row) for row in rows if "count" in row and not _text(row, _NAMES)]
    records = [record for row in rows if (record := _record(row)) is not None]
    return next(iter(headers), None), records


def _record(row: dict[str, object]) -> Record | None:
    name = _text(row, _NAMES)
    total, average = _number(row, _TOTALS), _number(row, _AVERAGES)
    if name is None or (math.isnan(total) and math.isnan(average)):
        return None
    return Record(
        name=name,
        total_ms=total,
        average_ms=average,
        median_ms=_number(row, _MEDIANS),
        min_ms=_number(row, _MINIMA),
        max_ms=_number(row, _MAXIMA),
        percentage=_number(row, _PERCENTAGES),
    )


def _series_records(value: dict[str, object]) -> FoundLayers:
    """Take ``{layer: [ms per iteration]}``; a name that repeats fills one list several times."""
    series: dict[str, list[float]] = {}
    for name, each in value.items():
        if not isinstance(each, list) or not each:
            return None, []
        numbers = [number_from_value(number) for number in each]
        if not all(map(math.isfinite, numbers)):
            return None, []
        series[str(name)] = numbers
    count = min(map(len, series.values()), default=0)
    return count or None, [_series_record(name, each, count) for name, each in series.items()]


def _series_record(name: str, times_ms: list[float], count: int) -> Record:
    total = math.fsum(times_ms)
    return Record(
        name=name,
        total_ms=total,
        average_ms=total / count,
        median_ms=statistics.median(times_ms),
        min_ms=min(times_ms),
        max_ms=max(times_ms),
    )


def _text(row: dict[str, object], names: tuple[str, ...]) -> str | None:
    return next((str(row[name]) for name in names if isinstance(row.get(name), str)), None)


def _number(row: dict[str, object], names: tuple[str, ...]) -> float:
    return next((number_from_value(row[name]) for name in names if name in row), math.nan)
