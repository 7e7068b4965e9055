"""Builds engines with NVIDIA's trtexec; success needs an engine, not only status 0."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from trtbench.analysis.findings import Evidence, findings_from_evidence
from trtbench.analysis.onnx_stamp import RANDOM_DATA
from trtbench.build.builders import _precision
from trtbench.build.builders._failures import too_new
from trtbench.build.builders._precision import (
    FLAGS,
    QUANTIZED,
    PrecisionPlan,
    PrecisionStep,
    PrecisionWish,
    precision_plan,
    quantized_ahead,
)
from trtbench.build.builders._prepare import PreparedModel, made_ahead, prepare_model
from trtbench.domain.codec import json_from_value
from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.result import Scalar
from trtbench.domain.spec import BuildSpec
from trtbench.errors import InputError, ParseError, TrtbenchError, UsageError
from trtbench.host.process import Exit
from trtbench.host.programs import (
    INSTALL,
    ended_how,
    help_text,
    run_logged,
    status_of,
    trtexec_binary,
    trtexec_missing,
)
from trtbench.host.tensorrt import abilities_of_version
from trtbench.models.onnx_outline import outline_of
from trtbench.trtexec.command import (
    TrtexecAbilities,
    abilities_from_help,
    build_command,
    load_command,
    text_from_command,
)
from trtbench.trtexec.conditions import conditions_from_log
from trtbench.trtexec.failure import failure, last_run
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.metadata import build_metadata_from_log
from trtbench.trtexec.plan import HEADER_BYTES, plan_from_bytes
from trtbench.trtexec.target import target_from_options

CHOSEN = 1
OPTIONS = {
    "binary": "path of trtexec (default: on PATH, or where NVIDIA's packages put it)",
    "version": "TensorRT version to write commands for where trtexec is not installed",
    "typing": "strong: the types of the ONNX file hold",
    "quantizer": "modelopt: NVIDIA ModelOpt quantizes to int8, as it does to fp8",
    "modelopt": "interpreter that has it (default: runtimes.modelopt.python in trtbench.toml)",
    "calibration_items": "how many items to calibrate with at most (default: 256)",
    "sparsity": "disable, enable or force",
    "avg_timing": "how often a tactic is timed",
    "tempdir": "folder for temporary files",
}
"""What ``--opt key=value`` may set."""
STEP_OPTIONS = ("quantizer", "modelopt", "calibration_items")
"""Options of a quantization, which trtexec itself must not see."""

MADE_UP = f"trtexec makes up INT8 scales, as from {RANDOM_DATA}: no evidence of accuracy"
"""It does so whenever it is given neither a cache nor a quantized model."""

LOG = "build.log"
LOAD_LOG = "load.log"
METADATA = "build.metadata.json"
GRAPH = "graph.json"


def available() -> str | None:
    return trtexec_missing()


def fix() -> str | None:
    return INSTALL


def tools() -> dict[str, str]:
    """Tell the program by its file: asking it for a version takes a second."""
    try:
        binary = Path(trtexec_binary(None)).resolve()
    except TrtbenchError:
        return {}
    facts = binary.stat()
    return {"trtexec": f"{binary} {facts.st_size} {facts.st_mtime_ns}"}


def needs_types(options: Mapping[str, str]) -> bool:
    """Ask trtexec whether it still takes precisions; that of TensorRT 11 does not."""
    return _only_typed(trtexec_binary(options.get("binary")))


@cache
def _only_typed(binary: str) -> bool:
    return abilities_from_help(help_text(binary), where=f"{binary} --help").inverted


def device(spec: BuildSpec) -> str:
    """Name the device, which building needs for itself: it times kernels."""
    given = [each for each in spec.extra_args if each.startswith("--device=")]
    return f"cuda:{given[-1].partition('=')[2]}" if given else "cuda:0"


def command_lines(spec: BuildSpec) -> list[str]:
    """Tell what would be run, ready to paste; layer information goes beside the engine."""
    target = target_from_options(spec.options, find=trtexec_binary, ask=help_text)
    folder = Path(spec.output).parent
    plan = types_plan(spec, abilities=target.abilities)
    steps = plan.steps if plan is not None else ()
    model = Path(f"{spec.output}.{spec.precision}.onnx") if steps else None
    told = told_spec(spec, plan, model=model) if plan is not None else spec
    command = build_command(
        _passed_on(told), binary=target.binary, abilities=target.abilities, folder=folder
    )
    beside = f"{spec.output}.{GRAPH}"
    named = [each.replace(str(folder / GRAPH), beside) for each in command]
    notes = [*([target.note] if target.note else [])]
    notes += [f"# {text}" for text in _said_before(spec, told, target.abilities.version)]
    notes += [f"# {number}. {step.text}" for number, step in enumerate(steps, start=1)]
    return [*notes, text_from_command(named)]


def step_ahead(spec: BuildSpec) -> PrecisionStep | None:
    """Tell what NVIDIA ModelOpt does to the model before trtexec is started, if anything."""
    wanted = spec.precision == "fp8" or "quantizer" in spec.options
    return _precision.step_ahead(_asked(spec, strong=False)) if wanted else None


def build(spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
    """Build one engine; its log, metadata and layers are left in the folder."""
    stage("load")
    binary = trtexec_binary(spec.options.get("binary"))
    abilities = abilities_from_help(help_text(binary), where=f"{binary} --help")
    told, prepared = typed_spec(spec, abilities=abilities, folder=folder, stage=stage)
    command = build_command(_passed_on(told), binary=binary, abilities=abilities, folder=folder)
    said = _said_before(spec, told, abilities.version)
    for text in said:
        stage.progress(0.0, text)
    log = folder / LOG
    end = run_logged(command, log=log, on_text=_Progress(stage))
    data = log.read_bytes()
    crashed = _crashed_leaving(end, data)
    _demand_success(end, data, Path(spec.output), tolerant=crashed)
    if crashed:
        _demand_loads(load_command(told, binary=binary, abilities=abilities), end, data, folder)
    run = last_run(data, where=LOG)
    if run is not None:
        document = json_from_value(build_metadata_from_log(run))
        (folder / METADATA).write_bytes(document)
    made = _outcome(run, abilities, command, folder)
    return made.having(
        command=_with_kept(made.command, spec, prepared),
        files={**made.files, **prepared.files},
        notes=(*said, *prepared.notes, *made.notes),
        findings=findings_from_evidence(Evidence(crashed=ended_how(end))) if crashed else (),
    )


def _with_kept(command: str | None, spec: BuildSpec, prepared: PreparedModel) -> str | None:
    """Have the command name the typed model as it is kept beside the engine."""
    if command is None or not prepared.files:
        return command
    (ending,) = prepared.files
    return command.replace(str(prepared.path), f"{spec.output}{ending}")


def _said_before(spec: BuildSpec, told: BuildSpec, version: str | None) -> tuple[str, ...]:
    """Tell what is newer than that version documents, and of scales that nobody measured."""
    try:
        outline = outline_of(Path(spec.model.path))
    except InputError:  # trtexec itself says what is wrong with the file
        return ()
    said: list[str] = []
    if version is not None:
        said += too_new(outline, abilities=abilities_of_version(version, flavour="tensorrt"))
    chosen = told.precision in ("int8", "best") and told.calibration_cache is None
    if chosen and told.model.path == spec.model.path and "int8" not in outline.carried:
        said.append(MADE_UP)
    return tuple(said)


class _Progress:
    """Tells when parsing is over and building begins."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._builds = False
        self._rest = ""

    def __call__(self, text: str) -> None:
        self._rest = self._rest[-200:] + text
        if not self._builds and "Finished parsing network model" in self._rest:
            self._builds = True
            self._stage("build")


