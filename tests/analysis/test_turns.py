"""Warm-up, turns, bursts and times alone: how much a launch holds, and what it shows."""

from itertools import pairwise

import numpy as np
import pytest

from analysis_values import ar1
from trtbench.analysis import pacing, verdict
from trtbench.analysis.gate import slowdown_result, slowdown_rule
from trtbench.analysis.history import segment
from trtbench.core.results import Comparison, Verdict
from trtbench.core.run import LaunchFacts
from trtbench.core.samples import Column, IterationTimes
from trtbench.core.spec import Length, Warmup

SERIES = 60
Launches = list[LaunchFacts]


def test_watch_ends_when_two_windows_agree() -> None:
    random = np.random.default_rng(0)
    watch = pacing.WarmupWatch()
    assert not watch.add(0.005 * (1 + 2 * np.exp(-np.arange(40) / 8)))
    for duration in 0.005 * ar1(random, 400, sd=0.005):
        if watch.add(float(duration)):
            break
    assert (watch.steady, watch.done) == (True, True)
    assert 60 <= watch.iterations <= 150


def test_watch_honours_floor_and_cap() -> None:
    floor = pacing.WarmupWatch(Warmup(floor=Length(seconds=2.0, iterations=20)))
    assert not floor.add(np.full(100, 0.01))
    assert floor.add(np.full(101, 0.01))
    capped = pacing.WarmupWatch(Warmup(cap_s=1.0))
    capped.add(0.005 * 1.02 ** np.arange(100))
    assert (capped.capped, capped.done, capped.steady) == (True, True, False)
    fixed = pacing.WarmupWatch(Warmup(floor=Length(iterations=30), until_steady=False))
    fixed.add(np.linspace(1, 2, 29))
    assert not fixed.done
    fixed.add(1.0)
    assert fixed.done


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
        ((1.0, 1.0, 1.0), "flat"), ((1.2, 1.0, 1.0), "warm-up"), ((0.9, 1.0, 1.0), "slowdown"),
        ((1.0, 1.0, 1.1), "no steady state"), ((1.1, 1.0, 1.1, 1.0), "no steady state"),
    ],
)  # fmt: skip
def test_classes(levels: tuple[float, ...], kind: str) -> None:
    assert segment(shaped(*levels)).kind == kind


def test_what_is_cut_and_what_is_not() -> None:
    result = segment(shaped(1.2, 1.0, 1.0))
    assert result.steady_from == pytest.approx(1000, abs=20)
    assert result.largest_change == pytest.approx(0.2, abs=0.01)
    outliers = shaped(1.0)
    outliers[::50] *= 8
    for flat in (outliers, np.array([1.0, 2.0, 3.0]), np.ones(1000), np.array([])):
        assert segment(flat).kind == "flat"
    both = np.concatenate([shaped(1.0), shaped(1.3)])
    times = IterationTimes(host=both, launch=np.repeat([0, 1], 1000))
    kinds = [segment(each).kind for each in times.by_launch("host")]
    assert kinds == ["flat", "flat"], "each on its own"


def comparison(effect: float, *, noise: float = 0.002, launches: int = 10) -> Comparison:
    """A comparison in turns with so large an effect."""
    random = np.random.default_rng(1)
    pairs = []
    for _ in range(launches):
        before = 1e-3 * np.exp(random.normal(0, 0.01, 100))
        shift = effect + random.normal(0, noise)
        pairs.append((before, before * np.exp(shift + random.normal(0, 0.001, 100))))
    return verdict.duet_comparison(pairs, baseline="a", candidate="b")


def alone(effect: float, *, noise: float, launches: int = 10) -> tuple[float, ...]:
    return tuple(np.random.default_rng(2).normal(effect, noise, launches).tolist())


@pytest.mark.parametrize(
    ("in_turns", "by_itself", "noise"),
    [(-0.106, 0.07, 0.01), (0.032, 0.0, 0.003), (0.0, 0.08, 0.01)],
    ids=["the wrong sign", "slower only in turns", "the same only in turns"],
)
def test_what_the_times_alone_deny_is_unclear_with_that_reason(
    in_turns: float, by_itself: float, noise: float
) -> None:
    before = comparison(in_turns)
    assert before.verdicts[0].kind != "unclear"
    held = verdict.check_alone(before, alone(by_itself, noise=noise))
    head = held.verdicts[0]
    assert (head.kind, head.launches_needed) == ("unclear", None), "more launches do not help"
    assert "alone" in head.reason
    assert not {each.kind for each in held.verdicts} & {"faster", "slower", "same"}
    assert held.alone.kind != before.verdicts[0].kind
    assert slowdown_result(slowdown_rule(0.03), head).outcome == "unclear", "nor fails a gate"


