"""What the index keeps of a run, so that lists need not open its directory."""

from __future__ import annotations

from trtbench.analysis.summary import headline_from_run
from trtbench.domain.result import Run
from trtbench.report.run_facts import summary_of
from trtbench.store.entries import Cached


def cached_from_run(run: Run) -> Cached | None:
    """Describe a run by its samples; without any, by what another tool printed."""
    if not len(run.times) or not run.times.durations():
        return _reported(run)
    count, median_s, items_per_s = headline_from_run(run)
    return Cached(samples=count, median_s=median_s, items_per_s=items_per_s)


def _reported(run: Run) -> Cached | None:
    summary = summary_of(run)
    if summary.head is None:
        return None
    return Cached(samples=0, median_s=summary.head.typical, items_per_s=summary.items_per_s)
