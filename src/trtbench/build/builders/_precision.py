"""One vocabulary of precisions for every version: what it takes to build what was asked for.

A weakly typed builder (TensorRT up to 10) is allowed a precision and chooses by itself; a strongly
typed one builds the types that the model carries, so a precision means to cast or quantize first.
Nothing is ever quietly built in another precision than the one that was asked for.
"""

from __future__ import annotations

import shlex
from typing import Literal

from trtbench.domain.spec import Precision, Value
from trtbench.errors import UnavailableError, UsageError
from trtbench.host.tensorrt import Abilities

FLAGS = {"fp16": "FP16", "bf16": "BF16", "int8": "INT8", "fp8": "FP8"}
"""Members of ``BuilderFlag``."""

MAKE_MODELOPT = (
    "python3 -m venv modelopt && modelopt/bin/pip install 'nvidia-modelopt[onnx]' msgspec"
)
HALF = ("fp16", "bf16")
QUANTIZED = ("int8", "fp8")


class PrecisionStep(Value, frozen=True, kw_only=True):
    """Something to do to the model before it is built."""

    verb: Literal["cast", "quantize"]
    precision: Precision
    reason: str
    by: Literal["trtbench", "onnxruntime", "modelopt"] = "trtbench"

    @property
    def text(self) -> str:
        how = {
            "trtbench": "",
            "onnxruntime": " with Q/DQ nodes",
            "modelopt": " with Q/DQ nodes, by NVIDIA ModelOpt",
        }[self.by]
        return f"{self.verb} the model to {self.precision}{how}: {self.reason}"


class PrecisionPlan(Value, frozen=True, kw_only=True):
    """How a precision is built."""

    typing: Literal["weak", "strong"]
    precision: str
    """What the engine may compute in, for the record: ``fp32``, ``int8+fp16``."""
    tf32: bool
    flags: tuple[str, ...] = ()
    """Members of ``BuilderFlag`` to set."""
    steps: tuple[PrecisionStep, ...] = ()
    calibrate: bool = False
    """Whether INT8 scales come from a calibrator."""


class PrecisionWish(Value, frozen=True, kw_only=True):
    """What a plan is made from."""

    precision: Precision | None
    """``None``: as the model's types say."""
    model: str
    carried: frozenset[str] = frozenset()
    """Precisions in the model's own types."""
    calibration: bool = False
    """Whether there are data, or a cache of scales, to calibrate with."""
    strong: bool = False
    """Whether the builder must hold to the types of the model, where it has a choice."""
    data: bool = False
    """Whether there are data; a cache alone is of no use to a quantizer."""
    quantizer: str | None = None
    """``modelopt``: NVIDIA ModelOpt makes INT8 too."""
    modelopt: str | None = None
    """The interpreter that has NVIDIA ModelOpt."""

    def fix(self, precision: str) -> str:
        data = " --calibration DATA" if precision in QUANTIZED else ""
        return f"trtbench quantize {shlex.quote(self.model)} --precision {precision}{data}"


def precision_plan(asked: PrecisionWish, *, abilities: Abilities) -> PrecisionPlan:
    """Settle how to build a precision with the version at hand, or say why it cannot be."""
    _refuse_contradiction(asked)
    ahead = step_ahead(asked)
    if ahead is not None:
        plan = precision_plan(quantized_ahead(asked), abilities=abilities)
        return plan.having(steps=(ahead, *plan.steps))
    if asked.strong and not abilities.strong:
        raise UsageError(
            f"{abilities.title} cannot be held to the types of a model",
            facts={"needs": "TensorRT 10 or later, or TensorRT-RTX"},
            fix="leave --opt typing=strong out",
        )
    strong = not abilities.weak or asked.strong or (asked.carried and abilities.strong)
    plan = _strong(asked, abilities) if strong else _weak(asked, abilities)
    if asked.calibration and not plan.calibrate and not plan.steps:
        raise UsageError(
            f"calibration would have no effect: the engine is built in {plan.precision}",
            fix="--precision int8, or leave --calibration and --calibration-cache out",
        )
    return plan


def step_ahead(asked: PrecisionWish) -> PrecisionStep | None:
    """Tell what NVIDIA ModelOpt does to the model before the builder is started, if anything.

    It lives in an interpreter of its own, and what it makes is the same for every version.
    """
    wanted = asked.precision
    if asked.quantizer is not None and (asked.quantizer != "modelopt" or wanted not in QUANTIZED):
        raise UsageError(
            f"--opt quantizer={asked.quantizer} has no effect",
            fix="--opt quantizer=modelopt with --precision int8, or leave it out",
        )
    if wanted not in QUANTIZED or wanted in asked.carried:
        return None
    if wanted == "int8" and asked.quantizer is None:
        return None
    reason = f"{wanted.upper()} is built from a model that was quantized to it"
    if not asked.data:
        raise UsageError(
            f"{reason}, and there are no data to do so",
            facts={"model": asked.model},
            fix=f"--calibration DATA.npz, or first: {asked.fix(wanted)}",
        )
    if asked.modelopt is None:
        raise UnavailableError(
            f"{reason} by NVIDIA ModelOpt, and no interpreter is set that has it",
            facts={"setting": "runtimes.modelopt.python in trtbench.toml, or --opt modelopt=PATH"},
            fix=f"{MAKE_MODELOPT}, then set it to modelopt/bin/python",
        )
    return PrecisionStep(verb="quantize", precision=wanted, reason=reason, by="modelopt")


