"""What a comparison concluded: verdicts, shifts, and whether rules hold."""

from __future__ import annotations

from typing import Literal

from trtbench.domain.comparison_view import ComparisonView
from trtbench.domain.result import Finding, Interval
from trtbench.domain.spec import Value
from trtbench.domain.words import Scalar as Scalar

VerdictKind = Literal["same", "faster", "slower", "unclear", "incomparable"]


Design = Literal["duet", "bursts", "launches", "apart", "builds"]
"""How two sides were measured.

duet      alternated iteration by iteration within a launch
bursts    two processes at once: bursts in turn for GPU time, series of queries in turn for the rest
launches  fresh processes of the two in turn (ABBA)
apart     each on its own, at another time
builds    several engines of each, built afresh; the build is the unit
"""


class Verdict(Value, frozen=True, kw_only=True):
    """What can be said about one metric of a candidate against a baseline."""

    metric: str
    """``host``, ``gpu``, ``p99``, ``throughput``, ..."""
    kind: VerdictKind
    ratio: float | None
    """Candidate over baseline, of times or, for throughput, of rates."""
    interval: Interval | None
    """Of the ratio."""
    reason: str
    launches: int
    launches_needed: int | None = None
    """In all, before the verdict could become clear; ``None`` when more would not help."""
    p: float | None = None
    design: Design = "duet"
    across_devices: str | None = None
    """The two devices, where a ratio is between them: it says nothing about a change."""
    clock_ratio: float | None = None
    """SM clock of the candidate over the baseline's while they were measured, of GPU time."""


class ShiftPoint(Value, frozen=True, kw_only=True):
    """Ratio of one quantile of two distributions, with an interval that holds for all at once."""

    q: float
    ratio: float
    interval: Interval
    differs: bool


class Comparison(ComparisonView, Value, frozen=True, kw_only=True):
    """A candidate against a baseline: a verdict per metric and what they rest on."""

    baseline: str
    candidate: str
    design: Design
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    shift: tuple[ShiftPoint, ...] = ()
    faster_share: float | None = None
    """Share of pairs in which the candidate was faster, ties counted half: P(B < A)."""
    cliffs_delta: float | None = None
    """P(B > A) - P(B < A): 1 when the candidate is always slower."""
    detectable: float | None = None
    """Smallest effect found in 80 % of comparisons like this one."""
    effects: tuple[float, ...] = ()
    """Per launch, median ln(candidate / baseline) of the first metric."""
    alone: Verdict | None = None
    """What the times alone say of the first metric, where sides that took turns also ran alone."""

    def verdict(self, metric: str) -> Verdict:
        """Find the verdict on one metric; one that was not judged is a ``KeyError``."""
        for each in self.verdicts:
            if each.metric == metric:
                return each
        raise KeyError(metric)


class GateRule(Value, frozen=True, kw_only=True):
    """One condition a candidate must meet."""

    text: str
    """As the user wrote it."""
    metric: str
    """A column, ``throughput``, ``items`` or ``headline``."""
    statistic: str = "median"
    relation: Literal["<", "<=", ">", ">=", "slowdown", "expect"]
    """``expect`` is for expressions over layers, which stand in ``text``."""
    limit: float
    """Seconds, per second or a fraction, as the metric has it."""


class GateResult(Value, frozen=True, kw_only=True):
    """Whether one rule holds."""

    rule: GateRule
    outcome: Literal["pass", "fail", "unclear"]
    message: str
    value: float | None = None
    interval: Interval | None = None
    launches_needed: int | None = None
