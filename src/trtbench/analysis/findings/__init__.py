"""Rules that check results: each rule is a function and a row of the table of findings."""

from collections.abc import Sequence

from trtbench.analysis.findings import rules
from trtbench.analysis.findings.evidence import (
    Batches,
    Evidence,
    PairFacts,
    Rule,
    evidence_from_run,
)
from trtbench.analysis.summary import Summary
from trtbench.core.properties import series_key
from trtbench.core.run import Finding, Run

SEVERITIES = ("error", "warning", "note")

_DECLARED = (each for each in vars(rules).values() if isinstance(each, Rule))
RULES: tuple[Rule, ...] = tuple(sorted(_DECLARED, key=lambda rule: rule.code))


def findings_from_run(run: Run, *, summary: Summary | None = None) -> tuple[Finding, ...]:
    """Check a stored run with every rule; the most severe finding comes first."""
    return findings_from_evidence(evidence_from_run(run, summary=summary))


def findings_from_evidence(evidence: Evidence | PairFacts) -> tuple[Finding, ...]:
    """Check a run or a pair with every rule for it; the most severe finding comes first."""
    rules = [x for x in RULES if isinstance(evidence, x.check.__annotations__.get("e", ()))]
    found = [finding for rule in rules for finding in rule.findings(evidence)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def findings_over_batches(runs: Sequence[Run]) -> dict[str, tuple[Finding, ...]]:
    """Check runs of one model at several batch sizes; findings by the id of the largest batch."""
    groups: dict[object, dict[int, Run]] = {}
    for run in runs:
        if run.record.batch and len(run.times):
            key = series_key(run.record), run.record.environment.host
            groups.setdefault(key, {})[run.record.batch] = run
    found = {}
    for members in groups.values():
        seen = {batch: evidence_from_run(run) for batch, run in members.items()}
        points = [
            (batch, each.median(each.times.headline) or 0.0, each.fact("flops"))
            for batch, each in sorted(seen.items())
        ]
        peak, _ = seen[max(seen)].peaks()
        found[members[max(seen)].id] = rules.missing_sync.findings(Batches(points, peak))
    return {run: findings for run, findings in found.items() if findings}


def rule_table() -> str:
    """Return the table of all rules in Markdown."""
    rows = ["| id | what | severity | fires when | means | source |", "|---|---|---|---|---|---|"]
    for rule in RULES:
        parts = " | ".join(map(rule.part, ("Fires", "Means", "Source")))
        rows.append(f"| {rule.code} | {rule.title} | {rule.severity} | {parts} |")
    return "\n".join(rows) + "\n"
