"""Carries out jobs in child processes as a conduct says, and reads what they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from trtbench.domain.codec import value_from_json
from trtbench.domain.job import Job, JobEnd, progress_from_line
from trtbench.domain.result import Environment
from trtbench.executors.local import run_job
from trtbench.host.environment import read_environment
from trtbench.workflows.measure.failure import raise_unfinished
from trtbench.workflows.request.conduct import TICK_S, Conduct
from trtbench.workflows.request.progress import Event

T = TypeVar("T")


def carry_out_job(
    job: Job,
    *,
    folder: Path,
    conduct: Conduct,
    patience_s: float,
    python: str | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> JobEnd:
    """Do a job within the bounds of a conduct, which hears a sign of life now and then."""
    return run_job(
        job,
        folder=folder,
        python=python,
        timeout_s=conduct.timeout_s or patience_s,
        memory_bytes=conduct.memory_bytes,
        on_stage=on_stage,
        tick_s=TICK_S,
        on_tick=lambda: conduct.listen(Event(kind="tick", text="")),
    )


def outcome_of_job(
    job: Job, kind: type[T], *, folder: Path, conduct: Conduct, patience_s: float, failure: str
) -> T:
    """Do a job that says how far it is and read what it found; ``failure`` names an end without."""

    def hear(line: str) -> None:
        told = progress_from_line(line)
        if told is not None:
            conduct.listen(Event(kind="stage", done=told[0], text=told[1]))

    end = carry_out_job(job, folder=folder, conduct=conduct, patience_s=patience_s, on_stage=hear)
    if not end.ok:
        raise_unfinished(end, failure)
    return read_outcome(folder, kind)


def read_outcome(folder: Path, kind: type[T]) -> T:
    """Read the one value that a job leaves beside its other files."""
    path = folder / "outcome.json"
    return value_from_json(path.read_bytes(), kind, where=str(path))


def environment_of(conduct: Conduct) -> Environment:
    """Look at the machine that a job is carried out on."""
    return read_environment(command=conduct.command, folder=Path.cwd(), label=conduct.machine)
