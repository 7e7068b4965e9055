"""Writes the document as text that fits the width of the terminal.

Long names are shortened in the middle and text is wrapped; numbers are always complete.
If a table is too wide, columns with a high rank are hidden, with a note, or each row becomes a
block with one value per line. Pictures are not shown.
"""

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text as Line

from trtbench.core.safety import LONGEST_NAME, clean_line, clean_text
from trtbench.host.files import write_output
from trtbench.report import document as doc

FILE = "report.txt"
FILE_COLUMNS = 100
GAP = 2
MOST_PADDED = 1000  # a column is not wider, so that one long name does not fill each row
MIN_WIDTH = 20  # minimum width of columns, so that shortened names stay recognizable
FEW_ROWS = 8  # at most, for which each row may become a block
STYLES = {"good": "green", "bad": "red", "unclear": "yellow", "plain": ""}
SEVERITIES = {"note": "dim", "warning": "yellow", "error": "bold red"}

_UNITS = "%|[nµm]?s|min|h|B|[KMGT]iB|[kMGT]?B|[kMG]?Hz|dB|W|m?J|°C|nats|items/s|batches/s|qps|×"
_WITHIN_NUMBERS = re.compile(rf"(?<=\d) (?=(?:\d{{3}}|{_UNITS})(?![\w/]))")
_GLUE = "\u00a0"


def render(document: doc.Document, folder: Path) -> list[Path]:
    return [write_output(folder / FILE, text(document, width=FILE_COLUMNS))]


def text(document: doc.Document, *, width: int | None) -> str:
    """Return the document as plain text; without a width nothing is wrapped or hidden."""
    # In a notebook, rich would also display each line.
    console = Console(file=io.StringIO(), color_system=None, force_jupyter=False)
    _print(console, lines(document, width=width))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def draw(document: doc.Document, console: Console) -> None:
    """Print the document; in a pipe or file nothing is wrapped or hidden, unless COLUMNS is set."""
    wide = console.is_terminal or os.environ.get("COLUMNS", "").isdecimal()
    _print(console, lines(document, width=console.width if wide else None))


def _print(console: Console, drawn: Iterable[Line]) -> None:
    for line in drawn:
        line.rstrip()
        if console.color_system is None:  # plain text, four times as fast
            console.file.write(f"{line.plain}\n")
        else:
            console.print(line, soft_wrap=True, highlight=False)


def lines(document: doc.Document, *, width: int | None) -> Iterator[Line]:
    """Return the lines of the document; only single long words exceed the width."""
    if document.title:
        yield from _wrap(document.title, width, style="bold", indent=2)
    for number, section in enumerate(document.sections):
        if section.title:
            if number or document.title:
                yield Line()
            yield from _wrap(section.title, width, style="bold", indent=2)
        before: doc.Block | None = None
        for block in section.blocks:
            if isinstance(block, doc.Table) and isinstance(before, doc.Table):
                yield Line()
            yield from _block(block, width)
            before = block


def _block(block: doc.Block, width: int | None) -> Iterator[Line]:
    if isinstance(block, doc.Text):
        yield from _wrap(block.text, width, style=STYLES[block.tone])
    elif isinstance(block, doc.Table):
        yield from _table(block, width)
    elif isinstance(block, doc.KeyValues):
        yield from _facts(block.pairs, width)
    elif isinstance(block, doc.FindingList):
        for item in block.items:
            yield from _finding(item, width)
    elif isinstance(block, doc.Code):
        if block.caption:
            yield from _wrap(block.caption, width)
        yield from (Line(f"  {line}") for line in clean_text(block.text).splitlines())
    elif isinstance(block, doc.Details):
        yield from _wrap(block.summary, width, style="bold")
        for inner in block.blocks:
            yield from _block(inner, width)
    else:
        yield from _wrap(f"(picture: {block.title})", width, style="dim")


def _table(table: doc.Table, width: int | None) -> Iterator[Line]:
    heads = table.headings
    texts = [[_clean(cell.shown) for cell in row] for row in table.rows]
    widths = _widths(heads, texts, width)
    if widths is None:  # each row as a block, with the first cell as title
        for row, shown in zip(table.rows, texts, strict=True):
            yield from _wrap(shown[0], width, style="bold")
            pairs = zip(heads[1:], row[1:], strict=True)
            yield from _facts([(head.title or " ", cell) for head, cell in pairs], width, indent=2)
    else:
        places = sorted(widths)
        if any(heads[place].title for place in places):
            titles = [[heads[place].title] for place in places]
            yield from _row(heads, widths, titles, ["dim"] * len(places))
        for row, shown in zip(table.rows, texts, strict=True):
            room = dict.fromkeys(places) if width is None else widths
            cells = [_cell_lines(shown[place], heads[place].fit, room[place]) for place in places]
            yield from _row(heads, widths, cells, [STYLES[row[place].tone] for place in places])
        filled = _nonempty_columns(texts, len(heads))
        if hidden := [heads[place].title for place in filled if place not in widths]:
            words = f"hidden, terminal too narrow: {', '.join(hidden)}"
            yield from _wrap(words, width, style="dim")
    if table.caption:
        yield from _wrap(table.caption, width, style="dim")


def _cell_lines(text: str, fit: doc.Fit, width: int | None) -> list[str]:
    if width is not None and fit == "shorten" and "\n" not in text:
        return [shorten_to_width(text, width)]
    return list(wrapped(text, width, fold=True))


