"""Build an engine: made under another name, and in its place only when it is whole."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trtbench.analysis.inspection import parameters_of
from trtbench.analysis.onnx_stamp import PREPARATION, text_from_preparation
from trtbench.build.builders import BUILDERS
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import count_parameters, input_specs
from trtbench.build.quantize_data import RANDOM, item_limit
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.job import PROGRESS_MARK, BuildJob, BuildOutcome, JobEnd
from trtbench.domain.result import Environment, Scalar
from trtbench.domain.spec import BuildSpec
from trtbench.errors import (
    ERROR_KINDS,
    InputError,
    JobError,
    ParseError,
    TrtbenchError,
    UnavailableError,
    UsageError,
    write_error,
)
from trtbench.executors.local import check_interpreter, run_job
from trtbench.host.environment import read_environment
from trtbench.host.locks import hold
from trtbench.models.identity import demand_unchanged, model_ref, sha256_of
from trtbench.store.directory import now, remove_abandoned, scratch_directory
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.plan import HEADER_BYTES, plan_from_bytes
from trtbench.workflows.make.build_difference import difference_note
from trtbench.workflows.make.build_shapes import (
    InputShapes,
    Shapes,
    all_profiles,
    profiles_from_shapes,
    spans_of_batches,
)
from trtbench.workflows.make.calibration_images import refuse_without_task, task_items
from trtbench.workflows.make.conversion import refuse_folder
from trtbench.workflows.make.modelopt import modelopt_option, quantize_ahead
from trtbench.workflows.measure.failure import CHANGED, end_with_same_bytes, reason_from_end
from trtbench.workflows.measure.model_notes import preparation_of_onnx, stamps_of_onnx
from trtbench.workflows.request.choice import default_builder
from trtbench.workflows.request.conduct import TICK_S, Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.progress import Event

__all__ = ["build_spec", "profiles_from_shapes", "run_build"]

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


def build_spec(
    model: str | Path,
    *,
    config: Config,
    output: str | Path | None = None,
    builder: str | None = None,
    shapes_min: Shapes | Sequence[Shapes] | None = None,
    shapes_opt: Shapes | Sequence[Shapes] | None = None,
    shapes_max: Shapes | Sequence[Shapes] | None = None,
    input_shapes: InputShapes = (),
    timing_cache: str | Path | bool | None = None,
    options: Mapping[str, str] | None = None,
    **rest: Any,
) -> BuildSpec:
    """Settle a build; the timing cache lies beside the engine unless told otherwise.

    Shapes are those of one optimization profile, or a list of them, one for each profile.
    ``input_shapes`` pairs names (``None`` where there is one input) with shapes in which -1 is a
    batch of 1 to 256.
    """
    reference = model_ref(Path(model))
    name = builder or default_builder(config, options or {})
    module = BUILDERS.load(name)
    keeps_timings = module.TIMING_CACHE
    if reference.format not in ("onnx", "unknown"):
        raise UsageError(
            "engines are built from ONNX files",
            facts={"file": reference.name, "format": reference.format},
        )
    engine = Path(output or Path(model).with_suffix(".engine")).absolute()
    refuse_folder(engine, name=Path(model).with_suffix(".engine").name)
    if engine == Path(reference.path):
        raise UsageError("the engine would overwrite the model", fix="-o model.engine")
    beside = timing_cache is True or (timing_cache is None and keeps_timings)
    cache = f"{engine}{CACHE}" if beside else timing_cache
    first, *more = all_profiles(shapes_min, shapes_opt, shapes_max)
    given = {**config.options_for(name), **(options or {})}
    precision = rest.get("precision")
    known = modelopt_option(module, config=config, precision=precision, options=given)
    refuse_without_task(rest.get("calibration"), rest.get("task"))
    return BuildSpec(
        model=reference,
        output=str(engine),
        runtime=name,
        shapes={**spans_of_batches(input_shapes, Path(reference.path)), **first},
        more_profiles=tuple(more),
        timing_cache=str(Path(str(cache)).absolute()) if cache else None,
        options={**known, **given},
        **{key: _anywhere(key, value) for key, value in rest.items() if value is not None},
    )


def _anywhere(key: str, value: Any) -> Any:
    """Make paths independent of the working folder, so that a record can be repeated elsewhere."""
    if key == "calibration_cache" or (key == "calibration" and value != "random"):
        return str(Path(value).absolute())
    if key == "plugins":
        return tuple(str(Path(path).absolute()) for path in value)
    return value


def run_build(spec: BuildSpec, *, conduct: Conduct | None = None) -> Artefact:
    """Build an engine in a child process; a build that fails leaves its log and no engine."""
    conduct = conduct or Conduct()
    if conduct.python is not None:
        check_interpreter(conduct.python)
    engine = Path(spec.output)
    device = BUILDERS.load(spec.runtime).device(spec)
    environment = read_environment(command=conduct.command, folder=Path.cwd())
    try:
        engine.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(engine.parent)
        with (
            hold(
                device, what=conduct.command or f"trtbench build {engine.name}", wait=conduct.wait
            ),
            scratch_directory(engine.parent) as folder,
        ):
            return _carry_out(spec, folder, environment, conduct)
    except OSError as problem:
        raise write_error(engine, problem) from None


def _carry_out(
    spec: BuildSpec, folder: Path, environment: Environment, conduct: Conduct
) -> Artefact:
    engine = Path(spec.output)
    demand_unchanged(spec.model)
    spec = with_arrays(spec, folder)
    inner = _inside(spec, folder)
    builder = BUILDERS.load(spec.runtime)
    ahead, ahead_s = quantize_ahead(builder, spec, folder=folder, conduct=conduct)
    end = run_job(
        BuildJob(spec=inner),
        folder=folder,
        python=conduct.python,
        timeout_s=conduct.timeout_s or PATIENCE_S,
        memory_bytes=conduct.memory_bytes,
        on_stage=lambda stage: conduct.listen(_event(stage)),
        tick_s=TICK_S,
        on_tick=lambda: conduct.listen(Event(kind="tick", text="")),
    )
    end = end_with_same_bytes(end, spec.model)
    if not end.ok:
        raise _failure(end, spec, folder)
    path = folder / "outcome.json"
    outcome = value_from_json(path.read_bytes(), BuildOutcome, where=str(path))
    apart = difference_note(spec, folder=folder, conduct=conduct)
    notes = (*ahead, *outcome.notes, *([apart] if apart else []))
    outcome = msgspec.structs.replace(outcome, notes=notes)
    end = msgspec.structs.replace(end, seconds=end.seconds + ahead_s)
    artefact = _artefact(spec, Path(inner.output), outcome, end, environment, folder)
    _put_in_place(spec, inner, outcome, folder)
    beside = engine.with_name(f"{engine.name}.json")
    beside.write_bytes(json_from_value(artefact))
    return artefact


def with_arrays(spec: BuildSpec, folder: Path) -> BuildSpec:
    """Have the task make arrays of the images to calibrate with, and keep how it did so."""
    source = spec.calibration
    if source in (None, RANDOM) or not Path(str(source)).is_dir():
        return spec
    assert spec.task is not None  # refused before
    inputs = [
        msgspec.structs.replace(each, shape=spec.shapes[each.name].opt)
        if each.name in spec.shapes
        else each
        for each in input_specs(load_onnx(Path(spec.model.path), weights=False))
    ]
    items, prepared = task_items(
        str(source), inputs, task=spec.task, settings=spec.task_settings,
        limit=item_limit(spec), seed=0,
    )  # fmt: skip
    arrays = folder / IMAGES
    np.savez(arrays, **items.rows)  # type: ignore[arg-type]
    return msgspec.structs.replace(spec, calibration_arrays=str(arrays), prepared=prepared)


def _inside(spec: BuildSpec, folder: Path) -> BuildSpec:
    """Have the engine and the timing cache written in the scratch folder."""
    inner = msgspec.structs.replace(spec, output=str(folder / Path(spec.output).name))
    if spec.timing_cache is None:
        return inner
    cache = folder / "timing.cache"
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(spec.timing_cache, cache)
    return msgspec.structs.replace(inner, timing_cache=str(cache))


def _put_in_place(spec: BuildSpec, inner: BuildSpec, outcome: BuildOutcome, folder: Path) -> None:
    """Move what was made to where it belongs, the engine last."""
    engine = Path(spec.output)
    for ending, name in outcome.files.items():
        (folder / name).replace(engine.with_name(engine.name + ending))
    if spec.timing_cache and inner.timing_cache and Path(inner.timing_cache).is_file():
        target = Path(spec.timing_cache)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(inner.timing_cache, target)
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
        spec=msgspec.structs.replace(spec, calibration_arrays=None),
        tensorrt=outcome.version,
        plan=_plan_version(made),
        command=_with_final_names(outcome.command, spec, folder),
        build_s=outcome.build_s,
        wall_s=end.seconds,
        gpus=environment.gpus,
        host=environment.host,
        conditions=outcome.conditions,
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
    if stage.startswith(PROGRESS_MARK):
        done, _, text = stage.removeprefix(PROGRESS_MARK).partition(" ")
        begin, end = _STAGE_PART["build"], _STAGE_PART["save"]
        return Event(kind="stage", text=text, done=begin + (end - begin) * float(done))
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
