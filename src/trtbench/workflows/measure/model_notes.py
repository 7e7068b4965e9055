"""What is known of a model and must be said with its numbers: precision, scales of random data."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.onnx_stamp import RANDOM_DATA, notes_from_metadata
from trtbench.build.onnx_file import load_onnx
from trtbench.domain.artefact import Artefact
from trtbench.domain.result import Fact
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError, UnavailableError
from trtbench.store.sidecar import kept_value


def record_of_engine(model: ModelRef) -> Artefact | None:
    """The record beside an engine, if it is of this very engine."""
    if model.format != "engine":
        return None
    record = kept_value(Path(f"{model.path}.json"), Artefact)
    return record if record and model.sha256 in (None, record.sha256) else None


def stamps_of_engine(model: ModelRef) -> tuple[str, ...]:
    """Stamps in the record beside an engine."""
    record = record_of_engine(model)
    return tuple(note for note in record.notes if RANDOM_DATA in note) if record else ()


def conditions_of_engine(model: ModelRef) -> dict[str, Fact]:
    """What the record beside an engine tells about how it computes."""
    record = record_of_engine(model)
    if record is None:
        return {}
    known = record.conditions
    precision = known["precision"].value if "precision" in known else None
    # Where FP16 is allowed too, what little is left to TF32 decides nothing.
    kept = ("precision", "typing", *(("tf32",) if precision in ("fp32", "tf32") else ()))
    return {key: known[key] for key in kept if key in known}


def stamps_of_onnx(path: Path) -> tuple[str, ...]:
    """Stamps that an ONNX file carries in itself."""
    try:
        entries = load_onnx(path, weights=False).metadata_props
    except (InputError, UnavailableError):
        return ()
    return notes_from_metadata({entry.key: entry.value for entry in entries})
