"""A run: record, samples, findings, scores, and its display in Python; ``None`` is unknown."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.metrics import Better, Kind, Metric, metric
from trtbench.core.plugins import optional_library
from trtbench.core.safety import clean_line, mask, mask_values, mask_words
from trtbench.core.samples import EngineGraph, IterationTimes, LayerProfile, TelemetrySample
from trtbench.core.samples import Interval as Interval
from trtbench.core.spec import RunSpec, TensorSpec, Value, batch_from_shapes
from trtbench.core.units import counted, text_from_seconds, text_from_shape, unit_for_seconds
from trtbench.core.words import Scalar as Scalar

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Shape = Sequence[int | str | None]

SCHEMA = 1  # version of run.json; a reader refuses a newer one and migrates older ones
UNKNOWN = "unknown"  # host and system of a run that was imported from files which do not name them
LOWEST_FIRST = (
    "int2", "fp4", "int4", "fp8", "int8", "int16", "fp16", "half", "bf16", "tf32", "fp32", "fp64",
)  # fmt: skip
"""Order in which the types of a mixed precision are named; FP32 is only named alone."""
_FULL = frozenset({"fp32", "tf32"})
_SPELLINGS = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "float8": "fp8",
}  # fmt: skip
PLOT_PERCENTILE = 99.5  # axes of plots end here


# Batch and precision that ran


def batch_that_ran(
    shapes: Iterable[Shape],
    *,
    asked: int | None,
    reported: object = None,
    outputs: Iterable[Shape] = (),
) -> int | None:
    """Return the items of a query: as reported by the program that ran it, else by its inputs.

    A program reports 1 for every explicit batch, so 1 is used last. If the leading dimensions of
    inputs differ, one that has the requested size decides.
    """
    items = reported if isinstance(reported, int) and reported > 0 else None
    if items is not None and items > 1:
        return items
    inputs, made = list(shapes), list(outputs)
    if asked is not None and any(shape and shape[0] == asked for shape in inputs):
        return asked
    size = batch_from_shapes(inputs)
    # A leading dimension is a batch, not channels, if outputs have it as first or second dimension.
    # Colours as first dimension of an output that is an image too prove nothing.
    images = all(map(may_be_colours, inputs))
    fronts = [shape[:2] for shape in made if not (images and may_be_colours(shape))]
    if size is None or (images and not fronts):
        return items
    unknown = any(not isinstance(dim, int) or dim < 0 for front in fronts for dim in front)
    bare = size > 1 and max(map(len, inputs)) < len("NCHW")
    counts = not bare or not fronts or unknown or any(size in front for front in fronts)
    return size if counts else items


def may_be_colours(shape: Shape) -> bool:
    """Whether a shape looks like a single image, colours first: 3 x height x width."""
    sides = [dim for dim in shape[1:] if isinstance(dim, int)]
    likely = len(shape) == len(sides) + 1 == len("CHW") and shape[0] == len("RGB")
    return likely and min(sides) >= 8 and max(sides) <= 4 * min(sides)  # others are sequences


def types_of(precision: object) -> frozenset[str]:
    """Return the types of a precision in any spelling: ``FP32+FP16`` has two."""
    words = str(precision).lower().replace(",", "+").split("+") if precision is not None else ()
    found = (_SPELLINGS.get(word.strip(), word.strip()) for word in words)
    return frozenset(word for word in found if word in LOWEST_FIRST or word == "best")


def matches_precision(asked: str, types: frozenset[str]) -> bool:
    """Whether types match a precision: it is the lowest of them, with any higher ones."""
    if asked == "best":
        return "best" in types or len(types - _FULL) > 1
    if asked in _FULL:
        return types <= _FULL and (asked == "tf32" or "tf32" not in types or "fp32" in types)
    below = LOWEST_FIRST[: LOWEST_FIRST.index(asked)] if asked in LOWEST_FIRST else ()
    return asked in types and not types.intersection(below)


def may_be_same_precision(one: str | None, other: str | None) -> bool:
    """Whether two precisions have the same lowest type, or one is unknown."""
    return len({lowest_type(one), lowest_type(other)} - {None}) < 2


def lowest_type(precision: str | None) -> str | None:
    """Return the lowest type of a precision, FP32 for TF32; ``None`` if unknown."""
    types = types_of(precision)
    lowest = name_from_types(types).split("+")[0] if types else None
    return "fp32" if lowest == "tf32" else lowest


def name_from_types(types: frozenset[str]) -> str:
    """Return the name of a precision, the lowest type first: ``int8+fp16``."""
    if "best" in types:
        return "best"
    types = types - {"fp64"} or types
    lower = [name for name in LOWEST_FIRST if name in types and name not in _FULL]
    full = [name for name in ("tf32", "fp32") if name in types]
    return "+".join(lower) or full[0]


# A search for the highest rate under load

Decision = Literal["accepted", "refused", "unclear"]


class Slo(Value, frozen=True, kw_only=True):
    text: str
    statistic: str
    q: float
    limit_s: float


class RatePoint(Value, frozen=True, kw_only=True):
    rate_hz: float
    decision: Decision
    overloaded: bool  # the queue grew: latencies depend on the length of the window
    samples: int
    median_s: float
    percentile_s: float
    interval: Interval | None  # of the percentile; `None` where there are too few samples
    achieved_hz: float
    late_share: float  # share of queries that the sender sent late, at worst
    replayed: tuple[float, ...] = ()
    """Share of its queries above the limit, had they come at the rates of `analysis.load`."""
    calm: tuple[float, ...] = ()  # the same without stalls
    stalled_s: float = 0.0  # what the stalls of its queries took, and their squares
    stalled_s2: float = 0.0


class LoadSearch(Value, frozen=True, kw_only=True):
    """The highest rate that meets a limit on latency, its doubt, and what was tried."""

    slo: Slo
    budget_s: float = 30.0  # from loading the model to the answer
    probe_s: float | None = None  # seconds at each rate; `None` follows from the budget
    most_hz: float | None = None  # the highest rate to try; `None` is the capacity
    capacity_hz: float = 0.0  # queries one after the other: the highest sustainable rate
    lone_s: float = 0.0  # the percentile of queries one after the other, without any load
    likely_hz: float | None = None  # where the percentile reaches the limit; `None`: at no rate
    highest_hz: float | None = None  # lower end of the doubt: meets the limit; `None`: no rate
    broken_hz: float | None = None  # upper end of the doubt: exceeds the limit
    kept_hz: float | None = None  # the rate whose samples the run has
    at_least: bool = False  # the highest rate to try meets the limit: there may be higher ones
    points: tuple[RatePoint, ...] = ()
    complete: bool = True


# The record

Severity = Literal["note", "warning", "error"]


class Finding(Value, frozen=True, kw_only=True):
    """What a rule found in a result, with evidence and a remedy."""

    code: str
    severity: Severity
    message: str
    evidence: dict[str, Scalar] = {}
    remedy: str | None = None
    concerns: str | None = None  # `host`, `gpu`, `p99`; `None` is the whole run

    @property
    def line(self) -> str:
        return f"{self.severity} {self.code}: {self.message}"


class Gpu(Value, frozen=True, kw_only=True):
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


class Environment(Value, frozen=True, kw_only=True):
    """The machine a run was measured on; what could not be read is ``None``."""

    host: str
    os: str
    python: str | None = None
    cpu: str | None = None
    cpu_cores: int | None = None
    cpu_physical_cores: int | None = None
    cpu_governor: str | None = None
    virtual_machine: bool | None = None
    load_before: tuple[float, float, float] | None = None  # over 1, 5 and 15 minutes
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    versions: dict[str, str] = {}  # libraries, in the interpreter that measured
    git_commit: str | None = None
    command: str | None = None
    machine: str | None = None  # `machine` in `trtbench.toml`; host names of runners change
    extra: dict[str, Scalar] = {}

    @property
    def label(self) -> str:
        """The machine's name: the one in the settings, else its host name."""
        return self.machine or self.host

    @property
    def kind(self) -> str:
        """The key of equivalent machines: the name in the settings, else GPUs and CPU."""
        if self.machine is not None:
            return self.machine
        gpus = [gpu.name for gpu in self.gpus]
        parts = [*gpus, *([f"{self.cpu}, {self.cpu_cores} cores"] if self.cpu else [])]
        return " + ".join(parts) or self.host


