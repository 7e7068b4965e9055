"""How each version of TensorRT builds a requested precision.

A weakly typed builder (TensorRT up to 10) is allowed a precision and chooses by itself; a strongly
typed one builds the types in the model, so the model must be cast or quantized first. A precision
that cannot be built is an error.
"""

import shlex
from pathlib import Path
from typing import Literal

from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.jobs import Stage
from trtbench.core.results import QuantSpec
from trtbench.core.spec import BuildSpec, Value
from trtbench.host.tensorrt import Abilities
from trtbench.models.onnx_outline import ModelOutline

FLAGS = {"fp16": "FP16", "bf16": "BF16", "int8": "INT8", "fp8": "FP8"}  # members of ``BuilderFlag``
HALF = ("fp16", "bf16")
QUANTIZED = ("int8", "fp8")
TYPED = "typed.onnx"


class PrecisionPlan(Value, frozen=True, kw_only=True):
    typing: Literal["weak", "strong"]
    precision: str  # the precisions the engine may use, for the record: `fp32`, `int8+fp16`
    tf32: bool
    flags: tuple[str, ...] = ()  # members of `BuilderFlag` to set
    step: str | None = None
    """The change to the model before the build, and its reason: ``cast the model to fp16: ...``."""
    calibrate: bool = False  # whether a calibrator computes the INT8 scales


def precision_plan(
    spec: BuildSpec, carried: frozenset[str], *, abilities: Abilities
) -> PrecisionPlan:
    """Return how a version builds a precision; raise an error if it cannot."""
    wanted, title, facts = spec.precision, abilities.title, {"model": spec.model.path}
    scales = spec.calibration is not None or spec.calibration_cache is not None
    quantize = f"trtbench quantize {shlex.quote(spec.model.path)} --precision {wanted}"
    quantize = f"first: {quantize} --data DATA"
    newer = {"needs": "TensorRT 10 or later, or TensorRT-RTX"}
    forced = spec.options.get("typing") == "strong"
    # What is not quantized may be computed in a smaller type where the builder chooses types.
    mixed = wanted in HALF and carried <= {*QUANTIZED} and abilities.supports_weakly_typed
    mixed = mixed and not forced
    if carried and wanted and wanted not in (*carried, "best", *QUANTIZED) and not mixed:
        shown = "+".join(sorted(carried))
        message = f"{wanted} was requested, and the model carries {shown} in its own types"
        fix = f"leave --precision out, or build the model that {shown} was made from"
        raise UsageError(message, facts=facts, fix=fix)
    if wanted == "fp8" and wanted not in carried and abilities.supports_strongly_typed:
        message = "FP8 is built from a model that was quantized to it"
        raise UsageError(message, facts=facts, fix=quantize)
    if forced and not abilities.supports_strongly_typed:
        message = f"{title} cannot be held to the types of a model"
        raise UsageError(message, facts=newer, fix="leave --opt typing=strong out")
    keeps_types = carried and abilities.supports_strongly_typed and not mixed and wanted != "best"
    strong = not abilities.supports_weakly_typed or forced or keeps_types
    int8 = scales and abilities.supports_calibration
    found = {*carried, *(each for each in FLAGS if each == wanted)}
    problem = step = None
    if strong:
        if wanted == "best":
            message = f"'best' means nothing to {title}: the types of the model decide"
            raise UsageError(message, fix="--precision fp16, or another one by name")
        reason = f"{title} builds the types that the model carries"
        if wanted in HALF and wanted not in carried:
            step = f"cast the model to {wanted}: {reason}"
        elif wanted in QUANTIZED and wanted not in carried:
            step = f"quantize the model to {wanted} with Q/DQ nodes: {reason}"
            if spec.calibration is None:  # a cache has scales of another kind
                problem = f"{wanted} needs data to quantize the model with: {reason}"
    elif wanted == "best":
        found |= {name for name in HALF if abilities.has(f"BuilderFlag.{FLAGS[name]}")}
        found |= {"int8"} if int8 else set()
    types = [name for name in ("fp8", "int8", "fp16", "bf16") if name in found]
    for each in types if not strong else ():  # refuse fallbacks to FP32 and INT8 without scales
        has_flag = abilities.has(f"BuilderFlag.{FLAGS[each]}")  # that of FP8 came before FP8
        if not has_flag or (each == "fp8" and not abilities.supports_strongly_typed):
            raise UsageError(f"{title} cannot build {each}", facts=newer, fix="--precision fp16")
        if each == "int8" and each not in carried and not int8:
            problem = "INT8 needs scales: calibration data, a calibration cache, or a quantized "
            problem += "model"
    if problem is not None:
        raise UsageError(problem, facts=facts, fix=f"--data DATA.npz, or {quantize}")
    plan = PrecisionPlan(
        typing="strong" if strong else "weak",
        precision="+".join([*types, *([] if strong else ["fp32"])]) if types else "fp32",
        tf32=wanted == "tf32" or bool(types),
        flags=() if strong else tuple(FLAGS[each] for each in types),
        step=step,
        calibrate=not strong and "int8" in types and "int8" not in carried,
    )
    if wanted == "tf32" and not types:
        plan = plan.having(precision="tf32")
    if scales and not plan.calibrate and step is None:
        raise UsageError(
            f"calibration would have no effect: the engine is built in {plan.precision}",
            fix="--precision int8, or leave --data and --calibration-cache out",
        )
    return plan


