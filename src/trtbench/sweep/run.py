"""Carry out a sweep: prepare what cases share, measure in rounds, go on after interruptions.

With an executor a case and all its steps go to another machine; both ends of that are here.
"""

from __future__ import annotations

import random
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtbench.analysis.onnx_graph import RANDOM_DATA
from trtbench.core.errors import (
    InputError,
    JobError,
    StoreError,
    TrtbenchError,
    UnavailableError,
)
from trtbench.core.run import FailedRun, Run
from trtbench.core.safety import file_name_from_text, mask
from trtbench.core.spec import RunSpec, Value
from trtbench.executors import cache_folder
from trtbench.executors.contract import AGAIN
from trtbench.executors.local import HERE
from trtbench.host.files import alone, temporary_folder
from trtbench.measure.bench import run_bench
from trtbench.measure.remote import (
    InputFiles,
    needs_gpu,
    record_of,
    send_verb,
    take_in,
    value_of_answer,
)
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fields_of
from trtbench.requests.settings import Config, cached_from_run
from trtbench.requests.sweep import SweepRequest
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import (
    RECORD,
    Cached,
    new_id,
    now,
    read_record,
    write_record,
)
from trtbench.store.store import Store
from trtbench.sweep.matrix import MACHINE, Case, Matrix, check_matrix
from trtbench.sweep.plan import (
    BEFORE,
    SweepPlan,
    check_plan,
    plan_sweep,
    reason_of,
    spec_of_case,
)
from trtbench.sweep.records import (
    Cache,
    Journal,
    Made,
    SweepOutline,
    SweepStep,
    read_outline,
    write_outline,
)
from trtbench.sweep.steps import Judged, Jury, Workshop, do_step

_RUN = "run"
"""In what comes back from a machine."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run that was measured, and what a list shows of it."""

    run: str
    cached: Cached | None


class Failure(NamedTuple):
    """Why a case has no numbers."""

    stage: str | None
    """Where it failed: a step, or bench; ``None`` of what was refused before."""
    reason: str

    @property
    def text(self) -> str:
        return f"{self.stage}: {self.reason}" if self.stage else self.reason


@dataclass(kw_only=True)
class SweepProgress:
    """How far a sweep is; the command line draws it between jobs."""

    plan: SweepPlan
    found: dict[int, Found] = field(default_factory=dict)
    """The newest run of each case; its samples are on the disk, and not kept here."""
    failures: dict[int, Failure] = field(default_factory=dict)
    doing: str = ""
    done: int = 0
    total: int = 0
    measuring_since: float | None = None
    measured: int = 0
    """By this process, which may go on with what another began."""

    @property
    def left_s(self) -> float | None:
        """Time to the end, by the mean time of those measured so far, waits for machines included.

        ``None`` before the first.
        """
        if not self.measured or self.measuring_since is None:
            return None
        spent_s = time.monotonic() - self.measuring_since
        return spent_s / self.measured * (self.total - self.done)


WatchSweep = Callable[[SweepProgress], None]


def start_sweep(
    matrix: Matrix, folder: Path, *, store: Store, lenient: bool = False
) -> SweepOutline:
    """Write down what is asked for, before anything is done."""
    folder = folder.absolute()
    outline = SweepOutline(
        name=folder.name,
        tag=f"sweep:{file_name_from_text(folder.name)}-{secrets.token_hex(3)}",
        created=now(),
        store=mask(store.address),
        runs=mask(store.runs_address) if store.runs_address else None,
        matrix=matrix,
        lenient=lenient,
    )
    write_outline(folder, outline)
    return outline


def carry_out(
    folder: Path,
    *,
    store: Store,
    config: Config,
    execution: Execution,
    retry_failed: bool = False,
    watch: WatchSweep = lambda progress: None,
) -> Sweep:
    """Do what is left of a sweep; what is done stays done, however the last attempt ended."""
    folder = folder.absolute()
    outline = read_outline(folder)
    away = execution.executor.elsewhere
    plan = check_plan(outline.matrix, config=config, lenient=outline.lenient, elsewhere=away)
    journal = Journal(folder)
    with journal.held():
        sweep = Sweep(folder, outline, plan, journal, store, config, execution, watch)
        adopt_runs(journal, store)
        journal.forget_lost(lambda run: not store.holds(run))
        if retry_failed:
            journal.forget_failures()
        sweep.prepare()
        sweep.measure()
        sweep.judge()
    return sweep


