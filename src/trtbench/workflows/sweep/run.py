"""Carry out a sweep: prepare what cases share, measure in rounds, go on after interruptions."""

from __future__ import annotations

import random
import secrets
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from trtbench.analysis.history import instant
from trtbench.analysis.onnx_stamp import RANDOM_DATA
from trtbench.boundary import file_name_from_text, mask
from trtbench.domain.result import FailedRun, Run
from trtbench.errors import StoreError, TrtbenchError
from trtbench.store.directory import RECORD, new_id, now, run_directories
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.remote import each_at_once
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.progress import Event
from trtbench.workflows.sweep.cache import Cache, Made
from trtbench.workflows.sweep.graph import BEFORE, SweepStep, reason_of
from trtbench.workflows.sweep.journal import (
    Journal,
    JournalLine,
    SweepOutline,
    read_outline,
    write_outline,
)
from trtbench.workflows.sweep.judge import Judged, Jury
from trtbench.workflows.sweep.matrix import Matrix
from trtbench.workflows.sweep.plan import SweepPlan
from trtbench.workflows.sweep.progress import Found, SweepProgress, WatchSweep
from trtbench.workflows.sweep.remote import bench_elsewhere
from trtbench.workflows.sweep.request import check_plan
from trtbench.workflows.sweep.specs import spec_of_case
from trtbench.workflows.sweep.steps import Workshop, do_step


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep that came to its end."""

    folder: Path
    outline: SweepOutline
    plan: SweepPlan
    journal: Journal
    failures: dict[int, str]
    """Why a case has no numbers, or no accuracy."""
    stages: dict[int, str]
    """Where each of them failed: a step, bench; what was refused before is not here."""
    remarks: dict[int, str]
    judged: tuple[Judged, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What of an earlier attempt was lost and measured again."""
        return self.journal.notes


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
    conduct: Conduct,
    retry_failed: bool = False,
    watch: WatchSweep = lambda progress: None,
) -> Sweep:
    """Do what is left of a sweep; what is done stays done, whatever ended the last attempt."""
    folder = folder.absolute()
    outline = read_outline(folder)
    away = conduct.executor is not None and conduct.executor.elsewhere
    plan = check_plan(outline.matrix, config=config, lenient=outline.lenient, elsewhere=away)
    journal = Journal(folder)
    with journal.held():
        work = SweepWork(outline, plan, journal, store, config, conduct, watch)
        adopt_runs(outline, journal, store)
        journal.forget_lost(lambda run: not store.holds(run))
        if retry_failed:
            journal.forget_failures()
        work.prepare()
        work.measure()
        work.judge()
    return Sweep(
        folder=folder,
        outline=outline,
        plan=plan,
        journal=journal,
        failures=work.failures,
        stages=work.stages,
        remarks=work.remarks,
        judged=tuple(work.judged),
    )


def _remarks_of(plan: SweepPlan, journal: Journal) -> dict[int, str]:
    """Find what other machines said of cases that are done."""
    told = {key: line.reason for (key, _), line in journal.ends().items() if line.what == "done"}
    return {place: said for place, key in enumerate(plan.keys) if (said := told.get(key))}


def order_of(count: int, *, seed: int, number: int) -> list[int]:
    """Shuffle the cases of a round; the same seed gives the same order on every machine."""
    places = list(range(count))
    random.Random(f"{seed}:{number}").shuffle(places)
    return places