def _passed_on(spec: BuildSpec) -> BuildSpec:
    """Refuse what trtexec has no words for; leave out the options that are not its to know."""
    refused = {
        "several optimization profiles": spec.more_profiles,
        "calibration with data": spec.calibration,
        "other GPUs as targets": spec.targets,
    }
    for what, given in refused.items():
        if given:
            quantize = f"trtbench quantize {shlex.quote(spec.model.path)} --precision int8"
            raise UsageError(
                f"trtexec cannot be asked for {what}",
                facts={"asked for": given},
                fix=f"-r tensorrt, or first: {quantize} --calibration {shlex.quote(str(given))}"
                if given is spec.calibration
                else None,
            )
    kept = {key: value for key, value in spec.options.items() if key != "version"}
    return spec.having(options=kept)


def _crashed_leaving(end: Exit, data: bytes) -> bool:
    """Say whether trtexec said PASSED, and a signal ended it after that."""
    run = last_run(data, where=LOG)
    return end.signal is not None and run is not None and run.outcome == "passed"


def _demand_loads(command: list[str], end: Exit, data: bytes, folder: Path) -> None:
    """Refuse an engine that a fresh trtexec cannot load and run: it is not whole."""
    log = folder / LOAD_LOG
    again = run_logged(command, log=log)
    told = last_run(log.read_bytes(), where=LOAD_LOG)
    if again.status == 0 and told is not None and told.outcome == "passed":
        return
    raise failure(
        f"trtexec {ended_how(end)} after its log said PASSED, and a fresh one cannot load the "
        f"engine ({ended_how(again)})",
        data=data,
        status=status_of(end),
    )


