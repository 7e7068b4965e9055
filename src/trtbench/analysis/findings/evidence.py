"""Everything a rule may look at; what is not known is ``None``, and no rule fires on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from trtbench.analysis.layers.gpus import peak_of
from trtbench.analysis.steady import Segmentation, segment_launches
from trtbench.analysis.summary import Summary, summary_from_samples
from trtbench.domain.comparison import Comparison, VerdictKind
from trtbench.domain.result import Gpu, LaunchFacts, Run, RunRecord, Scalar, gpu_of
from trtbench.domain.samples import EngineGraph, IterationTimes, LayerProfile, TelemetrySample
from trtbench.domain.spec import Value


class Peaks(Value, frozen=True, kw_only=True):
    """What a device can do at the clock it had, at best measured, at worst from a data sheet."""

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    l2_bytes: float | None = None


class Work(Value, frozen=True, kw_only=True):
    """What one query of a model takes at least."""

    flops: float | None = None
    weight_bytes: float | None = None


class BatchPoint(Value, frozen=True, kw_only=True):
    """Latency at one batch size, for a look over batch sizes."""

    batch: int
    latency_s: float


class OutputFacts(Value, frozen=True, kw_only=True):
    """What is known about the outputs of the engine that was timed."""

    finite: bool | None = None
    varies: bool | None = None
    """Whether two different inputs gave different outputs."""
    graph_differs: bool | None = None
    """Whether a CUDA graph, replayed on new inputs, gave other outputs than the model itself."""


class LoadFacts(Value, frozen=True, kw_only=True):
    """How an open loop went."""

    offered_hz: float
    achieved_hz: float
    late_share: float = 0.0
    """Requests dispatched later than planned, from 0 to 1."""
    queue_grows: bool | None = None
    """Whether queue time rises at 99 %."""


class EnergyFacts(Value, frozen=True, kw_only=True):
    """How energy was measured."""

    window_s: float
    update_s: float | None = None
    """How often the counter changes."""
    counter_j: float | None = None
    integral_j: float | None = None
    """Power samples integrated over the same window."""
    part_time_sensor: bool | None = None
    """The sensor looks only part of the time (A100 and H100: a quarter)."""


class AccuracyFacts(Value, frozen=True, kw_only=True):
    """How much accuracy a candidate lost against its baseline, by what was taken of both."""

    metric: str
    drop_low: float
    drop_high: float
    """Interval of the loss; above zero it is a loss."""


class PreparationFacts(Value, frozen=True, kw_only=True):
    """How the images of a model were prepared, for calibrating it and for judging it."""

    model: str
    calibrated: dict[str, Scalar]
    judged: dict[str, Scalar]


class UnreadableFacts(Value, frozen=True, kw_only=True):
    """Items of a data set that could not be read, and are not in a model's scores."""

    model: str
    count: int
    items: int
    """In all, those that could not be read among them."""
    example: str
    reason: str


