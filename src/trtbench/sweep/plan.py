"""The plan of a sweep: its cases, the steps they share, their specs, and estimated times.

The key of a step is a hash of all its inputs: data, files, settings, versions of tools.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from trtbench.accuracy.check import vanilla_name
from trtbench.analysis.sweep import compares_only_models
from trtbench.convert.builders import BUILDERS
from trtbench.convert.calibration import RANDOM, resolved_items
from trtbench.convert.conversions import input_shapes
from trtbench.convert.steps import Cache, Step, StepKind, builder_tools, data_hash, digest, new_step
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.properties import PROPERTIES
from trtbench.core.run import Scalar
from trtbench.core.spec import ModelFormat, ModelRef, Precision, RunSpec, TensorSpec, Value
from trtbench.host.images import SUFFIXES
from trtbench.host.machine import library_versions
from trtbench.measure.bench import stage_lengths
from trtbench.models import torch_models
from trtbench.models.identity import model_ref, precision_of_engine
from trtbench.models.inputs import batch_place, is_open
from trtbench.models.onnx_outline import outline_of
from trtbench.requests.fields import read_scalar
from trtbench.requests.measure import BenchRequest
from trtbench.requests.models import IMAGES_TASK
from trtbench.requests.run_spec import first_choice, refuse_other_precision, run_spec, why_unusable
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES
from trtbench.runtimes._session import check_batch_possible
from trtbench.store.store import Store
from trtbench.sweep import matrix as matrices
from trtbench.sweep.matrix import FLAGS, Case, Matrix, Shapes
from trtbench.tasks import TASKS
from trtbench.tasks._feed import are_images, settled_task
from trtbench.tasks.contract import calibration_settings, settings_with_defaults

ARRAYS = {".npz", ".npy"}
MODEL_STEPS: tuple[StepKind, ...] = ("export", "quantize", "build")
"""Steps that make the measured models, in order."""
CAST_PRECISIONS = ("fp16", "bf16", "int8", "fp8")  # precisions that need a converted ONNX file
TELEMETRY = "100ms"  # default sampling interval for sweeps with accuracy on a GPU
LOADING_OPTIONS = (*matrices.SOURCE, "seed")  # of a PyTorch model: only its export needs them


def content_hash(given: str) -> str:
    """Return the hash of a model or of data; for library models, name and code."""
    path = Path(given)
    if path.is_dir() or path.suffix.lower() in ARRAYS:
        return data_hash(given)
    if torch_models.is_library_model(given) or given == RANDOM:
        return " ".join(filter(None, [given, torch_models.hub_code_sha256(given)]))
    return model_ref(path).sha256 or ""


def file_hashes(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Return hashes of the files in settings, including the code of a factory."""
    code = torch_models.factory_code(str(settings.get("factory") or ""))[1]
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
    return "torch" if torch_models.is_library_model(model) else model_ref(Path(model)).format


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
    case: Case
    key: str  # hash of the case, including the content of its model
    chain: tuple[str, ...] = ()  # keys of the steps that make the measured model, in order
    shapes: Shapes  # of its inputs, if given
    refused: str | None = None  # why it cannot be measured here
    judged: tuple[str, int] | None = None  # the evaluation step, and its position there
    notes: tuple[str, ...] = ()  # what gave way, and other cases with the same settings
    left_out: tuple[str, ...] = ()  # settings that gave way
    spec: RunSpec | None = None  # what is measured; its model may not be made yet


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
        source, task = matrix.calibration, TASKS.load(matrix.task)
        self._prepares = {flag.key for flag in task.FLAGS if flag.preprocessing}
        self._calibration = data_hash(source) if source else None
        suffixes = {Path(each or "").suffix.lower() for each in (source, matrix.data)}
        self._is_prepared = bool(source and (are_images(source) or suffixes <= ARRAYS))
        """Whether the task prepares calibration data: images, or arrays like those to evaluate."""
        if source and self._is_prepared and task.read_beside:
            own = {k: v for k, v in matrix.task_settings.items() if k in self._prepares}
            beside = task.read_beside(calibration_settings(task.FLAGS, {**own, "data": source}))
            self._calibration = digest([data_hash(str(each)) for each in (source, *beside)])

    @property
    def refused(self) -> dict[int, str]:
        """Reasons why cases cannot be measured, by index."""
        return {place: each.refused for place, each in enumerate(self.cases) if each.refused}

    def refuse_changed(self, *given: str | None) -> None:
        """Raise an error if a model or data changed since the sweep was planned."""
        for each in given:
            if each in self._contents and content_hash(each) != self._contents[each]:
                fix = "run the command again when the file no longer changes"
                raise InputError(f"{Path(each).name} has changed since the sweep began", fix=fix)

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
                name, wanted = reference.name, case.precision
                message = f"the precision of {name} is unknown and may not be {wanted}"
                fix = "omit --precision, or sweep the ONNX file it was built from"
                raise UsageError(message, fix=fix)
        source, chain = case.model, []
        if kind == "torch" and "torch" not in formats:
            loading = {k: v for k, v in case.prefixed("opt.").items() if k in LOADING_OPTIONS}
            settings = {
                "inputs": matrices.export_shapes(self.matrix, case),
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
        if chain:
            shapes = input_shapes(matrices.export_shapes(self.matrix, case))
            made = [TensorSpec(name=x.name or "input", dtype="", shape=x.shape) for x in shapes]
            inputs = outline_of(file).inputs if (file := _onnx(case)) else made
            check_batch_possible(inputs, batch=case.batch)
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
        for number, each in enumerate(input_shapes(matrices.export_shapes(self.matrix, case))):
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
            **self._calibration_inputs(case, case.precision in ("int8", "fp8")),
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
            **self._calibration_inputs(case, case.precision == "int8" and not is_typed),
            "options": case.prefixed("build."),
            **{key: value for key, value in case.settings.items() if key == "device"},
            "tools": builder_tools(
                case.runtime,
                device=str(case.settings.get("device") or "cuda:0"),
                python=self._config.python_for(case.runtime),
            ),
        }
        batch = f"batches {profile[0]} to {profile[2]}" if dynamic else f"batch {profile[1]}"
        title = f"build {case.network}, {case.precision or 'as-is'}, {batch}"
        return self._step("build", case, source, title, settings)

    def _calibration_inputs(self, case: Case, needed: bool) -> dict[str, object]:
        if not needed:
            return {"calibration": None, "prepared": {}}
        own = self.task_settings(case.model)
        settings = {key: value for key, value in own.items() if key in self._prepares}
        prepared = {"task": self.matrix.task, "settings": settings} if self._is_prepared else {}
        return {"calibration": self._calibration, "prepared": prepared}

    def task_settings(self, model: str) -> dict[str, Scalar]:
        """Return the settings of the task: those given, else what the model says of itself."""
        is_file = not torch_models.is_library_model(model)
        files = [model_ref(Path(model))] if is_file else []
        own = settled_task(self.matrix.task, self.matrix.task_settings, files)[1]
        family = f"{model.partition(':')[0]} {matrices.network_of(model)}".lower()
        if "normalize" in self._prepares and re.search(r"^ultralytics |\byolo", family):
            own.setdefault("normalize", "none")
        inputs = outline_of(Path(model)).inputs if is_file and files[0].format == "onnx" else ()
        if not any(is_open(dim) for each in inputs for dim in each.shape[1:]):
            own.pop("usual_size", None)  # the shape of the input says it
        return own

    def plan_accuracies(self) -> None:
        """Plan an evaluation step for each model, or one for all if models are compared.

        Cases that differ only in batch size share the evaluation of a model on a runtime.
        """
        matrix = self.matrix
        if matrix.data is None:
            return
        task = TASKS.load(matrix.task)
        common = settings_with_defaults(task.FLAGS, matrix.task_settings)
        beside = task.read_beside({**common, "data": matrix.data}) if task.read_beside else ()
        settings: dict[str, object] = {
            "data": data_hash(matrix.data),
            "task": matrix.task,
            "files": file_hashes(common),
            "beside": [data_hash(str(path)) for path in beside],
            **({"names": matrix.names} if matrix.names != "case" else {}),
        }
        how = {x.key: x.default for x in task.FLAGS if x.preprocessing and x.key != "resize"}
        how["usual_size"] = None
        grouped: dict[str, dict[str, list[PlannedCase]]] = {}
        prepared: dict[str, dict[str, Scalar]] = {}
        for each in (each for each in self.cases if each.refused is None):
            case = each.case
            if RUNTIMES.load(case.runtime).open_session is None:  # an external program
                each.notes += (f"no accuracy: {case.runtime} does not return outputs to evaluate",)
                continue
            side = digest({
                "source": each.chain[-1] if each.chain else self._content(case.model),
                "runtime": case.runtime,
                "precision": _precision(case),
                "options": output_options(case),
                "shapes": {name: dims[1:] for name, dims in each.shapes.items()},
            })  # fmt: skip
            told = self.task_settings(case.model).items()
            own = {k: v for k, v in told if k in how and v != how[k]}  # alike, if compared
            key = digest({"model": "" if self.one_table else case.model, "settings": own})
            prepared[key] = {**own, **matrix.task_settings}
            grouped.setdefault(key, {}).setdefault(side, []).append(each)
        for group_key, sides in grouped.items():
            case = next(iter(sides.values()))[0].case
            title = f"accuracy of {f'{len(sides)} models' if self.one_table else case.network}"
            settled = {"sides": list(sides), "settings": prepared[group_key], **settings}
            key = self._step("eval", case, case.model, title, settled)
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
                flags |= {"task": matrix.task, "settings": self.task_settings(case.model)}
        flags |= {key: value for key, value in case.settings.items() if key in FLAGS}
        spec = self._spec(place, model, flags)
        on_gpu = RUNTIMES.load(case.runtime).device(spec).startswith("cuda")
        if not on_gpu or matrix.data is None or "telemetry" in case.settings:
            return spec
        return self._spec(place, model, {**flags, "telemetry": TELEMETRY})

    def settle(self, place: int) -> UsageError | None:
        """Find the spec of a case; returns why its runtime refuses it, which refuses the case.

        Where the runtime refuses settings that give way, as few as possible are left out.
        """
        planned, case, problems = self.cases[place], self.cases[place].case, list[UsageError]()
        if planned.refused is not None:
            return None
        model, formats = case.model, RUNTIMES.load(case.runtime).FORMATS
        later = planned.chain or (self.elsewhere and source_format(model) not in formats)
        made = ModelRef(path=model, format="engine" if "engine" in formats else "onnx")
        soft = [key for key in case.settings if key in FLAGS and key in self.matrix.gives_way]
        for out in (each for n in range(len(soft) + 1) for each in combinations(soft, n)):
            planned.left_out = out
            try:
                planned.spec = self.bench_spec(place, made if later else model)
            except UsageError as problem:
                problems.append(problem)
                continue
            words = ", ".join(f"{key}={case.settings[key]}" for key in out)
            told = f"{case.runtime} without {words} of the preset"
            planned.notes += tuple(f"{told}: {each.message}" for each in problems[:1])
            return None
        planned.refused, planned.chain = error_line(problems[-1]), ()
        return problems[-1]

    def eval_spec(self, place: int, model: Path | str) -> RunSpec:
        """Return the spec to evaluate a case: any batch size, without measurement settings."""
        options = output_options(self.cases[place].case)
        flags = {key: value for key, value in options.items() if not key.startswith("opt.")}
        spec = self._spec(place, model, {**flags, "profile": False}).having(batch=None)
        given = input_shapes(matrices.export_shapes(self.matrix, self.cases[place].case))
        if spec.model.format != "torch" or any(each.shape[0] > 0 for each in given):
            return spec
        # As many items as models with a dynamic batch, so that latencies per batch compare.
        shapes = {name: (self.eval_batch, *dims[1:]) for name, dims in spec.shapes.items()}
        return spec.having(shapes=shapes)

    @property
    def eval_batch(self) -> int:
        """Batch size to evaluate models with a dynamic batch."""
        profile = self.matrix.profile
        return min(32, profile[2] if profile else max(self.matrix.batch, default=32))

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
            precision=_precision(case), options=options, values=case.prefixed("input."),
            **{
                key: read_scalar(FLAGS[key], value) if key in FLAGS else value
                for key, value in flags.items() if key not in planned.left_out
            },
        )  # fmt: skip
        return run_spec(request, self._config, reference)


