"""Statistics of a run: hand-computed values, scipy as the yardstick, and honest silence."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from analysis_values import ar1, launches_of, run, spec
from trtbench.analysis import summary as summaries
from trtbench.analysis.distributions import (
    binomial_cdf,
    interval_ranks,
    normal_quantile,
    samples_needed,
    t_quantile,
    t_two_sided_p,
)
from trtbench.analysis.stored_comparison import coarse_reason
from trtbench.core.run import LaunchFacts
from trtbench.core.samples import Column, IterationTimes
from trtbench.core.spec import TensorSpec


def host(column: Column) -> summaries.ColumnSummary:
    return summaries.summarize(IterationTimes(host=column)).column("host")


@pytest.mark.parametrize("df", [0.5, 1, 1.5, 2, 7.3, 19, 100, 1e4])
def test_student_is_that_of_scipy(df: float) -> None:
    for p in (1e-6, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.995, 0.9999999):
        assert t_quantile(p, df=df) == pytest.approx(special.stdtrit(df, p), rel=1e-8, abs=1e-12)
    for t in (0.0, 0.1, 1.0, 2.0, 5.0, 20.0, 100.0):
        assert t_two_sided_p(t, df=df) == pytest.approx(2 * special.stdtr(df, -t), rel=1e-8)


@pytest.mark.parametrize("n", [1, 5, 40, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_binomials_are_those_of_scipy(n: int, p: float) -> None:
    assert binomial_cdf(-1, n=n, p=p) == 0
    for part in (0.0, 0.05, 0.3, 0.5, 0.7, 0.99, 1):
        k = int(part * n)
        expected = float(special.bdtr(k, n, p)) if k < n else 1.0
        assert binomial_cdf(k, n=n, p=p) == pytest.approx(expected, rel=1e-7, abs=1e-280)


def test_quantiles_of_the_normal_are_those_of_scipy() -> None:
    for p in (1e-9, 0.025, 0.5, 0.9, 0.999999):
        assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-9, abs=1e-12)


def test_ten_numbers_by_hand() -> None:
    summary = host(np.array([5.0, 1, 4, 2, 3, 10, 6, 9, 7, 8]))
    assert (summary.count, summary.min, summary.max) == (10, 1, 10)
    assert (summary.median, summary.mean, summary.mad) == (5.5, 5.5, 2.5)
    assert summary.std == pytest.approx(math.sqrt(82.5 / 10))
    assert summary.cov == pytest.approx(summary.std / 5.5)


@pytest.mark.parametrize(
    ("q", "needed"), [(0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688), (0.9999, 36887)]
)
def test_percentiles_need_so_many_samples(q: float, needed: int) -> None:
    assert samples_needed(q) == samples_needed(1 - q) == needed
    assert interval_ranks(needed, q) is not None
    assert interval_ranks(needed - 1, q) is None


@pytest.mark.parametrize("n", [36, 100, 500, 1000, 2000, 50_000])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_interval_ranks_follow_their_definition(n: int, q: float) -> None:
    ranks = interval_ranks(n, q)
    assert (ranks is None) == (n < samples_needed(q))
    if ranks is not None:
        low, high = ranks
        assert stats.binom.cdf(low - 1, n, q) <= 0.025 < stats.binom.cdf(low, n, q)
        assert stats.binom.sf(high - 1, n, q) <= 0.025 < stats.binom.sf(high - 2, n, q)
    assert interval_ranks(1000, 0.99) == (983, 997)


def test_a_percentile_without_enough_samples_says_how_many_it_needs() -> None:
    column = np.random.default_rng(0).lognormal(sigma=0.1, size=300)
    summary = host(column)
    p99 = summary.quantile(0.99)
    assert (p99.name, p99.value, p99.interval) == ("p99", None, None)
    assert (p99.needed or 0) >= 368
    assert summary.quantile(0.9).value == np.quantile(column, 0.9)
    assert summary.quantile(0.999).name == "p99.9"


def test_correlated_samples_count_less() -> None:
    random = np.random.default_rng(3)
    for phi in (0.0, 0.5, 0.9):
        tau = 20_000 / summaries.effective_samples(ar1(random, 20_000, phi=phi))
        assert tau == pytest.approx((1 + phi) / (1 - phi), rel=0.25)
    summary = host(ar1(random, 2000, phi=0.98))
    assert summary.effective < 100
    assert summary.quantile(0.99).value is None
    assert (summary.quantile(0.99).needed or 0) > 2000
    trend = host(np.linspace(1.0, 2.0, 500))
    assert trend.effective < 30
    assert trend.median_interval is None


def test_each_percentile_counts_its_own_clusters() -> None:
    random = np.random.default_rng(6)
    drift = 1 + 0.01 * np.sin(np.linspace(0, 6, 4000)) + 0.001 * random.normal(size=4000)
    scattered, clustered = drift.copy(), drift.copy()
    scattered[random.choice(4000, 60, replace=False)] *= 3
    clustered[1000:1060] *= 3
    one, other = host(scattered), host(clustered)
    assert one.effective < 30
    assert one.quantile(0.5).interval is None
    counts = [each.quantile(0.99).effective or 0.0 for each in (one, other)]
    assert counts[0] > 10 * counts[1]
    assert {each.quantile(0.99).value for each in (one, other)} == {None}, "nor is p90 known"


def test_bins_and_blocks_do_not_change_what_is_counted() -> None:
    series = ar1(np.random.default_rng(8), 200_000, phi=0.9)
    fine = summaries.effective_samples_at(series[:32_768], 1.0) / 32_768
    assert summaries.effective_samples_at(series, 1.0) / 200_000 == pytest.approx(fine, rel=0.5)


@pytest.mark.parametrize("count", [500, 4000, 12_000])
def test_no_percentile_is_shown_beyond_a_hidden_one(count: int) -> None:
    random = np.random.default_rng(count)
    hidden = 0
    sides = ((0.75, 0.9, 0.95, 0.99, 0.999), (0.25, 0.1, 0.05, 0.01))
    for remembers in (30, 300, 3000) * 4:
        # A slow drift and rare, scattered disturbances: the tail alone looks independent.
        drift = ar1(random, count, phi=1 - 1 / remembers, sd=2.0)
        series = drift + random.normal(size=count)
        series += (random.random(count) < 0.02) * random.exponential(8, count)
        for launches in ([series], [series[: count // 2], series[count // 2 :]]):
            summary = summaries.summarize_column("host", launches)
            for inner, outer in (pair for side in sides for pair in pairwise(side)):
                near, far = summary.quantile(inner), summary.quantile(outer)
                assert near.value is not None or far.value is None
                assert (near.needed or 0) <= (far.needed or 10**12)
            hidden += summary.quantile(0.9).value is None
    assert hidden, "some of these series are too correlated for their percentiles"


def test_intervals_of_shown_percentiles_hold_what_they_state() -> None:
    """A quick share of benchmarks/coverage.py; nominal 95 %, and chance allows a few misses."""
    random = np.random.default_rng(1)
    truth = {q: 1 + stats.norm.ppf(q) for q in (0.9, 0.95, 0.99)}
    held = []
    for _ in range(60):
        summary = summaries.summarize_column("host", [ar1(random, 6000, phi=0.9, sd=1.0)])
        for q, value in truth.items():
            interval = summary.quantile(q).interval
            if interval is not None:
                held.append(interval.low <= value <= interval.high)
    assert len(held) >= 150
    assert sum(held) >= 0.9 * len(held)


def test_slow_changes_count_even_where_neighbours_hardly_correlate() -> None:
    random = np.random.default_rng(4)
    series = np.repeat(random.random(10) < 0.3, 600) * 0.5 + random.normal(size=6000)
    threshold = float(np.quantile(series, 0.9))
    shuffled = random.permutation(series)
    assert summaries.effective_samples_at(series, threshold) < 0.5 * summaries.effective_samples_at(
        shuffled, threshold
    )


def test_intervals_of_launches_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(7)
    launches = (np.exp(0.18 * random.normal(size=5)) for _ in range(400))
    drawn = [
        summaries.summarize_column("host", [*each[:, None]]).median_interval for each in launches
    ]
    held = [each for each in drawn if each and each.low <= 1.0 <= each.high]
    assert 0.92 <= len(held) / 400 <= 0.98


def test_intervals_within_a_launch_hold_the_truth_of_correlated_series() -> None:
    random = np.random.default_rng(11)
    honest, naive = [], []
    for _ in range(200):
        series = ar1(random, 600, phi=0.8)
        honest.append(host(series).median_interval)
        naive.append(summaries.order_interval(np.sort(series), 0.5, effective=len(series)))
    given = [each for each in honest if each]
    held = [each for each in given if each.low <= 1.0 <= each.high]
    assert len(given) >= 150
    assert len(held) / len(given) >= 0.90
    assert sum(bool(each and each.low <= 1.0 <= each.high) for each in naive) / 200 <= 0.70


def test_one_launch_says_so_and_several_give_an_interval() -> None:
    one = summaries.summarize(IterationTimes(host=np.ones(50)))
    assert (one.launches, one.interval, one.repeatability) == (1, None, summaries.ONE_LAUNCH)
    several = summaries.summarize(launches_of([np.full(50, level) for level in (1.0, 1.1, 1.2)]))
    assert several.launches == 3
    logs = np.log([1.0, 1.1, 1.2])
    low, high = stats.t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / math.sqrt(3))
    ends = (several.interval.low, several.interval.high)
    assert ends == pytest.approx((math.exp(low), math.exp(high)))
    assert "launches" in several.interval.meaning


def test_throughput_comes_from_the_wall_then_from_host_times_then_from_stamps() -> None:
    times = IterationTimes(host=np.full(100, 0.01))
    wall = summaries.summarize(times, wall_s=2.0, items_per_query=8)
    assert (wall.queries_per_s, wall.items_per_s) == (50.0, 400.0)
    assert wall.throughput_from == "wall time"
    assert summaries.summarize(times).queries_per_s == pytest.approx(100.0)
    assert summaries.summarize(times, closed_loop=False).queries_per_s is None
    begin = np.arange(10) * 0.5
    stamps = {"start_h2d": begin, "end_d2h": begin + 1.0}
    device = IterationTimes(latency=np.full(10, 1.0), stamps=stamps)
    stamped = summaries.summarize(device)
    assert stamped.queries_per_s == pytest.approx(10 / 5.5)
    assert stamped.throughput_from == "device stamps"
    assert summaries.summarize(IterationTimes(latency=np.full(10, 1.0))).queries_per_s is None
    nothing = summaries.summarize(IterationTimes())
    assert (nothing.columns, nothing.queries_per_s) == ((), None)


def test_a_run_brings_its_wall_time_and_batch() -> None:
    times = launches_of([np.full(10, 0.1), np.full(10, 0.1)])
    facts = (LaunchFacts(wall_s=2.0), LaunchFacts(wall_s=3.0))
    four = (TensorSpec(name="x", dtype="float32", shape=(4, 3)),)
    summary = summaries.summary_from_run(
        run(times, launches=facts, inputs=four, spec=spec(batch=8))
    )
    assert (summary.queries_per_s, summary.items_per_s) == pytest.approx((4.0, 16.0))


@pytest.mark.parametrize(
    ("shapes", "items"),
    [
        (((8, 3, 32, 32),), 8), (((8, 128), (8, 128)), 8), (((8, 128), (1,)), 8),
        (((8, 128), (4, 128)), None), (((16,),), None),
    ],
)  # fmt: skip
def test_without_a_batch_the_shapes_that_were_run_give_the_items(
    shapes: tuple[tuple[int, ...], ...], items: int | None
) -> None:
    inputs = tuple(TensorSpec(name="x", dtype="float32", shape=shape) for shape in shapes)
    times = IterationTimes(host=np.full(10, 0.1))
    summary = summaries.summary_from_run(run(times, inputs=inputs, spec=spec(batch=None)))
    assert summary.queries_per_s == pytest.approx(10.0)
    assert summary.items_per_s == (None if items is None else pytest.approx(10.0 * items))


@pytest.mark.parametrize(("protocol", "rate"), [("coldl2", None), ("gpu", 5.0)])
def test_a_wall_time_that_holds_the_emptying_of_a_cache_gives_no_throughput(
    protocol: str, rate: float | None
) -> None:
    times = IterationTimes(latency=np.full(10, 0.1), gpu=np.full(10, 0.1))
    measured = run(times, launches=(LaunchFacts(wall_s=2.0),), spec=spec(protocol=protocol))
    assert summaries.summary_from_run(measured).queries_per_s == rate


def test_coarse_enqueue_times_give_way_to_what_was_printed() -> None:
    times = IterationTimes(latency=np.full(100, 1e-3), enqueue=np.repeat([1e-5, 2e-5], 50))
    printed = {"enqueue_time_median_ms": 0.0134, "enqueue_time_mean_ms": 0.0139}
    coarse, exact = {"enqueue_resolution_s": 1e-5}, {"enqueue_resolution_s": 1e-7}
    finer = summaries.summary_from_run(run(times, facts=coarse, reported=printed))
    column = finer.column("enqueue")
    assert (column.reported, column.median) == (True, pytest.approx(13.4e-6))
    assert not finer.column("latency").reported
    for changes in ({"facts": exact, "reported": printed}, {"facts": coarse}):
        assert not summaries.summary_from_run(run(times, **changes)).column("enqueue").reported
    assert "steps of 10 µs" in (coarse_reason("enqueue", run(times, facts=coarse)) or "")
    assert coarse_reason("latency", run(times, facts=coarse)) is None
