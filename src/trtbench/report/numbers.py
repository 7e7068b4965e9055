"""Numbers with honest digits: as many as their interval supports.

Knows text and numbers; what they measure is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from trtbench.units import text_from_fraction, with_minus

UnitScale = tuple[str, float]
"""A unit's name and its length in seconds."""

UNITS: tuple[UnitScale, ...] = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
UNSURE_DIGITS = 3
"""Significant digits of a number that nobody gave an interval."""
MOST_DIGITS = 6
"""However narrow an interval is, no one reads more."""
EQUAL_DIGITS = 4
"""Of an interval without width: then it is the clock's step that leaves digits in doubt."""
MISSING = "–"


class Bounds(Protocol):
    """Anything with two ends, such as an interval of the summary."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


class Ends(NamedTuple):
    """The two ends of a range."""

    low: float
    high: float


def common_unit(values_s: Iterable[float]) -> UnitScale:
    """Choose one unit for durations that stand side by side: that of the one in the middle."""
    known = sorted(value for value in values_s if math.isfinite(value) and value > 0)
    return unit_for_seconds(known[len(known) // 2] if known else None)


def unit_for_seconds(value: float | None) -> UnitScale:
    """Choose the unit in which a duration reads best."""
    if value is None or not math.isfinite(value) or value == 0:
        return UNITS[1]
    return next((unit for unit in UNITS if abs(value) >= unit[1]), UNITS[-1])


def decimals(value: float, *, bounds: Bounds | None = None) -> int:
    """Tell how many places after the point a number deserves.

    The last digit shown is the first that the half width of the interval leaves in doubt; a half
    width from 1.0 to 1.5 gets one place more. Two significant digits are always shown.
    """
    size = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    if bounds is None or not math.isfinite(bounds.high - bounds.low):
        return max(0, UNSURE_DIGITS - 1 - size)
    half = (bounds.high - bounds.low) / 2
    if half <= 0:
        return max(0, EQUAL_DIGITS - 1 - size)
    place = math.floor(math.log10(half))
    wanted = -place + (1 if half / 10**place < 1.5 else 0)
    return max(0, 1 - size, min(wanted, MOST_DIGITS - 1 - size))


def text_from_number(value: float | None, *, bounds: Bounds | None = None) -> str:
    """Write a bare number with the digits its bounds support."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _grouped(value, decimals(value, bounds=bounds))


def text_from_duration(
    value_s: float | None, *, bounds: Bounds | None = None, unit: UnitScale | None = None
) -> str:
    """Write a duration with the digits its bounds support: ``1.204 ms``."""
    if value_s is None or not math.isfinite(value_s):
        return MISSING
    if value_s == 0:
        return f"0 {(unit or UNITS[1])[0]}"
    name, scale = unit or unit_for_seconds(value_s)
    places = decimals(value_s / scale, bounds=_scaled(bounds, scale))
    return f"{_grouped(value_s / scale, places)} {name}"


def text_from_share(value: float | None) -> str:
    """Write a part of a whole as per cent with three digits at most: ``12.3 %``."""
    if value is None or not math.isfinite(value):
        return MISSING
    percent = value * 100
    if 0 < percent < 0.05:
        return "< 0.1 %"
    return f"{percent:.1f} %"


def text_from_change(value: float | None, *, digits: int = 2) -> str:
    """Write a change as per cent with its sign: ``−12.30 %``."""
    if value is None or not math.isfinite(value):
        return MISSING
    return text_from_fraction(value, digits=digits, signed=True)


def text_from_difference(value_s: float | None, *, unit: UnitScale | None = None) -> str:
    """Write a duration that something takes more or less, with its sign: ``+1.20 ms``."""
    text = text_from_duration(value_s, unit=unit)
    return f"+{text}" if value_s is not None and value_s > 0 else text


def text_from_count(value: int | None) -> str:
    """Write a count in groups of three digits."""
    return MISSING if value is None else _grouped(value, 0)


def _scaled(bounds: Bounds | None, scale: float) -> Bounds | None:
    return None if bounds is None else Ends(bounds.low / scale, bounds.high / scale)


def _grouped(value: float, places: int) -> str:
    # A thin space would be nicer to read, but tables in plain text then lose their alignment.
    return with_minus(f"{value:,.{places}f}".replace(",", " "))