def order_of(count: int, *, seed: int, number: int) -> list[int]:
    """The shuffled cases of a round; the same seed gives the same order on every machine."""
    places = list(range(count))
    random.Random(f"{seed}:{number}").shuffle(places)
    return places


class Sweep:
    """A sweep that this process carries out: its plan, and what came of it."""

    def __init__(
        self,
        folder: Path,
        outline: SweepOutline,
        plan: SweepPlan,
        journal: Journal,
        store: Store,
        config: Config,
        execution: Execution,
        watch: WatchSweep = lambda progress: None,
        cache: Cache | None = None,
    ) -> None:
        self.folder, self.outline, self.plan, self.journal = folder, outline, plan, journal
        self._store, self._config, self._watch = store, config, watch
        self._execution = replace(execution, tags=(*execution.tags, outline.tag))
        self._shop = Workshop(
            store=store,
            config=config,
            cache=cache or Cache(store),
            matrix=outline.matrix,
            execution=replace(execution, tags=(), executor=HERE),
        )
        self._watching = threading.RLock()
        self._made: dict[str, Made] = {}
        self._broken: dict[str, Failure] = {}
        self._waiting: set[str] = set()
        self.failures = {place: Failure(None, reason) for place, reason in plan.refused.items()}
        """Why a case has no numbers, or no accuracy."""
        ends = journal.ends().items()
        reported = {key: line.reason for (key, _), line in ends if line.what == "done"}
        self.remarks = {
            place: text for place, each in enumerate(plan.cases) if (text := reported.get(each.key))
        }
        self.judged: tuple[Judged, ...] = ()
        self._progress = SweepProgress(plan=plan, failures=self.failures)

    @property
    def notes(self) -> list[str]:
        """What of an earlier attempt was lost and measured again."""
        return self.journal.notes

    def prepare(self) -> None:
        """Do every step that a case waits for, once; a failed step fails its own cases only."""
        wanted = {key for each in self.plan.cases for key in each.chain}
        for kind in BEFORE:
            for key, step in self.plan.steps.items():
                if step.kind == kind and key in wanted:
                    self._prepare_one(step)

    def _prepare_one(self, step: SweepStep) -> None:
        failed = self._broken.get(step.source)
        places = [k for k, each in enumerate(self.plan.cases) if step.key in each.chain]
        if failed is None:
            self._report(step.title)
            try:
                made = do_step(step, self._input(step.source), self._shop, self.plan)
                self._made[step.key] = made
                if note := next((each for each in made.notes if RANDOM_DATA in each), None):
                    self.remarks.update(dict.fromkeys(places, note))
                return
            except StoreError:
                raise
            except TrtbenchError as problem:
                failed = Failure(step.kind, reason_of(problem))
        self._broken[step.key] = failed
        for place in places:
            self.failures[place] = failed

    def _input(self, source: str) -> Path | str:
        made = self._made.get(source)
        if made is None or made.file is None:
            self.plan.demand_same(source)
            return source
        return self._shop.cache.folder(self.plan.steps[source]) / made.file

    def measure(self) -> None:
        """Measure every case in every round, in another random order each time."""
        matrix, count, progress = self.outline.matrix, len(self.plan.cases), self._progress
        progress.total = matrix.rounds * count
        progress.measuring_since = time.monotonic()
        ends = self.journal.ends()
        for number in range(matrix.rounds):
            todo = []
            for place in order_of(count, seed=matrix.seed, number=number):
                end = ends.get((self.plan.cases[place].key, number))
                if end is None:
                    todo.append(place)
                    continue
                progress.done += 1
                if end.what == "failed":
                    self.failures[place] = Failure("bench", end.reason or "failed")
            work = partial(self._measure_one, number=number)
            self._execution.executor.each(todo, work, self._execution.needs)
        self._report("")

    def _measure_one(self, place: int, number: int) -> None:
        """Measure a case; with an executor, several threads do this at the same time."""
        try:
            if place not in self.failures:
                self._measure(place, number)
        finally:
            with self._watching:
                self._progress.done += 1

    def _measure(self, place: int, number: int) -> None:
        planned, progress = self.plan.cases[place], self._progress
        rounds = self.outline.matrix.rounds
        name, key = planned.name, planned.key
        self._report(f"round {number + 1}/{rounds}: {name}" if rounds > 1 else name)
        run_id, began = new_id(), time.monotonic()
        self.journal.add("begin", key, number, run=run_id)
        try:
            run = self.bench(place, run_id)
        except StoreError:
            raise
        except TrtbenchError as problem:
            self.journal.add("failed", key, number, reason=reason_of(problem))
            self.failures[place] = Failure("bench", reason_of(problem))
            return
        remark = self.remarks.get(place) if self.plan.elsewhere else None
        seconds = time.monotonic() - began
        self.journal.add("done", key, number, run=run.id, reason=remark, seconds=seconds)
        with self._watching:
            progress.measured += 1
            progress.found[place] = Found(run=run.id, cached=cached_from_run(run))

    def bench(self, place: int, run_id: str) -> Run:
        """Measure a case under a given id, here or, with all its steps, elsewhere."""
        planned = self.plan.cases[place]
        case = planned.case
        execution = replace(self._execution, listen=partial(self._hear, case.name))
        if self.plan.elsewhere:
            self.plan.demand_same(case.model)
            run, remark = _bench_elsewhere(
                self.outline.matrix, case, run_id, self._store, execution
            )
            if remark:
                self.remarks[place] = remark
            return run
        model = self._input(planned.source)
        spec = spec_of_case(self.plan, place, model, self._config)
        python = self._config.python_for(case.runtime)
        execution = replace(execution, python=python, run_id=run_id)
        return run_bench(spec, store=self._store, execution=execution)

    def _hear(self, case: str, event: Event) -> None:
        """Show that a case waits, begins again, or goes on; all its stages would be too many."""
        self._execution.listen(event)
        waits = event.kind in ("wait", "note")
        if waits or (event.kind == "stage" and case in self._waiting):
            (self._waiting.add if waits else self._waiting.discard)(case)
            self._report(f"{case}: {event.text}")

    def judge(self) -> None:
        """Take accuracies last, so that they do not warm the machine."""
        jury = Jury(self.plan, self.journal, self._shop, self.failures, input_of=self._input)
        for step, sides in jury.trials():
            self._report(step.title)
            jury.try_one(step, sides)
        self.judged, self.remarks = tuple(jury.judged), {**self.remarks, **jury.remarks}
        self._report("")

    def _report(self, doing: str) -> None:
        with self._watching:
            self._progress.doing = doing
            self._watch(self._progress)


