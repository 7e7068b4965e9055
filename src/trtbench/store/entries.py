"""What an index lists of a run, and how it can fail; needs no database to be imported."""

from __future__ import annotations

from trtbench.domain.ran import protocol_of
from trtbench.domain.result import AnyRecord, RunRecord, gpu_of, precision_of
from trtbench.domain.spec import Value
from trtbench.errors import StoreError


class DamagedIndexError(StoreError):
    """The file of an index is not one, or not whole."""


class ReadOnlyIndexError(StoreError):
    """An index can be read, and not written."""


DAMAGED = "damaged"
"""The kind of an entry whose directory cannot be read: by this version, or at all."""


class Entry(Value, frozen=True, kw_only=True):
    """What the index knows of a run without opening its directory."""

    id: str
    kind: str
    created: str
    model: str
    runtime: str
    path: str
    sha256: str | None = None
    precision: str | None = None
    batch: int | None = None
    protocol: str | None = None
    host: str | None = None
    gpu: str | None = None
    provenance: str | None = None
    samples: int | None = None
    median_s: float | None = None
    items_per_s: float | None = None
    warnings: int | None = None
    tags: tuple[str, ...] = ()


class Cached(Value, frozen=True, kw_only=True):
    """Numbers of a run that the index keeps for listing; never the only copy."""

    samples: int
    median_s: float
    """Of no samples what another tool printed, a mean where it printed no median."""
    items_per_s: float | None = None


def entry_from_record(record: AnyRecord, *, path: str, cached: Cached | None = None) -> Entry:
    """Describe a record for the index."""
    spec, environment, gpu = record.spec, record.environment, gpu_of(record)
    finished = isinstance(record, RunRecord)
    return Entry(
        id=record.id,
        kind="run" if finished else "failed",
        created=record.created,
        model=spec.model.name,
        runtime=spec.runtime,
        path=path,
        sha256=spec.model.sha256,
        precision=precision_of(record),
        batch=record.known_items if isinstance(record, RunRecord) else spec.batch,
        protocol=protocol_of(record),
        host=environment.label,
        gpu=gpu.name if gpu else None,
        provenance=record.provenance if isinstance(record, RunRecord) else None,
        samples=cached.samples if cached else None,
        median_s=cached.median_s if cached else None,
        items_per_s=cached.items_per_s if cached else None,
        warnings=(
            sum(each.severity != "note" for each in record.findings)
            if isinstance(record, RunRecord)
            else None
        ),
        tags=record.tags,
    )
