"""Runs a sweep: does the shared steps, measures in rounds, evaluates, and can be resumed.

With an executor, each case runs on another machine with all its steps.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from trtbench.accuracy.check import EvalSide
from trtbench.accuracy.evaluate import run_evaluation, scores_of, write_evaluation
from trtbench.analysis.findings import SEVERITIES, findings_from_run
from trtbench.analysis.onnx_graph import RANDOM_DATA
from trtbench.analysis.summary import summary_from_run
from trtbench.convert.build import build_spec, run_build, text_of_progress
from trtbench.convert.calibration import resolved_items
from trtbench.convert.conversions import VIA, run_export, run_quantize
from trtbench.convert.steps import Cache, Step, StepResult, digest, step_result
from trtbench.core.errors import InputError, JobError, StoreError, TrtbenchError, UnavailableError
from trtbench.core.run import LAUNCHES_ASKED, UNKNOWN, FailedRun, Finding, Run, precision_in
from trtbench.core.samples import IterationTimes, join_launches, times_from_columns
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import text_from_seconds
from trtbench.executors.contract import AGAIN, HERE
from trtbench.host.cache import cache_folder
from trtbench.host.files import exclusive, temporary_folder
from trtbench.measure import remote
from trtbench.measure.bench import add_returned_run, run_bench, write_scores
from trtbench.models.onnx_model import input_specs, load_onnx
from trtbench.requests import models
from trtbench.requests.execution import Event, Execution, refuse
from trtbench.requests.fields import fields_of
from trtbench.requests.measure import SweepRequest
from trtbench.requests.run_spec import first_choice
from trtbench.requests.settings import Config, cached_from_run
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import RECORD, new_id, read_record, write_record
from trtbench.store.store import Store
from trtbench.sweep import plan as plans
from trtbench.sweep.matrix import MACHINE, Case, Matrix, check_matrix
from trtbench.sweep.records import Journal, SweepOutline, read_outline, start_sweep
from trtbench.tasks import TASKS

_RUN = "run"  # folder of the run in the output of another machine
_StepOutput = tuple[Path, tuple[str, ...]]  # the output file of a step, and notes


class Failure(NamedTuple):
    stage: str | None  # the failed step, or bench; ``None`` if it could not be planned
    reason: str

    @property
    def text(self) -> str:
        return f"{self.stage}: {self.reason}" if self.stage else self.reason


@dataclass(frozen=True, kw_only=True)
class SweepEvaluation:
    """An evaluation of a sweep: its result, and the folder of its tables and pictures."""

    folder: Path
    made: StepResult
    network: str  # name of its first model in the sweep


def run_sweep(
    folder: Path, *, store: Store, config: Config, execution: Execution, retry_failed: bool = False
) -> Sweep:
    """Run the remaining work of a new or interrupted sweep."""
    folder = folder.absolute()
    outline = read_outline(folder)
    away = execution.executor.elsewhere
    plan = plans.plan_sweep(outline.matrix, config=config, lenient=outline.lenient, elsewhere=away)
    journal = Journal(folder)
    with journal.locked():
        sweep = Sweep(folder, outline, plan, journal, store, config, execution, Cache(store))
        work = plans.estimate(plan, store=store)
        sweep.case_s = next(((e.seconds or 0.0) / e.count for e in work if e.kind == "bench"), None)
        for line in journal.unfinished():  # runs that were stored, but not noted in the journal
            path = store.directory(str(line.run))
            if not store.index.find(id_prefix=line.run):
                if not (path / RECORD).is_file():
                    continue
                with suppress(JobError):  # of a failed run
                    add_returned_run(store, path)
            run = store.load(str(line.run))
            if isinstance(run, Run) and LAUNCHES_ASKED in run.record.facts:
                continue  # interrupted: it is measured again
            if isinstance(run, FailedRun):
                journal.add("failed", line.case, line.round, run=line.run, reason=run.reason)
            else:
                journal.add("done", line.case, line.round, run=line.run)
        journal.forget_lost(lambda run: not store.holds(run))
        if retry_failed:
            journal.lines = [line for line in journal.lines if line.what != "failed"]
        sweep.prepare()
        sweep.measure()
        sweep.judge()
    return sweep


@dataclass
class Sweep:
    folder: Path
    outline: SweepOutline
    plan: plans.SweepPlan
    journal: Journal
    _store: Store
    _config: Config
    _execution: Execution
    _kept: Cache
    judged: list[SweepEvaluation] = field(default_factory=list)
    done: int = 0
    case_s: float | None = None  # how long a case takes in one round, as far as is known
    _measuring_since: float = 0.0
    _measured: int = 0  # by this process; others may have measured before

    def __post_init__(self) -> None:
        self._here = replace(
            self._execution, tags=(), executor=HERE, listen=lambda event: self._report()
        )
        self._execution = replace(self._execution, tags=(*self._execution.tags, self.outline.tag))
        self._watching = threading.RLock()
        self.total = self.outline.matrix.rounds * len(self.plan.cases)
        self._doing, self._since = "", time.monotonic()
        self._left: list[Step] = []  # steps to do, that in progress first
        self._past = self._kept.history()
        self._told: set[int] = set()  # cases whose failure was reported
        self._made: dict[str, StepResult] = {}
        self._broken: dict[str, Failure] = {}
        self._waiting: set[str] = set()
        self.failures = {k: Failure(None, reason) for k, reason in self.plan.refused.items()}
        """Why a case has no results, or no accuracy."""
        ends = self.journal.finished().items()
        reported = {key: line.reason for (key, _), line in ends if line.what == "done"}
        self.remarks = {
            place: text
            for place, each in enumerate(self.plan.cases)
            if (text := reported.get(each.key))
        }

    def runs_of(self, *places: int) -> list[Run]:
        """Return the finished runs of some cases, round by round."""
        keys = {self.plan.cases[place].key for place in places}
        ends = sorted(self.journal.finished().items(), key=lambda each: each[0][1])
        done = [line.run for (key, _), line in ends if key in keys and line.what == "done"]
        loaded = (self._store.load(run) for run in done if run)
        return [run for run in loaded if isinstance(run, Run)]

    def _report(self, doing: str | None = None) -> None:
        """Say what is being done and how long it and the rest take; by default, the same again."""
        with self._watching:
            now, left_s, rest_s = time.monotonic(), None, None
            if doing is not None:
                self._doing, self._since = doing, now
            for place in sorted(self.failures.keys() - self._told):
                text = f"failed: {self.plan.cases[place].case.name}: {self.failures[place].text}"
                self._execution.listen(Event(kind="note", text=text))
            self._told |= self.failures.keys()
            ahead = [step.expected_s(self._past) for step in self._left]
            ahead += [self.case_s] * (self.total - self.done)
            known = [each for each in ahead if each is not None]
            if len(known) == len(ahead) > 0:
                left_s, rest_s = max(0.0, known[0] - (now - self._since)), sum(known[1:])
            elif ahead:
                rest_s = sum(known)
            text = f"[{self.done}/{self.total}] {self._doing or 'finishing'}"
            text += f" ({text_of_progress(now - self._since, ahead[0])})" if self._left else ""
            self._execution.listen(Event(kind="stage", text=text, seconds=left_s, rest_s=rest_s))

    def prepare(self) -> None:
        """Do the steps that make the measured models; a failed step fails only its own cases."""
        wanted = {key for each in self.plan.cases for key in each.chain}
        steps = [step for step in self.plan.steps.values() if step.key in wanted]
        steps.sort(key=lambda each: plans.MODEL_STEPS.index(each.kind))
        self._left = [step for step in steps if self._kept.find(step) is None]
        for step in steps:
            failed = self._broken.get(step.source)
            places = [k for k, each in enumerate(self.plan.cases) if step.key in each.chain]
            if failed is None:
                self._report(step.title)
                try:
                    made = self._kept.result(step, partial(self._make, step))
                    self._made[step.key] = made
                    self._past.append(made)
                    if note := next((each for each in made.notes if RANDOM_DATA in each), None):
                        self.remarks.update(dict.fromkeys(places, note))
                    continue
                except StoreError:
                    raise
                except TrtbenchError as problem:
                    failed = Failure(step.kind, plans.error_line(problem))
                finally:
                    self._left = [each for each in self._left if each is not step]
            self._broken[step.key] = failed
            self.failures.update(dict.fromkeys(places, failed))

    def _input(self, source: str) -> Path | str:
        made = self._made.get(source)
        if made is None or made.file is None:
            self.plan.refuse_changed(source)
            return source
        return self._kept.folder(self.plan.steps[source]) / made.file

    def _make(self, step: Step, folder: Path) -> _StepOutput:
        kinds = {"export": self._export, "quantize": self._quantize, "build": self._build}
        made = kinds[step.kind](step, self._input(step.source), folder)
        self.plan.refuse_changed(step.source, self.plan.matrix.calibration)
        return made

    def _export(self, step: Step, source: Path | str, folder: Path) -> _StepOutput:
        loading = step.settings["loading"]
        request = models.ExportRequest(
            source=source, output=folder / f"{step.network}.onnx",
            input_shapes=step.settings["inputs"], weights=loading.get("weights", "default"),
            factory=loading.get("factory"), trust=loading.get("trust") == "on",
            seed=int(loading.get("seed", 0)),
        )  # fmt: skip
        python, builder = map(self._config.python_for, (first_choice("torch"), "tensorrt"))
        here = replace(self._here, python=python)
        sidecar = run_export(request, execution=here, builder=builder)
        return folder / sidecar.file, sidecar.notes

    def _quantize(self, step: Step, source: Path | str, folder: Path) -> _StepOutput:
        precision, execution = step.settings["precision"], self._here
        calibrated = VIA[precision] != "cast"
        request = models.QuantizeRequest(
            model=source, precision=precision, output=folder / f"{step.network}.{precision}.onnx",
            keep_io=step.settings["keep_io"],
            data=(self.plan.matrix.calibration or "random") if calibrated else None,
            shapes=step.settings["shapes"], **step.settings["prepared"],
        )  # fmt: skip
        if VIA[precision] == "modelopt":
            execution = replace(execution, python=self._config.python_for("modelopt"))
        sidecar = run_quantize(request, execution=execution)
        return folder / sidecar.file, sidecar.notes

    def _build(self, step: Step, source: Path | str, folder: Path) -> _StepOutput:
        settings = step.settings
        kind = ".dynamic" if settings["engine"] == "dynamic" else ""
        precision = f".{settings['precision']}" if settings["precision"] else ""
        # Minimum, optimum and maximum shapes of inputs with dynamic dimensions.
        batches, model = settings["batches"], Path(source)
        inputs = input_specs(load_onnx(model, weights=False))
        ends = [resolved_items(inputs, given, model=model).tensors for given in settings["shapes"]]
        shapes: dict[str, Any] = {f"shapes_{end}": {} for end in ("min", "opt", "max")}
        for place, tensor in enumerate(inputs):
            if not tensor.is_static:
                for own, batch, end in zip(shapes.values(), batches, ends, strict=True):
                    rest = (dim for dim in end[place].shape[1:] if isinstance(dim, int))
                    own[tensor.name] = (batch, *rest)
        calibration = self.plan.matrix.calibration if settings["calibration"] else None
        options = {key: str(value) for key, value in settings["options"].items()}
        request = models.BuildRequest(
            model=source, output=folder / f"{step.network}{kind}{precision}.engine",
            runtime=settings["builder"], precision=settings["precision"], data=calibration,
            options={"typing": "strong"} if settings["typed"] else {},
            device=settings.get("device"), **settings["prepared"], **shapes,
            **models.build_settings(options),
        )  # fmt: skip
        spec = build_spec(request, self._config)
        python = self._config.python_for(settings["builder"])
        artefact = run_build(spec, execution=replace(self._here, python=python))
        return Path(spec.output), artefact.notes

    def measure(self) -> None:
        """Measure every case in every round, each in another random order."""
        matrix, cases = self.outline.matrix, self.plan.cases
        self._measuring_since = time.monotonic()
        ends = self.journal.finished()
        for number in range(matrix.rounds):
            order = list(range(len(cases)))
            random.Random(f"{matrix.seed}:{number}").shuffle(order)  # the same on every machine
            todo = []
            for place in order:
                end = ends.get((cases[place].key, number))
                if end is None:
                    todo.append(place)
                    continue
                self.done += 1
                if end.what == "failed":
                    self.failures[place] = Failure("bench", end.reason or "failed")
            work = partial(self._measure_one, number=number)
            self._execution.executor.each(todo, work, self._execution.needs)
        self._report("")

    def _measure_one(self, place: int, number: int) -> None:
        """Measure a case; with an executor, several threads call this at the same time."""
        try:
            if place in self.failures:
                return
            rounds, key = self.outline.matrix.rounds, self.plan.cases[place].key
            name = self.plan.cases[place].case.name
            self._report(f"round {number + 1}/{rounds}: {name}" if rounds > 1 else name)
            run_id = new_id()
            self.journal.add("begin", key, number, run=run_id)
            try:
                run = self.bench(place, run_id)
            except StoreError:
                raise
            except TrtbenchError as problem:
                self.journal.add("failed", key, number, reason=plans.error_line(problem))
                self.failures[place] = Failure("bench", plans.error_line(problem))
                return
            remark = self.remarks.get(place) if self.plan.elsewhere else None
            self.journal.add("done", key, number, run=run.id, reason=remark)
            cached = cached_from_run(run)
            median = text_from_seconds(cached.median_s if cached else None)
            with self._watching:
                self._measured += 1
                self.case_s = (time.monotonic() - self._measuring_since) / self._measured
                text = f"done: {self.plan.cases[place].case.name}: {median} ({run.id})"
                self._execution.listen(Event(kind="note", text=text))
        finally:
            with self._watching:
                self.done += 1

    def bench(self, place: int, run_id: str) -> Run:
        """Measure a case and store it as ``run_id``; an executor also does the steps."""
        planned = self.plan.cases[place]
        case = planned.case
        lost: list[str] = []

        def listen(event: Event) -> None:
            """Report that a case waits, restarts or continues, but not every stage."""
            if event.text.endswith(AGAIN):
                lost.append(event.text)
            waits = event.kind in ("wait", "note")
            changes = waits or (event.kind == "stage" and case.name in self._waiting)
            if changes:
                (self._waiting.add if waits else self._waiting.discard)(case.name)
            self._report(f"{case.name}: {event.text}" if changes else None)

        execution = replace(self._execution, listen=listen, on_unwritten=refuse)
        if not self.plan.elsewhere:
            spec = self.plan.bench_spec(place, self._input([case.model, *planned.chain][-1]))
            python = self._config.python_for(case.runtime)
            execution = replace(execution, python=python, run_id=run_id)
            return run_bench(spec, store=self._store, execution=execution)
        self.plan.refuse_changed(case.model)
        arguments, files = case_arguments(self.plan.matrix, case, run_id)
        options = {key: str(value) for key, value in case.prefixed("opt.").items()}
        given = {key: str(value) for key, value in case.settings.items()}
        device, machine = given.get("device") or None, given.get(MACHINE)
        gpu = remote.needs_gpu(case.model, case.runtime, device=device, options=options)
        with temporary_folder() as own:
            answer = remote.send_verb(
                "case", arguments, own, files=files, execution=execution, gpu=gpu,
                title=case.name, machine=machine,
            )  # fmt: skip
            done = remote.value_from_answer(answer, CaseResult, files=files, output=own)
            measured = own / "output" / _RUN
            record = remote.read_returned_record(run_id, measured)
            with self._store.new_run(run_id) as target:
                shutil.copytree(measured, target, dirs_exist_ok=True)
                write_record(target, record.having(spec=done.spec, tags=execution.tags))
            run = add_returned_run(self._store, self._store.directory(run_id))
        if remark := "; ".join(filter(None, [done.remark, *lost])):
            self.remarks[place] = remark
        return run

    def judge(self) -> None:
        """Evaluate accuracy after all measurements; problems become remarks."""
        steps: dict[str, dict[int, list[int]]] = {}
        for place, each in enumerate(self.plan.cases):
            if each.judged is not None and place not in self.failures:
                key, side = each.judged
                steps.setdefault(key, {}).setdefault(side, []).append(place)
        remarks = defaultdict[int, list[str]](list)
        for key, sides in steps.items():
            step, groups = self.plan.steps[key], list(sides.values())
            self._report(step.title)
            try:
                found = self._evaluate_step(step, groups)
            except StoreError:
                raise
            except TrtbenchError as problem:
                found = [(each, f"no accuracy: {plans.error_line(problem)}") for each in groups]
            for place, text in ((place, text) for places, text in found for place in places):
                remarks[place].append(text)
        self.remarks |= {place: "; ".join(texts) for place, texts in remarks.items()}
        self._report("")

    def _evaluate_step(self, step: Step, groups: list[list[int]]) -> list[tuple[list[int], str]]:
        """Evaluate groups of cases that share a model, by index; returns remarks on groups."""
        plan, cases = self.plan, self.plan.cases
        plan.refuse_changed(plan.matrix.data, cases[groups[0][0]].case.model)
        runs = [self.runs_of(*places) for places in groups]
        firsts = [places[0] for places in groups]
        sides = [self._eval_side(*each, firsts) for each in zip(firsts, runs, strict=True)]
        # Pictures that show latencies are specific to the measured runs.
        drawn = TASKS.load(plan.matrix.task).DRAWS_LATENCY
        ids = [each.id for own in runs for each in own] if drawn else []
        if ids or len(sides) != len(step.settings["sides"]):
            named = [(side.label, side.spec.model.identity, side.spec.runtime) for side in sides]
            step = step.having(key=digest({"step": step.key, "sides": named, "runs": ids}))
        made = self._kept.find(step) or self._evaluate(step, sides)
        folder, name = self._kept.folder(step), plan.model_name(groups[0][0])
        self.judged.append(SweepEvaluation(folder=folder, made=made, network=name))
        remarks: list[tuple[list[int], str]] = []
        for places, own, scores in zip(groups, runs, made.scores, strict=True):
            if scores is None:
                continue
            for finding in scores.findings:
                remarks.append((places, f"{finding.severity} {finding.code}: {finding.message}"))
            for run in own:
                if (reason := scores.why_not_for(run.record)) is not None:
                    remarks.append((places, f"no accuracy: {reason}"))
                    continue
                path = self._store.resolve(run.id)
                write_scores(path, scores)
                self._store.publish(path)
        problems = zip(groups, made.problems, strict=True)
        return remarks + [(each, f"no accuracy: {reason}") for each, reason in problems if reason]

    def _eval_side(self, place: int, runs: list[Run], firsts: Sequence[int]) -> EvalSide:
        """Return a model to evaluate, with the latency of its smallest batch and its own label."""
        plan, case = self.plan, self.plan.cases[place].case
        smallest = min(runs, key=lambda run: run.record.items_per_query, default=None)
        same = [run for run in runs if smallest and run.record.spec == smallest.record.spec]
        rate = summary_from_run(merge_rounds(same)).items_per_s if same else None
        label = case.label
        if plan.matrix.names == "vanilla":
            ran = measured_precision(case, smallest) if smallest else case.precision
            label = plan.vanilla_name(case, ran)
        if plan.one_table:
            label = plan.model_name(place)
        elif sum(plan.cases[each].case.label == case.label for each in firsts) > 1:
            label = f"{label} batch {case.batch}"
        return EvalSide(
            spec=plan.eval_spec(place, self._input([case.model, *plan.cases[place].chain][-1])),
            python=self._config.python_for(case.runtime),
            label=label,
            latency_s=1 / rate if rate else None,
        )

    def _evaluate(self, step: Step, sides: Sequence[EvalSide]) -> StepResult:
        began, matrix = time.monotonic(), self.plan.matrix
        assert matrix.data is not None
        folder = self._kept.folder(step)
        request = models.EvalRequest(
            models=[side.spec.model.path for side in sides], task=matrix.task, data=matrix.data,
            settings=step.settings["settings"], output=folder,
        )  # fmt: skip
        found = run_evaluation(
            request, store=self._store, config=self._config, execution=self._here,
            open_batch=self.plan.eval_batch, sides=sides,
        )  # fmt: skip
        places, failed = range(len(sides)), iter(found.failed)
        scores = {model.place: scores_of(found, model) for model in found.models}
        made = step_result(
            step, seconds=time.monotonic() - began, scores=tuple(map(scores.get, places)),
            problems=tuple(None if each in scores else next(failed).reason for each in places),
            pictures=found.pictures, notes=found.all_notes,
        )  # fmt: skip
        write_evaluation(found, folder)
        return made if found.failed else self._kept.keep(step, made)


def merge_rounds(runs: Sequence[Run], *, drop: str = "") -> Run:
    """Merge the rounds of a case as launches of one run, without the tag ``drop``."""
    parts: list[IterationTimes] = []
    for times in (run.times for run in runs):
        which = np.zeros(len(times)) if times.launch is None else times.launch
        parts += [
            times_from_columns({name: column[which == k] for name, column in times.columns()})
            for k in np.unique(which)
        ]
    whole, first = join_launches(parts), runs[0].record
    launches = tuple(facts for run in runs for facts in run.record.launches)
    worst: dict[tuple[str, str | None], Finding] = {}
    # Rules check the facts of each round on the samples of all.
    pools = (replace(x, record=x.record.having(launches=launches), times=whole) for x in runs)
    found = (finding for pool in pools for finding in findings_from_run(pool))
    for finding in sorted(found, key=lambda each: SEVERITIES.index(each.severity)):
        worst.setdefault((finding.code, finding.concerns), finding)
    tags = tuple(tag for tag in first.tags if tag != drop)
    record = first.having(launches=launches, findings=tuple(worst.values()), tags=tags)
    return replace(runs[0], record=record, times=whole)


def measured_precision(case: Case, run: Run) -> str | None:
    """Return the precision of a run; that of the case if it applies."""
    ran = precision_in(run.record.conditions, asked=case.precision)
    return ran or (UNKNOWN if case.precision is not None else None)


class CaseResult(Value, frozen=True, kw_only=True):
    """The result of a case; its finished or failed run is in the same folder."""

    spec: RunSpec
    remark: str | None = None


def case_arguments(
    matrix: Matrix, case: Case, run_id: str
) -> tuple[dict[str, object], remote.InputFiles]:
    """Return a case, and the matrix with only its model, as plain values, and its files."""
    files = remote.InputFiles(task=matrix.task, settings=matrix.task_settings)
    travels = {each.name: each.about.travels for each in fields_of(SweepRequest)}
    named = {
        name: files.add_value(travels[name], value)
        for name in Matrix.__struct_fields__
        if travels.get(name) and name != "models" and (value := getattr(matrix, name))
    }
    model = files.add_model(case.model)
    own = matrix.having(
        **named, models=(model,), runtime=(case.runtime,), options=files.add_axes(matrix.options),
        task_settings=files.add_value("settings", matrix.task_settings), exclude=(),
    )  # fmt: skip
    options, fixed = files.add_axes(case.options), files.add_axes(case.fixed)
    case = case.having(model=model, options=options, fixed=fixed)
    return msgspec.to_builtins({"matrix": own, "case": case, "run_id": run_id}), files


def run_case(
    asked: Mapping[str, object], *, folder: Path, output: Path, config: Config, execution: Execution
) -> CaseResult:
    """Run all steps of one case; results of the steps are cached on this machine."""
    try:
        matrix = msgspec.convert(asked["matrix"], type=Matrix)
        case = msgspec.convert(asked["case"], type=Case)
        run_id = msgspec.convert(asked["run_id"], type=str)
    except (KeyError, msgspec.ValidationError) as problem:
        raise InputError("this is not a case of a sweep", facts={"reason": problem}) from None
    check_matrix(matrix, where="the request")
    runtime = RUNTIMES.load(case.runtime)
    named = config.python_for(case.runtime) or "opt.binary" in case.settings
    if not named and (reason := runtime.available()) is not None:  # another machine may have it
        message = f"the machine lacks what {case.runtime} needs"
        raise UnavailableError(message, facts={"reason": reason}, fix=runtime.fix())
    plan = plans.plan_sweep(matrix, config=config, only=case)
    if not plan.cases:
        raise InputError("the matrix does not contain the case")
    [planned] = plan.cases
    if planned.refused:
        raise JobError(planned.refused)
    store, kept = Store(folder / "store"), Cache(Store(cache_folder() / "store"))
    place = folder / "sweep"
    outline = start_sweep(matrix, place, store=store)
    journal = Journal(place)
    work = Sweep(place, outline, plan, journal, store, config, execution, kept)
    # Cases with the same first step run it one at a time, so that it is done once.
    first = next(iter(planned.chain), None)
    one_at_a_time = exclusive(cache_folder() / f".{first[:16]}.lock") if first else nullcontext()
    with journal.locked():
        with one_at_a_time:
            work.prepare()
        if work.failures:
            raise JobError(work.failures[0].text)
        try:
            work.bench(0, run_id)
            journal.add("done", planned.key, 0, run=run_id)
        except JobError:
            if not (store.directory(run_id) / RECORD).is_file():
                raise  # otherwise the failed run is the result
        work.judge()
    store.directory(run_id).rename(output / _RUN)
    remark = "; ".join(filter(None, [*planned.notes, work.remarks.get(0)])) or None
    return CaseResult(spec=read_record(output / _RUN).spec, remark=remark)
