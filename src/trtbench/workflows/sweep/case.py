"""The other end of a case that was sent away: all its steps, its run and its accuracy, here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec

from trtbench.domain.artefact import Artefact
from trtbench.errors import InputError, JobError
from trtbench.executors import cache_folder
from trtbench.host.locks import alone
from trtbench.models.sidecar import kept_value
from trtbench.store.directory import RECORD, read_record
from trtbench.store.store import Store
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.sweep.cache import MADE as STEP_DONE
from trtbench.workflows.sweep.cache import Cache
from trtbench.workflows.sweep.journal import Journal
from trtbench.workflows.sweep.matrix import Case, Matrix, check_matrix
from trtbench.workflows.sweep.plan import SweepPlan, plan_sweep
from trtbench.workflows.sweep.remote import MADE, RUN, CaseDone, StepDone
from trtbench.workflows.sweep.run import SweepWork, start_sweep

KEPT = "store"
"""Where, in the cache of a machine, the results of steps are kept for later cases."""


def carry_out_case(
    asked: Mapping[str, object], *, folder: Path, output: Path, config: Config, conduct: Conduct
) -> CaseDone:
    """Quantize, build, measure and judge one case; what the steps made is kept on this machine."""
    try:
        matrix = msgspec.convert(asked["matrix"], type=Matrix)
        case = msgspec.convert(asked["case"], type=Case)
        run_id = msgspec.convert(asked["run_id"], type=str)
    except (KeyError, msgspec.ValidationError) as problem:
        raise InputError("this is no case of a sweep", facts={"reason": problem}) from None
    check_matrix(matrix, where="the request")
    plan = plan_sweep(matrix, config=config).only(case)
    if plan.refused:
        raise JobError(plan.refused[0])
    store, cache = Store(folder / "store"), Cache(Store(cache_folder() / KEPT))
    outline = start_sweep(matrix, folder / "sweep", store=store)
    journal = Journal(folder / "sweep")
    work = SweepWork(outline, plan, journal, store, config, conduct, lambda progress: None, cache)
    with journal.held():
        with _alone(plan):
            work.prepare()
        if work.failures:
            raise JobError(f"{work.stages[0]}: {work.failures[0]}")
        _measure(work, plan, journal, run_id, store)
        work.judge()
    store.directory(run_id).rename(output / RUN)
    if matrix.fetch_engines and plan.chains[0]:
        _take_along(cache.folder(plan.steps[plan.chains[0][-1]]), output / MADE)
    spec = read_record(output / RUN).spec
    return CaseDone(spec=spec, steps=_steps(plan, cache), remark=work.remarks.get(0))


def _measure(work: SweepWork, plan: SweepPlan, journal: Journal, run_id: str, store: Store) -> None:
    try:
        work.bench(0, run_id)
    except JobError:
        if not (store.directory(run_id) / RECORD).is_file():
            raise  # else a failed run is a run
        return
    work.note(plan.keys[0], 0, "done", run_id, None)


def _take_along(folder: Path, target: Path) -> None:
    """Have what was built come back, with its record and its files of weights."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(STEP_DONE, ".*"))


def _steps(plan: SweepPlan, cache: Cache) -> tuple[StepDone, ...]:
    done = []
    for key in plan.chains[0]:
        step = plan.steps[key]
        made = cache.find(step)
        if made is None:
            continue
        beside = cache.folder(step) / f"{made.file}.json"
        done.append(
            StepDone(
                kind=made.kind,
                title=made.title,
                seconds=made.seconds,
                file=made.file,
                sha256=made.sha256,
                notes=made.notes,
                artefact=kept_value(beside, Artefact),
            )
        )
    return tuple(done)


def _alone(plan: SweepPlan) -> AbstractContextManager[None]:
    """Let cases that begin with the same step wait for each other, so that it is done once."""
    chain = plan.chains[0]
    return alone(cache_folder() / f".{chain[0][:16]}.lock") if chain else nullcontext()
