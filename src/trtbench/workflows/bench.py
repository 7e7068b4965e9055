"""Measure a model: one fresh process per launch, everything on disk before it is shown."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.codec import value_from_json
from trtbench.domain.job import BenchJob, BenchOutcome, JobEnd, WorkerError
from trtbench.domain.result import Environment, FailedRun, Record, Run, RunRecord, Scalar
from trtbench.domain.samples import IterationTimes, TelemetrySample, join_launches
from trtbench.domain.spec import RunSpec
from trtbench.errors import (
    StoreError,
    UsageError,
    write_error,
)
from trtbench.executors import Executor, Needs
from trtbench.executors.local import check_interpreter, run_job
from trtbench.host.contention import counters_between, read_counters
from trtbench.host.environment import read_environment
from trtbench.host.locks import hold
from trtbench.report.trtexec_files import profile_json
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import (
    PROFILE,
    new_id,
    now,
    read_layers,
    read_samples,
    write_record,
    write_samples,
    write_telemetry,
)
from trtbench.store.index import Cached
from trtbench.store.store import Store
from trtbench.units import text_from_bytes
from trtbench.workflows.evidence import evidence_of_launches
from trtbench.workflows.failure import failed_run, job_error, leave_trace, raise_told
from trtbench.workflows.files import write_run_files
from trtbench.workflows.progress import Event, Listener, silent
from trtbench.workflows.stamps import conditions_of_engine, stamps_of_engine
from trtbench.workflows.watch import Watch, watching

PATIENCE_S = 600.0
"""Added to the expected length of a launch before it counts as hung."""

LEAST_MEMORY_BYTES = 128 << 20
"""Address space in which an interpreter with numpy does not even start."""

TICK_S = 5.0
"""Sign of life on long work; the parent sleeps otherwise."""

_STAGE_TEXT = {
    "load": "loading",
    "first": "first inference",
    "warm-up": "warming up",
    "measure": "measuring",
    "profile": "profiling layers",
    "save": "saving",
}
_WORK_FILES = {"job.json", "outcome.json", "samples.npz", "log.txt", "error.json"}
_STAGE_PART = {"start": 0.0, "load": 0.02, "first": 0.1, "warm-up": 0.12, "measure": 0.3}


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How a job is carried out: nothing of it changes what is measured."""

    python: str | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    wait: bool = True
    command: str | None = None
    """The command line, for the record."""
    tags: tuple[str, ...] = ()
    output: Path | None = None
    run_id: str | None = None
    """The id that whoever asked for the run has given it."""
    executor: Executor | None = None
    """Where runs are measured; ``None`` is here, one after the other."""
    needs: Needs | None = None
    """What a machine must have, beyond what the runtime itself asks for."""
    listen: Listener = field(default=silent)

    def __post_init__(self) -> None:
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError("a timeout of 0 s lets nothing be measured", fix="--timeout 10min")
        if self.memory_bytes is not None and self.memory_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"a memory limit of {text_from_bytes(self.memory_bytes)} lets nothing start",
                facts={"least": text_from_bytes(LEAST_MEMORY_BYTES)},
                fix="--memory-limit 8GiB",
            )


def run_bench(spec: RunSpec, *, store: Store, conduct: Conduct | None = None) -> Run:
    """Measure every launch of a run and store it; one that does not finish leaves a FailedRun."""
    conduct = conduct or Conduct()
    if conduct.executor is not None:
        from trtbench.workflows.elsewhere import run_elsewhere  # it needs what is in this module

        return run_elsewhere(spec, store=store, conduct=conduct, executor=conduct.executor)
    if conduct.python is not None:
        check_interpreter(conduct.python)
    run_id = conduct.run_id or new_id()
    target = store.directory(run_id, output=conduct.output)
    with hold_device(spec, conduct):
        environment = read_environment(command=conduct.command, folder=Path.cwd())
        with watching(spec, RUNTIMES.load(spec.runtime).device(spec)) as watch:
            result = _fill(spec, run_id, environment, store, conduct, watch)
    if isinstance(result, FailedRun):
        _index(store, result, target)
        raise job_error(result, target)
    _index(store, result.record, target, cached=cached_from_run(result))
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


def _index(store: Store, record: Record, path: Path, *, cached: Cached | None = None) -> None:
    """Put a run that is on disk into the index; it is not lost when that cannot be done."""
    try:
        store.add(record, path=path, cached=cached)
    except StoreError as problem:
        raise StoreError(
            "the run is on disk, but the index could not be written",
            facts={"run": path, **problem.facts},
            fix="trtbench runs reindex",
        ) from None


