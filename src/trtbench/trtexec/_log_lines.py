"""The lines of a log: prefixes, colours, line ends and encodings taken away, banners read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import NamedTuple

from trtbench.trtexec.version import version_from_digits

LONGEST_LINE = 1 << 18
"""Characters of a line that are looked at; a padded profile row has a few thousand."""

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b[@-Z\\-_]")
_STAMPED = re.compile(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[([IWEVF])\] ?")
_BARE = re.compile(r"(?:\[INFO\] ?)?\[([IWEVF])\](?: |$)")
_BANNER = re.compile(
    r"&&&& (RUNNING|PASSED|FAILED|WAIVED) (\S{1,80})"
    r"(?: \[TensorRT[^\]\d]{0,20}v(\d{4,6})\])?(?: \[b(\d{1,9})\])?(?: # ?(.*))?$"
)
_LOOK = 200
"""Characters of foreign prefix (container names, time stamps of a build server) to look past."""


class Line(NamedTuple):
    """One line: its level (empty without a prefix), whether TensorRT spoke, and what it said."""

    level: str
    library: bool
    text: str
    stamped: bool


class Banner(NamedTuple):
    """A ``&&&&`` line."""

    kind: str
    tool: str
    version: str | None
    build: int | None
    command: str


def lines_from_data(data: bytes | bytearray | memoryview | str) -> Iterator[str]:
    """Give the lines of a log as text, one at a time, whatever its encoding and line ends."""
    if isinstance(data, str):
        stream: Iterator[str] = io.StringIO(data, newline="\n")
    else:
        stream = _decoded(bytes(data))
    for line in stream:
        line = line.rstrip("\r\n")[:LONGEST_LINE]
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        if "\r" in line:
            yield from line.split("\r")
        else:
            yield line


def _decoded(data: bytes) -> Iterator[str]:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what PowerShell's > writes
        yield from io.StringIO(data.decode("utf-16", "replace"), newline="\n")
        return
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    for raw in io.BytesIO(data):
        yield raw[: 4 * LONGEST_LINE].decode("utf-8", "replace")


def line_from_text(text: str) -> Line:
    """Take the prefix off a line."""
    match = _STAMPED.search(text, 0, _LOOK)
    stamped = match is not None
    match = match or _BARE.match(text)
    if match is None:
        return Line("", False, text, False)
    rest = text[match.end() :]
    if rest.startswith("[TRT]"):
        return Line(match[1], True, rest[6:], stamped)
    return Line(match[1], False, rest, stamped)


def banner_from_text(text: str) -> Banner | None:
    """Read a ``&&&& RUNNING``, ``PASSED``, ``FAILED`` or ``WAIVED`` line, wherever it begins."""
    begin = text.find("&&&& ", 0, _LOOK)
    match = _BANNER.match(text, begin) if begin >= 0 else None
    if match is None:
        return None
    kind, tool, digits, build, command = match.groups()
    return Banner(
        kind=kind,
        tool=tool.rsplit(".", 1)[-1],
        version=version_from_digits(digits or ""),
        build=int(build) if build else None,
        command=(command or "").strip(),
    )
