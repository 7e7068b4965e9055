"""Findings of many runs, said once for each code.

Knows findings and the names of rules; not what they are found in.
"""

from __future__ import annotations

from collections.abc import Iterable

from trtbench.analysis.findings import RULES, SEVERITIES
from trtbench.domain.result import Finding
from trtbench.report.document import FindingList, FindingOf

TITLES = {rule.code: rule.title for rule in RULES}


def gather(found: Iterable[tuple[str, Finding]]) -> FindingList | None:
    """Put findings of one code together, the gravest first, and list the runs that have it."""
    groups: dict[str, list[tuple[str, Finding]]] = {}
    for name, finding in found:
        groups.setdefault(finding.code, []).append((name, finding))
    if not groups:
        return None
    items = sorted((_entry(members) for members in groups.values()), key=_gravity)
    return FindingList(items=tuple(items))


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
