"""Turns and times alone: how much a launch holds, and which verdicts the times alone deny."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trtbench.analysis.gate import slowdown_result, slowdown_rule
from trtbench.analysis.turn_plan import (
    FEWEST_PAIRS,
    SHORT_S,
    order_of_turns,
    pairs_for_noise,
    plan_from_pace,
    stretches,
)
from trtbench.analysis.turns import alone_effects, denial, hold_to_alone
from trtbench.analysis.verdict import duet_comparison, verdict_from_effects
from trtbench.domain.comparison import Comparison
from trtbench.domain.result import LaunchFacts


def comparison(effect: float, *, noise: float = 0.002, launches: int = 10) -> Comparison:
    """A comparison in turns with so large an effect."""
    random = np.random.default_rng(1)
    pairs = []
    for _ in range(launches):
        before = 1e-3 * np.exp(random.normal(0, 0.01, 100))
        shift = effect + random.normal(0, noise)
        pairs.append((before, before * np.exp(shift + random.normal(0, 0.001, 100))))
    return duet_comparison(pairs, baseline="a", candidate="b")


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
    held = hold_to_alone(before, alone(by_itself, noise=noise))
    head = held.verdicts[0]
    assert head.kind == "unclear"
    assert "alone" in head.reason
    assert head.launches_needed is None, "more launches do not help"
    assert not {each.kind for each in held.verdicts} & {"faster", "slower", "same"}
    assert held.alone is not None
    assert held.alone.kind != before.verdicts[0].kind
    gate = slowdown_result(slowdown_rule(0.03), head)
    assert gate.outcome == "unclear", "a gate must not fail on it either"


@pytest.mark.parametrize(
    ("in_turns", "by_itself", "noise"),
    [
        (-0.149, -0.29, 0.02),  # another size, the same answer
        (0.03, -0.01, 0.2),  # times alone too noisy to say anything
        (0.011, 0.009, 0.002),  # on both sides of what counts, but one interval
        (0.0, 0.001, 0.003),
    ],
)
def test_what_the_times_alone_do_not_deny_stands(
    in_turns: float, by_itself: float, noise: float
) -> None:
    before = comparison(in_turns, noise=0.001)
    assert before.verdicts[0].kind != "unclear"
    held = hold_to_alone(before, alone(by_itself, noise=noise))
    assert held.verdicts == before.verdicts
    assert held.alone is not None


def test_without_times_alone_nothing_is_denied() -> None:
    before = comparison(0.05)
    assert hold_to_alone(before, ()) == before
    one = verdict_from_effects([0.5])
    assert denial(before.verdicts[0], one) is None, "one launch alone tells nothing"


def test_equal_sides_are_denied_by_chance_almost_never() -> None:
    random = np.random.default_rng(3)
    denied = 0
    for _ in range(1000):
        turns = verdict_from_effects(random.normal(0, 0.004, 10).tolist())
        told = verdict_from_effects(random.normal(0, 0.03, 10).tolist())
        denied += denial(turns, told) is not None
    assert denied <= 5


def test_effects_alone_pair_blocks_that_alternated_and_medians_that_did_not() -> None:
    drifting = LaunchFacts(alone_s=(1.0, 2.0, 4.0))
    slower = LaunchFacts(alone_s=(1.1, 2.2, 4.4))
    once = LaunchFacts(alone_s=(3.0,))
    nothing = LaunchFacts()
    found = alone_effects([drifting, drifting, nothing], [slower, once, slower])
    assert found == pytest.approx([np.log(1.1), np.log(1.5)])


@pytest.mark.parametrize("pace_s", [5e-6, 5e-5, 5e-4, 5e-3, 5e-2, 1.0])
def test_a_launch_holds_what_there_is_time_for(pace_s: float) -> None:
    plan = plan_from_pace([pace_s, pace_s])
    queries = 2 * (plan.pairs + plan.settle + plan.blocks * plan.in_block)
    assert queries * pace_s < 0.7 or plan.pairs == FEWEST_PAIRS
    assert plan.pairs >= FEWEST_PAIRS
    assert plan.dropped < plan.in_block
    assert (plan.in_block == 1) == (pace_s > SHORT_S), "a long query feels nothing of the other"
    assert plan_from_pace([pace_s, pace_s], pairs=77).pairs == 77


def test_every_pair_holds_both_sides_and_stretches_hold_every_turn() -> None:
    turns = order_of_turns(50, seed=3, launch=1)
    assert np.all(turns.reshape(-1, 2).sum(axis=1) == 1)
    joined = stretches(turns, length=4)
    assert sum(count for side, count in joined if side == 0) == 200
    assert all(a[0] != b[0] for a, b in pairwise(joined))
    assert not np.array_equal(turns, order_of_turns(50, seed=3, launch=2))


@pytest.mark.parametrize("count", [1, 6, 7, 50])
def test_two_launches_together_give_both_sides_the_same_places(count: int) -> None:
    for launch in (0, 6):
        one, other = (order_of_turns(count, seed=0, launch=launch + each) for each in (0, 1))
        assert np.array_equal(one, 1 - other)
    firsts = [order_of_turns(6, seed=0, launch=launch).tobytes() for launch in range(0, 12, 2)]
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
    assert least <= pairs_for_noise(first, second) <= most
    assert pairs_for_noise(first, first) == pairs
