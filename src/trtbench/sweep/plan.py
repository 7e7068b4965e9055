"""The plan of a sweep: its cases, the steps they share by content, their specs, and how long.

A step is named by the hash of all that goes into it: data, files, settings, versions of tools.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from trtbench.analysis.sweep import compares_only_models
from trtbench.convert.builders import BUILDERS
from trtbench.convert.calibration import RANDOM, resolved_items
from trtbench.convert.conversions import are_images, input_shapes
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.properties import PROPERTIES
from trtbench.core.run import Scalar
from trtbench.core.safety import clean_line, expand_home
from trtbench.core.spec import ModelFormat, Precision, RunSpec, Value, Warmup
from trtbench.host.images import SUFFIXES
from trtbench.host.machine import library_versions, read_environment
from trtbench.host.nvml import gpu_uuid
from trtbench.models.identity import model_ref, precision_of_engine, sha256_of
from trtbench.models.inputs import batch_place
from trtbench.models.onnx_outline import outline_of
from trtbench.models.torch_models import code_of_factory, code_of_hub
from trtbench.requests.fields import fields_of, seconds
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import first_choice, refuse_other_precision, run_spec, why_unusable
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.sweep.matrix import (
    MACHINE,
    PREFIXES,
    SOURCE,
    Case,
    Matrix,
    Shapes,
    cases_from_matrix,
    exported_shapes,
    is_hub,
    judged_items,
    names_of_models,
    shapes_with,
)
from trtbench.sweep.records import Cache, StepKind, SweepStep
from trtbench.tasks import TASKS
from trtbench.tasks.contract import calibration_settings, settings_with_defaults

ARRAYS = {".npz", ".npy"}
BEFORE: tuple[StepKind, ...] = ("export", "quantize", "build")
"""Steps that make what is measured, in their order."""
CAST = ("fp16", "bf16", "int8", "fp8")  # what an ONNX file is cast or quantized to
RECIPE = 3  # part of every key: a new number makes everything anew, when steps change
TELEMETRY = "100ms"  # how often the GPU is read in a sweep that judges a task, in a pass of its own
START_S = 1.0  # starting a worker, importing its libraries and loading the model
LOADING = (*SOURCE, "seed")  # options of a PyTorch model that its export uses up


def digest(value: object) -> str:
    """Hash a value by its content."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def data_digest(source: str) -> str:
    """Hash a file of data, or all files of a folder, by their bytes."""
    path = Path(source)
    if source == RANDOM:
        return source
    if path.is_dir():
        files = (each for each in sorted(path.rglob("*")) if each.is_file())
        return digest([(clean_line(str(p.relative_to(path))), sha256_of(p)) for p in files])
    if not path.is_file():
        raise UsageError(f"there is no file {source}", fix="give a file or a folder that is there")
    return sha256_of(path)


def content_of(given: str) -> str:
    """Hash a model with all its files, or data; a model of a library is its name and code."""
    path = Path(given)
    if path.is_dir() or path.suffix.lower() in ARRAYS:
        return data_digest(given)
    if is_hub(given) or given == RANDOM:
        return " ".join(filter(None, [given, code_of_hub(given)]))
    return model_ref(path).sha256 or ""


