"""Runs jobs in worker processes and stores what they measure: one fresh process per launch.

Everything is on disk before it is shown; failed runs are stored too.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, NoReturn, TypeVar

from trtbench.analysis.findings import findings_from_run
from trtbench.core import errors, jobs
from trtbench.core.codec import value_from_json
from trtbench.core.properties import variables_from_text, without_tf32
from trtbench.core.results import Failed, Feed, InferOutcome
from trtbench.core.run import (
    LAUNCHES_ASKED,
    DuetRef,
    Environment,
    FailedRun,
    Finding,
    LoadSearch,
    Run,
    RunRecord,
    Scalar,
    Scores,
    without_secrets,
)
from trtbench.core.samples import IterationTimes, TelemetrySample, join_launches
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.formats.toolkit import SERIES_ROWS, data_files
from trtbench.host.files import write_whole
from trtbench.host.locks import hold
from trtbench.host.machine import CpuCounters, counters_between, read_counters, read_environment
from trtbench.host.workers import Assignment, check_interpreter, run_jobs
from trtbench.measure import model_facts
from trtbench.measure.remote import job_from_spec, read_returned_record, send_job
from trtbench.measure.watch import RunLaunch, Watch, watch_device
from trtbench.models.identity import changed, raise_if_changed
from trtbench.requests.execution import PATIENCE_S, TICK_S, Event, Execution, expected_s
from trtbench.requests.settings import cached_from_run
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.store import directory
from trtbench.store.directory import now
from trtbench.store.store import Store
from trtbench.trtexec.exports import profile_json
from trtbench.trtexec.times import times_json

T = TypeVar("T")
_LESS_IS_WORSE = {
    "achieved_hz", "outputs_finite", "outputs_vary", "outputs_repeat", "inputs_constant",
}  # fmt: skip
_OF_LAYERS = {"layer_times", "kernel_busy_s", "counters"}
"""Evidence about the layers that are kept, those of the first launch."""
_STAGES = {
    "start": ("start", 0.5),
    "load": ("loading", 0.5),
    "first": ("first inference", 0.1),
    "warm-up": ("warming up", 0.3),
    "measure": ("measuring", 0.0),
    "profile": ("profiling layers", 0.0),
    "save": ("saving", 0.3),
}
"""For each stage of a launch, its text and the seconds that it usually takes besides its spec."""
_WORK_FILES = {"job.json", "outcome.json", "samples.npz", "log.txt", "error.json"}

STREAM_PATIENCE_S = 24 * 3600.0
"""A whole data set may take hours; no shorter limit would fit all."""


def run_job(
    job: jobs.Job,
    *,
    folder: Path,
    execution: Execution,
    patience_s: float,
    python: str | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> jobs.JobEnd:
    """Run a job in a fresh process, which writes its files and ``log.txt`` to the folder."""
    (end,) = run_jobs(
        [Assignment(job=job, folder=folder, python=python)],
        timeout_s=execution.timeout_s or patience_s, memory_bytes=execution.memory_bytes,
        on_stage=on_stage, tick_s=TICK_S,
        on_tick=lambda: execution.listen(Event(kind="tick", text="")),
    )  # fmt: skip
    show_notes(end, execution)
    return end


def show_notes(end: jobs.JobEnd, execution: Execution) -> None:
    for note in end.notes:
        execution.listen(Event(kind="note", text=note))


def read_outcome(folder: Path, kind: type[T]) -> T:
    """Read ``outcome.json``, the result that a job wrote to its folder."""
    path = folder / "outcome.json"
    return value_from_json(path.read_bytes(), kind, where=str(path))


def environment_of(execution: Execution) -> Environment:
    return read_environment(command=execution.command, folder=Path.cwd(), label=execution.machine)


def with_contention(environment: Environment, before: CpuCounters) -> Environment:
    """Return the environment with what other work took from the processor since a reading."""
    grown = counters_between(before, read_counters())
    return environment.having(extra={**environment.extra, **grown})


def check_runtime_available(spec: RunSpec, python: str | None, *, on_gpu: bool = False) -> None:
    """Raise if this interpreter lacks a runtime, before waiting for the processor.

    Runtimes in other interpreters, and without ``on_gpu`` on GPUs, are checked by the worker.
    """
    module = RUNTIMES.load(spec.runtime)
    by_worker = module.open_session is None or module.device(spec) != "cpu"
    if python is not None or (by_worker and not on_gpu):
        return
    if (reason := module.available()) is not None:
        message = f"the runtime {spec.runtime} is not available here"
        raise errors.UnavailableError(message, facts={"reason": reason}, fix=module.fix())


def hold_device(spec: RunSpec, execution: Execution) -> contextlib.AbstractContextManager[float]:
    """Hold the lock of a run's device during the block; waits until the device is free."""
    device, what = device_of(spec), execution.command or f"trtbench bench {spec.model.name}"

    def waiting(holder: str) -> None:
        execution.listen(Event(kind="wait", text=f"waiting for {device}, held by {holder}"))

    return hold(device, what=what, wait=execution.wait, on_wait=waiting)


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
    """Run a model over all items of a feed; writes its outputs and times to the folder."""

    def show_progress(line: str) -> None:
        progress = jobs.progress_from_line(line)
        if progress is not None:
            on_progress(*progress)
        elif line == "load":
            on_progress(0.0, "loading")

    execution = execution or Execution()
    check_runtime_available(spec, execution.python)
    raise_if_changed(spec.model)
    with hold_device(spec, execution):
        end = run_job(
            jobs.InferJob(spec=spec, feed=feed, decode=decode), folder=folder, execution=execution,
            patience_s=STREAM_PATIENCE_S, python=execution.python, on_stage=show_progress,
        )  # fmt: skip
    end = fail_if_model_changed(end, spec.model)
    if not end.ok:
        raise_job_error(end, spec, store=store, execution=execution, work=folder)
    return read_outcome(folder, InferOutcome)


