"""What a comparison is of: two sides, and how they take turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.domain.spec import Length, RunSpec, Warmup
from trtbench.domain.words import Mode
from trtbench.errors import UsageError
from trtbench.runtimes import RUNTIMES

PairDesign = Literal["duet", "bursts", "launches"]
SIDES: tuple[Literal[0], Literal[1]] = (0, 1)


WARMUP = Warmup(floor=Length(seconds=0.06), until_steady=False)
"""Short and fixed: what drifts, drifts for both sides."""
BURSTS_WARMUP = Warmup(floor=Length(seconds=0.03), until_steady=False)
"""Of launches with bursts: the first of these do not count, and the GPU has worked just before."""


FIRST_LOOK = 4
"""Launches before anybody looks: with fewer, only great differences would show."""
GROUP = 3
"""Most launches with bursts that are on the GPU at once, where it has room; as many follow them,
with the sides exchanged."""
BURSTS_LOOK = 2 * GROUP
"""Launches with bursts before anybody looks: each place in the order is had by both sides."""
LAUNCHES_S = 7.0
"""Once they took so long, no more are made before that."""
FEWEST_LAUNCHES = 5
"""Launches with bursts before host time is settled: tails are judged by as many."""
LIMIT_S, BURSTS_LIMIT_S = 90.0, 25.0
"""Once launches took so long, what is unclear stays so, unless more are asked for."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A baseline and a candidate, and the interpreters they run in."""

    baseline: RunSpec
    candidate: RunSpec
    pythons: tuple[str | None, str | None] = (None, None)

    @property
    def both(self) -> tuple[RunSpec, RunSpec]:
        return (self.baseline, self.candidate)


def settled_mode(mode: Mode, sides: Sides) -> Mode:
    """Choose how the sides take turns, by what their runtimes can do."""
    modules = [RUNTIMES.load(spec.runtime) for spec in sides.both]
    if not all(module.open_session is not None for module in modules):
        return "launches"
    if not all(_takes_turns(spec) for spec in sides.both):
        if mode in ("auto", "launches"):
            return "launches"
        raise UsageError(
            "only single queries, back to back, can take turns: protocol serve, one stream, no gap",
            facts={"mode": mode, "protocol": sides.baseline.protocol},
            fix="--mode launches",
        )
    both = list(zip(modules, sides.both, strict=True))
    devices = {module.device(spec) for module, spec in both}
    bursts = all(module.bursts is not None and module.bursts(spec) for module, spec in both)
    if mode == "bursts" and not (bursts and len(devices) == 1):
        raise UsageError(
            "bursts are for sides on one GPU whose runtimes time them",
            facts={"devices": ", ".join(sorted(devices))},
            fix="--mode auto",
        )
    if mode != "auto":
        return mode
    if bursts and len(devices) == 1:
        return "bursts"
    # Threads are of a process, for PyTorch: sides with other numbers of them need two.
    alike = all(
        getattr(sides.baseline, name) == getattr(sides.candidate, name)
        for name in ("runtime", "threads")
    )
    if alike and sides.pythons[0] == sides.pythons[1] and devices == {"cpu"}:
        return "one-process"
    return "lock-step" if devices == {"cpu"} else "launches"


def _takes_turns(spec: RunSpec) -> bool:
    """Say whether queries in turn are what was asked for; other protocols own their loop."""
    return spec.protocol == "serve" and spec.streams == 1 and not spec.gap_s


def paired(baseline: Run, candidate: Run) -> PairDesign | None:
    """Tell whether two stored runs were measured in turn with each other."""
    first, second = baseline.record.duet, candidate.record.duet
    if first is None or second is None or first.id != second.id or first.side == second.side:
        return None
    return first.design


def pairs_of(baseline: Run, candidate: Run, column: str) -> list[tuple[Column, Column]]:
    """Put the launches of two runs of one duet side by side."""
    return list(
        zip(baseline.times.by_launch(column), candidate.times.by_launch(column), strict=True)
    )
