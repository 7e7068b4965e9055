"""The steps that the cases of a sweep need, as a graph: shared, and named by what goes into them.

The key of a step is a hash of the content of its inputs and of all its settings, so a step that was
done once, for any sweep of the store, need not be done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from trtbench.analysis.open_shapes import batch_place
from trtbench.build.builders import BUILDERS
from trtbench.build.quantize_data import RANDOM, settled_items
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelFormat, Precision, Value
from trtbench.errors import TrtbenchError, UnavailableError, UsageError
from trtbench.models.identity import model_ref
from trtbench.models.onnx_outline import outline_of
from trtbench.models.sidecar import precision_of_engine
from trtbench.models.torch_models import code_of_hub
from trtbench.runtimes import RUNTIMES
from trtbench.workflows.request.choice import unusable
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.spec import refuse_other_precision
from trtbench.workflows.sweep.content import (
    ARRAYS,
    builder_tools,
    calibration_digest,
    data_digest,
    digest,
    files_named,
    judging_of,
    prepares,
    preparing_of,
    tools,
)
from trtbench.workflows.sweep.matrix import SOURCE, Case, Matrix
from trtbench.workflows.sweep.shapes import (
    Shapes,
    ends_of_axis,
    exported_shapes,
    judged_items,
    shapes_for_torch,
    shapes_of_case,
    shapes_with,
)

StepKind = Literal["export", "quantize", "build", "eval", "check"]
BEFORE: tuple[StepKind, ...] = ("export", "quantize", "build")
"""Steps that make what is measured, in their order."""
AFTER: tuple[StepKind, ...] = ("eval", "check")
"""Steps that judge what was measured."""

CAST = ("fp16", "bf16", "int8", "fp8")
"""Precisions that an ONNX file is cast or quantized to; FP32 is what it is."""
RECIPE = 3
"""Part of every key: a new number makes everything anew, when steps come to do other things."""


class SweepStep(Value, frozen=True, kw_only=True):
    """Work that is shared by cases: what it makes depends on nothing but what is in here."""

    key: str
    kind: StepKind
    title: str
    source: str
    """The key of the step whose result it takes, or a model as the user gave it."""
    network: str
    settings: dict[str, Any] = {}


JudgedPlace = tuple[str, int]
"""The step that judges a case, and which of its sides the case is."""


class StepGraph:
    """Grows case by case: the steps that each needs, and the reason where it cannot be measured."""

    def __init__(
        self, matrix: Matrix, config: Config, *, lenient: bool, elsewhere: bool = False
    ) -> None:
        self._matrix, self._config, self._lenient = matrix, config, lenient
        self._elsewhere = elsewhere
        self.steps: dict[str, SweepStep] = {}
        self.chains: list[tuple[str, ...]] = []
        self.keys: list[str] = []
        self.shapes: list[Shapes] = []
        self.refused: dict[int, str] = {}
        self._sides: dict[str, Shapes] = {}
        self._data = data_digest(matrix.data) if matrix.data else None
        self._judging = judging_of(matrix) if matrix.data else {}
        self._inputs = data_digest(matrix.inputs) if matrix.inputs else None
        self._calibration = calibration_digest(matrix) if matrix.calibration else None
        used = (matrix.data, matrix.calibration)
        self.contents = {given: content_of(given) for given in used if given}

    def add(self, place: int, case: Case) -> None:
        """Put one case and the steps it needs into the graph, or the reason why it cannot be."""
        away = self._elsewhere
        problem = None if away else unusable(case.runtime, self._config, lenient=self._lenient)
        try:
            content = self._content(case.model)
            chain = self._chain(case) if problem is None and not away else ()
            shapes = self._shapes(case) if problem is None else {}
        except TrtbenchError as error:
            if isinstance(error, UsageError):
                raise
            problem, content, chain, shapes = reason_of(error), "", (), {}
        if problem is not None:
            self.refused[place] = problem
        self.chains.append(chain)
        self.shapes.append(shapes)
        self.keys.append(digest({"content": content, "case": case, "inputs": self._inputs}))

    def _chain(self, case: Case) -> tuple[str, ...]:
        formats = RUNTIMES.load(case.runtime).FORMATS
        kind = source_format(case.model)
        if kind == "engine" and case.precision is not None:
            _refuse_precision(case)
        chain: list[str] = []
        if kind == "torch" and "torch" not in formats:
            chain.append(self._export(case))
            kind = "onnx"
        builds = case.runtime in BUILDERS.names() and "engine" in formats
        if kind == "onnx" and builds:
            chain += self._built(case, chain[-1] if chain else case.model)
        elif kind == "onnx" and case.precision in CAST:
            chain.append(self._quantize(case, chain[-1] if chain else case.model, keep_io=True))
        return tuple(chain)

    def _shapes(self, case: Case) -> Shapes:
        file = _onnx(case)
        found = self._with_sides(case, shapes_of_case(self._matrix, case, onnx=file))
        if file is not None and self._matrix.inputs is None:
            inputs = outline_of(file).inputs
            if not any(map(batch_place, inputs)):  # else bench finds the batch by its name
                settled_items(inputs, found, model=file)  # refused before measuring
        as_it_is = not found and "torch" in RUNTIMES.load(case.runtime).FORMATS
        return shapes_for_torch(self._matrix, case) if as_it_is else found

    def _with_sides(self, case: Case, shapes: Shapes, *, batch: int | None = None) -> Shapes:
        """Fill in sides of images that a network leaves open, as the task of the sweep does."""
        if case.model not in self._sides:
            self._sides[case.model] = judged_items(self._matrix, _onnx(case))
        known, front = self._sides[case.model], batch or case.batch or 1
        return {**{name: (each[0] or front, *each[1:]) for name, each in known.items()}, **shapes}

    def _export(self, case: Case) -> str:
        loading = {k: v for k, v in case.own("opt.").items() if k in (*SOURCE, "seed")}
        settings = {
            "inputs": exported_shapes(self._matrix, case),
            "loading": loading,
            "files": files_named(loading),
            "tools": tools("torch"),
        }
        return self._step("export", case, case.model, f"export {case.network}", settings)

    def _quantize(self, case: Case, source: str, *, keep_io: bool) -> str:
        settings = {
            "precision": case.precision,
            "keep_io": keep_io,
            "shapes": self._with_sides(
                case, shapes_of_case(self._matrix, case, onnx=_onnx(case)), batch=1
            ),
            **self._calibrated(case.precision in ("int8", "fp8")),
            "tools": tools("onnx", "onnxruntime"),
        }
        title = f"quantize {case.network} to {case.precision}"
        return self._step("quantize", case, source, title, settings)

    def _calibrated(self, needed: bool) -> dict[str, object]:
        """Name what a calibration depends on: its data, and how the task prepares them."""
        images = needed and prepares(self._matrix)
        return {
            "calibration": self._calibration if needed else None,
            "prepared": {"task": self._matrix.task, **preparing_of(self._matrix)} if images else {},
        }

    def _built(self, case: Case, source: str) -> list[str]:
        """List the steps to an engine; a builder that only takes types gets a typed file first."""
        steps: list[str] = []
        typed = case.precision in CAST and needs_types(case)
        if typed:
            steps.append(self._quantize(case, source, keep_io=False))
            source = steps[-1]
        profile = self._profile(case)
        settings = {
            "builder": case.runtime,
            "precision": None if typed else case.precision,
            "typed": typed,
            "engine": case.engine,
            "batches": profile,
            "shapes": self._ends(case),
            **self._calibrated(case.precision == "int8" and not typed),
            "options": case.own("build."),
            "tools": builder_tools(
                case.runtime,
                device=str(case.settings.get("device") or "cuda:0"),
                python=self._config.python_for(case.runtime),
            ),
        }
        batch = "batches" if case.engine == "dynamic" else "batch"
        span = f"{profile[0]} to {profile[2]}" if case.engine == "dynamic" else f"{profile[1]}"
        precision = case.precision or "as it is"
        title = f"build {case.network}, {precision}, {batch} {span}"
        return [*steps, self._step("build", case, source, title, settings)]

    def _profile(self, case: Case) -> tuple[int, int, int]:
        if case.engine != "dynamic":
            return (case.batch or 1,) * 3
        batches = sorted(self._matrix.batch or (1,))
        return self._matrix.profile or (1, batches[len(batches) // 2], batches[-1])

    def _ends(self, case: Case) -> tuple[Shapes, Shapes, Shapes]:
        """Find shapes an engine is built for: those of the case; of all cases for a dynamic one."""
        dims = case.own("shape.")
        spans = {
            name: ends_of_axis(self._matrix, name) if case.engine == "dynamic" else None
            for name in dims
        }
        low, best, high = (
            self._with_sides(
                case,
                shapes_with(
                    self._matrix,
                    {name: span[end] if (span := spans[name]) else dims[name] for name in dims},
                    batch=case.batch,
                    onnx=_onnx(case),
                ),
            )
            for end in range(3)
        )
        return low, best, high

    def evals(self, cases: Sequence[Case], *, together: bool) -> tuple[JudgedPlace | None, ...]:
        """Plan accuracies: all sides of a model in one step, or all models where each is one."""
        if self._data is None:
            return (None,) * len(cases)
        return self._judged(
            cases,
            "eval",
            groups=["" if together else case.model for case in cases],
            settings={"data": self._data, **self._judging},
        )

    def checks(self, cases: Sequence[Case]) -> tuple[JudgedPlace | None, ...]:
        """Plan comparisons of outputs; an engine has no model beside it to be compared with."""
        if not self._matrix.check:
            return (None,) * len(cases)
        groups = [
            None
            if place in self.refused or source_format(case.model) == "engine"
            else digest({"model": case.model, "shapes": self._items(place)})
            for place, case in enumerate(cases)
        ]
        settings = {
            "count": self._matrix.check,
            "inputs": self._inputs,
            "tools": tools("onnxruntime", "torch"),
        }
        return self._judged(cases, "check", groups=groups, settings=settings)

    def _judged(
        self,
        cases: Sequence[Case],
        kind: StepKind,
        *,
        groups: Sequence[str | None],
        settings: Mapping[str, object],
    ) -> tuple[JudgedPlace | None, ...]:
        """Plan one step for each group of cases.

        A side is an artefact on a runtime; cases that differ in their batch alone share it.
        """
        found: list[JudgedPlace | None] = [None] * len(cases)
        grouped: dict[str, dict[str, list[int]]] = {}
        for place, group in enumerate(groups):
            if group is not None and place not in self.refused:
                side = self._side(place, cases[place])
                grouped.setdefault(group, {}).setdefault(side, []).append(place)
        for group, sides in grouped.items():
            case = cases[next(iter(sides.values()))[0]]
            what = case.network if group else f"{len(sides)} models"
            title = f"{'accuracy' if kind == 'eval' else 'outputs'} of {what}"
            told = {"sides": list(sides), **settings}
            key = self._step(kind, case, case.model, title, told)
            for number, places in enumerate(sides.values()):
                for place in places:
                    found[place] = (key, number)
        return tuple(found)

    def _side(self, place: int, case: Case) -> str:
        return digest({
            "source": self._source_content(place, case),
            "runtime": case.runtime,
            "precision": precision_told(case),
            "options": judging_options(case),
            "shapes": self._items(place),
        })  # fmt: skip

    def _items(self, place: int) -> Shapes:
        """Find shapes of one item of a case."""
        return {name: dims[1:] for name, dims in self.shapes[place].items()}

    def _source_content(self, place: int, case: Case) -> str:
        chain = self.chains[place]
        return chain[-1] if chain else self._content(case.model)

    def _step(
        self, kind: StepKind, case: Case, source: str, title: str, settings: Mapping[str, object]
    ) -> str:
        content = source if source in self.steps else self._content(source)
        key = digest({"recipe": RECIPE, "kind": kind, "source": content, "settings": settings})
        self.steps.setdefault(
            key,
            SweepStep(
                key=key,
                kind=kind,
                title=title,
                source=source,
                network=case.network,
                settings=dict(settings),
            ),
        )
        return key

    def _content(self, model: str) -> str:
        if model not in self.contents:
            self.contents[model] = content_of(model)
        return self.contents[model]


def content_of(given: str) -> str:
    """Hash a model with all its files, or data; what a library has by name is that name."""
    path = Path(given)
    if path.is_dir() or path.suffix.lower() in ARRAYS:
        return data_digest(given)
    if is_hub(given) or given == RANDOM:
        return " ".join(filter(None, [given, code_of_hub(given)]))
    return model_ref(path).sha256 or ""


def is_hub(model: str) -> bool:
    """Tell ``torchvision:resnet18`` from a file."""
    head, colon, _ = model.partition(":")
    return bool(colon) and "/" not in head and not Path(model).exists()


def source_format(model: str) -> ModelFormat:
    return "torch" if is_hub(model) else model_ref(Path(model)).format


def judging_options(case: Case) -> dict[str, Scalar]:
    """Name what else of a case matters for its outputs: where it runs, the runtime's options."""
    return {
        key: value
        for key, value in case.settings.items()
        if key in ("device", "threads") or key.startswith("opt.")
    }