class PairFacts(Value, frozen=True, kw_only=True):
    """What is known of a comparison beside its two records."""

    baseline: RunRecord
    candidate: RunRecord
    comparison: Comparison | None = None
    accept: tuple[str, ...] = ()
    """Differences the user accepted by name."""
    baseline_clock_hz: float | None = None
    candidate_clock_hz: float | None = None
    """Median SM clocks while each side ran."""
    in_time: VerdictKind | None = None
    in_cycles: VerdictKind | None = None
    """Verdicts on GPU time, and on the same counted in clock cycles."""
    interference: dict[str, float] = {}
    """Per side, the median interleaved over the median alone."""
    one_process: bool = False
    position_effects: tuple[float, ...] = ()
    """Per launch, ln of the time in second over first place of a pair."""
    comparisons: int = 1
    """How many candidates were compared at once."""


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
    work: Work | None = None
    peaks: Peaks | None = None
    batches: tuple[BatchPoint, ...] = ()
    outputs: OutputFacts | None = None
    load: LoadFacts | None = None
    energy: EnergyFacts | None = None
    device_memory: bool = False
    """Whether the memory that was seen is that of the whole device."""
    accuracy: AccuracyFacts | None = None
    preparation: PreparationFacts | None = None
    unreadable: UnreadableFacts | None = None
    crashed: str | None = None
    """How a builder ended that had said that all was well."""
    pair: PairFacts | None = None

    @property
    def launches(self) -> tuple[LaunchFacts, ...]:
        return self.record.launches if self.record else ()

    @property
    def gpu(self) -> Gpu | None:
        """The GPU of the run, where its machine has one."""
        return gpu_of(self.record) if self.record else None

    @property
    def has_gpu(self) -> bool:
        """Whether the run could use a GPU."""
        return bool(self.record and self.record.environment.gpus)

    @property
    def on_gpu(self) -> bool:
        """Whether the run did use one: GPU time or telemetry was seen."""
        return self.has_gpu and (self.median("gpu") is not None or bool(self.telemetry))

    @property
    def interleaved(self) -> bool:
        """Whether the times come from a duet, in which drift hits both sides alike."""
        comparison = self.pair.comparison if self.pair else None
        return comparison is not None and comparison.design == "duet"

    def median(self, column: str) -> float | None:
        """Compute the median of a column, if it was measured."""
        if self.summary is None:
            return None
        found = (each.median for each in self.summary.columns if each.column == column)
        return next(found, None)

    def condition(self, key: str) -> object:
        """Find a recorded condition; ``None`` when nobody knows it."""
        fact = self.record.conditions.get(key) if self.record else None
        return None if fact is None or fact.source == "unknown" else fact.value

    def fact(self, key: str) -> float | None:
        """Compute a number among the recorded facts or what the machine told."""
        value = self._told(key)
        return float(value) if isinstance(value, (int, float)) else None

    def flag(self, key: str) -> bool | None:
        """Find a yes or no among the recorded facts or what the machine told."""
        value = self._told(key)
        return value if isinstance(value, bool) else None

    def text(self, key: str) -> str | None:
        """Write a word among the recorded facts or what the machine told."""
        value = self._told(key)
        return value if isinstance(value, str) else None

    def _told(self, key: str) -> Scalar:
        if self.record is None:
            return None
        return self.record.facts.get(key, self.record.environment.extra.get(key))


def evidence_from_run(run: Run, *, summary: Summary | None = None) -> Evidence:
    """Gather what a stored run tells, with what its record's ``facts`` hold."""
    bare = Evidence(record=run.record)
    return Evidence(
        record=run.record,
        times=run.times,
        summary=summary or summary_from_samples(run),
        segments=tuple(segment_launches(run.times)) if len(run.times) else (),
        telemetry=run.telemetry,
        layers=run.layers,
        graph=run.graph,
        work=Work(flops=bare.fact("flops"), weight_bytes=bare.fact("weight_bytes")),
        peaks=_peaks(bare),
        outputs=OutputFacts(
            finite=bare.flag("outputs_finite"),
            varies=bare.flag("outputs_vary"),
            graph_differs=bare.flag("graph_outputs_differ"),
        ),
        load=_load(bare),
        energy=_energy(bare),
        device_memory=any(each.memory_used_bytes is not None for each in run.telemetry),
    )


def _peaks(bare: Evidence) -> Peaks:
    """Look the GPU up; of several types that may compute, the fastest one is the limit."""
    gpu = bare.gpu
    if gpu is None:
        return Peaks()
    ceiling = peak_of(gpu.name, sm_count=gpu.sm_count)
    if ceiling is None:
        return Peaks(l2_bytes=gpu.l2_bytes)
    precision = bare.condition("precision")
    if precision == "fp32" and bare.condition("tf32") is not False:
        precision = "tf32"
    known_rate = ceiling.peak(precision) if isinstance(precision, str) else None
    return Peaks(
        flops_per_s=known_rate or max(ceiling.flops_per_s.values()),
        bytes_per_s=ceiling.bytes_per_s,
        l2_bytes=gpu.l2_bytes,
    )


def _load(bare: Evidence) -> LoadFacts | None:
    offered, achieved = bare.fact("offered_hz"), bare.fact("achieved_hz")
    if offered is None or achieved is None:
        return None
    return LoadFacts(
        offered_hz=offered,
        achieved_hz=achieved,
        late_share=bare.fact("late_share") or 0.0,
        queue_grows=bare.flag("queue_grows"),
    )


def _energy(bare: Evidence) -> EnergyFacts | None:
    window = bare.fact("energy_window_s")
    if window is None:
        return None
    return EnergyFacts(
        window_s=window,
        update_s=bare.fact("energy_update_s"),
        counter_j=bare.fact("energy_counter_j"),
        integral_j=bare.fact("energy_integral_j"),
        part_time_sensor=bare.flag("energy_part_time_sensor"),
    )


def known(values: Collection[float | None]) -> list[float]:
    """Keep the values that are known."""
    return [value for value in values if value is not None]
