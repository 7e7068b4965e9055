"""Builds engines with NVIDIA's trtexec, and checks that it wrote an engine."""

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from trtbench.analysis.findings.rules import crashed_builder
from trtbench.analysis.onnx_graph import RANDOM_DATA
from trtbench.convert.builders import _precision as precision
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, ParseError, TrtbenchError, UsageError
from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.run import Scalar
from trtbench.core.spec import BuildSpec
from trtbench.host import process
from trtbench.host.tensorrt import abilities_of_version
from trtbench.models.onnx_outline import outline_of
from trtbench.trtexec import conditions as log_conditions
from trtbench.trtexec import version as versions
from trtbench.trtexec.command import build_command

CHOSEN = 1
TAKES_ARGUMENTS = True
OPTIONS = {
    "binary": "path of trtexec (default: on PATH, or where NVIDIA's packages put it)",
    "version": "TensorRT version to write commands for where trtexec is not installed",
    "typing": "strong: use the types of the ONNX file",
    "calibration_items": "how many items to calibrate with at most (default: 256)",
    "sparsity": "disable, enable or force",
    "avg_timing": "how often a tactic is timed",
    "tempdir": "folder for temporary files",
}
"""The keys of ``--opt key=value``."""
NO_SCALES = f"trtexec makes up INT8 scales, as from {RANDOM_DATA}: no evidence of accuracy"
"""The warning for INT8 without a calibration cache and without a quantized model."""
PARSED = "Finished parsing network model"
LOG = "build.log"
METADATA = "build.metadata.json"
GRAPH = "graph.json"


available = process.trtexec_missing


def fix() -> str | None:
    return process.INSTALL


def tools() -> dict[str, str]:
    """Return path, size and time of the program, as its version takes a second to query."""
    try:
        binary = Path(process.trtexec_binary(None)).resolve()
    except TrtbenchError:
        return {}
    facts = binary.stat()
    return {"trtexec": f"{binary} {facts.st_size} {facts.st_mtime_ns}"}


def needs_types(options: Mapping[str, str]) -> bool:
    """Whether trtexec has no precision flags, as in TensorRT 11."""
    return _abilities(process.trtexec_binary(options.get("binary"))).has_inverted_defaults


@cache
def _abilities(binary: str) -> versions.TrtexecAbilities:
    return versions.abilities_from_help(process.help_text(binary), where=f"{binary} --help")


def device(spec: BuildSpec) -> str:
    """Return the device to lock, because the build times kernels."""
    given = [each for each in spec.extra_args if each.startswith("--device=")]
    return f"cuda:{given[-1].partition('=')[2]}" if given else spec.device or "cuda:0"


def command_lines(spec: BuildSpec) -> list[str]:
    """Return the command to paste; it writes layer information next to the engine."""
    target = versions.target_from_options(
        spec.options, find=process.trtexec_binary, ask=process.help_text
    )
    folder = Path(spec.output).parent
    plan = _types_plan(spec, abilities=target.abilities)
    step = plan.step if plan is not None else None
    model = Path(f"{spec.output}.{spec.precision}.onnx") if step else None
    typed = _typed_spec(spec, plan, model=model)
    command = build_command(typed, binary=target.binary, abilities=target.abilities, folder=folder)
    named = [each.replace(str(folder / GRAPH), f"{spec.output}.{GRAPH}") for each in command]
    notes = [target.note] if target.note else []
    notes += [f"# {text}" for text in _warnings(spec, typed, target.abilities.version)]
    notes += [f"# 1. {step}"] if step else []
    return [*notes, shlex.join(named)]


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    """Build one engine; its log, metadata and layers are written to the folder."""
    stage("load")
    binary = process.trtexec_binary(spec.options.get("binary"))
    abilities = _abilities(binary)
    abilities.refuse_unknown_flags(spec.extra_args)  # before the model is converted
    prepared = precision.PreparedModel(path=Path(spec.model.path))
    plan = _types_plan(spec, abilities=abilities)
    if plan is not None:
        prepared = precision.prepare_model(spec, plan, folder=folder, stage=stage)
    typed = _typed_spec(spec, plan, model=prepared.path)
    command = build_command(typed, binary=binary, abilities=abilities, folder=folder)
    warnings = _warnings(spec, typed, abilities.version)
    for text in warnings:
        stage.progress(0.0, text)
    log, rest = folder / LOG, ""

    def watch(text: str) -> None:
        nonlocal rest
        before, rest = rest, rest[-200:] + text
        if PARSED in rest and PARSED not in before:
            stage("build")

    end, engine = process.run_logged(command, log=log, on_text=watch), Path(spec.output)
    data = log.read_bytes()
    run = log_conditions.last_run(data, where=LOG)
    # trtexec may write the engine, print PASSED and crash on exit: the engine is valid.
    crashed = end.signal is not None and run is not None and run.outcome == "passed"
    if end.status != 0 and not crashed:
        newer = next((text for text in warnings if text != NO_SCALES), None)  # the opset
        fix = None if PARSED.encode() in data else newer
        raise log_conditions.error_from_log(
            f"trtexec {end.text}", data=data, status=end.code, fix=fix
        )
    _check_written(engine, log=data)
    shown = shlex.join(command)
    for ending in prepared.files:  # the final name of the typed model
        shown = shown.replace(str(prepared.path), f"{spec.output}{ending}")
    notes = (*warnings, *prepared.notes)
    unread = (*notes, "the log of trtexec could not be understood")
    outcome = BuildOutcome(command=shown, version=abilities.version, notes=unread)
    if run is not None:
        (folder / METADATA).write_bytes(
            json_from_value(log_conditions.build_metadata_from_log(run))
        )
        conditions = log_conditions.conditions_from_log(run)
        warned = [each.meaning for each in run.messages if each.level == "W" and each.meaning]
        known = msgspec.structs.asdict(run.facts).items()
        facts: dict[str, Scalar] = {k: v for k, v in known if isinstance(v, int | float | str)}
        outcome = outcome.having(
            version=run.version or abilities.version,
            build_s=run.facts.build_s,
            conditions={name: conditions[name] for name in ("typing", "precision", "tf32")},
            facts=facts,
            notes=(*notes, *(f"trtexec warns: {meaning}" for meaning in dict.fromkeys(warned))),
            findings=crashed_builder.findings(end.text) if crashed else (),
        )
    names = {".build.log": LOG, ".build.metadata.json": METADATA, ".graph.json": GRAPH}
    files = {ending: name for ending, name in names.items() if (folder / name).is_file()}
    return outcome.having(files={**files, **prepared.files})


