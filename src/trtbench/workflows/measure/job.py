"""Carries out a job that says how far it is and leaves one outcome."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from trtbench.domain.codec import value_from_json
from trtbench.domain.job import Job, progress_from_line
from trtbench.errors import JobError
from trtbench.executors.local import run_job
from trtbench.workflows.measure.failure import raise_told
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.progress import Event

T = TypeVar("T")


def outcome_of_job(
    job: Job, kind: type[T], *, folder: Path, conduct: Conduct, patience_s: float, failure: str
) -> T:
    """Do a job in a process of its own and read what it found; ``failure`` names an end without."""

    def hear(line: str) -> None:
        told = progress_from_line(line)
        if told is not None:
            conduct.listen(Event(kind="stage", done=told[0], text=told[1]))

    end = run_job(
        job,
        folder=folder,
        timeout_s=conduct.timeout_s or patience_s,
        memory_bytes=conduct.memory_bytes,
        on_stage=hear,
    )
    if not end.ok:
        raise_told(end)
        reason = end.error.message if end.error else end.signal or end.exit_status
        error = JobError(failure, facts={"reason": reason})
        error.log_tail = end.log_tail
        raise error
    path = folder / "outcome.json"
    return value_from_json(path.read_bytes(), kind, where=str(path))
