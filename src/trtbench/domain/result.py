"""What was concluded: environments, findings, runs and failed runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from trtbench import boundary
from trtbench.domain.labels import batch_that_ran, may_be_alike, precision_that_ran
from trtbench.domain.load import LoadSearch
from trtbench.domain.run_view import RunView
from trtbench.domain.samples import EngineGraph, IterationTimes, LayerProfile, TelemetrySample
from trtbench.domain.samples import Interval as Interval
from trtbench.domain.spec import RunSpec, TensorSpec, Value
from trtbench.domain.words import Scalar as Scalar
from trtbench.units import text_from_shape

SCHEMA = 1
"""Version of run.json; a reader refuses a newer one and migrates older ones."""

Severity = Literal["note", "warning", "error"]


class Finding(Value, frozen=True, kw_only=True):
    """What the tool itself thinks of a result, with evidence and a way out."""

    code: str
    """``H15`` and the like: the row of the rule table."""
    severity: Severity
    message: str
    evidence: dict[str, Scalar] = {}
    remedy: str | None = None
    concerns: str | None = None
    """The number it stands beside: ``host``, ``gpu``, ``p99``; ``None`` is the whole run."""


class Gpu(Value, frozen=True, kw_only=True):
    """One GPU as it was seen before a run."""

    name: str
    uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    sm_clock_hz: float | None = None
    sm_clock_max_hz: float | None = None
    memory_clock_hz: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    sm_count: int | None = None
    l2_bytes: int | None = None
    sm_clock_default_hz: float | None = None
    clocks_locked: bool | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None


UNKNOWN = "unknown"
"""Host and system of a run that was imported from files which do not tell."""


class Environment(Value, frozen=True, kw_only=True):
    """Where a run took place; what could not be read is ``None``."""

    host: str
    os: str
    python: str | None = None
    cpu: str | None = None
    cpu_cores: int | None = None
    cpu_physical_cores: int | None = None
    cpu_governor: str | None = None
    virtual_machine: bool | None = None
    load_before: tuple[float, float, float] | None = None
    """Load averages over 1, 5 and 15 minutes before the run."""
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    versions: dict[str, str] = {}
    """Versions of the libraries that matter, in the interpreter that measured."""
    git_commit: str | None = None
    command: str | None = None
    machine: str | None = None
    """What its owner calls it (``machine`` in ``trtbench.toml``); host names of runners change."""
    extra: dict[str, Scalar] = {}

    @property
    def label(self) -> str:
        """The machine's name for people: what its owner calls it, else its host name."""
        return self.machine or self.host

    @property
    def kind(self) -> str:
        """Which machines count as this one: those of its label, else those of its GPUs and CPU."""
        if self.machine is not None:
            return self.machine
        gpus = [gpu.name for gpu in self.gpus]
        parts = [*gpus, *([f"{self.cpu}, {self.cpu_cores} cores"] if self.cpu else [])]
        return " + ".join(parts) or self.host


class LaunchFacts(Value, frozen=True, kw_only=True):
    """What one fresh process tells beside its samples."""

    load_s: float | None = None
    first_s: float | None = None
    """First inference, never averaged in."""
    warmup_s: float | None = None
    warmup_iterations: int | None = None
    steady: bool | None = None
    """Whether the warm-up ended because it was steady; ``None`` when nobody looked."""
    wall_s: float | None = None
    """Wall time of the measured part."""
    solo_median_s: float | None = None
    """Median of a side's queries alone, before two sides took turns."""
    alone_s: tuple[float, ...] = ()
    """Medians of its blocks of queries alone; blocks of both sides alternated, in pairs."""
    load_order: int | None = None
    """Its place among the processes that loaded one after the other, on a GPU that was empty.

    The same place of another such group finds the same memory.
    """
    burst_s: tuple[float, ...] = ()
    """GPU seconds per query, one per burst; bursts of both sides alternated, in pairs."""
    burst_size: int | None = None
    """Queries back to back in one burst."""
    burst_enqueue_s: float | None = None
    """Quickest enqueueing of a query before a burst: as long as a query, and the GPU waited."""
    burst_clock_hz: float | None = None
    """Mean of the SM clock right after each burst; seen in the first launches alone."""
    timer_floor_s: float | None = None
    involuntary_switches: int | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    violations_s: dict[str, float] = {}
    """Growth of the GPU's limit counters while measuring: ``power``, ``thermal``, ..."""
    energy_j: float | None = None
    idle_power_w: float | None = None
    profiled_gpu_s: float | None = None
    """Median GPU time with the layer profiler attached."""


