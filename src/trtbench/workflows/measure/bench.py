"""Measure a model: one fresh process per launch, everything on disk before it is shown."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trtbench.analysis.findings import findings_from_run
from trtbench.domain.job import BenchJob, BenchOutcome, JobEnd, WorkerError
from trtbench.domain.result import Environment, FailedRun, Run, RunRecord
from trtbench.domain.samples import TelemetrySample, join_launches
from trtbench.domain.spec import RunSpec
from trtbench.errors import StoreError, write_error
from trtbench.executors import check_interpreter
from trtbench.formats.trtexec_exports import profile_json
from trtbench.host.contention import counters_between, read_counters
from trtbench.models.identity import demand_unchanged
from trtbench.store.directory import (
    PROFILE,
    new_id,
    read_layers,
    read_samples,
    write_record,
    write_samples,
    write_telemetry,
)
from trtbench.store.store import Store
from trtbench.workflows.measure.failure import (
    end_with_same_bytes,
    failed_run,
    job_error,
    leave_trace,
    raise_told,
)
from trtbench.workflows.measure.job import carry_out_job, environment_of, read_outcome
from trtbench.workflows.measure.launches import (
    Launch,
    add_to_index,
    device_of,
    hold_device,
    record_from_launches,
    refuse_without_library,
)
from trtbench.workflows.measure.model_notes import held_to_layers
from trtbench.workflows.measure.remote import run_elsewhere
from trtbench.workflows.measure.run_files import write_run_files
from trtbench.workflows.measure.watch import Watch, watch_told, watching
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.conduct import PATIENCE_S, Conduct, expected_s
from trtbench.workflows.request.progress import Event

_STAGE_TEXT = {
    "load": "loading",
    "first": "first inference",
    "warm-up": "warming up",
    "measure": "measuring",
    "switch": "changing shapes",
    "profile": "profiling layers",
    "save": "saving",
}
_WORK_FILES = {"job.json", "outcome.json", "samples.npz", "log.txt", "error.json"}
_STAGE_PART = {"start": 0.0, "load": 0.02, "first": 0.1, "warm-up": 0.12, "measure": 0.3}


def run_bench(spec: RunSpec, *, store: Store, conduct: Conduct | None = None) -> Run:
    """Measure every launch of a run and store it; one that does not finish leaves a FailedRun."""
    conduct = conduct or Conduct()
    if conduct.executor is not None:
        return run_elsewhere(spec, store=store, conduct=conduct, executor=conduct.executor)
    if conduct.python is not None:
        check_interpreter(conduct.python)
    refuse_without_library(spec, conduct)
    run_id = conduct.run_id or new_id()
    target = store.directory(run_id, output=conduct.output)
    with hold_device(spec, conduct):
        demand_unchanged(spec.model)
        environment = environment_of(conduct)
        with watching(spec, device_of(spec)) as watch:
            result = _fill(spec, run_id, environment, store, conduct, watch)
    if isinstance(result, FailedRun):
        add_to_index(store, result, target)
        raise job_error(result, target)
    add_to_index(store, result.record, target, cached=cached_from_run(result))
    return replace(result, path=target)


def _fill(
    spec: RunSpec,
    run_id: str,
    environment: Environment,
    store: Store,
    conduct: Conduct,
    watch: Watch,
) -> Run | FailedRun:
    """Carry a run out in a folder of its own; the store learns of one that cannot be written."""
    begun = False
    try:
        with store.new_run(run_id, output=conduct.output) as folder:
            begun = True
            return _carry_out(spec, run_id, folder, environment, conduct, store, watch)
    except (StoreError, OSError) as problem:
        target = store.directory(run_id, output=conduct.output)
        error = write_error(target, problem) if isinstance(problem, OSError) else problem
        if begun:
            told = WorkerError(kind="StoreError", message=error.message)
            end = JobEnd(seconds=0.0, stage="save", error=told)
            leave_trace(failed_run(end, spec, run_id, environment, conduct), target, store)
        raise error from None


def _carry_out(
    spec: RunSpec,
    run_id: str,
    folder: Path,
    environment: Environment,
    conduct: Conduct,
    store: Store,
    watch: Watch,
) -> Run | FailedRun:
    """Fill a run's folder, launch by launch; what was measured stays even when a launch fails."""
    launches: list[Launch] = []
    before = read_counters()
    for number in range(spec.launches):
        work = folder / f"launch-{number}"
        end = end_with_same_bytes(_launch(spec, number, work, conduct, watch), spec.model)
        if not end.ok:
            if not launches:
                raise_told(end)
            return _keep_failure(end, spec, run_id, folder, environment, conduct, launches)
        launch = _collect(work, folder, number=number, several=spec.launches > 1)
        launches.append(watch_told(launch, watch))
    telemetry = _telemetry(spec, folder, environment, conduct, watch)
    contention = counters_between(before, read_counters())
    record = record_from_launches(spec, run_id, environment, contention, conduct, launches)
    times = join_launches([each.times for each in launches])
    layers, graph = read_layers(folder)
    target = store.directory(run_id, output=conduct.output)
    record = watch.noted(_with_final_names(record, folder / "launch-0", target))
    record = held_to_layers(record, graph)
    draft = Run(
        record=record, times=times, path=target, layers=layers, graph=graph, telemetry=telemetry
    )
    write_samples(folder, times)
    write_record(folder, record)  # from here on, what was measured is kept whatever happens
    findings = findings_from_run(draft)
    run = replace(draft, record=record.having(findings=findings))
    write_run_files(run, folder)
    write_record(folder, run.record)
    return run


