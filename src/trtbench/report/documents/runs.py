"""The list of runs in a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trtbench.report.document import Cell, Document, Heading, document_from_blocks, table_from_rows
from trtbench.report.headings import (
    BATCH_HEADING,
    MEDIAN_HEADING,
    MODEL_HEADING,
    PRECISION_HEADING,
    RUNTIME_HEADING,
    THROUGHPUT_HEADING,
)
from trtbench.units import text_from_rate, text_from_seconds

if TYPE_CHECKING:
    from trtbench.store.entries import Entry

TELLING = {"protocol": "Protocol", "host": "Machine"}
"""Fields that are shown where runs differ in them: medians of two machines, or of two protocols,
mean different things; of one, its name says nothing."""

MARK = "*"
REPORTED = f"{MARK} as another tool printed it, without samples; a mean where it printed no median"


def document_from_entries(entries: Sequence[Entry]) -> Document:
    """List runs in the order given."""
    differing = [name for name in TELLING if len({getattr(each, name) for each in entries}) > 1]
    headings = (
        Heading(key="id", title="Run"),
        Heading(key="created", title="When", rank=8),
        MODEL_HEADING,
        RUNTIME_HEADING,
        PRECISION_HEADING,
        *(Heading(key=name, title=TELLING[name], rank=2, fit="shorten") for name in differing),
        BATCH_HEADING,
        MEDIAN_HEADING,
        THROUGHPUT_HEADING,
        Heading(key="warnings", title="Warnings", align="right", rank=7),
        Heading(key="tags", title="Tags", rank=6, fit="wrap"),
    )
    rows = [_row(each, differing) for each in entries]
    caption = REPORTED if any(is_reported(each) for each in entries) else None
    table = table_from_rows("runs", headings=headings, rows=rows, caption=caption)
    created = max((each.created for each in entries), default="")
    return document_from_blocks("runs", [table], created=created)


def _row(entry: Entry, differing: Sequence[str]) -> list[Cell | str]:
    failed = entry.kind != "run"
    rate = "" if failed else text_from_rate(entry.items_per_s, what="items")
    return [
        Cell(value=entry.id, tone="bad" if failed else "plain"),
        entry.created[:16].replace("T", " "),
        entry.model,
        entry.runtime,
        entry.precision or "",
        *(getattr(entry, name) or "" for name in differing),
        Cell(value=entry.batch, text=str(entry.batch or "")),
        Cell(text="failed", tone="bad") if failed else _median(entry),
        Cell(value=entry.items_per_s, text=rate),
        Cell(value=entry.warnings, text=str(entry.warnings or "")),
        ", ".join(entry.tags),
    ]


def _median(entry: Entry) -> Cell:
    """Mark a median that was printed by another tool and could not be computed here."""
    text = text_from_seconds(entry.median_s)
    return Cell(value=entry.median_s, text=f"{text}{MARK}" if is_reported(entry) else text)


def is_reported(entry: Entry) -> bool:
    """Say whether another tool printed the number, and no samples are there."""
    return entry.samples == 0 and entry.median_s is not None
