"""The plan of a sweep: its cases, the steps they share, and what each case needs in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from trtbench.analysis.sweep import is_one_table
from trtbench.build.builders import BUILDERS
from trtbench.errors import InputError, UsageError
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.config import Config
from trtbench.workflows.sweep.graph import (
    JudgedPlace,
    StepGraph,
    SweepStep,
    content_of,
    source_format,
)
from trtbench.workflows.sweep.matrix import Case, Matrix, cases_from_matrix, names_of_models
from trtbench.workflows.sweep.shapes import Shapes


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """Cases, the steps they share, and what each case needs in order."""

    matrix: Matrix
    cases: tuple[Case, ...]
    keys: tuple[str, ...]
    """One for each case, by content: of the model's bytes too."""
    steps: dict[str, SweepStep]
    chains: tuple[tuple[str, ...], ...]
    """For each case, the keys of the steps that make what is measured."""
    evals: tuple[JudgedPlace | None, ...]
    checks: tuple[JudgedPlace | None, ...]
    """Where the outputs of each case are compared with those of its model as it was given."""
    refused: dict[int, str]
    """Cases that cannot be measured here, and why."""
    shapes: tuple[Shapes, ...]
    """Of the inputs of each case, as far as they were given."""
    contents: dict[str, str]
    """Hashes of models and data, by the names they were given under."""
    one_table: bool
    """Whether every model has one case in each batch: then models are what is compared."""
    elsewhere: bool = False
    """Whether the machines that measure plan the steps of their cases themselves."""

    def source(self, place: int) -> str:
        """Tell what a case measures: the result of its last step, or the model itself."""
        chain = self.chains[place]
        return chain[-1] if chain else self.cases[place].model

    def demand_same(self, *given: str | None) -> None:
        """Refuse to go on with a model or with data that are no longer those of the plan."""
        for each in given:
            if each in self.contents and content_of(each) != self.contents[each]:
                raise InputError(
                    f"{Path(each).name} has changed since the sweep began",
                    fix="give the command again once nobody writes to it",
                )

    def called(self, place: int) -> str:
        """Name the model of a case as no other model of the sweep is."""
        return names_of_models(self.matrix.models)[self.cases[place].model]

    def only(self, case: Case) -> SweepPlan:
        """Leave out all cases but one."""
        place = self.cases.index(case)
        return replace(
            self,
            cases=(case,),
            keys=(self.keys[place],),
            chains=(self.chains[place],),
            evals=(self.evals[place],),
            checks=(self.checks[place],),
            refused={0: self.refused[place]} if place in self.refused else {},
            shapes=(self.shapes[place],),
        )

    def dependants(self, key: str) -> list[int]:
        """List cases that need a step."""
        return [place for place, chain in enumerate(self.chains) if key in chain]


def plan_sweep(
    matrix: Matrix, *, config: Config, lenient: bool = False, elsewhere: bool = False
) -> SweepPlan:
    """Settle the cases and the graph; ``lenient`` makes an unknown runtime a row, not an error.

    Cases that are measured ``elsewhere`` have no steps here: an engine belongs to its GPU.
    """
    if not matrix.models:
        raise UsageError(
            "the sweep has no models", fix=matrix.note or "trtbench sweep model.onnx --batch 1,8"
        )
    cases = cases_from_matrix(matrix, runtime_of=_default_runtime, builds=BUILDERS.names())
    if not cases:
        raise UsageError(
            "the sweep has no cases: everything is excluded", fix="leave an exclusion out"
        )
    graph = StepGraph(matrix, config, lenient=lenient, elsewhere=elsewhere)
    for place, case in enumerate(cases):
        graph.add(place, case)
    one_table = is_one_table([(case.model, case.label) for case in cases])
    nowhere = (None,) * len(cases)
    return SweepPlan(
        matrix=matrix,
        cases=cases,
        keys=tuple(graph.keys),
        steps=graph.steps,
        chains=tuple(graph.chains),
        evals=nowhere if elsewhere else graph.evals(cases, together=one_table),
        checks=nowhere if elsewhere else graph.checks(cases),
        refused=graph.refused,
        shapes=tuple(graph.shapes),
        contents=graph.contents,
        one_table=one_table,
        elsewhere=elsewhere,
    )


def _default_runtime(model: str) -> str:
    return first_choice(source_format(model)) or first_choice("onnx")
