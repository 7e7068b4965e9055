"""The plan of a sweep: its cases, the steps they share, their specs, and estimated times.

The key of a step is a hash of all its inputs: data, files, settings, versions of tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtbench.accuracy.check import vanilla_name
from trtbench.analysis.sweep import compares_only_models
from trtbench.convert.builders import BUILDERS
from trtbench.convert.calibration import RANDOM, resolved_items
from trtbench.convert.conversions import input_shapes
from trtbench.convert.steps import Cache, Step, StepKind, builder_tools, data_hash, digest, new_step
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.properties import PROPERTIES
from trtbench.core.run import Scalar
from trtbench.core.spec import ModelFormat, ModelRef, Precision, RunSpec, Value, Warmup
from trtbench.host.images import SUFFIXES
from trtbench.host.machine import library_versions
from trtbench.models.identity import model_ref, precision_of_engine
from trtbench.models.inputs import batch_place
from trtbench.models.onnx_outline import outline_of
from trtbench.models.torch_models import factory_code, hub_code_sha256, is_library_model
from trtbench.requests.fields import read_scalar, seconds
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import first_choice, refuse_other_precision, run_spec, why_unusable
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.sweep import matrix as matrices
from trtbench.sweep.matrix import MACHINE, PREFIXES, SOURCE, Case, Matrix, Shapes, export_shapes
from trtbench.tasks import TASKS
from trtbench.tasks._feed import are_images
from trtbench.tasks.contract import calibration_settings, settings_with_defaults

ARRAYS = {".npz", ".npy"}
MODEL_STEPS: tuple[StepKind, ...] = ("export", "quantize", "build")
"""Steps that make the measured models, in order."""
CAST_PRECISIONS = ("fp16", "bf16", "int8", "fp8")  # precisions that need a converted ONNX file
TELEMETRY = "100ms"  # default sampling interval for sweeps with accuracy on a GPU
START_S = 1.0  # starting a worker, importing its libraries and loading the model
LOADING_OPTIONS = (*SOURCE, "seed")  # options of a PyTorch model that only its export needs


def content_hash(given: str) -> str:
    """Return the hash of a model or of data; for library models, name and code."""
    path = Path(given)
    if path.is_dir() or path.suffix.lower() in ARRAYS:
        return data_hash(given)
    if is_library_model(given) or given == RANDOM:
        return " ".join(filter(None, [given, hub_code_sha256(given)]))
    return model_ref(path).sha256 or ""


def file_hashes(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Return hashes of the files in settings, including the code of a factory."""
    code = factory_code(str(settings.get("factory") or ""))[1]
    named = {**settings, **{f"factory {path}": str(path) for path in code}}
    return {
        key: data_hash(value)
        for key, value in named.items()
        if isinstance(value, str) and Path(value).exists()
    }


def _tools(*names: str) -> dict[str, str]:
    versions = library_versions()
    return {name: versions[name] for name in names if name in versions}


def source_format(model: str) -> ModelFormat:
    return "torch" if is_library_model(model) else model_ref(Path(model)).format


def _onnx(case: Case) -> Path | None:
    return Path(case.model) if source_format(case.model) == "onnx" else None


def output_options(case: Case) -> dict[str, Scalar]:
    """Return the settings of a case that can change its outputs."""
    fields = {name for each in PROPERTIES if each.computes for name in each.asked}
    return {k: v for k, v in case.settings.items() if k in fields or k.startswith("opt.")}


def _precision(case: Case) -> Precision | None:
    """Return the precision to pass to the runtime, if it takes one."""
    return case.precision if RUNTIMES.load(case.runtime).TAKES_PRECISION else None


def error_line(problem: TrtbenchError) -> str:
    first = problem.message.splitlines()[0]
    reason = problem.facts.get("reason")
    text = f"{first}: {reason.splitlines()[0]}" if reason and reason not in first else first
    if not isinstance(problem, UsageError | UnavailableError) or not problem.fix:
        return text
    return f"{text} ({problem.fix.replace('--opt ', '--axis opt.')})"


