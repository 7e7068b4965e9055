"""Lines that mails and terminals broke in two, and how they are whole again."""

from __future__ import annotations

import re

from trtbench.trtexec._log_prefixes import LogLine
from trtbench.trtexec._log_summary import BLOCKS, METRICS, TOTALS, values_told

_LONG = re.compile(
    rf"(?:{'|'.join(METRICS)}): min|Average o(?:n|ver) \d|(?:min|max|mean|median|percentile): \d"
)
_TOTAL = re.compile(rf"(?:{'|'.join(TOTALS)}):")
_FRAGMENT = re.compile(
    r"[\s,;=\d.()%+-]*(?:(?:min|max|mean|median|percentile|ms|time|is|runs?|[Hh]ost|walltime"
    r"|latency|GPU|end to end|enqueue)[\s,;:=\d.()%+-]*){1,12}$"
)
_WORDS = frozenset(
    ("min", "max", "mean", "median", "percentile", "ms", "time", "run", "runs", "host", "walltime",
     "latency", "enqueue", "qps")
)  # fmt: skip
LONGEST = 4_000
"""Characters of a line that is put together again: with twenty percentiles it has 700."""
_BEGUN = frozenset(
    f"{label}:"[:end]
    for label in (
        *METRICS,
        *TOTALS,
        *BLOCKS,
        "Host Latency",
        "Host latency",
        "GPU compute",
        "min",
        "max",
        "mean",
        "median",
        "percentile",
    )
    for end in range(1, len(label) + 2)
)
"""All that a stamp can be followed by where a line is broken within what it is about."""
_NO_HEADING = frozenset(
    ("End-to-End", "End-to-End Host", "H2D", "D2H", "Total Host", "Total GPU", "Total GPU Compute")
)
"""Of these, what stands on no line of its own in any version."""
_OPTIONS = re.compile(r"--?[A-Za-z]\w|\[TensorRT|\[b\d|# ")
_FIRST = frozenset("=A" + "".join(each[0] for each in _BEGUN))
"""How such lines begin: the cheap test."""
_OPEN = re.compile(r"\[[^\]]{0,30}$")


def may_go_on(line: LogLine) -> bool:
    """Say whether a line is one of the long ones, or ends too early, and may have been broken."""
    text = line.text
    if text[:1] not in _FIRST or line.library or line.level not in ("", "I"):
        return False
    if text[-1] == ")" and text.startswith("Average on "):
        return False  # all of them end so
    if _LONG.match(text) or (len(text) < 80 and _is_begun(line)):
        return True
    return bool(_TOTAL.match(text) and not values_told(text))


def _is_begun(line: LogLine) -> bool:
    """Say whether a line stops before it says what it is about."""
    text = line.text.rstrip()
    if not line.level:
        return text in _NO_HEADING
    return text in _BEGUN or (text[:1] == "=" and len(text) < 80 and not text.endswith(" ==="))


def joined(before: LogLine, line: LogLine) -> str | None:
    """Put the rest of a broken line behind it; ``None`` when the line is one of its own.

    Whether a blank stood where it was broken is told by which reading holds more numbers: mails
    break at blanks, terminals anywhere.
    """
    if line.level or line.stamped:
        return None
    text, rest = before.text, line.text.strip().rstrip("\"'")
    if not rest or len(text) + len(rest) > LONGEST:
        return None
    best = max((f"{text.rstrip()} {rest}", text + rest), key=lambda each: _sense(each, text))
    more = values_told(best) > values_told(text)
    if _is_begun(before):
        return best if more or _LONG.match(best) else None
    if may_go_on(line):
        return None
    going_on = _FRAGMENT.match(rest) or _sense(best, text)[1]
    return best if more or (_LONG.match(text) and going_on) else None


def _sense(reading: str, text: str) -> tuple[int, bool]:
    """Count the numbers of a reading, and say whether the word at the break is one."""
    begin = re.search(r"[A-Za-z]+$", text)
    word = re.compile(r"[A-Za-z]+").match(reading, begin.start()) if begin else None
    return values_told(reading), bool(word and word.end() > len(text) and word[0] in _WORDS)


def with_more(banner: str, line: LogLine) -> str:
    """Put behind a banner what of it, or of its command, did not fit into one line."""
    rest = line.text.strip()
    if line.level or not (_OPTIONS.match(rest) or (rest and _OPEN.search(banner))):
        return banner
    return f"{banner} {rest}"
