"""The values of a check: the sides that ran, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from trtbench.analysis.check import OutputCheck
from trtbench.domain.feed import Feed, InferOutcome
from trtbench.domain.result import Scalar
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import ModelRef, RunSpec, Value
from trtbench.host.chunks import Chunks
from trtbench.workflows.measure.failure import Failed


class Side(Value, frozen=True, kw_only=True):
    """One model as it was run."""

    model: ModelRef
    runtime: str
    precision: str | None = None
    """In which it was run; ``None`` when nobody knows."""
    python: str | None
    versions: dict[str, str]
    seconds: float


class Candidate(Value, frozen=True, kw_only=True):
    """One candidate with the checks of its outputs."""

    side: Side
    checks: tuple[OutputCheck, ...]
    unmatched: tuple[str, ...] = ()
    """Outputs that only one side has."""
    notes: tuple[str, ...] = ()


class Checked(ShortView, Value, frozen=True, kw_only=True):
    """What a check found."""

    reference: Side
    candidates: tuple[Candidate, ...]
    inputs: str
    """What the sides ran on, in words."""
    items: int
    inputs_sha256: str
    preparation: dict[str, Scalar] = {}
    """How a task prepared the items, where one did."""
    floor: tuple[OutputCheck, ...] | None = None
    """The reference against itself; ``None`` when it was run once."""
    floor_reason: str | None = None
    files: tuple[str, ...] = ()
    failed: tuple[Failed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A side whose outputs lie in a folder."""

    spec: RunSpec
    side: Side
    outcome: InferOutcome
    feed: Feed
    chunks: Chunks
