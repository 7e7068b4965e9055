"""Statistics of a run: hand-computed values, scipy as the yardstick, and honest silence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis_values import ar1, launches_of, run, spec
from trtbench.analysis.column_summary import launch_interval, nearest_rank, order_interval
from trtbench.analysis.distributions import (
    binomial_cdf,
    interval_ranks,
    samples_needed,
    t_quantile,
    t_two_sided_p,
)
from trtbench.analysis.effective import (
    autocorrelation,
    average_ranks,
    effective_samples,
    effective_samples_at,
)
from trtbench.analysis.stored_comparison import too_coarse
from trtbench.analysis.summary import ONE_LAUNCH, summarize, summary_from_run
from trtbench.domain.result import LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import TensorSpec


def test_ten_numbers_by_hand() -> None:
    column = np.array([5.0, 1, 4, 2, 3, 10, 6, 9, 7, 8])
    summary = summarize(IterationTimes(host=column)).column("host")
    assert (summary.count, summary.min, summary.max) == (10, 1, 10)
    assert (summary.median, summary.mean) == (5.5, 5.5)
    assert summary.std == pytest.approx(math.sqrt(82.5 / 9))
    assert summary.mad == 2.5
    assert summary.cov == pytest.approx(summary.std / 5.5)


def test_nearest_rank_is_always_an_observed_value() -> None:
    column = np.arange(1.0, 101.0)
    assert nearest_rank(column, 0.07) == 7
    assert nearest_rank(column, 0.99) == 99
    assert nearest_rank(column[::-1].copy(), 0.5) == 50
    assert nearest_rank(column, 0.0) == 1
    assert nearest_rank(column, 0.999) == 100


@pytest.mark.parametrize(
    ("q", "needed"), [(0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688), (0.9999, 36887)]
)
def test_percentiles_need_so_many_samples(q: float, needed: int) -> None:
    assert samples_needed(q) == needed
    assert samples_needed(1 - q) == needed
    assert interval_ranks(needed, q) is not None
    assert interval_ranks(needed - 1, q) is None


def test_quantiles_agree_with_scipy() -> None:
    for df in (1, 2, 5, 9.5, 100):
        assert t_quantile(0.995, df=df) == pytest.approx(stats.t.ppf(0.995, df), rel=1e-9)
        assert t_two_sided_p(2.5, df=df) == pytest.approx(2 * stats.t.sf(2.5, df), rel=1e-9)
    for k, n, p in ((0, 10, 0.5), (983, 1000, 0.99), (5, 5, 0.1), (-1, 5, 0.1)):
        assert binomial_cdf(k, n=n, p=p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-9)


@pytest.mark.parametrize("n", [36, 100, 500, 1000, 2000, 50_000])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_interval_ranks_follow_their_definition(n: int, q: float) -> None:
    ranks = interval_ranks(n, q)
    if n < samples_needed(q):
        assert ranks is None
        return
    assert ranks is not None
    low, high = ranks
    assert stats.binom.cdf(low - 1, n, q) <= 0.025 < stats.binom.cdf(low, n, q)
    assert stats.binom.sf(high - 1, n, q) <= 0.025 < stats.binom.sf(high - 2, n, q)


def test_the_interval_of_p99_of_a_thousand_is_the_known_one() -> None:
    assert interval_ranks(1000, 0.99) == (983, 997)


def test_a_percentile_without_enough_samples_says_how_many_it_needs() -> None:
    column = np.random.default_rng(0).lognormal(sigma=0.1, size=300)
    summary = summarize(IterationTimes(host=column)).column("host")
    p99 = summary.quantile(0.99)
    assert p99.value is None
    assert p99.interval is None
    assert p99.needed is not None
    assert p99.needed >= 368
    assert summary.quantile(0.9).value == nearest_rank(column, 0.9)
    assert p99.name == "p99"
    assert summary.quantile(0.999).name == "p99.9"


def test_correlated_samples_count_less() -> None:
    random = np.random.default_rng(3)
    for phi in (0.0, 0.5, 0.9):
        tau = effective_samples(ar1(random, 20_000, phi=phi)).tau
        assert tau == pytest.approx((1 + phi) / (1 - phi), rel=0.25)
    summary = summarize(IterationTimes(host=ar1(random, 2000, phi=0.98))).column("host")
    assert summary.effective < 100
    assert summary.quantile(0.99).value is None
    assert (summary.quantile(0.99).needed or 0) > 2000


def test_few_effective_samples_give_no_interval() -> None:
    trend = np.linspace(1.0, 2.0, 500)
    summary = summarize(IterationTimes(host=trend)).column("host")
    assert summary.effective < 30
    assert summary.median_interval is None


def test_each_percentile_counts_its_own_clusters() -> None:
    random = np.random.default_rng(6)
    drift = 1 + 0.01 * np.sin(np.linspace(0, 6, 4000)) + 0.001 * random.normal(size=4000)
    scattered, clustered = drift.copy(), drift.copy()
    scattered[random.choice(4000, 60, replace=False)] *= 3
    clustered[1000:1060] *= 3
    summaries = [
        summarize(IterationTimes(host=each)).column("host") for each in (scattered, clustered)
    ]
    one, other = (summary.quantile(0.99).effective or 0.0 for summary in summaries)
    assert summaries[0].effective < 30
    assert summaries[0].quantile(0.5).interval is None
    assert one > 10 * other
    assert all(summary.quantile(0.99).value is None for summary in summaries), "nor is p90 known"


def test_bins_do_not_change_the_count_of_effective_samples() -> None:
    series = ar1(np.random.default_rng(8), 200_000, phi=0.9)
    fine = effective_samples_at(series[:32_768], 1.0) / 32_768
    binned = effective_samples_at(series, 1.0) / 200_000
    assert binned == pytest.approx(fine, rel=0.5)


def test_long_series_are_correlated_in_blocks_with_the_same_result() -> None:
    series = ar1(np.random.default_rng(5), 30_000, phi=0.9)
    whole = autocorrelation(series, block=30_000)[:50]
    blocks = autocorrelation(series, block=4096)[:50]
    assert np.allclose(whole, blocks, atol=0.03)


def test_ties_share_their_rank() -> None:
    column = np.array([2.0, 1, 2, 3, 2])
    assert average_ranks(column).tolist() == (stats.rankdata(column) - 1).tolist()


def test_one_launch_says_so_and_several_give_an_interval() -> None:
    one = summarize(IterationTimes(host=np.ones(50)))
    assert one.launches == 1
    assert one.interval is None
    assert one.repeatability == ONE_LAUNCH
    parts = [np.full(50, level) for level in (1.0, 1.1, 1.2)]
    several = summarize(launches_of(parts))
    assert several.launches == 3
    logs = np.log([1.0, 1.1, 1.2])
    low, high = stats.t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / math.sqrt(3))
    assert several.interval is not None
    assert several.interval.low == pytest.approx(math.exp(low))
    assert several.interval.high == pytest.approx(math.exp(high))
    assert "launches" in several.interval.meaning


def test_throughput_comes_from_the_wall_then_from_host_times() -> None:
    times = IterationTimes(host=np.full(100, 0.01))
    wall = summarize(times, wall_s=2.0, items_per_query=8)
    assert (wall.queries_per_s, wall.items_per_s) == (50.0, 400.0)
    assert wall.throughput_from == "wall time"
    assert summarize(times).queries_per_s == pytest.approx(100.0)
    assert summarize(times, closed_loop=False).queries_per_s is None


def test_throughput_of_device_times_comes_from_stamps() -> None:
    begin = np.arange(10) * 0.5
    stamps = {"start_h2d": begin, "end_d2h": begin + 1.0}
    times = IterationTimes(latency=np.full(10, 1.0), stamps=stamps)
    assert summarize(times).queries_per_s == pytest.approx(10 / 5.5)
    assert summarize(IterationTimes(latency=np.full(10, 1.0))).queries_per_s is None


def test_a_run_brings_its_wall_time_and_batch() -> None:
    times = launches_of([np.full(10, 0.1), np.full(10, 0.1)])
    facts = (LaunchFacts(wall_s=2.0), LaunchFacts(wall_s=3.0))
    four = (TensorSpec(name="x", dtype="float32", shape=(4, 3)),)
    summary = summary_from_run(run(times, launches=facts, inputs=four, spec=spec(batch=8)))
    assert summary.queries_per_s == pytest.approx(4.0)
    assert summary.items_per_s == pytest.approx(16.0)


@pytest.mark.parametrize(
    ("shapes", "items"),
    [
        (((8, 3, 32, 32),), 8),
        (((8, 128), (8, 128)), 8),
        (((8, 128), (1,)), 8),
        (((8, 128), (4, 128)), None),
        (((16,),), None),
    ],
)
def test_without_a_batch_the_shapes_that_were_run_tell_the_items(
    shapes: tuple[tuple[int, ...], ...], items: int | None
) -> None:
    inputs = tuple(TensorSpec(name="x", dtype="float32", shape=shape) for shape in shapes)
    times = IterationTimes(host=np.full(10, 0.1))
    summary = summary_from_run(run(times, inputs=inputs, spec=spec(batch=None)))
    assert summary.queries_per_s == pytest.approx(10.0)
    assert summary.items_per_s == (None if items is None else pytest.approx(10.0 * items))


def test_a_wall_time_that_holds_the_emptying_of_a_cache_gives_no_throughput() -> None:
    times = IterationTimes(latency=np.full(10, 0.1), gpu=np.full(10, 0.1))
    facts = (LaunchFacts(wall_s=2.0),)
    cold = summary_from_run(run(times, launches=facts, spec=spec(protocol="coldl2")))
    assert cold.queries_per_s is None
    warm = summary_from_run(run(times, launches=facts, spec=spec(protocol="gpu")))
    assert warm.queries_per_s == pytest.approx(5.0)


def test_nothing_measured_gives_no_columns() -> None:
    summary = summarize(IterationTimes())
    assert summary.columns == ()
    assert summary.queries_per_s is None


def test_intervals_of_launches_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        interval = launch_interval(np.exp(0.18 * random.normal(size=5)).tolist())
        assert interval is not None
        held += interval.low <= 1.0 <= interval.high
    assert 0.92 <= held / 400 <= 0.98


def test_intervals_within_a_launch_hold_the_truth_of_correlated_series() -> None:
    random = np.random.default_rng(11)
    given = held = naive = 0
    for _ in range(200):
        series = ar1(random, 600, phi=0.8)
        column = np.sort(series)
        honest = summarize(IterationTimes(host=series)).column("host").median_interval
        plain = order_interval(column, 0.5, effective=len(column))
        assert plain is not None
        given += honest is not None
        held += honest is not None and honest.low <= 1.0 <= honest.high
        naive += plain.low <= 1.0 <= plain.high
    assert given >= 150
    assert held / given >= 0.90
    assert naive / 200 <= 0.70


def test_coarse_enqueue_times_give_way_to_what_was_printed() -> None:
    steps = np.repeat([1e-5, 2e-5], 50)
    times = IterationTimes(latency=np.full(100, 1e-3), enqueue=steps)
    printed = {"enqueue_time_median_ms": 0.0134, "enqueue_time_mean_ms": 0.0139}
    known = {"facts": {"enqueue_resolution_s": 1e-5}, "reported": printed}
    finer = summary_from_run(run(times, **known)).column("enqueue")
    assert (finer.reported, finer.median) == (True, pytest.approx(13.4e-6))
    assert not summary_from_run(run(times, **known)).column("latency").reported
    exact = {"facts": {"enqueue_resolution_s": 1e-7}, "reported": printed}
    assert not summary_from_run(run(times, **exact)).column("enqueue").reported
    assert not summary_from_run(run(times, facts=known["facts"])).column("enqueue").reported
    assert "steps of 10 µs" in (too_coarse("enqueue", run(times, **known)) or "")
    assert too_coarse("latency", run(times, **known)) is None
