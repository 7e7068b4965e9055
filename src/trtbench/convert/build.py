"""Build an engine, here or on another machine; it gets its name only when it is complete."""

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trtbench.analysis.inspection import parameter_count
from trtbench.analysis.onnx_graph import PREPARATION, notes_from_metadata, text_from_preparation
from trtbench.convert import conversions
from trtbench.convert.builders import BUILDERS
from trtbench.convert.calibration import item_limit, open_items
from trtbench.core import errors
from trtbench.core.codec import json_from_value
from trtbench.core.jobs import BuildJob, BuildOutcome, JobEnd
from trtbench.core.properties import without_tf32
from trtbench.core.results import Artefact
from trtbench.core.run import Environment, Scalar
from trtbench.core.safety import mask, mask_values, mask_words
from trtbench.core.spec import BuildSpec, ModelRef, ShapeProfile
from trtbench.core.units import text_from_long_time, text_from_shape
from trtbench.host.files import make_folder, scratch_directory, write_whole
from trtbench.host.locks import hold
from trtbench.host.tensorrt import preparation_of_scales
from trtbench.host.workers import check_interpreter
from trtbench.measure import bench
from trtbench.measure.remote import run_verb_remotely
from trtbench.models import identity
from trtbench.models import inputs as model_inputs
from trtbench.models.onnx_model import count_parameters, input_specs, load_onnx
from trtbench.models.open_sizes import settle, shapes_of
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import File, fields_of, size_bytes, words_from_text
from trtbench.requests.models import BuildRequest
from trtbench.requests.run_spec import device_name
from trtbench.requests.settings import Config
from trtbench.runtimes._session import check_batch_possible
from trtbench.store.directory import now
from trtbench.tasks._feed import preparation_of_model, task_of_data
from trtbench.trtexec.exports import graph_from_json
from trtbench.trtexec.version import plan_from_file

Shapes = Mapping[str, Sequence[int]]

PATIENCE_S = 6 * 3600.0
"""Large networks at a high optimization level take hours; a longer build is taken to hang."""
REPORTS = 0.05  # a builder that is further tells how far it is
LOG, GRAPH = ".build.log", ".graph.json"
_STAGES = {
    "load": ("parsing", 0.0),
    "cast": ("casting", 0.0),
    "quantize": ("quantizing", 0.0),
    "build": ("building", 0.02),
    "save": ("saving", 0.98),
}


def default_builder(config: Config, options: Mapping[str, str]) -> str:
    """Return the default builder: the first one that works here, else the first one."""
    ranked = sorted(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))
    ranked = [each for each in ranked if all(key in each[1].OPTIONS for key in options)] or ranked
    for name, builder in ranked:
        if config.python_for(name) is not None or builder.available() is None:
            return name
    return ranked[0][0]


def refuse_without_builder(config: Config, options: Mapping[str, str]) -> None:
    """Raise an error if no builder works here; the fix says what to install."""
    if options or any(config.python_for(name) for name in BUILDERS.names()):
        return
    reasons = {name: builder.available() for name, builder in BUILDERS.loaded()}
    if all(reasons.values()):
        raise errors.UnavailableError(
            "no builder of engines is installed here",
            facts=reasons,
            fix="pip install 'trtbench[rtx]', which builds without a GPU; "
            "for TensorRT: sudo apt install libnvinfer-bin, or pip install tensorrt-cu13",
        )


def build_spec(request: BuildRequest, config: Config) -> BuildSpec:
    """Return the spec of a build; the default timing cache is next to the engine."""
    reference = identity.model_ref(Path(request.model))
    model = Path(reference.path)
    name = request.runtime or default_builder(config, request.options)
    module = BUILDERS.load(name)
    if reference.format not in ("onnx", "unknown"):
        facts = {"file": reference.name, "format": reference.format}
        fix = "give an ONNX file; trtbench export makes one from a PyTorch model"
        raise errors.UsageError("engines are built from ONNX files", facts=facts, fix=fix)
    if request.extra_args and not module.TAKES_ARGUMENTS:
        options = [each.flag for each in fields_of(BuildRequest)]
        near = errors.near_miss(request.extra_args[0].partition("=")[0], options, least=0.75)
        message = f"the builder {name} takes no arguments after --"
        fix = f"{near}, without --" if near else "-r trtexec, or leave them out"
        raise errors.UsageError(message, facts={"given": shlex.join(request.extra_args)}, fix=fix)
    engine = _engine_path(request)
    first, *more = all_profiles(request.shapes_min, request.shapes_opt, request.shapes_max)
    fixed = {n: _span((tuple(dims),) * 3) for n, dims in request.shapes.items()}
    spans = {**fixed, **profiles_from_input_shapes(request.input_shapes, model), **first}
    assumed, note = _assumed_spans(model, spans, batch=request.batch)
    calibration, cache = _absolute(request.data), _absolute(request.calibration_cache)
    task, own = task_of_data(calibration, request.task, request.settings, [reference])
    scales = Path(cache) if cache is not None and calibration is None else None
    timing = _absolute(request.timing_cache)
    if timing is None and module.TIMING_CACHE:
        timing = f"{engine}.timing.cache"
    given = {each: getattr(request, each, None) for each in BuildSpec.__struct_fields__}
    settled = {
        "model": reference,
        "output": str(engine),
        "runtime": name,
        "shapes": {**assumed, **spans},
        "assumed": note,
        "more_profiles": tuple(more),
        "workspace_bytes": None if request.workspace is None else size_bytes(request.workspace),
        "timing_cache": None if request.no_timing_cache else timing,
        "calibration": calibration,
        "calibration_cache": cache,
        "prepared": preparation_of_scales(scales, reference) if scales else {},
        "plugins": tuple(str(Path(path).absolute()) for path in request.plugins),
        "targets": words_from_text(request.target or ()),
        "device": device_name(request.device),
        "task": task,
        "task_settings": own,
        "options": {**config.options_for(name), **request.options},
    }
    return BuildSpec(**{k: v for k, v in given.items() if v is not None} | settled)


