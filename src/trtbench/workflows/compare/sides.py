"""What a comparison is of: two sides, and how they take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trtbench.domain.spec import Length, RunSpec, Warmup

PairDesign = Literal["duet", "bursts", "launches"]


WARMUP = Warmup(floor=Length(seconds=0.06), until_steady=False)
"""Short and fixed: what drifts, drifts for both sides."""


FEWEST_LAUNCHES = 5
LAUNCHES_S = 7.0
"""Once they took so long, five launches are looked at; more are made while they are unclear."""


FIRST_LOOK = 4
"""Launches with bursts before anybody looks: with fewer, only great differences would show."""
LIMIT_S = 25.0
"""Once launches with bursts took so long, what is unclear stays so, unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A baseline and a candidate, and the interpreters they run in."""

    baseline: RunSpec
    candidate: RunSpec
    pythons: tuple[str | None, str | None] = (None, None)

    @property
    def both(self) -> tuple[RunSpec, RunSpec]:
        return (self.baseline, self.candidate)
