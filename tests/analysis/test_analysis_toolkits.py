"""The toolkits' own definitions, and their comparison rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis_values import run, spec, stated
from trtbench.analysis.deltas import COMPARISON_HEADER, comparison_rows, difference_and_ratio
from trtbench.analysis.other_definitions import (
    COMPARED_STATISTICS,
    guide_speedup,
    summary_block,
    throughput_from_mean,
)
from trtbench.domain.samples import IterationTimes

FIVE = np.array([1.0, 2, 3, 4, 10]) * 1e-3


def test_summary_block_by_hand() -> None:
    block = summary_block(FIVE)
    assert block["count"] == 5
    assert block["mean_ms"] == pytest.approx(4.0)
    assert block["std_ms"] == pytest.approx(np.sqrt(10.0))
    assert block["median_ms"] == pytest.approx(3.0)
    names = ", ".join(block["percentiles_ms"])
    assert names == "p0, p1, p5, p10, p25, p50, p75, p90, p95, p97, p99, p99_5, p99_9, p100"
    assert block["percentiles_ms"]["p90"] == pytest.approx(7.6)
    assert summary_block(np.array([])) == {"count": 0}
    assert throughput_from_mean(FIVE, batch=8) == pytest.approx(2000.0)


def test_a_fast_engine_is_not_taken_for_seconds() -> None:
    assert summary_block(np.full(10, 2e-5))["mean_ms"] == pytest.approx(0.02)


def test_speedup_of_guide_by_hand() -> None:
    speedup = guide_speedup(np.full(5, 0.02), np.full(5, 0.01))
    assert speedup == pytest.approx({"speedup": 2.0, "fps_improvement_percent": 100.0})


def test_differences_keep_the_unknown_unknown() -> None:
    assert difference_and_ratio(0.02, 0.03) == pytest.approx((0.01, 1.5))
    assert difference_and_ratio(0.01, None) == difference_and_ratio(math.nan, 1.0) == (None, None)
    assert difference_and_ratio(0.0, 1.0) == (1.0, None)


def test_comparison_rows_in_their_order() -> None:
    pt = run(
        IterationTimes(host=np.full(4, 0.002), gpu=np.full(4, 0.001)),
        spec=spec(precision="fp32"),
        conditions=stated(tf32=False),
    )
    engine = run(
        IterationTimes(latency=np.full(4, 0.001), gpu=np.full(4, 0.0005)),
        spec=spec(precision="fp16"),
        reported={"throughput_qps": 1000.0},
    )
    rows = comparison_rows(pt, engine)
    names = [row.metric for row in rows]
    assert names[:4] == ["dtype", "tf32", "throughput_qps", "total_host_walltime_s"]
    assert names[4:11] == [f"host_{name}" for name in COMPARED_STATISTICS]
    assert COMPARED_STATISTICS == ("min", "max", "mean", "median", "p90", "p95", "p99")
    assert len(rows) == 4 + 4 * 7
    cells = {row.metric: row.cells() for row in rows}
    assert cells["tf32"] == ("tf32", "Off", "Unknown", "", "", "")
    assert cells["throughput_qps"][1:5] == ("500.000000", "1000.000000", "500.000000", "2.000000")
    assert cells["host_median"][1:5] == ("2.000000", "1.000000", "-1.000000", "0.500000")
    assert cells["h2d_p99"] == ("h2d_p99", "", "", "", "", "")
    assert cells["host_median"][5] == "host time against latency"
    assert len(COMPARISON_HEADER) == len(cells["dtype"])
