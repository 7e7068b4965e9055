"""Logs of trtexec, TensorRT 5 to 11: one :class:`LogRun` per run found in the text.

``log_from_text`` reads bytes or text of any origin: terminal captures, notebooks, several
runs one after another. Every line goes to exactly one place.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter, deque
from typing import Any, Literal

from trtbench.core.errors import ParseError
from trtbench.core.safety import mask, may_hold_secret
from trtbench.trtexec.log_collect import (
    LONGEST_KEPT,
    TAIL,
    FactCollector,
    MessageCollector,
    ProfileCollector,
    SummaryCollector,
    TraceCollector,
)
from trtbench.trtexec.log_text import (
    HARD_BREAK,
    Banner,
    CommandLines,
    LogLine,
    Prefixes,
    Source,
    banner_from_text,
    clean,
    lines_from_line,
    read_text,
)
from trtbench.trtexec.log_values import (
    BuildFacts,
    LogRun,
    LogSection,
    LogText,
    Outcome,
)
from trtbench.trtexec.version import number, version_from_text

MOST_RUNS = 10_000
"""Runs read from one log; a file of nothing but banners must not fill the memory."""
FIRST_YEAR = 2016
"""TensorRT is from 2016; a board whose clock lost its battery shows 1970."""
_LONGEST_TITLE = 100
_LONGEST_STAMP = len("[03/04/2025-05:06:07] [TRT] [I] ")
_LONGEST_KNOWN = 250
"""Characters of lines that are remembered: options and the like, which all logs have."""

_HEADER = re.compile(r"=== (.{1,80}) ===\s*$")
_PROFILE = re.compile(r"=== Profile \((\d{1,12}) iterations ?\) ===")
_WARMED = re.compile(r"Warmup completed (\d{1,15}) queries over")
_TRACED = re.compile(r"Timing trace has (\d{1,15}) queries over ([\d.]{1,40}) s")
_DECIMAL = re.compile(
    r"(?<=\d),(?=\d+(?:e[+-]?\d+)? ?(?:(?:ms|s|sec|qps)\b|%\)))"
    r"|(?<=\d),(?=\d+\)\.?\s*$)(?<=time is \d,|ime is \d\d,|me is \d\d\d,|e is \d\d\d\d,)"
)
"""The comma that some countries write for the point: ``0,75 ms``."""
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)")
_MARKUP = re.compile(r"^[\s#>*+`=~|-]+|[\s:\uff1a*`=|-]+$")
_STAMP = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)")
_CRASH = re.compile(
    r"\[[EF]\] |[Ss]egmentation fault|core dumped|Aborted|\bKilled\b|terminate called|[Aa]ssert"
    r"|Bus error|Traceback|SIG[A-Z]{3,5}|exit(?:ed with)? (?:code|status) [1-9]"
)
"""Last words of a process that did not end by itself."""
_LEGACY = frozenset((
    "avgRuns", "batch", "calib", "deploy", "device", "engine", "iterations", "loadEngine",
    "model", "onnx", "output", "percentile", "saveEngine", "uff", "uffInput", "useDLACore",
    "workspace", "fp16", "int8", "verbose", "useSpinWait", "hostTime", "safe", "allowGPUFallback",
))  # fmt: skip
"""Options as TensorRT 5 and 6 list them, without a heading."""
_LEGACY_FIRST = frozenset({"deploy", "onnx", "uff", "engine", "loadEngine"})
_LISTING = ("Name: ", "Layer(", "Bindings:")
"""Layer information, which is read from its JSON export; from the log only types are read."""
_TYPES = {
    "Float": "fp32", "FP32": "fp32", "Half": "fp16", "FP16": "fp16", "BFloat16": "bf16",
    "BF16": "bf16", "Int8": "int8", "INT8": "int8", "FP8": "fp8", "Int4": "int4",
}  # fmt: skip
_TYPE = re.compile(rf"(?:Datatype: |[\[(]|format |linear )({'|'.join(_TYPES)})\b")
_BEFORE_SUMMARY = (
    "Average on ", "Trace averages of", "Warmup completed", "Timing trace has", "Start parsing",
    "Finished parsing", "Engine built", "Engine loaded", "Engine deserialized",
)  # fmt: skip
"""What trtexec prints before the summary, and not again after it."""
_AFTER_OPTIONS = (
    *_BEFORE_SUMMARY, "Starting inference", "Throughput: ", "TensorRT version: ", "Latency: min",
    "Host Latency", "Host latency", "host latency", "GPU Compute", "GPU compute", "Enqueue Time",
)  # fmt: skip
_FIRST_AFTER_OPTIONS = frozenset(each[0] for each in _AFTER_OPTIONS)
_DECIDING = frozenset((
    "===", "Average", "Trace", "Warmup", "Timing", "Start", "Finished", "Engine", "Throughput:",
    "throughput:", "walltime:", "Latency:", "Host", "host", "End-to-End", "Enqueue", "H2D", "GPU",
    "gpu", "D2H", "Total", "total",
))  # fmt: skip
"""First words of lines that may show that another run has begun: the cheap test."""
_CUT_LABELS = frozenset((
    "End-to-End", "End-to-End Host", "Host", "H2D", "D2H", "Enqueue", "GPU", "Total",
    "Total Host", "Total GPU", "Total GPU Compute",
))  # fmt: skip
"""Lines that were broken within a label: what follows is under another label than it seems."""
_OUTCOMES: dict[str, Outcome] = {"PASSED": "passed", "FAILED": "failed", "WAIVED": "waived"}


def log_from_text(data: Source, *, where: str) -> tuple[LogRun, ...]:
    """Read every run in a log; a text that is not trtexec's is a ``ParseError``."""
    found = read_log(data, where=where)
    if not found.runs:
        raise ParseError(
            f"{where} is not a log of trtexec",
            facts={
                "lines": found.lines,
                "expected": "a line '&&&& RUNNING TensorRT.trtexec ...', lines that begin with "
                "'[mm/dd/yyyy-hh:mm:ss] [I]', or 'Average over N runs is ...'",
            },
        )
    return found.runs


