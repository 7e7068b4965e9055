"""What must be said wherever a model's numbers are shown: scales that came from random data."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.onnx_stamp import RANDOM_DATA, notes_from_metadata
from trtbench.build._onnx_file import load_onnx
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import value_from_json
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError, UnavailableError


def stamps_of_engine(model: ModelRef) -> tuple[str, ...]:
    """Stamps in the record beside an engine, if it is of this very engine."""
    if model.format != "engine":
        return ()
    path = Path(f"{model.path}.json")
    try:
        record = value_from_json(path.read_bytes(), Artefact, where=str(path))
    except (OSError, InputError):
        return ()
    if model.sha256 is not None and record.sha256 != model.sha256:
        return ()
    return tuple(note for note in record.notes if RANDOM_DATA in note)


def stamps_of_onnx(path: Path) -> tuple[str, ...]:
    """Stamps that an ONNX file carries in itself."""
    try:
        entries = load_onnx(path, weights=False).metadata_props
    except (InputError, UnavailableError):
        return ()
    return notes_from_metadata({entry.key: entry.value for entry in entries})