class LaunchFacts(Value, frozen=True, kw_only=True):
    """What one fresh process reports besides its samples."""

    load_s: float | None = None
    first_s: float | None = None
    warmup_s: float | None = None
    warmup_iterations: int | None = None
    steady: bool | None = None  # warm-up ended with steady times; `None` if not checked
    wall_s: float | None = None
    solo_median_s: float | None = None  # median of its queries alone, before interleaving
    alone_s: tuple[float, ...] = ()  # medians of blocks without interleaving, in pairs
    load_order: int | None = None  # position among the processes that loaded in turn
    burst_s: tuple[float, ...] = ()  # GPU seconds per query of each burst, in pairs
    burst_size: int | None = None
    burst_enqueue_s: float | None = None  # shortest enqueue time of a query in a burst
    burst_clock_hz: float | None = None  # mean SM clock right after bursts
    timer_floor_s: float | None = None
    involuntary_switches: int | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    violations_s: dict[str, float] = {}  # time under a clock limit: `power`, `thermal`, ...
    energy_j: float | None = None
    idle_power_w: float | None = None
    profiled_gpu_s: float | None = None  # in records of older versions


FactSource = Literal["stated", "recorded", "implied", "unknown"]
"""``recorded``: only in a file next to the model; the runtime did not report it."""


