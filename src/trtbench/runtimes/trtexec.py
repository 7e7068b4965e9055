"""Runs engines with NVIDIA's trtexec, a program: its files are the measurement, its log the facts.

Success needs the files: trtexec also ends with status 0 when it has only printed its help.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trtbench.domain.codec import json_from_value
from trtbench.domain.job import BenchOutcome, Stage
from trtbench.domain.result import LaunchFacts, Scalar
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import ModelRef, Protocol, RunSpec, ShapeProfile, TensorSpec
from trtbench.errors import InputError, ParseError, ProgramError, UsageError
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
from trtbench.models.onnx_outline import UNTOLD, outline_of
from trtbench.models.sidecar import record_of_engine
from trtbench.runtimes._session import assumed_of, items_counted, shapes_of_batch
from trtbench.trtexec.command import (
    TrtexecAbilities,
    abilities_from_help,
    bench_command,
    text_from_command,
)
from trtbench.trtexec.conditions import conditions_from_log
from trtbench.trtexec.failure import failure, last_run
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.metadata import build_metadata_from_log, profile_metadata_from_log
from trtbench.trtexec.profile import profile_from_json
from trtbench.trtexec.reported import reported_from_log, tensors_from_log, warnings_from_log
from trtbench.trtexec.target import target_from_options
from trtbench.trtexec.times import read_times, times_from_file
from trtbench.units import text_from_shape

FORMATS = ("engine", "onnx")
CHOSEN_FOR = {"engine": 2}
FLAVOUR = "tensorrt"
EXECUTES_ENGINES = True
TAKES_PRECISION = False
TAKES_ARGUMENTS = True
DEFAULT_PROTOCOL: Protocol = "pipeline"
"""What trtexec does unless it is told otherwise; it cannot do ``serve``."""
DEFAULT_PROFILE = True
"""Layers are timed too, in a pass of their own."""

OPTIONS = {
    "binary": "path of trtexec (default: on PATH, or where NVIDIA's packages put it)",
    "version": "TensorRT version to write commands for where trtexec is not installed",
    "avg_runs": "runs per line of averages in the log (default: 10)",
    "percentile": "percentiles that trtexec prints (default: 90,95,99)",
    "sleep_time": "milliseconds between enqueuing and computing (default: 0)",
    "load_inputs": "raw inputs as NAME:FILE, comma separated (default: random)",
    "plugins": "plugin libraries, comma separated",
    "verbose": "on or off: everything TensorRT has to say in the log (default: off)",
    "typing": "strong: the types of the ONNX file hold (default: as the version does)",
}
"""What ``--opt key=value`` may set."""
TRAVELS = {"plugins": "files", "load_inputs": "files"}

LOG = "trtexec_stdout.log"

_OURS = ("version",)


def available() -> str | None:
    return trtexec_missing()


def fix() -> str | None:
    return INSTALL


def device(spec: RunSpec) -> str:
    return spec.device or "cuda:0"


def command_lines(spec: RunSpec) -> list[str]:
    """Tell what would be run, ready to paste; files go to the working folder."""
    target = target_from_options(spec.options, find=trtexec_binary, ask=help_text)
    _check(spec, target.abilities)
    command = bench_command(
        _passed_on(spec), binary=target.binary, abilities=target.abilities, folder="."
    )
    return [*([target.note] if target.note else []), text_from_command(command)]


def bench(spec: RunSpec, *, folder: Path, stage: Stage) -> tuple[BenchOutcome, IterationTimes]:
    """Measure one launch; trtexec's files and its log stay in the folder."""
    stage("load")
    binary = trtexec_binary(spec.options.get("binary"))
    abilities = abilities_from_help(help_text(binary), where=f"{binary} --help")
    _check(spec, abilities)
    command = bench_command(_passed_on(spec), binary=binary, abilities=abilities, folder=folder)
    log = folder / LOG
    end = run_logged(command, log=log, on_text=TrtexecProgress(spec, stage))
    data = log.read_bytes()
    _demand_success(end, data, spec, folder)
    times, step_s = _times(spec, folder, data, end)
    run = last_run(data, where=LOG)
    _write_metadata(run, spec, folder)
    outcome = _outcome(spec, run, abilities, command, folder)
    if step_s is not None:
        told = {**outcome.evidence, "enqueue_resolution_s": step_s}
        outcome = outcome.having(evidence=told)
    return outcome, times


