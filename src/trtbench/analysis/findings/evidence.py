"""The evidence that rules check, and the rules' results.

A rule whose argument is ``e`` checks every run or pair, as its annotation says; others are called
where their evidence is.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from trtbench.analysis.summary import (
    Summary,
    reported_rate,
    reported_statistics,
    summary_from_samples,
)
from trtbench.core import run as core
from trtbench.core import samples
from trtbench.core.results import Comparison, VerdictKind
from trtbench.core.spec import Value
from trtbench.layers.cost import peak_of
from trtbench.layers.table import BUSY


class PairFacts(Value, frozen=True, kw_only=True):
    """The two records of a comparison, and further facts about it."""

    baseline: core.RunRecord
    candidate: core.RunRecord
    comparison: Comparison | None = None
    accept: tuple[str, ...] = ()
    baseline_clock_hz: float | None = None
    candidate_clock_hz: float | None = None  # median SM clocks while each side ran
    in_time: VerdictKind | None = None
    in_cycles: VerdictKind | None = None  # verdicts on GPU time, in seconds and in cycles
    interference: dict[str, float] = {}  # per side: median in turns over median alone
    one_process: bool = False
    position_effects: tuple[float, ...] = ()  # per launch: ln(time run second / time run first)

    @property
    def sides(self) -> tuple[core.RunRecord, core.RunRecord]:
        return self.baseline, self.candidate


class Batches(NamedTuple):
    """Runs of one model with several batch sizes."""

    points: Sequence[tuple[int, float, float | None]]
    """Batch size, latency in seconds and FLOPs of a query, in order of the size."""
    peak: float | None  # FLOP/s of the device


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """One run, and everything known about it."""

    record: core.RunRecord
    times: samples.IterationTimes
    summary: Summary
    parts: Mapping[str, Sequence[samples.Column]]
    """Samples by launch: of the headline, and of GPU time, which is shown before host time."""
    telemetry: tuple[samples.TelemetrySample, ...] = ()
    layers: samples.LayerProfile | None = None
    graph: samples.EngineGraph | None = None

    @property
    def gpu(self) -> core.Gpu | None:
        return core.gpu_of(self.record)

    def peaks(self) -> tuple[float | None, float | None]:
        """Return peak FLOP/s (of the fastest allowed type) and bytes/s from the data sheet."""
        ceiling = peak_of(self.gpu.name, sm_count=self.gpu.sm_count) if self.gpu else None
        if ceiling is None:
            return None, None
        precision = self.condition("precision")
        if precision == "fp32" and self.condition("tf32") is not False:
            precision = "tf32"
        rate = ceiling.peak(precision) if isinstance(precision, str) else None
        return rate or max(ceiling.flops_per_s.values()), ceiling.bytes_per_s

    def median(self, column: str) -> float | None:
        """Return the median of a column; ``None`` if it was not measured."""
        return next((each.median for each in self.summary.columns if each.column == column), None)

    @property
    def always_busy(self) -> bool:
        """Whether the GPU computes nearly all the time, so that it waits for nothing."""
        gpu_s = self.median("gpu") or reported_statistics(self.record, "gpu").get("median") or 0.0
        return (self.summary.queries_per_s or reported_rate(self.record) or 0.0) * gpu_s >= BUSY

    def device_s(self, gpu_s: float) -> float:
        """Return GPU time plus the median times of the copies."""
        return gpu_s + sum(known([self.median("h2d"), self.median("d2h")]))

    def condition(self, key: str) -> object:
        return core.known_value(self.record.conditions.get(key))

    def fact(self, key: str) -> float | None:
        """Return a numeric fact of the run or its machine; ``None`` if unknown."""
        value = self.recorded(key)
        return float(value) if isinstance(value, (int, float)) else None

    def recorded(self, key: str) -> core.Scalar:
        """Return a fact of the run or its machine; ``None`` if unknown."""
        return self.record.facts.get(key, self.record.environment.extra.get(key))


def evidence_from_run(run: core.Run, *, summary: Summary | None = None) -> Evidence:
    head = run.times.headline
    shown = ("gpu", head) if head == "host" and run.times.gpu is not None else (head,)
    return Evidence(
        record=run.record,
        times=run.times,
        summary=summary or summary_from_samples(run),
        parts={name: run.times.by_launch(name) for name in shown if len(run.times)},
        telemetry=run.telemetry,
        layers=run.layers,
        graph=run.graph,
    )


@dataclass(frozen=True)
class Hit:
    """One finding of a rule; ``None`` means the rule's default."""

    message: str
    evidence: Mapping[str, core.Scalar]
    remedy: str
    concerns: str | None = None
    severity: core.Severity | None = None


Limits = Mapping[str, float]
RuleCheck = Callable[..., Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One rule: a row of the table of findings, and the function that checks it."""

    code: str
    title: str
    severity: core.Severity  # the default; a hit may have another
    concerns: str | None
    limits: dict[str, float]
    check: RuleCheck  # its docstring is the condition, with limits in braces, and the source

    def part(self, name: str) -> str:
        """Return a part of the docstring: ``Fires`` when, ``Source`` or ``Means``."""
        words = " ".join(f"Fires: {self.check.__doc__ or ''}".split())
        parts = re.split(r" ?\b(Fires|Source|Means): ", words)
        found = dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "").removesuffix(".")
        return spaced(found.format(**self.limits))

    def findings(self, *evidence: object) -> tuple[core.Finding, ...]:
        return tuple(
            core.Finding(
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
            for hit in self.check(*evidence, self.limits)
        )


def rule(
    code: str, title: str, severity: core.Severity, concerns: str | None = None, **limits: float
) -> Callable[[RuleCheck], Rule]:
    """Return a decorator that makes a function a rule; the keywords are its limits."""
    return partial(Rule, code, title, severity, concerns, limits)


def spaced(text: str) -> str:
    """Write percentages with a space and a true minus sign: ``5 %``, ``−5 %``."""
    return re.sub(r"(?<![\w.])-(?=[\d.]+ %)", "−", re.sub(r"(\d)%", r"\1 %", text))


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
