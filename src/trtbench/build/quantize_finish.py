"""The end of every cast and quantization: the model is stamped, written and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.analysis.onnx_stamp import PREFIX, PREPARATION, text_from_preparation
from trtbench.build.onnx_file import check_onnx, save_onnx
from trtbench.domain.conversion import QuantSpec
from trtbench.host.versions import library_versions

if TYPE_CHECKING:
    from onnx import ModelProto

LIBRARIES = ("trtbench", "onnx", "onnxruntime", "numpy", "nvidia-modelopt", "torch")


def versions() -> dict[str, str]:
    """List versions of what a conversion depends on."""
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
        facts["calibration"] = Path(spec.calibration.source).name  # anywhere, the same bytes
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
    """Drop operator domains that are not in use: quantizers list every one they know."""
    used = {node.domain for node in model.graph.node} | {""}
    if any(node.attribute for node in model.graph.node for a in node.attribute if a.HasField("g")):
        return  # a body may use what the graph around it does not
    for entry in [entry for entry in model.opset_import if entry.domain not in used]:
        model.opset_import.remove(entry)