def _write_metadata(run: LogRun | None, spec: RunSpec, folder: Path) -> None:
    """Write what the log tells about running; about building, what this run or a build told."""
    if run is not None:
        profiled = json_from_value(profile_metadata_from_log(run))
        (folder / "profile.metadata.json").write_bytes(profiled)
    if run is not None and spec.model.format == "onnx":
        built = json_from_value(build_metadata_from_log(run))
        (folder / "build.metadata.json").write_bytes(built)
    for name in ("build.metadata.json", "build.log"):
        beside = Path(f"{spec.model.path}.{name}")
        if spec.model.format == "engine" and beside.is_file():
            shutil.copyfile(beside, folder / name)


class TrtexecProgress:
    """Names the stages of a trtexec that runs: by its log, and by time where that is silent."""

    def __init__(self, spec: RunSpec, stage: Stage) -> None:
        self._stage = stage
        self._warmup_s = spec.warmup.floor.seconds or 0.0
        self._profiles = spec.profile
        self._reached = "load"
        self._started: float | None = None
        self._rest = ""

    def __call__(self, text: str) -> None:
        self._rest = self._rest[-200:] + text
        if self._started is None and "Starting inference" in self._rest:
            self._started = time.monotonic()
            self._enter("warm-up")
        if self._reached == "warm-up" and self._measures():
            self._enter("measure")
        summarised = "Explanations of the performance" in self._rest
        if self._reached == "measure" and summarised and self._profiles:
            self._enter("profile")

    def _measures(self) -> bool:
        begun = self._started is not None and time.monotonic() - self._started >= self._warmup_s
        return begun or "Timing trace has" in self._rest

    def _enter(self, stage: str) -> None:
        self._reached = stage
        self._stage(stage)


def _passed_on(spec: RunSpec) -> RunSpec:
    """Leave out the options that are not trtexec's to know, and write a batch as shapes."""
    kept = {key: value for key, value in spec.options.items() if key not in _OURS}
    return spec.having(options=kept, shapes=_shapes(spec))


def _shapes(spec: RunSpec) -> dict[str, tuple[int, ...]]:
    """Settle the shapes of an ONNX file, or of a batch that was asked for, as far as inputs tell.

    trtexec would run every dynamic dimension with 1.
    """
    asked = spec.batch is not None or spec.model.format == "onnx"
    tensors = inputs_of(spec.model, spec.profile_index) if asked else ()
    settled = shapes_of_batch(tensors, spec) if tensors else {}
    spans = spans_of(spec.model, spec.profile_index)
    if spec.batch is not None:  # a batch that is fixed leaves the other dimensions open
        settled = {name: span.opt for name, span in spans.items() if span.min != span.max} | settled
    shapes = {**settled, **spec.shapes}
    _demand_within(shapes, spans)
    return shapes


def _demand_within(
    shapes: Mapping[str, tuple[int, ...]], spans: Mapping[str, ShapeProfile]
) -> None:
    """Refuse shapes that an engine was not built for, before trtexec is started."""
    for name, shape in shapes.items():
        span = spans.get(name)
        if span is None or len(span.min) != len(shape):
            continue
        if any(not a <= b <= c for a, b, c in zip(span.min, shape, span.max, strict=True)):
            raise InputError(
                f"the engine was not built for {name} of {text_from_shape(shape)}",
                facts={"least": text_from_shape(span.min), "most": text_from_shape(span.max)},
                fix="build it with --shape-min and --shape-max around that shape",
            )


def spans_of(model: ModelRef, profile: int = 0) -> dict[str, ShapeProfile]:
    """Find the shapes that an engine was built for, by the record beside it."""
    record = record_of_engine(model)
    if record is None:
        return {}
    more = record.spec.more_profiles[profile - 1 : profile] if profile else ()
    return {**record.spec.shapes, **(more[0] if more else {})}


def inputs_of(model: ModelRef, profile: int = 0) -> tuple[TensorSpec, ...]:
    """Tell the inputs of a model without loading it; empty where nothing tells them.

    Those of an engine are known by the profile it was built for, where a record lies beside it.
    """
    if model.format == "onnx":
        with suppress(InputError):  # trtexec says what is wrong with it
            return outline_of(Path(model.path)).inputs
    return tuple(
        TensorSpec(
            name=name,
            dtype=UNTOLD,
            shape=(span.opt[0] if span.min[:1] == span.max[:1] else "batch", *span.opt[1:]),
        )
        for name, span in spans_of(model, profile).items()
        if span.opt
    )


def _check(spec: RunSpec, abilities: TrtexecAbilities) -> None:
    given, found = spec.options.get("version"), abilities.version
    if given and found and not f"{found}.".startswith(f"{given}."):
        raise UsageError(
            f"trtexec here belongs to TensorRT {found}, not {given}",
            fix="leave --opt version out, or name another trtexec with --opt binary=PATH",
        )
    withheld = spec.profile and not spec.separate_profile_run and abilities.at_least(8, 4)
    if withheld:
        raise UsageError(
            "with the profiler in the timed run, trtexec from TensorRT 8.4 on reports no times",
            facts={"trtexec": f"TensorRT {found}"},
            fix="leave the separate profile run on, or --no-profile",
        )


