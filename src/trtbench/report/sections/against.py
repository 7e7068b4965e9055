"""One side against the other, statistic by statistic: PyTorch and an engine, or what was compared.

The columns are those of the evaluation toolkit: ``engine_minus_pt`` and ``engine_over_pt_ratio``.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.deltas import CompareRow, comparison_rows
from trtbench.domain.comparison import Comparison
from trtbench.domain.ran import protocol_of
from trtbench.domain.result import Run
from trtbench.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Section,
    Table,
    Text,
    table_from_rows,
)
from trtbench.report.headings import METRIC_HEADING
from trtbench.report.labels import labels_from_runs, network_name, shortened_apart
from trtbench.report.numbers import MISSING, text_from_number

ORDER = 45

MOST_PAIRS = 8
MARK = "*"
"""Beside a ratio of what was not measured alike, or not often enough."""
OPEN_PAIRS = 2

ToolkitPair = tuple[str, Run, str, Run]
"""Name and run of the baseline, and of the candidate."""


def make(runs: Sequence[Run]) -> Section | None:
    """Put differences and ratios of every statistic into one table per pair."""
    pairs = pairs_from_runs(runs)[:MOST_PAIRS]
    if not pairs:
        return None
    note = (
        "Times in milliseconds; percentiles are interpolated as in the file of the same columns. "
        "Whether a difference is real is for the verdicts to say, not for this table."
    )
    blocks: list[Block] = [Text(text=note)]
    for number, pair in enumerate(pairs, start=1):
        table = _table(pair, id="against" if len(pairs) == 1 else f"against_{number}")
        folded = Details(summary=f"{pair[2]} against {pair[0]}", blocks=(table,))
        blocks.append(table if number <= OPEN_PAIRS else folded)
    title = "PyTorch against engine" if _torch(pairs[0][1]) else "Side by side"
    return Section(id="against", title=title, blocks=tuple(blocks))


def pairs_from_runs(runs: Sequence[Run]) -> list[ToolkitPair]:
    """Pair PyTorch with the engines of the same network and batch, and sides of comparisons.

    Of the engines, those measured by the same protocol are taken where there are any.
    """
    named = list(zip(labels_from_runs(runs), runs, strict=True))
    found: dict[tuple[str, str], ToolkitPair] = {}
    for name, run in named:
        engines = _engines_of(run, runs) if _torch(run) else ()
        for other_name, other in named:
            if other.id in engines or _compared(run, other):
                found.setdefault((run.id, other.id), (name, run, other_name, other))
    return list(found.values())


def _engines_of(run: Run, runs: Sequence[Run]) -> set[str]:
    """Find the engines a PyTorch model may be held against, by id."""
    torch = {network_name(each.record) for each in runs if _torch(each)}
    built = {network_name(each.record) for each in runs if _engine(each)}
    only = len(torch) == len(built) == 1  # then they belong together, whatever files are called
    alike = [
        each
        for each in runs
        if _engine(each)
        and each.record.batch == run.record.batch
        and (only or network_name(each.record) == network_name(run.record))
    ]
    same = [each for each in alike if protocol_of(each.record) == protocol_of(run.record)]
    return {each.id for each in same or alike}


def _torch(run: Run) -> bool:
    return run.record.spec.model.format == "torch"


def _engine(run: Run) -> bool:
    executed = run.record.facts.get("executes_engine")
    return executed is True or run.record.spec.model.format == "engine"


def _compared(baseline: Run, candidate: Run) -> bool:
    carried = candidate.extra.get("comparisons", ())
    return any(
        isinstance(each, Comparison) and each.baseline == baseline.id
        for each in (carried if isinstance(carried, (list, tuple)) else ())
    )


def _table(pair: ToolkitPair, *, id: str) -> Table:
    before, baseline, after, candidate = pair
    titles = shortened_apart((before, after), length=48)
    headings = (
        METRIC_HEADING,
        Heading(key="pt", title=titles[0], align="right"),
        Heading(key="engine", title=titles[1], align="right"),
        Heading(key="engine_minus_pt", title="Difference", align="right"),
        Heading(key="engine_over_pt_ratio", title="Ratio", align="right"),
    )
    known = [each for each in comparison_rows(baseline, candidate) if _known(each)]
    reasons = "; ".join(dict.fromkeys(each.note for each in known if each.note))
    caption = f"{MARK} no evidence of a difference: {reasons}" if reasons else None
    return table_from_rows(id, headings=headings, rows=[_row(r) for r in known], caption=caption)


def _known(row: CompareRow) -> bool:
    return any(value not in (None, "Unknown") for value in (row.pt, row.engine))


def _row(row: CompareRow) -> tuple[Cell, ...]:
    values = (row.pt, row.engine, row.engine_minus_pt)
    ratio = _text(row.engine_over_pt_ratio) + (MARK if row.note else "")
    return (
        Cell(value=row.metric),
        *(Cell(value=value, text=_text(value)) for value in values),
        Cell(value=row.engine_over_pt_ratio, text=ratio),
    )


def _text(value: float | str | None) -> str:
    if value is None:
        return MISSING
    return value if isinstance(value, str) else text_from_number(value)
