"""Build an engine: made under another name, and in its place only when it is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np

from trtbench.analysis.inspection import parameters_of
from trtbench.analysis.onnx_stamp import PREPARATION, text_from_preparation
from trtbench.boundary import mask, mask_values, mask_words
from trtbench.build.builders import BUILDERS
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import count_parameters, input_specs
from trtbench.build.quantize_data import item_limit
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import json_from_value
from trtbench.domain.job import BuildJob, BuildOutcome, JobEnd, progress_from_line
from trtbench.domain.result import Environment, Scalar
from trtbench.domain.spec import BuildSpec
from trtbench.domain.variables import without_tf32
from trtbench.errors import (
    ERROR_KINDS,
    InputError,
    JobError,
    ParseError,
    TrtbenchError,
    UnavailableError,
    UsageError,
    writing,
)
from trtbench.executors import check_interpreter
from trtbench.host.files import write_whole
from trtbench.host.locks import hold
from trtbench.host.tensorrt_calibrate import preparation_of_scales
from trtbench.host.unfinished import remove_abandoned, scratch_directory
from trtbench.models.identity import demand_unchanged, model_ref, sha256_of
from trtbench.store.directory import now
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.plan import HEADER_BYTES, plan_from_bytes
from trtbench.workflows.make.build_difference import difference_note
from trtbench.workflows.make.build_shapes import (
    all_profiles,
    assumed_spans,
    fixed_spans,
    input_shape_from_text,
    spans_of_batches,
)
from trtbench.workflows.make.calibration_images import refuse_without_task, task_items
from trtbench.workflows.make.conversion import refuse_folder
from trtbench.workflows.make.modelopt import modelopt_option, quantize_ahead
from trtbench.workflows.measure.failure import CHANGED, end_with_same_bytes, reason_from_end
from trtbench.workflows.measure.job import carry_out_job, environment_of, read_outcome
from trtbench.workflows.measure.model_notes import preparation_of_onnx, stamps_of_onnx
from trtbench.workflows.request.choice import default_builder
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import fields_of
from trtbench.workflows.request.kinds import File, size_bytes, words_from_text
from trtbench.workflows.request.making import BuildRequest
from trtbench.workflows.request.progress import Event

PATIENCE_S = 6 * 3600.0
"""Large networks at a high optimization level take hours; longer counts as hung."""

LOG = ".build.log"
CACHE = ".timing.cache"
GRAPH = ".graph.json"
IMAGES = "calibration-images.npz"

_STAGE_TEXT = {
    "load": "parsing",
    "cast": "casting",
    "quantize": "quantizing",
    "build": "building",
    "save": "saving",
}
_STAGE_PART = {"load": 0.02, "build": 0.1, "save": 0.98}
_RECORDED = {"bug", "memory", "StoreError", "ProgramError", "JobError", CHANGED}
"""Errors of the work itself; others are about what was asked for and are passed on as they are."""


MADE = (
    "model", "output", "runtime", "shapes", "timing_cache", "options", "plugins", "calibration",
    "calibration_cache",
)  # fmt: skip
"""Fields of a spec that are worked out here; all others that a request has are as it says."""


def build_spec(request: BuildRequest, config: Config) -> BuildSpec:
    """Settle a build; the timing cache lies beside the engine unless told otherwise."""
    model = Path(request.model)
    reference = model_ref(model)
    name = request.runtime or default_builder(config, request.options)
    module = BUILDERS.load(name)
    if reference.format not in ("onnx", "unknown"):
        raise UsageError(
            "engines are built from ONNX files",
            facts={"file": reference.name, "format": reference.format},
            fix="give the ONNX file; trtbench export makes one of a PyTorch model",
        )
    engine = Path(request.output or model.with_suffix(".engine")).absolute()
    refuse_folder(engine, name=model.with_suffix(".engine").name)
    if engine == Path(reference.path):
        raise UsageError("the engine would overwrite the model", fix="-o model.engine")
    first, *more = all_profiles(request.shapes_min, request.shapes_opt, request.shapes_max)
    spans = spans_of_batches(
        [input_shape_from_text(text) for text in request.input_shapes], Path(reference.path)
    )
    spans = {**fixed_spans(request.shapes), **spans}
    assumed, note = assumed_spans(Path(reference.path), {**spans, **first}, batch=request.batch)
    refuse_without_task(_anywhere(request.calibration), request.task)
    given = {**config.options_for(name), **request.options}
    cache = _anywhere(request.calibration_cache)
    alone = Path(cache) if cache is not None and request.calibration is None else None
    known = modelopt_option(module, config=config, precision=request.precision, options=given)
    spec = BuildSpec(
        model=reference,
        output=str(engine),
        runtime=name,
        shapes={**assumed, **spans, **first},
        assumed=note,
        more_profiles=tuple(more),
        workspace_bytes=size_bytes(request.workspace) if request.workspace is not None else None,
        timing_cache=timing_cache_of(request, engine, keeps=module.TIMING_CACHE),
        calibration=_anywhere(request.calibration),
        calibration_cache=cache,
        prepared=preparation_of_scales(alone, reference) if alone else {},
        plugins=tuple(str(Path(path).absolute()) for path in request.plugins),
        targets=words_from_text(request.target or ()),
        task_settings=dict(request.settings),
        options={**known, **given},
    )
    same = {
        field.name: value
        for field in fields_of(BuildRequest)
        if field.name in BuildSpec.__struct_fields__ and field.name not in MADE
        if (value := getattr(request, field.name)) is not None
    }
    return spec.having(**same)


def timing_cache_of(request: BuildRequest, engine: Path, *, keeps: bool) -> str | None:
    """Tell where timings of kernels are kept; a builder may keep none by itself."""
    if request.no_timing_cache:
        return None
    if request.timing_cache is not None:
        return str(Path(request.timing_cache).absolute())
    return f"{engine}{CACHE}" if keeps else None


def _anywhere(path: File | None) -> str | None:
    """Make a path independent of the working folder, so that a record can be repeated elsewhere."""
    if path is None or path == "random":
        return None if path is None else str(path)
    return str(Path(path).absolute())


def run_build(spec: BuildSpec, *, conduct: Conduct | None = None) -> Artefact:
    """Build an engine in a child process; a build that fails leaves its log and no engine."""
    conduct = conduct or Conduct()
    if conduct.python is not None:
        check_interpreter(conduct.python)
    engine = Path(spec.output)
    device = BUILDERS.load(spec.runtime).device(spec)
    environment = environment_of(conduct)
    with writing(engine):
        engine.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(engine.parent)
        with (
            hold(
                device, what=conduct.command or f"trtbench build {engine.name}", wait=conduct.wait
            ),
            scratch_directory(engine.parent) as folder,
        ):
            return _carry_out(spec, folder, environment, conduct)


def _carry_out(
    spec: BuildSpec, folder: Path, environment: Environment, conduct: Conduct
) -> Artefact:
    engine = Path(spec.output)
    demand_unchanged(spec.model)
    spec = with_arrays(spec, folder)
    inner = _inside(spec, folder)
    builder = BUILDERS.load(spec.runtime)
    ahead, ahead_s = quantize_ahead(builder, spec, folder=folder, conduct=conduct)
    end = carry_out_job(
        BuildJob(spec=inner),
        folder=folder,
        conduct=conduct,
        patience_s=PATIENCE_S,
        python=conduct.python,
        on_stage=lambda stage: conduct.listen(_event(stage)),
    )
    end = end_with_same_bytes(end, spec.model)
    if not end.ok:
        raise _failure(end, spec, folder)
    outcome = read_outcome(folder, BuildOutcome)
    apart = difference_note(spec, folder=folder, conduct=conduct)
    told = [each for each in (spec.assumed, apart) if each]
    notes = (*ahead, *outcome.notes, *told)
    outcome = outcome.having(notes=notes)
    end = end.having(seconds=end.seconds + ahead_s)
    artefact = _artefact(spec, Path(inner.output), outcome, end, environment, folder)
    record = folder / "record"
    record.write_bytes(json_from_value(artefact))
    _put_in_place(spec, inner, outcome, folder)
    record.replace(engine.with_name(f"{engine.name}.json"))
    return artefact


def with_arrays(spec: BuildSpec, folder: Path) -> BuildSpec:
    """Have the task make arrays of the data to calibrate with, and keep how it did so."""
    source = spec.calibration
    if spec.task is None:  # arrays as they are: images without a task were refused
        return spec
    inputs = [
        each.having(shape=spec.shapes[each.name].opt) if each.name in spec.shapes else each
        for each in input_specs(load_onnx(Path(spec.model.path), weights=False))
    ]
    items, prepared = task_items(
        str(source), inputs, task=spec.task, settings=spec.task_settings,
        limit=item_limit(spec), seed=0,
    )  # fmt: skip
    arrays = folder / IMAGES
    np.savez(arrays, **items.rows)  # type: ignore[arg-type]
    return spec.having(calibration_arrays=str(arrays), prepared=prepared)


def _inside(spec: BuildSpec, folder: Path) -> BuildSpec:
    """Have the engine and the timing cache written in the scratch folder."""
    inner = spec.having(output=str(folder / Path(spec.output).name))
    if spec.timing_cache is None:
        return inner
    cache = folder / "timing.cache"
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(spec.timing_cache, cache)
    return inner.having(timing_cache=str(cache))


def _put_in_place(spec: BuildSpec, inner: BuildSpec, outcome: BuildOutcome, folder: Path) -> None:
    """Move what was made to where it belongs, the engine last."""
    engine = Path(spec.output)
    for ending, name in outcome.files.items():
        (folder / name).replace(engine.with_name(engine.name + ending))
    if spec.timing_cache and inner.timing_cache and Path(inner.timing_cache).is_file():
        target = Path(spec.timing_cache)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, Path(inner.timing_cache).read_bytes())
    Path(inner.output).replace(engine)


def _artefact(
    spec: BuildSpec,
    made: Path,
    outcome: BuildOutcome,
    end: JobEnd,
    environment: Environment,
    folder: Path,
) -> Artefact:
    engine = Path(spec.output)
    return Artefact(
        path=str(engine),
        filename=engine.name,
        size_bytes=made.stat().st_size,
        sha256=sha256_of(made),
        created=now(),
        spec=spec.having(
            calibration_arrays=None,
            options=mask_values(spec.options),
            extra_args=tuple(mask_words(spec.extra_args)),
        ),
        tensorrt=outcome.version,
        plan=_plan_version(made),
        command=mask(_with_final_names(outcome.command, spec, folder) or "") or None,
        build_s=outcome.build_s,
        wall_s=end.seconds,
        gpus=environment.gpus,
        host=environment.machine or environment.host,
        conditions=without_tf32(outcome.conditions, os.environ),
        facts={**outcome.facts, **_sizes(spec, outcome, folder), **_prepared(spec)},
        files=tuple(engine.name + ending for ending in outcome.files),
        notes=(*outcome.notes, *stamps_of_onnx(Path(spec.model.path))),
        findings=outcome.findings,
    )


def _prepared(spec: BuildSpec) -> dict[str, Scalar]:
    """Say how the images were prepared that INT8 scales come from, here or in the ONNX file."""
    told = spec.prepared or preparation_of_onnx(Path(spec.model.path))
    return {PREPARATION: text_from_preparation(told)} if told else {}


def _sizes(spec: BuildSpec, outcome: BuildOutcome, folder: Path) -> dict[str, Scalar]:
    """Count layers and parameters, and say who told them: the engine, or what it was made from."""
    facts: dict[str, Scalar] = {}
    name = outcome.files.get(GRAPH)
    if name is not None:
        with contextlib.suppress(ParseError):
            graph = graph_from_json((folder / name).read_bytes(), where=name)
            facts["layers"] = len(graph.layers)
            facts["layers_from"] = outcome.facts.get("layers_from", "engine")
            facts |= {"parameters": parameters_of(graph), "parameters_from": "engine"}
    if facts.get("parameters") is None:
        with contextlib.suppress(InputError, UnavailableError):
            known = count_parameters(Path(spec.model.path))
            facts |= {"parameters": known, "parameters_from": "ONNX file"}
    return {key: value for key, value in facts.items() if value is not None}


def _plan_version(engine: Path) -> str | None:
    with open(engine, "rb") as file:
        head = file.read(HEADER_BYTES)
    try:
        return plan_from_bytes(head, where=engine.name).version
    except ParseError:
        return None


def _with_final_names(command: str | None, spec: BuildSpec, folder: Path) -> str | None:
    """Have the command name the files where they are, not where they were made."""
    if command is None:
        return None
    if spec.timing_cache:
        command = command.replace(str(folder / "timing.cache"), spec.timing_cache)
    command = command.replace(str(folder / "graph.json"), f"{spec.output}.graph.json")
    return command.replace(str(folder), str(Path(spec.output).parent))


def _event(stage: str) -> Event:
    told = progress_from_line(stage)
    if told is not None:
        begin, end = _STAGE_PART["build"], _STAGE_PART["save"]
        return Event(kind="stage", text=told[1], done=begin + (end - begin) * told[0])
    text = _STAGE_TEXT.get(stage, stage)
    return Event(kind="stage", text=text, done=_STAGE_PART.get(stage, 0.0))


def _failure(end: JobEnd, spec: BuildSpec, folder: Path) -> TrtbenchError:
    """Keep the log of a build that failed and say why it did."""
    told = end.error
    kept = Path(spec.output + LOG)
    source = folder / "build.log"
    if told is not None and told.kind not in _RECORDED:
        kind = ERROR_KINDS.get(told.kind, TrtbenchError)
        known: dict[str, object] = dict(told.facts)
        if told.kind == "InputError" and source.is_file():  # the parser refused: it says more there
            with contextlib.suppress(OSError):
                known["log"] = shutil.copyfile(source, kept)
        return kind(told.message, facts=known, fix=told.fix)
    with contextlib.suppress(OSError):
        shutil.copyfile(source if source.is_file() else folder / "log.txt", kept)
    facts: dict[str, object] = {"model": spec.model.name, "builder": spec.runtime}
    facts |= told.facts if told is not None else {}
    error = JobError(
        f"the engine was not built: {reason_from_end(end)}",
        facts={**facts, "stage": end.stage, "log": kept},
        fix=(told.fix if told is not None else None) or f"look into {kept}",
    )
    error.log_tail = end.log_tail
    return error
