"""What a build will do, told before it is done; and what is known of it while it is under way."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from trtbench.build.builders._failures import too_new
from trtbench.build.builders._precision import (
    PrecisionPlan,
    PrecisionStep,
    PrecisionWish,
    precision_plan,
    step_ahead,
)
from trtbench.domain.job import Stage
from trtbench.domain.result import Scalar
from trtbench.domain.spec import BuildSpec, ShapeProfile
from trtbench.errors import UsageError, refuse_unknown_options
from trtbench.host.tensorrt import TITLES, Abilities, Flavour, abilities_of_version
from trtbench.host.tensorrt_listen import Heard
from trtbench.host.versions import distribution_versions
from trtbench.models.onnx_outline import ModelOutline, outline_of

OPTIONS = {
    "typing": "strong: hold the builder to the types of the model (TensorRT 10)",
    "calibration_items": "how many items to calibrate with at most (default: 256)",
    "quantizer": "modelopt: NVIDIA ModelOpt quantizes to int8, as it does to fp8",
    "modelopt": "interpreter that has it (default: runtimes.modelopt.python in trtbench.toml)",
    "tactic_sources": "libraries whose kernels may be taken, as -CUBLAS,-CUDNN or none",
    "version": "version to plan for with --dry-run where TensorRT is not installed",
}
"""What ``--opt key=value`` may set."""
ASSUMED: dict[Flavour, str] = {"tensorrt": "11.0", "tensorrt_rtx": "1.7"}


@dataclass
class BuildWork:
    """One build under way."""

    spec: BuildSpec
    trt: ModuleType
    abilities: Abilities
    plan: PrecisionPlan
    outline: ModelOutline
    folder: Path
    stage: Stage
    gpu: bool
    heard: Heard = field(default_factory=Heard)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Further files in the folder to keep, by the ending of their names beside the engine."""
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def monitored(self) -> bool:
        """Whether TensorRT itself tells how far it has come, and asks whether to go on."""
        return self.abilities.has("IBuilderConfig.progress_monitor")

    def tell(self, done: float, text: str) -> None:
        """Say how far the build has come."""
        self.stage.progress(done, text)


def asked_from_spec(spec: BuildSpec, outline: ModelOutline) -> PrecisionWish:
    """Gather what the precision plan depends on; the outline is that of the model itself."""
    refuse_unknown_options(f"builder {spec.runtime}", spec.options, OPTIONS)
    return PrecisionWish(
        precision=spec.precision,
        model=spec.model.path,
        carried=outline.carried,
        calibration=spec.calibration is not None or spec.calibration_cache is not None,
        strong=spec.options.get("typing") == "strong",
        data=spec.calibration is not None,
        quantizer=spec.options.get("quantizer"),
        modelopt=spec.options.get("modelopt"),
    )


def ahead_of(spec: BuildSpec) -> PrecisionStep | None:
    """Tell what is done to the model before the builder is started, if anything."""
    return step_ahead(asked_from_spec(spec, outline_of(Path(spec.model.path))))


def refuse_other_version(spec: BuildSpec, *, abilities: Abilities) -> None:
    """Refuse to build with another version than the one that was planned for."""
    given = spec.options.get("version")
    if given and not f"{abilities.version}.".startswith(f"{given}."):
        raise UsageError(
            f"{abilities.title} is installed here, not {given}",
            fix="leave --opt version out, or --python PATH of an interpreter that has it",
        )


def plan_lines(spec: BuildSpec, *, flavour: Flavour) -> list[str]:
    """List the steps of a build, and the command that repeats it; nothing is imported or built."""
    abilities, note = _assumed(spec, flavour)
    outline = outline_of(Path(spec.model.path))
    plan = precision_plan(asked_from_spec(spec, outline), abilities=abilities)
    flags = f", allowed: {' '.join(plan.flags)}" if plan.flags else ""
    source = "a calibrator" if plan.calibrate else None
    steps = [
        *(step.text for step in plan.steps),
        f"parse {spec.model.name} (opset {outline.opset}) with {abilities.title}",
        *([f"calibrate with {spec.calibration or spec.calibration_cache}"] if source else []),
        f"build {plan.precision}, {plan.typing}ly typed{flags}, "
        f"TF32 {'allowed' if plan.tf32 else 'off'}",
    ]
    notes = [*([note] if note else []), *too_new(outline, abilities=abilities)]
    numbered = [f"# {number}. {text}" for number, text in enumerate(steps, start=1)]
    return [*(f"# {text}" for text in notes), *numbered, reproduce_line(spec)]


def _assumed(spec: BuildSpec, flavour: Flavour) -> tuple[Abilities, str | None]:
    title = TITLES[flavour]
    given = spec.options.get("version")
    if given is not None:
        return abilities_of_version(given, flavour=flavour), f"for {title} {given}, as asked for"
    installed = distribution_versions(flavour.replace("_", "-"))
    if installed:
        return abilities_of_version(next(iter(installed.values())), flavour=flavour), None
    version = ASSUMED[flavour]
    note = f"{title} is not installed in this interpreter: for {version} (--opt version=10.9)"
    return abilities_of_version(version, flavour=flavour), note


def reproduce_line(spec: BuildSpec) -> str:
    """Write the command that asks for the same build again."""
    words = ["trtbench", "build", spec.model.path, "-o", spec.output]
    words += ["-r", spec.runtime.replace("_", "-")]
    valued = {
        "--precision": spec.precision,
        "--workspace": f"{spec.workspace_bytes}B" if spec.workspace_bytes is not None else None,
        "--optimization-level": spec.optimization_level,
        "--timing-cache": spec.timing_cache,
        "--calibration": spec.calibration,
        "--calibration-method": spec.calibration_method if spec.calibration else None,
        "--calibration-cache": spec.calibration_cache,
        "--task": spec.task,
        **{f"--{key.replace('_', '-')}": value for key, value in spec.task_settings.items()},
        "--dla-core": spec.dla_core,
        "--target": ",".join(spec.targets) or None,
    }
    for flag, value in valued.items():
        words += [] if value is None else [flag, str(value)]
    for ranges in (spec.shapes, *spec.more_profiles):
        words += _shape_words(ranges)
    switches = ("version_compatible", "hardware_compatible", "strip_weights", "refit", "verbose")
    words += [f"--{name.replace('_', '-')}" for name in switches if getattr(spec, name)]
    rtx = spec.runtime.endswith("rtx")
    words += ["--no-timing-cache"] if spec.timing_cache is None and not rtx else []
    for path in spec.plugins:
        words += ["--plugin", path]
    for key, value in spec.options.items():
        words += ["--opt", f"{key}={value}"] if key != "version" else []
    return shlex.join(words)


def _shape_words(ranges: dict[str, ShapeProfile]) -> list[str]:
    words = []
    for name, span in ranges.items():
        for end in ("min", "opt", "max"):
            words += [f"--shape-{end}", f"{name}:{'x'.join(map(str, getattr(span, end)))}"]
    return words