class Fact(Value, frozen=True, kw_only=True):
    """The value of a condition that results depend on, and how it is known."""

    value: Scalar
    source: FactSource = "stated"


class DuetRef(Value, frozen=True, kw_only=True):
    """The interleaved pair that a run is one side of; its rows pair with the other side's."""

    id: str
    side: Literal[0, 1]
    design: Literal["duet", "bursts", "launches"]


LAUNCHES_ASKED = "launches_asked"
"""The fact that a run was interrupted: the launches that were asked for, more than it has."""


class RunRecord(Value, frozen=True, kw_only=True, tag="run", tag_field="kind"):
    """One finished measurement: the content of run.json."""

    schema: int = SCHEMA
    id: str
    created: str
    spec: RunSpec
    environment: Environment
    findings: tuple[Finding, ...] = ()
    tags: tuple[str, ...] = ()
    provenance: Literal["measured", "imported"] = "measured"
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    launches: tuple[LaunchFacts, ...] = ()
    conditions: dict[str, Fact] = {}  # transfers, cuda_graph, streams, typing, tf32, ...
    reported: dict[str, Scalar] = {}  # what another tool printed (`throughput_qps`)
    duet: DuetRef | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = {}  # for findings: `flops`, `outputs_finite`, ...

    @property
    def batch(self) -> int | None:
        """Items per query, by the names of dimensions or their sizes; ``None`` if unknown."""
        named = self.facts.get("items_per_query")
        if isinstance(named, int):
            return named
        shapes, outputs = ([each.shape for each in side] for side in (self.inputs, self.outputs))
        reported = known_value(self.conditions.get("batch"))
        return batch_that_ran(shapes, asked=self.spec.batch, reported=reported, outputs=outputs)

    @property
    def items_per_query(self) -> int:
        return self.batch or 1

    @property
    def known_items(self) -> int | None:
        """Items per query; ``None`` if neither inputs nor a log show it."""
        shown = self.inputs or self.provenance == "imported"
        return self.batch if shown else self.items_per_query


class FailedRun(Value, frozen=True, kw_only=True, tag="failed", tag_field="kind"):
    """A measurement that did not finish, with everything that is known about the reason."""

    schema: int = SCHEMA
    id: str
    created: str
    spec: RunSpec
    environment: Environment
    tags: tuple[str, ...] = ()
    stage: str  # what the process was doing: `start`, `load`, `warm-up`, `measure`, `save`
    reason: str
    cause: str | None = None
    exit_status: int | None = None
    signal: str | None = None
    program_status: int | None = None
    log_tail: tuple[str, ...] = ()


AnyRecord = RunRecord | FailedRun
R = TypeVar("R", bound=RunRecord | FailedRun)


def known_value(fact: Fact | None) -> Scalar:
    """Return the value of a condition; ``None`` if unknown."""
    return fact.value if fact is not None and fact.source != "unknown" else None


def precision_of(record: AnyRecord) -> str | None:
    """Return the precision that ran, ``None`` if unknown; for a failed run, the requested one."""
    if isinstance(record, FailedRun):
        return record.spec.precision
    return precision_in(record.conditions, asked=record.spec.precision)


