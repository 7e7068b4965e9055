"""Jobs in worker processes: how they are run, what they leave, and what becomes of failures."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import InputError, JobError, UnavailableError, writing
from trtbench.core.jobs import (
    CHANGED,
    NO_MEMORY,
    InferJob,
    Job,
    JobEnd,
    ReportedError,
    progress_from_line,
)
from trtbench.core.results import Failed, Feed, InferOutcome
from trtbench.core.run import Environment, FailedRun, Scores
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.files import write_whole
from trtbench.host.locks import hold
from trtbench.host.machine import read_environment
from trtbench.host.workers import Assignment, run_jobs
from trtbench.models.identity import changed, demand_unchanged
from trtbench.requests.execution import TICK_S, Event, Execution
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import SCORES, new_id, now, write_record
from trtbench.store.store import Store

T = TypeVar("T")

STREAM_PATIENCE_S = 24 * 3600.0
"""A whole data set may take hours; no shorter limit would fit all."""


def carry_out_job(
    job: Job,
    *,
    folder: Path,
    execution: Execution,
    patience_s: float,
    python: str | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> JobEnd:
    """Run a job in a fresh process; its files and ``log.txt`` are left in the folder."""
    return run_jobs(
        [Assignment(job=job, folder=folder, python=python)],
        timeout_s=execution.timeout_s or patience_s,
        memory_bytes=execution.memory_bytes,
        on_stage=on_stage,
        tick_s=TICK_S,
        on_tick=lambda: execution.listen(Event(kind="tick", text="")),
    )[0]


def outcome_of_job(
    job: Job, kind: type[T], *, folder: Path, execution: Execution, patience_s: float, failure: str
) -> T:
    """Run a job that reports progress and read its outcome; ``failure`` names an end without."""

    def hear(line: str) -> None:
        progress = progress_from_line(line)
        if progress is not None:
            execution.listen(Event(kind="stage", done=progress[0], text=progress[1]))

    end = carry_out_job(
        job, folder=folder, execution=execution, patience_s=patience_s, on_stage=hear
    )
    if not end.ok:
        raise end.failure(failure)
    return read_outcome(folder, kind)


def read_outcome(folder: Path, kind: type[T]) -> T:
    """Read the one value that a job leaves beside its other files."""
    path = folder / "outcome.json"
    return value_from_json(path.read_bytes(), kind, where=str(path))


def environment_of(execution: Execution) -> Environment:
    """Describe the machine that a job is carried out on."""
    return read_environment(command=execution.command, folder=Path.cwd(), label=execution.machine)


def refuse_without_library(spec: RunSpec, python: str | None) -> None:
    """Refuse what this interpreter cannot execute before a processor is waited for.

    Of runtimes on other devices, and in other interpreters, the worker knows better.
    """
    module = RUNTIMES.load(spec.runtime)
    if python is not None or module.open_session is None or module.device(spec) != "cpu":
        return
    if (reason := module.available()) is not None:
        raise UnavailableError(
            f"the runtime {spec.runtime} does not work here",
            facts={"reason": reason},
            fix=module.fix(),
        )


def device_of(spec: RunSpec) -> str:
    """Return the device that the runtime measures on."""
    return RUNTIMES.load(spec.runtime).device(spec)


@contextlib.contextmanager
def hold_device(spec: RunSpec, execution: Execution) -> Iterator[None]:
    """Hold the device of a run for the length of the block, waiting for it if need be."""
    device = device_of(spec)

    def waiting(holder: str) -> None:
        execution.listen(Event(kind="wait", text=f"waiting for {device}, held by {holder}"))

    what = execution.command or f"trtbench bench {spec.model.name}"
    with hold(device, what=what, wait=execution.wait, on_wait=waiting):
        yield


def stream(
    spec: RunSpec,
    feed: Feed,
    *,
    folder: Path,
    store: Store,
    decode: bool = False,
    execution: Execution | None = None,
    on_progress: Callable[[float, str], None] = lambda done, text: None,
) -> InferOutcome:
    """Run a model over all items of a feed; chunks of outputs and the times are in the folder."""

    def hear(line: str) -> None:
        progress = progress_from_line(line)
        if progress is not None:
            on_progress(*progress)
        elif line == "load":
            on_progress(0.0, "loading")

    execution = execution or Execution()
    refuse_without_library(spec, execution.python)
    demand_unchanged(spec.model)
    with hold_device(spec, execution):
        end = carry_out_job(
            InferJob(spec=spec, feed=feed, decode=decode),
            folder=folder,
            execution=execution,
            patience_s=STREAM_PATIENCE_S,
            python=execution.python,
            on_stage=hear,
        )
    end = fail_if_model_changed(end, spec.model)
    if not end.ok:
        environment = environment_of(execution)
        fail_job(end, spec, environment, store=store, execution=execution, left=folder)
    return read_outcome(folder, InferOutcome)


def write_scores(folder: Path, scores: Scores) -> None:
    """Keep scores in a run directory, with the hash of the artefact they belong to."""
    path = folder / SCORES
    with writing(path):
        write_whole(path, json_from_value(scores))


class Failures:
    """Collects what went wrong with some of several models; when all fail, the last is raised."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.found: list[Failed] = []

    @contextlib.contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Go on after a model that cannot be run, unless it was the last one left."""
        try:
            yield
        except (InputError, JobError, UnavailableError) as problem:
            if len(self.found) + 1 == self._count:
                raise
            facts = problem.facts
            self.found.append(Failed(model=Path(name).name, reason=problem.message, facts=facts))


def refuse_failed(failed: Sequence[Failed], *, what: str) -> None:
    """Raise that some models could not be run, once what the others gave has been shown."""
    if failed:
        raise JobError(what, facts={each.model: each.reason for each in failed})


def fail_if_model_changed(end: JobEnd, *models: ModelRef) -> JobEnd:
    """Turn a good end into a failure when a model is no longer the bytes that were asked about.

    A crash too: weights that are read from the disk as they are used fall away under the process.
    """
    crashed = end.signal not in (None, "SIGTERM") and end.error is None and not end.timed_out
    for model in models if end.ok or crashed else ():
        if (what := changed(model)) is not None:
            message = f"{model.name} changed while it was in use: {what}"
            fix = "wait until whatever writes it is done, and give the command again"
            error = ReportedError(kind=CHANGED, message=message, fix=fix, stage=end.stage)
            return end.having(error=error)
    return end


def fail_job(
    end: JobEnd,
    spec: RunSpec,
    environment: Environment,
    *,
    store: Store,
    execution: Execution,
    left: Path,
) -> NoReturn:
    """Raise the error that a worker reported, or record the failure with its log and raise that."""
    if end.refused is not None:
        raise end.refused
    run_id = new_id()
    failed = failed_run(end, spec, run_id, environment, execution)
    with store.new_run(run_id) as folder:
        with contextlib.suppress(OSError):
            shutil.copyfile(left / "log.txt", folder / "log.txt")
        write_record(folder, failed)
    target = store.directory(run_id)
    store.add(failed, path=target)
    raise job_error(failed, target)


def failed_run(
    end: JobEnd, spec: RunSpec, run_id: str, environment: Environment, execution: Execution
) -> FailedRun:
    """Return the record of a job that did not finish."""
    return FailedRun(
        id=run_id,
        created=now(),
        spec=spec,
        environment=environment,
        tags=execution.tags,
        stage=end.stage,
        reason=end.reason,
        cause=end.error.kind if end.error is not None else None,
        exit_status=end.exit_status,
        signal=end.signal,
        program_status=end.error.program_status if end.error is not None else None,
        log_tail=end.log_tail,
    )


def job_error(failed: FailedRun, path: Path) -> JobError:
    """Return the error for a failed run, with the end of its log."""
    program = {"its status": failed.program_status} if failed.program_status is not None else {}
    log = next(path.glob("*.log"), path / "log.txt")
    fix = f"look into {log}" if failed.log_tail else None
    if failed.cause == NO_MEMORY:
        fix = "a smaller --batch or --shape, or more memory"
    return JobError(
        f"the measurement did not finish: {failed.reason}",
        facts={
            "model": failed.spec.model.name,
            "runtime": failed.spec.runtime,
            "stage": failed.stage,
            **program,
            "record": path,
        },
        fix=fix,
        log_tail=failed.log_tail,
    )
