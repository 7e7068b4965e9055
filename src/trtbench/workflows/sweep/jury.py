"""Judge what a sweep measured, by data and by the model as given, and put that beside the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trtbench.analysis.summary import summary_from_run
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Run
from trtbench.errors import StoreError, TrtbenchError, writing
from trtbench.host.files import write_whole
from trtbench.workflows.check.check_files import BESIDE
from trtbench.workflows.check.evaluate import EvalSide
from trtbench.workflows.measure.infer import write_scores
from trtbench.workflows.sweep.graph import SweepStep, reason_of
from trtbench.workflows.sweep.journal import Journal
from trtbench.workflows.sweep.judge import Judged, check_sides, judge_sides
from trtbench.workflows.sweep.plan import SweepPlan
from trtbench.workflows.sweep.specs import judging_spec, reference_spec
from trtbench.workflows.sweep.steps import Workshop

Sides = list[list[int]]
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

    def trials(self) -> Iterator[tuple[SweepStep, Sides]]:
        """List what is to be judged, each with the sides that could be measured."""
        for planned in (self._plan.evals, self._plan.checks):
            found: dict[str, dict[int, list[int]]] = {}
            for place, each in enumerate(planned):
                if each is not None and place not in self._failures:
                    found.setdefault(each[0], {}).setdefault(each[1], []).append(place)
            for key, sides in found.items():
                yield self._plan.steps[key], list(sides.values())

    def try_one(self, step: SweepStep, sides: Sides) -> None:
        """Judge one step of a sweep."""
        what, judge = {
            "eval": ("no accuracy", self._accuracy),
            "check": ("outputs not compared", self._outputs),
        }[step.kind]
        try:
            problems = judge(step, sides)
        except StoreError:
            raise
        except TrtbenchError as problem:
            problems = [reason_of(problem)] * len(sides)
        for places, told in zip(sides, problems, strict=True):
            if told is not None:
                self._remark(places, f"{what}: {told}")

    def _accuracy(self, step: SweepStep, sides: Sides) -> Sequence[str | None]:
        runs = [self._runs_of(places) for places in sides]
        settled = [self._side(places, own, sides) for places, own in zip(sides, runs, strict=True)]
        judged = judge_sides(
            step, settled, self._shop, runs=[each.id for own in runs for each in own]
        )
        self.judged.append(judged)
        for places, own, scores in zip(sides, runs, judged.made.scores, strict=True):
            if scores is None:
                continue
            for finding in scores.findings:
                self._remark(places, f"{finding.severity} {finding.code}: {finding.message}")
            for run in own:
                path = self._shop.store.resolve(run.id)
                write_scores(path, scores)
                self._shop.store.publish(path)
        return judged.made.problems

    def _outputs(self, step: SweepStep, sides: Sides) -> Sequence[str | None]:
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

    def _side(self, places: list[int], runs: list[Run], sides: Sides) -> EvalSide:
        """Settle a side, with the latency of its smallest batch."""
        place, config = places[0], self._shop.config
        model = self._input(self._plan.source(place))
        smallest = min(runs, key=lambda run: run.record.items_per_query, default=None)
        head = smallest and summary_from_run(smallest).head
        return EvalSide(
            spec=judging_spec(self._plan, place, model, config),
            python=config.python_for(self._plan.cases[place].runtime),
            label=label_of_side(self._plan, place, [each[0] for each in sides]),
            latency_s=head.mean / smallest.record.items_per_query if smallest and head else None,
        )

    def _runs_of(self, places: list[int]) -> list[Run]:
        keys = {self._plan.keys[place] for place in places}
        lines = [each for each in self._journal.lines if each.what == "done" and each.case in keys]
        found = [self._shop.store.load(line.run) for line in lines if line.run]
        return [run for run in found if isinstance(run, Run)]


def label_of_side(plan: SweepPlan, place: int, places: Sequence[int]) -> str:
    """Name a side among others: by its model, or by its label, with its batch if need be."""
    case = plan.cases[place]
    if plan.one_table:
        return case.network
    alike = [each for each in places if plan.cases[each].label == case.label]
    return f"{case.label} batch {case.batch}" if len(alike) > 1 else case.label