@dataclass(kw_only=True)
class PlannedCase:
    """A case and the steps it needs."""

    case: Case
    key: str  # hash of the case, including the content of its model
    chain: tuple[str, ...] = ()  # keys of the steps that make the measured model, in order
    shapes: Shapes  # of its inputs, if given
    refused: str | None = None  # why it cannot be measured here
    judged: tuple[str, int] | None = None  # the evaluation step, and its position there


class SweepPlan:
    """The cases of a sweep and the steps they share."""

    def __init__(self, matrix: Matrix, config: Config, *, elsewhere: bool) -> None:
        self.matrix, self._config = matrix, config
        self.elsewhere = elsewhere
        """Whether cases are measured on other machines, which plan the steps."""
        self.cases: tuple[PlannedCase, ...] = ()
        self.one_table = False
        """Whether there is one case per model and batch, so that models are compared."""
        self.steps: dict[str, Step] = {}
        used = (matrix.data, matrix.calibration)
        self._contents = {given: content_hash(given) for given in used if given}
        """Hashes of models and data by path or name."""
        self._sides: dict[str, Shapes] = {}
        self._inputs = data_hash(matrix.inputs) if matrix.inputs else None
        source, flags = matrix.calibration, TASKS.load(matrix.task).FLAGS
        self._calibration = data_hash(source) if source else None
        self._prepared: dict[str, object] = {}
        """How the task prepares calibration data: images, or arrays like those to evaluate."""
        suffixes = {Path(each or "").suffix.lower() for each in (source, matrix.data)}
        if source and (are_images(source) or suffixes <= ARRAYS):
            keys = {flag.key for flag in flags if flag.preprocessing}
            settings = {k: value for k, value in matrix.task_settings.items() if k in keys}
            self._prepared = {"task": matrix.task, "settings": settings}
            if read_beside := TASKS.load(matrix.task).read_beside:
                beside = read_beside(calibration_settings(flags, {**settings, "data": source}))
                self._calibration = digest([data_hash(str(each)) for each in (source, *beside)])

    @property
    def refused(self) -> dict[int, str]:
        """Reasons why cases cannot be measured, by index."""
        return {place: each.refused for place, each in enumerate(self.cases) if each.refused}

    def refuse_changed(self, *given: str | None) -> None:
        """Raise an error if a model or data changed since the sweep was planned."""
        for each in given:
            if each in self._contents and content_hash(each) != self._contents[each]:
                raise InputError(
                    f"{Path(each).name} has changed since the sweep began",
                    fix="run the command again when the file no longer changes",
                )

    def model_name(self, place: int) -> str:
        return matrices.unique_model_names(self.matrix.models)[self.cases[place].case.model]

    def vanilla_name(self, case: Case, precision: str | None) -> str:
        """Return the name of a case as in ArtTRT, with static or dynamic if there are both."""
        both = len({each.case.engine for each in self.cases if each.case.engine}) > 1
        engine = case.engine if both else None
        return vanilla_name(case.runtime, precision, engine=engine, options=case.options)

    def plan_case(self, case: Case, *, lenient: bool) -> PlannedCase:
        """Return a case with its steps, or with the reason why it cannot be measured."""
        elsewhere = self.elsewhere
        problem = None if elsewhere else why_unusable(case.runtime, self._config, lenient=lenient)
        try:
            content = self._content(case.model)
            chain = self._plan_steps(case) if problem is None and not elsewhere else ()
            shapes = self._shapes(case) if problem is None else {}
        except UsageError:
            raise
        except TrtbenchError as error:
            problem, content, chain, shapes = error_line(error), "", (), {}
        key = digest({"content": content, "case": case, "inputs": self._inputs})
        return PlannedCase(case=case, key=key, chain=chain, shapes=shapes, refused=problem)

    def _plan_steps(self, case: Case) -> tuple[str, ...]:
        formats, kind = RUNTIMES.load(case.runtime).FORMATS, source_format(case.model)
        if kind == "engine" and case.precision is not None:
            reference = model_ref(Path(case.model))
            refuse_other_precision(reference, case.precision)
            if precision_of_engine(reference) is None:
                raise UsageError(
                    f"the precision of {reference.name} is unknown and may not be {case.precision}",
                    fix="omit --precision, or sweep the ONNX file it was built from",
                )
        source, chain = case.model, []
        if kind == "torch" and "torch" not in formats:
            loading = {k: v for k, v in case.prefixed("opt.").items() if k in LOADING_OPTIONS}
            settings = {
                "inputs": export_shapes(self.matrix, case),
                "loading": loading,
                "files": file_hashes(loading),
                "tools": _tools("torch"),
            }
            source = self._step("export", case, source, f"export {case.network}", settings)
            chain, kind = [source], "onnx"
        if kind == "onnx" and case.runtime in BUILDERS.names() and "engine" in formats:
            needs_types = BUILDERS.load(case.runtime).needs_types
            options = {k: str(v) for k, v in case.prefixed("opt.").items()}
            is_cast = case.precision in CAST_PRECISIONS
            needs_cast = is_cast and needs_types is not None and needs_types(options)
            is_typed = case.precision == "fp8" or needs_cast
            if is_typed:  # TensorRT 11 uses only the types of the file
                source = self._quantize(case, source, keep_io=False)
                chain.append(source)
            chain.append(self._build(case, source, is_typed=is_typed))
        elif kind == "onnx" and case.precision in CAST_PRECISIONS:
            chain.append(self._quantize(case, source, keep_io=True))
        return tuple(chain)

    def _shapes(self, case: Case) -> Shapes:
        file = _onnx(case)
        found = self._case_shapes(case, case.prefixed("shape."))
        if file is not None and self.matrix.inputs is None:
            inputs = outline_of(file).inputs
            if not any(map(batch_place, inputs)):  # otherwise bench finds the batch by name
                resolved_items(inputs, found, model=file)  # raises errors before measuring
        if found or "torch" not in RUNTIMES.load(case.runtime).FORMATS:
            return found
        # A PyTorch model that is not exported uses the same shapes as for an export.
        for number, each in enumerate(input_shapes(export_shapes(self.matrix, case))):
            if any(dim < 1 for dim in each.shape[1:]):
                return {}  # the runtime reports missing values
            first = case.batch or (each.shape[0] if each.shape[0] > 0 else 1)
            found[each.name or f"input{number or ''}"] = (first, *each.shape[1:])
        return found

    def _case_shapes(
        self, case: Case, dims: Mapping[str, Scalar], batch: int | None = None
    ) -> Shapes:
        """Return input shapes of a case; dynamic image sizes are those the task prepares."""
        if case.model not in self._sides:
            self._sides[case.model] = matrices.prepared_item_shapes(self.matrix, _onnx(case))
        known, front = self._sides[case.model], batch or case.batch or 1
        given = matrices.fill_shapes(self.matrix, dims, batch=case.batch, onnx=_onnx(case))
        return {**{name: (each[0] or front, *each[1:]) for name, each in known.items()}, **given}

    def _quantize(self, case: Case, source: str, *, keep_io: bool) -> str:
        settings = {
            "precision": case.precision,
            "keep_io": keep_io,
            "shapes": self._case_shapes(case, case.prefixed("shape."), batch=1),
            **self._calibration_inputs(case.precision in ("int8", "fp8")),
            "tools": _tools("onnx", "onnxruntime"),
        }
        title = f"quantize {case.network} to {case.precision}"
        return self._step("quantize", case, source, title, settings)

    def _build(self, case: Case, source: str, *, is_typed: bool) -> str:
        matrix, dynamic, dims = self.matrix, case.engine == "dynamic", case.prefixed("shape.")
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
                self._case_shapes(case, {name: span[end] for name, span in spans.items()})
                for end in range(3)
            ],
            **self._calibration_inputs(case.precision == "int8" and not is_typed),
            "options": case.prefixed("build."),
            "tools": builder_tools(
                case.runtime,
                device=str(case.settings.get("device") or "cuda:0"),
                python=self._config.python_for(case.runtime),
            ),
        }
        batch = f"batches {profile[0]} to {profile[2]}" if dynamic else f"batch {profile[1]}"
        title = f"build {case.network}, {case.precision or 'as-is'}, {batch}"
        return self._step("build", case, source, title, settings)

    def _calibration_inputs(self, needed: bool) -> dict[str, object]:
        if not needed:
            return {"calibration": None, "prepared": {}}
        return {"calibration": self._calibration, "prepared": self._prepared}

    def plan_accuracies(self) -> None:
        """Plan an evaluation step for each model, or one for all if models are compared.

        Cases that differ only in batch size share the evaluation of a model on a runtime.
        """
        matrix = self.matrix
        if matrix.data is None:
            return
        task = TASKS.load(matrix.task)
        given = settings_with_defaults(task.FLAGS, matrix.task_settings)
        beside = task.read_beside({**given, "data": matrix.data}) if task.read_beside else ()
        settings: dict[str, object] = {
            "data": data_hash(matrix.data),
            "task": matrix.task,
            "settings": given,
            "files": file_hashes(given),
            "beside": [data_hash(str(path)) for path in beside],
            **({"names": matrix.names} if matrix.names != "case" else {}),
        }
        grouped: dict[str, dict[str, list[PlannedCase]]] = {}
        for each in (each for each in self.cases if each.refused is None):
            case = each.case
            side = digest({
                "source": each.chain[-1] if each.chain else self._content(case.model),
                "runtime": case.runtime,
                "precision": _precision(case),
                "options": output_options(case),
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
        step = new_step(kind, title, source, settings, content=content, stem=case.network)
        self.steps.setdefault(step.key, step)
        return step.key

    def _content(self, model: str) -> str:
        if model not in self._contents:
            self._contents[model] = content_hash(model)
        return self._contents[model]

    def bench_spec(self, place: int, model: Path | str | ModelRef) -> RunSpec:
        """Return the spec to measure a case; with accuracy on a GPU, telemetry is on by default."""
        case, matrix = self.cases[place].case, self.matrix
        flags: dict[str, Any] = {}
        if matrix.inputs is not None:
            flags["data"] = matrix.inputs
            if Path(matrix.inputs).suffix.lower() in SUFFIXES:  # prepared as for evaluation
                flags |= {"task": matrix.task, "settings": matrix.task_settings}
        for key, value in case.settings.items():
            if key != MACHINE and not key.startswith(PREFIXES):
                flags[key] = read_scalar(matrices.FLAGS[key], value)
        spec = self._spec(place, model, flags)
        on_gpu = RUNTIMES.load(case.runtime).device(spec).startswith("cuda")
        if not on_gpu or matrix.data is None or "telemetry" in case.settings:
            return spec
        return self._spec(place, model, {**flags, "telemetry": TELEMETRY})

    def refuse_settings(self, place: int) -> UsageError | None:
        """Return why a runtime does not take the settings of a case; the case is then refused."""
        case, planned = self.cases[place].case, self.cases[place]
        kinds = [self.steps[key].kind for key in planned.chain]
        made: ModelFormat = "engine" if "build" in kinds else "onnx"
        try:
            if planned.refused is None:
                later = ModelRef(path=case.model, format=made)
                self.bench_spec(place, later if kinds else case.model)
        except UsageError as problem:
            planned.refused = error_line(problem)
            return problem
        return None

    def eval_spec(self, place: int, model: Path | str) -> RunSpec:
        """Return the spec to evaluate a case: any batch size, without measurement settings."""
        options = output_options(self.cases[place].case)
        own = {key: value for key, value in options.items() if not key.startswith(PREFIXES)}
        flags = {key: read_scalar(matrices.FLAGS[key], value) for key, value in own.items()}
        return self._spec(place, model, {**flags, "profile": False}).having(batch=None)

    def _spec(self, place: int, model: Path | str | ModelRef, flags: dict[str, Any]) -> RunSpec:
        reference = model if isinstance(model, ModelRef) else None  # it is not made yet
        planned = self.cases[place]
        case = planned.case
        exported = any(self.steps[key].kind == "export" for key in planned.chain)
        left_out = LOADING_OPTIONS if exported else ()
        options = {k: str(v) for k, v in case.prefixed("opt.").items() if k not in left_out}
        request = BenchRequest(
            model=model.path if isinstance(model, ModelRef) else model,
            runtime=case.runtime, batch=case.batch, shapes=planned.shapes,
            precision=_precision(case), options=options, **flags,
        )  # fmt: skip
        return run_spec(request, self._config, reference)


def plan_sweep(
    matrix: Matrix,
    *,
    config: Config,
    lenient: bool = False,
    elsewhere: bool = False,
    only: Case | None = None,
) -> SweepPlan:
    """Plan the cases and their steps; ``lenient`` makes a missing runtime a failed case.

    With ``elsewhere``, cases run on other machines, which plan the steps for their GPUs.
    ``only`` keeps a single case, planned as part of the whole matrix.
    """
    if not elsewhere and only is None and MACHINE in matrix.options:
        raise UsageError(
            "an axis of machines needs an executor",
            fix="--executor ray --address HOST:6379, or --executor ssh --hosts FILE",
        )
    if not matrix.models:
        raise UsageError(
            "the sweep has no models", fix=matrix.note or "trtbench sweep model.onnx --batch 1,8"
        )
    cases = matrices.cases_from_matrix(
        matrix,
        runtime_of=lambda model: first_choice(source_format(model)) or first_choice("onnx"),
        builds=BUILDERS.names(),
    )
    if not cases:
        raise UsageError("the sweep has no cases: all are excluded", fix="remove an exclusion")
    plan = SweepPlan(matrix, config, elsewhere=elsewhere)
    plan.cases = tuple(plan.plan_case(case, lenient=lenient) for case in cases)
    refused = [plan.refuse_settings(place) for place in range(0 if elsewhere else len(cases))]
    if refused and all(refused):  # no runtime takes them
        first = next(filter(None, refused))
        fix = first.fix and first.fix.replace("--opt ", "--axis opt.")
        raise UsageError(first.message, facts=first.facts, fix=fix)
    plan.one_table = compares_only_models([(case.model, case.label) for case in cases])
    if not elsewhere:
        plan.plan_accuracies()
    plan.cases = tuple(each for each in plan.cases if only in (None, each.case))
    return plan


class KindEstimate(Value, frozen=True, kw_only=True):
    """One kind of work of a sweep: its amount, and its estimated time."""

    kind: str
    count: int
    cached: int = 0  # results that can be reused
    seconds: float | None = None  # for the remaining work; ``None`` if unknown
    guessed: int = 0  # jobs estimated from settings, without similar earlier runs


def estimate(plan: SweepPlan, *, store: Store, config: Config) -> tuple[KindEstimate, ...]:
    """Estimate the time of each kind of work, in order, from earlier results."""
    cache = Cache(store)
    history, kinds = cache.history(), list[KindEstimate]()
    for kind in (*MODEL_STEPS, "eval"):
        steps = [step for step in plan.steps.values() if step.kind == kind]
        left = [step for step in steps if cache.find(step) is None]
        took = [step.expected_s(history) for step in left]
        total = None if None in took else sum(filter(None, took))
        cached = len(steps) - len(left)
        kinds.append(KindEstimate(kind=kind, count=len(steps), cached=cached, seconds=total))
    entries = store.index.find(kind="run")
    bench_s, count, guessed = 0.0, 0, 0
    for case in (each.case for each in plan.cases if each.refused is None):
        alike = [e for e in entries if e.runtime == case.runtime]
        alike = [e for e in alike if e.model.startswith(case.network)]
        alike.sort(key=lambda entry: entry.batch != (case.batch or 1))
        query_s = (alike[0].median_s if alike else None) or 0.0
        # Start, warm-up and measurement of each launch.
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
