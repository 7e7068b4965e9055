"""The columns of a table in a given width: shortened, broken into lines, or left out by rank.

Knows text and widths; not where tables are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len

from trtbench.report.document import Heading, Table

GAP = 2
LEAST_NAME = 20
"""Names are not shortened below this: they would be told apart, but no longer known."""
LEAST_PROSE = 20
ELLIPSIS = "…"

_UNITS = "%|[nµm]?s|min|h|B|[KMGT]iB|[kMGT]?B|[kMG]?Hz|dB|W|m?J|°C|nats|items/s|batches/s|qps|×"
_WITHIN_NUMBERS = re.compile(rf"(?<=\d) (?=(?:\d{{3}}|{_UNITS})(?![\w/]))")
_GLUE = "\u00a0"


@dataclass(frozen=True, kw_only=True)
class DrawnColumn:
    """One column that is shown: its place in the table and its width."""

    place: int
    width: int


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The columns of a table that are shown, and the titles of those that are not."""

    columns: tuple[DrawnColumn, ...]
    left_out: tuple[str, ...] = ()


def layout_from_table(table: Table, width: int | None) -> TableLayout | None:
    """Fit a table into a width; ``None`` if even the columns that must stay do not fit.

    Without a width, as in a pipe, every column is as wide as it wants to be. A column in which
    nothing stands is not shown.
    """
    texts = [[row[place].shown for row in table.rows] for place in range(len(table.headings))]
    titles = [cell_len(heading.title) for heading in table.headings]
    wanted = list(map(_wanted, titles, texts))
    places = [place for place, column in enumerate(texts) if any(column) or not column]
    if width is None:
        return TableLayout(columns=tuple(DrawnColumn(place=p, width=wanted[p]) for p in places))
    if _total(wanted, places) > width:
        titles = [_stacked(heading) for heading in table.headings]
        wanted = list(map(_wanted, titles, texts))
    least = list(map(min, wanted, map(_least, table.headings, titles, texts)))
    filled, places = places, [place for place in places if table.headings[place].rank == 0]
    if _total(least, places) > width:
        return None
    for place in sorted(filled, key=lambda place: table.headings[place].rank):
        if place not in places and _total(least, [*places, place]) <= width:
            places.append(place)
    places.sort()
    widths = _shared(wanted, least, places, width)
    return TableLayout(
        columns=tuple(DrawnColumn(place=p, width=w) for p, w in zip(places, widths, strict=True)),
        left_out=tuple(table.headings[place].title for place in filled if place not in places),
    )


def lines_in_cell(text: str, heading: Heading, width: int) -> list[str]:
    """Write one cell in a width: names lose their middle, prose is broken into lines."""
    if heading.fit == "shorten" and "\n" not in text:
        return [shortened_to(text, width)]
    if heading.fit == "wrap" or "\n" in text:
        return list(wrapped(text, width, fold=True))
    return [text]


def shortened_to(text: str, width: int) -> str:
    """Cut the middle out of a name that is wider than this."""
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    head = width - 1 - tail
    return _taken(text, head) + ELLIPSIS + _taken(text[::-1], tail)[::-1]


def wrapped(text: str, width: int | None, *, fold: bool = False) -> Iterator[str]:
    """Break prose into lines, never between a number and its unit.

    A word that is wider than a line stands out, so that paths and commands can be copied; only
    where it would spoil a table it is folded.
    """
    for paragraph in text.split("\n"):
        words = _WITHIN_NUMBERS.sub(_GLUE, paragraph).split(" ") if width else [paragraph]
        first, *others = _folded(words, width) if fold and width else words
        line = first
        for word in others:
            joined = f"{line} {word}"
            if width and line.strip() and cell_len(joined) > width:
                yield line.replace(_GLUE, " ")
                joined = word
            line = joined
        yield line.replace(_GLUE, " ")


def _folded(words: Sequence[str], width: int) -> Iterator[str]:
    for word in words:
        while cell_len(word) > width:
            head = _taken(word, width)
            yield head
            word = word[len(head) :]
        yield word


def _stacked(heading: Heading) -> int:
    """Tell how wide a title is whose words may stand one above the other."""
    return max(map(cell_len, heading.title.split(" ") if heading.stack else [heading.title]))


def _wanted(title: int, texts: Sequence[str]) -> int:
    lines = (line for text in texts for line in text.split("\n"))
    return max(title, max(map(cell_len, lines), default=0))


def _least(heading: Heading, title: int, texts: Sequence[str]) -> int:
    """Tell how narrow a column may become: names must still differ, words still be words."""
    if heading.fit == "wrap":
        return max(LEAST_PROSE, title)
    if heading.fit == "whole":
        return _wanted(title, texts)
    width = max(LEAST_NAME, title)
    different = set(texts)
    while len(set(map(partial(shortened_to, width=width), different))) < len(different):
        width += 1
    return width


def _total(widths: Sequence[int], places: Sequence[int]) -> int:
    return sum(widths[place] for place in places) + GAP * (len(places) - 1)


def _shared(wanted: list[int], least: list[int], places: list[int], width: int) -> list[int]:
    """Take what is too much from the widest column that can give, a character at a time."""
    widths = list(wanted)
    while _total(widths, places) > width:
        giving = [place for place in places if widths[place] > least[place]]
        widths[max(giving, key=lambda place: widths[place])] -= 1
    return [widths[place] for place in places]


def _taken(text: str, width: int) -> str:
    """Take as many letters as fit; a letter of Chinese is two wide."""
    taken = 0
    for count, letter in enumerate(text):
        taken += cell_len(letter)
        if taken > width:
            return text[:count]
    return text
