"""Every table of the document as a CSV file, with values instead of words."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from trtbench.core.safety import clean_text, csv_cell
from trtbench.host.files import write_output
from trtbench.report.document import Cell, Document

NOTHING = "\N{REPLACEMENT CHARACTER}"
"""Stands for the character 0, which Python before 3.11 cannot write."""


def csv_from_lines(names: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Write names and lines; what is ``None`` is left empty."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_writable(name) for name in names])
    writer.writerows([_writable(value) for value in line] for line in lines)
    return buffer.getvalue()


def _writable(value: object) -> object:
    """Write what a spreadsheet takes for text: no formula, no control character, only UTF-8."""
    if not isinstance(value, str):
        return value
    if len(value) < 80 and value.isascii() and value.isprintable() and value[:1].isalnum():
        return value  # nothing of it could mean anything else
    return csv_cell(clean_text(value.replace("\0", NOTHING), keep="\n\t\r"))


FOLDER = "tables"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``tables/<table>.csv``; headings are keys with units, missing values are empty."""

    def value(cell: Cell) -> object:
        if isinstance(cell.value, float):
            return repr(cell.value)
        return "" if cell.value is None else cell.value

    paths = []
    for table in document.tables():
        names = [heading.key for heading in table.headings]
        text = csv_from_lines(names, (map(value, row) for row in table.rows))
        paths.append(write_output(folder / FOLDER / f"{table.id}.csv", text))
    return paths
