"""Writes every table of the document as a CSV file with raw values."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from trtbench.core.safety import clean_text, csv_cell
from trtbench.host.files import make_subfolder, write_output
from trtbench.report.document import Cell, Document

NUL_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Replaces the NUL character, which Python before 3.11 cannot write."""


def csv_from_lines(names: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Return CSV text; ``None`` becomes an empty cell."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([_safe_value(name) for name in names])
    writer.writerows([_safe_value(value) for value in line] for line in lines)
    return buffer.getvalue()


def _safe_value(value: object) -> object:
    """Return a value that a spreadsheet reads as text, without formulas or control characters."""
    if not isinstance(value, str):
        return value
    plain = len(value) < 80 and value.isascii() and value.isprintable() and ";" not in value
    if plain and value[:1].isalnum():
        return value  # plain text, the common case
    # Python before 3.13 does not quote a carriage return, which ends a line for other readers.
    text = value.replace("\0", NUL_REPLACEMENT).replace("\r\n", "\n")
    return csv_cell(clean_text(text, keep="\n\t"))


FOLDER = "tables"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``tables/<table>.csv``; headings are keys with units."""

    def value(cell: Cell) -> object:
        if isinstance(cell.value, float):
            return repr(cell.value)
        return "" if cell.value is None else cell.value

    paths = []
    for table in document.tables():
        names = [heading.key for heading in table.headings]
        text = csv_from_lines(names, (map(value, row) for row in table.rows))
        paths.append(write_output(make_subfolder(folder / FOLDER) / f"{table.id}.csv", text))
    return paths