def _row(
    heads: Sequence[doc.Heading], widths: dict[int, int], cells: list[list[str]], styles: list[str]
) -> Iterator[Line]:
    for number in range(max(map(len, cells))):
        line = Line()
        for place, texts, style in zip(sorted(widths), cells, styles, strict=True):
            part = texts[number] if number < len(texts) else ""
            space = " " * (widths[place] - cell_len(part))
            right = heads[place].align == "right"
            line.append(space + part if right else part + space, style=style)
            line.append(" " * GAP)
        yield line


def _nonempty_columns(texts: Sequence[Sequence[str]], count: int) -> list[int]:
    return [place for place in range(count) if not texts or any(row[place] for row in texts)]


def _widths(
    heads: Sequence[doc.Heading], texts: Sequence[Sequence[str]], width: int | None
) -> dict[int, int] | None:
    """Return the widths of visible columns by index; ``None`` if columns of rank 0 do not fit.

    Without a width, as in a pipe, every column is as wide as its content.
    """

    def total_width(widths: dict[int, int], places: Sequence[int]) -> int:
        return sum(widths[place] for place in places) + GAP * (len(places) - 1)

    filled = _nonempty_columns(texts, len(heads))
    wanted, least = {}, {}
    for place in filled:
        head, column = heads[place], [row[place] for row in texts]
        title = cell_len(head.title)
        longest = (cell_len(line) for each in column for line in each.split("\n"))
        wanted[place] = narrow = max(title, max(longest, default=0))
        if head.fit == "wrap":
            narrow = max(MIN_WIDTH, title)
        elif head.fit == "shorten" and width is not None:  # shortened names must stay unique
            narrow, different = max(MIN_WIDTH, title), set(column)
            most = width if len(texts) <= FEW_ROWS else width // 3  # many blocks are no table
            while narrow < most and len(
                {shorten_to_width(each, narrow) for each in different}
            ) < len(different):
                narrow += 1
        least[place] = min(wanted[place], narrow)
    if width is None or total_width(wanted, filled) <= width:
        return {place: min(each, MOST_PADDED) for place, each in wanted.items()}
    places = [place for place in filled if heads[place].rank == 0]
    if total_width(least, places) > width:
        return None
    for place in sorted(filled, key=lambda place: heads[place].rank):
        if place not in places and total_width(least, [*places, place]) <= width:
            places.append(place)
    shown = {place: wanted[place] for place in places}
    while total_width(shown, places) > width:  # narrow the widest column that is above its minimum
        giving = [place for place in places if shown[place] > least[place]]
        shown[max(giving, key=lambda place: (shown[place], -place))] -= 1
    return shown


def shorten_to_width(text: str, width: int) -> str:
    """Cut out the middle of text that is wider than ``width``."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    return set_cell_size(text, width - 1 - tail) + "…" + set_cell_size(text[::-1], tail)[::-1]


# ---- text


def _clean(text: str) -> str:
    """Clean a text, and shorten words that are longer than any path."""
    clean = clean_text(text, keep="\n")
    if len(clean) <= LONGEST_NAME:
        return clean
    return re.sub(r"\S+", lambda word: shorten_to_width(word[0], LONGEST_NAME), clean)


def wrapped(text: str, width: int | None, *, fold: bool = False) -> Iterator[str]:
    """Wrap text into lines, but never between a number and its unit.

    A word wider than a line is kept whole, so that paths and commands can be copied, unless
    ``fold`` is set, as in tables.
    """
    for paragraph in text.split("\n"):
        if not width:
            yield paragraph
            continue
        words = []
        for word in _WITHIN_NUMBERS.sub(_GLUE, paragraph).split(" "):
            words += chop_cells(word, width) if fold and cell_len(word) > width else [word]
        line = words[0]
        for word in words[1:]:
            joined = f"{line} {word}"
            if line.strip() and cell_len(joined) > width:
                yield line.replace(_GLUE, " ")
                joined = word
            line = joined
        yield line.replace(_GLUE, " ")


def _wrap(words: str, width: int | None, *, style: str = "", indent: int = 0) -> Iterator[Line]:
    """Wrap text into lines; all but the first are indented."""
    for paragraph in _clean(words).split("\n"):
        room = width - indent if width else None
        for number, part in enumerate(wrapped(paragraph, room)):
            yield Line(" " * indent * (number > 0) + part, style=style)


def _facts(
    pairs: Sequence[tuple[str, doc.Cell]], width: int | None, *, indent: int = 0
) -> Iterator[Line]:
    names = [clean_line(name) for name, _ in pairs]
    # Values align in a column, unless a name is longer than 20 characters.
    column = max([0 if indent else 10, *(min(cell_len(name), 20) for name in names)])
    margin = indent + column + GAP
    for name, (_, cell) in zip(names, pairs, strict=True):
        parts = list(wrapped(_clean(cell.shown), width - margin if width else None))
        first = Line(" " * indent + name.ljust(column), style="dim")
        first.append(" " * GAP + parts[0], style=f"not dim {STYLES[cell.tone]}")
        yield first
        yield from (Line(" " * margin + part, style=STYLES[cell.tone]) for part in parts[1:])


def _finding(item: doc.FindingGroup, width: int | None) -> Iterator[Line]:
    finding = item.finding
    label = f"{finding.severity} {finding.code}"
    beside = f" ({finding.concerns})" if finding.concerns else ""
    words = f"{label}{beside}: {item.title or finding.message}"
    for number, line in enumerate(_wrap(words, width, indent=2)):
        if number == 0:
            line.stylize(SEVERITIES[finding.severity], 0, len(label))
        yield line
    for run, message in item.cases:
        yield from _wrap(f"  {run}: {message}", width, indent=4)
    if finding.remedy and finding.severity != "note":
        yield from _wrap(f"  → {finding.remedy}", width, style="dim", indent=4)
