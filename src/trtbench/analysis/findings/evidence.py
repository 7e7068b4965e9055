"""What a rule may look at, and what it says; what is not known is ``None``, and fires no rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from trtbench.analysis.history import Segmentation, segment
from trtbench.analysis.summary import Summary, summary_from_samples
from trtbench.core.results import Comparison, Unreadable, VerdictKind
from trtbench.core.run import (
    Finding,
    Gpu,
    LaunchFacts,
    Run,
    RunRecord,
    Scalar,
    Severity,
    gpu_of,
    known_value,
)
from trtbench.core.samples import EngineGraph, IterationTimes, LayerProfile, TelemetrySample
from trtbench.core.spec import Value
from trtbench.layers.cost import peak_of


class PairFacts(Value, frozen=True, kw_only=True):
    """What is known of a comparison beside its two records."""

    baseline: RunRecord
    candidate: RunRecord
    comparison: Comparison | None = None
    accept: tuple[str, ...] = ()
    baseline_clock_hz: float | None = None
    candidate_clock_hz: float | None = None  # median SM clocks while each side ran
    in_time: VerdictKind | None = None
    in_cycles: VerdictKind | None = None  # verdicts on GPU time, in seconds and in cycles
    interference: dict[str, float] = {}  # per side, the median interleaved over the median alone
    one_process: bool = False
    position_effects: tuple[float, ...] = ()  # per launch, ln of second over first place
    comparisons: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """One measurement and all that was seen around it."""

    record: RunRecord | None = None
    times: IterationTimes | None = None
    summary: Summary | None = None
    segments: tuple[Segmentation, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    layers: LayerProfile | None = None
    graph: EngineGraph | None = None
    batches: tuple[tuple[int, float, float | None], ...] = ()
    """Of runs of one model: batch size, latency in seconds and FLOPs of a query."""
    model: str = ""
    lost: tuple[str, float, float] = ("", 0.0, 0.0)
    """A metric and the interval of its loss against the baseline; above zero it is a loss."""
    preparation: tuple[Mapping[str, Scalar], Mapping[str, Scalar]] = ({}, {})
    """How images were prepared, for calibration and for the evaluation."""
    unreadable: tuple[Unreadable, ...] = ()
    items: int = 0
    crashed: str | None = None  # how a builder ended that had reported success
    pair: PairFacts | None = None

    @property
    def launches(self) -> tuple[LaunchFacts, ...]:
        return self.record.launches if self.record else ()

    @property
    def gpu(self) -> Gpu | None:
        """The GPU of the run, where its machine has one."""
        return gpu_of(self.record) if self.record else None

    def peaks(self) -> tuple[float | None, float | None]:
        """FLOP/s (of the fastest type that may compute) and bytes/s, by the GPU's data sheet."""
        ceiling = peak_of(self.gpu.name, sm_count=self.gpu.sm_count) if self.gpu else None
        if ceiling is None:
            return None, None
        precision = self.condition("precision")
        if precision == "fp32" and self.condition("tf32") is not False:
            precision = "tf32"
        rate = ceiling.peak(precision) if isinstance(precision, str) else None
        return rate or max(ceiling.flops_per_s.values()), ceiling.bytes_per_s

    def median(self, column: str) -> float | None:
        """Median of a column, if it was measured."""
        columns = self.summary.columns if self.summary else ()
        return next((each.median for each in columns if each.column == column), None)

    def device_s(self, gpu_s: float) -> float:
        """GPU work and the copies around it, by their medians."""
        return gpu_s + sum(known([self.median("h2d"), self.median("d2h")]))

    def condition(self, key: str) -> object:
        """Recorded condition; ``None`` when it is not known."""
        return known_value(self.record.conditions.get(key)) if self.record else None

    def fact(self, key: str) -> float | None:
        """Number among the facts of the run or of its machine."""
        value = self.recorded(key)
        return float(value) if isinstance(value, (int, float)) else None

    def recorded(self, key: str) -> Scalar:
        """Fact of the run or of its machine; ``None`` where it is not known."""
        if self.record is None:
            return None
        return self.record.facts.get(key, self.record.environment.extra.get(key))


def evidence_from_run(run: Run, *, summary: Summary | None = None) -> Evidence:
    """Gather what a stored run shows."""
    return Evidence(
        record=run.record,
        times=run.times,
        summary=summary or summary_from_samples(run),
        segments=tuple(map(segment, run.times.by_launch(run.times.headline) if run.times else ())),
        telemetry=run.telemetry,
        layers=run.layers,
        graph=run.graph,
    )


@dataclass(frozen=True)
class Hit:
    """What a rule saw; what is not given here is the rule's own."""

    message: str
    evidence: Mapping[str, Scalar]
    remedy: str
    concerns: str | None = None
    severity: Severity | None = None


Limits = Mapping[str, float]
RuleCheck = Callable[[Evidence, Limits], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One row of the checklist and the function that decides it."""

    code: str
    title: str
    severity: Severity  # the usual one; a rule may say another where the table says so
    concerns: str | None
    limits: dict[str, float]
    check: RuleCheck  # its docstring is the condition, with limits in braces, and the source

    def findings(self, evidence: Evidence) -> list[Finding]:
        """Look at the evidence."""
        return [
            Finding(
                code=self.code,
                severity=hit.severity or self.severity,
                message=spaced(hit.message),
                evidence={
                    key: float(f"{value:.4g}") if isinstance(value, float) else value
                    for key, value in hit.evidence.items()
                },
                remedy=hit.remedy,
                concerns=hit.concerns or self.concerns,
            )
            for hit in self.check(evidence, self.limits)
        ]


def rule(
    code: str, title: str, severity: Severity, concerns: str | None = None, **limits: float
) -> Callable[[RuleCheck], Rule]:
    """Make a rule of a function; the keywords are its limits."""
    return partial(Rule, code, title, severity, concerns, limits)


def spaced(text: str) -> str:
    """Write per cent as the rest of the package does: ``5 %``, ``−5 %``."""
    return re.sub(r"(?<![\w.])-(?=[\d.]+ %)", "−", re.sub(r"(\d)%", r"\1 %", text))


def known(values: Iterable[float | None]) -> list[float]:
    """Keep the values that are known."""
    return [value for value in values if value is not None]
