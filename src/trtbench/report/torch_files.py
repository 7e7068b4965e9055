"""The two result files of toolkit 000's PyTorch benchmark, for runs of the runtime ``torch``.

Milliseconds, linear interpolation between samples, and batches (not items) per second, as there.
"""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec
import numpy as np

from trtbench.domain.result import Run
from trtbench.domain.samples import Column

CSV, JSON = "bench_pt_result.csv", "bench_pt_result.json"
METRICS = ("host", "h2d", "gpu", "d2h")
STATISTICS = ("min", "max", "mean", "median", "p90", "p95", "p99")


def torch_files(run: Run) -> dict[str, bytes]:
    """Give the files by name; none for runs of other runtimes."""
    host = run.times.host
    if run.record.spec.runtime != "torch" or host is None or not len(host):
        return {}
    metrics = {
        name: _statistics(column)
        for name in METRICS
        if (column := getattr(run.times, name)) is not None
    }
    return {CSV: _csv(metrics), JSON: _json(run, metrics, float(host.sum()))}


def _statistics(column: Column) -> dict[str, float]:
    ms = column * 1e3
    p90, p95, p99 = (float(value) for value in np.percentile(ms, (90, 95, 99)))
    values = (ms.min(), ms.max(), ms.mean(), np.median(ms), p90, p95, p99)
    return {name: float(value) for name, value in zip(STATISTICS, values, strict=True)}


def _csv(metrics: dict[str, dict[str, float]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("metric", *STATISTICS))
    for name, statistics in metrics.items():
        writer.writerow((name, *(f"{statistics[each]:.6f}" for each in STATISTICS)))
    return text.getvalue().encode()


def _json(run: Run, metrics: dict[str, dict[str, float]], total_s: float) -> bytes:
    record = run.record
    condition = {name: fact.value for name, fact in record.conditions.items()}
    document: dict[str, Any] = {
        "model_path": record.spec.model.path,
        "device": record.spec.device or "cuda:0",
        "batch": record.items_per_query,
        "shape": list(record.inputs[0].shape) if record.inputs else None,
        "dtype": condition.get("precision"),
        "tf32": condition.get("tf32"),
        "iters": len(run.times),
        "warmup": sum(launch.warmup_iterations or 0 for launch in record.launches) or None,
        "throughput_qps": len(run.times) / total_s,
        "total_host_walltime_s": total_s,
        "metrics": metrics,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
