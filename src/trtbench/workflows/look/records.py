"""What trtbench keeps beside models and engines, looked into by its own name."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.inspection import Inspection
from trtbench.domain.artefact import Artefact
from trtbench.domain.conversion import Sidecar
from trtbench.models.sidecar import kept_value


def described_file(path: Path) -> Path | None:
    """The engine or model that a record is about, if it lies where the record does."""
    record = kept_value(path, Artefact) or kept_value(path, Sidecar)
    if record is None:
        return None
    name = record.filename if isinstance(record, Artefact) else record.file
    return path.with_name(name) if path.with_name(name).is_file() else None


def inspect_record(path: Path) -> Inspection | None:
    """Describe a record whose file is gone; ``None`` when it is no record of trtbench."""
    made = kept_value(path, Artefact)
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
    sidecar = kept_value(path, Sidecar)
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
