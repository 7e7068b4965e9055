"""Statistics under the definitions of the toolkits whose files are written.

They differ from ours on purpose: numpy's interpolated percentiles, the population's standard
deviation, throughput from the mean. Use them only where a file of theirs is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trtbench.domain.samples import Column

SUMMARY_PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 97, 99, 99.5, 99.9, 100)
COMPARED_STATISTICS = ("min", "max", "mean", "median", "p90", "p95", "p99")
"""Statistics in the rows of its PyTorch benchmark and its comparison."""


def summary_block(column_s: Column) -> dict[str, Any]:
    """Make one block of the trtexec evaluation toolkit's summary.json, in milliseconds."""
    ms = np.asarray(column_s, dtype=np.float64) * 1e3
    if not len(ms):
        return {"count": 0}
    values = np.percentile(ms, SUMMARY_PERCENTILES)
    return {
        "count": len(ms),
        "min_ms": float(ms.min()),
        "max_ms": float(ms.max()),
        "mean_ms": float(ms.mean()),
        "std_ms": float(ms.std()),
        "median_ms": float(np.median(ms)),
        "percentiles_ms": {
            summary_percentile_name(p): float(value)
            for p, value in zip(SUMMARY_PERCENTILES, values, strict=True)
        },
    }


def summary_percentile_name(percentile: float) -> str:
    """Write ``p99_5`` as its keys do."""
    return "p" + f"{percentile:g}".replace(".", "_")


def throughput_from_mean(latency_s: Column, *, batch: int) -> float | None:
    """Compute batch / mean latency, which it calls queries and its report calls samples."""
    mean = float(np.mean(latency_s)) if len(latency_s) else 0.0
    return batch / mean if mean > 0 else None


def torch_benchmark_metrics(column_s: Column) -> dict[str, float]:
    """Make one row of its PyTorch benchmark: min to p99 in milliseconds, interpolated."""
    ms = np.asarray(column_s, dtype=np.float64) * 1e3
    p90, p95, p99 = (float(value) for value in np.percentile(ms, (90, 95, 99)))
    return {
        "min": float(ms.min()),
        "max": float(ms.max()),
        "mean": float(ms.mean()),
        "median": float(np.median(ms)),
        "p90": p90,
        "p95": p95,
        "p99": p99,
    }


def guide_statistics(host_s: Column) -> dict[str, float]:
    """Collect the ST-GCN guide's mean, std, min and max in milliseconds, and FPS = 1 / mean."""
    ms = np.asarray(host_s, dtype=np.float64) * 1e3
    mean = float(ms.mean())
    return {
        "mean": mean,
        "std": float(ms.std()),
        "min": float(ms.min()),
        "max": float(ms.max()),
        "fps": 1e3 / mean,
    }


def guide_speedup(baseline_s: Column, candidate_s: Column) -> dict[str, float]:
    """Collect its speed-up (mean over mean) and FPS improvement in per cent."""
    baseline = guide_statistics(baseline_s)
    candidate = guide_statistics(candidate_s)
    return {
        "speedup": baseline["mean"] / candidate["mean"],
        "fps_improvement_percent": (candidate["fps"] - baseline["fps"]) / baseline["fps"] * 100,
    }
