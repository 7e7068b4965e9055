"""The steps of a sweep: exports, casts, builds, and the judging of what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trtbench.accuracy.check import vanilla_name
from trtbench.accuracy.evaluate import EvalSide, run_evaluation, scores_of, write_evaluation
from trtbench.analysis.summary import summary_from_run
from trtbench.convert.build import build_spec, run_build
from trtbench.convert.calibration import settled_items
from trtbench.convert.conversions import VIA, run_export, run_quantize
from trtbench.core.errors import InputError, StoreError, TrtbenchError
from trtbench.core.run import UNKNOWN, Run, precision_in
from trtbench.core.spec import ShapeProfile
from trtbench.measure.jobs import write_scores
from trtbench.models.identity import identity_of
from trtbench.models.onnx_model import input_specs, load_onnx
from trtbench.requests.accuracy import EvalRequest
from trtbench.requests.convert import BuildRequest, ExportRequest, QuantizeRequest, build_settings
from trtbench.requests.execution import Execution
from trtbench.requests.run_spec import first_choice
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.sweep.matrix import Case, Matrix, Shapes
from trtbench.sweep.plan import (
    SweepPlan,
    digest,
    judging_spec,
    prepares,
    preparing_of,
    reason_of,
)
from trtbench.sweep.records import Cache, Journal, Made, SweepStep, made_from_step
from trtbench.tasks import TASKS

EVAL_BATCH = 32
"""Items at a time when accuracy is taken of a model that takes any number."""
SideGroups = list[list[int]]
"""Places of cases that share an artefact, for each artefact of a step."""


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where and with what steps are done."""

    store: Store
    config: Config
    cache: Cache
    matrix: Matrix
    execution: Execution


def do_step(step: SweepStep, source: Path | str, shop: Workshop, plan: SweepPlan) -> Made:
    """Do a step, or take its kept result; not kept when the source changed meanwhile."""
    found = shop.cache.find(step)
    if found is not None:
        return found
    began = time.monotonic()
    make = {"export": _export, "quantize": _quantize, "build": _build}[step.kind]
    file, notes = make(step, source, shop.cache.folder(step), shop)
    plan.demand_same(step.source, shop.matrix.calibration)
    made = made_from_step(
        step,
        seconds=time.monotonic() - began,
        precision=step.settings.get("precision"),
        file=file.name,
        sha256=identity_of(file),
        notes=notes,
    )
    return shop.cache.keep(step, made)


Product = tuple[Path, tuple[str, ...]]


