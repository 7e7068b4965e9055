"""What the tool itself thinks of a result: the honesty checklist as code.

One rule is one function and one row of a table. Knows values only; a rule whose evidence is
absent says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.findings import (
    rules_compare,
    rules_labels,
    rules_machine,
    rules_sampling,
    rules_setup,
    rules_timing,
)
from trtbench.analysis.findings.evidence import BatchPoint, Evidence, evidence_from_run
from trtbench.analysis.findings.rule import Rule
from trtbench.analysis.summary import Summary
from trtbench.domain.ran import protocol_of, streams_of
from trtbench.domain.result import Finding, Run, precision_of

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

_RULE_MODULES = (
    rules_compare, rules_labels, rules_machine, rules_sampling, rules_setup, rules_timing,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            each
            for module in _RULE_MODULES
            for each in vars(module).values()
            if isinstance(each, Rule)
        ),
        key=lambda rule: rule.code,
    )
)


def findings_from_run(run: Run, *, summary: Summary | None = None) -> tuple[Finding, ...]:
    """Look at a stored run with every rule, the most severe finding first."""
    return findings_from_evidence(evidence_from_run(run, summary=summary))


def findings_over_batches(runs: Sequence[Run]) -> dict[str, tuple[Finding, ...]]:
    """Look at runs of one model at several batch sizes together; by the id of the largest."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        spec, how = run.record.spec, (protocol_of(run.record), streams_of(run.record))
        key = (spec.model.name, spec.runtime, precision_of(run.record), *how, spec.device)
        groups.setdefault((key, run.record.environment.host), []).append(run)
    return {
        members[-1].id: found
        for group in groups.values()
        if (members := _by_batch(group)) and (found := _flat(members))
    }


def _by_batch(runs: Sequence[Run]) -> list[Run]:
    """Order runs by their batch, one for each; those without a known batch are left out."""
    known = {run.record.batch: run for run in runs if run.record.batch and len(run.times)}
    return [known[batch] for batch in sorted(known)] if len(known) > 1 else []


def _flat(runs: Sequence[Run]) -> tuple[Finding, ...]:
    seen = [evidence_from_run(run) for run in runs]
    points = tuple(
        BatchPoint(
            batch=run.record.batch, latency_s=each.summary.column(each.summary.headline).median
        )
        for run, each in zip(runs, seen, strict=True)
        if run.record.batch and each.summary
    )
    evidence = Evidence(
        record=runs[-1].record, batches=points, work=seen[0].work, peaks=seen[-1].peaks
    )
    rule = next(rule for rule in RULES if rule.code == "H02")
    return tuple(rule.findings(evidence))


def findings_from_evidence(evidence: Evidence) -> tuple[Finding, ...]:
    """Look at all there is with every rule, the most severe finding first."""
    found = [finding for rule in RULES for finding in rule.findings(evidence)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def rule_table() -> str:
    """Write the table of rules in Markdown."""
    head = ["| id | what | severity | fires when | source |", "|---|---|---|---|---|"]
    rows = (
        f"| {rule.code} | {rule.title} | {rule.severity} | {rule.condition} | {rule.source} |"
        for rule in RULES
    )
    return "\n".join([*head, *rows]) + "\n"
