"""People's units at the edge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtbench.core import units
from trtbench.core.errors import UsageError
from trtbench.requests.fields import fraction


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("3s", 3.0), ("2 min", 120.0), ("1.5us", 1.5e-6), ("1e3ms", 1.0), ("0s", 0.0)],
)
def test_durations_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert units.seconds_from_text(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "ms", "-3s", "nan s", "1e999s", "3 s s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        units.seconds_from_text(text)


def test_sizes_rates_and_fractions() -> None:
    assert units.bytes_from_text("4GiB") == 4 * 2**30
    assert units.bytes_from_text("1.5MB") == 1_500_000
    assert units.hertz_from_text("500/s") == 500
    assert units.hertz_from_text("1.2kHz") == 1200
    assert units.fraction_from_text("3%") == pytest.approx(0.03)
    assert units.fraction_from_text("0") == units.fraction_from_text("0%") == 0
    assert units.fraction_from_text("300%") == 3


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("3", "3% or 300%"), ("1", "1% or 100%"), (" 2.5 ", "2.5% or 250%"),
        ("0.5", "0.5% or 50%"), (".07", "0.07% or 7%"), ("0.03", "0.03% or 3%"),
    ],
)  # fmt: skip
def test_a_number_that_may_be_per_cent_or_not_is_refused(text: str, ways: str) -> None:
    """Both are named; half a per cent that is taken for 50 would open a gate."""
    with pytest.raises(UsageError) as caught:
        units.fraction_from_text(text)
    assert caught.value.fix == f"write {ways}"


def test_numbers_of_python_are_parts_of_one() -> None:
    assert fraction(0.03) == 0.03
    with pytest.raises(UsageError, match="3 % or 300 %"):
        fraction(3)


def test_numbers_are_written_in_the_unit_that_suits_them() -> None:
    assert units.text_from_seconds(0.0005321) == "532.1 µs"
    assert units.text_from_seconds(0.0012041) == "1.204 ms"
    assert units.text_from_seconds(61.0) == "61.00 s"
    assert units.text_from_seconds(None) == "–"
    assert units.text_from_seconds(5e-20) == "0 s"
    ms = ("ms", 1e-3)
    assert units.text_from_duration(1.06e-17, unit=("µs", 1e-6)) == "0 µs", "less than can be seen"
    small = [units.text_from_duration(each, unit=ms) for each in (4e-9, 6e-8)]
    assert small == ["0 ms", "0.00006 ms"]
    assert units.text_from_change(-1e-6) == "0.00 %", "a zero has no sign"
    assert units.text_from_bytes(1536) == "1.50 KiB"
    assert units.text_from_rate(1204.4, what="items") == "1 204 items/s"
    assert units.text_from_fraction(0.0167, signed=True) == "+1.67 %"


@given(st.floats(min_value=1e-9, max_value=1e5))
def test_a_written_duration_is_read_back_within_its_digits(seconds: float) -> None:
    text = units.text_from_seconds(seconds, digits=6).replace(" ", "")
    assert units.seconds_from_text(text) == pytest.approx(seconds, rel=1e-4)


def test_one_of_something_is_singular() -> None:
    assert units.counted(1, "run") == "1 run"
    assert units.counted(1204, "run") == "1 204 runs"
    assert units.counted(0, "summary", "summaries") == "0 summaries"
