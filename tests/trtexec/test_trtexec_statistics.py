"""trtexec's numbers from trtexec's times: equal to the last printed digit.

Two things a times file cannot give back exactly, because it holds six digits of every stamp and
nothing else to compute them from: enqueue times, and the span behind wall time and throughput.
Those are compared within the quantum that the statistics state; everything else must be equal.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from printed import check_log

from made_artefacts import VERSIONS
from trtbench.core.errors import InputError
from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.statistics import (
    percentile_index,
    restored,
    text_from_number,
    trtexec_statistics,
)
from trtbench.trtexec.times import read_times


@pytest.mark.parametrize("name", ["loaded", "other"])
@pytest.mark.parametrize("version", VERSIONS)
def test_log_and_times_of_a_folder(made: Path, version: str, name: str) -> None:
    folder = made / f"trtexec-{version}"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    times = read_times((folder / f"{name}.times.json").read_bytes(), where=name, warmup_ms=50)
    check_log(run, trtexec_statistics(times.columns))


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
