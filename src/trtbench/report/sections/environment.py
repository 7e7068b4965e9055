"""Where the runs took place, what differed between them, and the commands that made them."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Run, Scalar
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Details,
    Heading,
    KeyValues,
    Section,
    table_from_rows,
)
from trtbench.report.labels import labels_from_runs
from trtbench.report.machine import facts_from_environment

ORDER = 90

OPEN_COMMANDS = 4
"""More commands than this are folded away."""


def make(runs: Sequence[Run]) -> Section:
    """State what all runs share once, and what differs in a table with a row per run."""
    facts = [facts_from_environment(run.record.environment) for run in runs]
    names = list(dict.fromkeys(name for each in facts for name in each))
    shared = [name for name in names if len({each.get(name) for each in facts}) == 1]
    blocks: list[Block] = []
    if shared:
        pairs = tuple((name, Cell(value=facts[0][name])) for name in shared)
        blocks.append(KeyValues(id="environment", pairs=pairs))
    if differing := [name for name in names if name not in shared]:
        rows: list[tuple[Cell | Scalar, ...]] = [
            (label, *(each.get(name) for name in differing))
            for label, each in zip(labels_from_runs(runs), facts, strict=True)
        ]
        headings = tuple(Heading(key=name, title=name) for name in ("Run", *differing))
        caption = "What differed between the runs."
        table = table_from_rows(
            "environment_differences", headings=headings, rows=rows, caption=caption
        )
        blocks.append(table)
    blocks += _commands(runs)
    return Section(id="environment", title="Environment", blocks=tuple(blocks))


def _commands(runs: Sequence[Run]) -> list[Block]:
    commands = [run.record.environment.command for run in runs]
    codes = tuple(Code(text=text) for text in dict.fromkeys(commands) if text)
    if len(codes) <= OPEN_COMMANDS:
        return list(codes)
    return [Details(summary=f"The {len(codes)} commands", blocks=codes)]