def reason_of(problem: TrtbenchError) -> str:
    """Put an error into one line of a table."""
    first = problem.message.splitlines()[0]
    told = problem.facts.get("reason")
    said = f"{first}: {told.splitlines()[0]}" if told and told not in first else first
    if not isinstance(problem, UsageError | UnavailableError) or not problem.fix:
        return said
    return f"{said} ({problem.fix.replace('--opt ', '--axis opt.')})"


def needs_types(case: Case) -> bool:
    """Ask the builder whether it only builds the types of the file, as TensorRT 11 does."""
    asks = BUILDERS.load(case.runtime).needs_types
    return asks is not None and asks({k: str(v) for k, v in case.own("opt.").items()})


def _refuse_precision(case: Case) -> None:
    """Refuse precisions of an engine: it has one, which must be known to be named."""
    reference = model_ref(Path(case.model))
    refuse_other_precision(reference, case.precision)
    if precision_of_engine(reference) is None:
        raise UsageError(
            f"nobody knows the precision of {reference.name}, so it cannot be called "
            f"{case.precision}",
            fix="leave --precision out, or sweep the ONNX file it was built from",
        )


def precision_told(case: Case) -> Precision | None:
    """Pass a precision on to runtimes that compute in one; others measure a file that has one."""
    return case.precision if RUNTIMES.load(case.runtime).TAKES_PRECISION else None


def _onnx(case: Case) -> Path | None:
    return Path(case.model) if source_format(case.model) == "onnx" else None
