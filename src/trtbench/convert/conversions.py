"""Export, cast and quantize: a job in a child process, a comparison, a record, the final files.

If anything fails, neither the file nor its record is written. Calibration images are prepared by a
task, as for the evaluation of the same network.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trtbench.analysis.onnx_graph import random_calibration_note
from trtbench.analysis.scores import TOLERANCES
from trtbench.convert import calibration as calibrations
from trtbench.convert.export import INPUTS, OUTPUTS
from trtbench.core import jobs, results
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, UsageError, refuse_unknown, writing
from trtbench.core.run import Scalar
from trtbench.core.spec import TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host.files import scratch_directory, write_whole
from trtbench.host.machine import distribution_versions, version_elsewhere
from trtbench.host.tensorrt import abilities_of_version
from trtbench.host.workers import check_interpreter
from trtbench.measure.bench import read_outcome, run_job
from trtbench.measure.remote import run_verb_remotely
from trtbench.models import inputs as model_inputs
from trtbench.models.identity import kept_value, model_ref, raise_if_changed
from trtbench.models.onnx_model import input_specs, load_onnx, opset_of
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fields_of, words_from_flags
from trtbench.requests.models import ExportRequest, QuantizeRequest
from trtbench.requests.settings import Config
from trtbench.store.directory import now
from trtbench.tasks._feed import task_of_data
from trtbench.version import __version__

PATIENCE_S = 2 * 3600.0  # calibrating a large network on a CPU takes a long time
_STAGES = {
    "load": ("loading", 0.05),
    "export": ("exporting", 0.2),
    "cast": ("casting", 0.2),
    "calibrate": ("calibrating", 0.2),
    "save": ("saving", 0.7),
    "compare": ("comparing", 0.8),
}
TARGETS: Mapping[str, int] = {
    "tensorrt-8.6": 17,
    "tensorrt-10": 20,
    "tensorrt-10.15": 24,
    "tensorrt-11": 24,
    "tensorrt-rtx": 24,
}
"""The newest opset that the ONNX parser of each version accepts."""
OLDEST_DYNAMO = 18  # the dynamo exporter writes no older opset, without an error
_DIM = r"(?:-1|0*[1-9]\d*)"
_SHAPE = re.compile(rf"(?:(?P<name>.+):)?(?P<dims>{_DIM}(?:x{_DIM})*)(?::(?P<dtype>[a-z]+\d*))?")
_NEXT_INPUT = re.compile(r",(?=\s*[A-Za-z_][^,:]*:)")  # a comma between two named shapes
VIA: Mapping[str, results.Quantizer] = {
    "fp16": "cast",
    "bf16": "cast",
    "int8": "onnxruntime",
    "fp8": "modelopt",
}
"""The default quantizer of each precision."""
_Opened = tuple[calibrations.Items, dict[str, Scalar]]
HELD_OUT = 32
COMPARED = 16  # random items for the comparison if there is no data


def stage_listener(
    stages: Mapping[str, tuple[str, float]], execution: Execution, *, longest: str
) -> Callable[[str], None]:
    """Return what tells the stages of a job, and the progress within the longest, as events.

    ``stages`` has the text for each, and the fraction of the work that is done when it begins.
    """

    def listen(stage: str) -> None:
        text, done = stages.get(stage, (stage, 0.0))
        if (progress := jobs.progress_from_line(stage)) is not None:
            begin, end = stages[longest][1], stages["save"][1]
            text, done = progress[1], begin + (end - begin) * progress[0]
        execution.listen(Event(kind="stage", text=text, done=done, guessed=progress is None))

    return listen


def _run_conversion(job: jobs.ConversionJob, folder: Path, execution: Execution) -> jobs.JobEnd:
    verifies = isinstance(job, jobs.VerifyJob)  # in this interpreter
    python = None if verifies else execution.python
    check_interpreter(python)
    stages = _STAGES | ({"load": ("loading", 0.8)} if verifies else {})
    listen = stage_listener(stages, execution, longest="calibrate")
    end = run_job(
        job, folder=folder, execution=execution, patience_s=PATIENCE_S, python=python,
        on_stage=listen,
    )  # fmt: skip
    if not end.ok:
        raise end.failure("the conversion did not finish")
    return end


def _verify(
    model: Path, reference: Path, inputs: Path, precision: str, folder: Path, execution: Execution
) -> results.VerifyOutcome:
    """Check a model and compare it with its source, in this interpreter."""
    rtol, atol = TOLERANCES[precision]
    spec = results.VerifySpec(
        model=str(model), reference=str(reference), inputs=str(inputs), rtol=rtol, atol=atol
    )
    _run_conversion(jobs.VerifyJob(spec=spec), folder / "verify", execution)
    return read_outcome(folder / "verify", results.VerifyOutcome)


def output_file(given: object, usual: Path, source: Path | None) -> Path:
    """Return the path of a file to make; a folder and the source itself are refused."""
    output = Path(str(given or usual))
    if source is not None and output.absolute() == source.absolute():
        raise UsageError("the result would overwrite its source", fix="give another name with -o")
    if output.is_dir():
        fix = f"-o {output / usual.name}"
        raise UsageError(f"{output} is a folder, not a file to write", fix=fix)
    return output.absolute()


@contextmanager
def _made(output: Path) -> Iterator[Path]:
    """Yield a temporary folder; the file in its folder ``work`` is moved in place afterwards."""
    with writing(output), scratch_directory(output.parent) as folder:
        (folder / "work").mkdir()
        yield folder
        put_in_place(folder / "work" / output.name, output)


def _sidecar(
    made: Path, end: jobs.JobEnd, verified: results.VerifyOutcome, execution: Execution, **own: Any
) -> results.Sidecar:
    """Return the record of a converted file; ``own`` are the fields of one kind of conversion."""
    return results.Sidecar(
        made_by=f"trtbench {__version__}",
        file=made.name,
        sha256=model_ref(made).sha256 or "",
        created=now(),
        seconds=end.seconds,
        difference=verified.diffs,
        unverified=verified.problem,
        command=execution.command,
        **own,
    )


def put_in_place(made: Path, output: Path) -> None:
    """Move a model to its final path, its external data first."""
    data = made.with_name(made.name + ".data")
    with writing(output):
        if data.is_file():
            data.replace(output.with_name(output.name + ".data"))
        made.replace(output)


def _write_sidecar(sidecar: results.Sidecar, model: Path) -> None:
    """Write ``model.json`` next to a model, unless another file has that name."""
    path = model.with_suffix(".json")
    if path.exists() and kept_value(path, results.Sidecar) is None:
        path = model.with_name(model.name + ".json")
    with writing(path):
        write_whole(path, json_from_value(sidecar))


def export_spec(request: ExportRequest, *, builder: str | None = None) -> results.ExportSpec:
    """Return the spec of an export, with the exporter and opset for the target.

    ``builder`` is the interpreter that builds engines, if that is not this one.
    """
    target, opset, exporter = request.target, request.opset, request.exporter
    if target is not None:
        refuse_unknown(target, TARGETS, f"{target!r} is not a known target", flag="--for")
    _refuse_opset(opset, target)
    limit = TARGETS[target] if target else None
    if target is None and exporter is None:  # engines will be built with the TensorRT that is found
        if builder is not None:
            version = version_elsewhere("tensorrt", builder)
        else:
            version = next(iter(distribution_versions("tensorrt").values()), None)
        limit = abilities_of_version(version, flavour="tensorrt").max_opset if version else None
    wanted = opset or (limit if limit is not None and limit < OLDEST_DYNAMO else None)
    old = wanted is not None and wanted < OLDEST_DYNAMO
    if old and exporter == "dynamo":
        message = f"the dynamo exporter writes opset {OLDEST_DYNAMO} and later, not {wanted}"
        raise UsageError(message, fix="--exporter legacy")
    name, weights = str(request.source), str(request.weights)
    if name.lower().endswith(".onnx"):
        raise UsageError(f"{name} is already an ONNX file", fix=f"trtbench bench {name}")
    file = None if ":" in name else Path(name)
    usual = Path(f"{Path(name.rpartition(':')[2]).stem}.onnx")
    own = weights not in ("default", "none")
    return results.ExportSpec(
        source=name if file is None else str(file.absolute()),
        output=str(output_file(request.output, usual, file)),
        weights=str(Path(weights).absolute()) if own else weights,
        inputs=input_shapes(request.input_shapes),
        opset=wanted,
        exporter=exporter or ("legacy" if old else "dynamo"),
        folder=str(Path.cwd()),
        half=request.half,
        trust=request.trust,
        factory=request.factory,
        seed=request.seed,
    )


def _refuse_opset(opset: int | None, target: str | None) -> None:
    if target is not None and opset is not None and opset > TARGETS[target]:
        limit = TARGETS[target]
        message = f"the ONNX parser of {target} accepts opsets up to {limit}, not {opset}"
        raise UsageError(message, fix=f"--opset {limit}")


def input_shapes(texts: Sequence[str]) -> tuple[results.InputShape, ...]:
    """Read ``-1x3x224x224``, ``images:-1x3x224x224`` or ``ids:-1x128:int64``, or several named."""
    found = []
    for text in (part for given in texts for part in _NEXT_INPUT.split(given)):
        match = _SHAPE.fullmatch(text.strip().replace(" ", "x").replace(",", "x"))
        if not match:
            facts = {"dimensions": "numbers above 0, or -1 for dynamic"}
            fix = "write it like --input-shape -1 3 224 224, or NAME:-1x128 or NAME:-1x128:int64"
            raise UsageError(f"--input-shape {text} is not valid", facts=facts, fix=fix)
        dims = tuple(int(dim) for dim in match["dims"].split("x"))
        found.append(results.InputShape(name=match["name"], shape=dims, dtype=match["dtype"]))
    return tuple(found)


def run_export(
    request: ExportRequest, *, execution: Execution | None = None, builder: str | None = None
) -> results.Sidecar:
    """Export the ONNX file; returns the record that is written next to it."""
    spec, execution = export_spec(request, builder=builder), execution or Execution()
    output, precision = Path(spec.output), "fp16" if spec.half else "fp32"
    with _made(output) as folder:
        work = folder / "work"
        made = work / output.name
        end = _run_conversion(jobs.ExportJob(spec=spec.having(output=str(made))), work, execution)
        outcome = read_outcome(work, results.ExportOutcome)
        opset = opset_of(load_onnx(made, weights=False))
        _refuse_opset(opset, request.target)  # the exporter's own, where none was given
        verified = _verify(made, work / OUTPUTS, work / INPUTS, precision, folder, execution)
        sidecar = _sidecar(
            made, end, verified, execution,
            step="export",
            source=spec.source,
            source_sha256=outcome.source_sha256,
            precision=precision,
            method=outcome.kind,
            exporter=outcome.exporter,
            opset=opset,
            facts={"parameters": outcome.parameters, "weights": spec.weights, "seed": spec.seed},
            versions={**outcome.versions, **verified.versions},
            compared_on="one call with random inputs, ONNX Runtime against PyTorch",
            notes=outcome.notes,
        )  # fmt: skip
    _write_sidecar(sidecar, output)
    return sidecar


def quant_spec(request: QuantizeRequest) -> results.QuantSpec:
    path, precision = Path(request.model), request.precision
    means = request.via or VIA[precision]
    if means != VIA[precision] and (means, precision) != ("modelopt", "int8"):
        raise UsageError(f"{means} cannot produce {precision}", fix="leave --via out")
    if means == "modelopt" and request.method == "percentile":
        raise UsageError("ModelOpt calibrates by minmax or entropy", fix="--method entropy")
    output = output_file(request.output, path.with_suffix(f".{precision}.onnx"), path)
    same = ("precision", "keep_io", "method", "percentile", "per_channel", "rest")
    return results.QuantSpec(
        model=model_ref(path),
        output=str(output),
        via=means,
        keep=(*request.exclude, *request.keep),
        operators=tuple(request.operators),
        **{name: getattr(request, name) for name in same},
    )


def quantize_model(
    request: QuantizeRequest, *, config: Config, execution: Execution
) -> results.Sidecar:
    """Cast or quantize in the executor of the request; the files are copied to this machine."""

    def away() -> results.Sidecar:
        spec = quant_spec(request)
        made = run_verb_remotely(
            "quantize", request, results.Sidecar, config=config, execution=execution,
            gpu=False, output=Path(spec.output),
        )  # fmt: skip
        made = made.having(command=execution.command)
        _write_sidecar(made, Path(spec.output))
        return made

    return execution.executor.do(lambda: run_quantize(request, execution=execution), away)


def run_quantize(
    request: QuantizeRequest, *, execution: Execution | None = None
) -> results.Sidecar:
    """Cast or quantize on this machine; returns the record that is written next to the file."""
    spec, execution = quant_spec(request), execution or Execution()
    source, output, precision = Path(spec.model.path), Path(spec.output), spec.precision
    cast, batch = spec.via == "cast", request.batch
    assumed = check_data(spec, request)
    inputs = input_specs(load_onnx(source, weights=False))
    calibrated, held_out, compared_on, prepared = _prepare(spec, request, inputs)
    with _made(output) as folder:
        work = folder / "work"
        made, feeds = work / output.name, folder / "held-out.npz"
        inner = spec.having(output=str(made))
        if calibrated is not None:
            reference = calibrations.save_calibration(
                work / "calibration.npz", calibrated, inputs, source=str(_data(spec, request)),
                batch=calibrations.batch_of(inputs, requested=batch), preprocessing=prepared,
                seed=request.seed,
            )  # fmt: skip
            inner = inner.having(calibration=reference)
        size = calibrations.batch_of(inputs, requested=None, default=batch or 8)
        fixed = bool(model_inputs.fixed_batch(inputs))
        calibrations.save_feeds(feeds, held_out.feeds(batch=size, fixed=fixed))
        end = _run_conversion(jobs.QuantizeJob(spec=inner), work, execution)
        raise_if_changed(spec.model)
        outcome = read_outcome(work, results.QuantOutcome)
        # A stand-in shows the error of a cast if the file itself cannot be run.
        stand_in = work / outcome.stand_in if outcome.stand_in else None
        verified = _verify(stand_in or made, source, feeds, precision, folder, execution)
        calibration = inner.calibration and inner.calibration.having(file=None)
        facts: dict[str, Scalar] = {**outcome.facts, "keep_io": spec.keep_io}
        notes = [*([assumed] if assumed else []), *outcome.notes]
        if calibration and calibration.kind == "random":
            notes.append(random_calibration_note(precision))
        sidecar = _sidecar(
            made, end, verified, execution,
            step="cast" if cast else "quantize",
            source=spec.model.path,
            source_sha256=spec.model.sha256,
            precision=precision,
            method=spec.via if cast else f"{spec.via} {facts.pop('method', spec.method)}",
            opset=opset_of(load_onnx(made, weights=False)),
            calibration=calibration,
            kept=outcome.kept,
            changed=outcome.changed,
            facts=facts if cast else {"per_channel": spec.per_channel, **facts},
            versions={**outcome.versions, **verified.versions},
            compared_on=compared_on + (" (every tensor rounded, sums in FP32)" if stand_in else ""),
            recipe=_recipe(spec, request),
            notes=tuple(notes),
        )  # fmt: skip
    _write_sidecar(sidecar, output)
    return sidecar


def check_data(spec: results.QuantSpec, request: QuantizeRequest) -> str | None:
    """Raise an error for unusable data; returns a note on the dimensions that are assumed."""
    data = _data(spec, request)
    task_of_data(data, request.task, request.settings, [spec.model])
    if spec.via != "cast" and data is None:
        fix = "--data FOLDER, --data data.npz, or --random"
        raise UsageError(f"{spec.precision} needs calibration data", fix=fix)
    inputs = input_specs(load_onnx(Path(spec.model.path), weights=False))
    calibrations.batch_of(inputs, requested=request.batch)
    values = model_inputs.given_values(request.values, data=data)
    model_inputs.refuse_unknown_inputs({**values, **request.shapes}, [each.name for each in inputs])
    model_inputs.with_given_shapes(inputs, request.shapes, items=True)
    if data not in (None, calibrations.RANDOM):
        return None
    model, shapes = spec.model.path, request.shapes
    return calibrations.resolved_items(inputs, shapes, model=model, values=values).note


def _data(spec: results.QuantSpec, request: QuantizeRequest) -> object:
    """Return the data of a request; ``random`` and ``None`` are random items."""
    given = request.data or (calibrations.RANDOM if request.random else request.held_out)
    return None if spec.via == "cast" and given == calibrations.RANDOM else given


def _prepare(
    spec: results.QuantSpec, request: QuantizeRequest, inputs: Sequence[TensorSpec]
) -> tuple[calibrations.Items | None, calibrations.Items, str, dict[str, Scalar]]:
    """Return calibration items, items to compare on, their description, and the preprocessing."""
    batch, source = calibrations.batch_of(inputs, requested=request.batch), _data(spec, request)
    shapes = {name: tuple(dims) for name, dims in request.shapes.items()}
    count, cast = request.random or request.items, spec.via == "cast"

    def opened(data: object, limit: int, *, offset: int = 0) -> _Opened:
        task, own = task_of_data(data, request.task, request.settings, [spec.model])
        return calibrations.open_items(
            data, inputs, model=spec.model, limit=limit, shapes=shapes, task=task, settings=own,
            seed=request.seed + offset, values=model_inputs.given_values(request.values),
        )  # fmt: skip

    apart = source if cast else request.held_out
    if source is apart and not cast:  # the items of ``--held-out`` are those to calibrate with
        apart = None
    if apart is not None and apart != calibrations.RANDOM:
        held_out, words = opened(apart, count)[0], f"items of {apart}"
    elif source in (None, calibrations.RANDOM):
        offset = calibrations.HELD_OUT_SEED
        held_out, words = opened(None, max(COMPARED, batch), offset=offset)[0], "random inputs"
    else:
        held_out, words = None, ""
    if cast:
        assert held_out is not None
        return None, held_out, words, {}
    items, prepared = opened(source, count + (HELD_OUT if held_out is None else 0))
    if held_out is not None:
        return items, held_out, words, prepared
    # The last fifth of the items at most; a fixed batch must be filled completely.
    batch = batch if model_inputs.fixed_batch(inputs) else 1
    held = min(HELD_OUT, len(items) // 5) // batch * batch or min(batch, len(items) // 2)
    if not held:
        message = "there is too little calibration data to leave some for the comparison"
        fix = "--held-out data.npz for the comparison, a smaller --batch, or more data"
        raise InputError(message, facts={"items": len(items), "batch": batch}, fix=fix)
    cut = len(items) - held
    words = f"{held} items held out of the calibration data"
    return items.part(0, min(cut, count)), items.part(cut, len(items)), words, prepared


def _recipe(spec: results.QuantSpec, request: QuantizeRequest) -> tuple[str, ...]:
    """Return the flags that reproduce a file, without those that have their default."""
    shapes = [f"{name}:{text_from_shape(dims)}" for name, dims in request.shapes.items()]
    if spec.via == "cast":
        return tuple(words_from_flags({"--shape": shapes, "--keep-io": spec.keep_io}))
    names = ("data", "random", "method", "percentile", "items", "seed", "operators", "via", "rest",
             "task")  # fmt: skip
    given: dict[str, object] = {
        field.flag: value
        for field in fields_of(QuantizeRequest)
        if field.name in names and (value := getattr(request, field.name)) != field.default
    }
    given |= {f"--{key.replace('_', '-')}": value for key, value in request.settings.items()}
    given["--per-tensor"] = not spec.per_channel
    return tuple(words_from_flags({"--shape": shapes, **given}))
