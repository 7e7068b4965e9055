"""Rules that check results: each rule is a function and a row of the table of findings."""

from collections.abc import Sequence

from trtbench.analysis.findings import rules
from trtbench.analysis.findings.evidence import Evidence, Rule, evidence_from_run
from trtbench.analysis.summary import Summary
from trtbench.core.properties import series_key
from trtbench.core.run import Finding, Run

__all__ = [
    "RULES",
    "Evidence",
    "evidence_from_run",
    "findings_from_evidence",
    "findings_from_run",
    "findings_over_batches",
    "rule_table",
]

SEVERITIES = ("error", "warning", "note")

_DECLARED = (each for each in vars(rules).values() if isinstance(each, Rule))
RULES: tuple[Rule, ...] = tuple(sorted(_DECLARED, key=lambda rule: rule.code))


def findings_from_run(run: Run, *, summary: Summary | None = None) -> tuple[Finding, ...]:
    """Check a stored run with every rule; the most severe finding comes first."""
    return findings_from_evidence(evidence_from_run(run, summary=summary))


def findings_from_evidence(evidence: Evidence) -> tuple[Finding, ...]:
    """Check the evidence with every rule; the most severe finding comes first."""
    found = [finding for rule in RULES for finding in rule.findings(evidence)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def findings_over_batches(runs: Sequence[Run]) -> dict[str, tuple[Finding, ...]]:
    """Check runs of one model at several batch sizes; findings by the id of the largest batch."""
    groups: dict[object, dict[int, Run]] = {}
    for run in runs:
        if run.record.batch and len(run.times):
            key = series_key(run.record, leave_out=("batch",)), run.record.environment.host
            groups.setdefault(key, {})[run.record.batch] = run
    rule = next(rule for rule in RULES if rule.code == "H02")
    found = {}
    for members in groups.values():
        seen = {batch: evidence_from_run(run) for batch, run in members.items()}
        points = tuple(
            (batch, each.median(members[batch].times.headline) or 0.0, each.fact("flops"))
            for batch, each in seen.items()
        )
        largest = members[max(members)]
        found[largest.id] = tuple(rule.findings(Evidence(record=largest.record, batches=points)))
    return {run: findings for run, findings in found.items() if findings}


def rule_table() -> str:
    """Return the table of all rules in Markdown."""
    rows = ["| id | what | severity | fires when | means | source |", "|---|---|---|---|---|---|"]
    for rule in RULES:
        parts = " | ".join(map(rule.part, ("Fires", "Means", "Source")))
        rows.append(f"| {rule.code} | {rule.title} | {rule.severity} | {parts} |")
    return "\n".join(rows) + "\n"
