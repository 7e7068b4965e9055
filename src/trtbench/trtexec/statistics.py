"""trtexec's own numbers from its own times, to the last printed digit.

trtexec computes in single precision and its rounding shows: means are running sums, the index
of a percentile is cut off in single precision. This module does the same, on the times that
``--exportTimes`` wrote, and calls the result ``statistics="trtexec"``; ours are in double
precision elsewhere.

A file holds six digits of each number. Durations can be restored exactly all the same: they are
differences of two time stamps in single precision, so they are multiples of the spacing of
numbers at that point of time, which is mostly far wider than the rounding in the file. What is
only in the file as a difference of rounded stamps (enqueue time, wall time, throughput) cannot
be restored, and its uncertainty is given beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError
from trtbench.core.samples import Column
from trtbench.core.spec import Value

Single = NDArray[np.float32]
_1 = np.float32(1)
_100 = np.float32(100)
_1000 = np.float32(1000)

DURATIONS = {
    "H2D Latency": (("h2dMs", "startH2dMs"), ("inMs", "startInMs")),
    "GPU Compute Time": (("computeMs", "startComputeMs"),),
    "D2H Latency": (("d2hMs", "startD2hMs"), ("outMs", "startOutMs")),
}
"""Duration and start of each phase, as TensorRT 8 and later name them and as 7 did."""


class TrtexecMetric(Value, frozen=True, kw_only=True):
    """One row of the summary as trtexec computes it, in milliseconds."""

    min_ms: float
    max_ms: float
    mean_ms: float
    median_ms: float
    percentiles_ms: dict[str, float] = {}
    cov_percent: float
    """Coefficient of variation, which trtexec warns about."""
    quantum_ms: float = 0.0
    """How far off a single value may be because the file's stamps are rounded; 0 is exact."""


class TrtexecStatistics(Value, frozen=True, kw_only=True):
    """The performance summary that trtexec prints, from the times it exported."""

    statistics: Literal["trtexec"] = "trtexec"
    rows: int
    warmup_rows: int
    metrics: dict[str, TrtexecMetric]
    throughput_qps: float
    wall_s: float
    wall_quantum_s: float
    """How far off the wall time may be: its two stamps are rounded to six digits."""
    gpu_total_s: float


def text_from_number(value: float) -> str:
    """Write a number as a C++ stream does by default: six significant digits."""
    return f"{float(value):.6g}"


def trtexec_statistics(
    columns: Mapping[str, NDArray[np.generic]],
    *,
    percentiles: Sequence[float] = (90, 95, 99),
    batch: int = 1,
    warmup_ms: float = 0.0,
) -> TrtexecStatistics:
    """Summarise exported times as the trtexec that wrote them does.

    The columns are in milliseconds under trtexec's key names. Rows of the warm-up, which files
    up to TensorRT 8.4 still hold, are dropped by trtexec's rule: everything before the first
    row that began to compute at ``warmup_ms`` or later.
    """
    if "startComputeMs" not in columns or "computeMs" not in columns:
        raise InputError(
            "these times cannot be summarised as trtexec does",
            facts={"columns": " ".join(columns), "needed": "startComputeMs computeMs ..."},
        )
    started = np.asarray(columns["startComputeMs"], np.float64) >= warmup_ms
    if not started.any():
        raise InputError(
            "no row is left after the warm-up", facts={"rows": len(started), "ms": warmup_ms}
        )
    dropped = int(np.argmax(started))
    kept = {name: np.asarray(column, np.float64)[dropped:] for name, column in columns.items()}
    if _is_swapped(kept):
        kept |= {  # TensorRT 7.1 and 7.2 swap the stamps of enqueue and input
            f"{end}{one}Ms": kept[f"{end}{other}Ms"]
            for end in ("start", "end")
            for one, other in (("Enq", "In"), ("In", "Enq"))
        }
    phases: dict[str, Single] = {}
    for label, names in DURATIONS.items():
        duration, start = next((pair for pair in names if pair[0] in kept), ("", ""))
        if not duration:
            raise InputError("a phase is missing from the times", facts={"phase": label})
        phases[label] = restored(kept[duration], starts=kept[start])
    h2d, compute, d2h = phases.values()
    arrival_order = "h2dMs" not in kept  # TensorRT 7 sums before it sorts, 8 after
    begin = kept["startInMs" if "startInMs" in kept else "startH2dMs"]
    end = kept["endOutMs" if "endOutMs" in kept else "endD2hMs"]
    series: dict[str, Single] = {"Latency": h2d + compute + d2h}
    if "endToEndMs" in kept:
        series["End-to-End Host Latency"] = restored(kept["endToEndMs"], starts=begin)
    series |= phases
    stamps = (kept.get("startEnqMs"), kept.get("endEnqMs"))
    enqueue_quantum = 0.0
    if stamps[0] is not None and stamps[1] is not None:
        series["Enqueue Time"] = (stamps[1] - stamps[0]).astype(np.float32)
        quanta = printed_quantum(stamps[0]) + printed_quantum(stamps[1])
        enqueue_quantum = float(quanta.max() / 2)
    metrics = {
        label: _metric(column, percentiles=percentiles, arrival_order=arrival_order)
        for label, column in series.items()
    }
    if "Enqueue Time" in metrics:
        metrics["Enqueue Time"] = metrics["Enqueue Time"].having(quantum_ms=enqueue_quantum)
    count = np.float32(len(compute))
    gpu_total = _running_sum(compute if arrival_order else np.sort(compute))
    if arrival_order:
        total = sum((_running_sum(each) for each in phases.values()), np.float32(0))
        metrics["Latency"] = metrics["Latency"].having(mean_ms=float(total / count))
    else:
        gpu_total = gpu_total / count * count
    # From the first copy in to the last copy out, in device time.
    wall_ms: np.float32 = np.float32(end[-1]) - np.float32(begin[0])
    wall_quantum_ms = float((printed_quantum(begin[:1]) + printed_quantum(end[-1:]))[0]) / 2
    return TrtexecStatistics(
        rows=len(compute),
        warmup_rows=dropped,
        metrics=metrics,
        throughput_qps=float(np.float32(batch * len(compute)) / wall_ms * _1000),
        wall_s=float(wall_ms / _1000),
        wall_quantum_s=wall_quantum_ms / 1000,
        gpu_total_s=float(gpu_total / _1000),
    )