def _check_written(engine: Path, *, log: bytes) -> None:
    """Raise an error if trtexec reported success and wrote no engine."""
    message = "trtexec ended with status 0 and did not write the engine"
    try:
        if engine.is_file() and engine.stat().st_size:
            versions.plan_from_file(engine, where=engine.name)
            return
    except ParseError as problem:
        message = f"trtexec wrote no engine: {problem.message}"
    raise log_conditions.error_from_log(message, data=log, status=0)


def _warnings(spec: BuildSpec, typed: BuildSpec, version: str | None) -> tuple[str, ...]:
    """Return warnings about an opset that is too new and about INT8 without scales."""
    try:
        outline = outline_of(Path(spec.model.path))
    except InputError:  # trtexec reports what is wrong with the file
        return ()
    found: list[str] = []
    if version is not None:
        known = abilities_of_version(version, flavour="tensorrt")
        found += precision.opset_warnings(outline, abilities=known)
    chosen = typed.precision in ("int8", "best") and typed.calibration_cache is None
    if chosen and typed.model.path == spec.model.path and "int8" not in outline.carried:
        found.append(NO_SCALES)
    return tuple(found)


def _types_plan(
    spec: BuildSpec, *, abilities: versions.TrtexecAbilities
) -> precision.PrecisionPlan | None:
    """Return the plan for a precision that needs typed models; ``None`` if a flag is enough."""
    wanted, is_strong = spec.precision, spec.options.get("typing") == "strong"
    is_typed = is_strong or abilities.has_inverted_defaults or wanted == "fp8"
    if wanted not in (None, *precision.FLAGS, "best"):
        return None
    if wanted is None and is_typed:  # the types of the file as they are
        return None
    try:
        carried = outline_of(Path(spec.model.path)).carried
    except InputError:
        if is_typed:
            raise
        return None  # trtexec reports what is wrong with the file
    version = abilities.version or ("11.0" if is_typed else "8.6")
    known = abilities_of_version(version, flavour="tensorrt")
    # Scales that trtexec makes up are for --int8 on a model without any.
    is_made_up = wanted in precision.QUANTIZED and wanted not in carried
    if is_typed or (carried and not is_made_up):
        return precision.precision_plan(spec, carried, abilities=known)
    return None


def _typed_spec(
    spec: BuildSpec, plan: precision.PrecisionPlan | None, *, model: Path | None
) -> BuildSpec:
    """Return the spec for trtexec, without settings that the typed model already includes."""
    is_strong = is_quantized = False
    more: list[str] = []  # the types of the model besides the precision
    if plan is not None:
        is_strong = plan.typing == "strong"
        if not is_strong and spec.precision != "best":
            more = [f"--{each.lower()}" for each in plan.flags if each.lower() != spec.precision]
        typed = plan.step is None or spec.precision in precision.QUANTIZED
        is_quantized = typed and not plan.calibrate
    calibration = None if is_quantized else spec.calibration
    refused = {
        "several optimization profiles": spec.more_profiles,
        "calibration with data": calibration,
        "other GPUs as targets": " ".join(spec.targets),
    }
    for what, given in refused.items():
        if given:
            fix = None
            if given is calibration:
                quantize = f"trtbench quantize {shlex.quote(spec.model.path)} --precision int8"
                fix = f"-r tensorrt, or first: {quantize} --data {shlex.quote(str(given))}"
            raise UsageError(f"trtexec has no flag for {what}", facts={"requested": given}, fix=fix)
    used = {"version"} | ({"calibration_items"} if is_quantized else set())  # not of trtexec
    options = {key: value for key, value in spec.options.items() if key not in used}
    default = "tf32" if more else None
    return spec.having(
        model=spec.model.having(path=str(model)) if model else spec.model,
        precision=None if is_strong else spec.precision or default,
        extra_args=(*(each for each in more if each not in spec.extra_args), *spec.extra_args),
        calibration=calibration,
        options={**options, "typing": "strong"} if is_strong else options,
    )
