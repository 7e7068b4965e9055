"""Layer profiles: ``--exportProfile`` of every version, profiler dumps, other tools' nestings.

trtexec writes layer names without escaping them, so a quote or a backslash in a name makes the
file invalid JSON. Text in trtexec's own layout (a blank before the colon) is therefore read by
its shape, names taken as they stand; anything else is read as JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from trtbench.domain.samples import LayerProfile, LayerTime
from trtbench.errors import ParseError
from trtbench.trtexec._json import (
    after_space,
    documents_from_json,
    number_from_value,
    parse_error,
    place_in_text,
    quoted,
    text_from_bytes,
)
from trtbench.trtexec._profile_layouts import Record, profiles_from_document

EXPECTED = "the layers of trtexec --exportProfile"

_OWN_LAYOUT = re.compile(r'\s*\[\s*\{ "(?:count|name)" : ')
_COUNT = re.compile(r'\{\s*"count"\s*:\s*(\d{1,18})\s*\}')
_NAME = re.compile(r'\{\s*"name" : "')
_TIMES = re.compile(
    r'"\s*,\s*"timeMs" : (\S+?), "averageMs" : (\S+?)(?:, "medianMs" : (\S+?))?'
    r', "percentage" : ([^\s,}]+)((?:\s*,\s*"\w+" : [^\s,}]+)*)\s*\}'
)


def profiles_from_json(data: bytes | str, *, where: str) -> tuple[LayerProfile, ...]:
    """Read every profile of a file, in which several exports may follow one another."""
    text = text_from_bytes(data, where=where, expected=EXPECTED)
    if _OWN_LAYOUT.match(text):
        found = [_profile(count, records, where=where) for count, records in _arrays(text, where)]
    else:
        documents = documents_from_json(text, where=where, expected=EXPECTED)
        pairs = [pair for each in documents for pair in profiles_from_document(each)]
        found = [_profile(count, records, where=where) for count, records in pairs]
    profiles = tuple(profile for profile in found if profile.layers)
    if not profiles:
        raise parse_error(
            where,
            what="has no layer times",
            place="the whole file",
            expected=EXPECTED,
            found=quoted(text.lstrip()),
        )
    return profiles


def profile_from_json(data: bytes | str, *, where: str, array: int | None = None) -> LayerProfile:
    """Read the only profile of a file, or the one that is asked for."""
    profiles = profiles_from_json(data, where=where)
    if array is None and len(profiles) > 1:
        raise parse_error(
            where,
            what=f"holds {len(profiles)} profiles",
            place="the whole file",
            expected="one profile",
            fix=f"name one of them: array=0 to array={len(profiles) - 1}",
        )
    return profiles[array or 0]


def _arrays(text: str, where: str) -> Iterator[tuple[int | None, list[Record]]]:
    """Walk over arrays in trtexec's own layout, record by record."""
    position = after_space(text, 0)
    while position < len(text):
        if text[position] != "[":
            raise _broken(text, position, "'[' or the end of the file", where)
        count: int | None = None
        records: list[Record] = []
        position = after_space(text, position + 1)
        while True:
            header = _COUNT.match(text, position)
            if header:
                count, position = int(header.group(1)), header.end()
            elif text[position : position + 1] != "]" or count is not None:
                record, position = _record(text, position, where)
                records.append(record)
            position = after_space(text, position)
            mark = text[position : position + 1]
            if mark not in ("]", ","):
                raise _broken(text, position, "',' or ']' after a layer", where)
            position = after_space(text, position + 1)
            if mark == "]":
                break
        yield count, records


def _record(text: str, position: int, where: str) -> tuple[Record, int]:
    opening = _NAME.match(text, position)
    if not opening:
        raise _broken(text, position, '{ "name" : ...', where)
    closing = _TIMES.search(text, opening.end())
    if not closing:
        raise _broken(text, len(text), "the times of a layer", where)
    if _NAME.search(text, opening.end(), closing.start()):
        raise _broken(text, position, "a layer with its times", where)
    total, average, median, percentage = (
        math.nan if token is None else _number(token, text, closing.start(), where)
        for token in closing.groups()[:4]
    )
    record = Record(
        name=text[opening.end() : closing.start()],
        total_ms=total,
        average_ms=average,
        median_ms=median,
        percentage=percentage,
    )
    return record, closing.end()


def _number(token: str, text: str, position: int, where: str) -> float:
    try:
        return number_from_value(float(token.replace("(ind)", "")))
    except ValueError:
        raise _broken(text, position, f"a number, not {token!r}", where) from None


def _broken(text: str, position: int, expected: str, where: str) -> ParseError:
    ended = position >= len(text)
    return parse_error(
        where,
        what="is cut off" if ended else "is not a profile of trtexec",
        place=place_in_text(text, position),
        expected=expected,
        found=quoted(text[position : position + 40]),
        fix="let trtexec write it again with --exportProfile" if ended else None,
    )


def _profile(count: int | None, records: list[Record], *, where: str) -> LayerProfile:
    layers = [_layer(record, count, where=where) for record in records]
    total_s = math.fsum(layer.total_s for layer in layers)
    shared = tuple(
        layer
        if layer.share is not None or total_s <= 0
        else layer.having(share=layer.total_s / total_s)
        for layer in layers
    )
    return LayerProfile(count=count, layers=shared)


def _layer(record: Record, count: int | None, *, where: str) -> LayerTime:
    """Fill in total or average from the other; the rest stays unknown when it is not a number."""
    calls = count or 1
    average = record.average_ms if math.isfinite(record.average_ms) else record.total_ms / calls
    total = record.total_ms if math.isfinite(record.total_ms) else average * calls
    if not math.isfinite(total) or not math.isfinite(average):
        raise parse_error(
            where,
            what="has a layer without a time",
            place=f"layer {record.name!r}",
            expected="timeMs or averageMs",
        )
    return LayerTime(
        name=record.name,
        total_s=total / 1e3,
        average_s=average / 1e3,
        median_s=_seconds(record.median_ms),
        min_s=_seconds(record.min_ms),
        max_s=_seconds(record.max_ms),
        share=record.percentage / 100 if math.isfinite(record.percentage) else None,
    )


def _seconds(value_ms: float) -> float | None:
    return value_ms / 1e3 if math.isfinite(value_ms) else None
