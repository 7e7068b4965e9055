"""The evidence that rules check, and the rules' results; unknown evidence triggers no rule."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from trtbench.analysis.history import Segmentation, segment
from trtbench.analysis.summary import Summary, summary_from_samples
from trtbench.core import run as core
from trtbench.core.results import Comparison, Unreadable, VerdictKind
from trtbench.core.samples import EngineGraph, IterationTimes, LayerProfile, TelemetrySample
from trtbench.core.spec import Value
from trtbench.layers.cost import peak_of


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
    comparisons: int = 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """One measurement, and everything known about it."""

    record: core.RunRecord | None = None
    times: IterationTimes | None = None
    summary: Summary | None = None
    segments: tuple[Segmentation, ...] = ()
    telemetry: tuple[TelemetrySample, ...] = ()
    layers: LayerProfile | None = None
    graph: EngineGraph | None = None
    batches: tuple[tuple[int, float, float | None], ...] = ()
    """Runs of one model: batch size, latency in seconds and FLOPs of a query."""
    model: str = ""
    lost: tuple[str, float, float] = ("", 0.0, 0.0)
    """A metric and the interval of its loss against the baseline; positive is a loss."""
    preparation: tuple[Mapping[str, core.Scalar], Mapping[str, core.Scalar]] = ({}, {})
    """How images were prepared for calibration, and for the evaluation."""
    unreadable: tuple[Unreadable, ...] = ()
    items: int = 0
    crashed: str | None = None  # how a builder ended after it had reported success
    pair: PairFacts | None = None

    @property
    def launches(self) -> tuple[core.LaunchFacts, ...]:
        return self.record.launches if self.record else ()

    @property
    def gpu(self) -> core.Gpu | None:
        return core.gpu_of(self.record) if self.record else None

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
        columns = self.summary.columns if self.summary else ()
        return next((each.median for each in columns if each.column == column), None)

    def device_s(self, gpu_s: float) -> float:
        """Return GPU time plus the median times of the copies."""
        return gpu_s + sum(known([self.median("h2d"), self.median("d2h")]))

    def condition(self, key: str) -> object:
        return core.known_value(self.record.conditions.get(key)) if self.record else None

    def fact(self, key: str) -> float | None:
        """Return a numeric fact of the run or its machine; ``None`` if unknown."""
        value = self.recorded(key)
        return float(value) if isinstance(value, (int, float)) else None

    def recorded(self, key: str) -> core.Scalar:
        """Return a fact of the run or its machine; ``None`` if unknown."""
        if self.record is None:
            return None
        return self.record.facts.get(key, self.record.environment.extra.get(key))


def evidence_from_run(run: core.Run, *, summary: Summary | None = None) -> Evidence:
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
    """One finding of a rule; ``None`` means the rule's default."""

    message: str
    evidence: Mapping[str, core.Scalar]
    remedy: str
    concerns: str | None = None
    severity: core.Severity | None = None


Limits = Mapping[str, float]
RuleCheck = Callable[[Evidence, Limits], Iterable[Hit]]


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

    def findings(self, evidence: Evidence) -> list[core.Finding]:
        return [
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
            for hit in self.check(evidence, self.limits)
        ]


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
