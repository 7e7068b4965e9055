"""The numbers trtexec prints, from the times it exports: in single precision, as it computes."""

from types import SimpleNamespace
from typing import Any

import numpy as np


def statistics(columns: dict[str, Any], percentiles: list[float]) -> SimpleNamespace:
    h2d, compute, d2h = (
        restored(columns[f"{name}Ms"], columns[f"start{name.capitalize()}Ms"])
        for name in ("h2d", "compute", "d2h")
    )
    series = {
        "Latency": h2d + compute + d2h,
        "H2D Latency": h2d,
        "GPU Compute Time": compute,
        "D2H Latency": d2h,
        "Enqueue Time": (columns["endEnqMs"] - columns["startEnqMs"]).astype(np.float32),
    }
    count = np.float32(len(compute))
    wall_ms = np.float32(columns["endD2hMs"][-1]) - np.float32(columns["startH2dMs"][0])
    return SimpleNamespace(
        rows=len(compute),
        metrics={label: metric(column, percentiles) for label, column in series.items()},
        throughput_qps=count / wall_ms * np.float32(1000),
        wall_s=wall_ms / np.float32(1000),
        gpu_total_s=running_sum(np.sort(compute)) / count * count / np.float32(1000),
    )


def metric(column: Any, percentiles: list[float]) -> dict[str, float]:
    ordered = np.sort(column)
    count = len(ordered)
    found = {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": running_sum(ordered) / np.float32(count),
        "median": (ordered[(count - 1) // 2] + ordered[count // 2]) / np.float32(2),
    }
    for percent in percentiles:
        above = int((np.float32(1) - np.float32(percent) / np.float32(100)) * np.float32(count))
        found[f"percentile({percent:.6g}%)"] = ordered[max(count - 1 - above, 0)]
    return found


def restored(durations: Any, starts: Any) -> Any:
    """Durations with the digits they had in memory: multiples of the spacing of their stamps."""
    step = np.spacing(np.abs(starts).astype(np.float32)).astype(np.float64)
    size = np.where(durations > 0, durations, 1.0)
    digit = np.where(durations > 0, 10.0 ** (np.floor(np.log10(size)) - 5), 0.0)
    exact = np.where(digit < step, np.rint(durations / step) * step, durations)
    return exact.astype(np.float32)


def running_sum(column: Any) -> np.float32:
    return np.float32(np.add.accumulate(column, dtype=np.float32)[-1])
