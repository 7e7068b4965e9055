"""What bursts in turn say of GPU time, and when they say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from trtbench.analysis.bursts import burst_effects, burst_verdict, placed_effects
from trtbench.analysis.turn_plan import BURSTS, bursts_from_pace
from trtbench.analysis.verdict import BURSTS_GATE
from trtbench.domain.result import LaunchFacts


def launches(seconds: float, *, spread: float = 0.001, count: int = 5, seed: int = 0, **facts):
    """Launches whose bursts wander by this much from one to the other."""
    generator = np.random.default_rng(seed)
    return [
        LaunchFacts(
            burst_s=tuple(
                seconds * (1 + launch) * (1 + generator.normal(0, 0.0005, 16))
            ),
            burst_size=76,
            **facts,
        )
        for launch in generator.normal(0, spread, count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind"), [(0.0, "same"), (0.01, "slower"), (-0.01, "faster"), (0.003, "same")]
)
def test_a_difference_of_one_per_cent_is_found_in_five_launches(change: float, kind: str) -> None:
    told = burst_verdict(launches(160e-6), launches(160e-6 * (1 + change), seed=1))
    assert told is not None
    assert (told.metric, told.kind, told.design) == ("gpu", kind, "bursts")
    assert told.interval is not None
    assert told.interval.level == 0.99


def test_launches_without_bursts_are_left_out() -> None:
    with_none = [*launches(1e-3), LaunchFacts()]
    assert len(burst_effects(with_none, with_none)) == 5
    assert burst_verdict([LaunchFacts()], [LaunchFacts()]) is None


def test_a_gpu_that_waited_for_the_host_gives_no_verdict() -> None:
    slow = launches(200e-6, seed=1, burst_enqueue_s=195e-6)
    told = burst_verdict(launches(160e-6, burst_enqueue_s=4e-6), slow)
    assert told is not None
    assert told.kind == "unclear"
    assert told.launches_needed is None
    assert "the GPU waited for the host" in told.reason
    assert "candidate" in told.reason


def test_bursts_that_single_queries_contradict_give_no_verdict() -> None:
    sides = launches(160e-6), launches(164e-6, seed=1)
    assert burst_verdict(*sides, singly=[0.024, 0.025, 0.026, 0.025]).kind == "slower"
    told = burst_verdict(*sides, singly=[-0.03, -0.031, -0.03, -0.029])
    assert told.kind == "unclear"
    assert "in bursts, but −2.96 %" in told.reason
    # What differs by less than counts is no contradiction.
    near = [0.0248 - 0.9 * BURSTS_GATE + each for each in (0, 1e-5, -1e-5, 0)]
    assert burst_verdict(*sides, singly=near).kind == "slower"


def test_looking_at_every_launch_finds_no_difference_where_there_is_none() -> None:
    wrong = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        spread = (0.001, 0.003, 0.01)[seed % 3]
        sides = [
            [
                LaunchFacts(burst_s=(float(np.exp(each)),))
                for each in generator.normal(0, spread, 40)
            ]
            for _ in (0, 1)
        ]
        for count in (4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 40):
            told = burst_verdict(sides[0][:count], sides[1][:count])
            assert told is not None
            if told.kind != "unclear":
                break
        wrong += told.kind in ("faster", "slower")
    assert wrong <= 6


def drawn(seed: int, *, change: float, drift: float) -> tuple[list[LaunchFacts], list[LaunchFacts]]:
    """Six launches a side that lie 0.4 % apart, with a drift that both sides share."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, drift, 6)
    sides = [shared + generator.normal(0, 0.004 / 2**0.5, 6) for _ in (0, 1)]
    first, second = (
        [LaunchFacts(burst_s=(float(np.exp(each)),)) for each in side + shift]
        for side, shift in zip(sides, (0, np.log1p(change)), strict=True)
    )
    return first, second


@pytest.mark.parametrize(
    ("drift", "found_same", "found_slower"), [(0, 0.95, 0.85), (0.005, 0.9, 0.6)]
)
def test_launches_that_lie_apart_are_told_by_the_spread_of_each_side(
    drift: float, found_same: float, found_slower: float
) -> None:
    """Four launches tell that an engine is the same, six that one is 1 % slower."""
    equal, slower = [], []
    for seed in range(300):
        a, b = drawn(seed, change=0, drift=drift)
        equal.append(burst_verdict(a[:4], b[:4]).kind)
        slower.append(burst_verdict(*drawn(seed, change=0.01, drift=drift)).kind)
    assert equal.count("same") >= found_same * 300
    assert equal.count("slower") + equal.count("faster") <= 1
    assert slower.count("slower") >= found_slower * 300


def placed(
    seed: int, *, change: float, apart: float, noise: float
) -> tuple[list[LaunchFacts], list[LaunchFacts]]:
    """Six launches a side of two groups, with what their places cost; sides are exchanged."""
    generator = np.random.default_rng(seed)
    places = generator.normal(0, apart, 6)
    orders = ((0, 3, 4, 1, 2, 5), (1, 2, 5, 0, 3, 4))
    first, second = (
        [
            LaunchFacts(burst_s=(float(np.exp(shift + places[k] + each)),), load_order=k)
            for k, each in zip(order, generator.normal(0, noise, 6), strict=True)
        ]
        for order, shift in zip(orders, (0, np.log1p(change)), strict=True)
    )
    return first, second


@pytest.mark.parametrize(("apart", "noise"), [(0.006, 0.0003), (0.003, 0.001), (0, 0.002)])
def test_a_place_that_both_sides_have_tells_nothing_of_either(apart: float, noise: float) -> None:
    equal, slower = [], []
    for seed in range(200):
        equal.append(burst_verdict(*placed(seed, change=0, apart=apart, noise=noise)).kind)
        slower.append(burst_verdict(*placed(seed, change=0.01, apart=apart, noise=noise)).kind)
    assert set(equal) == {"same"}
    assert slower.count("slower") >= 0.97 * 200


def test_places_count_only_where_every_launch_has_its_counterpart() -> None:
    first, second = placed(0, change=0.01, apart=0.01, noise=0)
    assert placed_effects(first, second) == pytest.approx([np.log1p(0.01)] * 6)
    told = burst_verdict(first, second)
    assert told.launches == 6
    assert told.interval.low == pytest.approx(1.01)
    assert placed_effects(first[:3], second[:3]) == (), "the sides were not exchanged"
    assert len(placed_effects([*first, LaunchFacts()], [*second, LaunchFacts()])) == 6
    assert placed_effects(launches(1e-3), launches(1e-3)) == ()
    mixed = [*first[:5], first[5].having(load_order=None)]
    assert placed_effects(mixed, second) == ()


def test_bursts_are_as_long_as_a_slow_model_allows() -> None:
    quick = bursts_from_pace([160e-6, 158e-6])
    assert quick.size == pytest.approx(75, abs=1)
    assert quick.turns == BURSTS
    tiny = bursts_from_pace([5e-6, 4e-6])
    assert tiny.size == 100
    slow = bursts_from_pace([50e-3, 20e-3])
    assert (slow.size, slow.turns) == (4, BURSTS)
    assert bursts_from_pace([1e-3, 1e-3], turns=30).turns == 30
