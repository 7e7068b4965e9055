"""Specs as command lines of trtexec: the same spec is the same experiment on every version.

How a ``RunSpec`` maps, and what it cannot say:

- protocol ``pipeline`` is what trtexec does: the next query is enqueued before the last is
  awaited. ``gpu`` is that without transfers and with a CUDA graph, whatever the spec says about
  the two. ``serve``, ``server`` and ``first`` are other experiments and are refused.
- ``cuda_graph="auto"`` is the same as ``"on"``: trtexec falls back by itself, and its log tells.
- the warm-up is a time; a floor in iterations and "until steady" are not trtexec's to keep.
- ``batch`` is never forwarded: the caller gives dynamic inputs their shapes, others decide.
- ``stop`` holds leasts, as trtexec's own flags do; what it leaves out is left to trtexec.
- ``precision`` belongs to weakly typed building, TensorRT 5 to 10. ``fp32`` means without TF32.
- the runtime's own options: see ``RUN_OPTIONS`` and ``BUILD_OPTIONS``.
"""

from __future__ import annotations

import math
import shlex
from pathlib import PurePath

from trtbench.domain.spec import BuildSpec, RunSpec
from trtbench.errors import UsageError
from trtbench.trtexec._command_parts import (
    DEVICE_FLAG,
    GRAPH,
    MODEL_FLAGS,
    check_options,
    own_options,
    plugin_flags,
    precision_flags,
    shapes_flag,
    with_extra,
)
from trtbench.trtexec.abilities import (
    TrtexecAbilities,
    abilities_from_help,
    abilities_of_version,
    versions_with,
)

__all__ = [
    "BUILD_OPTIONS",
    "RUN_OPTIONS",
    "TrtexecAbilities",
    "abilities_from_help",
    "abilities_of_version",
    "bench_command",
    "build_command",
    "load_command",
    "profile_command",
    "text_from_command",
    "versions_with",
]

TIMES, PROFILE = "times.json", "profile.json"

RUN_OPTIONS = {
    "avg_runs": "--avgRuns",
    "percentile": "--percentile",
    "sleep_time": "--sleepTime",
    "load_inputs": "--loadInputs",
}
"""Options of a run that become a flag with the same value."""


def bench_command(
    spec: RunSpec, *, binary: str, abilities: TrtexecAbilities, folder: str | PurePath
) -> list[str]:
    """List the command that measures a spec and leaves its files in a folder."""
    _check_protocol(spec)
    check_options(spec.options, known=RUN_OPTIONS)
    arguments = [
        binary,
        *_model(spec),
        *shapes_flag("--shapes", spec.shapes),
        *_length(spec),
        *own_options(spec.options, known=RUN_OPTIONS, abilities=abilities),
        *_exports(spec, abilities=abilities, folder=PurePath(folder)),
        *_state(spec, abilities=abilities),
        *_run_precision(spec, abilities=abilities),
        *_device(spec.device),
    ]
    return with_extra(arguments, spec.extra_args, refused={**MODEL_FLAGS, **DEVICE_FLAG})


def profile_command(
    spec: RunSpec, *, binary: str, abilities: TrtexecAbilities, folder: str | PurePath
) -> list[str]:
    """List the command that also times single layers."""
    profiled = spec.having(profile=True)
    return bench_command(profiled, binary=binary, abilities=abilities, folder=folder)


def text_from_command(arguments: list[str]) -> str:
    """Write a command so that it can be pasted into a shell."""
    return shlex.join(arguments)


def _check_protocol(spec: RunSpec) -> None:
    if spec.protocol not in ("pipeline", "gpu"):
        raise UsageError(
            f"trtexec cannot measure with the protocol {spec.protocol!r}",
            facts={"trtexec can": "pipeline gpu"},
            fix="--protocol pipeline, or another runtime",
        )
    if spec.rate_hz is not None:
        raise UsageError("trtexec cannot send queries at a rate", fix="leave --rate out")
    if spec.threads is not None:
        raise UsageError("trtexec has no number of threads", fix="leave --threads out")
    if spec.gap_s and abs(spec.gap_s * 1e3 - _ms(spec.gap_s)) > 1e-6:
        raise UsageError(
            "trtexec rests for whole milliseconds",
            facts={"gap": f"{spec.gap_s * 1e3:g} ms"},
            fix=f"--gap {_ms(spec.gap_s)}ms, or another runtime",
        )
    if spec.inputs.source is not None:
        raise UsageError(
            "trtexec reads raw binary inputs only, one file per input",
            facts={"inputs": spec.inputs.source},
            fix="--opt load_inputs=NAME:FILE",
        )


