"""Texts in which several programs spoke at once: told by the names before lines, sorted apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise

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
SPOKEN = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] |&&&& [A-Z]{6,7} |=== [A-Z][\w ]{3,40} ==="
    r"|Average o(?:n|ver) \d|Throughput: \d|(?:Latency|Time): min = )"
)
"""How lines begin that only trtexec prints."""
_BEGUN = re.compile(
    r"&&&& RUNNING |=== Performance summary ===|Average over \d+ runs? is |[Tt]hroughput: \d"
)
_PASSING = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d{2,4}[T ]|\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?|\d+\.\d+"
    r"|\d+ ?[mun]?s\b|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|NOTICE|TRACE)\b|\bstd(?:out|err)\b"
    r"|\b[IWEF](?=\d{4})|\b[OE]:|\b\d\d[OE][+ ]"
)
"""What changes in the prefix of one program: times, levels, streams."""

Naming = Callable[[str], tuple[str, str] | None]
"""Tells who said a line, and what; ``None`` where nobody is named."""


def naming_of(lines: Iterable[str]) -> Naming | None:
    """Find how the lines of a text name who speaks, if they do."""
    begins: list[str] = []
    for line in lines:
        begin = _COLOUR.sub("", line[: 2 * LONGEST_PREFIX])
        spoken = SPOKEN.search(begin)
        if spoken is None:
            continue
        if not spoken.start():
            return None
        for form in _FORMS if len(begins) < MOST_LOOKED_AT else ():
            match = form.match(begin)
            if match and match.end() <= spoken.start():
                return partial(_name, form=form)
        begins.append(_PASSING.sub("\0", begin[: spoken.start()]))
    return _naming_by_prefix(begins)


def _naming_by_prefix(begins: list[str]) -> Naming | None:
    """Take for names whole prefixes that come back after another one: no number or time does."""
    back: Counter[str] = Counter()
    known: set[str] = set()
    for before, begin in pairwise(begins):
        if begin != before and begin in known:
            back[begin] += 1
        known.add(before)
    if not 1 < len(back) <= MOST_LANES:
        return None
    passing = f"(?:{_PASSING.pattern})"
    forms = [passing.join(map(re.escape, each.split("\0"))) for each in back]
    names = re.compile("|".join(sorted(forms, key=len, reverse=True)))

    def name(line: str) -> tuple[str, str] | None:
        line = _COLOUR.sub("", line) if "\x1b" in line else line
        match = names.match(line)
        return (_PASSING.sub("\0", match[0]), line[match.end() :]) if match else None

    return name


def lanes_in(lines: Iterable[str], naming: Naming) -> list[str]:
    """Name those who ran something; none where only one did, or too many."""
    begun: dict[str, None] = {}
    spoke: Counter[str] = Counter()
    for line in lines:
        said = naming(line)
        if said is None:
            continue
        name, _ = said
        spoke[name] += 1
        if len(spoke) > MOST_NAMES:
            return []
        if name not in begun and _BEGUN.search(line, 0, 500):
            begun[name] = None
    found = [name for name in begun if spoke[name] >= FEWEST_LINES]
    return found if 1 < len(found) <= MOST_LANES else []


def sorted_apart(
    again: Callable[[], Iterator[str]], naming: Naming, lanes: list[str], *, break_with: str
) -> Iterator[str]:
    """Read one log after the other, each in a pass of its own; memory does not grow with them.

    A line without a name belongs to who spoke last; names that ran nothing stay with the first.
    """
    for place, lane in enumerate(lanes):
        if place:
            yield break_with
        speaking = lanes[0]
        for line in again():
            said = naming(line)
            if said is not None:
                speaking = said[0] if said[0] in lanes else lanes[0]
            if speaking == lane:
                yield line if said is None else said[1]


def _name(line: str, *, form: re.Pattern[str]) -> tuple[str, str] | None:
    match = form.match(_COLOUR.sub("", line[:LONGEST_PREFIX]) if "\x1b" in line else line)
    return (match[1], line) if match else None
