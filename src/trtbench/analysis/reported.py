"""Numbers another tool printed, as seconds; they stand in where there are no samples."""

from __future__ import annotations

from trtbench.domain.result import RunRecord
from trtbench.domain.samples import DURATIONS
from trtbench.domain.spec import Value

_NAMES = {
    "host": "host",
    "latency": "latency",
    "enqueue": "enqueue_time",
    "h2d": "h2d_latency",
    "gpu": "gpu_compute_time",
    "d2h": "d2h_latency",
    "end_to_end": "end_to_end_host_latency",
}
"""Our columns, and the beginning of their keys in ``RunRecord.reported``."""


class Reported(Value, frozen=True, kw_only=True):
    """One printed statistic of one column."""

    column: str
    statistic: str
    seconds: float


def reported_s(record: RunRecord, column: str, statistic: str = "median") -> float | None:
    """Compute a printed statistic of a column (``median``, ``mean``, ``p99``) in seconds."""
    value = record.reported.get(f"{_NAMES.get(column, column)}_{statistic}_ms")
    return value / 1e3 if isinstance(value, (int, float)) else None


def reported_columns(record: RunRecord) -> tuple[str, ...]:
    """Name the columns whose median or mean was printed, in the order in which tables show them."""
    return tuple(
        name
        for name in DURATIONS
        if any(reported_s(record, name, each) is not None for each in ("median", "mean"))
    )


def reported_statistics(record: RunRecord, column: str) -> dict[str, float]:
    """Collect all that was printed of a column, in seconds, by the name of the statistic."""
    prefix = f"{_NAMES.get(column, column)}_"
    found = {
        key[len(prefix) : -len("_ms")]: value / 1e3
        for key, value in record.reported.items()
        if key.startswith(prefix) and key.endswith("_ms") and isinstance(value, (int, float))
    }
    return {name: value for name, value in found.items() if "_" not in name}


def reported_headline(record: RunRecord) -> Reported | None:
    """Find the printed number that stands for a run; TensorRT 5 and 6 print means only."""
    for statistic in ("median", "mean"):
        columns: tuple[str, ...] = DURATIONS
        if statistic == "mean":  # the column that more was printed about was the one meant
            columns = tuple(sorted(DURATIONS, key=lambda c: -len(reported_statistics(record, c))))
        for column in columns:
            seconds = reported_s(record, column, statistic)
            if seconds is not None:
                return Reported(column=column, statistic=statistic, seconds=seconds)
    return None


def reported_rate(record: RunRecord) -> float | None:
    """Compute the printed throughput in queries per second; an implicit batch was multiplied in."""
    items = record.facts.get("items_per_s")
    if isinstance(items, (int, float)):
        return float(items) / record.items_per_query
    value = record.reported.get("throughput_qps")
    return float(value) if isinstance(value, (int, float)) else None