def _model(spec: RunSpec) -> list[str]:
    if spec.model.format == "engine":
        return [f"--loadEngine={spec.model.path}"]
    if spec.model.format == "onnx":
        return [f"--onnx={spec.model.path}"]
    raise UsageError(
        "trtexec runs engines and ONNX files",
        facts={"model": spec.model.path, "format": spec.model.format},
        fix="leave -r out, or trtbench export makes an ONNX file of it",
    )


def _length(spec: RunSpec) -> list[str]:
    floor, stop = spec.warmup.floor, spec.stop
    if floor.seconds is None and floor.iterations:
        raise UsageError(
            "trtexec warms up for a time, not for a number of iterations", fix="--warmup 500ms"
        )
    if stop.seconds is None and stop.iterations is None:
        raise UsageError("the run would never end", fix="--iterations 200 or --duration 3s")
    # Each is a least, here as there: what is not given is left to trtexec's own 10 and 3 s.
    return [
        f"--warmUp={_ms(floor.seconds or 0)}",
        *([] if stop.iterations is None else [f"--iterations={stop.iterations}"]),
        *([] if stop.seconds is None else [f"--duration={stop.seconds:g}"]),
        *([f"--idleTime={_ms(spec.gap_s)}"] if spec.gap_s else []),
    ]


def _ms(seconds: float) -> int:
    return math.ceil(round(seconds * 1000, 6))


def _exports(spec: RunSpec, *, abilities: TrtexecAbilities, folder: PurePath) -> list[str]:
    separate = abilities.inverted or spec.separate_profile_run
    if not spec.profile:
        return [f"--exportTimes={folder / TIMES}"]
    if abilities.inverted and not spec.separate_profile_run:
        raise UsageError(
            "profiling inside the timed run cannot be expressed for TensorRT 11",
            facts={"needs": versions_with("--separateProfileRun")},
            fix="leave the separate profile run on",
        )
    withheld = not separate and abilities.at_least(8, 4) is True  # no times file then
    arguments = [] if withheld else [f"--exportTimes={folder / TIMES}"]
    arguments += [f"--exportProfile={folder / PROFILE}", "--dumpProfile"]
    if abilities.has("--exportLayerInfo"):
        arguments.append(f"--exportLayerInfo={folder / GRAPH}")
    if separate and not abilities.inverted:
        what = "a profile run of its own"
        arguments.append(abilities.require("--separateProfileRun", what=what))
    return arguments


def _state(spec: RunSpec, *, abilities: TrtexecAbilities) -> list[str]:
    """Say what differs from the defaults, which TensorRT 11 turned round."""
    only_gpu = spec.protocol == "gpu"
    transfers = spec.transfers and not only_gpu
    graph = spec.cuda_graph != "off" or only_gpu
    if abilities.inverted:
        wanted = (
            (transfers, "--includeDataTransfers"),
            (not graph, "--noCudaGraph"),
            (not spec.spin_wait, "--noSpinWait"),
        )
    else:
        wanted = (
            (not transfers, "--noDataTransfers"),
            (graph, "--useCudaGraph"),
            (spec.spin_wait, "--useSpinWait"),
        )
    flags = [abilities.require(flag, what=flag[2:]) for needed, flag in wanted if needed]
    if spec.streams != 1:
        name = "--infStreams" if abilities.has("--infStreams") else "--streams"
        flags.append(f"{abilities.require(name, what='several streams')}={spec.streams}")
    if spec.profile_index:
        what = "another optimization profile than the first"
        flags.append(f"{abilities.require('--useProfile', what=what)}={spec.profile_index}")
    return flags


def _run_precision(spec: RunSpec, *, abilities: TrtexecAbilities) -> list[str]:
    if spec.precision is None or spec.options.get("typing") == "strong":
        return []
    if spec.model.format == "engine" and spec.precision in ("fp32", "tf32"):
        return []  # an engine keeps what it was built with; the others do no harm
    return precision_flags(spec.precision, model=spec.model.path, abilities=abilities)


def _device(device: str | None) -> list[str]:
    if device is None:
        return []
    number = device.removeprefix("cuda:")
    if not number.isdecimal():
        raise UsageError(f"{device!r} is not a CUDA device", fix="--device cuda:0")
    return [f"--device={number}"]


MIB = 1 << 20

BUILD_OPTIONS = {"sparsity": "--sparsity", "avg_timing": "--avgTiming", "tempdir": "--tempdir"}
"""Options of a build that become a flag with the same value."""


