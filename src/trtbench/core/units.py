"""Converts seconds, bytes and hertz to and from text with units and suitable digits."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from trtbench.core.errors import UsageError, near_miss

if TYPE_CHECKING:
    from trtbench.core.samples import Interval

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
BYTES = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
HERTZ = {"/s": 1.0, "Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9, "/min": 1 / 60}

_QUANTITY = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\d.])\s*(\S*)")


def seconds_from_text(text: str) -> float:
    """Read a duration such as ``500ms``, ``3s`` or ``2min``; a unit is required."""
    return _read(text, SECONDS, example="500ms or 3s", what="duration")


def bytes_from_text(text: str) -> int:
    """Read a size such as ``4GiB`` or ``500MB``; a unit is required."""
    return int(_read(text, BYTES, example="4GiB or 500MB", what="size"))


def hertz_from_text(text: str) -> float:
    """Read a rate such as ``500/s`` or ``1.5kHz``; a unit is required."""
    return _read(text, HERTZ, example="500/s", what="rate")


def fraction_from_text(text: str) -> float:
    """Read ``3%`` as 0.03; 0.5 without a unit is ambiguous (0.5 % or 50 %) and refused."""
    value = _read(text, {"%": 0.01, "": 1.0}, example="3%", what="fraction")
    return value if "%" in text else check_part(value, most=0)


def check_part(value: float, *, most: float = 1) -> float:
    """Return a fraction; a number above ``most`` is ambiguous (3 % or 300 %) and refused."""
    if not 0 <= value <= most:
        one, other = f"{value:g}", f"{100 * value:g}"
        raise UsageError(f"{one} may mean {one} % or {other} %", fix=f"write {one}% or {other}%")
    return value


def _read(text: str, units: Mapping[str, float], *, example: str, what: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a {what}", fix=f"write it like {example}")
    number, unit = match.groups()
    if unit not in units:
        known = [name for name in units if name]
        same = [name for name in known if name.lower() == unit.lower()]
        guess = same[0] if same else near_miss(unit, known)
        raise UsageError(
            f"the {what} {text!r} has " + (f"the unknown unit {unit!r}" if unit else "no unit"),
            facts={"units": " ".join(known)},
            fix=f"{number}{guess}" if guess and unit else f"write it like {example}",
        )
    value = float(number) * units[unit]
    if not math.isfinite(value) or value < 0:
        message = f"{text!r} is not a usable {what}: it must be finite and not negative"
        raise UsageError(message, fix=f"write it like {example}")
    return value


def text_from_seconds(value: float | None, *, digits: int = 4) -> str:
    """Write a duration in a suitable unit: ``532.1 µs``, ``1.204 ms``, ``3 s``."""
    if value is None or math.isnan(value):
        return MISSING
    if abs(value) < RESOLUTION_S:
        return "0 s"
    unit, scale = unit_for_seconds(value)
    return f"{_digits(value / scale, digits)} {unit}"


def text_from_long_time(seconds: float) -> str:
    """Write a waiting time: ``45 s``, ``12 min``, ``1.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def text_from_bytes(value: float | None, *, digits: int = 3) -> str:
    """Write a size in binary units: ``1.5 MiB``."""
    if value is None or not math.isfinite(value):
        return MISSING
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= scale:
            return f"{_digits(value / scale, digits)} {unit}"
    return f"{int(value)} B"


def text_from_rate(value: float | None, *, what: str = "", digits: int = 4) -> str:
    """Write a rate per second: ``1 204 items/s``."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{_digits(value, digits)}{' ' if what else ''}{what}/s"


def text_from_fraction(value: float | None, *, digits: int = 2, signed: bool = False) -> str:
    """Write a fraction as per cent: ``1.7 %``."""
    if value is None or not math.isfinite(value):
        return MISSING
    return with_minus(f"{value * 100:{'+' if signed else ''}.{digits}f} %")


def with_minus(number: str) -> str:
    """Replace a leading hyphen by a minus sign, and leave it out of zero: ``−1e-06``, ``0.00``."""
    if number.startswith("-"):
        return f"−{number[1:]}" if re.search(r"[1-9]", number) else number[1:]
    return number


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Write a count with its noun: ``1 run``, ``1 204 runs``, ``2 summaries``."""
    return f"{count:,} ".replace(",", " ") + (noun if count == 1 else many or f"{noun}s")


def text_from_shape(shape: Sequence[int | str | None]) -> str:
    """Write ``1x3x224x224``; an unknown dimension is ``?``, an empty shape ``scalar``."""
    return "x".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def _digits(value: float, digits: int) -> str:
    size = math.floor(math.log10(abs(value))) if value else digits
    return _grouped(value, max(0, digits - 1 - size))