def restored(durations: NDArray[np.generic], *, starts: NDArray[np.generic]) -> Single:
    """Restore to printed durations the digits they had in memory, where their stamps allow it."""
    values = np.asarray(durations, np.float64)
    step = np.spacing(np.abs(np.asarray(starts, np.float64)).astype(np.float32)).astype(np.float64)
    snapped = np.rint(values / step) * step
    return np.where(printed_quantum(values) < step, snapped, values).astype(np.float32)


def printed_quantum(values: NDArray[np.generic]) -> Column:
    """The value of one unit in the sixth significant digit."""
    size = np.abs(np.asarray(values, np.float64))
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    return np.where(size > 0, 10.0 ** (exponent - 5), 0.0)


def percentile_index(percent: float, *, count: int) -> int:
    """The place of a percentile in sorted values, cut off in single precision."""
    excluded = int((_1 - np.float32(percent) / _100) * np.float32(count))
    return max(count - 1 - excluded, 0)


def _is_swapped(kept: Mapping[str, Column]) -> bool:
    if not {"startEnqMs", "endEnqMs", "startInMs", "endInMs", "inMs"} <= kept.keys():
        return False
    as_named = np.median(np.abs(kept["endInMs"] - kept["startInMs"] - kept["inMs"]))
    swapped = np.median(np.abs(kept["endEnqMs"] - kept["startEnqMs"] - kept["inMs"]))
    return bool(swapped < as_named)


def _metric(column: Single, *, percentiles: Sequence[float], arrival_order: bool) -> TrtexecMetric:
    ordered = np.sort(column)
    count = len(ordered)
    mean = _running_sum(column if arrival_order else ordered) / np.float32(count)
    middle = ordered[count // 2]
    if count % 2 == 0:
        middle = (ordered[count // 2 - 1] + middle) / np.float32(2)
    variation = np.float32("inf")
    if mean != 0:
        away = ordered - mean
        variation = np.sqrt(_running_sum(away * away) / np.float32(count)) / mean * _100
    return TrtexecMetric(
        min_ms=float(ordered[0]),
        max_ms=float(ordered[-1]),
        mean_ms=float(mean),
        median_ms=float(middle),
        percentiles_ms={
            f"{text_from_number(percent)}%": float(ordered[percentile_index(percent, count=count)])
            for percent in percentiles
        },
        cov_percent=float(variation),
    )


def _running_sum(column: Single) -> np.float32:
    """Add one after the other in single precision, as std::accumulate with a float does."""
    sums: Single = np.add.accumulate(column, dtype=np.float32)
    total: np.float32 = np.float32(sums[-1])
    return total
