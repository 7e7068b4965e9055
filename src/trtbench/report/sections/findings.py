"""What the tool itself thinks of the runs, the most severe first."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trtbench.domain.result import Finding, Run
from trtbench.report.document import FindingList, FindingOf, Section
from trtbench.report.labels import labels_from_runs

ORDER = 20

SEVERITIES = ("error", "warning", "note")


def make(runs: Sequence[Run]) -> Section | None:
    """Gather the findings of all runs; one that several runs share is said once."""
    groups: dict[bytes, tuple[Finding, list[str]]] = {}
    for label, run in zip(labels_from_runs(runs), runs, strict=True):
        for finding in run.findings:
            names = groups.setdefault(msgspec.json.encode(finding), (finding, []))[1]
            names.append(label)
    if not groups:
        return None
    items = sorted(groups.values(), key=lambda each: SEVERITIES.index(each[0].severity))
    found = tuple(FindingOf(finding=finding, runs=tuple(names)) for finding, names in items)
    return Section(id="findings", title="Findings", blocks=(FindingList(items=found),))