def opset_warnings(outline: ModelOutline, *, abilities: Abilities) -> tuple[str, ...]:
    """Return a warning if the opset of the model is newer than the parser documents."""
    opset, limit = outline.opset, abilities.max_opset
    if opset is None or limit is None or opset <= limit:
        return ()
    words = f"the model has opset {opset}, and {abilities.title} documents up to {limit}"
    return (f"{words}: trtbench export SOURCE --opset {limit} makes one",)


class PreparedModel(Value, frozen=True, kw_only=True):
    path: Path
    files: dict[str, str] = {}  # files to keep next to the engine, by the suffix of their names
    notes: tuple[str, ...] = ()


def prepare_model(
    spec: BuildSpec, plan: PrecisionPlan, *, folder: Path, stage: Stage
) -> PreparedModel:
    """Cast or quantize the model if the plan requires it; otherwise return it unchanged."""
    precision = spec.precision
    if plan.step is None or precision is None:
        return PreparedModel(path=Path(spec.model.path))
    cast = precision in HALF
    stage("cast" if cast else "quantize")
    made = QuantSpec(
        model=spec.model,
        output=str(folder / TYPED),
        precision=precision,
        via="cast" if cast else "onnxruntime",
        keep_io=True,  # a weakly typed builder does not change inputs and outputs either
        method="minmax" if spec.calibration_method == "minmax" else "entropy",
    )
    try:
        from trtbench.convert.quantize import quantize

        if not cast:  # write the calibration data to the folder, in batches
            from trtbench.convert.calibration import batch_of, calibration_items, save_calibration
            from trtbench.models.onnx_model import input_specs, load_onnx

            inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
            shapes = {name: span.opt for name, span in spec.shapes.items()}
            reference = save_calibration(
                folder / "calibration.npz", calibration_items(spec, inputs, shapes=shapes), inputs,
                source=str(spec.calibration), batch=batch_of(inputs, requested=None),
                preprocessing=spec.prepared,
            )  # fmt: skip
            made = made.having(calibration=reference)
        outcome = quantize(made, folder=folder, stage=Stage())
    except (ImportError, UnavailableError) as problem:
        missing = problem.name if isinstance(problem, ImportError) else problem
        message = f"this interpreter cannot {plan.step}"
        fix = f"first: trtbench quantize {shlex.quote(spec.model.path)} --precision {precision}"
        raise UnavailableError(message, facts={"missing": missing or problem}, fix=fix) from None
    done = f"{plan.step}; {sum(outcome.changed.values())} nodes changed"
    random = ("quantized with random data: no evidence of accuracy",)
    notes = (done, *(random if spec.calibration == "random" else ()), *outcome.notes)
    # Kept next to the engine, unless its weights are in separate files.
    alone = len(list(folder.glob(f"{TYPED}*"))) == 1
    files = {f".{precision}.onnx": TYPED} if alone else {}
    return PreparedModel(path=folder / TYPED, files=files, notes=notes)
