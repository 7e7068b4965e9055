"""Which percentiles are shown: never one beyond a hidden one, and with the coverage they state."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trtbench.analysis.column_summary import ColumnSummary, summarize_column
from trtbench.analysis.effective import effective_samples_at

UPPER = (0.75, 0.9, 0.95, 0.99, 0.999)
LOWER = (0.25, 0.1, 0.05, 0.01)


def wandering(random: np.random.Generator, count: int, *, remembers: float) -> np.ndarray:
    phi = 1 - 1 / remembers
    noise = random.normal(size=count) * np.sqrt(1 - phi * phi)
    level, found = random.normal(), np.empty(count)
    for index in range(count):
        level = phi * level + noise[index]
        found[index] = level
    return found


def monotone(summary: ColumnSummary) -> bool:
    """Whether no percentile is shown beyond a hidden one, on either side of the median."""
    return all(
        (summary.quantile(inner).value is not None or summary.quantile(outer).value is None)
        and (summary.quantile(inner).needed or 0) <= (summary.quantile(outer).needed or 10**12)
        for side in (UPPER, LOWER)
        for inner, outer in pairwise(side)
    )


@pytest.mark.parametrize("count", [500, 4000, 12_000])
def test_no_percentile_is_shown_beyond_a_hidden_one(count: int) -> None:
    random = np.random.default_rng(count)
    hidden = 0
    for remembers in (30, 300, 3000):
        for _ in range(4):
            # A slow drift and rare, scattered disturbances: the tail alone looks independent.
            series = 2 * wandering(random, count, remembers=remembers) + random.normal(size=count)
            series += (random.random(count) < 0.02) * random.exponential(8, count)
            for launches in ([series], [series[: count // 2], series[count // 2 :]]):
                summary = summarize_column("host", launches)
                assert monotone(summary)
                hidden += summary.quantile(0.9).value is None
    assert hidden, "some of these series are too correlated for their percentiles"


def test_intervals_of_shown_percentiles_hold_what_they_state() -> None:
    """A quick share of benchmarks/coverage.py; nominal 95 %, and chance allows a few misses."""
    random = np.random.default_rng(1)
    phi, count, shown, held = 0.9, 6000, 0, 0
    truth = {0.9: 1.2816, 0.95: 1.6449, 0.99: 2.3263}
    for _ in range(60):
        series = wandering(random, count, remembers=1 / (1 - phi))
        summary = summarize_column("host", [series])
        for q, value in truth.items():
            interval = summary.quantile(q).interval
            if interval is not None:
                shown += 1
                held += interval.low <= value <= interval.high
    assert shown >= 150
    assert held >= 0.9 * shown


def test_slow_changes_count_even_where_neighbours_hardly_correlate() -> None:
    random = np.random.default_rng(4)
    level = np.repeat(random.random(10) < 0.3, 600) * 0.5
    series = level + random.normal(size=6000)
    threshold = float(np.quantile(series, 0.9))
    shuffled = random.permutation(series)
    assert effective_samples_at(series, threshold) < 0.5 * effective_samples_at(shuffled, threshold)
