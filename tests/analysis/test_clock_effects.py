"""A difference in GPU time that is one of clocks is not told as one of engines."""

from __future__ import annotations

import numpy as np
import pytest

from analysis_values import run
from trtbench.domain.comparison import Comparison
from trtbench.domain.result import LaunchFacts, Run
from trtbench.domain.samples import IterationTimes
from trtbench.report.documents.comparison import also_in_cycles
from trtbench.workflows.compare.compare import comparison_from_runs


def measured(*, factor: float, clock_hz: float | None, in_bursts: bool = False) -> Run:
    """Six launches of GPU time, and the clock before and after, or after bursts of two of them."""
    random = np.random.default_rng(3)
    gpu = 1e-4 * factor * np.exp(random.normal(scale=1e-4, size=600))
    launch = np.repeat(np.arange(6), 100)
    if in_bursts:
        seen = (LaunchFacts(burst_clock_hz=clock_hz),) * 2 + (LaunchFacts(),) * 4
        return run(IterationTimes(gpu=gpu, host=gpu + 2e-5, launch=launch), launches=seen)
    facts = (
        {} if clock_hz is None else {"sm_clock_before_hz": clock_hz, "sm_clock_after_hz": clock_hz}
    )
    return run(IterationTimes(gpu=gpu, host=gpu + 2e-5, launch=launch), facts=facts)


def compared(candidate_clock_hz: float | None, *, in_bursts: bool = False) -> Comparison:
    baseline = measured(factor=1.0, clock_hz=1.98e9, in_bursts=in_bursts)
    candidate = measured(factor=2.0, clock_hz=candidate_clock_hz, in_bursts=in_bursts)
    return comparison_from_runs(baseline, candidate)


@pytest.mark.parametrize("in_bursts", [False, True])
def test_a_slower_clock_explains_a_slower_engine(in_bursts: bool) -> None:
    found = compared(1.98e9 / 2, in_bursts=in_bursts)
    assert [each.metric for each in also_in_cycles(found.verdicts)].count("gpu, cycles") == 1
    verdict = found.verdict("gpu")
    assert verdict.kind == "unclear"
    assert "counted in clock cycles it is unclear: a clock effect" in verdict.reason
    told = [each.message for each in found.findings if each.code == "H06"]
    assert "GPU time is slower in seconds, unclear in cycles: a clock effect" in told


@pytest.mark.parametrize("clock_hz", [1.98e9, None])
def test_the_same_clock_or_none_leaves_the_verdict(clock_hz: float | None) -> None:
    found = compared(clock_hz)
    assert found.verdict("gpu").kind == "slower"
    assert not [each for each in found.findings if "clock effect" in each.message]


def test_clocks_as_near_as_clocks_ever_are_say_nothing() -> None:
    """One launch a side is unclear by itself; counted in cycles it must not become a finding."""
    single = [
        run(IterationTimes(gpu=np.full(50, 1e-4), host=np.full(50, 1.2e-4)), facts=facts)
        for facts in ({"sm_clock_after_hz": 1.98e9}, {"sm_clock_after_hz": 1.975e9})
    ]
    found = comparison_from_runs(*single)
    assert found.verdict("gpu").kind == "unclear"
    assert "H06" not in [each.code for each in found.findings]