def write_scores(folder: Path, scores: Scores) -> None:
    """Write scores, with the hash of the artefact they belong to, into a run directory."""
    directory.write_json(folder / directory.SCORES, scores)


class Failures:
    """Collects the errors of several models; if all of them fail, the last error is raised."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.found: list[Failed] = []

    @contextlib.contextmanager
    def collecting(self, name: str) -> Iterator[None]:
        """Continue after a model that cannot be run, unless all others have failed too."""
        try:
            yield
        except errors.TrtbenchError as problem:
            if len(self.found) + 1 == self._count:
                raise
            facts = problem.facts
            self.found.append(Failed(model=Path(name).name, reason=problem.message, facts=facts))


def raise_if_failed(failed: Sequence[Failed], *, what: str) -> None:
    """Raise if some models could not be run; called after the results of the others are shown."""
    if failed:
        raise errors.JobError(what, facts={each.model: each.reason for each in failed})


def fail_if_model_changed(end: jobs.JobEnd, *models: ModelRef) -> jobs.JobEnd:
    """Return the end of a job, as a failure if a model file changed in the meantime.

    A crash counts too: weights that are mapped from the disk disappear while they are in use.
    """
    crashed = end.signal not in (None, "SIGTERM") and end.error is None and not end.timed_out
    for model in models if end.ok or crashed else ():
        if (problem := changed(model)) is not None:
            if "what" not in problem.facts:  # whether it has changed is not known
                raise problem
            message = f"{model.name} changed while it was in use: {problem.facts['what']}"
            fix = "wait until the file is complete, and run the command again"
            error = jobs.ReportedError(kind=jobs.CHANGED, message=message, fix=fix, stage=end.stage)
            return end.having(error=error)
    return end


def raise_job_error(
    end: jobs.JobEnd, spec: RunSpec, *, store: Store, execution: Execution, work: Path
) -> NoReturn:
    """Raise an error that a worker reported as refused; else store a failed run and raise that."""
    if end.refused is not None:
        raise end.refused
    failed = failed_run(end, spec, directory.new_id(), environment_of(execution), execution)
    target = store.directory(failed.id)
    with store.new_run(failed.id) as folder:
        with contextlib.suppress(OSError):
            shutil.copyfile(work / "log.txt", folder / "log.txt")
        directory.write_record(folder, failed)
    store.add(failed, path=target)
    raise job_error(failed, target)


def failed_run(
    end: jobs.JobEnd, spec: RunSpec, run_id: str, environment: Environment, execution: Execution
) -> FailedRun:
    return FailedRun(
        id=run_id, created=now(), spec=spec, environment=environment, tags=execution.tags,
        stage=end.stage, reason=end.reason, cause=end.error.kind if end.error is not None else None,
        exit_status=end.exit_status, signal=end.signal,
        program_status=end.error.program_status if end.error is not None else None,
        log_tail=end.log_tail,
    )  # fmt: skip


def job_error(failed: FailedRun, path: Path) -> errors.JobError:
    facts = {
        "model": failed.spec.model.name,
        "runtime": failed.spec.runtime,
        "stage": failed.stage,
        "exit status": failed.program_status,
        "record": path,
    }
    fix = f"see {next(path.glob('*.log'), path / 'log.txt')}" if failed.log_tail else None
    if failed.cause == jobs.NO_MEMORY:
        fix = "use a smaller --batch or --shape, or provide more memory"
    message = f"the measurement did not finish: {failed.reason}"
    known = {name: each for name, each in facts.items() if each is not None}
    return errors.JobError(message, facts=known, fix=fix, log_tail=failed.log_tail)


class Launch(NamedTuple):
    outcome: jobs.BenchOutcome
    times: IterationTimes

    @classmethod
    def read(cls, folder: Path, watch: Watch | None = None) -> Launch:
        """Read what a launch wrote, and what was observed of its device meanwhile."""
        outcome = read_outcome(folder, jobs.BenchOutcome)
        observed = watch.with_telemetry(outcome) if watch is not None else outcome
        return cls(observed, directory.read_samples(folder))


def run_bench(
    spec: RunSpec,
    *,
    store: Store,
    execution: Execution | None = None,
    search: LoadSearch | None = None,
) -> Run:
    """Measure and store a run; if a launch fails, a FailedRun is stored and its error raised.

    With ``search``, each launch continues a search for a rate, and the run is at its answer. An
    interrupted search is stored too.
    """
    execution = execution or Execution()

    def run_remotely() -> Run:
        run_id = execution.run_id or directory.new_id()
        job = job_from_spec(spec, run_id, execution, search=search)
        target = store.directory(run_id, output=execution.output)
        with store.new_run(run_id, output=execution.output) as folder:
            send_job(job, folder, execution)
            # The record keeps the local path of the model; the environment names the machine.
            record = read_returned_record(run_id, folder)
            own = spec if search is None else spec.having(rate_hz=record.spec.rate_hz)
            directory.write_record(folder, record.having(spec=own))
        return add_returned_run(store, target)

    return execution.executor.do(partial(_run_here, spec, store, execution, search), run_remotely)


def _run_here(spec: RunSpec, store: Store, execution: Execution, search: LoadSearch | None) -> Run:
    check_interpreter(execution.python)
    check_runtime_available(spec, execution.python)
    run_id = execution.run_id or directory.new_id()
    target = store.directory(run_id, output=execution.output)
    begun, result = False, None
    with hold_device(spec, execution):
        raise_if_changed(spec.model)
        environment = environment_of(execution)
        with watch_device(spec, device_of(spec)) as watch:
            try:
                new_run = store.new_run(run_id, output=execution.output)
                with errors.writing(target), new_run as folder:
                    begun = True
                    result, stopped = _measure_launches(
                        folder, spec, run_id, target=target, environment=environment,
                        execution=execution, watch=watch, search=search,
                    )  # fmt: skip
                    if isinstance(result, Run):
                        result = _write_run(result, folder)
            except errors.StoreError as error:
                if begun:  # index what is on disk, or store the failure, as far as the disk allows
                    with contextlib.suppress(errors.StoreError, errors.InputError):
                        if (target / directory.RECORD).is_file():
                            store.add(directory.read_record(target), path=target)
                        else:
                            reported = jobs.ReportedError(kind="StoreError", message=error.message)
                            end = jobs.JobEnd(seconds=0.0, stage="save", error=reported)
                            failed = failed_run(end, spec, run_id, environment, execution)
                            with store.new_run(run_id) as folder:
                                directory.write_record(folder, failed)
                            store.add(failed, path=store.directory(run_id))
                if not isinstance(result, Run) or isinstance(stopped, KeyboardInterrupt):
                    raise
                execution.on_unwritten(error)
                return _as_far_as_written(result)
    try:
        run = _add_run(store, result, target)
    except errors.StoreError as problem:
        message = "the run is on disk, but the index could not be written"
        facts = {"run": target, **problem.facts}
        unwritten = errors.StoreError(message, facts=facts, fix=store.repair)
        if not isinstance(result, Run):
            raise unwritten from None
        execution.on_unwritten(unwritten)
        run = result
    if stopped is not None:
        kept = "launches so far are" if search is None else "search so far is"
        text = f"the {kept} kept: trtbench runs show {run.id}"
        if isinstance(stopped, KeyboardInterrupt):
            raise KeyboardInterrupt(text) from None
        execution.listen(Event(kind="note", text=text))
        if not isinstance(stopped, errors.StoreError):
            raise stopped
        execution.on_unwritten(stopped)
    return run


def add_returned_run(store: Store, target: Path) -> Run:
    """Add a run that another machine sent back to the index; raises the error of a failed one."""
    return _add_run(store, directory.read_run(target), target)


def _add_run(store: Store, run: Run | FailedRun, target: Path) -> Run:
    if isinstance(run, FailedRun):
        store.add(run, path=target)
        raise job_error(run, target)
    store.add(run.record, path=target, cached=cached_from_run(run))
    return run


def run_launch(
    spec: RunSpec,
    number: int,
    *,
    folder: Path,
    execution: Execution,
    on_stage: Callable[[str], None] | None = None,
    search: LoadSearch | None = None,
) -> jobs.JobEnd:
    """Run one launch in a fresh process, which writes its results to the folder."""
    end = run_job(
        jobs.BenchJob(spec=spec, launch=number, search=search), folder=folder, execution=execution,
        patience_s=(search.budget_s if search else expected_s(spec)) + PATIENCE_S,
        python=execution.python, on_stage=on_stage,
    )  # fmt: skip
    return fail_if_model_changed(end, spec.model)


def stage_lengths(spec: RunSpec) -> dict[str, float]:
    """Return the seconds that each stage of a launch usually takes."""
    queries = spec.stop.iterations
    scheduled = queries / spec.rate_hz if spec.rate_hz and queries else 0.0
    measured_s = max(spec.stop.seconds or 0.0, scheduled)  # at least
    own_s = {"warm-up": spec.warmup.floor.seconds or 0.0, "measure": measured_s}
    return {name: usual + own_s.get(name, 0.0) for name, (_, usual) in _STAGES.items()}


def _stage_event(spec: RunSpec, stage: str, *, number: int, note: str = "") -> Event:
    """Say where a launch is; its stages count by the time that they usually take."""
    by_stage = stage_lengths(spec)
    lengths, measured_s = [*by_stage.values()], by_stage["measure"]
    place = [*_STAGES].index(stage) if stage in _STAGES else len(lengths) - 1
    launches = spec.launches + (spec.telemetry_s is not None)  # one more for telemetry
    before = number + bool(note)
    ends = (sum(lengths[:count]) / sum(lengths) for count in (place, place + 1))
    done, until = ((before + end) / launches for end in ends)
    counter = f"launch {number + 1}/{spec.launches}: " if spec.launches > 1 else ""
    text = f"{counter}{_STAGES.get(stage, (stage, 0.0))[0]}{note}"
    seconds = measured_s or None if stage == "measure" else None
    return Event(kind="stage", text=text, done=done, seconds=seconds, until=until)


def _measure_launches(
    folder: Path,
    spec: RunSpec,
    run_id: str,
    *,
    target: Path,
    environment: Environment,
    execution: Execution,
    watch: Watch,
    search: LoadSearch | None,
) -> tuple[Run | FailedRun, BaseException | None]:
    """Measure all launches into the folder; earlier launches are kept if a later one fails.

    Returns also what stopped it; the run then has what was measured or found before.
    """

    def launch_once(
        spec: RunSpec, number: int, work: Path, on_stage: Callable[[str], None], note: str = ""
    ) -> jobs.JobEnd:
        def show_stage(stage: str) -> None:
            on_stage(stage)
            if (progress := jobs.progress_from_line(stage)) is not None:
                done = (number + progress[0]) / spec.launches
                execution.listen(Event(kind="stage", text=progress[1], done=done))
                return
            event = _stage_event(spec, stage, number=number, note=note)
            execution.listen(event if search is None else event.having(done=None, seconds=None))

        return run_launch(
            spec, number, folder=work, execution=execution, on_stage=show_stage, search=search
        )

    launches: list[Launch] = []
    stopped: BaseException | None = None
    if search is not None:  # the budget is for all launches
        search = search.having(budget_s=search.budget_s / spec.launches)
    before = read_counters()
    for number in range(spec.launches):
        work = folder / f"launch-{number}"
        try:
            with errors.writing(target):
                end = launch_once(spec, number, work, watch)
        except (KeyboardInterrupt, errors.StoreError) as problem:
            stopped = problem
            if not (work / directory.LOAD).is_file():
                if not launches:
                    raise
                shutil.rmtree(work, ignore_errors=True)
                break
        if search is not None and not stopped and not end.ok and (work / directory.LOAD).is_file():
            stopped = job_error(failed_run(end, spec, run_id, environment, execution), target)
        if not stopped and launches and end.error is not None and end.error.kind == "StoreError":
            stopped = end.error.error()
            shutil.rmtree(work, ignore_errors=True)
            break
        if not stopped and not end.ok:
            if not launches and end.refused is not None:
                raise end.refused
            _keep_failed_launch(end, work, folder, number=number, earlier=launches)
            failed = failed_run(end, spec, run_id, environment, execution)
            directory.write_record(folder, failed)
            return failed, None
        launches.append(launch := Launch.read(work, watch))
        try:
            with errors.writing(target):
                if launch.outcome.layers is not None:
                    (work / directory.PROFILE).write_bytes(profile_json(launch.outcome.layers))
                _move_runtime_files(work, folder, number=number, several=spec.launches > 1)
                _append_log(work, folder)
                shutil.rmtree(work)
        except errors.StoreError as problem:
            stopped = stopped or problem
        if search is not None:  # the samples are those at the rate that the last launch ended with
            found = (folder / directory.LOAD).read_bytes()
            search, launches = value_from_json(found, LoadSearch, where="load.json"), launches[-1:]
        if stopped:
            break
    if search is not None:
        spec = spec.having(launches=1, rate_hz=search.kept_hz)
    asked, spec = spec.launches, spec.having(launches=len(launches))

    def run(on_stage: Callable[[str], None], work: Path) -> jobs.JobEnd:
        bare, last = spec.having(profile=False), spec.launches - 1
        return launch_once(bare, last, work, on_stage, " (with telemetry)")

    is_sampled = spec.telemetry_s is not None and not stopped
    telemetry = _sample(run, spec, watch, environment, folder) if is_sampled else ()
    environment = with_contention(environment, before)
    record = record_from_launches(spec, run_id, environment, execution, launches, asked=asked)
    command = record.reported.get("command")
    if isinstance(command, str):  # names files in the run directory, not in the work folder
        command = command.replace(str(folder / "launch-0"), str(target))
        record = record.having(reported={**record.reported, "command": command})
    layers, graph = directory.read_layers(folder)
    record = model_facts.check_precision_against_layers(watch.with_observations(record), graph)
    times = join_launches([each.times for each in launches])
    measured = Run(
        record=record, times=times, path=target, layers=layers, graph=graph, telemetry=telemetry,
        load=search,
    )  # fmt: skip
    return measured, stopped


def _keep_failed_launch(
    end: jobs.JobEnd, work: Path, folder: Path, *, number: int, earlier: Sequence[Launch]
) -> None:
    """Keep the log of a launch that failed, its files, and the samples of earlier ones."""
    with contextlib.suppress(OSError):  # the disk may be what failed
        _append_log(work, folder)
        if end.error is None or end.error.kind != "StoreError":
            _move_runtime_files(work, folder, number=number, several=bool(earlier))
    shutil.rmtree(work, ignore_errors=True)
    if earlier:
        directory.write_samples(folder, join_launches([each.times for each in earlier]))


def _sample(
    run: RunLaunch, spec: RunSpec, watch: Watch, environment: Environment, folder: Path
) -> tuple[TelemetrySample, ...]:
    """Return the telemetry of a launch whose times are not stored, and keep it in the folder."""
    index, work, names = watch.index, folder / "telemetry", [g.name for g in environment.gpus]
    gpu = names[index] if index is not None and index < len(names) else None
    telemetry = watch.sample_launch(spec, run, folder=work, gpu=gpu)
    shutil.rmtree(work, ignore_errors=True)
    if telemetry:
        directory.write_json(folder / directory.TELEMETRY, telemetry)
    return telemetry


def _move_runtime_files(work: Path, folder: Path, *, number: int, several: bool) -> None:
    """Move the files that a runtime wrote; those of later launches get a number in their name.

    ``times.json`` always gets one, since times of all launches are written under that name later.
    """
    for file in work.iterdir():
        if file.name not in _WORK_FILES:
            stem, _, rest = file.name.partition(".")
            again = several and file.name != directory.LOAD
            numbered = again and (number > 0 or file.name == "times.json")
            file.replace(folder / (f"{stem}.{number}.{rest}" if numbered else file.name))


def _append_log(work: Path, folder: Path) -> None:
    with open(folder / "log.txt", "ab") as target, open(work / "log.txt", "rb") as source:
        shutil.copyfileobj(source, target)


_INCOMPLETE = Finding(
    code="incomplete", severity="warning", message="not all files of the run were written",
    remedy="measure again, with room on the disk: no rule has judged these samples",
)  # fmt: skip
"""In a record until the run's other files are written."""


