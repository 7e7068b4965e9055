"""Readings of a device's counters, whoever took them."""

from __future__ import annotations

from trtbench.domain.spec import Value

COLDEST_C = -40.0
"""Boards work from here on; a sensor of a Jetson that is switched off tells -256."""


def known_temperature(celsius: float | None) -> float | None:
    """Take a temperature unless its sensor is off."""
    return None if celsius is None or celsius < COLDEST_C else celsius


class Counters(Value, frozen=True, kw_only=True):
    """Counters of a device at one moment; those it does not have are absent."""

    at_s: float
    limits_s: dict[str, float] = {}
    energy_j: float | None = None
    sm_clock_hz: float | None = None
    event_reasons: int | None = None
