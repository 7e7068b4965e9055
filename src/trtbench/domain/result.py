"""What was concluded: environments, findings, runs and failed runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trtbench.domain.samples import EngineGraph, IterationTimes, LayerProfile
from trtbench.domain.spec import RunSpec, TensorSpec, Value

SCHEMA = 1
"""Version of run.json; a reader refuses a newer one and migrates older ones."""

Severity = Literal["note", "warning", "error"]
Scalar = float | int | str | bool | None


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
    extra: dict[str, Scalar] = {}


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
    timer_floor_s: float | None = None
    involuntary_switches: int | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    gc_collections: int | None = None


FactSource = Literal["stated", "implied", "unknown"]


class Fact(Value, frozen=True, kw_only=True):
    """One condition a number depends on, and how it is known."""

    value: Scalar
    source: FactSource = "stated"


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
    sources: tuple[str, ...] = ()
    """Files an imported run was made of."""
    notes: tuple[str, ...] = ()

    @property
    def items_per_query(self) -> int:
        """How many items one query holds; 1 when nobody knows better."""
        return self.spec.batch or 1


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
    exit_status: int | None = None
    signal: str | None = None
    log_tail: tuple[str, ...] = ()


Record = RunRecord | FailedRun


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A finished run with its samples as numpy columns, as Python users handle it."""

    record: RunRecord
    times: IterationTimes
    path: Path | None = None
    layers: LayerProfile | None = None
    graph: EngineGraph | None = None
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.record.findings
