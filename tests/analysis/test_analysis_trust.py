"""The trust experiment in short: series as seen on a shared machine, with fixed seeds."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from scipy import stats

from analysis_values import duet
from trtbench.analysis.verdict import launch_effect, verdict_from_effects

COMPARISONS = 300


def verdicts(effect: float, *, seed: int) -> Counter[str]:
    random = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(COMPARISONS):
        pairs = duet(random, effect=effect, n=100)
        found[verdict_from_effects([launch_effect(*pair) for pair in pairs]).kind] += 1
    return found


def test_a_model_is_never_different_from_itself() -> None:
    found = verdicts(0.0, seed=1)
    assert found["slower"] + found["faster"] == 0
    assert found["same"] >= 0.95 * COMPARISONS


def test_a_slowdown_of_two_per_cent_is_found() -> None:
    found = verdicts(0.02, seed=2)
    assert found["slower"] >= 0.95 * COMPARISONS
    assert found["faster"] == 0


def test_a_gain_of_two_per_cent_is_found() -> None:
    found = verdicts(-0.02, seed=3)
    assert found["faster"] >= 0.95 * COMPARISONS
    assert found["slower"] == 0


def test_the_usual_way_would_have_been_fooled() -> None:
    random = np.random.default_rng(4)
    fooled = 0
    for _ in range(COMPARISONS):
        (a, _), (b, _) = duet(random, launches=2, n=100)
        fooled += stats.ttest_ind(a, b, equal_var=False).pvalue < 0.01
    assert fooled >= 0.5 * COMPARISONS


def test_intervals_hold_the_true_effect() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(COMPARISONS):
        pairs = duet(random, effect=0.01, n=60)
        interval = verdict_from_effects([launch_effect(*pair) for pair in pairs]).interval
        assert interval is not None
        held += interval.low <= 1.01 <= interval.high
    assert held >= 0.97 * COMPARISONS
    assert math.isclose(interval.level, 0.99)
