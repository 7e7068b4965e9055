"""Lines that mails and terminals broke in two, and how they are whole again."""

from __future__ import annotations

import re

from trtbench.trtexec._log_prefixes import LogLine
from trtbench.trtexec._log_summary import METRICS, values_told

_MAY_GO_ON = re.compile(
    rf"(?:{'|'.join(METRICS)}): min|Average o(?:n|ver) \d|(?:min|max|mean|median|percentile): \d"
    r"|Total (?:Host Walltime|GPU Compute Time):"
)
_FRAGMENT = re.compile(
    r"[\s,;=\d.()%+-]*(?:(?:min|max|mean|median|percentile|ms|time|is|runs?|[Hh]ost|walltime"
    r"|latency|GPU|end to end|enqueue)[\s,;:=\d.()%+-]*){1,12}$"
)
_OPTIONS = re.compile(r"--?[A-Za-z]\w")


def may_go_on(line: LogLine) -> bool:
    """Say whether a line is one of the long ones, which may have been broken."""
    return (
        line.text[:1] in "LEHGDATmp"
        and line.level in ("", "I")
        and not line.library
        and _MAY_GO_ON.match(line.text) is not None
    )


def joined(text: str, line: LogLine) -> str | None:
    """Put the rest of a broken line behind it; ``None`` when the line is one of its own.

    Whether a blank stood where it was broken is told by which reading holds more numbers: mails
    break at blanks, terminals anywhere.
    """
    rest = line.text.strip()
    if line.level or line.stamped or not rest or len(rest) > 2_000 or may_go_on(line):
        return None
    readings = (f"{text.rstrip()} {rest}", text + rest)
    best = max(readings, key=values_told)
    if values_told(best) > values_told(text) or _FRAGMENT.match(rest):
        return best
    return None


def more_options(line: LogLine) -> str | None:
    """Find the rest of a command that did not fit into the line of a banner."""
    if line.level or not _OPTIONS.match(line.text.lstrip()):
        return None
    return line.text.strip()
