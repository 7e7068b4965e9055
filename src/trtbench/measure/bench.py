"""Measure a model: one fresh process per launch, everything on disk before it is shown."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.memory import METERED, memory_of_launches
from trtbench.core.errors import InputError, StoreError, UsageError, write_error, writing
from trtbench.core.jobs import BenchJob, BenchOutcome, JobEnd, ReportedError
from trtbench.core.properties import variables_from_text, without_tf32
from trtbench.core.run import (
    DuetRef,
    Environment,
    FailedRun,
    Run,
    RunRecord,
    Scalar,
    without_secrets,
)
from trtbench.core.samples import IterationTimes, TelemetrySample, join_launches
from trtbench.core.spec import RunSpec
from trtbench.formats.toolkit import SERIES_ROWS, data_files
from trtbench.host.files import write_whole
from trtbench.host.machine import counters_between, read_counters
from trtbench.host.workers import check_interpreter
from trtbench.measure.jobs import (
    carry_out_job,
    device_of,
    environment_of,
    fail_if_model_changed,
    fail_job,
    failed_run,
    hold_device,
    job_error,
    read_outcome,
    refuse_without_library,
)
from trtbench.measure.model_facts import (
    check_precision_against_layers,
    claims_of_model,
    conditions_of_model,
    joined_conditions,
    stamps_of_engine,
    work_of_model,
)
from trtbench.measure.remote import run_elsewhere
from trtbench.measure.watch import Watch, watching
from trtbench.models.identity import demand_unchanged
from trtbench.requests.execution import PATIENCE_S, Event, Execution, expected_s
from trtbench.requests.settings import cached_from_run
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import (
    PROFILE,
    RECORD,
    demand_finished,
    new_id,
    now,
    read_layers,
    read_record,
    read_samples,
    write_record,
    write_samples,
    write_telemetry,
)
from trtbench.store.store import Store
from trtbench.trtexec.exports import profile_json
from trtbench.trtexec.times import times_json

_LESS_IS_WORSE = {
    "achieved_hz", "outputs_finite", "outputs_vary", "outputs_repeat", "inputs_constant",
}  # fmt: skip
_STAGES = {
    "start": ("start", 0.0),
    "load": ("loading", 0.02),
    "first": ("first inference", 0.1),
    "warm-up": ("warming up", 0.12),
    "measure": ("measuring", 0.3),
    "profile": ("profiling layers", 0.95),
    "save": ("saving", 0.95),
}
"""Each stage of a launch in words, and the part of the launch that is done when it begins."""
_WORK_FILES = {"job.json", "outcome.json", "samples.npz", "log.txt", "error.json"}


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What one finished launch left."""

    outcome: BenchOutcome
    times: IterationTimes

    @classmethod
    def read(cls, folder: Path) -> Launch:
        return cls(outcome=read_outcome(folder, BenchOutcome), times=read_samples(folder))

    def with_telemetry(self, watch: Watch) -> Launch:
        """Add what the watch saw."""
        return replace(self, outcome=watch.with_telemetry(self.outcome))


def run_bench(spec: RunSpec, *, store: Store, execution: Execution | None = None) -> Run:
    """Measure every launch of a run and store it; one that does not finish leaves a FailedRun."""
    execution = execution or Execution()
    return execution.executor.do(
        partial(_run_here, spec, store, execution), partial(run_elsewhere, spec, store, execution)
    )


def _run_here(spec: RunSpec, store: Store, execution: Execution) -> Run:
    if execution.python is not None:
        check_interpreter(execution.python)
    refuse_without_library(spec, execution.python)
    run_id = execution.run_id or new_id()
    target = store.directory(run_id, output=execution.output)
    begun = False
    with hold_device(spec, execution):
        demand_unchanged(spec.model)
        environment = environment_of(execution)
        with watching(spec, device_of(spec)) as watch:
            bench = _Bench(spec, run_id, target, environment, execution, watch)
            try:
                with store.new_run(run_id, output=execution.output) as folder:
                    begun = True
                    result = bench.fill(folder)
            except (StoreError, OSError) as problem:
                error = write_error(target, problem) if isinstance(problem, OSError) else problem
                if begun:
                    bench.leave_trace(store, error.message)
                raise error from None
    try:
        if isinstance(result, FailedRun):
            store.add(result, path=target)
        else:
            store.add(result.record, path=target, cached=cached_from_run(result))
    except StoreError as problem:
        raise StoreError(
            "the run is on disk, but the index could not be written",
            facts={"run": target, **problem.facts},
            fix="trtbench runs reindex",
        ) from None
    if isinstance(result, FailedRun):
        raise job_error(result, target)
    return result


