"""Judge the sides of a sweep together: by data, or by the outputs of the model as it was given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trtbench.runtimes import RUNTIMES
from trtbench.tasks import TASKS
from trtbench.workflows.check.check import SettledSide, run_check
from trtbench.workflows.check.check_files import rows_of, write_check
from trtbench.workflows.check.evaluate import EvalSide, Evaluation, run_evaluation, scores_of
from trtbench.workflows.check.evaluate_files import write_evaluation
from trtbench.workflows.request.judging import CheckRequest, EvalRequest
from trtbench.workflows.sweep.cache import Made, made_from_step
from trtbench.workflows.sweep.content import digest
from trtbench.workflows.sweep.graph import SweepStep
from trtbench.workflows.sweep.specs import arrays_of
from trtbench.workflows.sweep.steps import Workshop

EVAL_BATCH = 32
"""Items at a time when accuracy is taken of a model that takes any number."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An evaluation of a sweep: what it found, and the folder of its tables and pictures."""

    folder: Path
    made: Made


def judge_sides(
    step: SweepStep, sides: Sequence[EvalSide], shop: Workshop, *, runs: Sequence[str]
) -> Judged:
    """Judge all sides that could be measured; what was judged before, and is the same, is taken.

    Where pictures tell latencies, they belong to these runs, and others make another picture.
    """
    drawn = runs if TASKS.load(shop.matrix.task).DRAWS_LATENCY else ()
    step = step_of_sides(step, sides, runs=drawn)
    found = shop.cache.find(step) or _judged(step, sides, shop)
    return Judged(folder=shop.cache.folder(step), made=found)


def step_of_sides(
    step: SweepStep, sides: Sequence[EvalSide], *, runs: Sequence[str] = ()
) -> SweepStep:
    """Name a step by the sides it has, where some could not be measured, and by runs."""
    if not runs and len(sides) == len(step.settings["sides"]):
        return step
    told = [(side.label, side.spec.model.sha256, side.spec.runtime) for side in sides]
    key = digest({"step": step.key, "sides": told, "runs": runs})
    return msgspec.structs.replace(step, key=key)


def problems_of(sides: Sequence[EvalSide]) -> list[str | None]:
    """Say which sides are programs, which measure and hand out no outputs."""
    return [
        None
        if RUNTIMES.load(side.spec.runtime).open_session is not None
        else f"{side.spec.runtime} hands out no outputs to judge"
        for side in sides
    ]


def _judged(step: SweepStep, sides: Sequence[EvalSide], shop: Workshop) -> Made:
    began = time.monotonic()
    problems = problems_of(sides)
    usable = [side for side, problem in zip(sides, problems, strict=True) if problem is None]
    made = msgspec.structs.replace(
        made_from_step(step), scores=(None,) * len(sides), problems=tuple(problems)
    )
    if not usable:
        return made
    found = _evaluated(step, usable, shop)
    places = [sides.index(usable[model.place]) for model in found.models]
    left = [k for k, side in enumerate(sides) if side in usable and k not in places]
    for place, failed in zip(left, found.failed, strict=True):
        problems[place] = failed.reason
    judged = dict(zip(places, found.models, strict=True))
    made = msgspec.structs.replace(
        made,
        seconds=time.monotonic() - began,
        scores=tuple(
            scores_of(found, judged[place]) if place in judged else None
            for place in range(len(sides))
        ),
        problems=tuple(problems),
        pictures=found.pictures,
        notes=found.all_notes,
    )
    write_evaluation(found, shop.cache.folder(step))
    return made if found.failed else shop.cache.keep(step, made)


def _evaluated(step: SweepStep, sides: Sequence[EvalSide], shop: Workshop) -> Evaluation:
    """Judge the very bytes that were measured, as ``trtbench eval`` does."""
    matrix = shop.matrix
    assert matrix.data is not None
    most = matrix.profile[2] if matrix.profile else max(matrix.batch, default=EVAL_BATCH)
    request = EvalRequest(
        models=[side.spec.model.path for side in sides],
        task=matrix.task,
        data=matrix.data,
        settings=matrix.task_settings,
        output=shop.cache.folder(step),
    )
    return run_evaluation(
        request,
        store=shop.store,
        config=shop.config,
        conduct=shop.conduct,
        open_batch=min(EVAL_BATCH, most),
        sides=sides,
    )


def check_sides(
    step: SweepStep, reference: SettledSide, sides: Sequence[EvalSide], shop: Workshop
) -> Made:
    """Run all sides on the same inputs; what was compared before, and is the same, is taken."""
    step = step_of_sides(step, sides)
    return shop.cache.find(step) or _checked(step, reference, sides, shop)


def _checked(
    step: SweepStep, reference: SettledSide, sides: Sequence[EvalSide], shop: Workshop
) -> Made:
    began, problems = time.monotonic(), problems_of(sides)
    usable = {str(place): sides[place] for place, told in enumerate(problems) if told is None}
    made = msgspec.structs.replace(
        made_from_step(step), checks=(None,) * len(sides), problems=tuple(problems)
    )
    if not usable:
        return made
    request = CheckRequest(
        reference=reference[0].model.path,
        candidates=list(usable),  # called by their places, which tell them apart
        random=step.settings["count"],
        inputs=arrays_of(shop.matrix),
        limit=step.settings["count"],
        floor="off",
        output=shop.cache.folder(step),
    )
    settled = [reference, *((side.spec, side.python) for side in usable.values())]
    found = run_check(
        request, store=shop.store, config=shop.config, conduct=shop.conduct, sides=settled
    )
    failed = {each.model: each.reason for each in found.failed}
    passed = iter(found.candidates)
    made = msgspec.structs.replace(
        made,
        seconds=time.monotonic() - began,
        checks=tuple(
            rows_of(found, next(passed)) if str(place) in usable and str(place) not in failed
            else None
            for place in range(len(sides))
        ),
        problems=tuple(failed.get(str(place), told) for place, told in enumerate(problems)),
    )  # fmt: skip
    write_check(found, shop.cache.folder(step))
    return made if failed else shop.cache.keep(step, made)