def _write_run(run: Run, folder: Path) -> Run:
    """Write all files of a run, its record first, so that the measurement is kept in any case."""
    directory.write_samples(folder, run.times)
    directory.write_record(folder, run.record.having(findings=(_INCOMPLETE,)))
    run = _judged(run)
    write_run_files(run, folder)
    directory.write_record(folder, run.record)
    return run


def _judged(run: Run) -> Run:
    return replace(run, record=run.record.having(findings=findings_from_run(run)))


def _as_far_as_written(run: Run) -> Run:
    """Return a run for the screen, judged, without a path if the disk has no record of it."""
    is_written = run.path is not None and (run.path / directory.RECORD).is_file()
    return replace(_judged(run), path=run.path if is_written else None)


def write_run_files(run: Run, folder: Path, *, series: bool | None = None) -> None:
    """Write the files for people and other tools; existing files are not overwritten.

    Files with a line for every sample are left out of long runs, unless ``series`` is true.
    """
    run = replace(run, record=without_secrets(run.record))
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times = {"times.json": times_json(run.times)} if series and len(run.times) else {}
    for name, content in {**times, **data_files(run, series=series)}.items():
        path = folder / name
        if path.is_symlink() or not path.exists():
            with errors.writing(path):  # a partial file would look complete
                write_whole(path, content)


