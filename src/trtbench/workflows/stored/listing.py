"""Runs of a store as a list that shows itself: as a table, in a notebook too, or as a frame."""

from __future__ import annotations

import html

from msgspec.structs import asdict

from trtbench.extras import optional_library
from trtbench.report.documents.runs import document_from_entries
from trtbench.report.renderers.terminal import text
from trtbench.store.entries import Entry

WIDTH = 80
MOST_SHOWN = 20


class Entries(list[Entry]):
    """Entries of the index, newest first."""

    def __repr__(self) -> str:
        if not self:
            return "no runs"
        shown = text(document_from_entries(self[:MOST_SHOWN]), width=WIDTH).rstrip()
        return shown + self._more()

    def _repr_html_(self) -> str:
        document = document_from_entries(self[:MOST_SHOWN])
        rows = []
        for table in document.tables():
            rows.append(_row("th", [heading.title for heading in table.headings]))
            rows += [_row("td", [cell.shown for cell in row]) for row in table.rows]
        return f"<table>{''.join(rows)}</table>{html.escape(self._more())}"

    def to_pandas(self) -> object:
        """Make a DataFrame with a row per run; its index is the run's id, times are in seconds."""
        pandas = optional_library("pandas")
        frame = pandas.DataFrame([asdict(each) for each in self], columns=Entry.__struct_fields__)
        frame["created"] = pandas.to_datetime(frame["created"], utc=True, format="ISO8601")
        return frame.set_index("id")

    def _more(self) -> str:
        left = len(self) - MOST_SHOWN
        return f"\nand {left} more" if left > 0 else ""


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
