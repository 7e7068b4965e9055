"""Carries out one request on this machine in a process of its own, and says how that ended."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from trtbench.boundary import read_bytes
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.errors import (
    ERROR_KINDS,
    JobError,
    StoreError,
    TrtbenchError,
    UnavailableError,
)
from trtbench.executors._request import Request, Tell, Told
from trtbench.host.process import run_process, tail

RUN, ERROR, LOG = "run", "error.json", "node.log"
RECORD, ANSWER = "run.json", "answer.msgpack"
LACKS = "trtbench-lacks "

HERE = "this machine"

LOOK_S = 1.0
"""How often a thread that waits for a run looks whether it is still wanted."""


def run_node(
    request: Request,
    *,
    folder: Path,
    tell: Tell | None = None,
    environment: Mapping[str, str | None] | None = None,
    closed: threading.Event | None = None,
) -> Path:
    """Measure a run in a fresh process; gives the folder of the run, finished or failed.

    Once ``closed`` is set, the process is ended and this thread is interrupted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "request.json").write_bytes(json_from_value(request))
    ended = run_process(
        [sys.executable, "-m", "trtbench.node", str(folder / "request.json"), str(folder),
         "{events}"],
        log=folder / LOG,
        env=node_environment(environment),
        folder=folder,
        timeout_s=request.limit_s,
        tick_s=LOOK_S,
        on_tick=partial(interrupt_if, closed),
        on_line=tell,
    )  # fmt: skip
    how = "no end in time" if ended.timed_out else ended.signal or f"status {ended.status}"
    return result_of(folder, where=HERE, how=how)


def node_environment(given: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """List what a node's process inherits: this very package before any other.

    A variable that is given as ``None`` is left out.
    """
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    merged = {**os.environ, **(given or {}), **own}
    return {name: value for name, value in merged.items() if value is not None}


def interrupt_if(closed: threading.Event | None) -> None:
    """Leave a thread whose executor was closed as Ctrl-C would leave the main one."""
    if closed is not None and closed.is_set():
        raise KeyboardInterrupt


def result_of(folder: Path, *, where: str, how: str) -> Path:
    """Find what a node left: the directory of a run, or an error that is raised here."""
    run = folder / RUN
    if any((run / name).is_file() for name in (RECORD, f"1/{RECORD}", ANSWER)):
        return run
    raise_told(folder, where=where)
    error = JobError("the work was not carried out", facts={"where": where, "how it ended": how})
    error.log_tail = tail(folder / LOG)
    raise error


def told_in(text: str) -> Told | None:
    """Find what ``trtbench.node lacks`` printed of a machine that lacks something."""
    lines = [line for line in text.splitlines() if line.startswith(LACKS)]
    if not lines:
        return None
    return value_from_json(lines[-1].removeprefix(LACKS).encode(), Told, where="what was told")


def raise_told(folder: Path, *, where: str) -> None:
    """Raise the error that a node put in words, if it did."""
    path = folder / ERROR
    if not path.is_file():
        return
    told = value_from_json(read_bytes(path), Told, where=str(path))
    raise error_from_told(told, where=where)


def told_from_error(problem: TrtbenchError) -> Told:
    """Put an error into words that can travel."""
    return Told(
        kind=type(problem).__name__, message=problem.message, facts=problem.facts, fix=problem.fix
    )


def error_from_told(told: Told, *, where: str) -> TrtbenchError:
    """Make of an error from elsewhere the same error here, with the place among its facts.

    What cannot be stored there is no matter of the store here, without which no sweep goes on.
    """
    facts = {**told.facts, "where": where}
    if told.kind == StoreError.__name__ and where != HERE:
        fix = "make room there, or leave this machine out"
        return UnavailableError(told.message, facts=facts, fix=fix)
    return ERROR_KINDS.get(told.kind, JobError)(told.message, facts=facts, fix=told.fix)