def record_from_launches(
    spec: RunSpec,
    run_id: str,
    environment: Environment,
    execution: Execution,
    launches: list[Launch],
    *,
    asked: int | None = None,
) -> RunRecord:
    """Return the record of a run; ``asked`` is more than its launches if it was interrupted."""
    first = launches[0].outcome
    notes = [note for each in launches for note in each.outcome.notes]
    known = model_facts.conditions_of_model(spec.model)
    recorded = model_facts.recorded_precision(spec.model)
    build_notes, build_facts = model_facts.build_of_engine(spec.model)
    interrupted = asked not in (None, len(launches))
    if interrupted:
        notes.append(f"interrupted: {len(launches)} of {asked} launches")
    conditions = model_facts.joined_conditions(known, first.conditions)
    if spec.model.format != "engine":  # whose kernels were chosen when it was built
        variables = variables_from_text(environment.extra.get("variables"))
        conditions = without_tf32(conditions, variables)
    runtime = RUNTIMES.load(spec.runtime)
    # The work of one query, on GPUs only, because their peak rates are known.
    on_gpu = runtime.device(spec) != "cpu"
    work = model_facts.work_of_model(spec.model, first.inputs) if on_gpu else {}
    if recorded is not None and "precision" in known and known["precision"].value != recorded:
        work["claimed_precision"] = recorded  # the types in the file contradict it
    return RunRecord(
        id=run_id,
        created=now(),
        spec=spec,
        environment=environment.having(python=first.python, versions=first.versions),
        tags=execution.tags,
        inputs=first.inputs,
        outputs=first.outputs,
        launches=tuple(each.outcome.facts for each in launches),
        conditions=conditions,
        reported=merge_reported([each.outcome.reported for each in launches]),
        notes=tuple(dict.fromkeys([*notes, *build_notes])),
        facts={
            **merge_evidence([each.outcome.evidence for each in launches]),
            "executes_engine": runtime.EXECUTES_ENGINES,
            **build_facts,
            **({LAUNCHES_ASKED: asked} if interrupted else {}),
            **work,
        },
    )


