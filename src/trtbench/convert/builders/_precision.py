"""One vocabulary of precisions for every version: what it takes to build what was requested.

A weakly typed builder (TensorRT up to 10) is allowed a precision and chooses by itself; a strongly
typed one builds the types that the model carries, so a precision means to cast or quantize first.
Nothing is ever quietly built in another precision than the requested one.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.jobs import Stage
from trtbench.core.results import Quantizer, QuantSpec
from trtbench.core.spec import BuildSpec, Precision, Value
from trtbench.host.tensorrt import Abilities
from trtbench.models.onnx_outline import ModelOutline

FLAGS = {"fp16": "FP16", "bf16": "BF16", "int8": "INT8", "fp8": "FP8"}
"""Members of ``BuilderFlag``."""

HALF = ("fp16", "bf16")
QUANTIZED = ("int8", "fp8")
TYPED, FEEDS = "typed.onnx", "calibration.npz"


class PrecisionStep(Value, frozen=True, kw_only=True):
    """Something to do to the model before it is built."""

    precision: Precision
    reason: str
    by: Quantizer = "cast"

    @property
    def verb(self) -> str:
        return "cast" if self.by == "cast" else "quantize"

    @property
    def text(self) -> str:
        how = " with Q/DQ nodes" if self.by != "cast" else ""
        return f"{self.verb} the model to {self.precision}{how}: {self.reason}"


class PrecisionPlan(Value, frozen=True, kw_only=True):
    """How a precision is built."""

    typing: Literal["weak", "strong"]
    precision: str
    """What the engine may compute in, for the record: ``fp32``, ``int8+fp16``."""
    tf32: bool
    flags: tuple[str, ...] = ()
    """Members of ``BuilderFlag`` to set."""
    step: PrecisionStep | None = None
    calibrate: bool = False
    """Whether INT8 scales come from a calibrator."""


def precision_plan(
    spec: BuildSpec, carried: frozenset[str], *, abilities: Abilities
) -> PrecisionPlan:
    """How a version builds a precision, or an error why it cannot.

    ``carried`` are the precisions in the model's own types.
    """
    wanted = spec.precision
    if wanted and carried and wanted not in carried and wanted not in ("best", *QUANTIZED):
        shown = "+".join(sorted(carried))
        raise UsageError(
            f"{wanted} was requested, and the model carries {shown} in its own types",
            facts={"model": spec.model.path},
            fix=f"leave --precision out, or build the model that {shown} was made from",
        )
    if wanted == "fp8" and wanted not in carried and abilities.strong:
        model = shlex.quote(spec.model.path)
        raise UsageError(
            "FP8 is built from a model that was quantized to it",
            facts={"model": spec.model.path},
            fix=f"first: trtbench quantize {model} --precision fp8 --calibration DATA",
        )
    forced = spec.options.get("typing") == "strong"
    if forced and not abilities.strong:
        raise UsageError(
            f"{abilities.title} cannot be held to the types of a model",
            facts={"needs": "TensorRT 10 or later, or TensorRT-RTX"},
            fix="leave --opt typing=strong out",
        )
    strong = not abilities.weak or forced or (carried and abilities.strong)
    plan = (_strong if strong else _weak)(spec, carried, abilities)
    if _has_scales(spec) and not plan.calibrate and plan.step is None:
        raise UsageError(
            f"calibration would have no effect: the engine is built in {plan.precision}",
            fix="--precision int8, or leave --calibration and --calibration-cache out",
        )
    return plan


def _has_scales(spec: BuildSpec) -> bool:
    return spec.calibration is not None or spec.calibration_cache is not None


def _without_data(spec: BuildSpec, problem: str) -> UsageError:
    first = f"trtbench quantize {shlex.quote(spec.model.path)} --precision {spec.precision}"
    return UsageError(
        problem,
        facts={"model": spec.model.path},
        fix=f"--calibration DATA.npz, or first: {first} --calibration DATA",
    )


def _strong(spec: BuildSpec, carried: frozenset[str], abilities: Abilities) -> PrecisionPlan:
    wanted = spec.precision
    if wanted == "best":
        raise UsageError(
            f"'best' means nothing to {abilities.title}: the types of the model decide",
            fix="--precision fp16, or another one by name",
        )
    step = None
    if wanted in FLAGS and wanted is not None and wanted not in carried:
        reason = f"{abilities.title} builds the types that the model carries"
        if wanted not in HALF and not _has_scales(spec):
            raise _without_data(spec, f"{wanted} needs data to quantize the model with: {reason}")
        by: Quantizer = "cast" if wanted in HALF else "onnxruntime"
        step = PrecisionStep(precision=wanted, reason=reason, by=by)
    types = _ordered({*carried, *([step.precision] if step else [])})
    return PrecisionPlan(
        typing="strong",
        precision="+".join(types) or ("tf32" if wanted == "tf32" else "fp32"),
        tf32=wanted == "tf32" or bool(types),
        step=step,
    )


def _weak(spec: BuildSpec, carried: frozenset[str], abilities: Abilities) -> PrecisionPlan:
    wanted = spec.precision
    int8 = _has_scales(spec) and abilities.calibrates
    found = {*carried, *([wanted] if wanted in FLAGS and wanted else [])}
    if wanted == "best":
        found |= {name for name in HALF if abilities.has(f"BuilderFlag.{FLAGS[name]}")}
        found |= {"int8"} if int8 else set()
    allowed = _ordered(found)
    for precision in allowed:  # none may end as FP32, or as scales that were never measured
        has_flag = abilities.has(f"BuilderFlag.{FLAGS[precision]}")  # FP8's is older than its use
        if not has_flag or (precision == "fp8" and not abilities.strong):
            raise UsageError(
                f"{abilities.title} cannot build {precision}",
                facts={"needs": "TensorRT 10 or later, or TensorRT-RTX"},
                fix="--precision fp16",
            )
        if precision == "int8" and precision not in carried and not int8:
            needs = "calibration data, a calibration cache, or a quantized model"
            raise _without_data(spec, f"INT8 needs scales: {needs}")
    plain = "tf32" if wanted == "tf32" else "fp32"
    return PrecisionPlan(
        typing="weak",
        precision="+".join([*allowed, "fp32"]) if allowed else plain,
        tf32=wanted == "tf32" or bool(allowed),
        flags=tuple(FLAGS[precision] for precision in allowed),
        calibrate="int8" in allowed and "int8" not in carried,
    )


def _ordered(precisions: set[str]) -> list[str]:
    return [name for name in ("fp8", "int8", "fp16", "bf16") if name in precisions]


def too_new(outline: ModelOutline, *, abilities: Abilities) -> tuple[str, ...]:
    """What is newer in the model than the parser documents."""
    opset, limit = outline.opset, abilities.max_opset
    if opset is None or limit is None or opset <= limit:
        return ()
    words = f"the model has opset {opset}, and {abilities.title} documents up to {limit}"
    return (f"{words}: export it with --opset {limit}",)


class PreparedModel(Value, frozen=True, kw_only=True):
    """The model that is built, and what was done to get it."""

    path: Path
    files: dict[str, str] = {}
    """What is kept beside the engine, by the ending of its name."""
    notes: tuple[str, ...] = ()


def prepare_model(
    spec: BuildSpec, plan: PrecisionPlan, *, folder: Path, stage: Stage
) -> PreparedModel:
    """Cast or quantize the model where the plan says so; else it is built as it is."""
    step = plan.step
    if step is None:
        return PreparedModel(path=Path(spec.model.path))
    stage(step.verb)
    try:
        from trtbench.convert.quantize import quantize

        outcome = quantize(_step_spec(spec, step, folder), folder=folder, stage=Stage())
    except (ImportError, UnavailableError) as problem:
        missing = problem.name if isinstance(problem, ImportError) else problem
        model = shlex.quote(spec.model.path)
        raise UnavailableError(
            f"this interpreter cannot {step.verb} the model, and {step.reason}",
            facts={"missing": missing or problem},
            fix=f"first: trtbench quantize {model} --precision {step.precision}",
        ) from None
    done = f"{step.text}; {sum(outcome.changed.values())} nodes changed"
    random = ("quantized with random data: no evidence of accuracy",)
    notes = (done, *(random if spec.calibration == "random" else ()), *outcome.notes)
    # Kept beside the engine, unless its weights are in files of other names.
    alone = len(list(folder.glob(f"{TYPED}*"))) == 1
    files = {f".{spec.precision}.onnx": TYPED} if alone else {}
    return PreparedModel(path=folder / TYPED, files=files, notes=notes)


def _step_spec(spec: BuildSpec, step: PrecisionStep, folder: Path) -> QuantSpec:
    """A step as the conversion it is; data for it are put into the folder, in batches."""
    made = QuantSpec(
        model=spec.model,
        output=str(folder / TYPED),
        precision=step.precision,
        via=step.by,
        keep_io=True,  # as a weakly typed builder leaves inputs and outputs alone
        method="minmax" if spec.calibration_method == "minmax" else "entropy",
    )
    if step.by == "cast":
        return made
    from trtbench.convert.calibration import batch_of, calibration_items, save_calibration
    from trtbench.models.onnx_model import input_specs, load_onnx

    inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
    shapes = {name: span.opt for name, span in spec.shapes.items()}
    reference = save_calibration(
        folder / FEEDS, calibration_items(spec, inputs, shapes=shapes), inputs,
        source=str(spec.calibration), batch=batch_of(inputs, asked=None),
        preprocessing=spec.prepared,
    )  # fmt: skip
    return made.having(calibration=reference)