def run_launch(
    spec: RunSpec,
    number: int,
    *,
    folder: Path,
    execution: Execution,
    on_stage: Callable[[str], None] | None = None,
) -> JobEnd:
    """Run one launch in a process of its own; what it leaves is in the folder."""
    end = carry_out_job(
        BenchJob(spec=spec, launch=number),
        folder=folder,
        execution=execution,
        patience_s=expected_s(spec) + PATIENCE_S,
        python=execution.python,
        on_stage=on_stage,
    )
    return fail_if_model_changed(end, spec.model)


@dataclass(frozen=True)
class _Bench:
    """One run, carried out in a folder of its own."""

    spec: RunSpec
    run_id: str
    target: Path
    environment: Environment
    execution: Execution
    watch: Watch

    def fill(self, folder: Path) -> Run | FailedRun:
        """Fill the folder, launch by launch; what was measured stays even when a launch fails."""
        spec, watch = self.spec, self.watch
        launches: list[Launch] = []
        before = read_counters()
        for number in range(spec.launches):
            work = folder / f"launch-{number}"
            end = self._launch(spec, number, work, watch)
            if not end.ok:
                if not launches and end.refused is not None:
                    raise end.refused
                return self._keep_failure(end, folder, launches)
            launch = Launch.read(work)
            if launch.outcome.layers is not None:
                (work / PROFILE).write_bytes(profile_json(launch.outcome.layers))
            _append_log(work, folder)
            _keep_files(work, folder, number=number, several=spec.launches > 1)
            shutil.rmtree(work)
            launches.append(launch.with_telemetry(watch))
        telemetry = self._telemetry(folder)
        contention = counters_between(before, read_counters())
        record = record_from_launches(
            spec, self.run_id, self.environment, contention, self.execution, launches
        )
        command = record.reported.get("command")
        if isinstance(command, str):  # names files where they are kept, not where they were made
            command = command.replace(str(folder / "launch-0"), str(self.target))
            record = record.having(reported={**record.reported, "command": command})
        return _write_run(watch.noted(record), launches, folder, self.target, telemetry)

    def _launch(
        self,
        spec: RunSpec,
        number: int,
        work: Path,
        on_stage: Callable[[str], None],
        *,
        note: str = "",
    ) -> JobEnd:
        """Run one launch; ``on_stage`` gets its stages before progress is reported."""

        def staged(stage: str) -> None:
            on_stage(stage)
            several = f"launch {number + 1}/{spec.launches}: " if spec.launches > 1 else ""
            words, part = _STAGES.get(stage, (stage, 0.95))
            length = None
            if stage == "measure":  # at least, by the clock and by the schedule of arrivals
                queries = spec.stop.iterations
                scheduled = queries / spec.rate_hz if spec.rate_hz and queries else 0.0
                length = max(spec.stop.seconds or 0.0, scheduled) or None
            done = (number + part) / spec.launches
            event = Event(kind="stage", text=f"{several}{words}{note}", done=done, seconds=length)
            self.execution.listen(event)

        return run_launch(spec, number, folder=work, execution=self.execution, on_stage=staged)

    def _telemetry(self, folder: Path) -> tuple[TelemetrySample, ...]:
        """Sample the GPU in a pass of its own, after all that was measured; it keeps no times."""
        spec, index, work = self.spec, self.watch.index, folder / "telemetry"
        if spec.telemetry_s is None:
            return ()
        bare = spec.having(profile=False)
        names = [gpu.name for gpu in self.environment.gpus]
        gpu = names[index] if index is not None and index < len(names) else None

        def run(on_stage: Callable[[str], None], work: Path) -> JobEnd:
            return self._launch(bare, spec.launches - 1, work, on_stage, note=" (with telemetry)")

        samples = self.watch.look(spec, run, folder=work, gpu=gpu)
        shutil.rmtree(work, ignore_errors=True)
        if samples:
            write_telemetry(folder, samples)
        return samples

    def _keep_failure(self, end: JobEnd, folder: Path, launches: list[Launch]) -> FailedRun:
        """Turn the folder into the record of a failure, with the log and what was measured."""
        work = folder / f"launch-{len(launches)}"
        with contextlib.suppress(OSError):  # the disk may be what failed
            _append_log(work, folder)
            if end.error is None or end.error.kind != "StoreError":
                _keep_files(work, folder, number=len(launches), several=bool(launches))
        shutil.rmtree(work, ignore_errors=True)
        if launches:
            write_samples(folder, join_launches([each.times for each in launches]))
        failed = failed_run(end, self.spec, self.run_id, self.environment, self.execution)
        write_record(folder, failed)
        return failed

    def leave_trace(self, store: Store, message: str) -> None:
        """Index what was kept of the run, or record its loss, as far as a full disk allows."""
        reported = ReportedError(kind="StoreError", message=message)
        end = JobEnd(seconds=0.0, stage="save", error=reported)
        failed = failed_run(end, self.spec, self.run_id, self.environment, self.execution)
        with contextlib.suppress(StoreError, InputError):
            if (self.target / RECORD).is_file():
                store.add(read_record(self.target), path=self.target)
                return
            with store.new_run(failed.id) as folder:
                write_record(folder, failed)
            store.add(failed, path=store.directory(failed.id))


