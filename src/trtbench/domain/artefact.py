"""Engines that were built: what lies beside them as ``<engine>.json``."""

from __future__ import annotations

from trtbench.domain.result import Fact, Finding, Gpu, Scalar
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import BuildSpec, Value

SCHEMA = 1
"""Version of ``<engine>.json``."""


class Artefact(ShortView, Value, frozen=True, kw_only=True):
    """One engine, where it came from and how it was made."""

    schema: int = SCHEMA
    path: str
    filename: str
    size_bytes: int
    sha256: str
    created: str
    """ISO 8601 with offset."""
    spec: BuildSpec
    """What was asked for; ``spec.model`` is the file it was built from."""
    tensorrt: str | None = None
    """Version that built, as the builder says."""
    plan: str | None = None
    """Version in the header of the engine itself."""
    command: str | None = None
    build_s: float | None = None
    """What the builder says building took."""
    wall_s: float | None = None
    """From the start of the job to its end."""
    gpus: tuple[Gpu, ...] = ()
    host: str | None = None
    conditions: dict[str, Fact] = {}
    facts: dict[str, Scalar] = {}
    files: tuple[str, ...] = ()
    """Names of what lies beside it."""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
