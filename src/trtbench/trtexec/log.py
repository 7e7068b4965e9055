"""Logs of trtexec, TensorRT 5 to 11: one :class:`LogRun` per run found in the text.

``log_from_text`` reads bytes or text of any provenance (terminal captures, notebooks, several
runs one after another); ``conditions_from_log`` tells under which conditions a run's numbers
were taken, and how each condition is known.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from trtbench.boundary import mask, may_hold_secret
from trtbench.errors import ParseError
from trtbench.trtexec._log_build import BuildTrace
from trtbench.trtexec._log_envelopes import is_plain, lines_from_line
from trtbench.trtexec._log_lines import Banner, CommandLines, banner_from_text, clean
from trtbench.trtexec._log_prefixes import LogLine, Prefixes, usual_prefixes
from trtbench.trtexec._log_reader import RunReader
from trtbench.trtexec._log_values import (
    Binding,
    LogMessage,
    LogRun,
    LogSection,
    Metric,
    PerformanceSummary,
)
from trtbench.trtexec._log_wrapped import joined, may_go_on, with_more
from trtbench.trtexec.conditions import conditions_from_log
from trtbench.trtexec.log_text import HARD_BREAK, read_text

__all__ = [
    "Binding",
    "BuildTrace",
    "LogMessage",
    "LogRun",
    "LogSection",
    "LogText",
    "Metric",
    "PerformanceSummary",
    "conditions_from_log",
    "log_from_text",
    "read_log",
]

MOST_RUNS = 10_000
"""Runs read from one log; a file of nothing but banners must not fill the memory."""

_HEADING = re.compile(r"=== Performance summary ===\s*$")
_DECIMAL = re.compile(
    r"(?<=\d),(?=\d+(?:e[+-]?\d+)? ?(?:(?:ms|s|sec|qps)\b|%\)))"
    r"|(?<=\d),(?=\d+\)\.?\s*$)(?<=time is \d,|ime is \d\d,|me is \d\d\d,|e is \d\d\d\d,)"
)
"""The comma that some countries write for the point: ``0,75 ms``."""
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)")
_MARKUP = re.compile(r"^[\s#>*+`=~|-]+|[\s:\uff1a*`=|-]+$")
_LONGEST_TITLE = 100
_LONGEST_BANNER = 20_000
_LONGEST_STAMP = len("[03/04/2025-05:06:07] [TRT] [I] ")
_FIRST_LINES, _FIRST_CHARACTERS = 2000, 1 << 20
_LONGEST_KNOWN = 250
"""Characters of lines that are remembered: options and the like, which all logs have."""
_STAMP = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)")
FIRST_YEAR = 2016
"""TensorRT is from 2016; a board whose clock lost its battery shows 1970."""


class LogText(NamedTuple):
    """What a text holds of trtexec's."""

    runs: tuple[LogRun, ...]
    headings: tuple[int, ...]
    """Lines that read ``=== Performance summary ===``, counted apart from what became of them."""
    lines: int
    as_in_file: bool = True
    """Whether lines are counted as in the file: not in a notebook, a page, or sorted apart."""
    has_secrets: bool = True
    """Whether a line of the file holds what looks like a secret; it may, unless this is false."""

    @property
    def summaries(self) -> int:
        """How many summaries the text shows, with a heading or in an older wording without."""
        return len(self.headings) + sum(
            run.summary is not None and not run.headed for run in self.runs
        )

    @property
    def empty_headings(self) -> tuple[int, ...]:
        """Headings that no numbers follow; a run was made of every other one."""
        made = [(run.line, run.last_line or run.line) for run in self.runs if run.summary]
        return tuple(at for at in self.headings if not any(a <= at <= b for a, b in made))


def log_from_text(
    data: BinaryIO | bytes | bytearray | memoryview | str, *, where: str
) -> tuple[LogRun, ...]:
    """Read every run in a log; a text that is not trtexec's is a ``ParseError``."""
    found = read_log(data, where=where)
    if not found.runs:
        raise _not_a_log(where, lines=found.lines)
    return found.runs


