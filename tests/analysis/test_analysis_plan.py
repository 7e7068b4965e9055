"""How long to measure."""

from __future__ import annotations

import math

import pytest

from trtbench.analysis.column_summary import launch_interval
from trtbench.analysis.plan import half_width, launches_needed


def test_half_width_is_that_of_the_interval_over_launches() -> None:
    medians = [1.0, 1.02, 0.99, 1.01, 1.0]
    interval = launch_interval(medians)
    assert interval is not None
    width = half_width(medians)
    assert width == pytest.approx(math.log(interval.high / interval.low) / 2)
    assert half_width([1.0]) is None


def test_launches_needed_grow_with_the_square_of_the_width() -> None:
    medians = [1.0, 1.02, 0.98, 1.01, 0.99]
    width = half_width(medians)
    assert width is not None
    assert launches_needed(medians, target=width / 2) == 20
    assert launches_needed(medians, target=1.0) == 5
    assert launches_needed([1.0]) is None
