"""trtexec's numbers from trtexec's times: equal to the last printed digit.

Two things a times file cannot give back exactly, because it holds six digits of every stamp and
nothing else to compute them from: enqueue times, and the span behind wall time and throughput.
Those are compared within the quantum that the statistics state; everything else must be equal.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trtbench.errors import InputError
from trtbench.trtexec.log import LogRun, PerformanceSummary, log_from_text
from trtbench.trtexec.statistics import (
    TrtexecStatistics,
    percentile_index,
    restored,
    text_from_number,
    trace_averages,
    trtexec_statistics,
)
from trtbench.trtexec.times import read_times

LOADED = ("resnet18_fp16_load", "resnet18_fp16_load_cudagraph")
NAMES = ("min", "max", "mean", "median")


def _percentiles(summary: dict[str, Any]) -> tuple[float, ...]:
    return (99,) if len(summary["Latency"]) == 5 else (90, 95, 99)


def _check_span(ours: TrtexecStatistics, *, wall_s: float, qps: float, batch: int = 1) -> None:
    """A wall time within the stated quantum must explain both printed numbers."""
    printed = 10.0 ** (math.floor(math.log10(wall_s)) - 5) / 2
    assert abs(ours.wall_s - wall_s) <= ours.wall_quantum_s + printed * 1.001
    spans = np.linspace(-1, 1, 4001) * ours.wall_quantum_s + ours.wall_s
    rates = {text_from_number(batch * ours.rows / span) for span in spans}
    assert text_from_number(qps) in rates


def _check_enqueue(ours: TrtexecStatistics, printed: dict[str, float | None]) -> None:
    metric = ours.metrics["Enqueue Time"]
    assert metric.quantum_ms > 0
    found = {name: getattr(metric, f"{name}_ms") for name in NAMES} | metric.percentiles_ms
    for name, value in printed.items():
        if value is not None:
            assert abs(found[name] - value) <= metric.quantum_ms * 1.001, name


def _check_log(run: LogRun, ours: TrtexecStatistics, *, batch: int = 1) -> None:
    summary = run.summary
    assert isinstance(summary, PerformanceSummary)
    assert (ours.rows * batch, ours.statistics) == (run.queries, "trtexec")
    for label, printed in summary.metrics.items():
        named = {name: getattr(printed, f"{name}_ms") for name in NAMES}
        if label == "Enqueue Time":
            _check_enqueue(ours, named | printed.percentiles_ms)
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
    _check_span(ours, wall_s=summary.wall_s, qps=summary.throughput_qps, batch=batch)


@pytest.mark.parametrize("name", LOADED)
def test_8_6_log_and_times(artefacts: Path, name: str) -> None:
    folder = artefacts / "h200__trtexec-8.6.0"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    times = read_times((folder / f"{name}.times.json").read_bytes(), where=name)
    ours = trtexec_statistics(times.columns, warmup_ms=500)
    _check_log(run, ours)
    unstable = run.message("unstable")
    if unstable is not None:
        printed = re.search(r"variance = ([\d.]+)%", unstable.text)
        assert printed is not None
        cov = ours.metrics["GPU Compute Time"].cov_percent
        assert text_from_number(cov) == printed[1].rstrip(".")


@pytest.mark.parametrize("name", LOADED)
def test_8_6_trace_averages(artefacts: Path, name: str) -> None:
    folder = artefacts / "h200__trtexec-8.6.0"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    times = read_times((folder / f"{name}.times.json").read_bytes(), where=name)
    ours = trace_averages(times.columns, warmup_ms=500)
    printed = [(line.gpu_ms, line.host_ms) for line in run.averages]
    assert [tuple(float(text_from_number(v)) for v in pair) for pair in ours] == printed


@pytest.mark.parametrize("index", range(7))
def test_7_1_log_and_times(artefacts: Path, index: int) -> None:
    folder = next(artefacts.glob("shafikahdarwis__jetson-trtexec/**/ResNet50_N2"))
    run = log_from_text(next(folder.glob("raw_*")).read_bytes(), where="raw")[index]
    times = read_times(next(folder.glob("times_*")).read_bytes(), where="times", warmup_ms=200)
    batch = int(run.option("Batch") or 0)
    columns = times.arrays[index].columns
    ours = trtexec_statistics(columns, percentiles=(99,), batch=batch, warmup_ms=200)
    dropped = times.arrays[index].warmup_rows + ours.warmup_rows
    assert run.warmup_queries == dropped * batch
    _check_log(run, ours, batch=batch)


def _metadata_pairs(folder: Path) -> list[Path]:
    found = folder.rglob("*.profile.metadata.json")
    return sorted(p for p in found if _times_of(p).is_file())


def _times_of(metadata: Path) -> Path:
    return metadata.with_name(metadata.name.replace(".profile.metadata.", ".timing."))


def test_every_metadata_file_with_times(artefacts: Path) -> None:
    pairs = _metadata_pairs(artefacts)
    assert len(pairs) >= 8
    for path in pairs:
        document = json.loads(path.read_bytes())
        summary = document["performance_summary"]
        warmup = re.search(r"\+ (\d+)ms", document["inference_options"]["Duration"])
        assert warmup is not None
        times = read_times(_times_of(path).read_bytes(), where=path.name)
        percentiles = _percentiles(summary)
        ours = trtexec_statistics(
            times.columns, percentiles=percentiles, warmup_ms=float(warmup[1])
        )
        labels = [*NAMES, *(f"{text_from_number(p)}%" for p in percentiles)]
        for label in ("Latency", "H2D Latency", "GPU Compute Time", "D2H Latency"):
            metric = ours.metrics[label]
            found = [getattr(metric, f"{name}_ms") for name in NAMES]
            found += metric.percentiles_ms.values()
            printed = [text_from_number(value) for value in summary[label]]
            assert [text_from_number(value) for value in found] == printed, (path.name, label)
        _check_enqueue(ours, dict(zip(labels, summary["Enqueue Time"], strict=True)))
        total = text_from_number(summary["Total GPU Compute Time"])
        assert text_from_number(ours.gpu_total_s) == total
        _check_span(ours, wall_s=summary["Total Host Walltime"], qps=summary["Throughput"])


def _columns(count: int, *, seed: int = 1) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Make stamps in single precision as trtexec has them, and the columns it would print."""
    rng = np.random.default_rng(seed)
    gaps = rng.uniform(0.01, 0.3, size=count * 6)
    stamps = (700 + np.cumsum(gaps)).astype(np.float32).reshape(count, 6)
    names = ("startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs", "startD2hMs", "endD2hMs")
    exact = {name: stamps[:, i] for i, name in enumerate(names)}
    exact["h2dMs"] = exact["endH2dMs"] - exact["startH2dMs"]
    exact["computeMs"] = exact["endComputeMs"] - exact["startComputeMs"]
    exact["d2hMs"] = exact["endD2hMs"] - exact["startD2hMs"]
    printed = {
        name: np.array([float(text_from_number(value)) for value in column])
        for name, column in exact.items()
    }
    return exact, printed


