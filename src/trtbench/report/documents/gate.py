"""A gate: every rule with its outcome and what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.verdict import would_tell
from trtbench.domain.comparison import GateResult
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    Tone,
    table_from_rows,
)
from trtbench.report.documents.run import finding_blocks
from trtbench.report.numbers import text_from_duration
from trtbench.report.run_facts import headline_summary

if TYPE_CHECKING:
    from trtbench.workflows.compare.gate import Gate
    from trtbench.workflows.measure.failure import Failed

TONES: dict[str, Tone] = {"pass": "good", "fail": "bad", "unclear": "unclear"}
MARKS = {"pass": "pass", "fail": "FAIL", "unclear": "unclear"}
HEADINGS = (
    Heading(key="outcome", title="Outcome"),
    Heading(key="rule", title="Rule"),
    Heading(key="measured", title="Measured", fit="wrap"),
)


def rule_table(results: Sequence[GateResult]) -> Table:
    """List rules with their outcome and what was measured."""
    rows = [
        (
            Cell(value=each.outcome, text=MARKS[each.outcome], tone=TONES[each.outcome]),
            each.rule.text,
            f"{each.message}{would_tell(each.launches_needed)}",
        )
        for each in results
    ]
    return table_from_rows("gate", headings=HEADINGS, rows=rows)


def document_from_gates(found: Sequence[Gate], failed: Sequence[Failed] = ()) -> Document:
    """Describe the rules of one gate, or of several; errors of a run are told too."""
    count = len(found) + len(failed)
    sections = [_section(each, alone=count == 1) for each in found]
    sections += [_broken(each) for each in failed]
    if count == 1:
        title = _title(found[0])
    else:
        closed = [each.name for each in found if not each.open] + [each.model for each in failed]
        state = f"closed by {', '.join(closed)}" if closed else "open"
        title = f"Gate {state}: {count} models"
    return Document(title=title, created="", sections=tuple(sections))


def _broken(failed: Failed) -> Section:
    """Say why a candidate could not be measured."""
    reason = failed.facts.get("reason")
    words = f"not measured: {failed.reason}{f': {reason}' if reason else ''}"
    title = f"Gate closed: {failed.model}"
    block = Text(text=words, tone="bad")
    return Section(id=f"gate_{failed.model}", title=title, blocks=(block,))


def _section(found: Gate, *, alone: bool) -> Section:
    blocks: list[Block] = [rule_table(found.results)]
    blocks += [Text(text=f"closed by {each}", tone="bad") for each in found.closed_by]
    if facts := tuple(_facts(found)):
        blocks.append(KeyValues(id="facts", pairs=facts))
    if found.candidate is not None:
        blocks += finding_blocks(e for e in found.candidate.findings if e.severity == "error")
    name = "gate" if alone else f"gate_{found.name}"
    return Section(id=name, title="" if alone else _title(found), blocks=tuple(blocks))


def _title(found: Gate) -> str:
    count: Counter[str] = Counter(result.outcome for result in found.results)
    tally = ", ".join(f"{count[key]} {key}" for key in MARKS if count[key]) or "no rules"
    return f"Gate {'open' if found.open else 'closed'}: {found.name}: {tally}"


def _facts(found: Gate) -> Iterator[tuple[str, Cell]]:
    """State both medians, the machine and the versions, for whoever reads a job's page."""
    sides = [("candidate", found.candidate)] if found.candidate is not None else []
    if found.compared is not None:
        sides.insert(0, ("baseline", found.compared.baseline))
    for name, run in sides:
        head = headline_summary(run)
        if head is not None and head.typical is not None:
            words = (
                f"median {text_from_duration(head.typical)} ({run.times.headline}), run {run.id}"
            )
            yield name, Cell(value=head.typical, text=words)
    if found.candidate is not None:
        where = found.candidate.record.environment
        gpus = ", ".join(gpu.name for gpu in where.gpus)
        yield "machine", Cell(text=", ".join(filter(None, (where.label, gpus, where.cpu))))
        versions = ", ".join(f"{name} {version}" for name, version in where.versions.items())
        if versions:
            yield "versions", Cell(text=versions)
