"""Cast or quantize an ONNX file, compare it with its source, and keep how it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trtbench.analysis.inputs import fixed_batch
from trtbench.analysis.onnx_stamp import random_note
from trtbench.analysis.open_shapes import fitted, unknown_input
from trtbench.build.onnx_file import load_onnx
from trtbench.build.onnx_read import input_specs
from trtbench.build.quantize_data import (
    HELD_OUT_SEED,
    ITEMS,
    RANDOM,
    Items,
    array_items,
    batch_of,
    feeds_sha256,
    given_items,
    random_items,
    save_feeds,
    settled_items,
)
from trtbench.domain.conversion import (
    CalibrationRef,
    Quantizer,
    QuantOutcome,
    QuantSpec,
    Sidecar,
    VerifyOutcome,
)
from trtbench.domain.job import QuantizeJob
from trtbench.domain.result import Scalar
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.models.identity import demand_unchanged, model_ref
from trtbench.models.index_limits import index_limits
from trtbench.store.directory import now
from trtbench.tasks import TASKS
from trtbench.units import text_from_shape
from trtbench.workflows.make.calibration_images import refuse_without_task, task_items
from trtbench.workflows.make.conversion import (
    conversion_folder,
    made_by,
    put_in_place,
    refuse_folder,
    refuse_overwriting,
    run_conversion,
    verify,
    write_sidecar,
)
from trtbench.workflows.measure.errand import run_errand
from trtbench.workflows.measure.job import read_outcome
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.making import QuantizeRequest

VIA: Mapping[str, Quantizer] = {
    "fp16": "cast",
    "bf16": "cast",
    "int8": "onnxruntime",
    "fp8": "modelopt",
}
"""What makes a precision when nobody says."""

HELD_OUT = 32
COMPARED = 16
"""Random items a difference is taken on where there is no data."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where arrays come from, for calibrating and for comparing."""

    calibration: str | None = None
    """A folder of images, an ``.npz``, an ``.npy`` or ``random``."""
    inputs: str | None = None
    """What to take the difference on; by default held-out items of the calibration data."""
    items: int = ITEMS
    batch: int | None = None
    seed: int = 0
    task: str | None = None
    """Prepares images as it does for judging: ``classification``, ``depth``, ..."""
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    """Of the task."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def quant_spec(request: QuantizeRequest) -> QuantSpec:
    """Settle a conversion."""
    path, precision = Path(request.model), request.precision
    means = request.via or VIA[precision]
    if (means == "cast") != (VIA[precision] == "cast"):
        raise UsageError(f"{precision} is not made with {means}", fix="leave --via out")
    if means == "modelopt" and request.method == "percentile":
        raise UsageError("ModelOpt calibrates by minmax or entropy", fix="--method entropy")
    target = Path(request.output) if request.output else path.with_suffix(f".{precision}.onnx")
    refuse_overwriting(path, target)
    refuse_folder(target, name=path.with_suffix(f".{precision}.onnx").name)
    spec = QuantSpec(
        model=model_ref(path),
        output=str(target.absolute()),
        precision=precision,
        via=means,
        keep_io=request.keep_io,
        keep=(*request.exclude, *request.keep),
    )
    if means == "cast":
        return spec
    return spec.having(
        method=request.method,
        percentile=request.percentile,
        per_channel=request.per_channel,
        operators=tuple(request.operators),
        rest=request.rest,
    )


def data_from_request(request: QuantizeRequest) -> Data:
    """Say where arrays come from, and which task prepares images."""
    return Data(
        calibration=str(request.calibration) if request.calibration is not None else None,
        inputs=str(request.inputs) if request.inputs is not None else None,
        items=request.items,
        batch=request.batch,
        seed=request.seed,
        task=request.task,
        settings=request.settings,
        shapes={name: tuple(dims) for name, dims in request.shapes.items()},
    )


def quantized(
    request: QuantizeRequest, spec: QuantSpec, *, config: Config, conduct: Conduct
) -> Sidecar:
    """Make the file here, or where the executor of a request says; both lie here then."""
    if request.executor is None:
        return run_quantize(spec, data=data_from_request(request), conduct=conduct)
    made = run_errand(
        "quantize", request, Sidecar, config=config, conduct=conduct,
        gpu=False, output=Path(spec.output),
        libraries=("package:onnx", *((f"package:{v}/{v}",) if (v := spec.via) != "cast" else ())),
    )  # fmt: skip
    made = made.having(command=conduct.command)
    write_sidecar(made, Path(spec.output))
    return made


def run_quantize(
    spec: QuantSpec, *, data: Data | None = None, conduct: Conduct | None = None
) -> Sidecar:
    """Make the file and its sidecar; neither is there when anything fails."""
    data, conduct = data or Data(), conduct or Conduct()
    output = Path(spec.output)
    source = Path(spec.model.path)
    inputs = input_specs(load_onnx(source, weights=False))
    assumed = settle_data(spec, data)
    limits = index_limits(spec.model, inputs)
    calibrated, held_out, compared_on, prepared = _prepare(spec, data, inputs, limits)
    with conversion_folder(output) as folder:
        work = folder / "work"
        work.mkdir()
        calibration = _reference(data, inputs, calibrated, prepared, work)
        inner = spec.having(output=str(work / output.name), calibration=calibration)
        batch = batch_of(inputs, asked=None, default=data.batch or 8)
        save_feeds(
            folder / "held-out.npz", held_out.feeds(batch=batch, fixed=bool(fixed_batch(inputs)))
        )
        end = run_conversion(
            QuantizeJob(spec=inner), folder=work, conduct=conduct, python=conduct.python
        )
        demand_unchanged(spec.model)
        outcome = read_outcome(work, QuantOutcome)
        verified = _compare(inner, outcome, folder, conduct)
        made = Path(inner.output)
        sidecar = _sidecar(inner, outcome, verified, compared_on, end.seconds, conduct)
        notes = (*((assumed,) if assumed else ()), *sidecar.notes)
        sidecar = sidecar.having(notes=notes, recipe=recipe_of(spec, data))
        put_in_place(made, output)
    write_sidecar(sidecar, output)
    return sidecar


def settle_data(spec: QuantSpec, data: Data) -> str | None:
    """Refuse data that a conversion cannot use; tell what open dimensions were given, if any."""
    refuse_without_task(data.calibration, data.task)
    if spec.via == "cast" and data.calibration is not None:
        raise UsageError("a cast needs no calibration", fix="--inputs for the comparison")
    if spec.via != "cast" and data.calibration is None:
        raise UsageError(
            f"{spec.precision} needs data to calibrate with",
            fix="--calibration FOLDER, --calibration data.npz, or --calibration random",
        )
    inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
    batch_of(inputs, asked=data.batch)
    known = {each.name: each for each in inputs}
    for name, given in data.shapes.items():
        if name not in known:
            raise unknown_input(name, inputs)
        fitted(known[name], given)
    if data.calibration != RANDOM and (data.inputs is not None or data.calibration is not None):
        return None
    return settled_items(inputs, data.shapes, model=spec.model.path)[1]


def _prepare(
    spec: QuantSpec, data: Data, inputs: Sequence[TensorSpec], limits: Mapping[str, int]
) -> tuple[Items | None, Items, str, dict[str, Scalar]]:
    """Find calibration items, items held out of them, what those are in words, and how prepared."""
    batch = batch_of(inputs, asked=data.batch)
    draw = partial(
        random_items, inputs, shapes=dict(data.shapes), model=spec.model.path, limits=limits
    )
    drawn = data.inputs is None and data.calibration in (None, RANDOM)
    random = draw(count=max(COMPARED, batch), seed=data.seed + HELD_OUT_SEED) if drawn else None
    given = array_items(Path(data.inputs), inputs) if data.inputs is not None else None
    other = (given, f"items of {data.inputs}") if given else (random, "random inputs")
    if spec.via == "cast":
        assert other[0] is not None
        return None, other[0], other[1], {}
    items, prepared = _items(data, inputs, draw)
    if other[0] is not None:
        return items, other[0], other[1], prepared
    # Only a fixed batch must be filled; else a fifth is a fifth, however few items there are.
    return *_split(items, batch if fixed_batch(inputs) else 1, most=data.items), prepared


def _items(
    data: Data, inputs: Sequence[TensorSpec], draw: Callable[..., Items]
) -> tuple[Items, dict[str, Scalar]]:
    assert data.calibration is not None
    if data.calibration == RANDOM:
        return draw(count=data.items, seed=data.seed), {}
    source = Path(data.calibration)
    limit = data.items + HELD_OUT
    if data.task is not None:
        return task_items(
            data.calibration, given_items(inputs, data.shapes), task=data.task,
            settings=data.settings, limit=limit, seed=data.seed,
        )  # fmt: skip
    return array_items(source, inputs).part(0, limit), {}


def _split(items: Items, batch: int, *, most: int) -> tuple[Items, Items, str]:
    """Hold out the last items, a fifth at most, whole batches of them; calibrate with the first."""
    count = min(HELD_OUT, len(items) // 5) // batch * batch or min(batch, len(items) // 2)
    if not count:
        raise InputError(
            "there is too little calibration data to hold any out",
            facts={"items": len(items), "batch": batch},
            fix="--inputs data.npz for the comparison, a smaller --batch, or more data",
        )
    cut = len(items) - count
    words = f"{count} items held out of the calibration data"
    return items.part(0, min(cut, most)), items.part(cut, len(items)), words


def _reference(
    data: Data,
    inputs: Sequence[TensorSpec],
    items: Items | None,
    prepared: dict[str, Scalar],
    folder: Path,
) -> CalibrationRef | None:
    """Write the calibration batches, and say what they are."""
    if items is None or data.calibration is None:
        return None
    batch = batch_of(inputs, asked=data.batch)
    feeds = items.feeds(batch=batch, fixed=bool(fixed_batch(inputs)))
    if not feeds:
        raise InputError(
            "there is not one full batch of calibration data",
            facts={"items": len(items), "batch": batch},
            fix="give more items, or fewer per batch with --batch N",
        )
    file = folder / "calibration.npz"
    save_feeds(file, feeds)
    images = bool(prepared)
    return CalibrationRef(
        source=data.calibration,
        kind="random" if data.calibration == RANDOM else ("images" if images else "arrays"),
        items=len(items),
        batch=batch,
        sha256=feeds_sha256(feeds),
        seed=data.seed,
        preprocessing=prepared,
        file=str(file),
    )


def _compare(
    spec: QuantSpec, outcome: QuantOutcome, folder: Path, conduct: Conduct
) -> VerifyOutcome:
    """Take the difference; a stand-in shows what a cast costs where the file cannot be run."""
    source, made = Path(spec.model.path), Path(spec.output)
    inputs = folder / "held-out.npz"
    model = made.parent / outcome.stand_in if outcome.stand_in else made
    found = verify(
        model, reference=source, inputs=inputs, precision=spec.precision,
        folder=folder / "verify", conduct=conduct,
    )  # fmt: skip
    if outcome.stand_in is None or spec.precision != "fp16":
        return found
    itself = verify(
        made, reference=source, inputs=inputs, precision=spec.precision,
        folder=folder / "verify-file", conduct=conduct,
    )  # fmt: skip
    return found.having(problem=itself.problem)


def _sidecar(
    spec: QuantSpec,
    outcome: QuantOutcome,
    verified: VerifyOutcome,
    compared_on: str,
    seconds: float,
    conduct: Conduct,
) -> Sidecar:
    made = Path(spec.output)
    opsets = {entry.domain: entry.version for entry in load_onnx(made, weights=False).opset_import}
    calibration = spec.calibration
    if calibration is not None:
        calibration = calibration.having(file=None)
    rounding = " (every tensor rounded, sums in FP32)" if outcome.stand_in else ""
    return Sidecar(
        made_by=made_by(),
        step="cast" if spec.via == "cast" else "quantize",
        file=made.name,
        sha256=model_ref(made).sha256 or "",
        created=now(),
        source=spec.model.path,
        source_sha256=spec.model.sha256,
        precision=spec.precision,
        method=spec.via if spec.via == "cast" else f"{spec.via} {spec.method}",
        opset=opsets.get(""),
        calibration=calibration,
        kept=outcome.kept,
        changed=outcome.changed,
        facts={**outcome.facts, "keep_io": spec.keep_io, "per_channel": spec.per_channel}
        if spec.via != "cast"
        else {**outcome.facts, "keep_io": spec.keep_io},
        seconds=seconds,
        versions={**outcome.versions, **verified.versions},
        difference=verified.diffs,
        compared_on=compared_on + rounding,
        unverified=None if verified.diffs else verified.problem,
        command=conduct.command,
        notes=_notes(outcome, verified, calibration, spec.precision),
    )


def recipe_of(spec: QuantSpec, data: Data) -> tuple[str, ...]:
    """Write the flags that make a file again; those that say what is so anyway are left out."""
    shapes = [w for name, dims in data.shapes.items()
              for w in ("--shape", f"{name}:{text_from_shape(dims)}")]  # fmt: skip
    if spec.via == "cast":
        return (*shapes, *(("--keep-io",) if spec.keep_io else ()))
    usual = QuantSpec(model=spec.model, output="", precision=spec.precision)
    told: dict[str, tuple[Scalar, Scalar]] = {
        "calibration": (data.calibration, None), "method": (spec.method, usual.method),
        "percentile": (spec.percentile, usual.percentile), "rest": (spec.rest, usual.rest),
        "via": (spec.via, VIA[spec.precision]), "items": (data.items, ITEMS),
        "seed": (data.seed, 0), "task": (data.task, None),
    }  # fmt: skip
    flags = TASKS.load(data.task).FLAGS if data.task else ()
    told |= {flag.name: (data.settings.get(flag.key), flag.default) for flag in flags}
    words = [*shapes, *(w for name, (own, other) in told.items() if own not in (None, other)
                        for w in (f"--{name}", str(own)))]  # fmt: skip
    words += [] if spec.per_channel else ["--per-tensor"]
    return (*words, *(w for kind in spec.operators for w in ("--op", kind)))


def _notes(
    outcome: QuantOutcome,
    verified: VerifyOutcome,
    calibration: CalibrationRef | None,
    precision: str,
) -> tuple[str, ...]:
    notes = list(outcome.notes)
    if calibration is not None and calibration.kind == "random":
        notes.append(random_note(precision))
    if verified.problem and verified.diffs:
        notes.append(f"ONNX Runtime here cannot run the file itself: {verified.problem}")
    return tuple(notes)
