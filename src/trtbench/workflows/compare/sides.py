"""What a comparison is of and how it is asked for: two sides, launches, pairs, turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trtbench.analysis.comparability import refuse_unknown_keys
from trtbench.analysis.verdict import MARGIN
from trtbench.domain.spec import Length, RunSpec, Warmup

Mode = Literal["auto", "one-process", "lock-step", "launches"]


PairDesign = Literal["duet", "launches"]


WARMUP = Warmup(floor=Length(seconds=0.06), until_steady=False)
"""Short and fixed: what drifts, drifts for both sides."""


LAUNCHES = 10
"""Fresh launches of both sides: what finds 2 % in 95 % of cases on a noisy machine."""


FEWEST_LAUNCHES = 5
LAUNCHES_S = 7.0
"""Once they took so long, five launches are looked at; more are made while they are unclear."""


MOST_LAUNCHES = 40


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A baseline and a candidate, and the interpreters they run in."""

    baseline: RunSpec
    candidate: RunSpec
    pythons: tuple[str | None, str | None] = (None, None)

    @property
    def both(self) -> tuple[RunSpec, RunSpec]:
        return (self.baseline, self.candidate)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a comparison is asked to do, beyond its sides."""

    launches: int | None = None
    """``None``: ten, or at least five of models so slow that ten take long."""
    most_launches: int = MOST_LAUNCHES
    pairs: int | None = None
    """Per launch; ``None``: as many as fit in 0.2 s, from 6 to 200."""
    mode: Mode = "auto"
    margin: float = MARGIN
    accept: Collection[str] = ()
    """Differences that shall not make the sides incomparable, by key: ``tf32``, ``protocol``."""
    flags: dict[str, Any] = field(default_factory=dict)
    """Of both sides, as ``run_spec`` takes them."""
    runtimes: Sequence[str | None] = (None,)
    """One for all sides, or one per side."""
    pythons: Sequence[str | None] = (None,)
    alone: int | None = None
    """Launches of a candidate that is measured alone, where somebody said."""

    def __post_init__(self) -> None:
        refuse_unknown_keys(self.accept)
