"""A report as values: a document has sections, a section has blocks.

Tables are declared by their columns and figures are data; renderers convert both to a format.
Nothing here knows formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from trtbench.core import units
from trtbench.core.run import Finding, Scalar
from trtbench.core.samples import Interval
from trtbench.core.spec import Value
from trtbench.core.units import UnitScale, with_minus
from trtbench.report.charts import Chart

Align = Literal["left", "right"]
Fit = Literal["whole", "shorten", "wrap"]
"""How a column fits a narrow page: unchanged, with the middle of names cut out, or wrapped."""
Tone = Literal["good", "bad", "unclear", "plain"]


class Heading(Value, frozen=True):
    key: str  # name in data files, with the unit: `median_s`
    title: str
    align: Align = "left"
    rank: int = 0
    """On narrow terminals, columns with the highest rank are hidden first; 0 is always shown."""
    fit: Fit = "whole"


class Cell(Value, frozen=True):
    """One value of a table, and its text if it differs from the value."""

    value: Scalar = None
    text: str | None = None  # the value with its unit; `None` shows the value itself
    tone: Tone = "plain"

    @property
    def shown(self) -> str:
        if self.text is not None:
            return self.text
        if isinstance(self.value, int | float):
            return with_minus(str(self.value))
        return "–" if self.value is None else str(self.value)


class Text(Value, frozen=True, tag="text", tag_field="kind"):
    """Plain text; an empty line separates paragraphs."""

    text: str
    tone: Tone = "plain"


class Table(Value, frozen=True, tag="table", tag_field="kind"):
    """Rows of typed cells under headings."""

    id: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.headings) for row in self.rows):
            raise ValueError(f"table {self.id!r}: a row and the headings differ in length")


class KeyValues(Value, frozen=True, tag="facts", tag_field="kind"):
    """Names and values, one pair per line."""

    id: str
    pairs: tuple[tuple[str, Cell], ...]


class Code(Value, frozen=True, tag="code", tag_field="kind"):
    """A command or preformatted text."""

    text: str
    language: str = "sh"
    caption: str | None = None


class FindingGroup(Value, frozen=True):
    """The most severe finding of one code, and the runs that have it."""

    finding: Finding
    runs: tuple[str, ...] = ()
    title: str | None = None  # the name of the rule, if the messages differ
    cases: tuple[tuple[str, str], ...] = ()  # runs and messages, if the messages differ


class FindingList(Value, frozen=True, tag="findings", tag_field="kind"):
    """Findings, most severe first."""

    items: tuple[FindingGroup, ...]


class Picture(Value, frozen=True, tag="picture", tag_field="kind"):
    """An existing image file; its id is its file name in the report."""

    id: str
    title: str
    path: str
    caption: str | None = None


class Details(Value, frozen=True, tag="details", tag_field="kind"):
    """Blocks that are collapsed until the reader opens them."""

    summary: str
    blocks: tuple[Block, ...]


class Figure(Value, frozen=True, weakref=True, tag="figure", tag_field="kind"):
    """A chart as data; its id is its file name."""

    id: str
    title: str
    chart: Chart
    caption: str | None = None


Block = Text | Table | KeyValues | Code | FindingList | Details | Figure | Picture


class Section(Value, frozen=True):
    """Blocks under a title, which may be empty."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Document(Value, frozen=True, kw_only=True):
    """A whole report; ``data`` is extra content of its JSON form."""

    title: str = ""
    created: str = ""
    sections: tuple[Section, ...]
    data: dict[str, object] = {}

    def blocks(self) -> Iterator[Block]:
        """Iterate over all blocks, including those inside details."""

        def walk(blocks: tuple[Block, ...]) -> Iterator[Block]:
            for block in blocks:
                yield block
                if isinstance(block, Details):
                    yield from walk(block.blocks)

        for section in self.sections:
            yield from walk(section.blocks)

    def figures(self) -> list[Figure]:
        return [block for block in self.blocks() if isinstance(block, Figure)]

    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks() if isinstance(block, Picture)]

    def tables(self) -> list[Table]:
        return [block for block in self.blocks() if isinstance(block, Table)]

    def with_figures(self, ids: Sequence[str]) -> Document:
        """Return the document with only these figures and pictures, without emptied sections."""

        def kept(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
            return tuple(
                each.having(blocks=kept(each.blocks)) if isinstance(each, Details) else each
                for each in blocks
                if not isinstance(each, (Figure, Picture)) or each.id in ids
            )

        found = ((each, kept(each.blocks)) for each in self.sections)
        left = (each.having(blocks=own) for each, own in found if own or not each.blocks)
        return self.having(sections=tuple(left))

    def section(self, id: str) -> Section | None:
        return next((section for section in self.sections if section.id == id), None)


def document_from_blocks(
    id: str, blocks: Iterable[Block], *, title: str = "", created: str = ""
) -> Document:
    return Document(title=title, created=created, sections=(Section(id, "", tuple(blocks)),))


def optional_section(id: str, title: str, blocks: Iterable[Block]) -> Section | None:
    found = tuple(blocks)
    return Section(id, title, found) if found else None


def key_values(id: str, pairs: Iterable[tuple[str, Cell | str]]) -> KeyValues:
    """Return names and values as a block; strings become cells."""
    cells = ((name, each if isinstance(each, Cell) else Cell(None, each)) for name, each in pairs)
    return KeyValues(id, tuple(cells))


def note_lines(lines: Iterable[str], *, tone: Tone = "plain") -> list[Text]:
    return [Text(f"note: {line}", tone) for line in lines]


# ---- tables


class Time(NamedTuple):
    """A time in a table; its interval determines the number of digits."""

    value_s: float | None
    bounds: Interval | None = None
    mark: str = ""  # follows the unit, such as a star

    def cell(self, unit: UnitScale) -> Cell:
        known = self.value_s is not None and math.isfinite(self.value_s)
        text = units.text_from_duration(self.value_s, bounds=self.bounds, unit=unit)
        return Cell(self.value_s if known else None, f"{text}{self.mark}")


FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    "bytes": units.text_from_bytes,
    "rate": units.text_from_rate,
    "count": units.text_from_count,
    "number": units.text_from_number,
    "share": units.text_from_share,
    "change": units.text_from_change,
    "percent": units.text_from_fraction,
}


