"""A section of reports: how wide the middle half of each run's samples is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.core.run import Run
from trtbench.report.document import Cell, Heading, Section, table_from_rows

ORDER = 45
"""After the sections on latency (30)."""

HEADINGS = (
    Heading(key="run", title="Run"),
    Heading(key="spread", title="Middle half / median", align="right"),
)


def make(runs: Sequence[Run]) -> Section | None:
    """List the spread of every run that has samples; ``None`` leaves the section out."""
    rows = []
    for run in runs:
        times = run.times.durations().get(run.times.headline)
        if times is not None and len(times):
            low, middle, high = np.nanquantile(times, (0.25, 0.5, 0.75))
            spread = float((high - low) / middle)
            rows.append((run.record.spec.model.name, Cell(value=spread, text=f"{spread:.1%}")))
    if not rows:
        return None
    table = table_from_rows("spread", headings=HEADINGS, rows=rows)
    return Section(id="spread", title="Spread", blocks=(table,))