def _engine_path(request: BuildRequest) -> Path:
    model = Path(request.model)
    return conversions.output_file(request.output, model.with_suffix(".engine"), model)


def _absolute(path: File | None) -> str | None:
    """Return an absolute path, so that the record is valid in any working folder."""
    if path is None:
        return None
    return "random" if path == "random" else str(Path(path).absolute())


def all_profiles(*ends: Shapes | Sequence[Shapes] | None) -> list[dict[str, ShapeProfile]]:
    """Return all profiles from min, opt and max shapes; a missing one is copied from the next."""
    lists = [[end] if isinstance(end, Mapping) else list(end or ()) for end in ends]
    longest = max(1, *map(len, lists))
    padded = [[*each, *({} for _ in range(longest - len(each)))] for each in lists]
    found = []
    for least, best, most in zip(*padded, strict=True):
        profiles = {}
        for name in dict.fromkeys([*least, *best, *most]):
            opt = tuple(best.get(name) or most.get(name) or least[name])
            low, high = tuple(least.get(name) or opt), tuple(most.get(name) or opt)
            if not len(low) == len(opt) == len(high) or not all(
                a <= b <= c for a, b, c in zip(low, opt, high, strict=True)
            ):
                shown = {"min": low, "opt": opt, "max": high}
                raise errors.UsageError(
                    f"the shapes of {name!r} must not decrease from min to opt to max",
                    facts={key: text_from_shape(dims) for key, dims in shown.items()},
                )
            profiles[name] = _span((low, opt, high))
        found.append(profiles)
    return found


def _span(ends: Sequence[tuple[int, ...]]) -> ShapeProfile:
    return ShapeProfile(min=ends[0], opt=ends[1], max=ends[2])


def profiles_from_input_shapes(texts: Sequence[str], model: Path) -> dict[str, ShapeProfile]:
    """Read ``-1x3x224x224`` or ``NAME:-1x3x224x224``; without a name it is the only input.

    -1 is a batch of 1 to 256, best at 128, as in the toolkits; other shapes are fixed.
    """
    spans = {}
    for given in conversions.input_shapes(texts):
        (first, *rest), name = given.shape, given.name
        if any(dim < 0 for dim in rest):
            message = "only the batch, the first dimension, can be -1"
            fix = "--shape-min, --shape-opt and --shape-max for other dynamic dimensions"
            raise errors.UsageError(message, facts={"shape": text_from_shape(given.shape)}, fix=fix)
        if name is None:
            inputs = input_specs(load_onnx(model, weights=False))
            if len(inputs) != 1:
                flags = (
                    f"--input-shape {shlex.quote(model_inputs.with_sizes(each))}" for each in inputs
                )
                message = "the model has several inputs: the shape needs the name of its input"
                facts = {"inputs": ", ".join(each.name for each in inputs)}
                raise errors.UsageError(message, facts=facts, fix=" ".join(flags))
            name = inputs[0].name
        ends = (1, 128, 256) if first < 0 else (first,) * 3
        spans[name] = _span([(end, *rest) for end in ends])
    return spans