class SweepWork:
    """One process's part of a sweep."""

    def __init__(
        self,
        outline: SweepOutline,
        plan: SweepPlan,
        journal: Journal,
        store: Store,
        config: Config,
        conduct: Conduct,
        watch: WatchSweep,
        cache: Cache | None = None,
    ) -> None:
        self._outline, self._plan, self._journal = outline, plan, journal
        self._store, self._config, self._watch = store, config, watch
        self._conduct = replace(conduct, tags=(*conduct.tags, outline.tag))
        self._shop = Workshop(
            store=store,
            config=config,
            cache=cache or Cache(store),
            matrix=outline.matrix,
            conduct=replace(self._conduct, tags=()),
        )
        self._watching = threading.RLock()
        self._made: dict[str, Made] = {}
        self._broken: dict[str, tuple[str, str]] = {}
        self._waiting: set[str] = set()
        self.failures: dict[int, str] = dict(plan.refused)
        self.stages: dict[int, str] = {}
        self.remarks = _remarks_of(plan, journal)
        self.judged: list[Judged] = []
        self._progress = SweepProgress(
            plan=plan,
            state={k: "failed" if k in plan.refused else "waiting" for k in range(len(plan.cases))},
            reasons=dict(plan.refused),
        )

    def prepare(self) -> None:
        """Do every step that a case waits for, once; what fails takes only its own cases along."""
        wanted = {key for chain in self._plan.chains for key in chain}
        for kind in BEFORE:
            for key in (k for k, s in self._plan.steps.items() if s.kind == kind and k in wanted):
                self._prepare_one(self._plan.steps[key])

    def _prepare_one(self, step: SweepStep) -> None:
        if step.source in self._broken:
            self._break(step, *self._broken[step.source])
            return
        self._tell(step.title)
        try:
            made = do_step(step, self._input(step.source), self._shop, self._plan)
            self._made[step.key] = made
            if note := next((each for each in made.notes if RANDOM_DATA in each), None):
                self.remarks.update(dict.fromkeys(self._plan.dependants(step.key), note))
        except StoreError:
            raise
        except TrtbenchError as problem:
            self._break(step, step.kind, reason_of(problem))

    def _break(self, step: SweepStep, stage: str, reason: str) -> None:
        self._broken[step.key] = (stage, reason)
        for place in self._plan.dependants(step.key):
            self._fail(place, stage, reason)

    def _input(self, source: str) -> Path | str:
        made = self._made.get(source)
        if made is None or made.file is None:
            self._plan.demand_same(source)
            return source
        return self._shop.cache.folder(self._plan.steps[source]) / made.file

    def measure(self) -> None:
        """Measure every case in every round, in another random order each time."""
        matrix = self._outline.matrix
        jobs = [
            (number, place)
            for number in range(matrix.rounds)
            for place in order_of(len(self._plan.cases), seed=matrix.seed, number=number)
        ]
        self._progress.total = len(jobs)
        self._progress.measuring_since = time.monotonic()
        ends = self._journal.ends()
        executor = self._conduct.executor
        for number in range(matrix.rounds):
            places = [place for each, place in jobs if each == number]
            todo = [place for place in places if not self._recalled(place, number, ends)]
            if executor is None:
                for place in todo:
                    self._measure_one(place, number)
            else:
                work = partial(self._measure_one, number=number)
                each_at_once(todo, work, executor=executor, needs=self._conduct.needs)
        self._tell("")

    def _recalled(self, place: int, number: int, ends: dict[tuple[str, int], JournalLine]) -> bool:
        """Take a result from the journal, if there is one."""
        end = ends.get((self._plan.keys[place], number))
        if end is None:
            return False
        self._recall(place, end)
        self._progress.done += 1
        return True

    def _recall(self, place: int, end: JournalLine) -> None:
        if end.what == "failed":
            self._fail(place, "bench", end.reason or "failed")
        elif end.run is not None and self._progress.state[place] != "failed":
            self._progress.state[place] = "done"

    def _measure_one(self, place: int, number: int) -> None:
        """Measure a case; with an executor, several threads do this at the same time."""
        try:
            if place not in self.failures:
                self._begin(place, number)
        finally:
            with self._watching:
                self._progress.done += 1

    def _begin(self, place: int, number: int) -> None:
        case, key = self._plan.cases[place], self._plan.keys[place]
        before = self._progress.state[place]
        self._progress.state[place] = "now"
        rounds = self._outline.matrix.rounds
        self._tell(f"round {number + 1}/{rounds}: {case.name}" if rounds > 1 else case.name)
        run_id = new_id()
        self._journal.add(JournalLine(what="begin", case=key, round=number, at=now(), run=run_id))
        began = time.monotonic()
        try:
            run = self.bench(place, run_id)
        except KeyboardInterrupt:
            self._progress.state[place] = before
            raise
        except StoreError:
            raise
        except TrtbenchError as problem:
            self.note(key, number, "failed", None, reason_of(problem))
            self._fail(place, "bench", reason_of(problem))
            return
        seconds = time.monotonic() - began
        remark = self.remarks.get(place) if self._plan.elsewhere else None
        self.note(key, number, "done", run.id, remark, seconds=seconds)
        with self._watching:
            self._progress.measured += 1
            self._progress.found[place] = Found(run=run.id, cached=cached_from_run(run))
            self._progress.state[place] = "done"

    def bench(self, place: int, run_id: str) -> Run:
        """Measure a case under a given id, here or, with all its steps, elsewhere."""
        case = self._plan.cases[place]
        conduct = replace(self._conduct, listen=partial(self._hear, case.name))
        if self._plan.elsewhere:
            self._plan.demand_same(case.model)
            run, remark = bench_elsewhere(
                self._outline.matrix,
                case,
                run_id,
                store=self._store,
                conduct=conduct,
                folder=self._journal.folder,
            )
            if remark:
                self.remarks[place] = remark
            return run
        model = self._input(self._plan.source(place))
        spec = spec_of_case(self._plan, place, model, self._config)
        python = self._config.python_for(case.runtime)
        conduct = replace(conduct, python=python, run_id=run_id)
        return run_bench(spec, store=self._store, conduct=conduct)

    def _hear(self, case: str, event: Event) -> None:
        """Show that a case waits, begins again, or goes on; all its stages would be too many."""
        self._conduct.listen(event)
        waits = event.kind in ("wait", "note")
        if waits or (event.kind == "stage" and case in self._waiting):
            (self._waiting.add if waits else self._waiting.discard)(case)
            self._tell(f"{case}: {event.text}")

    def judge(self) -> None:
        """Take accuracies and compare outputs last, so that they do not warm the machine."""
        jury = Jury(self._plan, self._journal, self._shop, self.failures, input_of=self._input)
        for step, sides in jury.trials():
            self._tell(step.title)
            jury.try_one(step, sides)
        self.judged, self.remarks = jury.judged, {**self.remarks, **jury.remarks}
        self._tell("")

    def note(
        self,
        key: str,
        number: int,
        what: Literal["done", "failed"],
        run: str | None,
        reason: str | None,
        *,
        seconds: float | None = None,
    ) -> None:
        line = JournalLine(
            what=what, case=key, round=number, at=now(), run=run, reason=reason, seconds=seconds
        )
        self._journal.add(line)

    def _fail(self, place: int, stage: str, reason: str) -> None:
        self.failures[place], self.stages[place] = reason, stage
        self._progress.state[place] = "failed"
        self._progress.reasons[place] = f"{stage}: {reason}"

    def _tell(self, doing: str) -> None:
        with self._watching:
            self._progress.doing = doing
            self._watch(self._progress)


