from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from trtbench import units
from trtbench.analysis.findings.rule import spaced
from trtbench.report.document import Cell
from trtbench.report.numbers import (
    common_unit,
    text_from_change,
    text_from_count,
    text_from_difference,
    text_from_duration,
    text_from_number,
    text_from_share,
)
from trtbench.units import text_from_fraction, text_from_seconds


def bounds(low: float, high: float) -> SimpleNamespace:
    return SimpleNamespace(low=low, high=high)


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (1.23456, 1.2, 1.27, "1.23"),  # ± 0.035: the second place is in doubt
        (1.23456, 1.2334, 1.2358, "1.2346"),  # ± 0.0012 begins with a small one: a place more
        (1.23456, 1.2315, 1.2375, "1.235"),
        (1234.56, 1100, 1400, "1 235"),
        (6.7, 5.0, 12.0, "6.7"),  # two digits are shown however wide the interval is
        (0.97123, 0.958, 0.981, "0.971"),
        (5.0, 5.0, 5.0, "5.000"),
    ],
)
def test_digits_follow_the_interval(value: float, low: float, high: float, shown: str) -> None:
    assert text_from_number(value, bounds=bounds(low, high)) == shown


def test_a_number_without_interval_has_three_digits() -> None:
    assert text_from_number(0.0123456) == "0.0123"
    assert text_from_number(12.3456) == "12.3"


def test_durations_carry_the_unit_that_suits_them_or_the_one_they_are_given() -> None:
    assert text_from_duration(1.5e-3) == "1.50 ms"
    assert text_from_duration(7.24e-4) == "724 µs"
    assert text_from_duration(7.24e-4, unit=("ms", 1e-3)) == "0.724 ms"
    assert text_from_duration(1.2345e-3, bounds=bounds(1.2315e-3, 1.2375e-3)) == "1.234 ms"


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_what_is_unknown_is_a_dash_and_no_number(missing: float | None) -> None:
    assert text_from_duration(missing) == text_from_number(missing) == "–"
    assert text_from_share(missing) == "–"


def test_zero_is_zero_and_not_missing() -> None:
    assert text_from_duration(0.0) == "0 ms"
    assert text_from_share(0.0) == "0.0 %"
    assert text_from_count(0) == "0"


def test_durations_side_by_side_share_the_unit_of_the_middle_one() -> None:
    assert common_unit([7e-4, 1e-3, 5e-3])[0] == "ms"
    assert common_unit([float("nan"), 0.0])[0] == "ms"


def test_whatever_is_below_zero_has_a_minus_and_no_hyphen() -> None:
    assert text_from_fraction(-0.0405, signed=True) == text_from_change(-0.0405) == "−4.05 %"
    assert text_from_seconds(-0.0015).startswith("−1.5")
    assert text_from_number(-12.3) == "−12.3"
    assert text_from_duration(-0.0012) == "−1.20 ms"
    assert text_from_difference(-0.0012) == "−1.20 ms"
    assert text_from_difference(0.0012) == "+1.20 ms"
    assert text_from_difference(None) == "–"
    assert Cell(value=-0.25).shown == "−0.25"
    assert Cell(value="a-1").shown == "a-1"
    assert spaced("by -4% and +2.5%") == "by −4 % and +2.5 %"
    assert spaced("top1>=baseline-0.5%") == "top1>=baseline-0.5 %", "this is a difference"


def test_one_place_writes_the_minus() -> None:
    package = Path(units.__file__).parent
    found = {
        path.name
        for path in package.rglob("*.py")
        if '.replace("-", "−")' in path.read_text() and path.name != "units.py"
    }
    assert not found
