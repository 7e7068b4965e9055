"""Casts a model to the types a strongly typed builder needs, with the steps of ``quantize``."""

from __future__ import annotations

import shlex
from pathlib import Path

from trtbench.build.builders._precision import PrecisionPlan, PrecisionStep
from trtbench.domain.conversion import CalibrationRef, QuantOutcome, QuantSpec
from trtbench.domain.job import Stage
from trtbench.domain.spec import BuildSpec, Value
from trtbench.errors import UnavailableError

TYPED, FEEDS = "typed.onnx", "calibration.npz"


class PreparedModel(Value, frozen=True, kw_only=True):
    """The model that is built, and what was done to get it."""

    path: Path
    files: dict[str, str] = {}
    """What is kept beside the engine, by the ending of its name."""
    notes: tuple[str, ...] = ()


def prepare_model(
    spec: BuildSpec, plan: PrecisionPlan, *, folder: Path, stage: Stage
) -> PreparedModel:
    """Do the steps of a plan; without any, the model is built as it is, or as it was made ahead."""
    ahead = made_ahead(folder)
    if ahead is not None:
        return PreparedModel(path=ahead, files=_kept(spec, folder))
    if not plan.steps:
        return PreparedModel(path=Path(spec.model.path))
    step = plan.steps[0]
    stage(step.verb)
    outcome = _convert(spec, step, folder=folder)
    return PreparedModel(
        path=folder / TYPED, files=_kept(spec, folder), notes=notes_of(spec, step, outcome)
    )


def made_ahead(folder: Path) -> Path | None:
    """Find the model with its types, where the folder of the job came with one."""
    return folder / TYPED if (folder / TYPED).is_file() else None


def notes_of(spec: BuildSpec, step: PrecisionStep, outcome: QuantOutcome) -> tuple[str, ...]:
    """Tell what a reader of the engine's record must know of a step."""
    changed = sum(outcome.changed.values())
    done = f"{step.text}; {changed} nodes changed"
    random = spec.calibration == "random"
    notes = [done, *(["quantized with random data: no evidence of accuracy"] if random else [])]
    return (*notes, *outcome.notes)


def _kept(spec: BuildSpec, folder: Path) -> dict[str, str]:
    """Keep the typed model beside the engine, unless its weights are in files of other names."""
    alone = len(list(folder.glob(f"{TYPED}*"))) == 1
    return {f".{spec.precision}.onnx": TYPED} if alone else {}


def step_spec(spec: BuildSpec, step: PrecisionStep, folder: Path) -> QuantSpec:
    """Write a step as the conversion it is; data for it are put into the folder."""
    cast = step.verb == "cast"
    return QuantSpec(
        model=spec.model,
        output=str(folder / TYPED),
        precision=step.precision,
        via="cast" if cast else step.by,  # type: ignore[arg-type]
        keep_io=True,  # as a weakly typed builder leaves inputs and outputs alone
        calibration=None if cast else _calibration_ref(spec, folder),
        method="minmax" if spec.calibration_method == "minmax" else "entropy",
    )


def _calibration_ref(spec: BuildSpec, folder: Path) -> CalibrationRef:
    """Put the data into a file of batches, as the quantizer takes them."""
    from trtbench.analysis.inputs import fixed_batch
    from trtbench.build.onnx_file import load_onnx
    from trtbench.build.onnx_read import input_specs
    from trtbench.build.quantize_data import (
        RANDOM,
        batch_of,
        calibration_items,
        feeds_sha256,
        save_feeds,
    )

    inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
    shapes = {name: span.opt for name, span in spec.shapes.items()}
    items = calibration_items(spec, inputs, shapes=shapes)
    batch = batch_of(inputs, asked=None)
    feeds = items.feeds(batch=batch, fixed=fixed_batch(inputs) is not None)
    save_feeds(folder / FEEDS, feeds)
    source = str(spec.calibration)
    images = bool(spec.prepared)
    return CalibrationRef(
        source=source,
        kind="random" if source == RANDOM else "images" if images else "arrays",
        items=len(items),
        batch=batch,
        sha256=feeds_sha256(feeds),
        preprocessing=dict(spec.prepared),
        file=str(folder / FEEDS),
    )


def _convert(spec: BuildSpec, step: PrecisionStep, *, folder: Path) -> QuantOutcome:
    try:
        from trtbench.build.quantize import quantize

        return quantize(step_spec(spec, step, folder), folder=folder, stage=Stage())
    except (ImportError, UnavailableError) as problem:
        missing = problem.name if isinstance(problem, ImportError) else problem
        raise UnavailableError(
            f"this interpreter cannot {step.verb} the model, and {step.reason}",
            facts={"missing": missing or problem},
            fix=f"first: trtbench quantize {shlex.quote(spec.model.path)} --precision "
            f"{step.precision}",
        ) from None
