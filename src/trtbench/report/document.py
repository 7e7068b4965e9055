"""A report as values: a document holds sections, a section holds blocks; renderers draw them.

A table is declared once, by its columns; every format draws it from that. A figure is described
as data. Nothing here knows formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from trtbench.core import units
from trtbench.core.run import Finding, Scalar
from trtbench.core.spec import Value
from trtbench.core.units import Bounds, UnitScale, with_minus
from trtbench.report.charts import Chart

Align = Literal["left", "right"]
Fit = Literal["whole", "shorten", "wrap"]
"""What a narrow page may do to a column: nothing, cut the middle out of names, break into lines."""
Tone = Literal["good", "bad", "unclear", "plain"]


class Heading(Value, frozen=True):
    """The head of one table column."""

    key: str
    """Name in data files, with the unit of the values: ``median_s``."""
    title: str
    align: Align = "left"
    rank: int = 0
    """Where width is short the highest rank is left out first; 0 stays."""
    fit: Fit = "whole"


class Cell(Value, frozen=True):
    """One value of a table, as data and as people read it."""

    value: Scalar = None
    text: str | None = None
    """With unit and significant digits; ``None`` shows the value itself."""
    tone: Tone = "plain"

    @property
    def shown(self) -> str:
        if self.text is not None:
            return self.text
        if isinstance(self.value, int | float):
            return with_minus(str(self.value))
        return "–" if self.value is None else str(self.value)


class Text(Value, frozen=True, tag="text", tag_field="kind"):
    """Plain prose; an empty line separates paragraphs."""

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
            raise ValueError(f"table {self.id!r}: a row is not as long as the headings")


class KeyValues(Value, frozen=True, tag="facts", tag_field="kind"):
    """Named facts, one to a line."""

    id: str
    pairs: tuple[tuple[str, Cell], ...]


class Code(Value, frozen=True, tag="code", tag_field="kind"):
    """Something to copy and run, or to read as it stands."""

    text: str
    language: str = "sh"
    caption: str | None = None


class FindingOf(Value, frozen=True):
    """The most severe finding of one code, and the runs that have it."""

    finding: Finding
    runs: tuple[str, ...] = ()
    title: str | None = None
    """The name of the rule, where findings of the code say different things."""
    cases: tuple[tuple[str, str], ...] = ()
    """Runs and messages, where the messages differ."""


class FindingList(Value, frozen=True, tag="findings", tag_field="kind"):
    """Findings, the most severe first."""

    items: tuple[FindingOf, ...]


class Picture(Value, frozen=True, tag="picture", tag_field="kind"):
    """A picture that exists as a file; its id is its file name in the report."""

    id: str
    title: str
    path: str
    caption: str | None = None


class Details(Value, frozen=True, tag="details", tag_field="kind"):
    """Blocks that are folded away until asked for."""

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
    """Blocks under one title, which is empty where the document's own says it all."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Document(Value, frozen=True, kw_only=True):
    """A whole report; ``data`` holds further facts for programs, shown by no renderer but JSON."""

    title: str = ""
    created: str = ""
    sections: tuple[Section, ...]
    data: dict[str, object] = {}
    brief: bool = False
    """Asks renderers that can be short to be so."""

    def blocks(self) -> Iterator[Block]:
        """Iterate over every block, those inside details too."""

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
        """Keep only the figures and pictures named; a section of others alone is left out."""

        def kept(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
            return tuple(
                each.having(blocks=kept(each.blocks)) if isinstance(each, Details) else each
                for each in blocks
                if not isinstance(each, (Figure, Picture)) or each.id in ids
            )

        sections = ((each, kept(each.blocks)) for each in self.sections)
        return self.having(
            sections=tuple(
                each.having(blocks=blocks) for each, blocks in sections if blocks or not each.blocks
            )
        )

    def section(self, id: str) -> Section | None:
        return next((section for section in self.sections if section.id == id), None)


def document_from_blocks(
    id: str, blocks: Iterable[Block], *, title: str = "", created: str = ""
) -> Document:
    """Make a document of one section, which needs no title beside the document's."""
    return Document(title=title, created=created, sections=(Section(id, "", tuple(blocks)),))


def section_of(id: str, title: str, blocks: Iterable[Block]) -> Section | None:
    """Make a section; ``None`` where there are no blocks."""
    found = tuple(blocks)
    return Section(id, title, found) if found else None


def key_values(id: str, pairs: Iterable[tuple[str, Cell | str]]) -> KeyValues:
    """List facts by name; words become cells."""
    cells = ((name, each if isinstance(each, Cell) else Cell(None, each)) for name, each in pairs)
    return KeyValues(id, tuple(cells))


def note_lines(lines: Iterable[str], *, tone: Tone = "plain") -> list[Text]:
    """Write notes below a result."""
    return [Text(f"note: {line}", tone) for line in lines]


# ---- tables


def duration_cell(
    value_s: float | None, *, bounds: Bounds | None = None, unit: UnitScale | None = None
) -> Cell:
    return Cell(value_s, units.text_from_duration(value_s, bounds=bounds, unit=unit))


class Time(NamedTuple):
    """Seconds in a column; with an interval, as many digits are written as are known."""

    value_s: float | None
    bounds: Bounds | None = None


WRITERS: Mapping[str, Callable[[Any], str]] = {
    "seconds": units.text_from_seconds,
    "bytes": units.text_from_bytes,
    "rate": units.text_from_rate,
    "count": units.text_from_count,
    "number": units.text_from_number,
    "share": units.text_from_share,
    "change": units.text_from_change,
    "percent": units.text_from_fraction,
    "frequency": lambda hertz: units.MISSING if hertz is None else f"{hertz / 1e6:.0f} MHz",
}


def cell_of(value: Any, kind: str) -> Cell:
    """Write a value as one of ``WRITERS``, or in a format of Python with its unit (``.1f dB``)."""
    if write := WRITERS.get(kind):
        return Cell(value, write(value))
    form, _, unit = kind.partition(" ")
    text = units.MISSING if value is None else with_minus(f"{value:{form}}")
    return Cell(value, f"{text} {unit}" if unit and value is not None else text)


Read = Callable[[Any], Cell | Scalar | Time]
Column = tuple[Heading, Read]
"""A column of a table: its head, and how it is read off a row."""


def column(
    key: str,
    title: str | None = None,
    get: str | int | Read | None = None,
    kind: str | None = None,
    *,
    rank: int | None = None,
    fit: Fit | None = None,
) -> Column:
    """Declare a column; without a title, one of ``SHARED``.

    ``get`` reads the value off a row, or names the row's attribute (by default the key) or place.
    ``kind`` is ``time`` (in the unit of the table), a kind of ``cell_of``, or ``right`` for others.
    """
    known, usual = SHARED.get(key, (None, "")) if title is None else (None, "")
    if known is not None:
        heading = known.having(rank=known.rank if rank is None else rank, fit=fit or known.fit)
    else:
        side: Align = "right" if kind else "left"
        name = key if title is None else title
        heading = Heading(key, name, side, rank or 0, fit or "whole")
    read: Read = attrgetter(key)
    if get is not None:
        places = {str: attrgetter, int: itemgetter}
        read = places[type(get)](get) if isinstance(get, (str, int)) else get
    kind = usual if kind is None else kind

    def cell(row: Any) -> Cell | Scalar | Time:
        value = read(row)
        if isinstance(value, (Cell, Time)) or kind in ("", "right"):
            return value
        return Time(value) if kind == "time" else cell_of(value, kind)  # type: ignore[arg-type]

    return heading, cell


def table(
    id: str,
    rows: Iterable[Any],
    columns: Iterable[Column],
    *,
    caption: str | None = None,
    unit: UnitScale | None = None,
) -> Table:
    """Make a table with a line for each row; ``unit`` is that of all times in it."""
    columns = list(columns)

    def cell(value: Cell | Scalar | Time) -> Cell:
        if isinstance(value, Time):
            return duration_cell(value.value_s, bounds=value.bounds, unit=unit)
        return value if isinstance(value, Cell) else Cell(value)

    lines = tuple(tuple(cell(read(row)) for _, read in columns) for row in rows)
    return Table(id, tuple(heading for heading, _ in columns), lines, caption)


SHARED: dict[str, tuple[Heading, str]] = {
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
        (Heading("network", "Network", fit="shorten"), ""),
        (Heading("p99_s", "p99", "right", 3), "time"),
        (Heading("precision", "Precision", rank=1), ""),
        (Heading("protocol", "Protocol"), ""),
        (Heading("run", "Run", fit="shorten"), ""),
        (Heading("runtime", "Runtime", rank=4), ""),
        (Heading("size_bytes", "Size", "right", 5), "bytes"),
    )
}
"""Headings that several tables share, with the kinds of their values.

A narrow terminal leaves out the highest rank first."""
SCORE_TITLES = {"top1": "Prec@1", "top5": "Prec@5", "agreement": "Agreement",
                "mAP": "mAP 50-95"}  # fmt: skip
"""Scores with a more common name."""
LEADING = ("top1", "abs_rel", "map", "ap", "top5", "d1", "rmse", "map50", "ap50")
"""Scores that a narrow terminal keeps longest."""


def score_column(metric: str, place: int, get: Read) -> Column:
    """Declare the column of a score, with its place among all of its table."""
    rank = 1 if metric.lower() in LEADING else 7 + place
    return column(metric, SCORE_TITLES.get(metric, metric), get, "right", rank=rank)


def capitalized(sentence: str) -> str:
    """Begin a sentence with a capital, and leave the rest alone."""
    return f"{sentence[:1].upper()}{sentence[1:]}"
