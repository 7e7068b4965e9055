"""Changes the precision of an ONNX file: a cast, or a quantization by one of two libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from trtbench.build.onnx_file import load_onnx, save_onnx
from trtbench.build.quantize_finish import finish, versions
from trtbench.domain.conversion import QuantOutcome, QuantSpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto


STAND_IN = "stand-in.onnx"


def quantize(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    """Make the file ``spec.output``; the folder is the job's own."""
    if spec.via == "cast":
        return _cast(spec, folder=folder, stage=stage)
    if spec.calibration is None or spec.calibration.file is None:
        raise UsageError(
            "a quantization needs data to calibrate with",
            fix="--calibration FOLDER, --calibration data.npz, or --calibration random",
        )
    if spec.via == "onnxruntime":
        from trtbench.build.quantize_onnxruntime import quantize_int8

        outcome = quantize_int8(spec, folder=folder, stage=stage)
    else:
        from trtbench.build.quantize_modelopt import quantize_modelopt

        outcome = quantize_modelopt(spec, folder=folder, stage=stage)
    return outcome


def _cast(spec: QuantSpec, *, folder: Path, stage: Stage) -> QuantOutcome:
    from trtbench.build.cast import Low, cast

    stage("load")
    model = load_onnx(Path(spec.model.path))
    stage("cast")
    low = spec.precision
    if low not in get_args(Low):
        raise UsageError(f"a cast makes fp16 or bf16, not {low}", fix="--precision fp16")
    before = _opset(model)
    made = cast(model, precision=low, keep_io=spec.keep_io, keep=spec.keep)  # type: ignore[arg-type]
    if not made.changed:
        raise InputError(
            "there is nothing to cast: no node of the model computes in FP32",
            facts={"model": spec.model.path},
            fix="use it as it is; trtbench inspect shows its types",
        )
    stage("save")
    finish(made.model, spec)
    save_onnx(made.stand_in, folder / STAND_IN)
    notes = []
    if _opset(made.model) != before:
        notes.append(f"raised from opset {before} to {_opset(made.model)}, which {low} needs")
    if made.facts["weights_rounded_to_zero"]:
        notes.append(f"{made.facts['weights_rounded_to_zero']} weights became zero in {low}")
    return QuantOutcome(
        versions=versions(),
        changed=made.changed,
        kept=made.kept,
        facts=dict(made.facts),
        notes=tuple(notes),
        stand_in=STAND_IN,
    )


def _opset(model: ModelProto) -> int | None:
    return next((entry.version for entry in model.opset_import if not entry.domain), None)
