"""The document as text, as wide as the terminal is.

Names are shortened in their middle and prose is broken into lines; numbers are never touched.
Where a table needs more width, columns are left out by rank, which is said, or its rows become
blocks of one fact to a line. Pictures are for other formats.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Line

from trtbench.boundary.texts import clean_line, clean_text
from trtbench.host.files import write_output
from trtbench.report.document import (
    Block,
    Cards,
    Cell,
    Code,
    Details,
    Document,
    Drawing,
    Figure,
    FindingList,
    FindingOf,
    KeyValues,
    Picture,
    Section,
    Table,
    Text,
)
from trtbench.report.renderers._columns import (
    GAP,
    TableLayout,
    layout_from_table,
    lines_in_cell,
    wrapped,
)

FILE = "report.txt"
FILE_COLUMNS = 100
LEAST_NAMES, MOST_NAMES = 10, 20
"""Letters of a fact's name: blocks of short names line up, a longer one stands alone."""

STYLES = {"good": "green", "bad": "red", "unclear": "yellow", "plain": ""}
SEVERITIES = {"note": "dim", "warning": "yellow", "error": "bold red"}


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``report.txt``."""
    return [write_output(folder / FILE, text(document, width=FILE_COLUMNS))]


def text(document: Document, *, width: int | None) -> str:
    """Write the document as plain text; without a width nothing is broken or left out."""
    # In a notebook rich would show each line by itself, beside what it is asked to write.
    console = Console(file=io.StringIO(), color_system=None, force_jupyter=False)
    _print(console, lines(document, width=width))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def draw(document: Document, console: Console) -> None:
    """Print the document on a console.

    In a pipe or a file nothing is broken or left out, unless COLUMNS says how wide it may be.
    """
    wide = console.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    _print(console, lines(document, width=console.width if wide else None))


def _print(console: Console, drawn: Iterable[Line]) -> None:
    for line in drawn:
        line.rstrip()
        console.print(line, soft_wrap=True, highlight=False)


def lines(document: Document, *, width: int | None) -> Iterator[Line]:
    """Write the document line by line, none wider than asked for but for words that are."""
    if document.title:
        yield from _prose(document.title, width, style="bold", indent=2)
    for number, section in enumerate(document.sections):
        yield from _section(section, width, first=number == 0 and not document.title)


def _section(section: Section, width: int | None, *, first: bool) -> Iterator[Line]:
    if section.title:
        if not first:
            yield Line()
        yield from _prose(section.title, width, style="bold", indent=2)
    before: Block | None = None
    for block in section.blocks:
        if isinstance(block, Table) and isinstance(before, Table):
            yield Line()
        yield from _block(block, width)
        before = block


def _block(block: Block, width: int | None) -> Iterator[Line]:
    if isinstance(block, Text):
        yield from _prose(block.text, width, style=STYLES[block.tone])
    elif isinstance(block, Table):
        yield from _table(block, width)
    elif isinstance(block, KeyValues):
        yield from _facts(block.pairs, width)
    elif isinstance(block, FindingList):
        for item in block.items:
            yield from _finding(item, width)
    elif isinstance(block, Code):
        if block.caption:
            yield from _prose(block.caption, width)
        yield from (Line(f"  {line}") for line in clean_text(block.text).splitlines())
    elif isinstance(block, Cards):
        pairs = [
            (card.title, Cell(text=_with_detail(card.value, card.detail), tone=card.tone))
            for card in block.items
        ]
        yield from _facts(pairs, width)
    elif isinstance(block, Details):
        yield from _prose(block.summary, width, style="bold")
        for inner in block.blocks:
            yield from _block(inner, width)
    elif isinstance(block, Figure | Picture | Drawing):
        yield from _prose(f"(picture: {block.title})", width, style="dim")


def _table(table: Table, width: int | None) -> Iterator[Line]:
    table = _cleaned(table)
    layout = layout_from_table(table, width)
    if layout is None:
        yield from _blocks(table, width)
    else:
        yield from _grid(table, layout)
        if layout.left_out:
            words = f"too narrow for: {', '.join(layout.left_out)}"
            yield from _prose(words, width, style="dim")
    if table.caption:
        yield from _prose(table.caption, width, style="dim")


def _cleaned(table: Table) -> Table:
    rows = tuple(
        tuple(cell.having(text=clean_text(cell.shown, keep="\n")) for cell in row)
        for row in table.rows
    )
    return table.having(rows=rows)


def _grid(table: Table, layout: TableLayout) -> Iterator[Line]:
    heads = [table.headings[column.place] for column in layout.columns]
    if any(head.title for head in heads):
        cells = [
            list(wrapped(head.title, column.width))
            for head, column in zip(heads, layout.columns, strict=True)
        ]
        yield from _row(table, layout, cells, ["dim"] * len(cells))
    for row in table.rows:
        shown = [row[column.place] for column in layout.columns]
        cells = [
            lines_in_cell(cell.shown, head, column.width)
            for cell, head, column in zip(shown, heads, layout.columns, strict=True)
        ]
        yield from _row(table, layout, cells, [STYLES[cell.tone] for cell in shown])


def _row(
    table: Table, layout: TableLayout, cells: Sequence[Sequence[str]], styles: Sequence[str]
) -> Iterator[Line]:
    for number in range(max(map(len, cells))):
        line = Line()
        for column, texts, style in zip(layout.columns, cells, styles, strict=True):
            part = texts[number] if number < len(texts) else ""
            space = " " * (column.width - cell_len(part))
            right = table.headings[column.place].align == "right"
            line.append(space + part if right else part + space, style=style)
            line.append(" " * GAP)
        yield line


def _blocks(table: Table, width: int | None) -> Iterator[Line]:
    """Write rows as blocks, the first cell above the others."""
    for row in table.rows:
        yield from _prose(row[0].shown, width, style="bold")
        pairs = zip((head.title for head in table.headings[1:]), row[1:], strict=True)
        yield from _facts([(name or " ", cell) for name, cell in pairs], width, indent=2)


def _facts(
    pairs: Sequence[tuple[str, Cell]], width: int | None, *, indent: int = 0
) -> Iterator[Line]:
    names = [clean_line(name) for name, _ in pairs]
    least = 0 if indent else LEAST_NAMES
    column = max((min(cell_len(name), MOST_NAMES) for name in names), default=0)
    column = max(least, column)
    margin = indent + column + GAP
    for name, (_, cell) in zip(names, pairs, strict=True):
        room = width - margin if width else None
        parts = list(wrapped(clean_text(cell.shown, keep="\n"), room))
        first = Line(" " * indent + name.ljust(column), style="dim")
        first.append(" " * GAP + parts[0], style=f"not dim {STYLES[cell.tone]}")
        yield first
        yield from (Line(" " * margin + part, style=STYLES[cell.tone]) for part in parts[1:])


def _finding(item: FindingOf, width: int | None) -> Iterator[Line]:
    finding = item.finding
    label = f"{finding.severity} {finding.code}"
    beside = f" ({finding.concerns})" if finding.concerns else ""
    words = f"{label}{beside}: {item.title or finding.message}"
    for number, line in enumerate(_prose(words, width, indent=2)):
        if number == 0:
            line.stylize(SEVERITIES[finding.severity], 0, len(label))
        yield line
    for run, message in item.cases:
        yield from _prose(f"  {run}: {message}", width, indent=4)
    if finding.remedy and finding.severity != "note":
        yield from _prose(f"  → {finding.remedy}", width, style="dim", indent=4)


def _prose(words: str, width: int | None, *, style: str = "", indent: int = 0) -> Iterator[Line]:
    """Break prose into lines; those after the first stand in by the indent."""
    for paragraph in clean_text(words, keep="\n").split("\n"):
        room = width - indent if width else None
        for number, part in enumerate(wrapped(paragraph, room)):
            yield Line(" " * indent * (number > 0) + part, style=style)


def _with_detail(value: str, detail: str) -> str:
    return f"{value} ({detail})" if detail else value
