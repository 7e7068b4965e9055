"""Raw samples packed to travel inside a page, as far as a page can carry them.

Knows columns and bytes; not the page.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence

import numpy as np

from trtbench.domain.result import Run
from trtbench.report.document import Attachment
from trtbench.report.labels import labels_from_runs

BUDGET_BYTES = 2_300_000
"""For the samples of all runs, packed; a page of six megabytes holds them and all else."""
BYTES_PER_VALUE = 3.6
"""What a value takes once it is written with ten decimals and packed, by experience."""
LEVEL = 6


def samples_from_runs(runs: Sequence[Run]) -> tuple[Attachment, ...]:
    """Pack the columns of every run as CSV; a long run keeps its headline, a longer one nothing."""
    share = BUDGET_BYTES / max(1, len(runs))
    found = []
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        names = _fitting(run, share)
        if names:
            text = csv_from_columns(run, names)
            packed = gzip.compress(text.encode(), LEVEL, mtime=0)
            what = "all columns" if len(names) > 1 or len(run.times.durations()) == 1 else names[0]
            title = f"{label}: {len(run.times)} samples, {what}"
            found.append(Attachment(name=f"{run.id}.samples.csv", title=title, content=packed))
    return tuple(found)


def csv_from_columns(run: Run, names: Iterable[str]) -> str:
    """Write columns in seconds; a tenth of a nanosecond is finer than any clock."""
    columns = dict(run.times.columns())
    table = [columns[name] for name in names]
    launch = columns.get("launch")
    head = [f"{name}_s" for name in names]
    pattern = ",".join(["%.10f"] * len(table))
    if launch is not None:
        head, pattern, table = ["launch", *head], f"%d,{pattern}", [launch, *table]
    rows = zip(*(np.asarray(column).tolist() for column in table), strict=True)
    return "\n".join([",".join(head), *(pattern % row for row in rows)]) + "\n"


def _fitting(run: Run, share: float) -> list[str]:
    every = [name for name, _ in run.times.columns() if name != "launch"]
    headline = [run.times.headline] if run.times.headline in every else []
    for names in (every, headline):
        if names and len(run.times) * len(names) * BYTES_PER_VALUE <= share:
            return names
    return []
