"""The search for the highest rate: what decides a rate, and where the search goes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trtbench.analysis.load import (
    LOOKS,
    LoadSearch,
    RatePoint,
    Slo,
    Window,
    next_rate,
    point_from_windows,
    slo_from_text,
    with_point,
)
from trtbench.core.errors import UsageError

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
    for each, q in {"P99 < 10 ms": 0.99, "host.p99≤10ms": 0.99, "p98<1e-2s": 0.98,
                    "p99.99<10000us": 0.9999, "p99.0<10ms": 0.99}.items():  # fmt: skip
        found = slo_from_text(each)
        assert (found.q, found.limit_s) == (q, pytest.approx(0.01))
    wrong = (
        "p99>10ms", "throughput>=5/s", "gpu.p99<1ms", "mean<1ms", "fast", "", "p99<0ms", "p99<-1ms",
        "p99<inf ms", "p99<10ms and p50<1ms", "count(Einsum)>=1", "p99=10ms", "p99<10ms,p50<2ms",
        "10ms", "p0<1ms", "p100<1ms", "p99.999<1ms", "p99<1ms<2ms",
    )  # fmt: skip
    for each in wrong:
        with pytest.raises(UsageError) as caught:
            slo_from_text(each)
        assert "gate" not in f"{caught.value.message} {caught.value.fix}"
    with pytest.raises(UsageError, match="10 has no unit"):
        slo_from_text("p99<10")


@pytest.mark.parametrize(
    ("seen", "p99", "decision"),
    [
        (windows(2), 0.005, "accepted"),
        (windows(2), 0.01, "unclear"),
        (windows(2), 0.02, "refused"),
        (windows(1), 0.001, "unclear"),  # one window decides nothing
        (windows(2, grows=True), 0.001, "refused"),  # overload, however short the latencies
        (windows(2, served=0.9), 0.001, "accepted"),  # a last query that took long is none
        (windows(1, served=0.9, grows=True) + windows(1, served=0.9), 0.001, "refused"),
    ],
)
def test_a_rate_is_decided_by_the_whole_interval(
    seen: list[Window], p99: float, decision: str
) -> None:
    point = point_from_windows(1.0, seen, latencies(p99, len(seen)), SLO)
    assert point.decision == decision
    assert point.overloaded == any(each.queue_grows for each in seen)


def queue(rate_hz: float, seed: int, *, mu: float = 1000.0, count: int = 3000) -> np.ndarray:
    """Times in a queue with random arrivals and exponential service, from an empty one on."""
    rng = np.random.default_rng([seed, round(rate_hz)])
    due = np.cumsum(rng.exponential(1 / rate_hz, count))
    worked = np.cumsum(service := rng.exponential(1 / mu, count))
    return worked + np.maximum.accumulate(due - (worked - service)) - due


def looked_at(rate_hz: float, seed: int, slo: Slo) -> RatePoint:
    """Look at a rate of that queue as a search does."""
    columns: list[np.ndarray] = []
    for count in LOOKS:
        columns += [queue(rate_hz, 100 * seed + n) for n in range(len(columns), count)]
        point = point_from_windows(rate_hz, windows(count), columns, slo)
        if point.decision != "unclear":
            break
    return point


@pytest.mark.parametrize(("bound", "q"), [("p99<50ms", 0.99), ("p99.9<20ms", 0.999)])
def test_a_rate_right_at_its_bound_is_seldom_called_kept_or_broken(bound: str, q: float) -> None:
    """Times in such a queue are exponential, so the rate at which they meet a bound is known."""
    slo = slo_from_text(bound)
    truth = 1000 + np.log(1 - q) / slo.limit_s
    found = [looked_at(truth, seed, slo).decision for seed in range(20)]
    assert found.count("accepted") <= 4  # of 20; it was 63 and 45 of 100
    assert found.count("refused") <= 4
    assert looked_at(0.7 * truth, 0, slo).decision == "accepted"
    assert looked_at(1000.0, 0, slo).decision != "accepted"


def test_a_search_of_a_queue_encloses_the_true_rate_and_guesses_it() -> None:
    truth = 1000 - np.log(100) / 0.01
    for seed in range(3):
        found = LoadSearch(slo=SLO, capacity_hz=1e3, lone_s=1e-3, highest_hz=None, next_hz=None)
        while (rate := next_rate(found, most_hz=1000.0)) is not None:
            found = with_point(found, looked_at(rate, seed, SLO), most_hz=1000.0)
        assert (found.highest_hz or math.inf) <= truth < (found.broken_hz or 0)
        assert found.likely_hz == pytest.approx(truth, rel=0.15)


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
    low, high = found.highest_hz or math.inf, found.next_hz or 0
    assert low <= truth < high
    assert high - low <= max(0.06 * high, 10.0)


def test_a_rate_that_was_asked_about_is_tried_first_and_ends_the_search_if_kept() -> None:
    found = search(1000.0, 900.0, most=500.0)
    assert found.highest_hz == 500.0
    assert found.at_least
    assert max(each.rate_hz for each in found.points) == 500.0


def test_rates_far_below_the_capacity_are_not_told_apart() -> None:
    """There each window of 400 queries takes a minute."""
    found = search(1000.0, 9.0)
    assert found.highest_hz is not None
    assert len([each for each in found.points if each.rate_hz < 20]) <= 2


def test_where_no_rate_keeps_the_bound_the_search_ends() -> None:
    found = search(1000.0, 0.0)
    assert found.highest_hz is None
    assert found.points[0].rate_hz < 1000 / 32


def test_an_accepted_rate_above_a_broken_one_is_not_the_answer() -> None:
    found = LoadSearch(slo=SLO, capacity_hz=9.0, lone_s=1e-3, highest_hz=None, next_hz=None)
    for rate, p99 in ((1.0, 0.001), (2.0, 0.1), (3.0, 0.001)):
        point: RatePoint = point_from_windows(rate, windows(2), latencies(p99), SLO)
        found = with_point(found, point, most_hz=9.0)
    assert (found.highest_hz, found.next_hz) == (1.0, 2.0)