def adopt_runs(journal: Journal, store: Store) -> None:
    """Take over runs that were stored before their process could note so."""
    for line in journal.unfinished():
        path = store.directory(str(line.run))
        if not store.index.find(id_prefix=line.run):
            if not (path / RECORD).is_file():
                continue
            found = store.load(str(path))
            cached = cached_from_run(found) if isinstance(found, Run) else None
            store.add(found.record if isinstance(found, Run) else found, path=path, cached=cached)
        run = store.load(str(line.run))
        if isinstance(run, FailedRun):
            journal.add("failed", line.case, line.round, run=line.run, reason=run.reason)
        else:
            journal.add("done", line.case, line.round, run=line.run)


class CaseDone(Value, frozen=True, kw_only=True):
    """A case that was carried out; its run lies beside this, measured or failed."""

    spec: RunSpec
    remark: str | None = None


def _bench_elsewhere(
    matrix: Matrix, case: Case, run_id: str, store: Store, execution: Execution
) -> tuple[Run, str | None]:
    """Have a case carried out by an executor, and keep its run as if it had been measured here."""
    arguments, files = case_arguments(matrix, case, run_id)
    options = {key: str(value) for key, value in case.own("opt.").items()}
    device, machine = case.settings.get("device"), case.settings.get(MACHINE)
    gpu = needs_gpu(
        case.model, case.runtime, device=str(device) if device else None, options=options
    )
    lost: list[str] = []

    def listen(event: Event) -> None:
        if event.text.endswith(AGAIN):
            lost.append(event.text)
        execution.listen(event)

    with temporary_folder() as own:
        answer = send_verb(
            "case",
            arguments,
            own,
            files=files,
            execution=replace(execution, listen=listen),
            gpu=gpu,
            title=case.name,
            machine=str(machine) if machine is not None else None,
        )
        done = value_of_answer(answer, CaseDone, files=files, output=own)
        measured = own / "output" / _RUN
        record = record_of(run_id, measured)
        with store.new_run(run_id) as target:
            shutil.copytree(measured, target, dirs_exist_ok=True)
            write_record(target, record.having(spec=done.spec, tags=execution.tags))
        run = take_in(store, store.directory(run_id))
    return run, "; ".join(filter(None, [done.remark, *lost])) or None


