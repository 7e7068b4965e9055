"""Compares what a log printed with what is computed from its times."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trtbench.trtexec.log import LogRun, PerformanceSummary
from trtbench.trtexec.statistics import TrtexecStatistics, text_from_number

NAMES = ("min", "max", "mean", "median")


def percentiles(summary: dict[str, Any]) -> tuple[float, ...]:
    return (99,) if len(summary["Latency"]) == 5 else (90, 95, 99)


def check_span(ours: TrtexecStatistics, *, wall_s: float, qps: float, batch: int = 1) -> None:
    """A wall time within the stated quantum must explain both printed numbers."""
    printed = 10.0 ** (math.floor(math.log10(wall_s)) - 5) / 2
    assert abs(ours.wall_s - wall_s) <= ours.wall_quantum_s + printed * 1.001
    spans = np.linspace(-1, 1, 4001) * ours.wall_quantum_s + ours.wall_s
    rates = {text_from_number(batch * ours.rows / span) for span in spans}
    assert text_from_number(qps) in rates


def check_enqueue(ours: TrtexecStatistics, printed: dict[str, float | None]) -> None:
    metric = ours.metrics["Enqueue Time"]
    assert metric.quantum_ms > 0
    found = {name: getattr(metric, f"{name}_ms") for name in NAMES} | metric.percentiles_ms
    for name, value in printed.items():
        if value is not None:
            assert abs(found[name] - value) <= metric.quantum_ms * 1.001, name


def check_log(run: LogRun, ours: TrtexecStatistics, *, batch: int = 1) -> None:
    summary = run.summary
    assert isinstance(summary, PerformanceSummary)
    assert (ours.rows * batch, ours.statistics) == (run.queries, "trtexec")
    for label, printed in summary.metrics.items():
        named = {name: getattr(printed, f"{name}_ms") for name in NAMES}
        if label == "Enqueue Time":
            check_enqueue(ours, named | printed.percentiles_ms)
            continue
        found = ours.metrics[label]
        for name, value in named.items():
            assert text_from_number(getattr(found, f"{name}_ms")) == text_from_number(value), label
        for percent, value in printed.percentiles_ms.items():
            assert text_from_number(found.percentiles_ms[percent]) == text_from_number(value)
    assert summary.gpu_total_s is not None
    assert summary.wall_s is not None
    assert summary.throughput_qps is not None
    assert text_from_number(ours.gpu_total_s) == text_from_number(summary.gpu_total_s)
    check_span(ours, wall_s=summary.wall_s, qps=summary.throughput_qps, batch=batch)