def _demand_success(end: Exit, data: bytes, engine: Path, *, tolerant: bool = False) -> None:
    if end.status != 0 and not tolerant:
        raise failure(f"trtexec {ended_how(end)}", data=data, status=status_of(end))
    if not engine.is_file() or engine.stat().st_size == 0:
        message = "trtexec ended with status 0 and did not write the engine"
        raise failure(message, data=data, status=0)
    with open(engine, "rb") as file:
        head = file.read(HEADER_BYTES)
    try:
        plan_from_bytes(head, where=engine.name)
    except ParseError as problem:
        raise failure(f"trtexec wrote no engine: {problem.message}", data=data, status=0) from None


def _outcome(
    run: LogRun | None, abilities: TrtexecAbilities, command: list[str], folder: Path
) -> BuildOutcome:
    names = {".build.log": LOG, ".build.metadata.json": METADATA, ".graph.json": GRAPH}
    files = {ending: name for ending, name in names.items() if (folder / name).is_file()}
    text = text_from_command(command)
    if run is None:
        note = "the log of trtexec could not be understood"
        return BuildOutcome(command=text, version=abilities.version, files=files, notes=(note,))
    facts: dict[str, Scalar] = {
        name: value
        for name, value in msgspec.structs.asdict(run.facts).items()
        if isinstance(value, int | float | str) and value is not False
    }
    conditions = conditions_from_log(run)
    warnings = [
        each.meaning
        for each in run.messages
        if each.level == "W" and each.meaning and each.code != "timing-cache-new"
    ]
    return BuildOutcome(
        command=text,
        version=run.version or abilities.version,
        build_s=run.facts.build_s,
        conditions={name: conditions[name] for name in ("typing", "precision", "tf32")},
        facts=facts,
        files=files,
        notes=tuple(f"trtexec warns: {meaning}" for meaning in dict.fromkeys(warnings)),
    )


def types_plan(
    spec: BuildSpec, *, abilities: TrtexecAbilities, ahead: bool = False
) -> PrecisionPlan | None:
    """Plan a precision that the types of the model must carry; ``None`` where a flag says it."""
    typed = abilities.inverted or spec.options.get("typing") == "strong"
    quantized = spec.precision == "fp8" or "quantizer" in spec.options
    if spec.precision not in (*FLAGS, "best") or not (typed or quantized):
        return None
    known = abilities_of_version(abilities.version or "11.0", flavour="tensorrt")
    asked = _asked(spec, strong=typed)
    return precision_plan(quantized_ahead(asked) if ahead else asked, abilities=known)


def _asked(spec: BuildSpec, *, strong: bool) -> PrecisionWish:
    return PrecisionWish(
        precision=spec.precision,
        model=spec.model.path,
        carried=outline_of(Path(spec.model.path)).carried,
        calibration=spec.calibration is not None or spec.calibration_cache is not None,
        strong=strong,
        data=spec.calibration is not None,
        quantizer=spec.options.get("quantizer"),
        modelopt=spec.options.get("modelopt"),
    )


def typed_spec(
    spec: BuildSpec, *, abilities: TrtexecAbilities, folder: Path, stage: Stage
) -> tuple[BuildSpec, PreparedModel]:
    """Do the steps, and give the spec that trtexec is to be told."""
    ahead = made_ahead(folder)
    plan = types_plan(spec, abilities=abilities, ahead=ahead is not None)
    if plan is None:
        return spec, PreparedModel(path=Path(spec.model.path))
    prepared = prepare_model(spec, plan, folder=folder, stage=stage)
    return told_spec(spec, plan, model=prepared.path), prepared


def told_spec(spec: BuildSpec, plan: PrecisionPlan, *, model: Path | None = None) -> BuildSpec:
    """Leave out what the types of the model say by now."""
    strong = plan.typing == "strong"
    quantized = any(step.precision in QUANTIZED for step in plan.steps) or not plan.steps
    used = STEP_OPTIONS if quantized else ()
    options = {key: value for key, value in spec.options.items() if key not in used}
    reference = spec.model.having(path=str(model)) if model else spec.model
    return spec.having(
        model=reference,
        precision=None if strong else spec.precision,
        calibration=None if quantized else spec.calibration,
        options={**options, "typing": "strong"} if strong else options,
    )