def format_cell(value: Any, kind: str) -> Cell:
    """Return a cell; ``kind`` is a key of ``FORMATTERS`` or a Python format (``.1f dB``)."""
    if write := FORMATTERS.get(kind):
        return Cell(value, write(value))
    form, _, unit = kind.partition(" ")
    text = units.MISSING if value is None else with_minus(f"{value:{form}}")
    return Cell(value, f"{text} {unit}" if unit and value is not None else text)


Read = Callable[[Any], Cell | Scalar | Time]
Column = tuple[Heading, Read]
"""A table column: its heading, and a function that gets its value from a row."""


def column(
    key: str,
    title: str | None = None,
    get: str | int | Read | None = None,
    kind: str | None = None,
    *,
    rank: int | None = None,
    fit: Fit | None = None,
) -> Column:
    """Declare a table column; without a title it is the one of this key in ``SHARED_COLUMNS``.

    ``get`` is a function of the row, or an attribute (by default the key) or index of the row.
    ``kind`` is ``time`` (in the unit of the table), as in ``format_cell``, or ``right`` to align.
    """
    if title is None:
        known, usual = SHARED_COLUMNS[key]
        heading = known.having(rank=known.rank if rank is None else rank, fit=fit or known.fit)
        kind = usual if kind is None else kind
    else:
        heading = Heading(key, title, "right" if kind else "left", rank or 0, fit or "whole")
    get, places = key if get is None else get, {str: attrgetter, int: itemgetter}
    read: Read = places[type(get)](get) if isinstance(get, (str, int)) else get

    def cell(row: Any) -> Cell | Scalar | Time:
        value = read(row)
        if isinstance(value, (Cell, Time)) or not kind or kind == "right":
            return value
        return Time(value) if kind == "time" else format_cell(value, kind)  # type: ignore[arg-type]

    return heading, cell