def read_log(data: Source, *, where: str) -> LogText:
    """Read every run in a text of any kind."""
    text = read_text(data)
    reader = _TextReader(where=where)
    at = 0
    for at, raw in enumerate(text.lines, start=1):
        for line in lines_from_line(raw):
            reader.take(clean(line), at)
    reader.next_run(at + 1)
    return LogText(tuple(reader.runs), at, text.as_in_file)


class _TextReader:
    """Cuts a text into runs; no two summaries ever share one."""

    def __init__(self, *, where: str) -> None:
        self.where = where
        self.runs: list[LogRun] = []
        self.current = _RunReader(where=where, line=1)
        self.prefixes, self.commands = Prefixes(), CommandLines()
        self.above: int | None = None
        """Where the words began that stand between the last run's numbers and what comes next."""
        self.title: str | None = None
        self.cut = False

    def take(self, raw: str, at: int) -> None:
        """File one line; secrets of whoever ran it go no further."""
        if raw == HARD_BREAK:
            self.next_run(at)
            self.prefixes, self.commands = Prefixes(), CommandLines()
            return
        if "&&&& " in raw:
            raw = mask(raw)
            banner = banner_from_text(raw)
            if banner is not None:
                self._banner(banner, raw, at)
                return
        line = self.prefixes.line(raw)
        if line.level != "V" and _is_suspect(raw, line):
            raw = mask(raw)
            line = self.prefixes.line(raw)
        rest_of_cut = self.cut and not line.level
        self.cut = line.text.rstrip() in _CUT_LABELS
        if self.cut or rest_of_cut:
            self.current.summary.block = None
            return
        if "," in line.text and line.level != "V":
            line = line._replace(text=_DECIMAL.sub(".", line.text))
        if self.current.begins_anew(line):
            self.next_run(self.above or at)
        elif not line.level and self._words(line.text, at):
            return
        if line.level and (self.above or self.title) and not self.current.over:
            self._settle()
        self.current.take(line, raw)
        self.current.last_line = at

    def next_run(self, line: int) -> None:
        """End the current run and begin another."""
        if self.current.evidence and len(self.runs) < MOST_RUNS:
            self.current.last_line = max(self.current.line, min(self.current.last_line, line - 1))
            self.runs.append(self.current.run())
        self.current = _RunReader(where=self.where, line=line)
        self._settle()

    def _settle(self) -> None:
        """Give the words that stood above to the run below them."""
        if self.current.title is None and not self.current.started:
            self.current.title = self.title
        self.above = self.title = None

    def _banner(self, banner: Banner, raw: str, at: int) -> None:
        self.prefixes.without(raw)
        if banner.kind == "RUNNING":
            if self.current.started or self.current.outcome:
                self.next_run(self.above or at)
            if self.current.command is None:
                self.current.line = at
            self.current.title = None  # the log itself states what was run
            self.current.take_banner(banner)
        elif self.current.outcome is None:
            self.current.take_banner(banner)
        self.current.last_line = at
        self.above = None

    def _words(self, text: str, at: int) -> bool:
        """Look at a line that trtexec did not mark: a typed command, a fence, somebody's words."""
        current = self.current
        if current.over and self.above is None and text.strip():
            self.above = at
        continued = self.commands.waiting is not None
        command = self.commands.take(text)
        running = current.banner and current.outcome is None and not current.summary.printed
        if command is not None and not running:  # else something the run itself prints
            if current.started:
                self.next_run(self.above or at)
            self.current.command = command
        if command is not None or continued or self.commands.waiting is not None:
            return False
        if _FENCE.match(text):
            current.closed = current.closed or (current.summary.printed and not current.banner)
            return True
        if (current.over or not current.started) and (self.title is None or text.startswith("#")):
            title = _MARKUP.sub("", text[: 4 * _LONGEST_TITLE])
            self.title = title[:_LONGEST_TITLE] or self.title
        return False