def cached_from_run(run: Run) -> Cached | None:
    """What the index keeps of a run for listing."""
    if not len(run.times) or not run.times.durations():
        return None
    summary = summary_from_run(run)
    headline = summary.column(summary.headline)
    return Cached(samples=headline.count, median_s=headline.median, items_per_s=summary.items_per_s)


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
        end = _launch(spec, number, work, conduct, watch)
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
    draft = Run(
        record=record, times=times, path=target, layers=layers, graph=graph, telemetry=telemetry
    )
    write_samples(folder, times)
    write_record(folder, record)  # from here on, what was measured is kept whatever happens
    findings = findings_from_run(draft)
    run = replace(draft, record=msgspec.structs.replace(record, findings=findings))
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
        conduct.listen(msgspec.structs.replace(event, text=f"{event.text}{text}"))

    return run_job(
        BenchJob(spec=spec, launch=number),
        folder=work,
        python=conduct.python,
        timeout_s=conduct.timeout_s or expected_s(spec) + PATIENCE_S,
        memory_bytes=conduct.memory_bytes,
        on_stage=staged,
        tick_s=TICK_S,
        on_tick=lambda: conduct.listen(Event(kind="tick", text="")),
    )


def _telemetry(
    spec: RunSpec, folder: Path, environment: Environment, conduct: Conduct, watch: Watch
) -> tuple[TelemetrySample, ...]:
    """Look at the GPU in a pass of its own, after all that was measured; it keeps no times."""
    if spec.telemetry_s is None:
        return ()
    bare = msgspec.structs.replace(spec, profile=False)
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


def watch_told(launch: Launch, watch: Watch) -> Launch:
    """Add what the watch saw to a launch."""
    facts = watch.told(launch.outcome.facts)
    return replace(launch, outcome=msgspec.structs.replace(launch.outcome, facts=facts))


def _with_final_names(record: RunRecord, work: Path, target: Path) -> RunRecord:
    """Have a program's command name the files where they are kept, not where they were made."""
    command = record.reported.get("command")
    if not isinstance(command, str):
        return record
    reported = {**record.reported, "command": command.replace(str(work), str(target))}
    return msgspec.structs.replace(record, reported=reported)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What one finished launch left."""

    outcome: BenchOutcome
    times: IterationTimes


def expected_s(spec: RunSpec) -> float:
    """How long one launch takes at most when all goes well, as far as the spec tells."""
    warm = max(spec.warmup.floor.seconds or 0.0, spec.warmup.cap_s)
    if spec.rate_hz:  # the schedule decides, and an overloaded server may take twice as long
        scheduled = max(spec.stop.seconds or 0.0, (spec.stop.iterations or 0) / spec.rate_hz)
        return warm + 2 * scheduled + 1.0
    return warm + (spec.stop.seconds or 0.0)


@contextmanager
def hold_device(spec: RunSpec, conduct: Conduct) -> Iterator[None]:
    """Hold the device the runtime measures on, and say so when it has to be waited for."""
    device = RUNTIMES.load(spec.runtime).device(spec)

    def tell(holder: str) -> None:
        conduct.listen(Event(kind="wait", text=f"waiting for {device}, held by {holder}"))

    what = conduct.command or f"trtbench bench {spec.model.name}"
    with hold(device, what=what, wait=conduct.wait, on_wait=tell):
        yield


def _event(stage: str, launch: int, spec: RunSpec) -> Event:
    several = f"launch {launch + 1}/{spec.launches}: " if spec.launches > 1 else ""
    seconds = spec.stop.seconds if stage == "measure" else None
    done = (launch + _STAGE_PART.get(stage, 0.95)) / spec.launches
    text = several + _STAGE_TEXT.get(stage, stage)
    return Event(kind="stage", text=text, done=done, seconds=seconds)


def _collect(work: Path, folder: Path, *, number: int = 0, several: bool = False) -> Launch:
    """Take over a launch's files and clear its folder."""
    path = work / "outcome.json"
    launch = Launch(
        outcome=value_from_json(path.read_bytes(), BenchOutcome, where=str(path)),
        times=read_samples(work),
    )
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


def record_from_launches(
    spec: RunSpec,
    run_id: str,
    environment: Environment,
    contention: dict[str, Scalar],
    conduct: Conduct,
    launches: list[Launch],
) -> RunRecord:
    """Put together what a run's launches told."""
    first = launches[0].outcome
    told = [note for each in launches for note in each.outcome.notes]
    return RunRecord(
        id=run_id,
        created=now(),
        spec=spec,
        environment=msgspec.structs.replace(
            environment,
            python=first.python,
            versions=first.versions,
            extra={**environment.extra, **contention},
        ),
        tags=conduct.tags,
        inputs=first.inputs,
        outputs=first.outputs,
        launches=tuple(each.outcome.facts for each in launches),
        conditions={**conditions_of_engine(spec.model), **first.conditions},
        reported=first.reported,
        notes=tuple(dict.fromkeys([*told, *stamps_of_engine(spec.model)])),
        facts=evidence_of_launches([each.outcome.evidence for each in launches]),
    )


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
