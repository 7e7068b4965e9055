"""What a change of shape or profile costs: the first query after it against those that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trtbench.analysis.column_summary import LEVEL, order_interval
from trtbench.domain.result import Interval, Scalar
from trtbench.domain.spec import Value

NAMES = {
    "there": (
        "switch_stay_s", "switch_cost_s", "switch_cost_low_s", "switch_cost_high_s",
    ),
    "back": (
        "switch_back_stay_s", "switch_back_cost_s", "switch_back_cost_low_s",
        "switch_back_cost_high_s",
    ),
}  # fmt: skip
"""Facts of both directions: to what was asked for, and back to what the run measured."""
TARGET = "switch_to"


class SwitchCost(Value, frozen=True, kw_only=True):
    """One direction of a change; times of whole queries as the host sees them."""

    to: str
    stay_s: float
    """Median of queries that follow one of the same shape."""
    cost_s: float
    """Median of what the first query after a change took beyond those that followed it."""
    interval: Interval | None = None

    @property
    def is_seen(self) -> bool:
        """Whether it costs anything that can be told from noise."""
        return self.interval is not None and self.interval.low > 0


def facts_from_blocks(
    target: str, blocks: Mapping[str, Sequence[Sequence[float]]]
) -> dict[str, Scalar]:
    """Compare the first query of each block with the others of that block, so that drift cancels.

    ``blocks`` are seconds of queries of one shape in a row, by direction (``there``, ``back``).
    """
    facts: dict[str, Scalar] = {TARGET: target}
    for direction, names in NAMES.items():
        times = np.asarray(blocks[direction], np.float64)
        stay = np.median(times[:, 1:], axis=1)
        costs = np.sort(times[:, 0] - stay)
        interval = order_interval(costs, 0.5, effective=len(costs))
        values = (np.median(stay), np.median(costs), *_ends(interval))
        facts |= {
            name: None if value is None else float(value)
            for name, value in zip(names, values, strict=True)
        }
    return facts


def switches_from_facts(facts: Mapping[str, Scalar]) -> tuple[SwitchCost, ...]:
    """Read both directions back from a run; empty where nothing was changed."""
    target, found = facts.get(TARGET), []
    for direction, names in NAMES.items():
        stay, cost, low, high = (
            float(value) if isinstance(value := facts.get(name), (int, float)) else None
            for name in names
        )
        if target is None or stay is None or cost is None:
            continue
        interval = None
        if low is not None and high is not None:
            interval = Interval(low=low, high=high, level=LEVEL, meaning="over changes")
        to = str(target) if direction == "there" else "back"
        found.append(SwitchCost(to=to, stay_s=stay, cost_s=cost, interval=interval))
    return tuple(found)


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)
