"""A gate: every rule with its outcome and what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.verdict import would_tell
from trtbench.domain.comparison import GateResult
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    Section,
    Table,
    Text,
    Tone,
    table_from_rows,
)
from trtbench.report.documents.run import finding_blocks
from trtbench.report.labels import model_name

if TYPE_CHECKING:
    from trtbench.workflows.compare.gate import Gate

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


def document_from_gate(found: Gate) -> Document:
    """Describe the rules of a gate; rules look at times, so errors of the run are told too."""
    blocks: list[Block] = [rule_table(found.results)]
    if found.compared is not None:
        blocks.append(Text(text=f"against run {found.compared.baseline.id}"))
    blocks += finding_blocks(each for each in found.candidate.findings if each.severity == "error")
    count: Counter[str] = Counter(result.outcome for result in found.results)
    tally = ", ".join(f"{count[key]} {key}" for key in MARKS if count[key]) or "no rules"
    state = "open" if found.open else "closed"
    return Document(
        title=f"Gate {state}: {model_name(found.candidate.record)}: {tally}",
        created="",
        sections=(Section(id="gate", title="", blocks=tuple(blocks)),),
    )