def instant_from_text(created: str) -> float | None:
    """Read an ISO 8601 time as seconds since 1970; ``None`` if it is not one."""
    try:
        return datetime.datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


UnitScale = tuple[str, float]
UNITS: tuple[UnitScale, ...] = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
UNSURE_DIGITS = 3
MOST_DIGITS = 6  # however narrow an interval is
MOST_PLACES = 5  # of a time in the unit of its column; what is less prints as 0
RESOLUTION_S = 1e-11  # what is less is rounding, not a time
EQUAL_DIGITS = 4  # of an interval without width: the resolution of the clock
MISSING = "–"


def common_unit(values_s: Iterable[float]) -> UnitScale:
    """Choose one unit for several durations: the unit that suits the median."""
    known = sorted(value for value in values_s if math.isfinite(value) and value > 0)
    return unit_for_seconds(known[len(known) // 2] if known else None)


def unit_for_seconds(value: float | None) -> UnitScale:
    """Choose the largest unit in which a duration is at least 1."""
    if value is None or not math.isfinite(value) or abs(value) < RESOLUTION_S:
        return UNITS[1]
    return next((unit for unit in UNITS if abs(value) >= unit[1]), UNITS[-1])


def _decimals(value: float, bounds: Interval | None, *, scale: float = 1.0) -> int:
    """Return how many decimals of a number to show; its bounds are divided by ``scale``.

    The last decimal is the first one that the half width of the interval makes uncertain; a half
    width of 1.0 to 1.5 adds one more. Two significant digits are always shown.
    """
    size = math.floor(math.log10(abs(value))) if value else 0
    half = math.nan if bounds is None else (bounds.high - bounds.low) / 2 / scale
    if not math.isfinite(half):
        return max(0, UNSURE_DIGITS - 1 - size)
    if half <= 0:
        return max(0, EQUAL_DIGITS - 1 - size)
    place = math.floor(math.log10(half))
    wanted = -place + (1 if half / 10**place < 1.5 else 0)
    return max(0, 1 - size, min(wanted, MOST_DIGITS - 1 - size))


def text_from_number(value: float | None, *, bounds: Interval | None = None) -> str:
    """Write a number with the digits its bounds support."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _grouped(value, _decimals(value, bounds))


def text_from_duration(
    value_s: float | None, *, bounds: Interval | None = None, unit: UnitScale | None = None
) -> str:
    """Write a duration with the digits its bounds support: ``1.204 ms``."""
    name, scale = unit or unit_for_seconds(value_s)
    value, least = math.nan if value_s is None else value_s / scale, 10**-MOST_PLACES
    if value_s is None or not math.isfinite(value):
        return MISSING
    if abs(value_s) < RESOLUTION_S or abs(value) < least / 2:
        return f"0 {name}"
    return f"{_grouped(value, min(_decimals(value, bounds, scale=scale), MOST_PLACES))} {name}"


def text_from_share(value: float | None) -> str:
    """Write a part of a whole in per cent: ``12.3 %``."""
    if value is None or not math.isfinite(value):
        return MISSING
    return "< 0.1 %" if 0 < value < 0.0005 else f"{value * 100:.1f} %"


def text_from_change(value: float | None, *, digits: int = 2) -> str:
    """Write a change in per cent with its sign: ``−12.30 %``."""
    return text_from_fraction(value, digits=digits, signed=True)


def text_from_difference(value_s: float | None, *, unit: UnitScale | None = None) -> str:
    """Write the difference of two durations with its sign: ``+1.20 ms``."""
    text = text_from_duration(value_s, unit=unit)
    return f"+{text}" if value_s is not None and value_s > 0 and text[:2] != "0 " else text


def text_from_count(value: int | None) -> str:
    return MISSING if value is None else _grouped(value, 0)


def _grouped(value: float, places: int) -> str:
    if abs(value) >= 1e18 or places > 18:  # no measurement, but a file may state it
        return with_minus(f"{value:.3g}")
    # A thin space would be nicer to read, but tables in plain text then lose their alignment.
    return with_minus(f"{value:,.{places}f}".replace(",", " "))


def shortened(name: str, *, length: int = 44) -> str:
    """Cut out the middle of a long name; both ends of a layer name are informative."""
    name = " ".join(name.split())
    if len(name) <= length:
        return name
    head = (length - 1) * 3 // 5
    return f"{name[:head]}…{name[-(length - 1 - head) :]}"