def adopt_runs(outline: SweepOutline, journal: Journal, store: Store) -> None:
    """Take over runs that were stored before their process could say so."""
    for line in journal.unfinished():
        assert line.run is not None
        known = store.index.find(id_prefix=line.run)
        path = store.directory(line.run)
        if not known and not (path / RECORD).is_file():
            continue
        if not known:
            _index(path, store)
        journal.add(_end(line, line.run, store))
    last = journal.interrupted()
    if last is not None:
        _adopt_by_tag(last, outline, journal, store)


def _adopt_by_tag(line: JournalLine, outline: SweepOutline, journal: Journal, store: Store) -> None:
    """Find the run of a journal that did not note ids, by the tag of the sweep and its time."""
    first = line.at[:19].replace("-", "").replace(":", "").replace("T", "-")
    known = {entry.id for entry in store.index.find()}
    for path in run_directories(store.runs):
        if path.name in known or path.name[:15] < first:
            continue
        run = store.load(str(path))
        if outline.tag in (run.record if isinstance(run, Run) else run).tags:
            _index(path, store)
    for entry in store.index.find(tag=outline.tag):
        if instant(entry.created) >= instant(line.at):  # else of a case whose end is noted
            journal.add(_end(line, entry.id, store))
            return


def _end(line: JournalLine, run_id: str, store: Store) -> JournalLine:
    loaded = store.load(run_id)
    if isinstance(loaded, FailedRun):
        return JournalLine(
            what="failed", case=line.case, round=line.round, at=now(), run=run_id,
            reason=loaded.reason,
        )  # fmt: skip
    return JournalLine(what="done", case=line.case, round=line.round, at=now(), run=run_id)


def _index(path: Path, store: Store) -> None:
    run = store.load(str(path))
    cached = cached_from_run(run) if isinstance(run, Run) else None
    store.add(run.record if isinstance(run, Run) else run, path=path, cached=cached)