@pytest.mark.parametrize(
    ("in_turns", "by_itself", "noise"),
    [
        (-0.149, -0.29, 0.02),  # another size, the same answer
        (0.03, -0.01, 0.2),  # times alone too noisy to say anything
        (0.011, 0.009, 0.002),  # on both sides of what counts, but one interval
        (0.0, 0.001, 0.003),
    ],
)
def test_what_the_times_alone_do_not_deny_stands(in_turns: float, by_itself: float, noise: float):
    before = comparison(in_turns, noise=0.001)
    assert before.verdicts[0].kind != "unclear"
    held = verdict.check_alone(before, alone(by_itself, noise=noise))
    assert held.verdicts == before.verdicts
    assert held.alone is not None


def test_without_times_alone_nothing_is_denied() -> None:
    before = comparison(0.05)
    assert verdict.check_alone(before, ()) == before
    one = verdict.verdict_from_effects([0.5])
    assert verdict.contradiction(before.verdicts[0], one) is None, "one launch alone tells nothing"


def test_equal_sides_are_denied_by_chance_almost_never() -> None:
    random = np.random.default_rng(3)
    denied = 0
    for _ in range(1000):
        turns = verdict.verdict_from_effects(random.normal(0, 0.004, 10).tolist())
        told = verdict.verdict_from_effects(random.normal(0, 0.03, 10).tolist())
        denied += verdict.contradiction(turns, told) is not None
    assert denied <= 5


def test_effects_alone_pair_blocks_that_alternated_and_medians_that_did_not() -> None:
    drifting = LaunchFacts(alone_s=(1.0, 2.0, 4.0))
    slower = LaunchFacts(alone_s=(1.1, 2.2, 4.4))
    once = LaunchFacts(alone_s=(3.0,))
    nothing = LaunchFacts()
    found = verdict.alone_effects([drifting, drifting, nothing], [slower, once, slower])
    assert found == pytest.approx([np.log(1.1), np.log(1.5)])


@pytest.mark.parametrize("pace_s", [5e-6, 5e-5, 5e-4, 5e-3, 5e-2, 1.0])
def test_a_launch_holds_what_there_is_time_for(pace_s: float) -> None:
    plan = pacing.plan_from_pace([pace_s, pace_s])
    queries = 2 * (plan.pairs + plan.settle + plan.blocks * plan.in_block)
    assert queries * pace_s < 0.7 or plan.pairs == pacing.MIN_PAIRS
    assert plan.pairs >= pacing.MIN_PAIRS
    assert plan.dropped < plan.in_block
    assert (plan.in_block == 1) == (pace_s > pacing.SHORT_S), (
        "a long query feels nothing of the other"
    )
    assert pacing.plan_from_pace([pace_s, pace_s], pairs=77).pairs == 77


def test_every_pair_holds_both_sides_and_stretches_hold_every_turn() -> None:
    turns = pacing.order_of_turns(50, seed=3, launch=1)
    assert np.all(turns.reshape(-1, 2).sum(axis=1) == 1)
    joined = pacing.stretches(turns, length=4)
    assert sum(count for side, count in joined if side == 0) == 200
    assert all(a[0] != b[0] for a, b in pairwise(joined))
    assert not np.array_equal(turns, pacing.order_of_turns(50, seed=3, launch=2))


@pytest.mark.parametrize("count", [1, 6, 7, 50])
def test_two_launches_together_give_both_sides_the_same_places(count: int) -> None:
    for launch in (0, 6):
        one, other = (pacing.order_of_turns(count, seed=0, launch=launch + each) for each in (0, 1))
        assert np.array_equal(one, 1 - other)
    firsts = [
        pacing.order_of_turns(6, seed=0, launch=launch).tobytes() for launch in range(0, 12, 2)
    ]
    assert len(set(firsts)) > 3, "and the order is drawn anew after that"


@pytest.mark.parametrize(
    ("query_s", "noise", "pairs", "least", "most"),
    [
        (25e-3, 0.01, 12, 12, 12),
        (25e-3, 0.10, 12, 31, 32),
        (2e-3, 0.03, 100, 100, 160),
        (2e-3, 0.05, 100, 120, 200),
        (1e-4, 0.02, 200, 200, 200),
    ],
    ids=["quiet", "slow and disturbed", "sure enough", "as many as it takes", "quick"],
)
def test_pairs_that_lie_apart_are_made_more(
    query_s: float, noise: float, pairs: int, least: int, most: int
) -> None:
    random = np.random.default_rng(3)
    first = query_s * np.exp(random.normal(0, noise / np.sqrt(2), pairs))
    second = query_s * np.exp(random.normal(0, noise / np.sqrt(2), pairs))
    assert least <= pacing.pairs_for_noise(first, second) <= most
    assert pacing.pairs_for_noise(first, first) == pairs


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


def judged(baseline: Launches, candidate: Launches, **more: list[float]) -> Verdict:
    found = verdict.burst_verdict(baseline, candidate, **more)
    assert found is not None
    return found