def precision_in(conditions: Mapping[str, Fact], *, asked: str | None) -> str | None:
    """Return the precision in conditions, under the requested name if they agree."""
    if asked == "tf32" and known_value(conditions.get("tf32")) is False:
        asked = None
    types = types_of(known_value(conditions.get("precision")))
    if asked is not None and types and matches_precision(asked, types):
        return asked
    return name_from_types(types) if types else None


def without_secrets(record: R) -> R:
    """Return a record with passwords, tokens and credentials masked."""
    words, command = tuple(mask_words(record.spec.extra_args)), record.environment.command
    changes: dict[str, object] = {
        "spec": record.spec.having(options=mask_values(record.spec.options), extra_args=words),
        "environment": record.environment.having(command=mask(command) if command else command),
    }
    if isinstance(record, RunRecord):
        given = record.reported.items()
        reported = {name: mask(v) if isinstance(v, str) else v for name, v in given}
        return record.having(**changes, reported=reported)
    log_tail = tuple(map(mask, record.log_tail))
    return record.having(**changes, reason=mask(record.reason), log_tail=log_tail)


UNDATED = {"file": "file of ", "import": "imported "}  # times of runs whose text has no date


def when_text(created: str, dated_by: object = None) -> str:
    """Return when a run was made; of an undated text, only the time of its file is known."""
    return UNDATED.get(str(dated_by), "") + created[:16].replace("T", " ")


def gpu_number(record: AnyRecord) -> int:
    """Return the NVML index of the GPU a run was on; 0 if unknown."""
    seen = record.facts.get("gpu_index") if isinstance(record, RunRecord) else None
    number = str(seen) if isinstance(seen, int) else (record.spec.device or "").partition(":")[2]
    return int(number) if number.isdecimal() else 0


def gpu_of(record: AnyRecord) -> Gpu | None:
    """Return the GPU a run was on; for a run on the CPU, the first one of the machine."""
    gpus, number = record.environment.gpus, gpu_number(record)
    return gpus[number if number < len(gpus) else 0] if gpus else None


# The run as Python users see it


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run:
    """A finished run with its samples as numpy columns.

    ``print(run)``, ``run`` in a notebook, ``run.to_pandas()`` and ``run.plot()`` show it.
    """

    record: RunRecord
    times: IterationTimes
    path: Path | None = None
    layers: LayerProfile | None = None
    graph: EngineGraph | None = None
    telemetry: tuple[TelemetrySample, ...] = ()
    load: LoadSearch | None = None
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.record.findings

    @property
    def title(self) -> str:
        spec = self.record.spec
        return f"{spec.model.name} on {spec.runtime}, batch {self.record.known_items or 'unknown'}"

    def __repr__(self) -> str:
        """One line: the run, its model, its median and the number of warnings."""
        medians = [f"{name} median {median} of {n}" for name, _, median, _, n in self._summary()]
        found = Counter(each.severity for each in self.findings)
        grave = [counted(found[name], name) for name in ("error", "warning") if found[name]]
        return clean_line(f"<Run {self.id}: {', '.join([self.title, *medians[:1], *grave])}>")

    def __str__(self) -> str:
        """What was measured, the median of every column, and the findings."""
        lines = [self.title]
        for name, low, median, high, count in self._summary():
            lines.append(f"  {name:<10} median {median}, {low} to {high}, n={count}")
        lines += [f"  {each.line}" for each in self.findings]
        lines.append(f"  run {self.id}" + (f" in {self.path}" if self.path else ""))
        return "\n".join(map(clean_line, lines))

    def _repr_html_(self) -> str:
        rows = [("Time", "Min", "Median", "Max", "Samples"), *self._summary()]
        picture = io.StringIO()
        try:
            figure = self.plot()
            figure.savefig(picture, format="svg")
            optional_library("matplotlib.pyplot").close(figure)  # else a notebook shows it twice
        except (UsageError, UnavailableError):  # nothing to draw, or nothing to draw with
            pass
        svg = picture.getvalue()
        title = f"{self.title}, run {self.id}"
        return notebook_page(title, rows, self.findings, svg[svg.find("<svg") :] if svg else "")

    def _summary(self) -> list[tuple[str, str, str, str, int]]:
        found = []
        for name, column in self.times.durations().items():
            if len(column):
                ends = np.nanquantile(column, (0.0, 0.5, 1.0))
                low, median, high = (text_from_seconds(float(value)) for value in ends)
                found.append((name, low, median, high, len(column)))
        return found

    def to_pandas(self) -> DataFrame:
        """Return a DataFrame of the times: a row per iteration, columns in seconds."""
        pandas, times = optional_library("pandas"), self.times
        columns: dict[str, object] = {f"{name}_s": c for name, c in times.durations().items()}
        further = {"start_s": times.start, "launch": times.launch}
        columns |= {name: column for name, column in further.items() if column is not None}
        frame: DataFrame = pandas.DataFrame(columns)
        frame.index.name = "iteration"
        return frame

    def plot(self, column: str | None = None) -> Figure:
        """Plot the distribution of one column and its values over time."""
        name, known = column or self.times.headline, self.times.durations()
        values = known.get(name)
        if values is None or not len(values):
            facts = {"columns": ", ".join(known) or "none: the run keeps no samples"}
            fix = f"plot({self.times.headline!r})" if known else None
            raise UsageError(f"the run has no column called {name}", facts=facts, fix=fix)
        pyplot = optional_library("matplotlib.pyplot")
        far = float(np.nanpercentile(values, PLOT_PERCENTILE))
        unit, scale = unit_for_seconds(far)
        figure: Figure
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
        left.hist(np.minimum(values, far) / scale, bins=60)
        left.axvline(float(np.nanmedian(values)) / scale, linestyle="--", color="black")
        left.set(xlabel=f"{name} ({unit})", ylabel="samples")
        right.plot(np.asarray(values) / scale, ".", markersize=2)
        right.set(xlabel="iteration", ylabel=f"{name} ({unit})", ylim=(0, far / scale * 1.05))
        figure.suptitle(clean_line(self.title), fontsize="medium", parse_math=False)
        return figure