def _assumed_spans(
    model: Path, given: Mapping[str, ShapeProfile], *, batch: int | None = None
) -> tuple[dict[str, ShapeProfile], str | None]:
    """Return a profile for dynamic inputs without a given shape, and a note on what is assumed."""
    try:
        inputs = input_specs(load_onnx(model, weights=False))
    except errors.TrtbenchError:  # the builder reports what is wrong with the model
        return {}, None
    check_batch_possible([each for each in inputs if each.name not in given], batch=batch)
    ends: list[dict[str, tuple[int, ...]]] = []
    for end in ("min", "opt", "max"):  # dimensions of the same name get the same size
        ranged = {name: getattr(span, end) for name, span in given.items()}
        filled = model_inputs.with_given_shapes(inputs, ranged, batch=batch)
        settled = settle(filled, ModelRef(path=str(model), format="onnx"))
        ends.append(shapes_of(settled.tensors))
        if end == "opt":
            note = settled.note
    names = [each.name for each in inputs if each.name not in given and not each.is_static]
    return {name: _span([end[name] for end in ends]) for name in names}, note


def run_build(spec: BuildSpec, *, execution: Execution | None = None) -> Artefact:
    """Build an engine in a child process; a failed build leaves its log and no engine."""
    execution = execution or Execution()
    check_interpreter(execution.python)
    engine, environment = Path(spec.output), bench.environment_of(execution)
    device = BUILDERS.load(spec.runtime).device(spec)
    what = execution.command or f"trtbench build {engine.name}"
    with (
        errors.writing(engine),
        scratch_directory(engine.parent) as folder,
        hold(device, what=what, wait=execution.wait),
    ):
        identity.raise_if_changed(spec.model)
        spec, cache = with_arrays(spec, folder), folder / "timing.cache"
        inner = spec.having(output=str(folder / engine.name))
        if spec.timing_cache is not None:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(spec.timing_cache, cache)
            inner = inner.having(timing_cache=str(cache))
        end = bench.run_job(
            BuildJob(spec=inner), folder=folder, execution=execution, patience_s=PATIENCE_S,
            python=execution.python,
            on_stage=conversions.stage_listener(_STAGES, execution, longest="build"),
        )  # fmt: skip
        end = bench.fail_if_model_changed(end, spec.model)
        if not end.ok:
            raise _failure(end, spec, folder)
        outcome = bench.read_outcome(folder, BuildOutcome)
        if spec.assumed:
            outcome = outcome.having(notes=(*outcome.notes, spec.assumed))
        artefact = _artefact(spec, outcome, end.seconds, environment, folder)
        record = folder / "record"
        record.write_bytes(json_from_value(artefact))
        for ending, name in outcome.files.items():
            (folder / name).replace(engine.with_name(engine.name + ending))
        if spec.timing_cache is not None and cache.is_file():
            target = Path(spec.timing_cache)
            make_folder(target.parent)
            write_whole(target, cache.read_bytes())
        Path(inner.output).replace(engine)
        record.replace(engine.with_name(f"{engine.name}.json"))
        return artefact


def with_estimate(
    execution: Execution,
    usual_s: float | None,
    *,
    python: str | None,
    rest_s: float = 0.0,
    name: str = "",
) -> Execution:
    """Return the execution of a build that says how long it takes, and the rest after it.

    That follows from how long such builds took, or else from what the builder reports.
    """
    began, last = time.monotonic(), Event(kind="stage", text="starting")

    def listen(event: Event) -> None:
        nonlocal last
        if event.kind in ("stage", "tick"):
            last = event if event.kind == "stage" else last
            spent_s, part = time.monotonic() - began, last.done or 0.0
            whole_s = usual_s if usual_s is not None or part <= REPORTS else spent_s / part
            left_s = None if whole_s is None else max(0.0, whole_s - spent_s)
            text = f"{name}{last.text} ({text_of_progress(spent_s, whole_s)})"
            event = last.having(text=text, seconds=left_s, rest_s=rest_s)
        execution.listen(event)

    return replace(execution, python=python, listen=listen)


def text_of_progress(spent_s: float, whole_s: float | None) -> str:
    told = ", no estimate yet" if whole_s is None else f" of about {text_from_long_time(whole_s)}"
    return text_from_long_time(spent_s) + told


def with_arrays(spec: BuildSpec, folder: Path) -> BuildSpec:
    """Return the spec with calibration arrays that its task has prepared in the folder."""
    if spec.task is None:  # the data are arrays: images without a task were refused
        return spec
    inputs = [
        each.having(shape=spec.shapes[each.name].opt) if each.name in spec.shapes else each
        for each in input_specs(load_onnx(Path(spec.model.path), weights=False))
    ]
    items, prepared = open_items(
        spec.calibration, inputs, model=spec.model, limit=item_limit(spec), task=spec.task,
        settings=spec.task_settings,
    )  # fmt: skip
    arrays = folder / "calibration-images.npz"
    np.savez(arrays, **items.rows)  # type: ignore[arg-type]
    return spec.having(calibration_arrays=str(arrays), prepared=prepared)


