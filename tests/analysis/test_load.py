"""The search for the highest rate: what decides a rate, where the search goes, the knee."""

from __future__ import annotations

import numpy as np
import pytest

from trtbench.analysis.load import (
    LoadSearch,
    RatePoint,
    Window,
    knee,
    next_rate,
    point_from_windows,
    slo_from_text,
    with_point,
)
from trtbench.errors import UsageError

SLO = slo_from_text("p99<10ms")


def windows(count: int, *, served: float = 1.0, grows: bool = False) -> list[Window]:
    told = {"offered_hz": 100.0, "achieved_hz": 100.0 * served, "queue_grows": grows}
    return [Window(run=str(number), **told) for number in range(count)]


def latencies(p99: float, count: int = 2, seed: int = 0) -> list[np.ndarray]:
    """Exponential times with this 99th percentile."""
    rng = np.random.default_rng(seed)
    return [rng.exponential(p99 / np.log(100), 2000) for _ in range(count)]


def test_a_bound_is_a_percentile_of_what_a_caller_waits() -> None:
    assert (SLO.statistic, SLO.q, SLO.limit_s) == ("p99", 0.99, pytest.approx(0.01))
    assert slo_from_text("median<=2ms").statistic == "p50"
    wrong = ("p99>10ms", "throughput>=5/s", "gpu.p99<1ms", "mean<1ms", "fast", "", "p99<0ms",
             "p99<-1ms", "p99<inf ms", "p99<10ms and p50<1ms", "count(Einsum)>=1")  # fmt: skip
    for each in wrong:
        with pytest.raises(UsageError):
            slo_from_text(each)
    with pytest.raises(UsageError, match="'10' has no unit"):
        slo_from_text("p99<10")


def test_a_rate_is_decided_by_the_whole_interval() -> None:
    decided = {
        p99: point_from_windows(1.0, windows(2), latencies(p99), SLO).decision
        for p99 in (0.005, 0.01, 0.02)
    }
    assert decided == {0.005: "accepted", 0.01: "unclear", 0.02: "refused"}


def test_one_window_decides_nothing() -> None:
    point = point_from_windows(1.0, windows(1), latencies(0.001, 1), SLO)
    assert point.decision == "unclear"
    assert point.interval is not None
    assert point.interval.high < SLO.limit_s


@pytest.mark.parametrize("told", [{"served": 0.9}, {"grows": True}])
def test_overload_is_refused_however_short_the_latencies(told: dict[str, float]) -> None:
    point = point_from_windows(1.0, windows(2, **told), latencies(0.001), SLO)
    assert point.overloaded
    assert point.decision == "refused"


def search(capacity: float, truth: float, most: float | None = None) -> LoadSearch:
    """Search where every rate up to the truth keeps the bound."""
    most = most or capacity
    found = LoadSearch(slo=SLO, capacity_hz=capacity, lone_s=1e-3, highest_hz=None, next_hz=None)
    while (rate := next_rate(found, most_hz=most)) is not None:
        p99 = 0.001 / max(1e-3, 1 - rate / capacity) if rate <= truth else 0.1
        point = point_from_windows(rate, windows(2), latencies(p99), SLO)
        found = with_point(found, point, most_hz=most)
        assert len(found.points) < 30
    return found


@pytest.mark.parametrize("truth", [70.0, 300.0, 555.0, 880.0])
def test_halving_ends_close_below_the_true_rate(truth: float) -> None:
    found = search(1000.0, truth)
    assert found.highest_hz is not None
    assert found.next_hz is not None
    assert found.highest_hz <= truth < found.next_hz
    assert found.next_hz - found.highest_hz <= 0.06 * found.next_hz


def test_a_rate_that_was_asked_about_is_tried_first_and_ends_the_search_if_kept() -> None:
    found = search(1000.0, 900.0, most=500.0)
    assert found.highest_hz == 500.0
    assert found.at_least
    assert max(each.rate_hz for each in found.points) == 500.0


def test_where_no_rate_keeps_the_bound_the_search_ends() -> None:
    found = search(1000.0, 0.0)
    assert found.highest_hz is None
    assert found.points[0].rate_hz < 1000 / 32


def test_the_knee_is_where_rate_over_latency_is_largest() -> None:
    """For a queue with exponential service, that is at half of its capacity."""
    found = search(1000.0, 1000.0)
    assert found.knee_hz == pytest.approx(500.0, rel=0.25)


def test_a_curve_that_has_not_bent_has_no_knee() -> None:
    points = [
        point_from_windows(rate, windows(2), latencies(0.001), SLO) for rate in (1.0, 2.0, 3.0)
    ]
    assert knee(points) is None
    assert knee([*points, point_from_windows(4.0, windows(2), latencies(1.0), SLO)]) == 3.0


def test_an_accepted_rate_above_a_broken_one_is_not_the_answer() -> None:
    found = LoadSearch(slo=SLO, capacity_hz=9.0, lone_s=1e-3, highest_hz=None, next_hz=None)
    for rate, p99 in ((1.0, 0.001), (2.0, 0.1), (3.0, 0.001)):
        point: RatePoint = point_from_windows(rate, windows(2), latencies(p99), SLO)
        found = with_point(found, point, most_hz=9.0)
    assert (found.highest_hz, found.next_hz) == (1.0, 2.0)
