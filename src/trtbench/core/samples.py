"""What was measured: columns of seconds, one row per iteration, and times of single layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.core.spec import Value

Column = NDArray[np.float64]

DURATIONS = ("host", "latency", "enqueue", "h2d", "gpu", "d2h", "end_to_end")
"""Columns that are durations, in the order in which tables show them."""

ASSUMED_DRIFT = "an assumed drift"


class Interval(Value, frozen=True, kw_only=True):
    """A confidence interval: its bounds, its level, and what it is an interval of."""

    low: float
    high: float
    level: float
    meaning: str

    @property
    def words(self) -> str:
        """Its level: ``99 %``, or that it rests on an assumption, which has no level."""
        drifts = ASSUMED_DRIFT in self.meaning
        return f"with {ASSUMED_DRIFT}" if drifts else f"{100 * self.level:g} %"

    @property
    def half_width(self) -> float:
        """Half the width relative to the middle."""
        return (self.high - self.low) / (self.high + self.low)


@dataclass(frozen=True, eq=False, kw_only=True)
class IterationTimes:
    """Columns of equal length in seconds; a phase that was not measured is ``None``, never zero."""

    host: Column | None = None  # from before the call to after its completion, by the host's clock
    latency: Column | None = None  # h2d + gpu + d2h as trtexec defines it; not host time
    enqueue: Column | None = None
    h2d: Column | None = None
    gpu: Column | None = None
    d2h: Column | None = None
    end_to_end: Column | None = None  # start of h2d to end of d2h, with queueing (TensorRT <= 8.2)
    start: Column | None = None  # of an iteration, from the start of its launch
    launch: NDArray[np.int64] | None = None  # which launch (fresh process) a row belongs to, from 0
    stamps: Mapping[str, Column] = field(default_factory=dict)  # `start_h2d`, `end_d2h`, ...

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    def __len__(self) -> int:
        return next((len(column) for _, column in self.columns()), 0)

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Iterate over the names and columns that exist, time stamps last."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "stamps" and value is not None:
                yield each.name, value
        yield from self.stamps.items()

    def durations(self) -> dict[str, Column]:
        """Return the duration columns that exist, in the order of tables."""
        found = ((name, getattr(self, name)) for name in DURATIONS)
        return {name: column for name, column in found if column is not None}

    @property
    def headline(self) -> str:
        """The name of the main column: host time if measured, else trtexec's latency."""
        return next(iter(self.durations()), "host")

    def by_launch(self, name: str) -> list[Column]:
        column: Column = getattr(self, name)
        if self.launch is None:
            return [column]
        return [column[self.launch == index] for index in np.unique(self.launch)]


def times_from_columns(columns: Mapping[str, NDArray[np.generic]]) -> IterationTimes:
    """Build IterationTimes from named columns; names that are not fields become stamps."""
    names = {each.name for each in fields(IterationTimes)} - {"stamps"}
    known = {name: np.asarray(column) for name, column in columns.items() if name in names}
    stamps = {name: np.asarray(c, float) for name, c in columns.items() if name not in names}
    everything = {**known, **stamps}
    odd = [name for name, c in everything.items() if c.ndim != 1 or c.dtype.kind not in "fiu"]
    if odd or len({len(column) for column in everything.values()}) > 1:
        raise ValueError(f"the columns {sorted(odd or everything)} are not a table of numbers")
    return IterationTimes(**known, stamps=stamps)


def join_launches(launches: list[IterationTimes]) -> IterationTimes:
    """Concatenate launches; only columns that every launch has are kept."""
    tables = [dict(times.columns()) for times in launches]
    shared = set.intersection(*(set(table) for table in tables)) - {"launch"}
    columns: dict[str, NDArray[np.generic]] = {
        name: np.concatenate([table[name] for table in tables]) for name in shared
    }
    columns["launch"] = np.repeat(np.arange(len(launches)), [len(times) for times in launches])
    return times_from_columns(columns)


class LayerTime(Value, frozen=True, kw_only=True):
    """Time of one layer of an engine, per inference, in seconds."""

    name: str
    total_s: float
    average_s: float
    median_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None
    share: float | None = None  # of the sum over all layers, 0 to 1; `None` if the sum is zero
    dram_bytes: float | None = None  # measured by hardware counters, as is the next
    sm_active: float | None = None  # share of its time that multiprocessors have work, 0 to 1

    @property
    def typical_s(self) -> float:
        """The median, else the average: one interrupted inference can make an average tenfold."""
        return self.average_s if self.median_s is None else self.median_s


class LayerProfile(Value, frozen=True, kw_only=True):
    """Layer times of one profiling pass, in execution order; names may repeat."""

    count: int | None
    layers: tuple[LayerTime, ...]


class LayerInfo(Value, frozen=True, kw_only=True):
    """What the engine inspector reports about one layer; missing facts are empty or ``None``."""

    name: str
    type: str | None = None
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    tactic: str | None = None
    stream: int | None = None
    origin: tuple[str, ...] = ()
    weights_count: int | None = None
    extra: dict[str, object] = {}


class TensorInfo(Value, frozen=True, kw_only=True):
    name: str
    dimensions: tuple[int, ...] = ()
    format: str | None = None
    dtype: str | None = None  # `fp32`, `fp16`, `int8`, `int64`, `bool`, ...
    layout: str | None = None  # `chw`, `chw32`, `hwc8`, ...
    location: str | None = None


class EngineGraph(Value, frozen=True, kw_only=True):
    """The layers of an engine in execution order, and the names of its inputs and outputs."""

    layers: tuple[LayerInfo, ...]
    io_tensors: tuple[str, ...] = ()
    detailed: bool = True
    extra: dict[str, object] = {}


class TelemetrySample(Value, frozen=True, kw_only=True):
    """One telemetry reading; values that a device does not report are ``None``."""

    at_s: float
    gpu_util: float | None = None
    memory_util: float | None = None
    memory_used_bytes: int | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    event_reasons: int | None = None
    process_memory_bytes: int | None = None  # of the measured process, with its context
    energy_j: float | None = None  # energy counter of the device; only differences have a meaning


AnyArray = NDArray[Any]  # arrays whose type is only known from the data

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]
Floats = NDArray[np.float64]
