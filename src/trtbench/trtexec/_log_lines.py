"""The lines of a log: colours and envelopes taken off, banners and commands read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from trtbench.trtexec._log_envelopes import lines_from_line
from trtbench.trtexec._log_prefixes import LOOK
from trtbench.trtexec.log_text import LONGEST_LINE, text_lines
from trtbench.trtexec.version import version_from_digits

_ANSI = re.compile(
    r"\x1b\[8m[^\x1b]{0,4000}\x1b\[0?m"  # hidden
    r"|\x1b[\]_P^][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)"  # links, titles and marks of terminals
    r"|[\x1b\u241b]\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b[@-Z\\-_]"
)
_AT_END = " \t│┃"
"""What screens and boxes fill lines with."""
_LAST_MARKS = 400
"""Characters at the end of a line in which closing marks are looked for."""
_ANSI_REST = re.compile(r"\[[0-9;]{0,12}m")
"""Colours whose escape character got lost when the text was copied."""
_VISIBLE_ANSI = re.compile(r"\^\[\[[0-9;]{0,12}m")
"""Colours as ``cat -v`` shows them."""
_LOST_BLANK = re.compile(r"(?<=[\w%)])\ufffd(?==)|(?<=[=:,])\ufffd|(?<=\d)\ufffd(?=[a-z])")
"""A blank of another encoding, where a blank belongs."""
_MARKED_PLAIN = re.compile(r"\\([\[\]=%])")
_BOLD = re.compile(r"\*\*([A-Za-z=\[][^*]{1,400})\*\*")
_CLOSING = re.compile(r"(?:</[A-Za-z][\w:.-]{0,60}>|<br ?/?>|\]\]>|`|\s)+$")
_BANNER = re.compile(
    r"&&&& (RUNNING|PASSED|FAILED|WAIVED) (\S{1,80})"
    r"(?: \[TensorRT[^\]\d]{0,20}v(\d{4,6})\])?(?: \[b(\d{1,9})\])?(?: # ?(.*)| ?\[[^\]]{0,30})?$"
)
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\N{NO-BREAK SPACE}\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\N{SOFT HYPHEN}", None),
        "\N{FULLWIDTH COLON}": ": ",
        "\N{FULLWIDTH COMMA}": ", ",
        "\N{FULLWIDTH EQUALS SIGN}": "=",
        "\N{FULLWIDTH LEFT PARENTHESIS}": "(",
        "\N{FULLWIDTH RIGHT PARENTHESIS}": ")",
        "\N{FULLWIDTH PERCENT SIGN}": "%",
    }
)

_COMMAND = re.compile(r"([^\s`!(]*?trtexec(?:\.exe)?[\"']?)\s+(--?[A-Za-z].*|[\\^`]\s*)$")
_GOES_ON = re.compile(r"(?:^|\s)[\\^`]\s*$")
_SHELL = re.compile(r"\s(?:\d?>{1,2}&?\s?\S|\||&&|;|2>&1|&\s*$)|`|\s#\s")


class Banner(NamedTuple):
    """A ``&&&&`` line."""

    kind: str
    tool: str
    version: str | None
    build: int | None
    command: str


def lines_from_data(data: bytes | bytearray | memoryview | str) -> Iterator[str]:
    """Make the lines of a text, whatever its encoding, line ends and colours."""
    for line in text_lines(data):
        yield from map(clean, lines_from_line(line))


def clean(line: str) -> str:
    """Take colours and closing marks off a line."""
    if len(line) > LONGEST_LINE:
        line = line[:LONGEST_LINE]
    if not line.isascii():
        line = line.translate(_MARKS)
        if "\ufffd" in line:
            line = _LOST_BLANK.sub(" ", line)
    if "\x1b" in line or "\u241b" in line:
        line = _ANSI.sub("", line)
    if "\b" in line:
        line = _as_typed(line)
    if "\\%" in line or "\\[" in line or "\\=" in line:  # TeX, Markdown
        line = _MARKED_PLAIN.sub(r"\1", line)
    if "**" in line:
        line = _BOLD.sub(r"\1", line)
    if "&amp;" in line:
        line = html.unescape(line)
    if line[-1:] in _AT_END:
        line = line.rstrip(_AT_END)
    last = line[-1:]
    if last in (">", "`"):
        line = line[:-_LAST_MARKS] + _CLOSING.sub("", line[-_LAST_MARKS:])
    elif last == "\\" and line.endswith("}\\\\"):  # a line of TeX
        line = line[:-3]
    elif last == "M" and line.endswith("^M"):  # as ``cat -v`` shows the end of a line
        line = line[:-2].rstrip(_AT_END)
    elif last == "m" and "^[[" in line:
        line = _VISIBLE_ANSI.sub("", line)
    elif last == "m" and "[" in line[-13:]:
        line = _ANSI_REST.sub("", line)
    return line


def _as_typed(line: str) -> str:
    """Take back what somebody typed and took back."""
    kept: list[str] = []
    for each in line:
        if each != "\b":
            kept.append(each)
        elif kept:
            kept.pop()
    return "".join(kept)


def banner_from_text(text: str) -> Banner | None:
    """Read a ``&&&& RUNNING``, ``PASSED``, ``FAILED`` or ``WAIVED`` line, wherever it begins."""
    begin = text.find("&&&& ", 0, LOOK)
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


def number(text: str) -> float | None:
    """Read a printed number; text that is none gives ``None``."""
    try:
        return float(text)
    except ValueError:
        return None


class CommandLines:
    """Watches for ``trtexec --...`` typed above what it printed, over several lines if need be."""

    def __init__(self) -> None:
        self._open: str | None = None

    def take(self, text: str) -> str | None:
        """Take a line without a prefix of trtexec's; give a command once it is complete."""
        if self._open is not None:
            return self._close(f"{self._open} {text.lstrip('> ').strip()}")
        if "trtexec" not in text:
            return None
        match = _COMMAND.search(text[:4000])
        return self._close(text[match.start() : 4000].strip()) if match else None

    @property
    def waiting(self) -> bool:
        """Whether a command goes on in the next line."""
        return self._open is not None

    def _close(self, text: str) -> str | None:
        if _GOES_ON.search(text) and len(text) < 20_000:
            self._open = _GOES_ON.sub("", text).strip()
            return None
        self._open = None
        cut = _SHELL.search(text)
        return text[: cut.start()].strip() if cut else text
