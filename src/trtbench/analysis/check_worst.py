"""The inputs for which a candidate is farthest off, found while batches go by."""

from __future__ import annotations

import heapq
import math

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray, Floats
from trtbench.domain.spec import Value

KEPT_WORST = 5


class WorstItem(Value, frozen=True, kw_only=True):
    """One of the inputs for which a candidate is farthest off."""

    item: int
    name: str
    rel_l2: float | None
    """``None`` where nothing can be told: no element is finite on both sides, or shapes differ."""
    max_abs: float | None
    nonfinite: int
    shapes: str | None = None
    """``12x4 against 13x4``, where the sides gave outputs of different shapes."""


class Worst:
    """Keeps the few items that are farthest off; what is broken comes first."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, int, WorstItem]] = []

    def add(self, r: Floats, t: Floats, usable: NDArray[np.bool_], broken: AnyArray, *,
            start: int) -> None:  # fmt: skip
        """Take rows, zero where they are not usable; broken counts what is lost in each."""
        error = t - r
        noise, signal = np.linalg.norm(error, axis=1), np.linalg.norm(r, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            drift = np.where(noise == 0.0, 0.0, noise / signal)
        badness = np.where(broken > 0, np.inf, np.nan_to_num(drift, nan=0.0, posinf=1e300))
        for row in np.argsort(-badness, kind="stable")[:KEPT_WORST]:
            told = bool(usable[row].any())
            item = WorstItem(
                item=start + int(row),
                name="",
                rel_l2=float(drift[row]) if told and math.isfinite(drift[row]) else None,
                max_abs=float(np.abs(error[row]).max(initial=0.0)) if told else None,
                nonfinite=int(broken[row]),
            )
            self._push(float(badness[row]), item)

    def add_misshapen(self, item: int, shapes: str) -> None:
        """Take an item whose outputs have different shapes on the two sides."""
        told = WorstItem(item=item, name="", rel_l2=None, max_abs=None, nonfinite=0, shapes=shapes)
        self._push(math.inf, told)

    def named(self, names: tuple[str, ...]) -> tuple[WorstItem, ...]:
        """Find the items, the worst first, with their names."""
        ordered = sorted(self._kept, key=lambda entry: entry[:2], reverse=True)
        return tuple(
            WorstItem(
                item=each.item,
                name=names[each.item] if each.item < len(names) else f"item {each.item}",
                rel_l2=each.rel_l2,
                max_abs=each.max_abs,
                nonfinite=each.nonfinite,
                shapes=each.shapes,
            )
            for badness, _, each in ordered
            if badness > 0
        )

    def _push(self, badness: float, item: WorstItem) -> None:
        push = heapq.heappush if len(self._kept) < KEPT_WORST else heapq.heappushpop
        push(self._kept, (badness, -item.item, item))
