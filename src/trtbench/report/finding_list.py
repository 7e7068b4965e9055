"""Findings of many runs, said once for each code.

Knows findings and the names of rules; not what they are found in.
"""

from __future__ import annotations

from collections.abc import Iterable

from trtbench.analysis.findings import RULES, SEVERITIES
from trtbench.domain.result import Finding
from trtbench.report.document import FindingList, FindingOf

TITLES = {rule.code: rule.title for rule in RULES}
USUAL = {"H30": "random input", "H40": "back to back", "H36": "closed loop"}
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
    if not groups:
        return None
    items = sorted((_entry(members) for members in groups.values()), key=_gravity)
    return FindingList(items=tuple(_usual_together(items)))


def short_title(item: FindingOf) -> str:
    """Name a finding in a few words, for a line that names several."""
    return item.title or TITLES.get(item.finding.code) or item.finding.message


def _usual_together(items: list[FindingOf]) -> list[FindingOf]:
    """Say what holds for every default run in one entry, where several of it hold."""
    usual = [each for each in items if is_usual(each.finding)]
    if len(usual) < 2:
        return items
    runs = tuple(dict.fromkeys(name for each in usual for name in each.runs))
    codes = [each.finding.code for each in usual]
    finding = Finding(
        code=", ".join(codes), severity="note", message=f"as by default: {usual_words(codes)}"
    )
    rest = [each for each in items if not is_usual(each.finding)]
    return [*rest, FindingOf(finding=finding, runs=runs)]


def _entry(members: list[tuple[str, Finding]]) -> FindingOf:
    worst = min((finding for _, finding in members), key=lambda each: _rank(each))
    runs = tuple(dict.fromkeys(name for name, _ in members))
    if len({finding.message for _, finding in members}) == 1:
        return FindingOf(finding=worst, runs=runs)
    cases = tuple(dict.fromkeys((name, finding.message) for name, finding in members))
    return FindingOf(finding=worst, runs=runs, title=TITLES.get(worst.code), cases=cases)


def _gravity(item: FindingOf) -> tuple[int, str]:
    return _rank(item.finding), item.finding.code


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
