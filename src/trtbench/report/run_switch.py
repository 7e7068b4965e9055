"""What a change of shape costs, in words, for a run's screen and for reports."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis.switching import SwitchCost, switches_from_facts
from trtbench.domain.result import Run
from trtbench.units import text_from_seconds


def words_from_switches(run: Run) -> Iterator[tuple[str, str]]:
    """Say for both directions what the first query takes more than one that stays."""
    for each in switches_from_facts(run.record.facts):
        to = "back" if each.to == "back" else f"to {each.to}"
        stay = text_from_seconds(each.stay_s)
        yield "switch", f"{to}: {cost_in_words(each)}; staying {stay}"


def cost_in_words(cost: SwitchCost) -> str:
    """Say what the first query takes more, or that nothing can be told from noise."""
    ends = cost.interval
    if ends is None:
        return f"{text_from_seconds(cost.cost_s)} more, too few changes for an interval"
    low, high = text_from_seconds(ends.low), text_from_seconds(ends.high)
    told = f"{text_from_seconds(cost.cost_s)} more" if cost.is_seen else "no cost seen"
    return f"{told} ({low} to {high})"
