"""What becomes of jobs that do not end well: an error in the user's words, and a record of it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trtbench.domain.job import JobEnd, WorkerError
from trtbench.domain.result import Environment, FailedRun
from trtbench.domain.spec import ModelRef, RunSpec, Value
from trtbench.errors import (
    ERROR_KINDS,
    InputError,
    JobError,
    StoreError,
    TrtbenchError,
    UnavailableError,
)
from trtbench.models.identity import changed, changed_and_back
from trtbench.store.directory import RECORD, new_id, now, read_record, write_record
from trtbench.store.store import Store
from trtbench.units import text_from_seconds

if TYPE_CHECKING:
    from trtbench.workflows.request.conduct import Conduct

CHANGED = "ModelChanged"
"""Kind of an end that is no good because the model was not the same all the while."""

NO_MEMORY = "memory"
"""Kind of a worker's error when there was too little of it."""

_RECORDED = {"bug", NO_MEMORY, "StoreError", "ProgramError", "CudaError", CHANGED}
"""Worker errors that are failures of a run, not of what was asked for."""

_SIGNAL_HINTS = {
    "SIGKILL": " (the kernel does that when memory runs out)",
    "SIGSEGV": " (a crash in native code)",
    "SIGABRT": " (native code gave up)",
}


SMALLER = "a smaller --batch or --shape, or more memory"


class Failed(Value, frozen=True, kw_only=True):
    """A model that could not be run, while others could."""

    model: str
    reason: str
    facts: dict[str, str] = {}


class Failures:
    """Collects what went wrong with some of several models; when all fail, the last is raised."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.told: list[Failed] = []

    @contextlib.contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Go on after a model that cannot be run, unless it was the last one left."""
        try:
            yield
        except (InputError, JobError, UnavailableError) as problem:
            if len(self.told) + 1 == self._count:
                raise
            facts = problem.facts
            self.told.append(Failed(model=Path(name).name, reason=problem.message, facts=facts))


def refuse_failed(failed: Sequence[Failed], *, what: str) -> None:
    """Raise that some models could not be run, once what the others gave has been shown."""
    if failed:
        raise JobError(what, facts={each.model: each.reason for each in failed})


def raise_told(end: JobEnd) -> None:
    """Pass on an error the worker put in words, unless it is a failure to be recorded."""
    if end.error is None or end.error.kind in _RECORDED:
        return
    kind = ERROR_KINDS.get(end.error.kind, TrtbenchError)
    raise kind(end.error.message, facts=end.error.facts, fix=end.error.fix)


def raise_unfinished(end: JobEnd, what: str) -> NoReturn:
    """Raise what a worker put in words, or else that the work has no end, with its last lines."""
    raise_told(end)
    error = JobError(f"{what}: {reason_from_end(end)}", facts={"stage": end.stage})
    error.log_tail = end.log_tail
    raise error


def end_with_same_bytes(end: JobEnd, *models: ModelRef) -> JobEnd:
    """Turn a good end into a failure when a model is no longer the bytes that were asked about.

    A crash too: weights that are read from the disk as they are used fall away under the process.
    """
    crashed = end.signal not in (None, "SIGTERM") and end.error is None and not end.timed_out
    if not end.ok and not crashed:
        return end
    for model in models:
        what = changed(model) or changed_and_back(model)
        if what is not None:
            message = f"{model.name} changed while it was in use: {what}"
            fix = "wait until whatever writes it is done, and give the command again"
            told = WorkerError(kind=CHANGED, message=message, fix=fix, stage=end.stage)
            return end.having(error=told)
    return end


def fail_job(
    end: JobEnd,
    spec: RunSpec,
    environment: Environment,
    *,
    store: Store,
    conduct: Conduct,
    log: Path,
) -> NoReturn:
    """Raise what a job that did not end well told, or record its failure and raise that."""
    raise_told(end)
    run_id = new_id()
    failed = failed_run(end, spec, run_id, environment, conduct)
    with store.new_run(run_id) as folder:
        with contextlib.suppress(OSError):
            shutil.copyfile(log, folder / "log.txt")
        write_record(folder, failed)
    target = store.directory(run_id)
    store.add(failed, path=target)
    raise job_error(failed, target)


def leave_trace(failed: FailedRun, target: Path, store: Store) -> None:
    """Index what was kept of a run, or record its loss, as far as a full disk lets us."""
    with contextlib.suppress(StoreError, InputError):
        if (target / RECORD).is_file():
            store.add(read_record(target), path=target)
            return
        with store.new_run(failed.id) as folder:
            write_record(folder, failed)
        store.add(failed, path=store.directory(failed.id))


def failed_run(
    end: JobEnd, spec: RunSpec, run_id: str, environment: Environment, conduct: Conduct
) -> FailedRun:
    """Describe a job that did not finish."""
    return FailedRun(
        id=run_id,
        created=now(),
        spec=spec,
        environment=environment,
        tags=conduct.tags,
        stage=end.stage,
        reason=reason_from_end(end),
        cause=end.error.kind if end.error is not None else None,
        exit_status=end.exit_status,
        signal=end.signal,
        program_status=end.program_status,
        log_tail=end.log_tail,
    )


def reason_from_end(end: JobEnd) -> str:
    """Say in a few words why a job did not finish."""
    if end.timed_out:
        return f"no end after {text_from_seconds(end.seconds, digits=3)}: stopped"
    if end.signal is not None:
        return f"ended by {end.signal}{_SIGNAL_HINTS.get(end.signal, '')}"
    if end.error is not None:
        return end.error.message
    return f"ended with exit status {end.exit_status}"


def job_error(failed: FailedRun, path: Path) -> JobError:
    """Say it to the user, with the end of the log."""
    program = {"its status": failed.program_status} if failed.program_status is not None else {}
    log, tail = next(path.glob("*.log"), path / "log.txt"), failed.log_tail
    error = JobError(
        f"the measurement did not finish: {failed.reason}",
        facts={
            "model": failed.spec.model.name,
            "runtime": failed.spec.runtime,
            "stage": failed.stage,
            **program,
            "record": path,
        },
        fix=SMALLER if failed.cause == NO_MEMORY else f"look into {log}" if tail else None,
    )
    error.log_tail = tail
    return error