def notebook_page(
    title: str,
    rows: Sequence[Sequence[object]],
    findings: Iterable[Finding] = (),
    picture: str = "",
) -> str:
    """Return HTML for a notebook: a title, a table with its header, a picture and findings."""
    import html  # workers do not need it

    def escaped(cell: object) -> str:
        return html.escape(clean_line(str(cell)))

    lines = [
        f"<tr>{''.join(f'<{tag}>{escaped(cell)}</{tag}>' for cell in row)}</tr>"
        for tag, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
    ]
    table = f"<table>{''.join(lines)}</table>" if len(lines) > 1 else ""
    grave = [f"<li>{escaped(each.line)}</li>" for each in findings if each.severity != "note"]
    listed = f"<ul>{''.join(grave)}</ul>" if grave else ""
    return f"<p><b>{escaped(title)}</b></p>{table}{picture}{listed}"


# Accuracy of a run


class Score(Value, frozen=True, kw_only=True):
    """The value of one accuracy metric, with its interval and the number of examples."""

    metric: str
    value: float
    interval: Interval | None = None
    count: int | None = None
    better: Better | None = None  # as the task declares it; `None` in records of older versions
    kind: Kind | None = None

    @property
    def declared(self) -> Metric:
        known = metric(self.metric)
        return Metric(self.metric, self.better or known.better, self.kind or known.kind)


class Scores(Value, frozen=True, kw_only=True):
    """The scores of one model file, identified by its hash: ``scores.json``."""

    sha256: str | None
    scores: tuple[Score, ...]
    data: str | None = None
    preparation: dict[str, Scalar] = {}
    precision: str | None = None  # a file of weights can be run in several precisions
    item_parts_s: dict[str, float] = {}  # median per item: load, preprocess, ..., postprocess
    timed: str | None = None
    findings: tuple[Finding, ...] = ()

    def by_metric(self) -> dict[str, Score]:
        return {score.metric: score for score in self.scores}

    def why_not_for(self, record: RunRecord) -> str | None:
        """Return why they do not apply to a run of the same file; ``None`` if they do."""
        ran = precision_of(record)
        if not may_be_same_precision(ran, self.precision):
            return f"{self.precision} was evaluated, but {ran} was measured"
        size = self.preparation.get("size") or self.preparation.get("crop")
        images = [each.shape for each in record.inputs if len(each.shape) == 4]
        sizes = [text_from_shape(part) for shape in images for part in (shape[2:], shape[1:3])]
        if size and images and size not in sizes:
            measured = text_from_shape(images[0])
            return f"images of {size} were evaluated, but {measured} was measured"
        return None

    def as_extra(self) -> dict[str, object]:
        return {"scores": self.by_metric()} if self.scores else {}
