"""Judge what a sweep measured, by data and by the model as given, and put that beside the runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.summary import summary_from_run
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import UNKNOWN, Run, precision_in
from trtbench.errors import StoreError, TrtbenchError, writing
from trtbench.host.files import write_whole
from trtbench.runtimes import RUNTIMES
from trtbench.tasks import TASKS
from trtbench.workflows.check.check import SettledSide, run_check
from trtbench.workflows.check.check_files import BESIDE, rows_of, write_check
from trtbench.workflows.check.evaluate import EvalSide, Evaluation, run_evaluation, scores_of
from trtbench.workflows.check.evaluate_files import write_evaluation
from trtbench.workflows.check.naming import vanilla_name
from trtbench.workflows.measure.infer import write_scores
from trtbench.workflows.request.judging import CheckRequest, EvalRequest
from trtbench.workflows.sweep.cache import Made, made_from_step
from trtbench.workflows.sweep.content import digest
from trtbench.workflows.sweep.graph import SweepStep, reason_of
from trtbench.workflows.sweep.journal import Journal
from trtbench.workflows.sweep.matrix import Case
from trtbench.workflows.sweep.plan import SweepPlan
from trtbench.workflows.sweep.specs import arrays_of, judging_spec, reference_spec
from trtbench.workflows.sweep.steps import Workshop

EVAL_BATCH = 32
"""Items at a time when accuracy is taken of a model that takes any number."""
SideGroups = list[list[int]]
"""Places of cases that share an artefact, for each artefact of a step."""
NO_REFERENCE = "outputs not compared: an engine is no reference; give the model it was built from"


class Jury:
    """Takes accuracies and compares outputs; what goes wrong is a remark on the cases."""

    def __init__(
        self,
        plan: SweepPlan,
        journal: Journal,
        shop: Workshop,
        failures: dict[int, str],
        *,
        input_of: Callable[[str], Path | str],
    ) -> None:
        self._plan, self._journal, self._shop = plan, journal, shop
        self._failures, self._input = failures, input_of
        self.judged: list[Judged] = []
        self.remarks: dict[int, str] = {}
        if plan.matrix.check and not plan.elsewhere:
            alone = [place for place, each in enumerate(plan.checks) if each is None]
            self.remarks = {place: NO_REFERENCE for place in alone if place not in failures}

    def trials(self) -> Iterator[tuple[SweepStep, SideGroups]]:
        """List what is to be judged, each with the sides that could be measured."""
        for planned in (self._plan.evals, self._plan.checks):
            found: dict[str, dict[int, list[int]]] = {}
            for place, each in enumerate(planned):
                if each is not None and place not in self._failures:
                    found.setdefault(each[0], {}).setdefault(each[1], []).append(place)
            for key, sides in found.items():
                yield self._plan.steps[key], list(sides.values())

    def try_one(self, step: SweepStep, sides: SideGroups) -> None:
        """Judge one step of a sweep."""
        what, judge = {
            "eval": ("no accuracy", self._accuracy),
            "check": ("outputs not compared", self._outputs),
        }[step.kind]
        try:
            self._plan.demand_same(self._plan.matrix.data, self._plan.cases[sides[0][0]].model)
            problems = judge(step, sides)
        except StoreError:
            raise
        except TrtbenchError as problem:
            problems = [reason_of(problem)] * len(sides)
        for places, told in zip(sides, problems, strict=True):
            if told is not None:
                self._remark(places, f"{what}: {told}")

    def _accuracy(self, step: SweepStep, sides: SideGroups) -> Sequence[str | None]:
        runs = [self._runs_of(places) for places in sides]
        settled = [self._side(places, own, sides) for places, own in zip(sides, runs, strict=True)]
        judged = judge_sides(
            step, settled, self._shop, runs=[each.id for own in runs for each in own]
        )
        judged = replace(judged, network=self._plan.called(sides[0][0]))
        self.judged.append(judged)
        for places, own, scores in zip(sides, runs, judged.made.scores, strict=True):
            if scores is None:
                continue
            for finding in scores.findings:
                self._remark(places, f"{finding.severity} {finding.code}: {finding.message}")
            for run in own:
                if (reason := scores.not_of(run.record)) is not None:
                    self._remark(places, f"no accuracy: {reason}")
                    continue
                path = self._shop.store.resolve(run.id)
                write_scores(path, scores)
                self._shop.store.publish(path)
        return judged.made.problems

    def _outputs(self, step: SweepStep, sides: SideGroups) -> Sequence[str | None]:
        runs = [self._runs_of(places) for places in sides]
        settled = [self._side(places, own, sides) for places, own in zip(sides, runs, strict=True)]
        spec = reference_spec(self._plan, sides[0][0], self._shop.config)
        reference = (spec, self._shop.config.python_for(spec.runtime))
        made = check_sides(step, reference, settled, self._shop)
        for own, rows in zip(runs, made.checks, strict=True):
            for run in own if rows is not None else ():
                path = self._shop.store.resolve(run.id)
                with writing(path / BESIDE):
                    write_whole(path / BESIDE, json_from_value(rows))
                self._shop.store.publish(path)
        return made.problems

    def _remark(self, places: Sequence[int], text: str) -> None:
        for place in places:
            told = self.remarks.get(place)
            self.remarks[place] = f"{told}; {text}" if told else text

    def _side(self, places: list[int], runs: list[Run], sides: SideGroups) -> EvalSide:
        """Settle a side, with the latency of its smallest batch."""
        place, config = places[0], self._shop.config
        model = self._input(self._plan.source(place))
        smallest = min(runs, key=lambda run: run.record.items_per_query, default=None)
        items = smallest.record.known_items if smallest else None
        head = smallest and summary_from_run(smallest).head
        return EvalSide(
            spec=judging_spec(self._plan, place, model, config),
            python=config.python_for(self._plan.cases[place].runtime),
            label=label_of_side(self._plan, place, [each[0] for each in sides], run=smallest),
            latency_s=head.mean / items if head and items else None,
        )

    def _runs_of(self, places: list[int]) -> list[Run]:
        keys = {self._plan.keys[place] for place in places}
        lines = [each for each in self._journal.lines if each.what == "done" and each.case in keys]
        found = [self._shop.store.load(line.run) for line in lines if line.run]
        return [run for run in found if isinstance(run, Run)]


def label_of_side(plan: SweepPlan, place: int, places: Sequence[int], *, run: Run | None) -> str:
    """Name a side among others: by its model, or by its label, with its batch if need be."""
    case = plan.cases[place]
    if plan.one_table:
        return plan.called(place)
    label = case.label
    if plan.matrix.names == "vanilla":
        both = len({each.engine for each in plan.cases if each.engine}) > 1
        label = vanilla_name(
            case.runtime, precision_that_ran(case, run) if run else case.precision,
            engine=case.engine if both else None, options=case.options,
        )  # fmt: skip
    alike = [each for each in places if plan.cases[each].label == case.label]
    return f"{label} batch {case.batch}" if len(alike) > 1 else label


def precision_that_ran(case: Case, run: Run) -> str | None:
    """Name the precision of what was measured, as the case calls it where that is right."""
    ran = precision_in(run.record.conditions, asked=case.precision)
    return ran or (UNKNOWN if case.precision is not None else None)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An evaluation of a sweep: what it found, and the folder of its tables and pictures."""

    folder: Path
    made: Made
    network: str = ""
    """What the first model of it is called in the sweep."""


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
    told = [(side.label, side.spec.model.identity, side.spec.runtime) for side in sides]
    key = digest({"step": step.key, "sides": told, "runs": runs})
    return step.having(key=key)


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
    made = made_from_step(step).having(scores=(None,) * len(sides), problems=tuple(problems))
    if not usable:
        return made
    found = _evaluated(step, usable, shop)
    places = [sides.index(usable[model.place]) for model in found.models]
    left = [k for k, side in enumerate(sides) if side in usable and k not in places]
    for place, failed in zip(left, found.failed, strict=True):
        problems[place] = failed.reason
    judged = dict(zip(places, found.models, strict=True))
    made = made.having(
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
    made = made_from_step(step).having(checks=(None,) * len(sides), problems=tuple(problems))
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
    made = made.having(
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
