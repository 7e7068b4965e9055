"""What a trtexec that holds to the types of the model needs done to the model first."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trtbench.build.builders._precision import (
    FLAGS,
    QUANTIZED,
    PrecisionPlan,
    PrecisionStep,
    PrecisionWish,
    precision_plan,
    quantized_ahead,
    step_ahead,
)
from trtbench.build.builders._prepare import PreparedModel, made_ahead, prepare_model
from trtbench.domain.job import Stage
from trtbench.domain.spec import BuildSpec
from trtbench.host.tensorrt import abilities_of_version
from trtbench.models.onnx_outline import outline_of
from trtbench.trtexec.abilities import TrtexecAbilities

STEP_OPTIONS = ("quantizer", "modelopt", "calibration_items")
"""Options of a quantization, which trtexec itself must not see."""


def ahead_of(spec: BuildSpec) -> PrecisionStep | None:
    """Tell what NVIDIA ModelOpt does to the model before trtexec is started, if anything."""
    wanted = spec.precision == "fp8" or "quantizer" in spec.options
    return step_ahead(_asked(spec, strong=False)) if wanted else None


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
    reference = msgspec.structs.replace(spec.model, path=str(model)) if model else spec.model
    return msgspec.structs.replace(
        spec,
        model=reference,
        precision=None if strong else spec.precision,
        calibration=None if quantized else spec.calibration,
        options={**options, "typing": "strong"} if strong else options,
    )
