"""What devices cost, as whoever pays for them says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from trtbench.domain.result import Run
from trtbench.domain.spec import Value

PRICES, UNDER = "prices", "latency_under_s"
"""What a report is told beside its runs, among their further facts."""


class Price(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device costs."""

    per_hour: float
    currency: str

    def __post_init__(self) -> None:
        if not 0 <= self.per_hour < math.inf:
            raise ValueError(f"a price of {self.per_hour:g} an hour has no meaning")
        if not self.currency.strip():
            raise ValueError("a price without a currency has no meaning")


def price_of(run: Run, device: str) -> Price | None:
    """Find the price of a run's device: of its very name, or of the longest that is part of it."""
    prices = run.extra.get(PRICES)
    if not isinstance(prices, Mapping):
        return None
    known = [name for name in prices if name.lower() in device.lower()]
    found = prices[max(known, key=len)] if known else None
    return found if isinstance(found, Price) else None


def under_of(runs: Sequence[Run]) -> float | None:
    """Find the bound of latency that a report was asked for."""
    bounds = [bound for run in runs if isinstance(bound := run.extra.get(UNDER), float)]
    return bounds[0] if bounds else None
