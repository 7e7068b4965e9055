"""Readings of a device's counters, whoever took them."""

from __future__ import annotations

from trtbench.domain.spec import Value


class Counters(Value, frozen=True, kw_only=True):
    """Counters of a device at one moment; those it does not have are absent."""

    at_s: float
    limits_s: dict[str, float] = {}
    energy_j: float | None = None
    sm_clock_hz: float | None = None
    event_reasons: int | None = None
