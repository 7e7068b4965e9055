"""What every section needs to know about a run, computed once for each run.

Knows runs and their summaries; no blocks and no formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import numpy as np

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.summary import Summary, summary_from_run
from trtbench.domain.ran import protocol_of, streams_of
from trtbench.domain.result import Run
from trtbench.domain.samples import Column

PHASES = {
    "host": "Host",
    "latency": "Latency",
    "enqueue": "Enqueue",
    "h2d": "H2D",
    "gpu": "GPU",
    "d2h": "D2H",
    "end_to_end": "End to end",
}
"""Columns as people call them."""

REPORTED = "Reported: as another tool printed it; there are no samples to judge it by."

THREADS = 4

_SUMMARIES: WeakKeyDictionary[Run, Summary] = WeakKeyDictionary()


def joules_per_item(run: Run) -> float | None:
    """Divide the energy of the pass that looked by its items; ``None`` if nobody looked."""
    record = run.record
    in_query = record.known_items
    if not in_query:
        return None
    per_query = record.facts.get("energy_per_query_j")
    if isinstance(per_query, (int, float)):
        return per_query / in_query
    spent = [each.energy_j for each in record.launches if each.energy_j is not None]
    items = len(run.times) * in_query
    return sum(spent) / items if items and len(spent) == len(record.launches) > 0 else None


def summary_of(run: Run) -> Summary:
    """Find a run's summary; ten sections ask for it and it is computed once."""
    if run not in _SUMMARIES:
        _SUMMARIES[run] = summary_from_run(run)
    return _SUMMARIES[run]


def remember_summary(run: Run, summary: Summary) -> None:
    """Take a summary that was computed already, of this run or of its like with other findings."""
    _SUMMARIES[run] = summary


def summarize_all(runs: Sequence[Run]) -> None:
    """Compute the summaries of many runs side by side; numpy leaves the interpreter meanwhile."""
    waiting = [run for run in runs if run not in _SUMMARIES]
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        _SUMMARIES.update(zip(waiting, pool.map(summary_from_run, waiting), strict=True))


def headline_summary(run: Run) -> ColumnSummary | None:
    """Compute the statistics of the column that stands for the run, of samples or as printed."""
    return summary_of(run).head


def column_title(column: ColumnSummary) -> str:
    """Name a column, with the mark of numbers that another tool printed."""
    name = PHASES.get(column.column, column.column)
    if not column.reported:
        return name
    return f"{name} (reported)" if column.typical_of == "median" else f"{name} mean (reported)"


def headline_column(run: Run) -> Column:
    """Compute the finite samples of the column that stands for the run, in order of time."""
    column = run.times.durations().get(run.times.headline)
    if column is None:
        return np.empty(0)
    return np.asarray(column[np.isfinite(column)])


def measured(runs: Sequence[Run]) -> list[tuple[int, Run]]:
    """List the runs that have samples to draw, with their place among all runs."""
    return [(index, run) for index, run in enumerate(runs) if len(headline_column(run))]


def headline_title(runs: Sequence[Run]) -> str:
    """Name what the headline columns measure: host time, latency on the device, or both."""
    kinds = {summary_of(run).headline for run in runs}
    if kinds == {"host"}:
        return "Latency, host"
    if kinds == {"latency"}:
        return "Latency, H2D + GPU + D2H"
    if len(kinds) == 1:
        return f"{PHASES[kinds.pop()]} time"
    return "Latency, host or device"


def words_on_protocols(runs: Sequence[Run]) -> str | None:
    """Warn where times of different protocols stand side by side: they mean different things."""
    names = list(dict.fromkeys(protocol_of(run.record) for run in runs))
    if len(names) < 2:
        return None
    return (
        f"Measured by different protocols ({', '.join(names)}): "
        "times of one protocol do not compare with those of another."
    )


def overlapping(run: Run) -> bool:
    """Tell whether several queries were in flight at once, so that one over latency is no rate."""
    return streams_of(run.record) > 1 or protocol_of(run.record) == "pipeline"