def build_command(
    spec: BuildSpec, *, binary: str, abilities: TrtexecAbilities, folder: str | PurePath
) -> list[str]:
    """List the command that builds an engine and writes its layers to a folder."""
    if spec.model.format not in ("onnx", "unknown"):
        raise UsageError(
            "trtexec builds from ONNX",
            facts={"model": spec.model.path},
            fix="trtbench export makes an ONNX file of a PyTorch model",
        )
    check_options(spec.options, known=BUILD_OPTIONS)
    skip = "--skipInference" if abilities.has("--skipInference") else "--buildOnly"
    arguments = [
        binary,
        f"--onnx={spec.model.path}",
        f"--saveEngine={spec.output}",
        *_shape_profiles(spec),
        *_precision(spec, abilities=abilities),
        *_limits(spec, abilities=abilities),
        *_kind(spec, abilities=abilities),
        *_reports(spec, abilities=abilities, folder=PurePath(folder)),
        *own_options(spec.options, known=BUILD_OPTIONS, abilities=abilities),
        abilities.require(skip, what="building without running"),
        *plugin_flags(spec.plugins, abilities=abilities),
        *(["--verbose"] if spec.verbose else []),
    ]
    return with_extra(arguments, spec.extra_args)


def load_command(spec: BuildSpec, *, binary: str, abilities: TrtexecAbilities) -> list[str]:
    """List the command that loads what was built and runs it once, to see whether it is whole."""
    device = [each for each in spec.extra_args if each.startswith("--device=")]
    return [
        binary,
        f"--loadEngine={spec.output}",
        *shapes_flag("--shapes", {name: span.opt for name, span in spec.shapes.items()}),
        "--iterations=1",
        "--duration=0",
        "--warmUp=0",
        *plugin_flags(spec.plugins, abilities=abilities),
        *device,
    ]


def _shape_profiles(spec: BuildSpec) -> list[str]:
    arguments = []
    for flag, end in (("--minShapes", "min"), ("--optShapes", "opt"), ("--maxShapes", "max")):
        arguments += shapes_flag(flag, {name: getattr(p, end) for name, p in spec.shapes.items()})
    return arguments


def _precision(spec: BuildSpec, *, abilities: TrtexecAbilities) -> list[str]:
    calibration = []
    if spec.calibration_cache:
        fix = f"trtbench quantize {shlex.quote(spec.model.path)} --precision int8"
        flag = abilities.require("--calib", what="a calibration cache", fix=fix)
        calibration = [f"{flag}={spec.calibration_cache}"]
    if spec.options.get("typing") == "strong":
        plain = spec.precision == "fp32"
        tf32 = precision_flags("fp32", model=spec.model.path, abilities=abilities) if plain else []
        if abilities.inverted:
            return tf32 + calibration
        flag = abilities.require("--stronglyTyped", what="a strongly typed network")
        return [flag, *tf32, *calibration]
    weak = precision_flags(spec.precision or "fp32", model=spec.model.path, abilities=abilities)
    return weak + calibration


def _limits(spec: BuildSpec, *, abilities: TrtexecAbilities) -> list[str]:
    arguments = []
    if spec.workspace_bytes is not None:
        mib = f"{spec.workspace_bytes / MIB:.10g}"
        pools = abilities.has("--memPoolSize")
        flag = "--memPoolSize=workspace:" if pools else "--workspace="
        abilities.require(flag.split("=")[0], what="a workspace limit")
        arguments.append(f"{flag}{mib}")
    if spec.optimization_level is not None:
        flag = abilities.require("--builderOptimizationLevel", what="an optimization level")
        arguments.append(f"{flag}={spec.optimization_level}")
    if spec.timing_cache is not None:
        flag = abilities.require("--timingCacheFile", what="a timing cache")
        arguments.append(f"{flag}={spec.timing_cache}")
    return arguments


def _kind(spec: BuildSpec, *, abilities: TrtexecAbilities) -> list[str]:
    wanted = (
        (spec.version_compatible, "--versionCompatible", "version compatibility"),
        (spec.hardware_compatible, "--hardwareCompatibilityLevel", "hardware compatibility"),
        (spec.strip_weights, "--stripWeights", "an engine without weights"),
        (spec.refit, "--refit", "a refittable engine"),
    )
    flags = [abilities.require(flag, what=what) for needed, flag, what in wanted if needed]
    flags = [f"{flag}=ampere+" if "hardware" in flag else flag for flag in flags]
    if spec.dla_core is not None:
        flag = abilities.require("--useDLACore", what="DLA")
        flags += [f"{flag}={spec.dla_core}", "--allowGPUFallback"]
    return flags


def _reports(spec: BuildSpec, *, abilities: TrtexecAbilities, folder: PurePath) -> list[str]:
    arguments = []
    if spec.detailed_layers and abilities.has("--profilingVerbosity"):
        arguments.append("--profilingVerbosity=detailed")
    elif spec.detailed_layers and abilities.has("--nvtxMode"):
        arguments.append("--nvtxMode=verbose")
    if abilities.has("--exportLayerInfo"):
        arguments.append(f"--exportLayerInfo={folder / GRAPH}")
    return arguments