def merge_evidence(evidence: list[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Merge the evidence of several launches: the worst of numbers, the first of texts.

    The worst number is the largest, except for the keys in ``_LESS_IS_WORSE``; what is known of
    layers is that of the first launch, whose layers are kept.
    """
    merged: dict[str, Scalar] = {}
    for key in dict.fromkeys(key for each in evidence for key in each):
        of_them = evidence[:1] if key in _OF_LAYERS else evidence
        values = [each[key] for each in of_them if each.get(key) is not None]
        numbers = [value for value in values if isinstance(value, (bool, int, float))]
        worst = min if key in _LESS_IS_WORSE else max
        merged[key] = worst(numbers) if numbers else next(iter(values), None)
    return merged


def merge_reported(printed: list[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Merge what several launches printed: extremes of extremes, means of other numbers.

    A switch that was on in one launch and off in another is unknown.
    """
    merged = dict(printed[0])
    for key, first in merged.items():
        numbers = [v for each in printed if isinstance(v := each.get(key), (int, float))]
        if len({*numbers}) > 1:
            mean = min if "_min_" in key else max if "_max_" in key else fmean
            merged[key] = None if isinstance(first, bool) else mean(numbers)
    return merged


def measure_in_rounds(
    sides: Sequence[tuple[RunSpec, str | None]], *, rounds: int, store: Store, execution: Execution
) -> list[Run]:
    """Launch every side once per round, in alternating order, so that drift affects all alike.

    A side is a spec and the interpreter it runs in; each is stored as one run of all its launches.
    If one launch fails, all stop: there would be nothing to compare the others with.
    """
    environment = environment_of(execution)
    launches: list[list[Launch]] = [[] for _ in sides]
    before = read_counters()
    for number in range(rounds):
        order = list(range(len(sides)))
        for turn, side in enumerate(order if number % 2 == 0 else reversed(order)):
            spec, python = sides[side]
            text = f"round {number + 1}/{rounds}: measuring {spec.model.name}"
            done = (number + turn / len(sides)) / rounds
            execution.listen(Event(kind="stage", text=text, done=done))
            own = replace(execution, python=python or execution.python)
            with hold_device(spec, own), store.scratch() as folder:
                raise_if_changed(spec.model)
                end = run_launch(spec, number, folder=folder, execution=own)
                if not end.ok:
                    raise_job_error(end, spec, store=store, execution=own, work=folder)
                launches[side].append(Launch.read(folder))
    environment = with_contention(environment, before)
    return [
        store_run(spec, own_launches, environment, store=store, execution=execution)
        for (spec, _), own_launches in zip(sides, launches, strict=True)
    ]


def store_run(
    spec: RunSpec,
    launches: list[Launch],
    environment: Environment,
    *,
    store: Store,
    execution: Execution,
    duet: DuetRef | None = None,
    watch: Watch | None = None,
    asked: int | None = None,
) -> Run:
    """Store the launches of one side as an ordinary run; ``asked`` is more if interrupted."""
    run_id = directory.new_id()
    spec, target = spec.having(launches=len(launches)), store.directory(run_id)
    record = record_from_launches(spec, run_id, environment, execution, launches, asked=asked)
    record = record.having(duet=duet)
    record = watch.with_observations(record) if watch else record
    run = Run(record=record, times=join_launches([each.times for each in launches]), path=target)
    try:
        with errors.writing(target), store.new_run(run_id) as folder:
            run = _write_run(run, folder)
        return _add_run(store, run, target)
    except errors.StoreError as problem:
        execution.on_unwritten(problem)
        with contextlib.suppress(errors.StoreError, errors.InputError):
            store.add(directory.read_record(target), path=target)
        return _as_far_as_written(run)


def demand_layer_times(run: Run) -> Run:
    if run.layers is None:
        message = f"the run {run.id} has no layer times"
        facts = {"model": run.record.spec.model.name, "runtime": run.record.spec.runtime}
        raise errors.UsageError(message, facts=facts, fix=command_for_layer_times(run))
    return run


def command_for_layer_times(run: Run) -> str:
    """Return the command that adds the layer times that a run lacks."""
    spec = run.record.spec
    if run.record.provenance == "imported":
        return "import the file of --exportProfile together with the others, with --again"
    if not RUNTIMES.load(spec.runtime).TIMES_LAYERS:
        return "trtbench build MODEL.onnx, then trtbench profile MODEL.engine"
    return f"trtbench profile {shlex.quote(spec.model.path)} -r {spec.runtime}"
