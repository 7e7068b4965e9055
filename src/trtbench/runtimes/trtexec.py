"""Runs engines with the program trtexec; its files give the times, its log the conditions.

Missing files are an error: trtexec also exits with status 0 if it only printed its help.
"""

import shlex
import shutil
import time
from contextlib import suppress
from pathlib import Path

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, ParseError, UsageError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.run import LaunchFacts, Scalar
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, Protocol, RunSpec, ShapeProfile, TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host import process as programs
from trtbench.models.identity import record_of_engine
from trtbench.models.onnx_outline import UNKNOWN_TYPE, outline_of
from trtbench.models.open_sizes import shapes_of
from trtbench.runtimes._session import items_per_query, resolve_shapes
from trtbench.trtexec import conditions
from trtbench.trtexec.command import bench_command, check_run
from trtbench.trtexec.exports import graph_from_json, profiles_from_json
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.times import read_times, times_from_arrays
from trtbench.trtexec.version import TrtexecAbilities, abilities_from_help, target_from_options

FORMATS = ("engine", "onnx")
CHOSEN_FOR = {"engine": 2}
FLAVOUR = "tensorrt"
EXECUTES_ENGINES = True
TAKES_PRECISION = False
TAKES_ARGUMENTS = True
DEFAULT_PROTOCOL: Protocol = "pipeline"  # the default of trtexec, which does not support `serve`
DEFAULT_PROFILE = True

OPTIONS = {
    "binary": "path of trtexec (default: on PATH, or where NVIDIA's packages put it)",
    "version": "TensorRT version to write commands for where trtexec is not installed",
    "avg_runs": "runs per line of averages in the log (default: 10)",
    "percentile": "percentiles that trtexec prints (default: 90,95,99)",
    "sleep_time": "milliseconds between enqueuing and computing (default: 0)",
    "load_inputs": "raw inputs as NAME:FILE, comma separated (default: random)",
    "plugins": "plugin libraries, comma separated",
    "verbose": "on or off: everything TensorRT has to say in the log (default: off)",
    "typing": "strong: use the types of the ONNX file (default: as the version does)",
}
CONDITIONS = ("avg_runs", "percentile", "sleep_time", "typing")
TRAVELS = {"plugins": "files", "load_inputs": "files"}

LOG = "trtexec_stdout.log"

available = programs.trtexec_missing
check = check_run


def fix() -> str | None:
    return programs.INSTALL


def device(spec: RunSpec) -> str:
    return spec.device or "cuda:0"


