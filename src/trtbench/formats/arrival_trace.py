"""Arrivals that were recorded somewhere: a CSV with a column of times or of gaps, with its unit."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
import shlex
from itertools import accumulate, islice, pairwise
from pathlib import Path

from trtbench.core import safety as boundary
from trtbench.core.errors import InputError
from trtbench.core.units import SECONDS

MOST_BYTES = 2**26
MOST_ARRIVALS = 100_000
"""They are part of the run's record, so that it can be repeated from it."""

_OTHER_WORDS = {
    "ns": "nsec nanos nanoseconds",
    "us": "μs usec micros microseconds",
    "ms": "msec millis milliseconds",
    "s": "sec secs second seconds",
    "min": "minutes",
}
UNITS = SECONDS | {
    word: SECONDS[unit] for unit, words in _OTHER_WORDS.items() for word in words.split()
}
GAPS = {"gap", "gaps", "delta", "interval", "intervals", "inter", "interarrival"}
TIMES = {
    "time", "times", "timestamp", "timestamps", "arrival", "arrivals", "ts", "t", "offset", "start",
}  # fmt: skip
EPOCH_S = (3e8, 3e10)
"""1979 to 2920: times since 1970 show their unit by their size."""
DELIMITERS = ",;\t|"
HEADER = "name its column time_s, time_ms, gap_us, ... in the first line"


def arrivals_from_file(path: Path) -> tuple[float, ...]:
    """Read when queries are due, in seconds from the first; refuses what is no schedule."""
    try:
        text = boundary.read_bytes(path, most=MOST_BYTES).decode("utf-8-sig")
    except OSError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    except UnicodeDecodeError:
        fix = "--arrivals takes a CSV file, unpacked and in UTF-8"
        raise InputError(f"{path.name} is no text", fix=fix) from None
    rows = _rows(text, path)
    place, gaps, unit = _column(rows[0][1] if rows else [], path)
    if len(rows) - 1 > MOST_ARRIVALS:
        raise InputError(
            f"{path.name} has more than {MOST_ARRIVALS} arrivals",
            fix=f"head -n {MOST_ARRIVALS + 1} {shlex.quote(str(path))} > short.csv",
        )
    cells = [(line, row[place].strip() if place < len(row) else "") for line, row in rows[1:]]
    scale = unit or _unit_by_size(cells[0][1] if cells and not gaps else "")
    if scale is None:
        raise _unsaid(rows[0][1], path)
    values = [(line, _seconds(word, scale, line, path, gaps=gaps)) for line, word in cells]
    times = _times(values, gaps=gaps, path=path)
    if len(times) < 2 or not times[-1] > 0:
        fix = "give a file with more arrivals, or --arrivals poisson --rate 100/s"
        raise InputError(f"{path.name} has no two arrivals at different times", fix=fix)
    return times


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Read the rows that hold something, with the numbers of their lines."""
    delimiter = max(DELIMITERS, key=text.lstrip().partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    found = ((reader.line_num, row) for row in reader if any(map(str.strip, row)))
    try:
        return list(islice(found, MOST_ARRIVALS + 2))  # a row of a digit takes much memory
    except csv.Error as problem:
        facts = {"line": reader.line_num, "reason": problem}
        raise InputError(f"{path.name} is no CSV file", facts=facts, fix=HEADER) from None


def _column(head: list[str], path: Path) -> tuple[int, bool, float | None]:
    """Find the column of times or gaps, whether it is gaps, and its unit; one with a unit first."""
    named = [(place, words) for place, name in enumerate(head) if (words := _words(name))]
    if not named:
        raise _unsaid(head, path)
    place, words = min(named, key=lambda each: UNITS.keys().isdisjoint(each[1]))
    unit = next((UNITS[word] for word in reversed(words) if word in UNITS), None)
    return place, not GAPS.isdisjoint(words), unit


def _words(name: str) -> list[str]:
    """Split the name of a column into words; empty where it is none of times or gaps."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    known = all(word in TIMES or word in GAPS or word in UNITS for word in words)
    return words if known and not (TIMES | GAPS).isdisjoint(words) else []


def _unsaid(head: list[str], path: Path) -> InputError:
    return InputError(
        f"{path.name} does not say whether it holds times or gaps, and in what unit",
        facts={"first line": boundary.clean_line(",".join(head))[:80] or "empty"},
        fix=HEADER,
    )


def _unit_by_size(word: str) -> float | None:
    """Tell the unit of a time since 1970, or of a date; ``None`` for any other number."""
    try:
        value = _number(word)
    except ValueError:
        return 1.0 if word else None  # a date, or what is refused with its line
    least, most = EPOCH_S
    return next((unit for unit in (1.0, 1e-3, 1e-6, 1e-9) if least <= value * unit < most), None)


def _seconds(word: str, scale: float, line: int, path: Path, *, gaps: bool) -> float:
    try:
        return _number(word) * scale
    except ValueError:
        moment = None if gaps else _moment(word)
    if moment is not None:
        return moment
    shown = boundary.clean_line(word)[:40] or "nothing"
    raise InputError(
        f"{path.name}: {shown!r} is no {'gap' if gaps else 'time'} from zero on",
        facts={"line": line},
        fix="write numbers from zero on in that column" + ("" if gaps else ", or dates"),
    )


def _number(word: str) -> float:
    value = float(word)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _moment(word: str) -> float | None:
    """Read a date with its time of day, to the microsecond; without a zone, as UTC."""
    exact = re.sub(r"[.,](\d{1,9})", lambda part: f".{part[1]:0<6.6}", word)
    try:
        found = datetime.datetime.fromisoformat(re.sub(r"\s*(Z|UTC)$", "+00:00", exact, flags=re.I))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp()


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
