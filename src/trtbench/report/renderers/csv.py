"""Every table of the document as a CSV file, with values instead of words."""

from __future__ import annotations

from pathlib import Path

from trtbench.host.files import write_output
from trtbench.report.csv_lines import csv_from_lines
from trtbench.report.document import Cell, Document, Table

FOLDER = "tables"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``tables/<table>.csv`` for each table, and nothing when there is none."""
    return [
        write_output(folder / FOLDER / f"{table.id}.csv", csv_text(table))
        for table in document.tables()
    ]


def csv_text(table: Table) -> str:
    """Write one table; headings are keys with units, missing values are empty."""
    names = [heading.key for heading in table.headings]
    return csv_from_lines(names, ([_value(cell) for cell in row] for row in table.rows))


def _value(cell: Cell) -> object:
    if isinstance(cell.value, float):
        return repr(cell.value)
    return "" if cell.value is None else cell.value
