"""Records that lie beside models, engines and runs: often missing, sometimes somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from trtbench.boundary import read_bytes
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import value_from_json
from trtbench.domain.conversion import Sidecar
from trtbench.domain.result import known_value
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError
from trtbench.models.identity import still_there

T = TypeVar("T")


def kept_value(path: Path, kind: type[T]) -> T | None:
    """Read a record nobody asked for by name; ``None`` where there is none of this kind."""
    try:
        return value_from_json(read_bytes(path), kind, where=str(path))
    except (OSError, InputError):
        return None


def read_sidecar(model: Path) -> Sidecar | None:
    """Tell what is kept beside a model, if it is about this very file name."""
    for path in (model.with_suffix(".json"), model.with_name(model.name + ".json")):
        found = kept_value(path, Sidecar)
        if found is not None and found.file == model.name:
            return found
    return None


def record_of_engine(model: ModelRef) -> Artefact | None:
    """Find the record beside an engine, if it is of this very engine."""
    if model.format != "engine":
        return None
    record = kept_value(Path(f"{model.path}.json"), Artefact)
    return record if record and model.sha256 in (None, record.sha256) else None


def source_of(model: ModelRef) -> ModelRef | None:
    """Find the ONNX file that a model is, or that an engine was built of, if it is still the same.

    The file of an engine is the one that the record beside it names.
    """
    record = record_of_engine(model)
    source = record.spec.model if record is not None else model
    return source if source.format == "onnx" and still_there(source) else None


def precision_of_engine(model: ModelRef) -> str | None:
    """Tell in what precision an engine was built, by the record beside it."""
    record = record_of_engine(model)
    fact = record.conditions.get("precision") if record is not None else None
    value = known_value(fact)
    return None if value is None else str(value)
