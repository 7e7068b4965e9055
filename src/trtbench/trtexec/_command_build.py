"""Build specs as command lines of trtexec."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from trtbench.domain.spec import BuildSpec
from trtbench.errors import UsageError
from trtbench.trtexec._command_parts import (
    GRAPH,
    check_options,
    own_options,
    plugin_flags,
    precision_flags,
    shapes_flag,
    with_extra,
)
from trtbench.trtexec.abilities import TrtexecAbilities

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
