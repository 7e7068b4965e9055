"""Texts as a terminal drew them: lines broken at its width, blanks and line ends as movements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from trtbench.trtexec._log_lanes import SPOKEN

NARROWEST = 30
FEWEST_BROKEN = 3
LONGEST = 1 << 20
"""Characters of a line that is put together again."""
_MOST_FORWARD = 8
"""Blanks that stand for a movement: more tell no more, and a few bytes can ask for thousands."""
_BEGINS = re.compile(
    rf"{SPOKEN.pattern}|(?:End-to-End Host |H2D |D2H )?Latency: |(?:GPU Compute|Enqueue) Time: "
    r"|Total (?:Host Walltime|GPU Compute Time): "
)
_MOVED = re.compile(
    r"\x1b\[(?P<forward>\d{0,4})C|(?P<line>\x1b\[\d{0,4}(?:;1?)?[HE]|\x1b\[\d{0,4}d\r?)"
    r"|\\\n[ \t]*\\(?= )"  # YAML, too, breaks quoted texts at a width
)


def is_drawn(text: str) -> bool:
    """Say whether blanks or ends of lines are movements of a terminal's cursor."""
    if "\x1b" not in text and "\\\n" not in text:
        return False  # the cheap test
    return _MOVED.search(text) is not None


def drawn(text: str) -> str:
    """Write blanks and ends of lines for movements."""
    return _MOVED.sub(_characters, text)


def _characters(move: re.Match[str]) -> str:
    if move["line"]:
        return "\n"
    if move["forward"] is None:
        return ""
    return " " * min(int(move["forward"] or 1), _MOST_FORWARD)


def width_of(lines: Sequence[str]) -> int | None:
    """Tell the width at which a terminal broke lines; ``None`` where none did.

    Several lines are as long as the longest, and where something else follows a line of trtexec's
    it is mostly one of those: who breaks at blanks fills few lines to the end.
    """
    lengths = Counter(map(len, lines))
    width = max(lengths, default=0)
    if width < NARROWEST or lengths[width] < FEWEST_BROKEN:
        return None
    if sum(line[-2:] == "  " for line in lines if len(line) == width) > lengths[width] / 2:
        return None  # filled up with blanks
    broken = [
        len(line) == width
        for line, after in pairwise(lines)
        if SPOKEN.match(line) and after.strip() and not SPOKEN.match(after)
    ]
    return width if sum(broken) >= max(FEWEST_BROKEN, 0.8 * len(broken)) else None


def unbroken(lines: Iterable[str], width: int) -> Iterator[str]:
    """Put lines together again that a terminal of this width broke."""
    parts: list[str] = []
    for line in lines:
        whole = len(parts) * width > LONGEST or _BEGINS.match(line)
        if parts and (whole or len(parts[-1]) != width):
            yield "".join(parts)
            parts = []
        parts.append(line)
    if parts:
        yield "".join(parts)