def read_log(data: BinaryIO | bytes | bytearray | memoryview | str, *, where: str) -> LogText:
    """Read every run in a text of any kind, and count the summaries it shows."""
    text = read_text(data)
    begin = _first_lines(text.lines)
    reader = _TextReader(where=where, usual=usual_prefixes(begin))
    number = 0
    for number, raw in enumerate(itertools.chain(begin, text.lines), start=1):
        as_it_is = False
        for line in (raw,) if is_plain(raw) else lines_from_line(raw):
            cleaned = clean(line)
            as_it_is = cleaned is raw
            reader.take(cleaned, number)
        if not as_it_is and not reader.has_secrets:
            reader.has_secrets = mask(raw) != raw  # there may be one in what was left away
    reader.next_run(number + 1)
    return LogText(
        tuple(reader.runs), tuple(reader.headings), number, text.as_in_file, reader.has_secrets
    )


def _first_lines(lines: Iterator[str]) -> list[str]:
    """Take the lines by which a text is known, few enough to be held."""
    begin: list[str] = []
    left = _FIRST_CHARACTERS
    while left > 0 and len(begin) < _FIRST_LINES and (line := next(lines, None)) is not None:
        begin.append(line)
        left -= len(line)
    return begin


class _TextReader:
    """Cuts a text into runs; no two summaries ever share one."""

    def __init__(self, *, where: str, usual: frozenset[str]) -> None:
        self.where, self.usual = where, usual
        self.runs: list[LogRun] = []
        self.current = RunReader(where=where, line=1)
        self.headings: list[int] = []
        self.prefixes = Prefixes(usual)
        self.commands = CommandLines()
        self.above: int | None = None
        """Where the words began that stand between the last run's numbers and what comes next."""
        self.title: str | None = None
        self.broken: tuple[LogLine, str, int] | None = None
        """A long line, until it is known that nothing of it stands in the next."""
        self.announced: str | None = None
        """The banner just read, for which a line may have had no room."""
        self.has_secrets = False

    def take(self, raw: str, number: int) -> None:
        """File one line, once it is whole; secrets of whoever ran it go no further."""
        if raw == HARD_BREAK:
            self.next_run(number)
            self.prefixes, self.commands = Prefixes(self.usual), CommandLines()
            return
        if "&&&& " in raw:
            raw = self._masked(raw)
            banner = banner_from_text(raw)
            if banner is not None:
                self._complete()
                self._banner(banner, raw, number)
                return
        line = self.prefixes.line(raw)
        if line.level != "V" and _may_hold_secret(raw, line):
            raw = self._masked(raw)
            line = self.prefixes.line(raw)
        if self.broken is not None:
            before, begin, at = self.broken
            text = joined(before, line)
            if text is not None:
                self.broken = (before._replace(text=text), begin, at)
                return
            self._complete()
        elif self.announced is not None:
            announced, self.announced = self.announced, None
            more = with_more(announced, line)
            banner = banner_from_text(more) if announced != more else None
            if banner is not None and len(more) < _LONGEST_BANNER:
                self.current.name_again(banner)
                self.announced = more
                return
        if line.level != "V" and may_go_on(line):
            self.broken = (line, raw, number)
        else:
            self._file(line, raw, number)

    def _masked(self, raw: str) -> str:
        masked = mask(raw)
        self.has_secrets = self.has_secrets or masked != raw
        return masked

    def _complete(self) -> None:
        if self.broken is not None:
            line, raw, number = self.broken
            self.broken = None
            self._file(line, raw, number)

    def _file(self, line: LogLine, raw: str, number: int) -> None:
        if "," in line.text and line.level != "V":
            line = line._replace(text=_DECIMAL.sub(".", line.text))
        if "=== Perf" in line.text and _HEADING.match(line.text):
            self.headings.append(number)
        if self.current.begins_anew(line):
            self.next_run(self.above or number)
        elif not line.level and self._words(line.text, number):
            return
        if line.level and (self.above or self.title) and not self._over:
            self._settle()
        self.current.take(line, raw)
        self.current.last_line = number

    def next_run(self, line: int) -> None:
        """End the run at hand and begin another."""
        self._complete()
        if self.current.evidence and len(self.runs) < MOST_RUNS:
            self.current.last_line = max(self.current.line, min(self.current.last_line, line - 1))
            self.runs.append(self.current.run())
        self.current = RunReader(where=self.where, line=line)
        self._settle()

    @property
    def _over(self) -> bool:
        """Whether the run at hand has its numbers, so that words that follow are not about it."""
        run = self.current
        return run.ended or run.closed or run.summary.printed

    def _settle(self) -> None:
        """Find the words that stood above to the run they stand above of."""
        if self.current.title is None and not self.current.started:
            self.current.title = self.title
        self.above = self.title = None

    def _banner(self, banner: Banner, raw: str, number: int) -> None:
        self.prefixes.without(raw)
        if banner.kind == "RUNNING":
            if self.current.started or self.current.ended:
                self.next_run(self.above or number)
            if self.current.command is None:
                self.current.line = number
            self.current.begin(banner)
            self.announced = raw
            self.current.title = None  # a log tells itself what was run
        elif not self.current.ended:
            self.current.end(banner)
        self.current.last_line = number
        self.above = None

    def _words(self, text: str, number: int) -> bool:
        """Look at a line that trtexec did not mark: a typed command, a fence, somebody's words."""
        current = self.current
        if self._over and self.above is None and text.strip():
            self.above = number
        going_on = self.commands.waiting
        command = self.commands.take(text)
        if command is not None:
            self._typed(command, number)
        if command is not None or going_on or self.commands.waiting:
            return False
        if _FENCE.match(text):
            current.closed = current.closed or (current.summary.printed and not current.banner)
            return True
        if (self._over or not current.started) and (self.title is None or text.startswith("#")):
            title = _MARKUP.sub("", text[: 4 * _LONGEST_TITLE])
            self.title = title[:_LONGEST_TITLE] or self.title
        return False

    def _typed(self, command: str, number: int) -> None:
        current = self.current
        if current.banner is not None and not current.ended and not current.summary.printed:
            return  # something the run itself says
        if current.started:
            self.next_run(self.above or number)
        self.current.command = command