FactSource = Literal["stated", "recorded", "implied", "unknown"]
"""``recorded``: by a file beside the model, and nothing that ran tells."""


class Fact(Value, frozen=True, kw_only=True):
    """One condition a number depends on, and how it is known."""

    value: Scalar
    source: FactSource = "stated"


class DuetRef(Value, frozen=True, kw_only=True):
    """The duet a run is one side of: its rows pair with those of the other side."""

    id: str
    side: Literal[0, 1]
    design: Literal["duet", "bursts", "launches"]


class RunRecord(Value, frozen=True, kw_only=True, tag="run", tag_field="kind"):
    """One finished measurement: the content of run.json."""

    schema: int = SCHEMA
    id: str
    created: str
    """ISO 8601 with offset."""
    spec: RunSpec
    environment: Environment
    findings: tuple[Finding, ...] = ()
    tags: tuple[str, ...] = ()
    provenance: Literal["measured", "imported"] = "measured"
    inputs: tuple[TensorSpec, ...] = ()
    """Inputs with the shapes that were run."""
    outputs: tuple[TensorSpec, ...] = ()
    launches: tuple[LaunchFacts, ...] = ()
    conditions: dict[str, Fact] = {}
    """Comparability: transfers, cuda_graph, spin_wait, streams, typing, tf32, ..."""
    reported: dict[str, Scalar] = {}
    """Numbers another tool printed (``throughput_qps``), kept as printed."""
    duet: DuetRef | None = None
    sources: tuple[str, ...] = ()
    """Files an imported run was made of."""
    notes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = {}
    """What findings look at beside the samples: ``flops``, ``outputs_finite``, ..."""

    @property
    def batch(self) -> int | None:
        """How many items one query held, as the names of dimensions or their sizes tell."""
        named = self.facts.get("items_per_query")
        if isinstance(named, int):
            return named
        shapes, outputs = ([each.shape for each in side] for side in (self.inputs, self.outputs))
        told = known_value(self.conditions.get("batch"))
        return batch_that_ran(shapes, asked=self.spec.batch, told=told, outputs=outputs)

    @property
    def items_per_query(self) -> int:
        """How many items one query holds; 1 when nobody knows better."""
        return self.batch or 1

    @property
    def known_items(self) -> int | None:
        """How many items one query holds; ``None`` when its inputs leave that open."""
        return self.batch if self.inputs else self.items_per_query


class FailedRun(Value, frozen=True, kw_only=True, tag="failed", tag_field="kind"):
    """A measurement that did not finish, with all that is known about why."""

    schema: int = SCHEMA
    id: str
    created: str
    spec: RunSpec
    environment: Environment
    tags: tuple[str, ...] = ()
    stage: str
    """What the process was doing: ``start``, ``load``, ``warm-up``, ``measure``, ``save``."""
    reason: str
    cause: str | None = None
    """The kind of error its worker told of: ``memory``, ``CudaError``; the reason is its words."""
    exit_status: int | None = None
    signal: str | None = None
    program_status: int | None = None
    """Exit status of the program that measured (trtexec); below zero, the signal that ended it."""
    log_tail: tuple[str, ...] = ()


AnyRecord = RunRecord | FailedRun


R = TypeVar("R", bound=RunRecord | FailedRun)


def known_value(fact: Fact | None) -> Scalar:
    """Find the value of a condition that somebody knows."""
    return fact.value if fact is not None and fact.source != "unknown" else None


def precision_of(record: AnyRecord) -> str | None:
    """Write the precision that ran, ``None`` when nobody knows; of what did not run, that asked."""
    if isinstance(record, FailedRun):
        return record.spec.precision
    return precision_in(record.conditions, asked=record.spec.precision)


def precision_in(conditions: Mapping[str, Fact], *, asked: str | None) -> str | None:
    """Write the precision that conditions tell, by the name it was asked for where they agree."""
    if asked == "tf32" and known_value(conditions.get("tf32")) is False:
        asked = None
    return precision_that_ran(known_value(conditions.get("precision")), asked=asked)