def _demand_success(end: Exit, data: bytes, spec: RunSpec, folder: Path) -> None:
    """Refuse a run that did not leave what it was started for."""
    run = last_run(data, where=LOG)
    passed = run is not None and run.outcome == "passed"
    if end.status != 0:
        although = " although its log says PASSED" if passed else ""
        raise failure(f"trtexec {ended_how(end)}{although}", data=data, status=status_of(end))
    if run is not None and run.outcome == "failed":
        raise failure("trtexec ended with status 0, but its log says FAILED", data=data, status=0)
    wanted = ["times.json", *(["profile.json"] if spec.profile else [])]
    missing = [name for name in wanted if not _has_content(folder / name)]
    if missing:
        raise failure(
            f"trtexec ended with status 0 and did not write {' and '.join(missing)}",
            data=data,
            status=0,
        )


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _times(
    spec: RunSpec, folder: Path, data: bytes, end: Exit
) -> tuple[IterationTimes, float | None]:
    """Read all files that trtexec wrote; a damaged one is its failure, not the user's.

    Gives the times, and the steps of its enqueue times where they are coarse.
    """
    warmup_ms = (spec.warmup.floor.seconds or 0.0) * 1e3
    try:
        with open(folder / "times.json", "rb") as file:
            found = read_times(file, where="times.json", warmup_ms=warmup_ms)
            times = times_from_file(found)
        if spec.profile:
            profile_from_json((folder / "profile.json").read_bytes(), where="profile.json")
        if _has_content(folder / "graph.json"):
            graph_from_json((folder / "graph.json").read_bytes(), where="graph.json")
    except ParseError as problem:
        raise _unreadable(problem, data, end) from None
    return times, found.enqueue_resolution_s


def _unreadable(problem: ParseError, data: bytes, end: Exit) -> ProgramError:
    return failure(
        f"trtexec wrote a file that cannot be read: {problem.message}",
        data=data,
        status=status_of(end),
        facts=dict(problem.facts),
    )


def _outcome(
    spec: RunSpec, run: LogRun | None, abilities: TrtexecAbilities, command: list[str], folder: Path
) -> BenchOutcome:
    text = text_from_command(command)
    reported: dict[str, Scalar] = {"command": text, "binary": command[0]}
    if run is None:
        note = "the log of trtexec could not be understood: conditions are those asked for"
        return BenchOutcome(
            facts=LaunchFacts(), reported=reported, notes=(*_notes(spec, None, folder), note)
        )
    version = run.version or abilities.version
    inputs = tensors_from_log(run, outputs=False)
    return BenchOutcome(
        facts=_facts(spec, run),
        inputs=inputs,
        outputs=tensors_from_log(run, outputs=True),
        conditions=conditions_from_log(run),
        versions={"tensorrt": version} if version else {},
        notes=_notes(spec, run, folder),
        reported={**reported_from_log(run), **reported},
        evidence={
            **warnings_from_log(run),
            **items_counted(inputs_of(spec.model, spec.profile_index), inputs, batch=spec.batch),
        },
    )


def _facts(spec: RunSpec, run: LogRun) -> LaunchFacts:
    loaded = [t for t in (run.facts.load_s, run.facts.deserialize_s) if t is not None]
    return LaunchFacts(
        load_s=sum(loaded) if loaded else None,
        warmup_s=spec.warmup.floor.seconds,
        warmup_iterations=run.warmup_queries,
        wall_s=run.summary.wall_s if run.summary else run.trace_s,
    )


def _notes(spec: RunSpec, run: LogRun | None, folder: Path) -> tuple[str, ...]:
    """Say what a reader of the numbers should know."""
    notes = []
    if spec.model.format == "onnx":
        notes.append("trtexec built an engine from the ONNX file for this run and did not keep it")
        assumed = assumed_of(inputs_of(spec.model), spec)
        notes += [assumed] if assumed else []
    if spec.batch is not None and not inputs_of(spec.model):
        notes.append(f"batch {spec.batch} was not passed on: the shapes of the engine decide")
    if spec.profile and not _has_content(folder / "graph.json"):
        notes.append("trtexec wrote no layer information")
    if run is None:
        return tuple(notes)
    warnings = [each.meaning for each in run.messages if each.level == "W" and each.meaning]
    notes += [f"trtexec warns: {meaning}" for meaning in warnings]
    return tuple(dict.fromkeys(notes))