def command_lines(spec: RunSpec) -> list[str]:
    """Return the commands that would be run, ready to paste; they write to the working folder."""
    target = target_from_options(spec.options, find=programs.trtexec_binary, ask=programs.help_text)
    command = _command(spec, target.binary, target.abilities, ".")
    return [*([target.note] if target.note else []), shlex.join(command)]


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch; trtexec writes its files and its log to the folder."""
    stage("load")
    binary = programs.trtexec_binary(spec.options.get("binary"))
    abilities = abilities_from_help(programs.help_text(binary), where=f"{binary} --help")
    command = _command(spec, binary, abilities, folder)
    warmup_s = spec.warmup.floor.seconds or 0.0
    reached, started, rest = "load", 0.0, ""

    def watch(text: str) -> None:
        """Report stages as they appear in the log; the end of warm-up by time, too."""
        nonlocal reached, started, rest
        rest = rest[-200:] + text
        if reached == "load" and "Starting inference" in rest:
            reached, started = "warm-up", time.monotonic()
            stage(reached)
        waited = time.monotonic() - started >= warmup_s
        if reached == "warm-up" and (waited or "Timing trace has" in rest):
            reached = "measure"
            stage(reached)
        if reached == "measure" and spec.profile and "Explanations of the performance" in rest:
            reached = "profile"
            stage(reached)

    end = programs.run_logged(command, log=folder / LOG, on_text=watch)
    data = (folder / LOG).read_bytes()
    run = conditions.last_run(data, where=LOG)
    result = run.outcome if run is not None else None
    files = ["times.json", *(["profile.json"] if spec.profile else [])]
    missing = [name for name in files if not _has_content(folder / name)]
    problem = None
    if end.status != 0:
        problem = end.text + (", but its log says PASSED" if result == "passed" else "")
    elif result == "failed":
        problem = "ended with status 0, but its log says FAILED"
    elif missing:
        problem = f"ended with status 0, but did not write {' and '.join(missing)}"
    if problem is not None:
        raise conditions.error_from_log(f"trtexec {problem}", data=data, status=end.code)
    try:  # a damaged file is an error of trtexec, not of the user
        with open(folder / "times.json", "rb") as file:
            found = read_times(file, where="times.json", warmup_ms=warmup_s * 1e3)
            times = times_from_arrays(found)
        if spec.profile:
            profiles_from_json((folder / "profile.json").read_bytes(), where="profile.json")
        if _has_content(folder / "graph.json"):
            graph_from_json((folder / "graph.json").read_bytes(), where="graph.json")
    except ParseError as damage:
        raise conditions.error_from_log(
            f"trtexec wrote a file that cannot be read: {damage.message}",
            data=data,
            status=end.code,
            facts=dict(damage.facts),
        ) from None
    if run is not None:
        profiled = json_from_value(conditions.profile_metadata_from_log(run))
        (folder / "profile.metadata.json").write_bytes(profiled)
        if spec.model.format == "onnx":
            built = json_from_value(conditions.build_metadata_from_log(run))
            (folder / "build.metadata.json").write_bytes(built)
    for name in ("build.metadata.json", "build.log"):
        record = Path(f"{spec.model.path}.{name}")
        if spec.model.format == "engine" and record.is_file():
            shutil.copyfile(record, folder / name)
    outcome = _outcome(spec, run, abilities, command, folder)
    step_s = found[0].enqueue_resolution_s
    if step_s is not None:  # the resolution of its enqueue times is low
        outcome = outcome.having(evidence={**outcome.evidence, "enqueue_resolution_s": step_s})
    return outcome, times


def _command(
    spec: RunSpec, binary: str, abilities: TrtexecAbilities, folder: Path | str
) -> list[str]:
    given, found = spec.options.get("version"), abilities.version
    if given and found and not f"{found}.".startswith(f"{given}."):
        fix = "leave out --opt version, or name another trtexec with --opt binary=PATH"
        raise UsageError(f"trtexec here belongs to TensorRT {found}, not {given}", fix=fix)
    if spec.profile and not spec.separate_profile_run and abilities.at_least(8, 4):
        message = "since TensorRT 8.4, trtexec reports no times if the profiler is in the timed run"
        facts = {"trtexec": f"TensorRT {found}"}
        raise UsageError(message, facts=facts, fix="use a separate profile run, or --no-profile")
    # Give all shapes of an ONNX file, or of a batch: trtexec would use 1 for dynamic dimensions.
    by_batch = spec.batch is not None or spec.model.format == "onnx"
    tensors = inputs_of(spec.model, spec.profile_index) if by_batch else ()
    settled = shapes_of(resolve_shapes(tensors, spec).tensors) if tensors else {}
    resolved = {each.name: settled[each.name] for each in tensors if not each.is_static}
    spans = shape_profiles(spec.model, spec.profile_index)
    if spec.batch is not None:  # other dimensions may be dynamic even if the batch is fixed
        dynamic = {name: span.opt for name, span in spans.items() if span.min != span.max}
        resolved = dynamic | resolved
    shapes = {**resolved, **spec.shapes}
    for name, shape in shapes.items():
        span = spans.get(name)
        if span is None or len(span.min) != len(shape):
            continue
        if any(not a <= b <= c for a, b, c in zip(span.min, shape, span.max, strict=True)):
            raise InputError(
                f"the engine was not built for {name} of {text_from_shape(shape)}",
                facts={"least": text_from_shape(span.min), "most": text_from_shape(span.max)},
                fix="build it with --shape-min and --shape-max that include this shape",
            )
    options = {key: value for key, value in spec.options.items() if key != "version"}
    spec = spec.having(options=options, shapes=shapes)
    return bench_command(spec, binary=binary, abilities=abilities, folder=folder)


def shape_profiles(model: ModelRef, profile: int = 0) -> dict[str, ShapeProfile]:
    """Return the shapes that an engine was built for, from its record; empty without one."""
    record = record_of_engine(model)
    if record is None:
        return {}
    more = record.spec.more_profiles[profile - 1 : profile] if profile else ()
    return {**record.spec.shapes, **(more[0] if more else {})}


def inputs_of(model: ModelRef, profile: int = 0) -> tuple[TensorSpec, ...]:
    """Return the inputs of a model, for an engine from its record; empty if unknown."""
    if model.format == "onnx":
        with suppress(InputError):  # trtexec reports errors in the file
            return outline_of(Path(model.path)).inputs
    return tuple(
        TensorSpec(
            name=name,
            dtype=UNKNOWN_TYPE,
            shape=(span.opt[0] if span.min[:1] == span.max[:1] else "batch", *span.opt[1:]),
        )
        for name, span in shape_profiles(model, profile).items()
        if span.opt
    )


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _outcome(
    spec: RunSpec, run: LogRun | None, abilities: TrtexecAbilities, command: list[str], folder: Path
) -> BenchOutcome:
    reported: dict[str, Scalar] = {"command": shlex.join(command), "binary": command[0]}
    declared = inputs_of(spec.model, spec.profile_index)
    notes = []
    if spec.model.format == "onnx":
        notes.append("trtexec built an engine from the ONNX file for this run and did not keep it")
        assumed = resolve_shapes(declared, spec).note
        notes += [assumed] if assumed else []
    if spec.batch is not None and not declared:
        notes.append(f"batch {spec.batch} was not passed on: the shapes of the engine decide")
    if spec.profile and not _has_content(folder / "graph.json"):
        notes.append("trtexec wrote no layer information")
    if run is None:
        notes.append("the log of trtexec could not be parsed: conditions are those requested")
        return BenchOutcome(facts=LaunchFacts(), reported=reported, notes=tuple(notes))
    warnings = [each.meaning for each in run.messages if each.level == "W" and each.meaning]
    notes += [f"trtexec warns: {meaning}" for meaning in warnings]
    loaded = [t for t in (run.facts.load_s, run.facts.deserialize_s) if t is not None]
    version = run.version or abilities.version
    return BenchOutcome(
        facts=LaunchFacts(
            load_s=sum(loaded) if loaded else None,
            warmup_s=spec.warmup.floor.seconds,
            warmup_iterations=run.warmup_queries,
            wall_s=run.summary.wall_s if run.summary else run.trace_s,
        ),
        inputs=run.inputs,
        outputs=run.outputs,
        conditions=conditions.conditions_from_log(run),
        versions={"tensorrt": version} if version else {},
        notes=tuple(dict.fromkeys(notes)),
        reported={**conditions.reported_from_log(run), **reported},
        evidence=conditions.warnings_from_log(run)
        | items_per_query(declared, run.inputs, batch=spec.batch),
    )
