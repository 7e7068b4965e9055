"""Runs a job in a child process on this machine, in this interpreter or another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.job import Job, JobEnd, WorkerError
from trtbench.errors import UnavailableError
from trtbench.host.process import Child, Exit, run_together, tail

WORKER_NEEDS = ("msgspec", "numpy")
"""What another interpreter must have; trtbench itself is lent to it."""

EXIT_NEEDS = 86
"""Status of the bootstrap when the interpreter lacks one of them."""

_BOOTSTRAP = """
import importlib.util as u, sys
missing = [n for n in {needs!r} if u.find_spec(n) is None]
if missing:
    sys.exit(print('missing:', *missing) or {status})
s = u.spec_from_file_location('trtbench', {init!r}, submodule_search_locations=[{folder!r}])
m = u.module_from_spec(s); sys.modules['trtbench'] = m; s.loader.exec_module(m)
from trtbench.worker import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One job with its folder and the interpreter it runs in."""

    job: Job
    folder: Path
    python: str | None = None
    channel: int | None = None
    """A descriptor shared with another job: how the two hand each other the turn."""


def run_job(
    job: Job,
    *,
    folder: Path,
    python: str | None = None,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    on_stage: Callable[[str], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> JobEnd:
    """Do a job in a fresh process; its files and ``log.txt`` are left in the folder."""
    return run_jobs(
        [Assignment(job=job, folder=folder, python=python)],
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
        on_stage=on_stage,
        tick_s=tick_s,
        on_tick=on_tick,
    )[0]


def run_jobs(
    assignments: Sequence[Assignment],
    *,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    on_stage: Callable[[str], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> list[JobEnd]:
    """Do several jobs at the same time, each in a fresh process."""
    stages = [["start"] for _ in assignments]
    starts = [
        partial(_start, each, memory_bytes=memory_bytes, on_line=partial(_note, mine, on_stage))
        for each, mine in zip(assignments, stages, strict=True)
    ]
    exits = run_together(starts, timeout_s=timeout_s, tick_s=tick_s, on_tick=on_tick)
    return [
        _job_end(ended, each, stage=mine[-1])
        for ended, each, mine in zip(exits, assignments, stages, strict=True)
    ]


def _note(stages: list[str], on_stage: Callable[[str], None] | None, stage: str) -> None:
    stages.append(stage)
    if on_stage is not None:
        on_stage(stage)


def _start(
    assignment: Assignment, *, memory_bytes: int | None, on_line: Callable[[str], None]
) -> Child:
    folder, channel = assignment.folder, assignment.channel
    folder.mkdir(parents=True, exist_ok=True)
    job_file = folder / "job.json"
    job_file.write_bytes(json_from_value(assignment.job))
    arguments = [str(job_file), str(folder), "{events}"]
    if channel is not None:
        arguments.append(str(channel))
    return Child(
        [*worker_command(assignment.python), *arguments],
        log=folder / "log.txt",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        memory_bytes=memory_bytes,
        pass_fds=() if channel is None else (channel,),
        on_line=on_line,
    )


def worker_command(python: str | None) -> list[str]:
    """The start of a worker's command line; another interpreter is lent this very package."""
    if python is None or Path(python).absolute() == Path(sys.executable).absolute():
        return [sys.executable, "-m", "trtbench.worker"]
    package = Path(__file__).resolve().parents[1]
    code = _BOOTSTRAP.format(
        needs=WORKER_NEEDS,
        status=EXIT_NEEDS,
        init=str(package / "__init__.py"),
        folder=str(package),
    )
    return [python, "-c", code]


def check_interpreter(python: str) -> None:
    """Refuse an interpreter that is not there before anything else is done."""
    if not (Path(python).is_file() and os.access(python, os.X_OK)):
        raise UnavailableError(
            f"there is no Python interpreter at {python}",
            fix="--python PATH, or runtimes.<name>.python in trtbench.toml",
        )


def _lacking(python: str, line: tuple[str, ...]) -> UnavailableError:
    missing = (line[0] if line else "missing: unknown").removeprefix("missing: ")
    return UnavailableError(
        "the other interpreter lacks what a worker needs",
        facts={"interpreter": python, "missing": missing},
        fix=f"{python} -m pip install {missing}",
    )


def _job_end(ended: Exit, assignment: Assignment, *, stage: str) -> JobEnd:
    log = assignment.folder / "log.txt"
    if ended.status == EXIT_NEEDS and assignment.python is not None:
        raise _lacking(assignment.python, tail(log, lines=1))
    error_file = assignment.folder / "error.json"
    error = None
    if error_file.is_file():
        error = value_from_json(error_file.read_bytes(), WorkerError, where=str(error_file))
    return JobEnd(
        seconds=ended.seconds,
        stage=error.stage if error else stage,
        exit_status=ended.status,
        signal=ended.signal,
        timed_out=ended.timed_out,
        error=error,
        log_tail=tail(log),
    )
