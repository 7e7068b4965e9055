"""A builder's configuration, written from values: memory, level, flags, profiles, targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from trtbench.domain.spec import BuildSpec, ShapeProfile
from trtbench.errors import UsageError
from trtbench.host.tensorrt import Abilities

if TYPE_CHECKING:
    from tensorrt import IBuilder, IBuilderConfig, INetworkDefinition, IOptimizationProfile
    from tensorrt_rtx import ComputeCapability

_TARGET = re.compile(r"(?:sm_?)?(\d{1,2})\.?(\d)\Z", re.IGNORECASE)

RTX_LACKS = {
    "hardware_compatible": ("--hardware-compatible", "--target names the GPUs"),
    "version_compatible": ("--version-compatible", "the lean runtime it needs does not exist"),
    "timing_cache": ("--timing-cache", "kernels are chosen when the engine runs"),
    "plugins": ("--plugin", "it has no plugins"),
    "dla_core": ("--dla-core", "it builds for GPUs"),
    "calibration_cache": ("--calibration-cache", "it has no calibrators"),
}
"""What TensorRT-RTX would ignore or fail at, and why."""


def refuse_unknown(spec: BuildSpec, *, abilities: Abilities) -> None:
    """Refuse what this flavour would ignore: no flag is ever silently without effect."""
    if not abilities.targets:
        if spec.targets:
            raise UsageError(
                f"{abilities.title} builds for the GPU at hand, not for a target",
                fix="-r tensorrt-rtx, or leave --target out",
            )
        return
    if "tactic_sources" in spec.options:
        raise UsageError(
            f"--opt tactic_sources has no effect with {abilities.title}: its kernels are its own",
            fix="leave --opt tactic_sources out",
        )
    for field, (flag, reason) in RTX_LACKS.items():
        value = getattr(spec, field)
        if value is not None and value is not False and value != ():
            raise UsageError(
                f"{flag} has no effect with {abilities.title}: {reason}", fix=f"leave {flag} out"
            )


def configure(
    trt: ModuleType,
    config: IBuilderConfig,
    spec: BuildSpec,
    *,
    abilities: Abilities,
    flags: Iterable[str],
    tf32: bool,
) -> None:
    """Write everything but profiles and caches into a configuration."""
    if spec.workspace_bytes is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, spec.workspace_bytes)
    if spec.optimization_level is not None:
        config.builder_optimization_level = spec.optimization_level
    if spec.detailed_layers:
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    (config.set_flag if tf32 else config.clear_flag)(trt.BuilderFlag.TF32)
    for name in (*flags, *_kind_flags(spec, abilities)):
        config.set_flag(getattr(trt.BuilderFlag, name))
    if abilities.shares_profiles_on_request:  # what later versions always do: --streams needs it
        config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    if spec.hardware_compatible:
        config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.AMPERE_PLUS
    if spec.dla_core is not None:
        config.default_device_type = trt.DeviceType.DLA
        config.DLA_core = spec.dla_core
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    if "tactic_sources" in spec.options:
        known = {name: 1 << int(each) for name, each in trt.TacticSource.__members__.items()}
        usual = config.get_tactic_sources()
        chosen = tactic_sources(spec.options["tactic_sources"], known=known, usual=usual)
        config.set_tactic_sources(chosen)
    if spec.targets:
        _set_targets(trt, config, spec.targets, abilities)


def tactic_sources(text: str, *, known: Mapping[str, int], usual: int) -> int:
    """Add and take away libraries, as ``+CUDNN,-CUBLAS`` says; ``none`` leaves TensorRT's own."""
    if text.strip().lower() == "none":
        return 0
    for word in (each.strip().upper() for each in text.split(",")):
        bit = known.get(word[1:])
        if bit is None or word[0] not in "+-":
            raise UsageError(
                f"{word!r} adds or takes away no library of kernels",
                facts={"known": " ".join(known)},
                fix="--opt tactic_sources=-CUBLAS,-CUDNN, or none",
            )
        usual = usual | bit if word[0] == "+" else usual & ~bit
    return usual


def _kind_flags(spec: BuildSpec, abilities: Abilities) -> list[str]:
    if spec.strip_weights and not abilities.has("BuilderFlag.STRIP_PLAN"):
        raise UsageError(
            f"{abilities.title} cannot leave weights out of an engine",
            facts={"needs": "TensorRT 10 or later"},
            fix="leave --strip-weights out",
        )
    wanted = {
        "VERSION_COMPATIBLE": spec.version_compatible,
        "STRIP_PLAN": spec.strip_weights,
        "REFIT": spec.refit,
    }
    return [name for name, needed in wanted.items() if needed]


def _set_targets(
    trt: ModuleType, config: IBuilderConfig, targets: tuple[str, ...], abilities: Abilities
) -> None:
    chosen = [_capability(trt, text, abilities) for text in targets]
    config.num_compute_capabilities = len(chosen)
    for index, capability in enumerate(chosen):
        if not config.set_compute_capability(capability, index):
            raise UsageError(
                f"{abilities.title} cannot build for {targets[index]}",
                facts={"known": " ".join(_known_targets(trt))},
            )


def _capability(trt: ModuleType, text: str, abilities: Abilities) -> ComputeCapability:
    match = _TARGET.match(text.strip())
    name = f"SM{match[1]}{match[2]}" if match else ""
    found = getattr(trt.ComputeCapability, name, None) if name else None
    if found is None:
        raise UsageError(
            f"{text!r} is no GPU that {abilities.title} knows",
            facts={"known": " ".join(_known_targets(trt))},
            fix="write it like --target sm_86,sm_89",
        )
    return found


def _known_targets(trt: ModuleType) -> list[str]:
    names = [name for name in trt.ComputeCapability.__members__ if name.startswith("SM")]
    return [f"sm_{name[2:]}" for name in names]


def make_profile(
    builder: IBuilder, network: INetworkDefinition, ranges: Mapping[str, ShapeProfile]
) -> IOptimizationProfile:
    """Make one optimization profile; shape tensors take their values from the same ranges."""
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        span = ranges.get(tensor.name)
        if span is None:
            continue
        if tensor.is_shape_tensor:
            profile.set_shape_input(tensor.name, span.min, span.opt, span.max)
        else:
            profile.set_shape(tensor.name, span.min, span.opt, span.max)
    return profile


def add_profile(
    config: IBuilderConfig, profile: IOptimizationProfile, ranges: Mapping[str, ShapeProfile]
) -> None:
    """Have the engine built for a profile."""
    if config.add_optimization_profile(profile) < 0:
        raise UsageError(
            "the shapes do not fit the model's inputs",
            facts={name: f"{each.min} {each.opt} {each.max}" for name, each in ranges.items()},
        )
