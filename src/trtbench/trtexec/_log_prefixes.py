"""What other tools put before the lines of a log: learnt from known lines, taken off all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_STAMPED = re.compile(
    r"\[(\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\][ \t](\[TRT\][ \t])?\[([IWEVF])\][ \t]?"
)
_BARE = re.compile(r"(?:\[INFO\] ?)?\[([IWEVF])\](?: |$)")
_ANCHOR = re.compile(
    r"(?:\[[IWEVF]\] )?(?:&&&& (?:RUNNING|PASSED|FAILED|WAIVED) |=== [A-Z][\w() /-]{2,60} ===\s*$"
    r"|Average o(?:n|ver) \d|(?:Throughput|Total Host Walltime|Total GPU Compute Time): \d"
    r"|(?:(?:(?:End-to-End )?Host |[HD]2[HD] )?Latency|Enqueue Time|GPU Compute Time): min ="
    r"|(?:[Hh]ost [Ll]atency|GPU [Cc]ompute)[\s\"'$\\`*+]*$"
    r"|(?:deploy|engine|loadEngine|onnx|uff): \S+\.\w)"
)
_LEVEL_WORD = r"DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|NOTICE|TRACE"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
_MONTH = rf"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|{_DAY})\b"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_PROGRAM = r"[\w./\\@-]{1,100}(?:\[[\w.]{1,30}\])?:"
_PIECES = (
    r"\s+|[>|*#+~$!/:%;`'\"│┃-]+|\\\w{1,20}\{",
    r"\"?[\w.:+@/ -]{0,80}\"?[,;]\"?(?=\S)",  # cells of a table before it
    r"<\d{1,3}>1 (?:\S{1,80} ){5}(?:-|(?:\[[^\]\n]{0,120}\])+)(?= )",  # syslog, RFC 5424
    rf"\d\d-\d\d {_CLOCK} +\d{{1,7}} +\d{{1,7}} [VDIWEF] \S{{1,60}} *:",  # logcat
    r"[A-Z_]{3,30}=",  # an exported journal
    r"<\d{1,3}>\d?|<\w[^<>]{0,80}>",
    r"\[[^\]\n]{0,120}\]:?|\([\w:. ]{1,40}\)",
    r"\(\w{1,40} pid=[\w=,. ]{1,60}\)|\{[\w.]{1,60}:\d{1,6}\}",  # Ray, Airflow
    rf"{_DAY}(?= \d{{4}}-)",
    rf"\d{{2,4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d| [A-Z]{{2,5}}\b)?",
    rf"(?:{_MONTH} +){{1,2}}\d{{1,2}} {_CLOCK}(?: \d{{4}})?(?: [\w.-]{{1,80}}(?= {_PROGRAM} ))?",
    rf"[IWEF]\d{{4,8}} {_CLOCK} +\d{{1,10}} [\w./-]{{1,80}}:\d{{1,6}}\]",  # glog
    rf"{_CLOCK}|\d\d[OE]\b\+?|#\d{{1,4}} [\d.]{{1,12}}|E(?=   )",
    rf"(?:{_LEVEL_WORD})\b:?|std(?:out|err)(?: [FP])?\b",
    r"[\w./\\]{1,100}-\d{1,9}-(?!\d)",  # what grep shows around a match
    rf"{_PROGRAM}|[\w.-]{{1,80}}(?=\s*\|)|[\w.-]{{1,60}}(?= - )",
    r"[\w .()-]{1,80}\t",
    r"[\w.-]{1,60}(?:/[\w.-]{1,60}){1,8}(?= )",
    rf"[\w.-]{{1,80}}(?= {_PROGRAM} )",
    r"(?=[\w.]{0,60}-[\w.-]{0,60}\d)[\w.-]{1,80} [\w.-]{1,60}(?= )",  # a pod and its container
    r"[\d.]{1,20}[.)]?(?=\s)",
)
_WRAPPING = re.compile("|".join(_PIECES))
"""One piece of what containers, journals, build servers, loggers and quoting put before a line."""
SHORTEST_HASH = 12
"""Digits and letters of what is a number of base sixteen, and no word."""
_VARYING = re.compile(
    rf"(\b[0-9a-f]{{{SHORTEST_HASH},64}}\b|\d+"
    rf"|\s+|\b(?:{_LEVEL_WORD})\b|\b{_MONTH}|\b[IWEF](?=\d{{4,8}} )|(?<=std(?:out|err) )[FP]\b)"
)
LOOK = 200
"""Characters of foreign prefix (container names, time stamps of a build server) to look past."""


class LogLine(NamedTuple):
    """One line: its level (empty without a prefix), whether TensorRT spoke, and what it said."""

    level: str
    library: bool
    text: str
    stamped: bool
    stamp: str = ""


class Prefixes:
    """Takes off what other tools put before a line, once a line that is known showed what it is."""

    def __init__(self, usual: frozenset[str] = frozenset()) -> None:
        self._usual = usual
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[str, re.Pattern[str]] = {}

    def line(self, text: str) -> LogLine:
        """Read one line."""
        match = _STAMPED.search(text, 0, LOOK)
        if match is not None:
            begin = match.start()
            if begin:
                self._learn(text, begin)
            library = match[2] is not None
            rest = text[match.end() :]
            if begin and rest[-1:] in ("'", '"') and rest.count(rest[-1]) % 2:
                rest = rest[:-1]  # the line was quoted with its prefix
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
        anchor = _ANCHOR.search(text, 0, LOOK)
        begin = anchor.start() if anchor is not None else 0
        if begin and (_is_wrapping(text, begin) or _mask(text[:begin]) in self._usual):
            self._learn(text, begin)
            return text[begin:]
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


def usual_prefixes(lines: Iterable[str]) -> frozenset[str]:
    """Find what stands before known lines again and again: no sentence does, whatever it is.

    Lines of several kinds must have it, since people, too, write lists of one number each.
    """
    kinds: dict[str, list[str]] = {}
    for line in lines:
        anchor = _ANCHOR.search(line, 0, LOOK) if line[20:23] != "] [" else None
        if anchor is not None and anchor.start() and line.lstrip()[:1] != "|":
            kind = anchor[0].rstrip("0123456789")[:12]
            kinds.setdefault(_mask(line[: anchor.start()]), []).append(kind)
    return frozenset(
        prefix for prefix, found in kinds.items() if len(found) > 2 and len(set(found)) > 1
    )


def _mask(prefix: str) -> str:
    """Write a pattern for prefixes like this one: numbers, blanks and words of time may differ."""
    body = prefix.rstrip()
    parts = [
        _varying(part) if varies else re.escape(part)
        for place, part in enumerate(_VARYING.split(body))
        if (varies := place % 2) or part
    ]
    return "".join(parts) + rf"\s{{0,{len(prefix) - len(body)}}}"


def _varying(part: str) -> str:
    if part.isspace():
        return r"\s+"
    if len(part) >= SHORTEST_HASH:
        return r"[0-9a-f]+"
    return r"\d+" if part.isdecimal() else r"[A-Za-z]+"


def _is_wrapping(text: str, end: int) -> bool:
    """Say whether what stands before a known line was put there by a tool, and is no prose."""
    if text.lstrip()[:1] == "|" and text.rstrip()[-1:] == "|":
        return False  # a row of a table
    at = 0
    while at < end:
        match = _WRAPPING.match(text, at)
        if match is None or match.end() == at:
            return False
        at = match.end()
    return at == end