def files_named(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Hash the files that settings name, that of a factory's code too."""
    code = code_of_factory(str(settings.get("factory") or ""))[1]
    named = {**settings, **{f"factory {path}": str(path) for path in code}}
    return {
        key: data_digest(value)
        for key, value in named.items()
        if isinstance(value, str) and Path(value).exists()
    }


def prepares(matrix: Matrix) -> bool:
    """Whether the task prepares the data to calibrate with, as it does those it judges on.

    It prepares images, and arrays where it is judged on arrays: bytes become parts of one.
    """
    source = matrix.calibration
    if source is None or source == RANDOM or are_images(source):
        return are_images(source)
    both = {Path(each).suffix.lower() for each in (source, matrix.data or source)}
    return matrix.data is not None and both <= ARRAYS


def preparing_of(matrix: Matrix) -> dict[str, Scalar]:
    """The task's settings that matter for inputs, for calibrating as for judging."""
    flags = TASKS.load(matrix.task).FLAGS
    settings = settings_with_defaults(flags, matrix.task_settings)
    return {flag.key: settings[flag.key] for flag in flags if flag.preprocessing}


def _tools(*names: str) -> dict[str, str]:
    versions = library_versions()
    return {name: versions[name] for name in names if name in versions}


def builder_tools(builder: str, *, device: str, python: str | None) -> dict[str, str]:
    """What else an engine depends on: the builder's version, the GPU it is for, its driver."""
    gpus = read_environment(command=None, folder=Path.cwd()).gpus
    uuid = gpu_uuid(device)
    on = next((each for each in gpus if each.uuid and each.uuid == uuid), gpus[0] if gpus else None)
    gpu = {"gpu": on.name, "driver": on.driver or ""} if on else {}
    if not python:
        return {**gpu, **BUILDERS.load(builder).tools()}
    path = expand_home(python)  # which has the TensorRT that is installed beside it
    places = path.absolute().parent.parent.glob("lib*/python3*/*-packages")
    names = {each.name for place in places for each in place.glob("[Tt]ensor[Rr][Tt]*-info")}
    return {**gpu, "python": str(path), "packages": " ".join(sorted(names))}


def source_format(model: str) -> ModelFormat:
    return "torch" if is_hub(model) else model_ref(Path(model)).format


def _onnx(case: Case) -> Path | None:
    return Path(case.model) if source_format(case.model) == "onnx" else None


def judging_options(case: Case) -> dict[str, Scalar]:
    """Settings of a case that can change its outputs, by the register of properties."""
    fields = {name for each in PROPERTIES if each.computes for name in each.asked}
    return {k: v for k, v in case.settings.items() if k in fields or k.startswith("opt.")}


def _precision(case: Case) -> Precision | None:
    """The precision for a runtime that computes in one; others measure a file that has one."""
    return case.precision if RUNTIMES.load(case.runtime).TAKES_PRECISION else None


def reason_of(problem: TrtbenchError) -> str:
    """An error in one line of a table."""
    first = problem.message.splitlines()[0]
    reason = problem.facts.get("reason")
    text = f"{first}: {reason.splitlines()[0]}" if reason and reason not in first else first
    if not isinstance(problem, UsageError | UnavailableError) or not problem.fix:
        return text
    return f"{text} ({problem.fix.replace('--opt ', '--axis opt.')})"


@dataclass(kw_only=True)
class PlannedCase:
    """A case, and the steps it needs."""

    case: Case
    key: str  # by content: of the model's bytes too
    chain: tuple[str, ...] = ()  # keys of the steps that make what is measured, in order
    shapes: Shapes  # of its inputs, as far as they were given
    refused: str | None = None  # why it cannot be measured here
    judged: tuple[str, int] | None = None  # the step of its accuracy, and which side there it is

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def source(self) -> str:
        """What is measured: the result of its last step, or the model itself."""
        return self.chain[-1] if self.chain else self.case.model


class SweepPlan:
    """Cases, and the steps they share."""

    def __init__(self, matrix: Matrix, config: Config, *, elsewhere: bool) -> None:
        self.matrix, self._config = matrix, config
        self.elsewhere = elsewhere
        """Whether the machines that measure plan the steps of their cases themselves."""
        self.cases: tuple[PlannedCase, ...] = ()
        self.one_table = False
        """Whether every model has one case in each batch: then models are what is compared."""
        self.steps: dict[str, SweepStep] = {}
        used = (matrix.data, matrix.calibration)
        self._contents = {given: content_of(given) for given in used if given}
        """Hashes of models and data, by the names they were given under."""
        self._sides: dict[str, Shapes] = {}
        self._inputs = data_digest(matrix.inputs) if matrix.inputs else None
        self._calibration: str | None = None
        if source := matrix.calibration:
            task = TASKS.load(matrix.task)
            if prepares(matrix) and task.read_beside is not None:
                settings = {**preparing_of(matrix), "data": source}
                beside = task.read_beside(calibration_settings(task.FLAGS, settings))
                self._calibration = digest([data_digest(str(each)) for each in (source, *beside)])
            else:
                self._calibration = data_digest(source)

    @property
    def refused(self) -> dict[int, str]:
        """Cases that cannot be measured here, and why."""
        return {place: each.refused for place, each in enumerate(self.cases) if each.refused}

    def demand_same(self, *given: str | None) -> None:
        """Refuse to go on with a model or with data that are no longer those of the plan."""
        for each in given:
            if each in self._contents and content_of(each) != self._contents[each]:
                raise InputError(
                    f"{Path(each).name} has changed since the sweep began",
                    fix="give the command again once it is no longer being written",
                )

    def called(self, place: int) -> str:
        """The name of a case's model, which no other model of the sweep has."""
        return names_of_models(self.matrix.models)[self.cases[place].case.model]

    def plan_case(self, case: Case, *, lenient: bool) -> PlannedCase:
        """Plan the steps a case needs, or note the reason why it cannot be measured."""
        elsewhere = self.elsewhere
        problem = None if elsewhere else why_unusable(case.runtime, self._config, lenient=lenient)
        try:
            content = self._content(case.model)
            chain = self._chain(case) if problem is None and not elsewhere else ()
            shapes = self._shapes(case) if problem is None else {}
        except UsageError:
            raise
        except TrtbenchError as error:
            problem, content, chain, shapes = reason_of(error), "", (), {}
        key = digest({"content": content, "case": case, "inputs": self._inputs})
        return PlannedCase(case=case, key=key, chain=chain, shapes=shapes, refused=problem)

    def _chain(self, case: Case) -> tuple[str, ...]:
        formats, kind = RUNTIMES.load(case.runtime).FORMATS, source_format(case.model)
        if kind == "engine" and case.precision is not None:
            reference = model_ref(Path(case.model))
            refuse_other_precision(reference, case.precision)
            if precision_of_engine(reference) is None:
                raise UsageError(
                    f"the precision of {reference.name} is unknown, so it cannot be called "
                    f"{case.precision}",
                    fix="leave --precision out, or sweep the ONNX file it was built from",
                )
        source, chain = case.model, []
        if kind == "torch" and "torch" not in formats:
            loading = {k: v for k, v in case.own("opt.").items() if k in LOADING}
            settings = {
                "inputs": exported_shapes(self.matrix, case),
                "loading": loading,
                "files": files_named(loading),
                "tools": _tools("torch"),
            }
            source = self._step("export", case, source, f"export {case.network}", settings)
            chain, kind = [source], "onnx"
        if kind == "onnx" and case.runtime in BUILDERS.names() and "engine" in formats:
            needs_types = BUILDERS.load(case.runtime).needs_types
            options = {k: str(v) for k, v in case.own("opt.").items()}
            is_typed = case.precision == "fp8" or (
                case.precision in CAST and needs_types is not None and needs_types(options)
            )
            if is_typed:  # as for TensorRT 11, which only builds the types of the file
                source = self._quantize(case, source, keep_io=False)
                chain.append(source)
            chain.append(self._build(case, source, is_typed=is_typed))
        elif kind == "onnx" and case.precision in CAST:
            chain.append(self._quantize(case, source, keep_io=True))
        return tuple(chain)

    def _shapes(self, case: Case) -> Shapes:
        file = _onnx(case)
        found = self._shapes_with(case, case.own("shape."))
        if file is not None and self.matrix.inputs is None:
            inputs = outline_of(file).inputs
            if not any(map(batch_place, inputs)):  # else bench finds the batch by its name
                resolved_items(inputs, found, model=file)  # refused before measuring
        if found or "torch" not in RUNTIMES.load(case.runtime).FORMATS:
            return found
        # A PyTorch model that runs without an export has the shapes it would have there.
        for number, each in enumerate(input_shapes(exported_shapes(self.matrix, case))):
            if any(dim < 1 for dim in each.shape[1:]):
                return {}  # the runtime reports what is missing
            first = case.batch or (each.shape[0] if each.shape[0] > 0 else 1)
            found[each.name or f"input{number or ''}"] = (first, *each.shape[1:])
        return found

    def _shapes_with(
        self, case: Case, dims: Mapping[str, Scalar], batch: int | None = None
    ) -> Shapes:
        """Shapes of a case; sides of images that a network leaves open are those of the task."""
        if case.model not in self._sides:
            self._sides[case.model] = judged_items(self.matrix, _onnx(case))
        known, front = self._sides[case.model], batch or case.batch or 1
        given = shapes_with(self.matrix, dims, batch=case.batch, onnx=_onnx(case))
        return {**{name: (each[0] or front, *each[1:]) for name, each in known.items()}, **given}

    def _quantize(self, case: Case, source: str, *, keep_io: bool) -> str:
        settings = {
            "precision": case.precision,
            "keep_io": keep_io,
            "shapes": self._shapes_with(case, case.own("shape."), batch=1),
            **self._calibrated(case.precision in ("int8", "fp8")),
            "tools": _tools("onnx", "onnxruntime"),
        }
        title = f"quantize {case.network} to {case.precision}"
        return self._step("quantize", case, source, title, settings)

    def _build(self, case: Case, source: str, *, is_typed: bool) -> str:
        matrix, dynamic, dims = self.matrix, case.engine == "dynamic", case.own("shape.")
        batches = sorted(matrix.batch or (1,)) if dynamic else [case.batch or 1]
        middle = batches[len(batches) // 2]
        profile = (1, middle, batches[-1]) if dynamic else (middle, middle, middle)
        profile = matrix.profile or profile if dynamic else profile
        spans = {name: (value, value, value) for name, value in dims.items()}
        for name in dims if dynamic else ():
            axis = matrix.options.get(f"shape.{name}", ())
            if values := sorted(value for value in axis if isinstance(value, int)):
                spans[name] = (values[0], values[len(values) // 2], values[-1])
        settings = {
            "builder": case.runtime,
            "precision": None if is_typed else case.precision,
            "typed": is_typed,
            "engine": case.engine,
            "batches": profile,
            "shapes": [
                self._shapes_with(case, {name: span[end] for name, span in spans.items()})
                for end in range(3)
            ],
            **self._calibrated(case.precision == "int8" and not is_typed),
            "options": case.own("build."),
            "tools": builder_tools(
                case.runtime,
                device=str(case.settings.get("device") or "cuda:0"),
                python=self._config.python_for(case.runtime),
            ),
        }
        batch = f"batches {profile[0]} to {profile[2]}" if dynamic else f"batch {profile[1]}"
        title = f"build {case.network}, {case.precision or 'as it is'}, {batch}"
        return self._step("build", case, source, title, settings)

    def _calibrated(self, needed: bool) -> dict[str, object]:
        images = needed and prepares(self.matrix)
        return {
            "calibration": self._calibration if needed else None,
            "prepared": {"task": self.matrix.task, **preparing_of(self.matrix)} if images else {},
        }

    def plan_accuracies(self) -> None:
        """Plan a step for all sides of a model, or for all models where each is one.

        A side is an artefact on a runtime; cases that differ in their batch alone share it.
        """
        matrix = self.matrix
        if matrix.data is None:
            return
        task = TASKS.load(matrix.task)
        given = settings_with_defaults(task.FLAGS, matrix.task_settings)
        beside = task.read_beside({**given, "data": matrix.data}) if task.read_beside else ()
        settings: dict[str, object] = {
            "data": data_digest(matrix.data),
            "task": matrix.task,
            "settings": given,
            "files": files_named(given),
            "beside": [data_digest(str(path)) for path in beside],
            **({"names": matrix.names} if matrix.names != "case" else {}),
        }
        grouped: dict[str, dict[str, list[PlannedCase]]] = {}
        for each in (each for each in self.cases if each.refused is None):
            case = each.case
            side = digest({
                "source": each.chain[-1] if each.chain else self._content(case.model),
                "runtime": case.runtime,
                "precision": _precision(case),
                "options": judging_options(case),
                "shapes": {name: dims[1:] for name, dims in each.shapes.items()},
            })  # fmt: skip
            group = grouped.setdefault("" if self.one_table else case.model, {})
            group.setdefault(side, []).append(each)
        for model, sides in grouped.items():
            case = next(iter(sides.values()))[0].case
            title = f"accuracy of {case.network if model else f'{len(sides)} models'}"
            key = self._step("eval", case, case.model, title, {"sides": list(sides), **settings})
            for number, alike in enumerate(sides.values()):
                for each in alike:
                    each.judged = (key, number)

    def _step(
        self, kind: StepKind, case: Case, source: str, title: str, settings: Mapping[str, object]
    ) -> str:
        content = source if source in self.steps else self._content(source)
        key = digest({"recipe": RECIPE, "kind": kind, "source": content, "settings": settings})
        step = SweepStep(
            key=key, kind=kind, title=title, source=source, network=case.network,
            settings=dict(settings),
        )  # fmt: skip
        self.steps.setdefault(key, step)
        return key

    def _content(self, model: str) -> str:
        if model not in self._contents:
            self._contents[model] = content_of(model)
        return self._contents[model]

    def spec_of_case(self, place: int, model: Path | str) -> RunSpec:
        """How a case is measured; the GPU is read by default where a task is judged on one."""
        case, matrix = self.cases[place].case, self.matrix
        words = {field.name for field in fields_of(BenchRequest) if field.type is str}
        flags: dict[str, Any] = {}
        if matrix.inputs is not None:
            flags["inputs"] = matrix.inputs
            if Path(matrix.inputs).suffix.lower() in SUFFIXES:  # an image, as those that are judged
                flags |= {"task": matrix.task, "settings": preparing_of(matrix)}
        for key, value in case.settings.items():
            if key != MACHINE and not key.startswith(PREFIXES):
                flags[key] = str(value) if key in words else value  # a clock of 1500 is a word here
        if flags.get("telemetry") in ("off", False):
            del flags["telemetry"]
        spec = self._spec(place, model, flags)
        on_gpu = RUNTIMES.load(case.runtime).device(spec).startswith("cuda")
        if not on_gpu or matrix.data is None or "telemetry" in case.settings:
            return spec
        return self._spec(place, model, {**flags, "telemetry": TELEMETRY})

    def judging_spec(self, place: int, model: Path | str) -> RunSpec:
        """How a case is run over data: in any batch, without what is for measuring only."""
        options = judging_options(self.cases[place].case)
        flags = {key: value for key, value in options.items() if not key.startswith(PREFIXES)}
        return self._spec(place, model, {**flags, "profile": False}).having(batch=None)

    def _spec(self, place: int, model: Path | str, flags: dict[str, Any]) -> RunSpec:
        planned = self.cases[place]
        case = planned.case
        exported = any(self.steps[key].kind == "export" for key in planned.chain)
        own = case.own("opt.").items()
        request = BenchRequest(
            model=model, runtime=case.runtime, batch=case.batch, shapes=planned.shapes,
            precision=_precision(case),
            options={k: str(v) for k, v in own if not exported or k not in LOADING}, **flags,
        )  # fmt: skip
        return run_spec(request, self._config)


def plan_sweep(
    matrix: Matrix,
    *,
    config: Config,
    lenient: bool = False,
    elsewhere: bool = False,
    only: Case | None = None,
) -> SweepPlan:
    """Settle the cases and their steps; ``lenient`` makes an unknown runtime a row, not an error.

    Cases that are measured ``elsewhere`` have no steps here: an engine belongs to its GPU.
    ``only`` one of the cases is kept, of which others may share the steps.
    """
    if not elsewhere and only is None and MACHINE in matrix.options:
        raise UsageError(
            "an axis of machines needs others",
            fix="--executor ray --address HOST:6379, or --executor ssh --hosts FILE",
        )
    if not matrix.models:
        raise UsageError(
            "the sweep has no models", fix=matrix.note or "trtbench sweep model.onnx --batch 1,8"
        )
    cases = cases_from_matrix(
        matrix,
        runtime_of=lambda model: first_choice(source_format(model)) or first_choice("onnx"),
        builds=BUILDERS.names(),
    )
    if not cases:
        raise UsageError(
            "the sweep has no cases: everything is excluded", fix="leave an exclusion out"
        )
    plan = SweepPlan(matrix, config, elsewhere=elsewhere)
    plan.cases = tuple(plan.plan_case(case, lenient=lenient) for case in cases)
    plan.one_table = compares_only_models([(case.model, case.label) for case in cases])
    if not elsewhere:
        plan.plan_accuracies()
    plan.cases = tuple(each for each in plan.cases if only in (None, each.case))
    return plan


class KindEstimate(Value, frozen=True, kw_only=True):
    """One kind of work of a sweep: how much there is, and how long it will take."""

    kind: str
    count: int
    cached: int = 0  # done before, and kept
    seconds: float | None = None  # of what is left to do; ``None`` where some of it is unknown
    guessed: int = 0  # jobs whose length comes from the settings, without any like them before


def estimate(plan: SweepPlan, *, store: Store, config: Config) -> tuple[KindEstimate, ...]:
    """Estimate every kind of work, in the order in which it is done, from what it took before."""
    cache = Cache(store)
    history, kinds = cache.history(), list[KindEstimate]()
    for kind in (*BEFORE, "eval"):
        steps = [step for step in plan.steps.values() if step.kind == kind]
        left = [step for step in steps if cache.find(step) is None]
        total: float | None = 0.0
        for step in left:
            same = [made for made in history if made.kind == kind]
            network = [made for made in same if made.network == step.network]
            exact = [made for made in network if made.precision == step.settings.get("precision")]
            took = [made.seconds for made in exact or network or same]
            total = total + median(took) if took and total is not None else None
        cached = len(steps) - len(left)
        kinds.append(KindEstimate(kind=kind, count=len(steps), cached=cached, seconds=total))
    entries = store.index.find(kind="run")
    bench_s, count, guessed = 0.0, 0, 0
    for case in (each.case for each in plan.cases if each.refused is None):
        alike = [e for e in entries if e.runtime == case.runtime]
        alike = [e for e in alike if e.model.startswith(case.network)]
        alike.sort(key=lambda entry: entry.batch != (case.batch or 1))
        query_s = (alike[0].median_s if alike else None) or 0.0
        # Start, warm-up and the measured part of its launches.
        given = {**config.defaults, **case.settings}
        duration, iterations = given.get("duration"), given.get("iterations")
        warmup_s = Warmup().floor.seconds or 0.0
        if isinstance(own := case.settings.get("warmup"), str | int | float):
            warmup_s = seconds(own)
        length_s = 3.0 if duration is None and iterations is None else 0.0
        if isinstance(duration, str | int | float):
            length_s = seconds(duration)
        measured_s = max(length_s, int(iterations or 0) * query_s)
        bench_s += int(given.get("launches") or 1) * (START_S + warmup_s + measured_s)
        count, guessed = count + 1, guessed + (not alike)
    rounds = plan.matrix.rounds
    bench = KindEstimate(
        kind="bench", count=rounds * count, seconds=rounds * bench_s, guessed=rounds * guessed
    )
    return tuple(each for each in (*kinds[:-1], bench, kinds[-1]) if each.count)