def single(logs: Column) -> Launches:
    """Launches of one burst each."""
    return [LaunchFacts(burst_s=(float(np.exp(each)),)) for each in logs]


@pytest.mark.parametrize(
    ("change", "kind"), [(0.0, "same"), (0.01, "slower"), (-0.01, "faster"), (0.003, "same")]
)
def test_a_difference_of_one_per_cent_is_found_in_five_launches(change: float, kind: str) -> None:
    found = judged(launches(160e-6), launches(160e-6 * (1 + change), seed=1))
    assert (found.metric, found.kind, found.design) == ("gpu", kind, "bursts")
    assert found.interval.level == 0.99


def test_launches_without_bursts_are_left_out_and_a_gpu_that_waited_gives_no_verdict() -> None:
    with_none = [*launches(1e-3), LaunchFacts()]
    assert len(verdict.burst_effects(with_none, with_none)) == 5
    assert verdict.burst_verdict([LaunchFacts()], [LaunchFacts()]) is None
    slow = launches(200e-6, seed=1, burst_enqueue_s=195e-6)
    found = judged(launches(160e-6, burst_enqueue_s=4e-6), slow)
    assert (found.kind, found.launches_needed) == ("unclear", None)
    assert "the GPU waited for the host" in found.reason
    assert "candidate" in found.reason


def test_bursts_that_single_queries_contradict_give_no_verdict() -> None:
    sides = launches(160e-6), launches(164e-6, seed=1)
    assert judged(*sides, single_effects=[0.024, 0.025, 0.026, 0.025]).kind == "slower"
    found = judged(*sides, single_effects=[-0.03, -0.031, -0.03, -0.029])
    assert found.kind == "unclear"
    assert "in bursts, but −2.96 %" in found.reason
    # What differs by less than counts is no contradiction.
    near = [0.0248 - 0.9 * verdict.BURSTS_THRESHOLD + each for each in (0, 1e-5, -1e-5, 0)]
    assert judged(*sides, single_effects=near).kind == "slower"


def test_looking_at_every_launch_finds_no_difference_where_there_is_none() -> None:
    wrong = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        spread = (0.001, 0.003, 0.01)[seed % 3]
        sides = [single(generator.normal(0, spread, 40)) for _ in (0, 1)]
        for count in (4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 40):
            kind = judged(sides[0][:count], sides[1][:count]).kind
            if kind != "unclear":
                break
        wrong += kind in ("faster", "slower")
    assert wrong <= 6


def drawn(seed: int, *, change: float, drift: float) -> tuple[Launches, Launches]:
    """Six launches a side that lie 0.4 % apart, with a drift that both sides share."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, drift, 6)
    sides = [shared + generator.normal(0, 0.004 / 2**0.5, 6) for _ in (0, 1)]
    return single(sides[0]), single(sides[1] + np.log1p(change))


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
        equal.append(judged(a[:4], b[:4]).kind)
        slower.append(judged(*drawn(seed, change=0.01, drift=drift)).kind)
    assert equal.count("same") >= found_same * 300
    assert equal.count("slower") + equal.count("faster") <= 1
    assert slower.count("slower") >= found_slower * 300


def placed(seed: int, *, change: float, apart: float, noise: float) -> tuple[Launches, Launches]:
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
        equal.append(judged(*placed(seed, change=0, apart=apart, noise=noise)).kind)
        slower.append(judged(*placed(seed, change=0.01, apart=apart, noise=noise)).kind)
    assert set(equal) == {"same"}
    assert slower.count("slower") >= 0.97 * 200


def test_places_count_only_where_every_launch_has_its_counterpart() -> None:
    first, second = placed(0, change=0.01, apart=0.01, noise=0)
    assert verdict.effects_by_load_order(first, second) == pytest.approx([np.log1p(0.01)] * 6)
    found = judged(first, second)
    assert found.launches == 6
    assert found.interval.low == pytest.approx(1.01)
    assert verdict.effects_by_load_order(first[:3], second[:3]) == (), (
        "the sides were not exchanged"
    )
    assert (
        len(verdict.effects_by_load_order([*first, LaunchFacts()], [*second, LaunchFacts()])) == 6
    )
    assert verdict.effects_by_load_order(launches(1e-3), launches(1e-3)) == ()
    mixed = [*first[:5], first[5].having(load_order=None)]
    assert verdict.effects_by_load_order(mixed, second) == ()


def test_bursts_are_as_long_as_a_slow_model_allows() -> None:
    paces = ([160e-6, 158e-6], [5e-6, 4e-6], [50e-3, 20e-3])
    plans = [pacing.bursts_from_pace(pace) for pace in paces]
    assert [plan.size for plan in plans] == [pytest.approx(75, abs=1), 100, 4]
    assert {plan.turns for plan in plans} == {pacing.BURSTS}
    assert pacing.bursts_from_pace([1e-3, 1e-3], turns=30).turns == 30
