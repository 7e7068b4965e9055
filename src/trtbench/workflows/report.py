"""One document from any number of runs, in any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from trtbench.domain.result import Comparison, FailedRun, Run
from trtbench.errors import UsageError, write_error
from trtbench.report.compose import document_from_runs, write_document
from trtbench.store.directory import read_run, run_directories
from trtbench.store.store import Store
from trtbench.workflows.compare import comparison_from_runs
from trtbench.workflows.duet import paired

FORMATS = ("md", "json", "csv", "png")


def load_runs(names: Sequence[str], *, store: Store) -> tuple[list[Run], list[FailedRun]]:
    """Read runs by id, tag or folder; a folder of runs gives all of them."""
    found: list[Run | FailedRun] = []
    for name in names:
        folder = Path(name)
        inside = list(run_directories(folder)) if folder.is_dir() else []
        found += [read_run(each) for each in inside] or [store.load(name)]
    runs = {run.id: run for run in found if isinstance(run, Run)}
    failed = {run.id: run for run in found if isinstance(run, FailedRun)}
    return list(runs.values()), list(failed.values())


def write_report(
    runs: Sequence[Run],
    folder: Path,
    *,
    failed: Sequence[FailedRun] = (),
    title: str | None = None,
    formats: Sequence[str] = FORMATS,
    comparisons: Sequence[Comparison] = (),
) -> list[Path]:
    """Write a report; runs that were measured in turn are compared in it."""
    if not formats:
        raise UsageError("a report needs a format", fix=f"--format {','.join(FORMATS)}")
    given = [*comparisons, *_duets(runs)]
    carriers = [
        replace(
            run, extra={**run.extra, "comparisons": [c for c in given if c.candidate == run.id]}
        )
        for run in runs
    ]
    document = document_from_runs(carriers, failed=failed, title=title)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return write_document(document, folder, formats=formats)
    except OSError as problem:
        raise write_error(folder, problem) from None


def _duets(runs: Sequence[Run]) -> list[Comparison]:
    """Compare the runs among these that were measured in turn with each other."""
    sided = [run for run in runs if run.record.duet is not None]
    return [
        comparison_from_runs(first, second)
        for first, second in permutations(sided, 2)
        if first.record.duet and first.record.duet.side == 0 and paired(first, second) is not None
    ]
