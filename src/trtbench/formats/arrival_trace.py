"""Arrivals that were recorded somewhere: a CSV with a column of times or of gaps, with its unit."""

from __future__ import annotations

import csv
import datetime
import io
import math
import re
import shlex
from itertools import islice
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
    head = rows[0][1] if rows else []
    named = [(place, words) for place, name in enumerate(head) if (words := _words(name))]
    # Of several columns, one that names its unit.
    place, words = min(named, key=lambda each: UNITS.keys().isdisjoint(each[1]), default=(0, []))
    gaps = not GAPS.isdisjoint(words)
    cells = [(line, row[place].strip() if place < len(row) else "") for line, row in rows[1:]]
    scale = next((UNITS[word] for word in reversed(words) if word in UNITS), None)
    if words and cells and scale is None and not gaps:
        scale = _unit_by_size(cells[0][1])
    if scale is None:
        raise InputError(
            f"{path.name} does not say whether it holds times or gaps, and in what unit",
            facts={"first line": boundary.clean_line(",".join(head))[:80] or "empty"},
            fix=HEADER,
        )
    if len(cells) > MOST_ARRIVALS:
        raise InputError(
            f"{path.name} has more than {MOST_ARRIVALS} arrivals",
            fix=f"head -n {MOST_ARRIVALS + 1} {shlex.quote(str(path))} > short.csv",
        )
    times: list[float] = []
    for line, word in cells:
        value = _seconds(word, scale, dates=not gaps)
        if value is None:
            shown = boundary.clean_line(word)[:40] or "nothing"
            what = f"{shown!r} is no {'gap' if gaps else 'time'} from zero on"
            fix = "write numbers from zero on in that column" + ("" if gaps else ", or dates")
            raise InputError(f"{path.name}: {what}", facts={"line": line}, fix=fix)
        if gaps:  # the first is the wait before the first query, which is not seen
            value = times[-1] + value if times else 0.0
        elif times and value < times[-1]:
            fix = "sort them, or name gaps"
            raise InputError(f"{path.name}: times go back", facts={"line": line}, fix=fix)
        times.append(value)
    if len(times) < 2 or not times[-1] > times[0]:
        fix = "give a file with more arrivals, or --arrivals poisson --rate 100/s"
        raise InputError(f"{path.name} has no two arrivals at different times", fix=fix)
    return tuple(value - times[0] for value in times)


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


def _words(name: str) -> list[str]:
    """Split the name of a column into words; empty where it is none of times or gaps."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    known = all(word in TIMES or word in GAPS or word in UNITS for word in words)
    return words if known and not (TIMES | GAPS).isdisjoint(words) else []


def _unit_by_size(word: str) -> float | None:
    """The unit of a time since 1970, or of a date; ``None`` for any other number."""
    value = _seconds(word, 1.0, dates=False)
    if value is None:
        return 1.0  # a date, or what is refused with its line
    least, most = EPOCH_S
    return next((unit for unit in (1.0, 1e-3, 1e-6, 1e-9) if least <= value * unit < most), None)


def _seconds(word: str, scale: float, *, dates: bool) -> float | None:
    """Read a number from zero on, or a date with its time of day (UTC unless it says)."""
    try:
        value = float(word) * scale
        return value if math.isfinite(value) and value >= 0 else None
    except ValueError:
        if not dates:
            return None
    exact = re.sub(r"[.,](\d{1,9})", lambda part: f".{part[1]:0<6.6}", word)
    try:
        found = datetime.datetime.fromisoformat(re.sub(r"\s*(Z|UTC)$", "+00:00", exact, flags=re.I))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp()
