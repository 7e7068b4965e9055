"""What the tool itself thinks of the runs, the most severe first.

Findings of many runs, said once for each code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtbench.analysis.findings import RULES, SEVERITIES
from trtbench.core.run import Finding, Run
from trtbench.report.document import FindingList, FindingOf, Section
from trtbench.report.run_facts import labels_from_runs

TITLES = {rule.code: rule.title for rule in RULES}
USUAL = {"H30": "random input", "H36": "back-to-back, closed loop"}
"""Notes that hold for every run on default flags, in a word each: they are said together."""


def is_usual(finding: Finding) -> bool:
    """Say whether a finding only says that a run is as runs are by default."""
    return finding.code in USUAL and finding.severity == "note"


def usual_words(codes: Iterable[str]) -> str:
    """Say in one line what a run has in common with every default run."""
    known = set(codes)
    return ", ".join(said for code, said in USUAL.items() if code in known)


def gather(found: Iterable[tuple[str, Finding]]) -> FindingList | None:
    """Put findings of one code together, the gravest first, and list the runs that have it."""
    groups: dict[str, list[tuple[str, Finding]]] = {}
    for name, finding in found:
        groups.setdefault(finding.code, []).append((name, finding))
    items = []
    for members in groups.values():
        worst = min((each for _, each in members), key=lambda e: SEVERITIES.index(e.severity))
        runs = tuple(dict.fromkeys(name for name, _ in members))
        cases = tuple(dict.fromkeys((name, each.message) for name, each in members))
        if len({each.message for _, each in members}) == 1:
            items.append(FindingOf(worst, runs))
        else:
            items.append(FindingOf(worst, runs, TITLES.get(worst.code), cases))
    items.sort(key=lambda item: (SEVERITIES.index(item.finding.severity), item.finding.code))
    # What holds for every default run is said in one entry, where several of it hold.
    usual = [each for each in items if is_usual(each.finding)]
    if len(usual) > 1:
        codes = [each.finding.code for each in usual]
        message = f"default conditions: {usual_words(codes)}"
        joint = Finding(code=", ".join(codes), severity="note", message=message)
        runs = tuple(dict.fromkeys(name for each in usual for name in each.runs))
        items = [each for each in items if not is_usual(each.finding)]
        items.append(FindingOf(joint, runs))
    return FindingList(tuple(items)) if items else None


def short_title(item: FindingOf) -> str:
    """Name a finding in a few words, for a line that names several."""
    return item.title or TITLES.get(item.finding.code) or item.finding.message


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
    return Section("findings", "Findings", (found,)) if found else None
