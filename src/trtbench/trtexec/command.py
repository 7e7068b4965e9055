"""trtexec command lines from specs; a spec means the same measurement on every version.

How the fields of a ``RunSpec`` become flags:

- protocol ``pipeline`` is what trtexec does: it enqueues the next query before it waits for the
  last one. ``gpu`` adds no transfers and a CUDA graph, and overrides these two fields.
  ``serve``, ``server`` and ``first`` are refused.
- ``cuda_graph="auto"`` is the same as ``"on"``: trtexec falls back by itself and logs it.
- ``batch`` is never passed: the caller sets the shapes of dynamic inputs.
- ``precision`` is for weakly typed networks, TensorRT 5 to 10. ``fp32`` turns TF32 off.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from trtbench.core.errors import UsageError, refuse_unknown_options
from trtbench.core.spec import BuildSpec, Precision, RunSpec
from trtbench.trtexec.version import TrtexecAbilities, versions_with

TIMES, PROFILE, GRAPH = "times.json", "profile.json", "graph.json"
MIB = 1 << 20

RUN_OPTIONS = {"avg_runs": "--avgRuns", "percentile": "--percentile",
               "sleep_time": "--sleepTime", "load_inputs": "--loadInputs"}  # fmt: skip
BUILD_OPTIONS = {"sparsity": "--sparsity", "avg_timing": "--avgTiming", "tempdir": "--tempdir"}
"""Options of a run and of a build, with the flag that gets their value."""
_OTHER_OPTIONS = ("verbose", "plugins", "binary", "typing")
"""Options that do not become a flag with their value; the caller handles ``binary``."""
MODEL_FLAGS = ("--onnx", "--loadEngine", "--uff", "--model", "--deploy")
"""Flags for the model, which trtbench sets itself because it records the hash of the file."""
_PLUGIN_FLAGS = ("--plugins", "--staticPlugins", "--dynamicPlugins", "--setPluginsToSerialize")
_OLD_FLAG_NAMES = {"--streams": "--infStreams", "--buildOnly": "--skipInference"}


def _option_flags(
    options: Mapping[str, str], *, known: Mapping[str, str], abilities: TrtexecAbilities
) -> list[str]:
    """Return the flags for the options of the runtime; unknown options are refused."""
    refuse_unknown_options("runtime trtexec", options, (*known, *_OTHER_OPTIONS))
    arguments = [f"{flag}={options[name]}" for name, flag in known.items() if name in options]
    plugins = tuple(path for path in options.get("plugins", "").split(",") if path)
    arguments += _plugin_flags(plugins, abilities=abilities)
    verbose = options.get("verbose", "").lower() in ("1", "true", "yes", "on")
    return arguments + (["--verbose"] if verbose else [])


def _shapes_flag(flag: str, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the flag for shapes; names with a colon or comma get quotes, as trtexec expects."""
    parts = []
    for name, dims in shapes.items():
        quoted = f"'{name}'" if set(name) & set(":,") else name
        parts.append(f"{quoted}:{'x'.join(map(str, dims)) or 'scalar'}")
    return [f"{flag}={','.join(parts)}"] if parts else []


def _with_extra_args(
    arguments: list[str], extra: Sequence[str], abilities: TrtexecAbilities, refused: Sequence[str]
) -> list[str]:
    """Add the user's extra arguments; unknown and repeated ones and trtbench's own are refused."""
    abilities.refuse_unknown_flags(extra)

    def flag_of(argument: str) -> str:
        name = argument.partition("=")[0]
        return _OLD_FLAG_NAMES.get(name, name)

    passed = {flag_of(each): each for each in arguments[1:]}
    for each in extra:
        flag, fix = flag_of(each), f"leave {each} out, and use the option of trtbench"
        if flag in passed and flag not in _PLUGIN_FLAGS:
            facts = {"passed": passed[flag], "given again": each}
            raise UsageError(f"{flag} is passed to trtexec already", facts=facts, fix=fix)
        if flag in refused:
            raise UsageError(f"{flag} cannot be passed on: trtbench records it", fix=fix)
        if flag.startswith("-"):
            passed[flag] = each
    return [*arguments, *extra]


def _precision_flags(precision: Precision, *, model: str, abilities: TrtexecAbilities) -> list[str]:
    """Return the flags for a precision of a weakly typed network; TensorRT 11 has none."""
    if precision == "tf32":
        return []
    if precision == "fp32":
        return ["--noTF32"] if abilities.has("--noTF32") else []
    flag = f"--{precision}"
    if abilities.has_inverted_defaults:
        raise UsageError(
            f"{precision} cannot be requested of TensorRT 11: networks are strongly typed, "
            "cast the model first",
            facts={"model": model, "needs": versions_with(flag)},
            fix=f"trtbench quantize {shlex.quote(model)} --precision {precision}",
        )
    return [abilities.require(flag, what=f"the precision {precision}")]


def _plugin_flags(paths: tuple[str, ...], *, abilities: TrtexecAbilities) -> list[str]:
    flag = "--staticPlugins" if abilities.has("--staticPlugins") else "--plugins"
    return [f"{abilities.require(flag, what='a plugin')}={path}" for path in paths]


