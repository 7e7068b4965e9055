"""What trtbench keeps beside models and engines, looked into by its own name."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.inspection import Inspection
from trtbench.domain.artefact import Artefact
from trtbench.domain.codec import value_from_json
from trtbench.domain.conversion import Sidecar
from trtbench.errors import InputError


def described_file(path: Path) -> Path | None:
    """The engine or model that a record is about, if it lies where the record does."""
    record = _artefact(path) or _sidecar(path)
    if record is None:
        return None
    name = record.filename if isinstance(record, Artefact) else record.file
    return path.with_name(name) if path.with_name(name).is_file() else None


def inspect_record(path: Path) -> Inspection | None:
    """Describe a record whose file is gone; ``None`` when it is no record of trtbench."""
    made = _artefact(path)
    if made is not None:
        return Inspection(
            kind="record of an engine",
            path=str(path),
            facts={
                "engine": made.path,
                "size_bytes": made.size_bytes,
                "sha256": made.sha256,
                "built": made.created,
                "tensorrt": made.tensorrt,
                "precision": made.spec.precision,
                **made.facts,
                "command": made.command,
            },
            notes=(f"{made.filename} is not beside it", *made.notes),
        )
    sidecar = _sidecar(path)
    if sidecar is None:
        return None
    return Inspection(
        kind="record of a conversion",
        path=str(path),
        facts={
            "file": sidecar.file,
            "step": sidecar.step,
            "precision": sidecar.precision,
            "method": sidecar.method,
            "source": sidecar.source,
            "created": sidecar.created,
            **sidecar.facts,
            "command": sidecar.command,
        },
        notes=(f"{sidecar.file} is not beside it", *sidecar.notes),
    )


def _artefact(path: Path) -> Artefact | None:
    try:
        return value_from_json(path.read_bytes(), Artefact, where=str(path))
    except (OSError, InputError):
        return None


def _sidecar(path: Path) -> Sidecar | None:
    try:
        return value_from_json(path.read_bytes(), Sidecar, where=str(path))
    except (OSError, InputError):
        return None
