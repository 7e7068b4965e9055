"""Gives a model the types a strongly typed builder needs, with the steps of ``quantize``."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from trtbench.build.builders._precision import PrecisionPlan, Step
from trtbench.domain.conversion import CalibrationRef, QuantOutcome, QuantSpec
from trtbench.domain.spec import BuildSpec, Value
from trtbench.errors import UnavailableError, UsageError
from trtbench.host.models import sha256_of

TYPED = "typed.onnx"


class Prepared(Value, frozen=True, kw_only=True):
    """The model that is built, and what was done to get it."""

    path: Path
    files: dict[str, str] = {}
    """What is kept beside the engine, by the ending of its name."""
    notes: tuple[str, ...] = ()


def prepare_model(
    spec: BuildSpec, plan: PrecisionPlan, *, folder: Path, stage: Callable[[str], None]
) -> Prepared:
    """Do the steps of a plan; without any, the model is built as it is."""
    if not plan.steps:
        return Prepared(path=Path(spec.model.path))
    step = plan.steps[0]
    if step.precision == "fp8":
        raise UsageError(
            "FP8 is quantized in an environment of its own",
            facts={"model": spec.model.path},
            fix=f"first: trtbench quantize {shlex.quote(spec.model.path)} --precision fp8 "
            "--calibration DATA",
        )
    outcome = _convert(_quant_spec(spec, step, folder), step, spec, folder=folder, stage=stage)
    changed = sum(outcome.changed.values())
    done = f"{step.text}; {changed} nodes changed, difference not measured (trtbench quantize does)"
    random = spec.calibration == "random"
    notes = [done, *(["quantized with random data: no evidence of accuracy"] if random else [])]
    return Prepared(
        path=folder / TYPED,
        files={f".{step.precision}.onnx": TYPED},
        notes=(*notes, *outcome.notes),
    )


def _quant_spec(spec: BuildSpec, step: Step, folder: Path) -> QuantSpec:
    cast = step.verb == "cast"
    return QuantSpec(
        model=spec.model,
        output=str(folder / TYPED),
        precision=step.precision,
        via="cast" if cast else "onnxruntime",
        keep_io=True,  # as a weakly typed builder leaves inputs and outputs alone
        calibration=None if cast else _calibration_ref(spec),
        method="minmax" if spec.calibration_method == "minmax" else "entropy",
    )


def _calibration_ref(spec: BuildSpec) -> CalibrationRef:
    source = spec.calibration
    if source is None or source == "random":
        raise UsageError(
            "quantizing needs real data in an .npz of arrays by input name",
            fix=f"--calibration DATA.npz, or first: trtbench quantize "
            f"{shlex.quote(spec.model.path)} --precision int8 --calibration {source or 'DATA'}",
        )
    import numpy as np

    with np.load(source, allow_pickle=False) as file:
        items = min(len(file[name]) for name in file.files)
    return CalibrationRef(
        source=source, kind="arrays", items=items, batch=1, sha256=sha256_of(Path(source)),
        file=source,
    )  # fmt: skip


def _convert(
    quant: QuantSpec,
    step: Step,
    spec: BuildSpec,
    *,
    folder: Path,
    stage: Callable[[str], None],
) -> QuantOutcome:
    try:
        from trtbench.build.quantize import quantize

        return quantize(quant, folder=folder, stage=stage)
    except ImportError as problem:
        raise UnavailableError(
            f"this interpreter cannot {step.verb} the model, and {step.reason}",
            facts={"missing": problem.name or problem},
            fix=f"first: trtbench quantize {shlex.quote(spec.model.path)} --precision "
            f"{step.precision}",
        ) from None