def bench_command(
    spec: RunSpec, *, binary: str, abilities: TrtexecAbilities, folder: str | PurePath
) -> list[str]:
    """Return the command that runs a benchmark and exports its files to a folder."""
    check_run(spec)
    option_flags = _option_flags(spec.options, known=RUN_OPTIONS, abilities=abilities)
    model = {"engine": "--loadEngine", "onnx": "--onnx"}.get(spec.model.format)
    if model is None:
        facts = {"model": spec.model.path, "format": spec.model.format}
        fix = "leave -r out, or trtbench export makes an ONNX file of it"
        raise UsageError("trtexec runs engines and ONNX files", facts=facts, fix=fix)
    floor, stop = spec.warmup.floor, spec.stop
    arguments = [
        binary,
        f"{model}={spec.model.path}",
        *_shapes_flag("--shapes", spec.shapes),
        # Minimums, as in the spec: trtexec's own 3 s do not stand beside iterations alone.
        f"--warmUp={_ms(floor.seconds or 0)}",
        *([] if stop.iterations is None else [f"--iterations={stop.iterations}"]),
        f"--duration={stop.seconds or 0:g}",
        *([f"--idleTime={_ms(spec.gap_s)}"] if spec.gap_s else []),
        *option_flags,
        *_export_flags(spec, abilities=abilities, folder=PurePath(folder)),
        *_measurement_flags(spec, abilities=abilities),
    ]
    # An engine keeps the precision it was built with, so these two need no flag.
    kept = spec.model.format == "engine" and spec.precision in ("fp32", "tf32")
    if spec.precision is not None and spec.options.get("typing") != "strong" and not kept:
        arguments += _precision_flags(spec.precision, model=spec.model.path, abilities=abilities)
    if spec.device is not None:
        arguments.append(f"--device={spec.device.removeprefix('cuda:')}")
    return _with_extra_args(arguments, spec.extra_args, abilities, (*MODEL_FLAGS, "--device"))


def check_run(spec: RunSpec) -> None:
    """Raise if trtexec does not support a setting, whatever its version."""
    if spec.protocol not in ("pipeline", "gpu"):
        what = f"trtexec cannot measure with the protocol {spec.protocol!r}"
        fix = "--protocol pipeline, or another runtime"
        raise UsageError(what, facts={"trtexec can": "pipeline gpu"}, fix=fix)
    for flag, given in (("--rate", spec.rate_hz), ("--threads", spec.threads)):
        if given is not None:
            raise UsageError(f"trtexec has no counterpart of {flag}", fix=f"leave {flag} out")
    if spec.gap_s and abs(spec.gap_s * 1e3 - _ms(spec.gap_s)) > 1e-6:
        facts = {"gap": f"{spec.gap_s * 1e3:g} ms"}
        fix = f"--gap {_ms(spec.gap_s)}ms, or another runtime"
        raise UsageError("trtexec rests for whole milliseconds", facts=facts, fix=fix)
    floor, stop = spec.warmup.floor, spec.stop
    if floor.seconds is None and floor.iterations:
        what = "trtexec warms up for a time, not for a number of iterations"
        raise UsageError(what, fix="--warmup 500ms")
    if stop.seconds is None and stop.iterations is None:
        raise UsageError("the run would never end", fix="--iterations 200 or --duration 3s")
    if spec.device is not None and not spec.device.removeprefix("cuda:").isdecimal():
        raise UsageError(f"{spec.device!r} is not a CUDA device", fix="--device cuda:0")
    _with_extra_args([""], spec.extra_args, TrtexecAbilities(), (*MODEL_FLAGS, "--device"))
    if spec.inputs.source is not None:
        what = "trtexec reads raw binary inputs only, one file per input"
        facts = {"inputs": spec.inputs.source}
        raise UsageError(what, facts=facts, fix="--opt load_inputs=NAME:FILE")


def _ms(seconds: float) -> int:
    return math.ceil(round(seconds * 1000, 6))


def _detail_flags(extra: Sequence[str], abilities: TrtexecAbilities) -> list[str]:
    """Return the version's flag for kinds, types and shapes of layers, unless the user has it."""
    names = {"--profilingVerbosity": "detailed", "--nvtxMode": "verbose"}
    flag = next((name for name in names if abilities.has(name)), None)
    if flag is None or any(each.startswith(flag) for each in extra):
        return []
    return [f"{flag}={names[flag]}"]


def _export_flags(spec: RunSpec, *, abilities: TrtexecAbilities, folder: PurePath) -> list[str]:
    if not spec.profile:
        return [f"--exportTimes={folder / TIMES}"]
    separate = abilities.has_inverted_defaults or spec.separate_profile_run
    if abilities.has_inverted_defaults and not spec.separate_profile_run:
        what = "profiling inside the timed run cannot be expressed for TensorRT 11"
        facts = {"needs": versions_with("--separateProfileRun")}
        raise UsageError(what, facts=facts, fix="leave the separate profile run on")
    withheld = not separate and abilities.at_least(8, 4) is True  # no times file then
    arguments = [] if withheld else [f"--exportTimes={folder / TIMES}"]
    arguments += [f"--exportProfile={folder / PROFILE}", "--dumpProfile"]
    arguments += _detail_flags(spec.extra_args, abilities)
    if abilities.has("--exportLayerInfo"):
        arguments.append(f"--exportLayerInfo={folder / GRAPH}")
    if separate and not abilities.has_inverted_defaults:
        arguments.append(abilities.require("--separateProfileRun", what="a separate profile run"))
    return arguments


