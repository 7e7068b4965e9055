"""The two result files of the evaluation toolkit's PyTorch benchmark, for runs of PyTorch.

Milliseconds, linear interpolation between samples, and batches (not items) per second, as there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trtbench.analysis.deltas import COMPARISON_COLUMNS
from trtbench.analysis.other_definitions import COMPARED_STATISTICS, torch_benchmark_metrics
from trtbench.domain.result import Run
from trtbench.report.csv_lines import csv_from_lines

CSV, JSON = "bench_pt_result.csv", "bench_pt_result.json"


def torch_files(run: Run) -> dict[str, bytes]:
    """Collect the files by name; none for runs of other runtimes."""
    host = run.times.host
    if run.record.spec.model.format != "torch" or host is None or not len(host):
        return {}
    metrics = {
        name: torch_benchmark_metrics(column)
        for name in COMPARISON_COLUMNS
        if (column := getattr(run.times, name)) is not None
    }
    return {CSV: _csv(metrics), JSON: _json(run, metrics, float(host.sum()))}


def _csv(metrics: dict[str, dict[str, float]]) -> bytes:
    lines = (
        (name, *(f"{statistics[each]:.6f}" for each in COMPARED_STATISTICS))
        for name, statistics in metrics.items()
    )
    return csv_from_lines(("metric", *COMPARED_STATISTICS), lines).encode()


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
