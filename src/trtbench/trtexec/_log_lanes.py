"""Texts in which several programs spoke at once: told by the names before lines, sorted apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

MOST_LANES = 64
"""A text of more names than this is read as it stands: each name is a pass over it."""
MOST_NAMES = 10_000
FEWEST_LINES = 3
"""What differs in every line is a number of it, and no name."""
LONGEST_PREFIX = 300
MOST_LOOKED_AT = 20
"""Lines of trtexec's by which names are found, or not."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WHEN = r"(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)?\]?\s+|\d\d:\d\d:\d\d\s+)?"
_LEVEL = r"(?:INFO|WARN|WARNING|ERROR|DEBUG|TRT|TRACE|[IWEVF])\]"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"{_WHEN}\s*\+?([\w.-]{{1,80}})\s*\| ",  # docker compose, foreman
        r"\[(pod/[^\]\s]{1,200})\]\s",  # kubectl logs --prefix
        r"(\[\d{1,5},\d{1,5}\])<std(?:out|err)>:",  # mpirun
        r"(\(\w{1,60} pid=\d{1,9}[^()]{0,60}\)) ",  # Ray
        r"<\d{1,3}>1 \S{1,60} (\S{1,80} \S{1,60} \S{1,60}) ",  # syslog, RFC 5424
        r"(?:\S{1,60} +){1,6}?([\w./-]{1,60}\[\d{1,9}\]): ",  # journals and syslog
        r"\[([\w.-]{1,80})\] (?:out|err): ",  # fabric
        rf"{_WHEN}- ([\w.-]{{1,80}}) - (?:INFO|WARNING|ERROR|DEBUG) - ",  # Python's loggers
        rf"{_WHEN}\[(?!{_LEVEL})([A-Za-z][\w .:/-]{{0,60}})\]:? ",  # stages, nodes, ranks
        r"(\d{1,4}): ",  # srun --label
        r"([A-Za-z][^\t]{0,80})\t",  # parallel --tag
        r"((?=[\w.]{0,60}-[\w.-]{0,60}\d)[\w.-]{1,80} [\w.-]{1,60}) ",  # a pod and its container
        r"([\w./\\-]{1,200}\.\w{1,8})[:-](?:\d{1,9}[:-])?(?! )",  # grep
        r"([A-Za-z][\w:@/.-]{0,80}): ",  # dsh and its like
    )
)
_SPOKEN = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] |&&&& [A-Z]{6,7} |=== [A-Z][\w ]{3,40} ==="
    r"|Average o(?:n|ver) \d|Throughput: \d|(?:Latency|Time): min = )"
)
_BEGUN = re.compile(r"&&&& RUNNING |=== Performance summary ===")


def lane_form(lines: Iterable[str]) -> re.Pattern[str] | None:
    """Find the form of the names that stand before what trtexec printed, if any do."""
    looked_at = 0
    for line in lines:
        begin = _COLOUR.sub("", line[: 2 * LONGEST_PREFIX])
        spoken = _SPOKEN.search(begin)
        if spoken is None:
            continue
        looked_at += 1
        if not spoken.start() or looked_at > MOST_LOOKED_AT:
            return None
        for form in _FORMS:
            match = form.match(begin)
            if match and match.end() <= spoken.start():
                return form
    return None


def lanes_in(lines: Iterable[str], form: re.Pattern[str]) -> list[str]:
    """Name those who ran something; none where only one did, or too many."""
    begun: dict[str, None] = {}
    spoke: Counter[str] = Counter()
    for line in lines:
        name = _name(line, form)
        if name is None:
            continue
        spoke[name] += 1
        if len(spoke) > MOST_NAMES:
            return []
        if name not in begun and _BEGUN.search(line, 0, 500):
            begun[name] = None
    found = [name for name in begun if spoke[name] >= FEWEST_LINES]
    return found if 1 < len(found) <= MOST_LANES else []


def sorted_apart(
    again: Callable[[], Iterator[str]],
    form: re.Pattern[str],
    lanes: list[str],
    *,
    break_with: str,
) -> Iterator[str]:
    """Read one log after the other, each in a pass of its own; memory does not grow with them.

    A line without a name belongs to who spoke last; names that ran nothing stay with the first.
    """
    for place, lane in enumerate(lanes):
        if place:
            yield break_with
        speaking = lanes[0]
        for line in again():
            name = _name(line, form)
            if name is not None:
                speaking = name if name in lanes else lanes[0]
            if speaking == lane:
                yield line


def _name(line: str, form: re.Pattern[str]) -> str | None:
    match = form.match(_COLOUR.sub("", line[:LONGEST_PREFIX]) if "\x1b" in line else line)
    return match[1] if match else None