def _keep_files(work: Path, folder: Path, *, number: int, several: bool) -> None:
    """Move what a runtime left; of several launches each has its number in the names.

    The first one's stand for all, but for the times: those of all launches are written later.
    """
    for file in work.iterdir():
        if file.name not in _WORK_FILES:
            stem, _, rest = file.name.partition(".")
            numbered = several and (number > 0 or file.name == "times.json")
            file.replace(folder / (f"{stem}.{number}.{rest}" if numbered else file.name))


def _append_log(work: Path, folder: Path) -> None:
    with open(folder / "log.txt", "ab") as target, open(work / "log.txt", "rb") as source:
        shutil.copyfileobj(source, target)


def _write_run(
    record: RunRecord,
    launches: list[Launch],
    folder: Path,
    target: Path,
    telemetry: tuple[TelemetrySample, ...] = (),
) -> Run:
    """Write all files of a run; its record first, so that what was measured is kept in any case."""
    times = join_launches([each.times for each in launches])
    layers, graph = read_layers(folder)
    record = check_precision_against_layers(record, graph)
    write_samples(folder, times)
    write_record(folder, record)
    run = Run(
        record=record, times=times, path=target, layers=layers, graph=graph, telemetry=telemetry
    )
    run = replace(run, record=record.having(findings=findings_from_run(run)))
    write_run_files(run, folder)
    write_record(folder, run.record)
    return run


def write_run_files(run: Run, folder: Path, *, series: bool | None = None) -> None:
    """Write the files for people and other tools; a file that is there already stays.

    Files with a line for every sample are left out of long runs, unless they are asked for.
    """
    run = replace(run, record=without_secrets(run.record))
    if series is None:
        series = len(run.times) <= SERIES_ROWS
    times = {"times.json": times_json(run.times)} if series else {}
    for name, content in {**times, **data_files(run, series=series)}.items():
        path = folder / name
        if not path.exists():
            with writing(path):  # half a file would be taken for a whole one
                write_whole(path, content)


def record_from_launches(
    spec: RunSpec,
    run_id: str,
    environment: Environment,
    contention: dict[str, Scalar],
    execution: Execution,
    launches: list[Launch],
) -> RunRecord:
    """Put together what the launches of a run left."""
    first = launches[0].outcome
    notes = [note for each in launches for note in each.outcome.notes]
    conditions = joined_conditions(conditions_of_model(spec.model), first.conditions)
    if spec.model.format != "engine":  # whose kernels were chosen when it was built
        variables = variables_from_text(environment.extra.get("variables"))
        conditions = without_tf32(conditions, variables)
    runtime = RUNTIMES.load(spec.runtime)
    # On a GPU, whose peaks are known, how much work one query is.
    work = {} if runtime.device(spec) == "cpu" else work_of_model(spec.model, first.inputs)
    return RunRecord(
        id=run_id,
        created=now(),
        spec=spec,
        environment=environment.having(
            python=first.python, versions=first.versions, extra={**environment.extra, **contention}
        ),
        tags=execution.tags,
        inputs=first.inputs,
        outputs=first.outputs,
        launches=tuple(each.outcome.facts for each in launches),
        conditions=conditions,
        reported=first.reported,
        notes=tuple(dict.fromkeys([*notes, *stamps_of_engine(spec.model)])),
        facts={
            **evidence_of_launches([each.outcome.evidence for each in launches]),
            "executes_engine": runtime.EXECUTES_ENGINES,
            **work,
            **claims_of_model(spec.model),
        },
    )


