"""Why an ONNX file cannot be loaded, in words a user can act on."""

from __future__ import annotations

import re
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.errors import InputError, TrtbenchError

if TYPE_CHECKING:
    from onnx import ModelProto

_MODEL_BYTES = re.compile(rb"^[\x08\x0a\x12\x1a\x22\x2a\x32\x3a\x42\x72\xa2]")
"""An ONNX file is a protobuf message: its first byte is the tag of one of ModelProto's fields."""

_DAMAGED = re.compile(
    r"Protobuf parsing failed|INVALID_PROTOBUF|ModelProto does not have a graph|Missing opset"
)

_UNSUPPORTED = re.compile(
    r"(?:Could not find an implementation for|is not a registered function/op"
    r"|No Op registered for)\s*(?P<what>[^\n]*)"
)


def explain_load_failure(path: str, reason: str) -> TrtbenchError:
    """Turn ONNX Runtime's message into an error that names the file and the way out."""
    first = reason.strip().splitlines()[0] if reason.strip() else "no reason given"
    facts = {"file": path, "reason": first}
    if not looks_like_onnx(path):
        return InputError(
            f"{Path(path).name} is not an ONNX file",
            facts={"file": path, "it begins": _beginning(path)},
            fix="git lfs pull" if _is_lfs_pointer(path) else "copy or export the model again",
        )
    external = external_data_problem(path)
    if external is not None:
        return external
    if _UNSUPPORTED.search(reason) and "under development" not in reason:
        return InputError(
            "the model uses an operator that ONNX Runtime does not have",
            facts={"file": path, "operator": _operator(reason)},
            fix="run it on another runtime, or export it with standard operators",
        )
    if _is_damaged(path, reason):
        return InputError(
            f"{Path(path).name} is damaged or cut short",
            facts=facts,
            fix="copy or export the model again",
        )
    if re.search(r"opset|IR version|ir_version", reason):
        return InputError(
            "the model is newer than ONNX Runtime here",
            facts=facts,
            fix="pip install --upgrade onnxruntime, or export with a lower opset",
        )
    return InputError(
        "ONNX Runtime could not load the model",
        facts=facts,
        fix="export it again, or measure it on another runtime with -r",
    )


def looks_like_onnx(path: str) -> bool:
    """Tell from its first byte whether a file can be an ONNX model at all."""
    with open(path, "rb") as file:
        head = file.read(64)
    return bool(_MODEL_BYTES.match(head)) and not _is_text(head)


def _is_text(head: bytes) -> bool:
    text = head.decode("utf-8", "ignore")
    return len(text.encode()) >= len(head) - 3 and all(c.isprintable() or c.isspace() for c in text)


def _beginning(path: str) -> str:
    with open(path, "rb") as file:
        return repr(file.read(24))[2:-1]


def _is_lfs_pointer(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(24) == b"version https://git-lfs."


def _is_damaged(path: str, reason: str) -> bool:
    """Say whether parts are missing; what measures may have no onnx to look with."""
    if util.find_spec("onnx") is None:
        return bool(_DAMAGED.search(reason))
    model = parsed(path)
    return model is None or not model.graph.node or not model.opset_import


def parsed(path: str) -> ModelProto | None:
    """Find the model as onnx reads it, without its weights; ``None`` when it cannot be read."""
    try:
        import onnx

        return onnx.load(path, load_external_data=False)
    except Exception:  # protobuf and onnx meet damage with several kinds of exception
        return None


def external_data_problem(path: str) -> TrtbenchError | None:
    """Say which file of external weights is not there, or not whole."""
    model = parsed(path)
    for tensor in model.graph.initializer if model is not None else ():
        facts = {entry.key: entry.value for entry in tensor.external_data}
        if "location" not in facts:
            continue
        weights = Path(path).parent / facts["location"]
        places = [facts.get(key, "0") for key in ("offset", "length")]
        end = sum(int(each) for each in places if each.isdecimal())
        if not weights.is_file():
            return InputError(
                "the model keeps its weights in another file, which is not there",
                facts={"file": path, "missing": weights},
                fix=f"put {weights.name} beside the model",
            )
        if weights.stat().st_size < end:
            return InputError(
                f"{weights.name}, which holds the model's weights, is cut short",
                facts={"file": weights, "bytes": weights.stat().st_size, "needed": end},
                fix="copy or export the model again",
            )
    return None


def _operator(reason: str) -> str:
    match = _UNSUPPORTED.search(reason)
    before = re.search(r"(\S+) is not a registered function/op", reason)
    if before:
        return before.group(1)
    return match.group("what").strip() if match else reason.splitlines()[0]
