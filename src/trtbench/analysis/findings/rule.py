"""A rule: one row of the honesty checklist and the function that decides it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trtbench.analysis.findings.evidence import Evidence
from trtbench.domain.result import Finding, Scalar, Severity


@dataclass(frozen=True, kw_only=True)
class Hit:
    """What a rule saw; the rule adds its id and, where none is given, its severity."""

    message: str
    evidence: dict[str, Scalar]
    remedy: str
    concerns: str | None = None
    severity: Severity | None = None


Limits = Mapping[str, float]
RuleCheck = Callable[[Evidence, Limits], Iterable[Hit]]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row of the table."""

    code: str
    title: str
    severity: Severity
    """The usual one; a rule may say another where the table says so."""
    when: str
    """When it fires; names in braces are the limits."""
    limits: dict[str, float]
    source: str
    check: RuleCheck

    @property
    def condition(self) -> str:
        """The sentence with its limits filled in, as the documentation shows it."""
        return spaced(self.when.format(**self.limits))

    def findings(self, evidence: Evidence) -> list[Finding]:
        """Look at the evidence."""
        return [
            Finding(
                code=self.code,
                severity=hit.severity or self.severity,
                message=spaced(hit.message),
                evidence=hit.evidence,
                remedy=hit.remedy,
                concerns=hit.concerns,
            )
            for hit in self.check(evidence, self.limits)
        ]


def rule(
    code: str, title: str, *, severity: Severity, when: str, source: str, **limits: float
) -> Callable[[RuleCheck], Rule]:
    """Make a rule of a function; the keywords beyond the named ones are its limits."""

    def make(check: RuleCheck) -> Rule:
        return Rule(
            code=code,
            title=title,
            severity=severity,
            when=when,
            limits=limits,
            source=source,
            check=check,
        )

    return make


def spaced(text: str) -> str:
    """Write per cent as the rest of the package does: ``5 %``, ``−5 %``."""
    return re.sub(r"(?<![\w.])-(?=[\d.]+ %)", "−", re.sub(r"(\d)%", r"\1 %", text))


def rounded(value: float, digits: int = 4) -> float:
    """Shorten a number for display as evidence."""
    return float(f"{value:.{digits}g}")
