"""Why an ONNX file cannot be loaded, in words a user can act on."""

from __future__ import annotations

import re
from pathlib import Path

from trtbench.errors import InputError, TrtbenchError

_MODEL_BYTES = re.compile(rb"^[\x08\x0a\x12\x1a\x22\x2a\x32\x3a\x42\x72\xa2]")
"""An ONNX file is a protobuf message: its first byte is the tag of one of ModelProto's fields."""

_UNSUPPORTED = re.compile(
    r"(?:Could not find an implementation for|is not a registered function/op"
    r"|No Op registered for)\s*(?P<what>[^\n]*)",
)


def explain_load_failure(path: str, reason: str) -> TrtbenchError:
    """Turn ONNX Runtime's message into an error that names the file and the way out."""
    first = reason.strip().splitlines()[0] if reason.strip() else "no reason given"
    facts = {"file": path, "reason": first}
    external = missing_external_data(path)
    if external:
        return InputError(
            "the model keeps its weights in another file, which is not there",
            facts={"file": path, "missing": external},
            fix=f"put {Path(external).name} beside the model",
        )
    if not looks_like_onnx(path):
        return InputError(f"{Path(path).name} is not an ONNX file", facts=facts)
    if re.search(r"is not a registered function/op|Could not find an implementation", reason):
        return InputError(
            "the model uses an operator that ONNX Runtime does not have",
            facts={"file": path, "operator": _operator(reason)},
            fix="run it on another runtime, or export it with standard operators",
        )
    if re.search(
        r"Protobuf parsing failed|INVALID_PROTOBUF|ModelProto does not have a graph", reason
    ):
        return InputError(f"{Path(path).name} is damaged or cut short", facts=facts)
    if re.search(r"opset|IR version|ir_version", reason):
        return InputError(
            "the model is newer than ONNX Runtime here",
            facts=facts,
            fix="pip install --upgrade onnxruntime, or export with a lower opset",
        )
    return InputError("ONNX Runtime could not load the model", facts=facts)


def looks_like_onnx(path: str) -> bool:
    """Tell from its first byte whether a file can be an ONNX model at all."""
    with open(path, "rb") as file:
        head = file.read(64)
    text = head.decode("ascii", "ignore")
    return bool(_MODEL_BYTES.match(head)) and not (len(text) == len(head) and text.isprintable())


def missing_external_data(path: str) -> str | None:
    """Name the first file of external weights that is not there."""
    try:
        import onnx
        from onnx.external_data_helper import ExternalDataInfo, uses_external_data

        model = onnx.load(path, load_external_data=False)
    except Exception:  # a file that cannot be parsed is judged elsewhere
        return None
    folder = Path(path).parent
    for tensor in model.graph.initializer:
        if uses_external_data(tensor):
            location = folder / ExternalDataInfo(tensor).location
            if not location.is_file():
                return str(location)
    return None


def _operator(reason: str) -> str:
    match = _UNSUPPORTED.search(reason)
    before = re.search(r"(\S+) is not a registered function/op", reason)
    if before:
        return before.group(1)
    return match.group("what").strip() if match else reason.splitlines()[0]
