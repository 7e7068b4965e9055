"""Batch and streams together: what to use for throughput, and what more of either still brings."""

from __future__ import annotations

from collections.abc import Mapping

from trtbench.domain.spec import Value

Place = tuple[int, int]
"""Batch and streams."""

ENOUGH = 0.95
"""Of the best throughput: beyond it more in flight brings waiting, not work."""


class Choice(Value, frozen=True, kw_only=True):
    """The place to use, and the best one."""

    batch: int
    streams: int
    items_per_s: float
    best_batch: int
    best_streams: int
    best_items_per_s: float


def choice_from_surface(rates: Mapping[Place, float]) -> Choice | None:
    """Take the knee: the fewest items in flight that reach almost the best throughput."""
    if not rates:
        return None
    best = max(rates, key=lambda place: rates[place])
    enough = [place for place, rate in rates.items() if rate >= ENOUGH * rates[best]]
    knee = min(enough, key=lambda place: (place[0] * place[1], place[1]))
    return Choice(
        batch=knee[0],
        streams=knee[1],
        items_per_s=rates[knee],
        best_batch=best[0],
        best_streams=best[1],
        best_items_per_s=rates[best],
    )