def _may_hold_secret(raw: str, line: LogLine) -> bool:
    """Say whether a line needs a closer look; one that many logs have is looked at once.

    Of a line that begins with trtexec's stamp, and with nothing before it, the rest counts.
    """
    begun = line.stamped and raw[20:21] == "]" and len(raw) - len(line.text) <= _LONGEST_STAMP
    if begun and len(raw) <= _LONGEST_KNOWN:
        return _known_suspect(line.text)
    return may_hold_secret(raw)


_known_suspect = functools.lru_cache(maxsize=4096)(may_hold_secret)


def _not_a_log(where: str, *, lines: int) -> ParseError:
    return ParseError(
        f"{where} is not a log of trtexec",
        facts={
            "lines": lines,
            "expected": "a line '&&&& RUNNING TensorRT.trtexec ...', lines that begin with "
            "'[mm/dd/yyyy-hh:mm:ss] [I]', or 'Average over N runs is ...'",
        },
    )


def time_of_log(run: LogRun) -> datetime.datetime | None:
    """Find the local time at which a run ended; ``None`` when nothing sensible was printed.

    TensorRT 6 counts months from zero.
    """
    if run.last_stamp is None:
        return None
    from_zero = run.last_stamp.startswith("00/") or (run.major is not None and run.major <= 6)
    match = _STAMP.fullmatch(run.last_stamp)
    if match is None:
        return None
    month, day, year, hour, minute, second = (int(part) for part in match.groups())
    try:
        found = datetime.datetime(year, month + from_zero, day, hour, minute, second)
    except ValueError:
        return None
    latest = datetime.datetime.now() + datetime.timedelta(days=2)
    return found if year >= FIRST_YEAR and found < latest else None
