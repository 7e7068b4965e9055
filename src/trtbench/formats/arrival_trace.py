"""Arrivals that were recorded somewhere: a CSV with a column of times or of gaps, with its unit."""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
from itertools import accumulate, islice, pairwise
from pathlib import Path

from trtbench import boundary
from trtbench.errors import InputError
from trtbench.units import SECONDS

MOST_BYTES = 2**26
MOST_ARRIVALS = 100_000
"""They are part of the run's record, so that it can be repeated from it."""

_COLUMN = re.compile(
    r"(?P<kind>time|timestamp|arrival|gap)s?[ _(\[]*(?P<unit>ns|us|µs|ms|s)[)\]]*", re.I
)
HEADER = "name its column time_s, time_ms, gap_us, ... in the first line"


def arrivals_from_file(path: Path) -> tuple[float, ...]:
    """Read when queries are due, in seconds from the first; refuses what is no schedule."""
    try:
        text = boundary.read_bytes(path, most=MOST_BYTES).decode("utf-8")
    except OSError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is no text", fix="--arrivals takes a CSV file") from None
    rows = _rows(text, path)
    place, kind, scale = _column(rows[0][1] if rows else [], path)
    if len(rows) - 1 > MOST_ARRIVALS:
        raise InputError(
            f"{path.name} has more than {MOST_ARRIVALS} arrivals",
            fix=f"head -n {MOST_ARRIVALS + 1} {shlex.quote(str(path))} > short.csv",
        )
    values = [(line, _number(row, place, line, path) * scale) for line, row in rows[1:]]
    times = _times(values, gaps=kind.lower().startswith("gap"), path=path)
    if len(times) < 2 or not times[-1] > 0:
        raise InputError(f"{path.name} has no two arrivals at different times", fix=HEADER)
    return times


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Read the rows that hold something, with the numbers of their lines."""
    reader = csv.reader(io.StringIO(text))
    found = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
    try:
        return list(islice(found, MOST_ARRIVALS + 2))  # a row of a digit takes much memory
    except csv.Error as problem:
        facts = {"line": reader.line_num, "reason": problem}
        raise InputError(f"{path.name} is no CSV file", facts=facts, fix=HEADER) from None


def _column(head: list[str], path: Path) -> tuple[int, str, float]:
    for place, name in enumerate(head):
        if match := _COLUMN.fullmatch(name.strip().lstrip("\ufeff")):
            return place, match["kind"], SECONDS[match["unit"].lower()]
    raise InputError(
        f"{path.name} does not say whether it holds times or gaps, and in what unit",
        facts={"first line": boundary.clean_line(",".join(head))[:80] or "empty"},
        fix=HEADER,
    )


def _number(row: list[str], place: int, line: int, path: Path) -> float:
    try:
        value = float(row[place])
        if not math.isfinite(value) or value < 0:
            raise ValueError
    except (ValueError, IndexError):
        word = boundary.clean_line(row[place])[:40] if place < len(row) else "nothing"
        raise InputError(
            f"{path.name}: {word!r} is no time from zero on",
            facts={"line": line},
            fix="write numbers from zero on in that column",
        ) from None
    return value


def _times(lines: list[tuple[int, float]], *, gaps: bool, path: Path) -> tuple[float, ...]:
    values = [value for _, value in lines]
    if gaps:  # the first gap is the wait before the first query, which nobody sees
        return tuple(accumulate([0.0, *values[1:]]))
    for (_, before), (line, after) in pairwise(lines):
        if after < before:
            raise InputError(
                f"{path.name}: times go back", facts={"line": line}, fix="sort them, or name gaps"
            )
    return tuple(value - values[0] for value in values)
