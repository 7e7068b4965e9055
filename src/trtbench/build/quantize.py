"""Changes the precision of an ONNX file: a cast, or a quantization by one of two libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from trtbench.analysis.onnx_stamp import PREFIX, PREPARATION, text_from_preparation
from trtbench.build.onnx_file import check_onnx, load_onnx, save_onnx
from trtbench.domain.conversion import QuantOutcome, QuantSpec
from trtbench.domain.job import Stage
from trtbench.errors import InputError, UsageError
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from onnx import ModelProto


STAND_IN = "stand-in.onnx"
LIBRARIES = ("trtbench", "onnx", "onnxruntime", "numpy", "nvidia-modelopt", "torch")


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


def versions() -> dict[str, str]:
    """Of what a conversion depends on."""
    return library_versions(LIBRARIES)


def finish(model: ModelProto, spec: QuantSpec) -> None:
    """Stamp a model, write it, and refuse it if it breaks the rules of ONNX."""
    stamp(model, spec)
    drop_unused_domains(model)
    save_onnx(model, Path(spec.output))
    check_onnx(Path(spec.output))


def stamp(model: ModelProto, spec: QuantSpec) -> None:
    """Write into the model itself how it came about."""
    facts = {
        "step": "cast" if spec.via == "cast" else "quantize",
        "precision": spec.precision,
        "source_sha256": spec.model.sha256,
    }
    if spec.calibration is not None:
        facts["method"] = f"{spec.via} {spec.method}"
        facts["calibration"] = spec.calibration.source
        facts["calibration_sha256"] = spec.calibration.sha256
        if spec.calibration.preprocessing:
            facts[PREPARATION] = text_from_preparation(spec.calibration.preprocessing)
    known = {entry.key: entry for entry in model.metadata_props}
    for key, value in facts.items():
        if value is None:
            continue
        entry = known.get(PREFIX + key) or model.metadata_props.add()
        entry.key, entry.value = PREFIX + key, value


def drop_unused_domains(model: ModelProto) -> None:
    """Quantizers list every operator domain they know; a parser should see those in use only."""
    used = {node.domain for node in model.graph.node} | {""}
    if any(node.attribute for node in model.graph.node for a in node.attribute if a.HasField("g")):
        return  # a body may use what the graph around it does not
    for entry in [entry for entry in model.opset_import if entry.domain not in used]:
        model.opset_import.remove(entry)


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
