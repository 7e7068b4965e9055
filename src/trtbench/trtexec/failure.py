"""Why a run of trtexec is worth nothing, in words, from its log and how it ended."""

from __future__ import annotations

import re

from trtbench.errors import ParseError, ProgramError
from trtbench.trtexec.log import LogMessage, LogRun, log_from_text

LAST_LINES = 20

_LOOK_BYTES = 1 << 16
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

AFTERMATH = ("set-up-failed", "deserialize-failed")
"""What trtexec says after it has said what is wrong."""


def last_run(data: bytes, *, where: str) -> LogRun | None:
    """Read the last run of a log; ``None`` when nothing in it is trtexec's."""
    try:
        return log_from_text(data, where=where)[-1]
    except ParseError:
        return None


def failure(
    message: str, *, data: bytes, status: int | None, facts: dict[str, object] | None = None
) -> ProgramError:
    """Make the error: what happened, what trtexec says about it, and the end of its log."""
    run = last_run(data, where="the log")
    cause = _cause(run) if run is not None else None
    told: dict[str, object] = {"status": status, **(facts or {})}
    if cause is not None:
        told["trtexec says"] = cause.text
        if cause.meaning:
            told["meaning"] = cause.meaning
    short = cause.meaning or cause.text if cause else None
    error = ProgramError(f"{message}: {short}" if short else message, facts=told)
    error.program_status = status
    error.log_tail = last_lines(data)
    return error


def last_lines(data: bytes) -> tuple[str, ...]:
    """List the end of a log, without what would upset a terminal."""
    lines = data[-_LOOK_BYTES:].decode("utf-8", "replace").split("\n")
    shown = [_CONTROL.sub("\N{REPLACEMENT CHARACTER}", line.rstrip()) for line in lines]
    return tuple(shown[:-1] if not shown[-1] else shown)[-LAST_LINES:]


def _cause(run: LogRun) -> LogMessage | None:
    """Find the error that explains most: the first one known, before what only follows from it."""
    errors = [each for each in run.messages if each.level in ("E", "F")]
    known = [each for each in errors if each.code is not None]
    telling = [each for each in known if each.code not in AFTERMATH]
    return next(iter(telling or errors), None)