def _is_suspect(raw: str, line: LogLine) -> bool:
    """Whether a line may hold a secret; of a line with only trtexec's stamp the rest counts."""
    begun = line.stamped and raw[20:21] == "]" and len(raw) - len(line.text) <= _LONGEST_STAMP
    if begun and len(raw) <= _LONGEST_KNOWN:
        return _known_suspect(line.text)
    return may_hold_secret(raw)


_known_suspect = functools.lru_cache(maxsize=4096)(may_hold_secret)


class _RunReader:
    def __init__(self, *, where: str, line: int) -> None:
        self.where, self.line, self.last_line = where, line, line
        self.banner: Banner | None = None
        self.outcome: Outcome | None = None
        self.version: str | None = None
        self.evidence = False
        """Something only trtexec prints has been seen."""
        self.sections: list[tuple[str, list[tuple[str, str]]]] = []
        self.mode: Literal["section", "profile", "prose", "help"] | None = None
        self.section_stamped = False
        self.facts, self.summary = FactCollector(), SummaryCollector()
        self.trace, self.messages = TraceCollector(), MessageCollector()
        self.profile: ProfileCollector | None = None
        self.counts: dict[str, Any] = {}
        """Numbers of queries: fields of the run."""
        self.tf32 = self.helped = False
        self.last: deque[str] = deque(maxlen=TAIL)
        self.command: str | None = None
        """Typed above the text; a banner's counts more."""
        self.title: str | None = None
        self.closed = False
        """An excerpt's numbers are followed by the end of a listing: nothing more belongs to it."""
        self.headed = False
        self.layer_types: Counter[str] = Counter()
        self.first_stamp: str | None = None
        self.last_stamp: str | None = None

    @property
    def started(self) -> bool:
        """Whether more than loose messages was seen.

        Warnings go to stderr and overtake the banner when both end in one file.
        """
        return bool(self.banner or self.sections or self.summary.averages or self.summary.metrics)

    @property
    def over(self) -> bool:
        """Whether the run has its numbers, so that words that follow are not about it."""
        return bool(self.outcome) or self.closed or self.summary.printed

    def take_banner(self, banner: Banner) -> None:
        """Start at a ``RUNNING`` line, or stop at an end marker."""
        self.evidence = True
        self.banner = self.banner or banner
        self.version = self.version or banner.version
        if banner.kind in _OUTCOMES:
            self.outcome, self.mode = _OUTCOMES[banner.kind], None

    def begins_anew(self, line: LogLine) -> bool:
        """Whether a line is of another run, because this one has what the line states."""
        if line.library or line.level in ("V", "W", "E", "F"):
            return False
        text, summary, ended = line.text, self.summary, self.outcome is not None
        word = text.split(" ", 1)[0]
        if word not in _DECIDING:
            if line.level and not summary.averages:
                return False
            done = ended and self.banner is None and not line.level
            # TensorRT 3 to 6 list options first, before averages.
            legacy = bool(summary.averages) and summary.averages[0].legacy
            again = legacy and text.partition(":")[0].strip() in _LEGACY_FIRST
            return bool(done and text.strip()) or again
        over = ended or self.closed or self.headed
        if word == "===":
            header = _HEADER.match(text)
            name = header[1] if header else ""
            if name == "Performance summary":
                return over or summary.printed
            if name == "Trace details":
                return over or summary.printed or bool(summary.averages)
            if name.endswith(" Options") or name == "Device Information":
                listed = any(name == each for each, _ in self.sections)
                return (over or summary.printed or listed) and self.mode != "help"
            seen = ended or self.closed or self.profile is not None
            return seen and _PROFILE.match(text) is not None
        if self.mode == "prose":
            return False
        if text.startswith(_BEFORE_SUMMARY):
            return over or summary.printed
        if text.startswith("Average over"):
            return ended or self.closed or summary.printed
        if ended or self.closed:
            return SummaryCollector().take(text)
        return summary.repeats(text)

    def take(self, line: LogLine, raw: str) -> None:
        """File one line that is not a banner."""
        level = line.level
        if level or raw.strip():
            self.last.append(raw[:LONGEST_KEPT])
        if self.outcome is not None:
            return
        if line.stamped:
            self.evidence = self.evidence or not line.library
            self.first_stamp = self.first_stamp or line.stamp
            self.last_stamp = line.stamp
        if level == "V":
            if line.library:
                self.trace.take(line.text)
            return
        if level in ("W", "E", "F"):
            self.messages.take(line)
            return
        self._plain(line)
        if level == "I":
            self.messages.open = None  # what follows is not part of the last message

    def _plain(self, line: LogLine) -> None:
        """File an informational line or one without a prefix."""
        text = line.text
        if not text.strip():
            self.mode = None if line.level else self.mode
            return
        if line.library:
            self.trace.phase(text)
            self.facts.take(text, library=True)
            return
        header = _HEADER.match(text) if text.startswith("=== ") else None
        if header:
            self._header(header[1], text, stamped=bool(line.level))
            return
        if self.mode == "profile" and self.profile is not None and self.profile.take(text):
            return
        if self.mode == "section" and bool(line.level) == self.section_stamped:
            if text[0] not in _FIRST_AFTER_OPTIONS or not text.startswith(_AFTER_OPTIONS):
                self._option(text)
                return
            self.mode = None  # the blank line that ends the options was left out
        if self.mode not in ("prose", "help"):
            self._statement(text)

    def _header(self, name: str, text: str, *, stamped: bool) -> None:
        profile = _PROFILE.match(text)
        self.headed = self.headed or name == "Performance summary"
        if profile:
            self.evidence, self.mode = True, "profile"
            self.profile = ProfileCollector(iterations=int(profile[1]))
        elif name.endswith(" Options") or name == "Device Information":
            self.evidence, self.mode, self.section_stamped = True, "section", stamped
            self.sections.append((name, []))
        elif name.startswith("Explanations"):
            self.mode = "prose"
        else:
            self.mode = "help" if name == "Help" and not stamped else None

    def _option(self, text: str) -> None:
        entries = self.sections[-1][1]
        if not self.section_stamped and text.startswith(("  ", "--")) and not entries:
            self.sections.pop()  # usage text has the same headings as the dump of options
            self.mode, self.helped = "help", True
            return
        label, colon, value = text.partition(":")
        if colon:
            entries.append((label.strip(), value.strip()))
        elif entries:
            before = entries[-1]
            entries[-1] = (before[0], f"{before[1]}\n{text.strip()}".lstrip("\n"))

    def _statement(self, text: str) -> None:
        if self.summary.take(text):
            self.evidence = True
        elif self.facts.take(text, library=False):
            return
        elif match := _WARMED.match(text):
            self.counts["warmup_queries"] = int(match[1])
        elif match := _TRACED.match(text):
            # TensorRT 7 counts 0 when the batch is explicit.
            self.counts |= {"queries": int(match[1]) or None, "trace_s": number(match[2])}
        elif text.startswith("TensorRT version: "):
            self.version = version_from_text(text.partition(": ")[2]) or self.version
        elif text.rstrip() == "Done." and self.summary.averages and self.banner is None:
            self.outcome = "passed"
        elif text.startswith(_LISTING):
            self.trace.take_final(text)
            self.layer_types.update(_TYPES[name] for name in _TYPE.findall(text[:20_000]))
        elif text.startswith("TF32 is enabled by default"):
            self.tf32 = True
        elif not (self.summary.averages or self.summary.printed):
            label, _, value = text.partition(":")
            if label.strip() in _LEGACY and not self.sections:
                self.sections.append(("Options", []))
            if label.strip() in _LEGACY and self.sections[-1][0] == "Options":
                self.sections[-1][1].append((label.strip(), value.strip()))

    def _outcome(self) -> Outcome:
        measured = self.summary.printed or self.summary.averages or self.profile is not None
        if self.helped and not measured and self.outcome in (None, "passed", "waived"):
            return "help"
        if self.outcome is not None:
            return self.outcome
        if self.mode == "help":
            return "help"
        crashed = not measured and _CRASH.search(" ".join(list(self.last)[-3:]))
        return "crashed" if crashed else "cut"

    def run(self) -> LogRun:
        """The run as a value."""
        banner, messages = self.banner, tuple(self.messages.found.values())
        codes = {each.code for each in messages}
        printed = banner.command if banner else None
        return LogRun(
            where=self.where,
            line=self.line,
            last_line=self.last_line,
            outcome=self._outcome(),
            tool=banner.tool if banner else "trtexec",
            version=self.version,
            build=banner.build if banner else None,
            command=printed or self.command,
            announced=banner is not None and banner.kind == "RUNNING",
            pasted_command=not printed and self.command is not None,
            title=self.title,
            first_stamp=self.first_stamp,
            last_stamp=self.last_stamp,
            sections=tuple(LogSection(name=name, entries=tuple(e)) for name, e in self.sections),
            facts=BuildFacts(
                **self.facts.values,
                memory=tuple(self.facts.memory),
                onnx=self.facts.onnx,
                timing_cache_refused="timing-cache-refused" in codes,
                weak_typing_deprecated="weak-typing" in codes,
            ),
            trace=self.trace.trace(),
            bindings=tuple(self.facts.bindings),
            **self.counts,
            averages=tuple(self.summary.averages),
            summary=self.summary.summary(),
            tf32_stated=self.tf32,
            profile=self.profile.profile() if self.profile else None,
            messages=messages,
            layer_types=dict(self.layer_types),
            last_lines=tuple(self.last),
        )


def time_of_log(run: LogRun) -> datetime.datetime | None:
    """The local time at which a run ended; ``None`` when nothing sensible was printed.

    TensorRT 6 counts months from zero.
    """
    match = _STAMP.fullmatch(run.last_stamp or "")
    if match is None:
        return None
    from_zero = match[1] == "00" or (run.major is not None and run.major <= 6)
    month, day, year, hour, minute, second = (int(part) for part in match.groups())
    try:
        found = datetime.datetime(year, month + from_zero, day, hour, minute, second)
    except ValueError:
        return None
    latest = datetime.datetime.now() + datetime.timedelta(days=2)
    return found if year >= FIRST_YEAR and found < latest else None