def without_secrets(record: R) -> R:
    """Hide passwords, tokens and credentials in what a record tells of commands and options."""
    spec, environment = record.spec, record.environment
    spec = spec.having(
        options=boundary.mask_values(spec.options),
        extra_args=tuple(boundary.mask_words(spec.extra_args)),
    )
    if environment.command is not None:
        environment = environment.having(command=boundary.mask(environment.command))
    if isinstance(record, RunRecord):
        reported: dict[str, Scalar] = {
            name: boundary.mask(value) if isinstance(value, str) else value
            for name, value in record.reported.items()
        }
        return record.having(spec=spec, environment=environment, reported=reported)
    return record.having(
        spec=spec,
        environment=environment,
        reason=boundary.mask(record.reason),
        log_tail=tuple(map(boundary.mask, record.log_tail)),
    )


def gpu_number(record: AnyRecord) -> int:
    """Tell which of the machine's GPUs a run was on, as NVML counts; the first when nobody says."""
    seen = record.facts.get("gpu_index") if isinstance(record, RunRecord) else None
    if isinstance(seen, int):
        return seen
    _, _, number = (record.spec.device or "").partition(":")
    return int(number) if number.isdecimal() else 0


def gpu_of(record: AnyRecord) -> Gpu | None:
    """Find the GPU a run was on; of a run on the CPU, the first of its machine."""
    gpus, number = record.environment.gpus, gpu_number(record)
    return gpus[number if number < len(gpus) else 0] if gpus else None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run(RunView):
    """A finished run with its samples as numpy columns, as Python users handle it."""

    record: RunRecord
    times: IterationTimes
    path: Path | None = None
    layers: LayerProfile | None = None
    graph: EngineGraph | None = None
    telemetry: tuple[TelemetrySample, ...] = ()
    """Looks at the GPU while measuring, in order of time."""
    load: LoadSearch | None = None
    """The search for a rate that ended with this run."""
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.record.findings

    @property
    def title(self) -> str:
        """What ran, in a few words."""
        spec = self.record.spec
        return f"{spec.model.name} on {spec.runtime}, batch {self.record.known_items or 'unknown'}"

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """The findings by how grave they are, each as a line."""
        return [(f.severity, f"{f.severity} {f.code}: {f.message}") for f in self.findings]


class Score(Value, frozen=True, kw_only=True):
    """How right a model is by one metric, with its interval and the examples it rests on."""

    metric: str
    value: float
    interval: Interval | None = None
    count: int | None = None


class Scores(Value, frozen=True, kw_only=True):
    """The scores of one artefact: ``scores.json``; the hash says of which bytes."""

    sha256: str | None
    scores: tuple[Score, ...]
    data: str | None = None
    """What they were taken on."""
    preparation: dict[str, Scalar] = {}
    """How items were prepared."""
    precision: str | None = None
    """In which the bytes were run: a file of weights can be run in several."""
    item_parts_s: dict[str, float] = {}
    """Median time per item of every part of that pass: load, preprocess, ..., postprocess."""
    timed: str | None = None
    """How those times were taken."""
    findings: tuple[Finding, ...] = ()

    def by_metric(self) -> dict[str, Score]:
        """Find scores by what they are of."""
        return {score.metric: score for score in self.scores}

    def not_of(self, record: RunRecord) -> str | None:
        """Say why they are not of what a run measured: the same bytes may be run in several ways.

        ``None`` where nothing is known against it.
        """
        ran = precision_of(record)
        if not may_be_alike(ran, self.precision):
            return f"{self.precision} was judged, and {ran} was measured"
        size = self.preparation.get("size") or self.preparation.get("crop")
        images = [each.shape for each in record.inputs if len(each.shape) == 4]
        sizes = [text_from_shape(part) for shape in images for part in (shape[2:], shape[1:3])]
        varies = self.preparation.get("fit") == "rect"  # every image has its own
        if size and images and size not in sizes and not varies:
            return f"images of {size} were judged, and {text_from_shape(images[0])} was measured"
        return None

    def as_extra(self) -> dict[str, object]:
        """Tell what a run of the same bytes carries of them."""
        carried: dict[str, object] = {"scores": self.by_metric()} if self.scores else {}
        if self.item_parts_s:
            carried["item_parts"] = {"seconds": self.item_parts_s, "timed": self.timed}
        return carried