def plain_columns(
    names: Sequence[str],
    rows: Sequence[Sequence[Scalar]],
    text: Callable[[str, Scalar], str | None],
    title: Callable[[str], str] = str,
) -> Iterator[Column]:
    """Declare columns of rows of plain values; narrow terminals hide the last ones first."""

    def cell(place: int, row: Sequence[Scalar]) -> Cell:
        return Cell(row[place], text(names[place], row[place]))

    for place, name in enumerate(names):
        texts = [value for row in rows if isinstance(value := row[place], str)]
        words = any(not each.endswith(" %") for each in texts)
        fit: Fit = "whole" if not words else "wrap" if place else "shorten"
        side, rank = "" if words else "right", max(0, place - 2)
        yield column(name, title(name), partial(cell, place), side, rank=rank, fit=fit)


def table(
    id: str,
    rows: Iterable[Any],
    columns: Iterable[Column],
    *,
    caption: str | None = None,
    unit: UnitScale | None = None,
) -> Table:
    """Return a table with a line for each row.

    ``unit`` is the unit of its times; by default, each column of times has one that suits it.
    """
    columns, rows = list(columns), list(rows)

    def cells(read: Read) -> list[Cell]:
        values = [read(row) for row in rows]
        scale = unit or units.common_unit(x.value_s or 0.0 for x in values if isinstance(x, Time))
        cells = (each.cell(scale) if isinstance(each, Time) else each for each in values)
        return [each if isinstance(each, Cell) else Cell(each) for each in cells]

    lines = tuple(zip(*(cells(read) for _, read in columns), strict=True))
    return Table(id, tuple(heading for heading, _ in columns), lines, caption)


SHARED_COLUMNS: dict[str, tuple[Heading, str]] = {
    heading.key: (heading, kind)
    for heading, kind in (
        (Heading("batch", "Batch", "right", 1), ""),
        (Heading("change", "Change", "right"), "change"),
        (Heading("device", "Device"), ""),
        (Heading("id", "Run", rank=6), ""),
        (Heading("items_per_s", "Items/s", "right", 2), "number"),
        (Heading("median_s", "Median", "right"), "time"),
        (Heading("metric", "Metric"), ""),
        (Heading("model", "Model", fit="shorten"), ""),
        (Heading("p99_s", "p99", "right", 3), "time"),
        (Heading("precision", "Precision", rank=1), ""),
        (Heading("protocol", "Protocol"), ""),
        (Heading("run", "Run", fit="shorten"), ""),
        (Heading("runtime", "Runtime", rank=4), ""),
        (Heading("size_bytes", "Size", "right", 5), "bytes"),
    )
}
"""Headings that several tables share, with the kinds of their values."""
SCORE_TITLES = {"top1": "Top-1", "top5": "Top-5", "agreement": "Agreement", "map": "mAP 50-95"}
"""Titles of scores that have a common name, by their names in JSON and conditions."""
MAIN_SCORES = ("top1", "abs_rel", "map", "ap", "top5", "d1", "rmse", "map50", "ap50")
"""Scores that are hidden last on a narrow terminal."""


def score_column(metric: str, place: int, get: Read) -> Column:
    """Declare the column of a score; a high ``place`` is hidden early on narrow terminals."""
    rank = 1 if metric.lower() in MAIN_SCORES else 7 + place
    return column(metric, score_title(metric), get, "right", rank=rank)


def score_title(metric: str) -> str:
    """Return the one name under which a score is shown, however it is spelled."""
    return SCORE_TITLES.get(metric.lower().replace("-", "").replace("prec@", "top"), metric)


def capitalized(sentence: str) -> str:
    """Return the sentence with its first letter in upper case."""
    return f"{sentence[:1].upper()}{sentence[1:]}"