def quantized_ahead(asked: PrecisionWish) -> PrecisionWish:
    """Tell what is asked for once the model has been quantized."""
    carried = asked.carried | {str(asked.precision)}
    return asked.having(carried=carried, calibration=False, data=False, quantizer=None)


def _refuse_contradiction(asked: PrecisionWish) -> None:
    """Refuse a higher precision than the types of a model have."""
    wanted, carried = asked.precision, asked.carried
    if wanted is None or not carried or wanted in carried or wanted in ("best", *QUANTIZED):
        return
    shown = "+".join(sorted(carried))
    raise UsageError(
        f"{wanted} was asked for, and the model carries {shown} in its own types",
        facts={"model": asked.model},
        fix=f"leave --precision out, or build the model that {shown} was made from",
    )


def _strong(asked: PrecisionWish, abilities: Abilities) -> PrecisionPlan:
    wanted = asked.precision
    if wanted == "best":
        raise UsageError(
            f"'best' means nothing to {abilities.title}: the types of the model decide",
            fix="--precision fp16, or another one by name",
        )
    steps = _steps(asked, wanted, abilities) if wanted in FLAGS else ()
    types = sorted({*asked.carried, *(step.precision for step in steps)}, key=_rank)
    plain = not types
    return PrecisionPlan(
        typing="strong",
        precision="+".join(types) or ("tf32" if wanted == "tf32" else "fp32"),
        tf32=wanted == "tf32" if plain else True,
        steps=steps,
    )


def _steps(
    asked: PrecisionWish, wanted: Precision | None, abilities: Abilities
) -> tuple[PrecisionStep, ...]:
    if wanted is None or wanted in asked.carried:
        return ()
    reason = f"{abilities.title} builds the types that the model carries"
    if wanted in HALF:
        return (PrecisionStep(verb="cast", precision=wanted, reason=reason),)
    if not asked.calibration:
        raise UsageError(
            f"{wanted} needs data to quantize the model with",
            facts={"model": asked.model, "because": reason},
            fix=f"--calibration DATA.npz, or first: {asked.fix(wanted)}",
        )
    return (PrecisionStep(verb="quantize", precision=wanted, reason=reason, by="onnxruntime"),)


def _weak(asked: PrecisionWish, abilities: Abilities) -> PrecisionPlan:
    wanted = asked.precision
    if wanted == "best":
        allowed = [*_available(abilities), *(["int8"] if _int8(asked, abilities) else [])]
    else:
        allowed = [wanted] if wanted in FLAGS and wanted is not None else []
    allowed = [*dict.fromkeys([*allowed, *asked.carried])]
    for precision in allowed:
        _demand(precision, asked, abilities)
    plain = not allowed
    return PrecisionPlan(
        typing="weak",
        precision="+".join([*sorted(allowed, key=_rank), "fp32"])
        if allowed
        else ("tf32" if wanted == "tf32" else "fp32"),
        tf32=wanted == "tf32" if plain else True,
        flags=tuple(FLAGS[precision] for precision in sorted(allowed, key=_rank)),
        calibrate="int8" in allowed and "int8" not in asked.carried,
    )


def _available(abilities: Abilities) -> list[str]:
    return [name for name in HALF if abilities.has(f"BuilderFlag.{FLAGS[name]}")]


def _int8(asked: PrecisionWish, abilities: Abilities) -> bool:
    return asked.calibration and abilities.calibrates


def _demand(precision: str, asked: PrecisionWish, abilities: Abilities) -> None:
    """Refuse a precision that would end as FP32, or as scales that nobody measured."""
    if not abilities.has(f"BuilderFlag.{FLAGS[precision]}"):
        raise UsageError(
            f"{abilities.title} cannot build {precision}",
            facts={"needs": "TensorRT 10 or later, or TensorRT-RTX"},
            fix="--precision fp16",
        )
    if precision == "fp8" and not abilities.strong:  # the flag is older than the parser's support
        raise UsageError(
            f"{abilities.title} cannot build fp8",
            facts={"needs": "TensorRT 10 or later, or TensorRT-RTX"},
            fix="--precision fp16",
        )
    if precision in asked.carried:
        return
    if precision == "int8" and not _int8(asked, abilities):
        raise UsageError(
            "INT8 needs scales: calibration data, a calibration cache, or a quantized model",
            facts={"model": asked.model},
            fix=f"--calibration DATA.npz, or first: {asked.fix('int8')}",
        )


def _rank(precision: str) -> int:
    return ("fp8", "int8", "fp16", "bf16").index(precision)