def _runtimes(matrix: Matrix, model: str) -> tuple[str, ...]:
    """Return the runtimes of a sweep that take a model, as it is or converted."""
    kind = source_format(model)
    usual = first_choice(kind) or first_choice("onnx")
    made = {"torch": ("torch", "onnx", "engine"), "onnx": ("onnx", "engine")}.get(kind, (kind,))
    taken = {name: {*runtime.FORMATS} for name, runtime in RUNTIMES.loaded()}
    fit = [each for each in matrix.runtime if {*made} & taken.get(each, {*made})]
    if matrix.runtime and not fit:
        both = ",".join((*matrix.runtime, usual))
        message = f"{Path(model).name} cannot be run by {' or '.join(matrix.runtime)}"
        raise UsageError(message, fix=f"-r {both}: each model is run by those that can")
    return tuple(fit) or (usual,)


def _with_graphs(matrix: Matrix) -> Matrix:
    """Return a matrix of engines alone with CUDA graphs, as ``bench`` advises and compare does."""
    names = {name for model in matrix.models for name in _runtimes(matrix, model)}
    known = [RUNTIMES.load(name) for name in names & {*RUNTIMES.names()}]
    alike = all(each.EXECUTES_ENGINES and each.open_session for each in known)
    if not known or not alike or {"cuda_graph", "protocol"} & {*matrix.options}:
        return matrix
    return matrix.having(options={**matrix.options, "cuda_graph": ("auto",)})


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
    matrix = matrix.having(task=matrix.task or IMAGES_TASK)
    if not elsewhere and only is None and matrices.MACHINE in matrix.options:
        raise UsageError(
            "an axis of machines needs an executor",
            fix="--executor ray --address HOST:6379, or --executor ssh --hosts FILE",
        )
    if not matrix.models:
        raise UsageError(
            "the sweep has no models", fix=matrix.note or "trtbench sweep model.onnx --batch 1,8"
        )
    if only is None:
        matrix = _with_graphs(matrix)
    cases = matrices.cases_from_matrix(
        matrix, runtimes_of=partial(_runtimes, matrix), builds=BUILDERS.names()
    )
    if not cases:
        raise UsageError("the sweep has no cases: all are excluded", fix="remove an exclusion")
    plan = SweepPlan(matrix, config, elsewhere=elsewhere)
    plan.cases = tuple(plan.plan_case(case, lenient=lenient) for case in cases)
    for model, axis in ((x, axis) for x in matrix.models for axis in matrices.kept_axes(matrix, x)):
        given = ", ".join(map(str, getattr(matrix, axis)))
        note = f"{Path(model).name}: its own {axis} instead of {given} of the preset"
        for each in (each for each in plan.cases if each.case.model == model):
            each.notes = (*each.notes, note)
    problems = list(filter(None, map(plan.settle, range(len(cases)))))
    if len(problems) == len(cases):  # no runtime takes them
        first = problems[0]
        fix = first.fix and first.fix.replace("--opt ", "--axis opt.")
        raise UsageError(first.message, facts=first.facts, fix=fix)
    alike: dict[bytes, list[PlannedCase]] = {}
    for each in (each for each in plan.cases if each.spec):
        alike.setdefault(msgspec.json.encode((each.spec, each.chain)), []).append(each)
    for same in (each for each in alike.values() if len(each) > 1):
        names = "; ".join(each.case.name for each in same)
        for each in same:
            each.notes += (f"{len(same)} cases have the same settings: {names}",)
    used = {key for each in plan.cases for key in each.chain}
    plan.steps = {key: step for key, step in plan.steps.items() if key in used}
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


def estimate(plan: SweepPlan, *, store: Store) -> tuple[KindEstimate, ...]:
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
    bench_s, guessed = 0.0, 0
    measured = [(each.case, each.spec) for each in plan.cases if each.spec is not None]
    for case, spec in measured:
        alike = [e for e in entries if e.runtime == case.runtime]
        alike = [e for e in alike if e.model.startswith(case.network)]
        alike.sort(key=lambda entry: entry.batch != (case.batch or 1))
        query_s = (alike[0].median_s if alike else None) or 0.0
        queries = (spec.stop.iterations or 0) + (spec.warmup.floor.iterations or 0)
        bench_s += spec.launches * (sum(stage_lengths(spec).values()) + queries * query_s)
        guessed += not alike
    rounds, count = plan.matrix.rounds, len(measured)
    bench = KindEstimate(
        kind="bench", count=rounds * count, seconds=rounds * bench_s, guessed=rounds * guessed
    )
    return tuple(each for each in (*kinds[:-1], bench, kinds[-1]) if each.count)
