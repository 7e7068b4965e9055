"""Reads a log line by line into runs; every line goes to exactly one place."""

from __future__ import annotations

from collections import Counter, deque
from typing import Literal

from trtbench.trtexec import _log_words as words
from trtbench.trtexec._log_build import TraceCollector
from trtbench.trtexec._log_facts import FactCollector
from trtbench.trtexec._log_lines import Banner, number
from trtbench.trtexec._log_messages import LONGEST_KEPT, MOST_KEPT, TAIL, MessageCollector
from trtbench.trtexec._log_prefixes import LogLine
from trtbench.trtexec._log_profile import HEADING, ProfileCollector
from trtbench.trtexec._log_summary import SummaryCollector
from trtbench.trtexec._log_values import LogRun, LogSection, Outcome
from trtbench.trtexec.version import version_from_text

_OUTCOMES: dict[str, Outcome] = {"PASSED": "passed", "FAILED": "failed", "WAIVED": "waived"}


class RunReader:
    """One run in the making."""

    def __init__(self, *, where: str, line: int) -> None:
        self.where = where
        self.line = line
        self.last_line = line
        self.banner: Banner | None = None
        self.outcome: Outcome | None = None
        self.version: str | None = None
        self.evidence = False
        """Something only trtexec prints has been seen."""
        self.sections: list[tuple[str, list[tuple[str, str]]]] = []
        self.mode: Literal["section", "profile", "prose", "help"] | None = None
        self.section_stamped = False
        self.facts = FactCollector()
        self.summary = SummaryCollector()
        self.trace = TraceCollector()
        self.profile: ProfileCollector | None = None
        self.messages = MessageCollector()
        self.warmup_queries: int | None = None
        self.queries: int | None = None
        self.trace_s: float | None = None
        self.omitted = 0
        self.withheld = False
        self.tf32 = False
        self.preamble: list[str] = []
        self.trailer: list[str] = []
        self.unknown: list[str] = []
        self.unknown_count = 0
        self.levels: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=TAIL)
        self.command: str | None = None
        """Typed above the text; a banner's counts more."""
        self.title: str | None = None
        self.closed = False
        """An excerpt's numbers are followed by the end of a listing: nothing more belongs to it."""
        self.headed = False
        """The heading of the performance summary has been seen."""
        self.helped = False
        self.layer_types: Counter[str] = Counter()
        self.first_stamp: str | None = None
        self.last_stamp: str | None = None

    @property
    def ended(self) -> bool:
        return self.outcome is not None

    @property
    def started(self) -> bool:
        """Say whether more than loose messages was seen.

        Warnings go to stderr and overtake the banner when both end in one file.
        """
        return bool(self.banner or self.sections or self.summary.averages or self.summary.metrics)

    def begin(self, banner: Banner) -> None:
        """Start at a ``RUNNING`` line; what came before becomes the preamble."""
        self.preamble, self.unknown, self.unknown_count = self.unknown, [], 0
        self._name(banner)

    def name_again(self, banner: Banner) -> None:
        """Take the banner for what it is with the line that it goes on in."""
        self.banner = None
        self._name(banner)

    def end(self, banner: Banner) -> None:
        """Stop at an end marker."""
        self._name(banner)
        self.outcome = _OUTCOMES[banner.kind]
        self.mode = None

    def _name(self, banner: Banner) -> None:
        self.evidence = True
        self.banner = self.banner or banner
        self.version = self.version or banner.version

    def begins_anew(self, line: LogLine) -> bool:
        """Say whether a line is of another run, because this one has what it tells."""
        if line.library or line.level in ("V", "W", "E", "F"):
            return False
        text = line.text
        word = text.split(" ", 1)[0]
        if word not in words.DECIDING:
            if line.level and not self.summary.averages:
                return False
            done = self.ended and self.banner is None and not line.level
            return bool(done and text.strip()) or self._options_again(text)
        over = self.ended or self.closed or self.headed
        if word == "===":
            return self._heading_anew(text, over=over)
        if self.mode == "prose":
            return False
        if text.startswith(words.BEFORE_SUMMARY):
            return over or self.summary.printed
        if text.startswith("Average over"):
            return self.ended or self.closed or self.summary.printed
        if self.ended or self.closed:
            return SummaryCollector().take(text)
        return self.summary.repeats(text)

    def _heading_anew(self, text: str, *, over: bool) -> bool:
        header = words.HEADER.match(text)
        name = header[1] if header else ""
        printed = self.summary.printed
        if name == "Performance summary":
            return over or printed
        if name == "Trace details":
            return over or printed or bool(self.summary.averages)
        if name.endswith(" Options") or name == "Device Information":
            listed = any(name == each for each, _ in self.sections)
            return (over or printed or listed) and self.mode != "help"
        return HEADING.match(text) is not None and (
            self.ended or self.closed or self.profile is not None
        )

    def _options_again(self, text: str) -> bool:
        """Tell another run's options: TensorRT 3 to 6 list them first, before averages."""
        return self.summary.legacy and text.partition(":")[0].strip() in words.LEGACY_FIRST

    def take(self, line: LogLine, raw: str) -> None:
        """File one line that is not a banner."""
        level = line.level
        self.levels[level] += 1
        if level or raw.strip():
            self.last.append(raw[:LONGEST_KEPT])
        if self.outcome is not None:
            self._keep(self.trailer, raw)
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
        elif not self._plain(line):
            self._unclear(line, raw)
        if level == "I":
            self.messages.open = None  # what follows is not part of the last message

    def _plain(self, line: LogLine) -> bool:
        """File an informational line or one without a prefix; say whether it was understood."""
        text = line.text
        if not text.strip():
            if line.level:
                self.mode = None
            return True
        if line.library:
            self.trace.phase(text)
            return self.facts.take(text, library=True) or text.startswith(words.LIBRARY_TALK)
        header = words.HEADER.match(text) if text.startswith("=== ") else None
        if header:
            self._header(header[1], text, stamped=bool(line.level))
            return True
        if self.mode == "profile" and self.profile is not None and self.profile.take(text):
            return True
        if self.mode == "section" and bool(line.level) == self.section_stamped:
            if text[0] not in words.FIRST_AFTER_OPTIONS or not text.startswith(words.AFTER_OPTIONS):
                return self._option(text)
            self.mode = None  # the blank line that ends the options was left out
        if self.mode in ("prose", "help"):
            return True
        return self._statement(text)

    def _header(self, name: str, text: str, *, stamped: bool) -> None:
        profile = HEADING.match(text)
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

    def _option(self, text: str) -> bool:
        entries = self.sections[-1][1]
        if not self.section_stamped and text.startswith(("  ", "--")) and not entries:
            self.sections.pop()  # usage text has the same headings as the dump of options
            self.mode, self.helped = "help", True
            return True
        label, colon, value = text.partition(":")
        if colon:
            entries.append((label.strip(), value.strip()))
        elif entries:
            before = entries[-1]
            entries[-1] = (before[0], f"{before[1]}\n{text.strip()}".lstrip("\n"))
        return bool(colon or entries)

    def _statement(self, text: str) -> bool:
        if self.summary.take(text):
            self.evidence = True
            return True
        if self.facts.take(text, library=False) or self._count(text):
            return True
        if text.startswith("TensorRT version: "):
            self.version = version_from_text(text.partition(": ")[2]) or self.version
            return True
        if text.rstrip() == "Done." and self.summary.averages and self.banner is None:
            self.outcome = "passed"
            return True
        self.withheld = self.withheld or text.startswith("The e2e network timing is not reported")
        self.tf32 = self.tf32 or text.startswith("TF32 is enabled by default")
        if text.startswith(words.LISTING):
            self.trace.take_final(text)
            self.layer_types.update(words.TYPES[name] for name in words.TYPE.findall(text[:20_000]))
            return True
        return text.startswith(words.TALK) or self._legacy_option(text)

    def _count(self, text: str) -> bool:
        warmed, traced, omitted = (
            words.WARMED.match(text),
            words.TRACED.match(text),
            words.OMITTED.match(text),
        )
        if warmed:
            self.warmup_queries = int(warmed[1])
        if traced:
            # TensorRT 7 counts 0 when the batch is explicit.
            self.queries, self.trace_s = int(traced[1]) or None, number(traced[2])
        if omitted:
            self.omitted = int(omitted[1])
        return bool(warmed or traced or omitted)

    def _legacy_option(self, text: str) -> bool:
        label, _, value = text.partition(":")
        if label.strip() not in words.LEGACY or self.summary.averages or self.summary.printed:
            return False
        if not self.sections:
            self.sections.append(("Options", []))
        if self.sections[-1][0] != "Options":
            return False
        self.sections[-1][1].append((label.strip(), value.strip()))
        return True

    def _unclear(self, line: LogLine, raw: str) -> None:
        """Keep a line nobody understood; right after an error it is part of that error."""
        if not line.level and self.messages.take_detail(raw.strip()):
            return
        self._keep(self.unknown, raw)
        self.unknown_count += 1

    @staticmethod
    def _keep(lines: list[str], raw: str) -> None:
        if len(lines) < MOST_KEPT and raw.strip():
            lines.append(raw[:LONGEST_KEPT])

    def _outcome(self) -> Outcome:
        measured = self.summary.printed or self.summary.averages or self.profile is not None
        if self.helped and not measured and self.outcome in (None, "passed", "waived"):
            return "help"
        if self.outcome is not None:
            return self.outcome
        if self.mode == "help":
            return "help"
        if measured:
            return "cut"
        return "crashed" if words.CRASH.search(" ".join(list(self.last)[-3:])) else "cut"

    def run(self) -> LogRun:
        """Find the run as a value."""
        banner = self.banner
        messages = self.messages.messages()
        codes = frozenset(each.code for each in messages if each.code)
        return LogRun(
            where=self.where,
            line=self.line,
            outcome=self._outcome(),
            tool=banner.tool if banner else "trtexec",
            version=self.version,
            build=banner.build if banner else None,
            command=(banner.command if banner else None) or self.command,
            announced=banner is not None and banner.kind == "RUNNING",
            headed=self.headed,
            pasted_command=not (banner and banner.command) and self.command is not None,
            title=self.title,
            last_line=self.last_line,
            first_stamp=self.first_stamp,
            last_stamp=self.last_stamp,
            sections=tuple(LogSection(name=name, entries=tuple(e)) for name, e in self.sections),
            facts=self.facts.facts(codes=codes),
            trace=self.trace.trace(),
            bindings=tuple(self.facts.bindings),
            warmup_queries=self.warmup_queries,
            queries=self.queries,
            trace_s=self.trace_s,
            averages=tuple(self.summary.averages),
            averages_omitted=self.omitted,
            summary=self.summary.summary(),
            timing_withheld=self.withheld,
            tf32_stated=self.tf32,
            profile=self.profile.profile() if self.profile else None,
            profile_total=self.profile.total if self.profile else None,
            messages=messages,
            preamble=tuple(self.preamble),
            trailer=tuple(self.trailer),
            layer_types=dict(self.layer_types),
            unknown=tuple(self.unknown),
            unknown_count=self.unknown_count,
            levels=dict(self.levels),
            last_lines=tuple(self.last),
        )