def _measurement_flags(spec: RunSpec, *, abilities: TrtexecAbilities) -> list[str]:
    """Return flags for settings that differ from the defaults, which TensorRT 11 inverted."""
    only_gpu = spec.protocol == "gpu"
    transfers = spec.transfers and not only_gpu
    graph = spec.cuda_graph != "off" or only_gpu
    spin = spec.spin_wait
    wanted = {"--noDataTransfers": not transfers, "--useCudaGraph": graph, "--useSpinWait": spin}
    if abilities.has_inverted_defaults:
        wanted = {"--includeDataTransfers": transfers, "--noCudaGraph": not graph}
        wanted["--noSpinWait"] = not spin
    flags = [abilities.require(flag, what=flag[2:]) for flag, needed in wanted.items() if needed]
    if spec.streams != 1:
        name = "--infStreams" if abilities.has("--infStreams") else "--streams"
        flags.append(f"{abilities.require(name, what='several streams')}={spec.streams}")
    if spec.profile_index:
        what = "an optimization profile other than the first"
        flags.append(f"{abilities.require('--useProfile', what=what)}={spec.profile_index}")
    return flags


def build_command(
    spec: BuildSpec, *, binary: str, abilities: TrtexecAbilities, folder: str | PurePath
) -> list[str]:
    """Return the command that builds an engine and exports its layers to a folder."""
    if spec.model.format not in ("onnx", "unknown"):
        fix = "trtbench export makes an ONNX file of a PyTorch model"
        raise UsageError("trtexec builds from ONNX", facts={"model": spec.model.path}, fix=fix)
    arguments = [binary, f"--onnx={spec.model.path}", f"--saveEngine={spec.output}"]
    for flag, end in (("--minShapes", "min"), ("--optShapes", "opt"), ("--maxShapes", "max")):
        arguments += _shapes_flag(flag, {name: getattr(p, end) for name, p in spec.shapes.items()})
    option_flags = _option_flags(spec.options, known=BUILD_OPTIONS, abilities=abilities)
    model, is_strong = spec.model.path, spec.options.get("typing") == "strong"
    if is_strong and not abilities.has_inverted_defaults:
        arguments.append(abilities.require("--stronglyTyped", what="a strongly typed network"))
    if not is_strong or spec.precision == "fp32":
        arguments += _precision_flags(spec.precision or "fp32", model=model, abilities=abilities)
    if spec.calibration_cache:
        fix = f"trtbench quantize {shlex.quote(model)} --precision int8"
        flag = abilities.require("--calib", what="a calibration cache", fix=fix)
        arguments.append(f"{flag}={spec.calibration_cache}")
    workspace = "--memPoolSize" if abilities.has("--memPoolSize") else "--workspace"
    pool = "workspace:" if workspace == "--memPoolSize" else ""
    mib = f"{pool}{(spec.workspace_bytes or 0) / MIB:.10g}"
    wanted: tuple[tuple[bool, str, object, str], ...] = (
        (spec.workspace_bytes is not None, workspace, mib, "a workspace limit"),
        (spec.optimization_level is not None, "--builderOptimizationLevel",
         spec.optimization_level, "an optimization level"),
        (spec.timing_cache is not None, "--timingCacheFile", spec.timing_cache, "a timing cache"),
        (spec.version_compatible, "--versionCompatible", None, "version compatibility"),
        (spec.hardware_compatible, "--hardwareCompatibilityLevel", "ampere+",
         "hardware compatibility"),
        (spec.strip_weights, "--stripWeights", None, "an engine without weights"),
        (spec.refit, "--refit", None, "a refittable engine"),
        (spec.dla_core is not None, "--useDLACore", spec.dla_core, "DLA"),
        (spec.device not in (None, "cuda:0"), "--device", str(spec.device)[5:], "another GPU"),
    )  # fmt: skip
    for needed, flag, value, what in wanted:
        if needed:
            value = "" if value is None else f"={value}"
            arguments.append(f"{abilities.require(flag, what=what)}{value}")
    if spec.dla_core is not None:
        arguments.append("--allowGPUFallback")
    arguments += _detail_flags(spec.extra_args, abilities) if spec.detailed_layers else []
    if abilities.has("--exportLayerInfo"):
        arguments.append(f"--exportLayerInfo={PurePath(folder) / GRAPH}")
    skip = "--skipInference" if abilities.has("--skipInference") else "--buildOnly"
    arguments += [
        *option_flags,
        abilities.require(skip, what="building without running"),
        *_plugin_flags(spec.plugins, abilities=abilities),
        *(["--verbose"] if spec.verbose else []),
    ]
    return _with_extra_args(arguments, spec.extra_args, abilities, MODEL_FLAGS)
