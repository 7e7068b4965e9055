"""The values of a check: what it is asked, what it runs on, what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trtbench.analysis.check import ATOL, RTOL, OutputCheck
from trtbench.domain.feed import Feed, InferOutcome
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelRef, RunSpec, Value
from trtbench.host.chunks import Chunks
from trtbench.workflows.measure.failure import Failed

RANDOM = 1000


Floor = Literal["auto", "on", "off"]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the sides are run on: a file, images, or else random items."""

    random: int = RANDOM
    seed: int = 0
    distribution: Literal["uniform", "normal", "recorded"] = "uniform"
    range: tuple[float, float] | None = None
    source: str | None = None
    task: str | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a check is asked to do, beyond its sides."""

    inputs: Inputs = Inputs()
    rtol: float = RTOL
    atol: float = ATOL
    classes: bool | None = None
    """Whether outputs are scores of classes; ``None`` looks at their shape."""
    floor: Floor = "auto"
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Of all sides, as ``run_spec`` takes them."""
    runtimes: Sequence[str | None] = (None,)
    pythons: Sequence[str | None] = (None,)


class Side(Value, frozen=True, kw_only=True):
    """One model as it was run."""

    model: ModelRef
    runtime: str
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


class Checked(Value, frozen=True, kw_only=True):
    """What a check found."""

    reference: Side
    candidates: tuple[Candidate, ...]
    inputs: str
    """What the sides ran on, in words."""
    items: int
    inputs_sha256: str
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
