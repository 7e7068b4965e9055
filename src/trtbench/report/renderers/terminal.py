"""The document as text, as wide as the terminal is.

Names are shortened in their middle and prose is broken into lines; numbers are never touched.
Where a table needs more width, columns are left out by rank, which is said, or its rows become
blocks of one fact to a line. Pictures are for other formats.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Line

from trtbench.core.safety import clean_line, clean_text
from trtbench.host.files import write_output
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Details,
    Document,
    FindingList,
    FindingOf,
    Heading,
    KeyValues,
    Table,
    Text,
)

FILE = "report.txt"
FILE_COLUMNS = 100
GAP = 2
LEAST = 20
"""Columns are not made narrower: shortened names would still differ, but not be recognized."""
STYLES = {"good": "green", "bad": "red", "unclear": "yellow", "plain": ""}
SEVERITIES = {"note": "dim", "warning": "yellow", "error": "bold red"}

_UNITS = "%|[nµm]?s|min|h|B|[KMGT]iB|[kMGT]?B|[kMG]?Hz|dB|W|m?J|°C|nats|items/s|batches/s|qps|×"
_WITHIN_NUMBERS = re.compile(rf"(?<=\d) (?=(?:\d{{3}}|{_UNITS})(?![\w/]))")
_GLUE = "\u00a0"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``report.txt``."""
    return [write_output(folder / FILE, text(document, width=FILE_COLUMNS))]


def text(document: Document, *, width: int | None) -> str:
    """Write the document as plain text; without a width nothing is broken or left out."""
    # In a notebook rich would show each line by itself, too.
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
        if section.title:
            if number or document.title:
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
    elif isinstance(block, Details):
        yield from _prose(block.summary, width, style="bold")
        for inner in block.blocks:
            yield from _block(inner, width)
    else:
        yield from _prose(f"(picture: {block.title})", width, style="dim")


# ---- tables


def _table(table: Table, width: int | None) -> Iterator[Line]:
    heads = table.headings
    texts = [[clean_text(cell.shown, keep="\n") for cell in row] for row in table.rows]
    widths = _widths(heads, texts, width)
    if widths is None:  # rows as blocks, the first cell above the others
        for row, shown in zip(table.rows, texts, strict=True):
            yield from _prose(shown[0], width, style="bold")
            pairs = zip(heads[1:], row[1:], strict=True)
            yield from _facts([(head.title or " ", cell) for head, cell in pairs], width, indent=2)
    else:
        places = sorted(widths)
        if any(heads[place].title for place in places):
            titles = [[heads[place].title] for place in places]
            yield from _row(heads, widths, titles, ["dim"] * len(places))
        for row, shown in zip(table.rows, texts, strict=True):
            cells = [
                [shortened_to(shown[place], widths[place])]
                if heads[place].fit == "shorten" and "\n" not in shown[place]
                else list(wrapped(shown[place], widths[place], fold=True))
                for place in places
            ]
            yield from _row(heads, widths, cells, [STYLES[row[place].tone] for place in places])
        filled = _filled(texts, len(heads))
        if hidden := [heads[place].title for place in filled if place not in widths]:
            words = f"hidden, terminal too narrow: {', '.join(hidden)}"
            yield from _prose(words, width, style="dim")
    if table.caption:
        yield from _prose(table.caption, width, style="dim")


def _row(
    heads: Sequence[Heading], widths: dict[int, int], cells: list[list[str]], styles: list[str]
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


def _filled(texts: Sequence[Sequence[str]], count: int) -> list[int]:
    """Places of the columns in which something stands."""
    return [place for place in range(count) if not texts or any(row[place] for row in texts)]


def _widths(
    heads: Sequence[Heading], texts: Sequence[Sequence[str]], width: int | None
) -> dict[int, int] | None:
    """Width by place of the columns shown; ``None`` if even those that must stay do not fit.

    Without a width, as in a pipe, every column is as wide as it wants to be.
    """

    def total(widths: dict[int, int], places: Sequence[int]) -> int:
        return sum(widths[place] for place in places) + GAP * (len(places) - 1)

    filled = _filled(texts, len(heads))
    wanted, least = {}, {}
    for place in filled:
        head, column = heads[place], [row[place] for row in texts]
        title = cell_len(head.title)
        longest = (cell_len(line) for each in column for line in each.split("\n"))
        wanted[place] = narrow = max(title, max(longest, default=0))
        if head.fit == "wrap":
            narrow = max(LEAST, title)
        elif head.fit == "shorten" and width is not None:  # names must still differ
            narrow, different = max(LEAST, title), set(column)
            while len({shortened_to(each, narrow) for each in different}) < len(different):
                narrow += 1
        least[place] = min(wanted[place], narrow)
    if width is None or total(wanted, filled) <= width:
        return wanted
    places = [place for place in filled if heads[place].rank == 0]
    if total(least, places) > width:
        return None
    for place in sorted(filled, key=lambda place: heads[place].rank):
        if place not in places and total(least, [*places, place]) <= width:
            places.append(place)
    shown = {place: wanted[place] for place in places}
    while total(shown, places) > width:  # the widest column that can gives a character
        giving = [place for place in places if shown[place] > least[place]]
        shown[max(giving, key=lambda place: (shown[place], -place))] -= 1
    return shown


def shortened_to(text: str, width: int) -> str:
    """Cut the middle out of a name that is wider than this."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    return _taken(text, width - 1 - tail) + "…" + _taken(text[::-1], tail)[::-1]


def _taken(text: str, width: int) -> str:
    """Take as many letters as fit; a letter of Chinese is two wide."""
    taken = 0
    for count, letter in enumerate(text):
        taken += cell_len(letter)
        if taken > width:
            return text[:count]
    return text


# ---- words


def wrapped(text: str, width: int | None, *, fold: bool = False) -> Iterator[str]:
    """Break prose into lines, never between a number and its unit.

    A word that is wider than a line stands out, so that paths and commands can be copied; only
    where it would spoil a table it is folded.
    """
    for paragraph in text.split("\n"):
        if not width:
            yield paragraph
            continue
        words = []
        for word in _WITHIN_NUMBERS.sub(_GLUE, paragraph).split(" "):
            while fold and cell_len(word) > width:
                words.append(_taken(word, width))
                word = word[len(words[-1]) :]
            words.append(word)
        line = words[0]
        for word in words[1:]:
            joined = f"{line} {word}"
            if line.strip() and cell_len(joined) > width:
                yield line.replace(_GLUE, " ")
                joined = word
            line = joined
        yield line.replace(_GLUE, " ")


def _prose(words: str, width: int | None, *, style: str = "", indent: int = 0) -> Iterator[Line]:
    """Break prose into lines; those after the first stand in by the indent."""
    for paragraph in clean_text(words, keep="\n").split("\n"):
        room = width - indent if width else None
        for number, part in enumerate(wrapped(paragraph, room)):
            yield Line(" " * indent * (number > 0) + part, style=style)


def _facts(
    pairs: Sequence[tuple[str, Cell]], width: int | None, *, indent: int = 0
) -> Iterator[Line]:
    names = [clean_line(name) for name, _ in pairs]
    # Blocks of short names line up, a longer one stands alone.
    column = max([0 if indent else 10, *(min(cell_len(name), 20) for name in names)])
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
