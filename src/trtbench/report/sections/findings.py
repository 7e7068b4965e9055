"""Findings of all runs, grouped by code, most severe first."""

from collections.abc import Iterable, Sequence

from trtbench.analysis.findings import RULES, SEVERITIES
from trtbench.core.run import Finding, Run
from trtbench.report.document import FindingGroup, FindingList, Section
from trtbench.report.run_facts import labelled

TITLES = {rule.code: rule.title for rule in RULES}
MEANINGS = {rule.code: rule.part("Means") for rule in RULES}
DEFAULT_NOTES = {"H30": "random input", "H36": "back-to-back, closed loop"}
"""Notes that apply to every run with default flags; they are shown in one line."""


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))


def group_findings(found: Iterable[tuple[str, Finding]]) -> FindingList | None:
    """Group findings by code, most severe first, each with the runs that have it."""
    groups: dict[str, list[tuple[str, Finding]]] = {}
    for name, finding in found:
        groups.setdefault(finding.code, []).append((name, finding))
    items = []
    for members in groups.values():
        worst = by_severity(each for _, each in members)[0]
        runs = tuple(dict.fromkeys(name for name, _ in members))
        group = FindingGroup(worst, runs)
        if len({each.message for _, each in members}) > 1:
            cases = tuple(dict.fromkeys((name, each.message) for name, each in members))
            group = group.having(title=TITLES.get(worst.code), cases=cases)
        items.append(group)
    items.sort(key=lambda item: (SEVERITIES.index(item.finding.severity), item.finding.code))
    # Several notes on default conditions become one entry.
    notes = [each for each in items if each.finding.severity == "note"]
    default = [each for each in notes if each.finding.code in DEFAULT_NOTES]
    if len(default) > 1:
        codes = [each.finding.code for each in default]
        message = f"default conditions: {', '.join(map(DEFAULT_NOTES.__getitem__, codes))}"
        joint = Finding(code=", ".join(codes), severity="note", message=message)
        runs = tuple(dict.fromkeys(name for each in default for name in each.runs))
        items = [*(each for each in items if each not in default), FindingGroup(joint, runs)]
    return FindingList(tuple(items)) if items else None


def short_title(item: FindingGroup) -> str:
    return item.title or TITLES.get(item.finding.code) or item.finding.message


ORDER = 79  # after the charts of the measurement


def make(runs: Sequence[Run]) -> Section | None:
    """Return the findings of all runs, each once."""
    found = group_findings((label, each) for label, run in labelled(runs) for each in run.findings)
    return Section("findings", "Findings", (found,)) if found else None