def _export(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    loading = step.settings["loading"]
    request = ExportRequest(
        source=source,
        output=folder / f"{step.network}.onnx",
        input_shapes=step.settings["inputs"],
        weights=loading.get("weights", "default"),
        factory=loading.get("factory"),
        trust=loading.get("trust") == "on",
        seed=int(loading.get("seed", 0)),
    )
    python = shop.config.python_for(first_choice("torch"))
    sidecar = run_export(request, execution=replace(shop.execution, python=python))
    return folder / sidecar.file, sidecar.notes


def _quantize(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    precision = step.settings["precision"]
    calibrated = VIA[precision] != "cast"
    request = QuantizeRequest(
        model=source,
        precision=precision,
        output=folder / f"{step.network}.{precision}.onnx",
        keep_io=step.settings["keep_io"],
        calibration=(shop.matrix.calibration or "random") if calibrated else None,
        shapes=step.settings["shapes"],
        **_preparing(shop.matrix, calibrated),
    )
    execution = shop.execution
    if VIA[precision] == "modelopt":
        execution = replace(execution, python=shop.config.python_for("modelopt"))
    sidecar = run_quantize(request, execution=execution)
    return folder / sidecar.file, sidecar.notes


def _build(step: SweepStep, source: Path | str, folder: Path, shop: Workshop) -> Product:
    settings = step.settings
    kind = ".dynamic" if settings["engine"] == "dynamic" else ""
    precision = f".{settings['precision']}" if settings["precision"] else ""
    shapes = engine_shapes(Path(source), settings["batches"], settings["shapes"])
    ends: dict[str, Any] = {
        f"shapes_{end}": {name: getattr(p, end) for name, p in shapes.items()}
        for end in ("min", "opt", "max")
    }
    calibration = shop.matrix.calibration if settings["calibration"] else None
    request = BuildRequest(
        model=source,
        output=folder / f"{step.network}{kind}{precision}.engine",
        runtime=settings["builder"],
        precision=settings["precision"],
        calibration=calibration,
        options={"typing": "strong"} if settings["typed"] else {},
        **_preparing(shop.matrix, calibration is not None),
        **ends,
        **build_settings({key: str(value) for key, value in settings["options"].items()}),
    )
    spec = build_spec(request, shop.config)
    python = shop.config.python_for(settings["builder"])
    artefact = run_build(spec, execution=replace(shop.execution, python=python))
    return Path(spec.output), artefact.notes


def _preparing(matrix: Matrix, calibrated: bool) -> dict[str, Any]:
    """Data for calibration are prepared as those that accuracies are taken on."""
    if not calibrated or not prepares(matrix):
        return {}
    return {"task": matrix.task, "settings": preparing_of(matrix)}


def engine_shapes(
    model: Path, batches: tuple[int, int, int], given: Sequence[Shapes]
) -> dict[str, ShapeProfile]:
    """The ranges that an engine is built for, for every input with open dimensions.

    ``given`` has shapes for the least, the best and the largest end; batches stand in front.
    """
    inputs = input_specs(load_onnx(model, weights=False))
    ends = [settled_items(inputs, shapes, model=model)[0] for shapes in given]
    found = {}
    for place, tensor in enumerate(inputs):
        if tensor.is_static:
            if tensor.shape and tensor.shape[0] != batches[1]:
                raise InputError(
                    f"the batch of {tensor.name!r} is fixed at {tensor.shape[0]}, not {batches[1]}",
                    fix="export the model with an open batch",
                )
            continue
        low, best, high = (
            (batch, *(dim for dim in end[place].shape[1:] if isinstance(dim, int)))
            for batch, end in zip(batches, ends, strict=True)
        )
        found[tensor.name] = ShapeProfile(min=low, opt=best, max=high)
    return found


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An evaluation of a sweep: what it found, and the folder of its tables and pictures."""

    folder: Path
    made: Made
    network: str
    """What the first model of it is called in the sweep."""


class Jury:
    """Takes accuracies; what goes wrong is a remark on the cases."""

    def __init__(
        self,
        plan: SweepPlan,
        journal: Journal,
        shop: Workshop,
        failures: Collection[int],
        *,
        input_of: Callable[[str], Path | str],
    ) -> None:
        self._plan, self._journal, self._shop = plan, journal, shop
        self._failures, self._input = failures, input_of
        self.judged: list[Judged] = []
        self.remarks: dict[int, str] = {}

    def trials(self) -> Iterator[tuple[SweepStep, SideGroups]]:
        """What is to be judged, each with the sides that could be measured."""
        found: dict[str, dict[int, list[int]]] = {}
        for place, each in enumerate(self._plan.cases):
            if each.judged is not None and place not in self._failures:
                key, side = each.judged
                found.setdefault(key, {}).setdefault(side, []).append(place)
        for key, sides in found.items():
            yield self._plan.steps[key], list(sides.values())

    def try_one(self, step: SweepStep, groups: SideGroups) -> None:
        """Judge one step of a sweep."""
        try:
            model = self._plan.cases[groups[0][0]].case.model
            self._plan.demand_same(self._plan.matrix.data, model)
            runs = [self._runs_of(places) for places in groups]
            sides = [self._side(*each, groups) for each in zip(groups, runs, strict=True)]
            problems = self._accuracy(step, groups, runs, sides)
        except StoreError:
            raise
        except TrtbenchError as problem:
            problems = [reason_of(problem)] * len(groups)
        for places, reason in zip(groups, problems, strict=True):
            if reason is not None:
                self._remark(places, f"no accuracy: {reason}")

    def _accuracy(
        self, step: SweepStep, groups: SideGroups, runs: list[list[Run]], sides: list[EvalSide]
    ) -> Sequence[str | None]:
        draws_latency = TASKS.load(self._shop.matrix.task).DRAWS_LATENCY
        step = step_of_sides(
            step, sides, runs=[each.id for own in runs for each in own] if draws_latency else ()
        )
        cache = self._shop.cache
        made = cache.find(step) or _evaluate(step, sides, self._shop)
        called = self._plan.called(groups[0][0])
        self.judged.append(Judged(folder=cache.folder(step), made=made, network=called))
        for places, own, scores in zip(groups, runs, made.scores, strict=True):
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
        return made.problems

    def _remark(self, places: Sequence[int], text: str) -> None:
        for place in places:
            before = self.remarks.get(place)
            self.remarks[place] = f"{before}; {text}" if before else text

    def _side(self, places: list[int], runs: list[Run], groups: SideGroups) -> EvalSide:
        """A side with the latency of its smallest batch."""
        place, config = places[0], self._shop.config
        model = self._input(self._plan.cases[place].source)
        smallest = min(runs, key=lambda run: run.record.items_per_query, default=None)
        items = smallest.record.known_items if smallest else None
        head = smallest and summary_from_run(smallest).head
        return EvalSide(
            spec=judging_spec(self._plan, place, model, config),
            python=config.python_for(self._plan.cases[place].case.runtime),
            label=label_of_side(self._plan, place, [each[0] for each in groups], run=smallest),
            latency_s=head.mean / items if head and items else None,
        )

    def _runs_of(self, places: list[int]) -> list[Run]:
        keys = {self._plan.cases[place].key for place in places}
        lines = [each for each in self._journal.lines if each.what == "done" and each.case in keys]
        found = [self._shop.store.load(line.run) for line in lines if line.run]
        return [run for run in found if isinstance(run, Run)]


def label_of_side(plan: SweepPlan, place: int, places: Sequence[int], *, run: Run | None) -> str:
    """The name of a side: its model's, or its label, with its batch where others have the same."""
    case = plan.cases[place].case
    if plan.one_table:
        return plan.called(place)
    label = case.label
    if plan.matrix.names == "vanilla":
        both = len({each.case.engine for each in plan.cases if each.case.engine}) > 1
        label = vanilla_name(
            case.runtime, precision_that_ran(case, run) if run else case.precision,
            engine=case.engine if both else None, options=case.options,
        )  # fmt: skip
    alike = [each for each in places if plan.cases[each].case.label == case.label]
    return f"{label} batch {case.batch}" if len(alike) > 1 else label


def precision_that_ran(case: Case, run: Run) -> str | None:
    """The precision of what was measured, as the case calls it where that is right."""
    ran = precision_in(run.record.conditions, asked=case.precision)
    return ran or (UNKNOWN if case.precision is not None else None)


def step_of_sides(
    step: SweepStep, sides: Sequence[EvalSide], *, runs: Sequence[str] = ()
) -> SweepStep:
    """The step with a key of its own where some sides could not be measured.

    Where its pictures show latencies, they belong to ``runs``: other runs make another picture.
    """
    if not runs and len(sides) == len(step.settings["sides"]):
        return step
    named = [(side.label, side.spec.model.identity, side.spec.runtime) for side in sides]
    return step.having(key=digest({"step": step.key, "sides": named, "runs": runs}))


def _evaluate(step: SweepStep, sides: Sequence[EvalSide], shop: Workshop) -> Made:
    """Judge the very bytes that were measured, as ``trtbench eval`` does."""
    began, matrix = time.monotonic(), shop.matrix
    problems = [  # programs return no outputs
        None
        if RUNTIMES.load(side.spec.runtime).open_session is not None
        else f"{side.spec.runtime} hands out no outputs to judge"
        for side in sides
    ]
    usable = [place for place, problem in enumerate(problems) if problem is None]
    if not usable:
        return made_from_step(step, scores=(None,) * len(sides), problems=tuple(problems))
    assert matrix.data is not None
    most = matrix.profile[2] if matrix.profile else max(matrix.batch, default=EVAL_BATCH)
    folder = shop.cache.folder(step)
    request = EvalRequest(
        models=[sides[place].spec.model.path for place in usable],
        task=matrix.task,
        data=matrix.data,
        settings=matrix.task_settings,
        output=folder,
    )
    found = run_evaluation(
        request,
        store=shop.store,
        config=shop.config,
        execution=shop.execution,
        open_batch=min(EVAL_BATCH, most),
        sides=[sides[place] for place in usable],
    )
    scores = {usable[model.place]: scores_of(found, model) for model in found.models}
    left = [place for place in usable if place not in scores]
    for place, failed in zip(left, found.failed, strict=True):
        problems[place] = failed.reason
    made = made_from_step(
        step,
        seconds=time.monotonic() - began,
        scores=tuple(scores.get(place) for place in range(len(sides))),
        problems=tuple(problems),
        pictures=found.pictures,
        notes=found.all_notes,
    )
    write_evaluation(found, folder)
    return made if found.failed else shop.cache.keep(step, made)
