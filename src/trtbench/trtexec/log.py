"""Logs of trtexec, TensorRT 5 to 11: one :class:`LogRun` per run found in the text.

``log_from_text`` reads bytes or text of any provenance (terminal captures, notebooks, several
runs one after another); ``conditions_from_log`` tells under which conditions a run's numbers
were taken, and how each condition is known.
"""

from __future__ import annotations

from trtbench.errors import ParseError
from trtbench.trtexec._log_lines import banner_from_text, line_from_text, lines_from_data
from trtbench.trtexec._log_reader import RunReader
from trtbench.trtexec._log_values import (
    Binding,
    BuildFacts,
    LogMessage,
    LogRun,
    MemoryLine,
    Metric,
    Outcome,
    PerformanceSummary,
    Section,
    TraceAverage,
)
from trtbench.trtexec.conditions import conditions_from_log

__all__ = [
    "Binding",
    "BuildFacts",
    "LogMessage",
    "LogRun",
    "MemoryLine",
    "Metric",
    "Outcome",
    "PerformanceSummary",
    "Section",
    "TraceAverage",
    "conditions_from_log",
    "log_from_text",
]

MOST_RUNS = 10_000
"""Runs read from one log; a file of nothing but banners must not fill the memory."""


def log_from_text(data: bytes | bytearray | memoryview | str, *, where: str) -> tuple[LogRun, ...]:
    """Read every run in a log; a text that is not trtexec's is a ``ParseError``."""
    runs: list[LogRun] = []
    current = RunReader(where=where, line=1)
    count = 0
    for count, raw in enumerate(lines_from_data(data), start=1):
        banner = banner_from_text(raw) if "&&&& " in raw else None
        if banner is None:
            line = line_from_text(raw)
            if _begins_again(current, line.level, line.text):
                runs, current = _next(runs, current, where=where, line=count)
            current.take(line, raw)
        elif banner.kind == "RUNNING":
            if current.started:
                runs, current = _next(runs, current, where=where, line=count)
            current.line = count
            current.begin(banner)
        elif not current.ended:
            current.end(banner)
    runs, _ = _next(runs, current, where=where, line=count)
    if not runs:
        raise _not_a_log(where, lines=count)
    return tuple(runs)


def _next(
    runs: list[LogRun], current: RunReader, *, where: str, line: int
) -> tuple[list[LogRun], RunReader]:
    if current.evidence and len(runs) < MOST_RUNS:
        runs.append(current.run())
    return runs, RunReader(where=where, line=line)


def _begins_again(current: RunReader, level: str, text: str) -> bool:
    """Say whether a new run begins without a banner: options are listed once per run."""
    if text.startswith("=== Model Options ===") and level:
        return any(name == "Model Options" for name, _ in current.sections) or current.ended
    if not current.ended or current.banner is not None:
        return False
    return not level and bool(text.strip())


def _not_a_log(where: str, *, lines: int) -> ParseError:
    return ParseError(
        f"{where} is not a log of trtexec",
        facts={
            "lines": lines,
            "expected": "a line '&&&& RUNNING TensorRT.trtexec ...', lines that begin with "
            "'[mm/dd/yyyy-hh:mm:ss] [I]', or 'Average over N runs is ...'",
        },
    )
