"""Warm-up and segmentation, calibrated on series with fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from analysis_values import ar1
from trtbench.analysis.steady import segment, segment_launches
from trtbench.analysis.warmup import WarmupWatch
from trtbench.domain.samples import Column, IterationTimes
from trtbench.domain.spec import Length, Warmup

SERIES = 60


def test_watch_ends_when_two_windows_agree() -> None:
    random = np.random.default_rng(0)
    watch = WarmupWatch()
    falling = 0.005 * (1 + 2 * np.exp(-np.arange(40) / 8))
    assert not watch.add(falling)
    for duration in 0.005 * ar1(random, 400, sd=0.005):
        if watch.add(float(duration)):
            break
    assert watch.steady
    assert watch.done
    assert 60 <= watch.iterations <= 150


def test_watch_honours_the_floor() -> None:
    watch = WarmupWatch(Warmup(floor=Length(seconds=2.0, iterations=20)))
    assert not watch.add(np.full(100, 0.01))
    assert watch.add(np.full(101, 0.01))


def test_watch_gives_up_at_the_cap_without_being_steady() -> None:
    watch = WarmupWatch(Warmup(cap_s=1.0))
    growing = 0.005 * 1.02 ** np.arange(100)
    watch.add(growing)
    assert watch.capped
    assert watch.done
    assert not watch.steady


def test_watch_without_steadiness_ends_at_the_floor() -> None:
    watch = WarmupWatch(Warmup(floor=Length(iterations=30), until_steady=False))
    watch.add(np.linspace(1, 2, 29))
    assert not watch.done
    watch.add(1.0)
    assert watch.done


@pytest.mark.parametrize("phi", [0.0, 0.3])
@pytest.mark.parametrize("sd", [0.005, 0.02])
def test_stationary_series_are_flat(phi: float, sd: float) -> None:
    random = np.random.default_rng(1)
    kinds = [segment(1e-3 * ar1(random, 300, phi=phi, sd=sd)).kind for _ in range(SERIES)]
    assert sum(kind != "flat" for kind in kinds) <= 0.02 * SERIES


@pytest.mark.parametrize(("n", "sd"), [(300, 0.02), (100, 0.01), (100, 0.005)])
def test_a_step_of_three_per_cent_is_found(n: int, sd: float) -> None:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(SERIES):
        series = 1e-3 * ar1(random, n, phi=0.3, sd=sd)
        series[: int(0.4 * n)] *= 1.03
        result = segment(series)
        found += result.kind == "warm-up" and abs(result.steady_from - 0.4 * n) <= 0.1 * n
    assert found >= 0.95 * SERIES


def shaped(*levels: float) -> Column:
    random = np.random.default_rng(4)
    return np.concatenate([level * 1e-3 * ar1(random, 1000, sd=0.005) for level in levels])


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        ((1.0, 1.0, 1.0), "flat"),
        ((1.2, 1.0, 1.0), "warm-up"),
        ((0.9, 1.0, 1.0), "slowdown"),
        ((1.0, 1.0, 1.1), "no steady state"),
        ((1.1, 1.0, 1.1, 1.0), "no steady state"),
    ],
)
def test_classes(levels: tuple[float, ...], kind: str) -> None:
    assert segment(shaped(*levels)).kind == kind


def test_a_warm_up_is_cut_where_it_ends() -> None:
    result = segment(shaped(1.2, 1.0, 1.0))
    assert result.steady_from == pytest.approx(1000, abs=20)
    assert result.largest_change == pytest.approx(0.2, abs=0.01)


def test_outliers_are_no_segments() -> None:
    series = shaped(1.0)
    series[::50] *= 8
    assert segment(series).kind == "flat"


def test_short_and_constant_series_are_flat() -> None:
    assert segment(np.array([1.0, 2.0, 3.0])).kind == "flat"
    assert segment(np.ones(1000)).kind == "flat"
    assert segment(np.array([])).kind == "flat"


def test_each_launch_is_segmented_on_its_own() -> None:
    both = np.concatenate([shaped(1.0), shaped(1.3)])
    times = IterationTimes(host=both, launch=np.repeat([0, 1], 1000))
    assert [each.kind for each in segment_launches(times)] == ["flat", "flat"]
