"""What the tool itself thinks of the runs, the most severe first."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.domain.result import Run
from trtbench.report.document import Section
from trtbench.report.finding_list import gather
from trtbench.report.labels import labels_from_runs

ORDER = 79
"""After the charts of the measurement: the summary names the gravest, with a link."""


def make(runs: Sequence[Run]) -> Section | None:
    """Gather the findings of all runs; what several runs share is said once."""
    labels = labels_from_runs(runs)
    found = gather(
        (label, finding)
        for label, run in zip(labels, runs, strict=True)
        for finding in run.findings
    )
    return Section(id="findings", title="Findings", blocks=(found,)) if found else None