def evidence_of_launches(evidence: list[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Put together the evidence of launches: of several values, the one that counts most.

    Of text that is the first; of numbers the largest, but for those where less is worse. What was
    seen of memory is that of one launch: parts of several would not add up.
    """
    merged: dict[str, Scalar] = {}
    for key in dict.fromkeys(key for each in evidence for key in each):
        values = [each[key] for each in evidence if each.get(key) is not None]
        numbers = [value for value in values if isinstance(value, (bool, int, float))]
        worst = min if key in _LESS_IS_WORSE else max
        merged[key] = worst(numbers) if numbers else next(iter(values), None)
    return {name: each for name, each in merged.items() if not name.startswith(METERED)} | (
        memory_of_launches(evidence)
    )


def measure_in_rounds(
    sides: Sequence[tuple[RunSpec, str | None]], *, rounds: int, store: Store, execution: Execution
) -> list[Run]:
    """Launch every side once a round, there and back, so that whatever drifts hits all alike.

    A side is a spec and the interpreter it runs in; each is kept as one run of all its launches.
    One that fails ends it all: the others would be compared with nothing.
    """
    environment = environment_of(execution)
    launches: list[list[Launch]] = [[] for _ in sides]
    before = read_counters()
    for number in range(rounds):
        places = list(range(len(sides)))
        for turn, place in enumerate(places if number % 2 == 0 else reversed(places)):
            spec, python = sides[place]
            text = f"round {number + 1}/{rounds}: measuring {spec.model.name}"
            done = (number + turn / len(sides)) / rounds
            execution.listen(Event(kind="stage", text=text, done=done))
            own = replace(execution, python=python or execution.python)
            with hold_device(spec, own), store.scratch() as folder:
                demand_unchanged(spec.model)
                end = run_launch(spec, number, folder=folder, execution=own)
                if not end.ok:
                    fail_job(end, spec, environment, store=store, execution=own, left=folder)
                launches[place].append(Launch.read(folder))
    contention = counters_between(before, read_counters())
    return [
        keep_run(spec, mine, environment, contention, store=store, execution=execution)
        for (spec, _), mine in zip(sides, launches, strict=True)
    ]


def keep_run(
    spec: RunSpec,
    launches: list[Launch],
    environment: Environment,
    contention: dict[str, Scalar],
    *,
    store: Store,
    execution: Execution,
    duet: DuetRef | None = None,
    watch: Watch | None = None,
) -> Run:
    """Store what launches of one side left as an ordinary run."""
    run_id = new_id()
    spec, target = spec.having(launches=len(launches)), store.directory(run_id)
    record = record_from_launches(spec, run_id, environment, contention, execution, launches)
    record = record.having(duet=duet)
    with store.new_run(run_id) as folder:
        run = _write_run(watch.noted(record) if watch else record, launches, folder, target)
    store.add(run.record, path=target, cached=cached_from_run(run))
    return run


def profile_model(spec: RunSpec, *, store: Store, execution: Execution | None = None) -> Run:
    """Measure a model, and its layers in a pass of their own."""
    return _profiled(run_bench(spec.having(profile=True), store=store, execution=execution))


def stored_profile(name: str, *, store: Store) -> Run:
    """Read a run that has a profile."""
    return _profiled(demand_finished(store.load(name)))


def _profiled(run: Run) -> Run:
    if run.layers is None:
        raise UsageError(
            f"the run {run.id} has no layer times",
            facts={"model": run.record.spec.model.name, "runtime": run.record.spec.runtime},
            fix=way_to_layers(run),
        )
    return run


def way_to_layers(run: Run) -> str:
    """Return what to type to get the layer times that a run lacks."""
    spec = run.record.spec
    if run.record.provenance == "imported":
        return "import the file of --exportProfile together with the others, with --again"
    if not RUNTIMES.load(spec.runtime).TIMES_LAYERS:
        return "trtbench build MODEL.onnx, then trtbench profile MODEL.engine"
    return f"trtbench profile {shlex.quote(spec.model.path)} -r {spec.runtime}"
