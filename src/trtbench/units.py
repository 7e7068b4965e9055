"""Seconds, bytes and hertz inside; people's units at the edge.

Knows only text and numbers.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence

from trtbench.errors import UsageError, near_miss

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
HERTZ = {"/s": 1.0, "Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9, "/min": 1 / 60}

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*$")


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
    """Read ``3%`` as the fraction 0.03; a bare 0.5 is refused, 0.5 % and 50 % may be meant."""
    value = _read(text, {"%": 0.01, "": 1.0}, example="3%", what="fraction")
    if value and "%" not in text:
        raise _unclear_part(value)
    return value


def demand_part(value: float) -> float:
    """Refuse a number that is no part of one: 3 % may be meant, and 300 %."""
    if not 0 <= value <= 1:
        raise _unclear_part(value)
    return value


def _unclear_part(value: float) -> UsageError:
    number = f"{value:g}"
    return UsageError(
        f"{number} may mean {number} % or {100 * value:g} %",
        fix=f"write {number}% or {100 * value:g}%",
    )


def _read(text: str, units: dict[str, float] | dict[str, int], *, example: str, what: str) -> float:
    match = _QUANTITY.match(text)
    if not match:
        raise UsageError(f"{text!r} is not a {what}", fix=f"write it like {example}")
    number, unit = match.groups()
    if unit not in units:
        raise _unknown_unit(text, number, unit, units, example=example, what=what)
    value = float(number) * units[unit]
    if not math.isfinite(value) or value < 0:
        raise UsageError(
            f"{text!r} is not a usable {what}: it must be finite and not negative",
            fix=f"write it like {example}",
        )
    return value


def _unknown_unit(
    text: str,
    number: str,
    unit: str,
    units: dict[str, float] | dict[str, int],
    *,
    example: str,
    what: str,
) -> UsageError:
    known = [name for name in units if name]
    guess = next((name for name in known if name.lower() == unit.lower()), None)
    guess = guess or near_miss(unit, known)
    fix = f"{number}{guess}" if guess and unit else f"write it like {example}"
    problem = f"has the unknown unit {unit!r}" if unit else "has no unit"
    return UsageError(f"the {what} {text!r} {problem}", facts={"units": " ".join(known)}, fix=fix)


def text_from_seconds(value: float | None, *, digits: int = 4) -> str:
    """Write a duration in the unit that suits it: ``532.1 µs``, ``1.204 ms``, ``3 s``."""
    if value is None or math.isnan(value):
        return "–"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= scale:
            return f"{_digits(value / scale, digits)} {unit}"
    # Below a picosecond nothing was measured: it is what rounding leaves of zero.
    return f"{_digits(value / 1e-9, digits)} ns" if abs(value) >= 1e-12 else "0 s"


def text_from_long_time(seconds: float) -> str:
    """Write a time to wait, in the unit people plan with: ``45 s``, ``12 min``, ``1.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def text_from_bytes(value: float | None, *, digits: int = 3) -> str:
    """Write a size in binary units: ``1.5 MiB``."""
    if value is None:
        return "–"
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= scale:
            return f"{_digits(value / scale, digits)} {unit}"
    return f"{int(value)} B"


def text_from_rate(value: float | None, *, what: str = "", digits: int = 4) -> str:
    """Write a rate per second: ``1 204 items/s``."""
    if value is None or math.isnan(value):
        return "–"
    name = f" {what}" if what else ""
    return f"{_digits(value, digits)}{name}/s"


def text_from_fraction(value: float | None, *, digits: int = 2, signed: bool = False) -> str:
    """Write a fraction as per cent: ``1.7 %``."""
    if value is None or math.isnan(value):
        return "–"
    sign = "+" if signed else ""
    return with_minus(f"{value * 100:{sign}.{digits}f} %")


def with_minus(number: str) -> str:
    """Write the sign of a number as print has it: a minus, as long as a plus, not a hyphen."""
    return number.replace("-", "−")


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Write how many there are of something: ``1 run``, ``1 204 runs``, ``2 summaries``."""
    return f"{count:,} ".replace(",", " ") + (noun if count == 1 else many or f"{noun}s")


def text_from_shape(shape: Sequence[int | str | None]) -> str:
    """Write ``1x3x224x224``; a dimension nobody knows is ``?``, a shape without any a scalar."""
    return "x".join("?" if dim is None else str(dim) for dim in shape) or "scalar"


def _digits(value: float, digits: int) -> str:
    """Write with so many significant digits, never in exponent form."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return with_minus(f"{value:,.{decimals}f}".replace(",", " "))


def instant_from_text(created: str) -> float | None:
    """Read a time as records carry it, in seconds since 1970; ``None`` when it is none."""
    try:
        return datetime.datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None
