"""When a run was, by the stamps of its log."""

from __future__ import annotations

import datetime
import re

from trtbench.trtexec._log_values import LogRun

_STAMP = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)")
FIRST_YEAR = 2016
"""TensorRT is from 2016; a board whose clock lost its battery shows 1970."""


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