def _launch(
    spec: RunSpec,
    number: int,
    work: Path,
    conduct: Conduct,
    on_stage: Callable[[str], None],
    *,
    looked_at: bool = False,
) -> JobEnd:
    """Run one launch in a process of its own; the watch hears of its stages first."""

    def staged(stage: str) -> None:
        on_stage(stage)
        text = " (with telemetry)" if looked_at else ""
        event = _event(stage, number, spec)
        conduct.listen(event.having(text=f"{event.text}{text}"))

    return carry_out_job(
        BenchJob(spec=spec, launch=number),
        folder=work,
        conduct=conduct,
        patience_s=expected_s(spec) + PATIENCE_S,
        python=conduct.python,
        on_stage=staged,
    )


def _telemetry(
    spec: RunSpec, folder: Path, environment: Environment, conduct: Conduct, watch: Watch
) -> tuple[TelemetrySample, ...]:
    """Look at the GPU in a pass of its own, after all that was measured; it keeps no times."""
    if spec.telemetry_s is None:
        return ()
    bare = spec.having(profile=False, switch_shapes={}, switch_profile=None)
    names = [gpu.name for gpu in environment.gpus]
    gpu = names[watch.index] if watch.index is not None and watch.index < len(names) else None

    def run(on_stage: Callable[[str], None], work: Path) -> JobEnd:
        return _launch(bare, spec.launches - 1, work, conduct, on_stage, looked_at=True)

    work = folder / "telemetry"
    samples = watch.look(spec, run, folder=work, gpu=gpu)
    shutil.rmtree(work, ignore_errors=True)
    if samples:
        write_telemetry(folder, samples)
    return samples


def _with_final_names(record: RunRecord, work: Path, target: Path) -> RunRecord:
    """Have a program's command name the files where they are kept, not where they were made."""
    command = record.reported.get("command")
    if not isinstance(command, str):
        return record
    reported = {**record.reported, "command": command.replace(str(work), str(target))}
    return record.having(reported=reported)


def _event(stage: str, launch: int, spec: RunSpec) -> Event:
    several = f"launch {launch + 1}/{spec.launches}: " if spec.launches > 1 else ""
    seconds = _planned_s(spec) if stage == "measure" else None
    done = (launch + _STAGE_PART.get(stage, 0.95)) / spec.launches
    text = several + _STAGE_TEXT.get(stage, stage)
    return Event(kind="stage", text=text, done=done, seconds=seconds)


def _planned_s(spec: RunSpec) -> float | None:
    """Tell how long measuring takes at least: by the clock, and by the schedule of arrivals."""
    seconds, queries = spec.stop.seconds, spec.stop.iterations
    scheduled = queries / spec.rate_hz if spec.rate_hz and queries else 0.0
    return max(seconds or 0.0, scheduled) or None


def _collect(work: Path, folder: Path, *, number: int = 0, several: bool = False) -> Launch:
    """Take over a launch's files and clear its folder."""
    launch = Launch(outcome=read_outcome(work, BenchOutcome), times=read_samples(work))
    if launch.outcome.layers is not None:
        (work / PROFILE).write_bytes(profile_json(launch.outcome.layers))
    _append_log(work, folder)
    _keep_files(work, folder, number=number, several=several)
    shutil.rmtree(work)
    return launch


def _keep_files(work: Path, folder: Path, *, number: int, several: bool) -> None:
    """Move what a runtime left; of several launches each has its number in the names.

    The first one's stand for all, but for the times: those of all launches are written later.
    """
    for file in work.iterdir():
        if file.name in _WORK_FILES:
            continue
        stem, _, rest = file.name.partition(".")
        numbered = several and (number > 0 or file.name == "times.json")
        file.replace(folder / (f"{stem}.{number}.{rest}" if numbered else file.name))


def _append_log(work: Path, folder: Path) -> None:
    with open(folder / "log.txt", "ab") as target, open(work / "log.txt", "rb") as source:
        shutil.copyfileobj(source, target)


def _keep_failure(
    end: JobEnd,
    spec: RunSpec,
    run_id: str,
    folder: Path,
    environment: Environment,
    conduct: Conduct,
    launches: list[Launch],
) -> FailedRun:
    """Turn the folder into the record of a failure, with the log and what was measured before."""
    work = folder / f"launch-{len(launches)}"
    with contextlib.suppress(OSError):  # the disk may be what failed
        _append_log(work, folder)
        if end.error is None or end.error.kind != "StoreError":
            _keep_files(work, folder, number=len(launches), several=bool(launches))
    shutil.rmtree(work, ignore_errors=True)
    if launches:
        write_samples(folder, join_launches([each.times for each in launches]))
    failed = failed_run(end, spec, run_id, environment, conduct)
    write_record(folder, failed)
    return failed
