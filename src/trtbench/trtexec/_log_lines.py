"""The lines of a log: what other tools put before them taken away, banners and commands read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from trtbench.trtexec.log_text import LONGEST_LINE, text_lines
from trtbench.trtexec.version import version_from_digits

_ANSI = re.compile(r"[\x1b\u241b]\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b[@-Z\\-_]")
_ANSI_REST = re.compile(r"\[[0-9;]{0,12}m")
"""Colours whose escape character got lost when the text was copied."""
_CLOSING = re.compile(r"(?:</(?:pre|code|span|div|p|td|font)>|<br ?/?>|`|\s)+$")
_STAMPED = re.compile(r"\[(\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] (\[TRT\] )?\[([IWEVF])\] ?")
_BARE = re.compile(r"(?:\[INFO\] ?)?\[([IWEVF])\](?: |$)")
_BANNER = re.compile(
    r"&&&& (RUNNING|PASSED|FAILED|WAIVED) (\S{1,80})"
    r"(?: \[TensorRT[^\]\d]{0,20}v(\d{4,6})\])?(?: \[b(\d{1,9})\])?(?: # ?(.*))?$"
)
_ANCHOR = re.compile(
    r"(?:\[[IWEVF]\] )?(?:&&&& (?:RUNNING|PASSED|FAILED|WAIVED) |=== [A-Z][\w() /-]{2,60} ===\s*$"
    r"|Average o(?:n|ver) \d|(?:Throughput|Total Host Walltime|Total GPU Compute Time): \d"
    r"|(?:Latency|End-to-End Host Latency|(?:H2D|D2H) Latency|Enqueue Time|GPU Compute Time): min ="
    r"|(?:[Hh]ost [Ll]atency|GPU [Cc]ompute)\s*$"
    r"|(?:deploy|engine|loadEngine|onnx|uff): \S+\.\w)"
)
_LEVEL_WORD = r"DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|NOTICE|TRACE"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
_WRAPPING = re.compile(
    r"\s+|[>|*#+~$!/:-]+|<\d{1,3}>\d?|<\w[^<>]{0,80}>"
    r"|\[[^\]\n]{0,120}\]:?|\(\w{1,40}\)"
    r"|\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d[\d.,]{0,12}(?:Z|[+-]\d\d:?\d\d)?"
    rf"|(?:{_MONTH} +){{1,2}}\d{{1,2}} \d\d:\d\d:\d\d(?:\.\d{{1,9}})?(?: \d{{4}})?"
    r"(?: [\w.-]{1,80})?"
    r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|#\d{1,4} [\d.]{1,12}"
    rf"|(?:{_LEVEL_WORD})\b:?|std(?:out|err)(?: [FP])?\b"
    r"|[\w./\\@-]{1,100}(?:\[\d{1,9}\])?:|[\w.-]{1,80}(?=\s*\|)|[\w.-]{1,60}(?= - )"
    r"|[\w.-]{1,80}(?= [\w./-]{1,60}(?:\[\d{1,9}\])?: )|[\d.]{1,12}[.)]?(?=\s)",
)
"""One piece of what containers, journals, build servers, loggers and quoting put before a line."""
_VARYING = re.compile(rf"(\d+|\s+|\b(?:{_LEVEL_WORD})\b|\b{_MONTH})")
_WRAPPED_KEYS = ("log", "message", "MESSAGE", "msg", "line", "text")
"""Where loggers that write one JSON object a line keep what was said."""
_LOOK = 200
"""Characters of foreign prefix (container names, time stamps of a build server) to look past."""

_COMMAND = re.compile(r"([^\s`!(]*?trtexec(?:\.exe)?[\"']?)\s+(--?[A-Za-z].*|[\\^`]\s*)$")
_GOES_ON = re.compile(r"(?:^|\s)[\\^`]\s*$")
_SHELL = re.compile(r"\s(?:\d?>{1,2}&?\s?\S|\||&&|;|2>&1|&\s*$)|`|\s#\s")


class LogLine(NamedTuple):
    """One line: its level (empty without a prefix), whether TensorRT spoke, and what it said."""

    level: str
    library: bool
    text: str
    stamped: bool
    stamp: str = ""


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
        yield clean(line)


def clean(line: str) -> str:
    """Take colours, closing tags and an envelope of JSON off a line."""
    if len(line) > LONGEST_LINE:
        line = line[:LONGEST_LINE]
    if "\x1b" in line or "\u241b" in line:
        line = _ANSI.sub("", line)
    if line.startswith("{") and line.rstrip().endswith("}"):
        line = _enveloped(line)
    if "&amp;" in line:
        line = html.unescape(line)
    last = line[-1:]
    if last in (">", "`"):
        line = _CLOSING.sub("", line)
    elif last == "m" and "[" in line[-13:]:
        line = _ANSI_REST.sub("", line)
    return line


def _enveloped(line: str) -> str:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return line
    said = (found.get(key) for key in _WRAPPED_KEYS) if isinstance(found, dict) else ()
    return next((each.rstrip("\r\n") for each in said if isinstance(each, str)), line)


class Prefixes:
    """Takes off what other tools put before a line, once a line that is known showed what it is."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[str, re.Pattern[str]] = {}

    def line(self, text: str) -> LogLine:
        """Read one line."""
        match = _STAMPED.search(text, 0, _LOOK)
        if match is not None:
            begin = match.start()
            if begin:
                self._learn(text, begin)
            library = match[2] is not None
            rest = text[match.end() :]
            if rest.startswith("[TRT]"):
                library, rest = True, rest[6:]
            return LogLine(match[3], library, rest, True, match[1])
        text = self.without(text)
        bare = _BARE.match(text)
        if bare is None:
            return LogLine("", False, text, False)
        rest = text[bare.end() :]
        if rest.startswith("[TRT]"):
            return LogLine(bare[1], True, rest[6:], False)
        return LogLine(bare[1], False, rest, False)

    def without(self, text: str) -> str:
        """Take the prefix off a line that has no stamp of trtexec's."""
        anchor = _ANCHOR.search(text, 0, _LOOK)
        if anchor is not None and anchor.start() and _is_wrapping(text, anchor.start()):
            self._learn(text, anchor.start())
            return text[anchor.start() :]
        match = self._pattern.match(text) if self._pattern is not None else None
        return text[match.end() :] if match else text

    def _learn(self, text: str, end: int) -> None:
        match = self._pattern.match(text) if self._pattern is not None else None
        if match is not None and match.end() == end:
            return
        mask = _mask(text[:end])
        if mask not in self._known and len(self._known) < 1000:
            self._known[mask] = re.compile(mask)
        self._pattern = self._known.get(mask, self._pattern)


def _mask(prefix: str) -> str:
    """Write a pattern for prefixes like this one: numbers, blanks and words of time may differ."""
    body = prefix.rstrip()
    parts = [
        r"\d+" if part.isdigit() else r"\s+" if part.isspace() else r"[A-Za-z]+"
        if _VARYING.fullmatch(part) else re.escape(part)
        for part in _VARYING.split(body)
        if part
    ]  # fmt: skip
    return "".join(parts) + rf"\s{{0,{len(prefix) - len(body)}}}"


def _is_wrapping(text: str, end: int) -> bool:
    """Say whether what stands before a known line was put there by a tool, and is no prose."""
    at = 0
    while at < end:
        match = _WRAPPING.match(text, at)
        if match is None or match.end() == at:
            return False
        at = match.end()
    return at == end


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
