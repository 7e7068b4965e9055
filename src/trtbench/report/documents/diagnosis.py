"""What works here, group by group, with what to type to get the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.report.document import Cell, Document, Heading, Section, Tone, table_from_rows

if TYPE_CHECKING:
    from trtbench.workflows.look.doctor import Check, Diagnosis

TONES: dict[str, Tone] = {"ok": "good", "missing": "unclear", "broken": "bad", "info": "plain"}
HEADINGS = (
    Heading(key="status", title=""),
    Heading(key="name", title=""),
    Heading(key="detail", title="", fit="wrap"),
)


def document_from_diagnosis(diagnosis: Diagnosis) -> Document:
    """Describe what was looked at."""
    sections = tuple(
        Section(
            id=group.name.replace(" ", "-"),
            title=group.name,
            blocks=(
                table_from_rows(
                    f"doctor_{group.name}", headings=HEADINGS, rows=map(_row, group.checks)
                ),
            ),
        )
        for group in diagnosis.groups
    )
    return Document(title="", created="", sections=sections)


def _row(check: Check) -> tuple[Cell | str, ...]:
    origin = f"  from {check.origin}" if check.origin else ""
    fix = f"\nfix: {check.fix}" if check.fix else ""
    detail = f"{check.detail}{origin}{fix}"
    return Cell(value=check.status, tone=TONES[check.status]), check.name, detail