def test_durations_are_restored_from_six_digits() -> None:
    exact, printed = _columns(3000)
    assert not np.array_equal(printed["computeMs"].astype(np.float32), exact["computeMs"])
    found = restored(printed["computeMs"], starts=printed["startComputeMs"])
    assert np.array_equal(found, exact["computeMs"])


def test_sums_run_in_single_precision_over_sorted_values() -> None:
    exact, printed = _columns(20_000)
    ours = trtexec_statistics(printed)
    total = np.float32(0)
    for value in np.sort(exact["computeMs"]):
        total = np.float32(total + value)
    mean = float(total / np.float32(20_000))
    assert ours.metrics["GPU Compute Time"].mean_ms == mean
    assert mean != pytest.approx(exact["computeMs"].astype(float).mean(), rel=1e-8)


@pytest.mark.parametrize(
    ("percent", "count", "index"),
    [(90, 1000, 899), (95, 1000, 949), (99, 1000, 990), (99, 100, 99), (0, 10, 0), (100, 10, 9)],
)
def test_percentile_index_is_cut_off_in_single_precision(
    percent: float, count: int, index: int
) -> None:
    assert percentile_index(percent, count=count) == index


def test_median_averages_the_middle_two() -> None:
    start = np.arange(4.0)
    columns = {
        "startH2dMs": start,
        "startComputeMs": start,
        "startD2hMs": start,
        "endD2hMs": start + 1,
        "h2dMs": np.zeros(4),
        "computeMs": np.array([4.0, 1.0, 2.0, 3.0]),
        "d2hMs": np.zeros(4),
    }
    ours = trtexec_statistics(columns, batch=2)
    assert ours.metrics["GPU Compute Time"].median_ms == 2.5
    assert ours.throughput_qps == 2000.0
    assert "Enqueue Time" not in ours.metrics
    late = trtexec_statistics(columns, warmup_ms=1.5)
    assert (late.rows, late.warmup_rows) == (2, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000976562, "0.000976562"),
        (1e-5, "1e-05"),
        (123456.7, "123457"),
        (1234567.0, "1.23457e+06"),
        (0.5, "0.5"),
        (3495.516, "3495.52"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_written_as_a_stream_does(value: float, text: str) -> None:
    assert text_from_number(value) == text


def test_times_without_computing_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be summarised"):
        trtexec_statistics({"latencyMs": np.ones(3)})
    with pytest.raises(InputError, match="warm-up"):
        trtexec_statistics(_columns(5)[1], warmup_ms=1e6)
