"""What was said, and when, in the records that loggers and servers of logs keep as JSON."""

from __future__ import annotations

from itertools import pairwise

_WRAPPED_KEYS = (
    "log",
    "message",
    "MESSAGE",
    "Message",
    "msg",
    "line",
    "text",
    "event",
    "textPayload",
    "@message",
    "short_message",
    "_raw",
    "body",
)
"""Where loggers that write one JSON object a line keep what was said."""
_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "_time", "eventTime", "timeUnixNano")
MOST_COLUMNS = 12


def lines_of_records(values: list[object]) -> list[str] | None:
    """Read a list of records of one line each, as servers of logs answer."""
    lines = []
    if _are_backward(values):
        values = values[::-1]
    for value in values:
        if isinstance(value, list):  # when, what
            value = value[-1] if is_row(value) else None
        line = value if isinstance(value, str) else said_in(value)
        if line is None or ("\n" in line.rstrip("\r\n") and not isinstance(value, str)):
            return None
        lines.append(line)
    return lines


def is_row(value: object) -> bool:
    """Say whether a list is a row whose last column is what was said."""
    return isinstance(value, list) and 1 < len(value) <= MOST_COLUMNS and isinstance(value[-1], str)


def _are_backward(values: list[object]) -> bool:
    """Say whether records come with the latest first, as servers of logs like to answer."""
    times = [_time_of(value) for value in values]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or len(known) < 2 or known[0] <= known[-1]:
        return False
    return all(a >= b for a, b in pairwise(known))


def _time_of(value: object, depth: int = 2) -> str | None:
    """Find when a record is of, as a text that sorts as times do."""
    if isinstance(value, list):
        return value[0] if is_row(value) and isinstance(value[0], str) else None
    if not isinstance(value, dict) or not depth:
        return None
    for key in _TIME_KEYS:
        when = value.get(key)
        if isinstance(when, (str, int, float)):
            return when if isinstance(when, str) else f"{when:020.6f}"
    inner = (_time_of(each, depth - 1) for each in value.values() if isinstance(each, dict))
    return next((each for each in inner if each is not None), None)


def said_in(found: object, depth: int = 3) -> str | None:
    """Find what was said in the record of a logger."""
    if not isinstance(found, dict) or not depth:
        return None
    said = (found.get(key) for key in _WRAPPED_KEYS)
    text = next((each for each in said if isinstance(each, str)), None)
    if text is not None:
        return text
    inner = (said_in(each, depth - 1) for each in found.values() if isinstance(each, dict))
    text = next((each for each in inner if each is not None), None)
    if text is not None:
        return text
    texts = (each for each in found.values() if isinstance(each, str) and " " in each)
    longest = max(texts, key=len, default=None)
    return None if longest is None or "\n" in longest.rstrip() else longest
