"""A section of reports: how wide the middle half of each run's samples is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.core.run import Run
from trtbench.report.document import Section, column, table

ORDER = 45
"""After the sections on latency (30)."""

COLUMNS = (column("run", "Run", 0), column("spread", "Middle half / median", 1, "share"))


def make(runs: Sequence[Run]) -> Section | None:
    """List the spread of every run that has samples; ``None`` leaves the section out."""
    rows = []
    for run in runs:
        times = run.times.durations().get(run.times.headline)
        if times is not None and len(times):
            low, middle, high = np.nanquantile(times, (0.25, 0.5, 0.75))
            spread = float((high - low) / middle)
            rows.append((run.record.spec.model.name, spread))
    if not rows:
        return None
    return Section(id="spread", title="Spread", blocks=(table("spread", rows, COLUMNS),))