def case_arguments(matrix: Matrix, case: Case, run_id: str) -> tuple[dict[str, object], InputFiles]:
    """A case as plain values, the matrix with this model alone, and its files."""
    files = InputFiles(task=matrix.task, settings=matrix.task_settings)
    travels = {each.name: each.about.travels for each in fields_of(SweepRequest)}
    named = {
        name: files.take(travels[name], value)
        for name in Matrix.__struct_fields__
        if travels.get(name) and name != "models" and (value := getattr(matrix, name))
    }
    model = files.model(case.model)
    own = matrix.having(
        **named,
        models=(model,),
        runtime=(case.runtime,),
        options=files.axes(matrix.options),
        task_settings=files.take("settings", matrix.task_settings),
        exclude=(),
    )
    case = case.having(model=model, options=files.axes(case.options), fixed=files.axes(case.fixed))
    return msgspec.to_builtins({"matrix": own, "case": case, "run_id": run_id}), files


def carry_out_case(
    asked: Mapping[str, object], *, folder: Path, output: Path, config: Config, execution: Execution
) -> CaseDone:
    """Quantize, build, measure and judge one case; what the steps made is kept on this machine."""
    try:
        matrix = msgspec.convert(asked["matrix"], type=Matrix)
        case = msgspec.convert(asked["case"], type=Case)
        run_id = msgspec.convert(asked["run_id"], type=str)
    except (KeyError, msgspec.ValidationError) as problem:
        raise InputError("this is no case of a sweep", facts={"reason": problem}) from None
    check_matrix(matrix, where="the request")
    runtime = RUNTIMES.load(case.runtime)
    named = config.python_for(case.runtime) or "opt.binary" in case.settings
    if not named and (reason := runtime.available()) is not None:  # another machine may have it
        message = f"a machine lacks what {case.runtime} needs"
        raise UnavailableError(message, facts={"reason": reason}, fix=runtime.fix())
    plan = plan_sweep(matrix, config=config, only=case)
    if not plan.cases:
        raise InputError("the matrix does not hold the case")
    [planned] = plan.cases
    if planned.refused:
        raise JobError(planned.refused)
    chain = planned.chain
    store, cache = Store(folder / "store"), Cache(Store(cache_folder() / "store"))
    place = folder / "sweep"
    outline = start_sweep(matrix, place, store=store)
    journal = Journal(place)
    work = Sweep(place, outline, plan, journal, store, config, execution, cache=cache)
    # Cases that begin with the same step wait for each other, so that it is done once.
    one_at_a_time = alone(cache_folder() / f".{chain[0][:16]}.lock") if chain else nullcontext()
    with journal.held():
        with one_at_a_time:
            work.prepare()
        if work.failures:
            raise JobError(work.failures[0].text)
        try:
            work.bench(0, run_id)
            journal.add("done", planned.key, 0, run=run_id)
        except JobError:
            if not (store.directory(run_id) / RECORD).is_file():
                raise  # else a failed run is a run
        work.judge()
    store.directory(run_id).rename(output / _RUN)
    return CaseDone(spec=read_record(output / _RUN).spec, remark=work.remarks.get(0))