def _artefact(
    spec: BuildSpec, outcome: BuildOutcome, wall_s: float, environment: Environment, folder: Path
) -> Artefact:
    engine, model = Path(spec.output), Path(spec.model.path)
    made = folder / engine.name
    command = outcome.command or ""  # with the final paths of the files
    if spec.timing_cache:
        command = command.replace(str(folder / "timing.cache"), spec.timing_cache)
    command = command.replace(str(folder / "graph.json"), f"{spec.output}.graph.json")
    command = command.replace(str(folder), str(engine.parent))
    plan = None
    with contextlib.suppress(errors.ParseError):
        plan = plan_from_file(made, where=engine.name).version
    facts: dict[str, Scalar] = dict(outcome.facts)
    outline = identity.known_outline(spec.model)
    if (name := outcome.files.get(GRAPH)) is not None:  # the number of layers and parameters
        with contextlib.suppress(errors.ParseError):
            graph = graph_from_json((folder / name).read_bytes(), where=name)
            facts["layers"] = len(graph.layers)
            facts.setdefault("layers_from", "engine")
            if (parameters := parameter_count(graph)) is not None:
                facts |= {"parameters": parameters, "parameters_from": "engine"}
    if facts.get("parameters") is None:
        with contextlib.suppress(errors.InputError, errors.UnavailableError):
            facts |= {"parameters": count_parameters(model), "parameters_from": "ONNX file"}
    if prepared := spec.prepared or preparation_of_model(spec.model):
        facts[PREPARATION] = text_from_preparation(prepared)
    return Artefact(
        path=str(engine),
        filename=engine.name,
        size_bytes=made.stat().st_size,
        sha256=identity.sha256_of(made),
        created=now(),
        spec=spec.having(
            calibration_arrays=None,
            options=mask_values(spec.options),
            extra_args=tuple(mask_words(spec.extra_args)),
        ),
        tensorrt=outcome.version,
        plan=plan,
        command=mask(command) or None,
        build_s=outcome.build_s,
        wall_s=wall_s,
        gpus=environment.gpus,
        host=environment.machine or environment.host,
        conditions=without_tf32(outcome.conditions, os.environ),
        facts=facts,
        files=tuple(engine.name + ending for ending in outcome.files),
        notes=(*outcome.notes, *notes_from_metadata(outline.metadata if outline else {})),
        findings=outcome.findings,
    )


def _failure(end: JobEnd, spec: BuildSpec, folder: Path) -> errors.TrtbenchError:
    """Return the error of a build that failed; its log is kept."""
    reported, kept, source = end.error, Path(spec.output + LOG), folder / "build.log"
    facts = {"model": spec.model.name, "builder": spec.runtime}
    facts |= reported.facts if reported else {}
    error = end.failure(
        "the engine was not built",
        facts={**facts, "stage": end.stage, "log": kept},
        fix=(reported and reported.fix) or f"look into {kept}",
    )
    # The log of the parser says more.
    parsed = type(error) is errors.InputError and source.is_file()
    if parsed or isinstance(error, errors.JobError):
        with contextlib.suppress(OSError):
            write_whole(kept, (source if source.is_file() else folder / "log.txt").read_bytes())
            error.facts["log"] = str(kept)
    return error


def build_engine(request: BuildRequest, *, config: Config, execution: Execution) -> Artefact:
    """Build an engine in the executor; one from another machine is copied with record and log."""

    def here() -> Artefact:
        spec = build_spec(request, config)
        if request.runtime is None and request.python is None:
            refuse_without_builder(config, request.options)
        python = execution.python or config.python_for(spec.runtime)
        known = identity.kept_value(Path(f"{spec.output}.json"), Artefact)  # of an earlier build
        usual_s = known.wall_s if known and known.spec.model.path == spec.model.path else None
        return run_build(spec, execution=with_estimate(execution, usual_s, python=python))

    return execution.executor.do(here, lambda: _build_elsewhere(request, config, execution))


def _build_elsewhere(request: BuildRequest, config: Config, execution: Execution) -> Artefact:
    engine = _engine_path(request)
    first = min(BUILDERS.loaded(), key=lambda each: (each[1].CHOSEN, each[0]))[0]
    runtime = request.runtime or first
    builder, spec = BUILDERS.load(runtime), BuildSpec(
        model=identity.model_ref(Path(request.model)), output=str(engine), runtime=runtime,
        extra_args=tuple(request.extra_args),
    )  # fmt: skip
    if request.timing_cache is not None and not Path(request.timing_cache).is_file():
        request = request.having(timing_cache=None)
    artefact = run_verb_remotely(
        "build", request, Artefact, config=config, execution=execution,
        gpu=builder.device(spec) != "cpu",
        output=engine,
    )  # fmt: skip
    with errors.writing(engine):
        write_whole(engine.with_name(f"{engine.name}.json"), json_from_value(artefact))
    return artefact
