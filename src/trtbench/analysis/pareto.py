"""The choices that nothing beats: at least as good in everything, better in something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Better = Literal["low", "high"]


def pareto_front(
    points: Sequence[Mapping[str, float | None]], *, better: Mapping[str, Better]
) -> list[int]:
    """List the places of the points that no other one beats, in their order.

    A point that lacks one of the quantities is not judged and not on the front.
    """
    known = {
        place: tuple(_cost(point.get(name), way) for name, way in better.items())
        for place, point in enumerate(points)
        if all(point.get(name) is not None for name in better)
    }
    return [
        place
        for place, mine in known.items()
        if not any(_beats(other, mine) for other in known.values())
    ]


def _cost(value: float | None, way: Better) -> float:
    assert value is not None
    return value if way == "low" else -value


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
