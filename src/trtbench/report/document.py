"""A report as values: a document holds sections, a section holds blocks; renderers draw them.

Does not know formats. A figure is described once, as data, and any renderer can draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from trtbench.domain.result import Finding, Scalar
from trtbench.domain.spec import Value
from trtbench.report.charts import Chart
from trtbench.units import with_minus

Align = Literal["left", "right"]
Fit = Literal["whole", "shorten", "wrap"]
"""What a narrow page may do to a column: nothing, cut the middle out of names, break into lines."""
Tone = Literal["good", "bad", "unclear", "plain"]


class Heading(Value, frozen=True, kw_only=True):
    """The head of one table column."""

    key: str
    """Name in data files, with the unit of the values: ``median_s``."""
    title: str
    align: Align = "left"
    rank: int = 0
    """Where width is short the highest rank is left out first; 0 stays."""
    fit: Fit = "whole"
    stack: bool = False
    """Where width is short the words of the title may stand one above the other."""


class Cell(Value, frozen=True, kw_only=True):
    """One value of a table, as data and as people read it."""

    value: Scalar = None
    text: str | None = None
    """With unit and honest digits; ``None`` shows the value itself."""
    tone: Tone = "plain"

    @property
    def shown(self) -> str:
        if self.text is not None:
            return self.text
        if isinstance(self.value, int | float):
            return with_minus(str(self.value))
        return "–" if self.value is None else str(self.value)


class Text(Value, frozen=True, kw_only=True, tag="text", tag_field="kind"):
    """Plain prose; an empty line separates paragraphs."""

    text: str
    tone: Tone = "plain"


class Table(Value, frozen=True, kw_only=True, tag="table", tag_field="kind"):
    """Rows of typed cells under headings."""

    id: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.headings) for row in self.rows):
            raise ValueError(f"table {self.id!r}: a row is not as long as the headings")


class KeyValues(Value, frozen=True, kw_only=True, tag="facts", tag_field="kind"):
    """Named facts, one to a line."""

    id: str
    pairs: tuple[tuple[str, Cell], ...]


class Code(Value, frozen=True, kw_only=True, tag="code", tag_field="kind"):
    """Something to copy and run, or to read as it stands."""

    text: str
    language: str = "sh"
    caption: str | None = None


class FindingOf(Value, frozen=True, kw_only=True):
    """What several runs may have in common: the gravest finding of one code, and who has it."""

    finding: Finding
    runs: tuple[str, ...]
    title: str | None = None
    """What the rule is called, where findings of the code say different things."""
    cases: tuple[tuple[str, str], ...] = ()
    """Runs and messages, where the messages differ."""


class FindingList(Value, frozen=True, kw_only=True, tag="findings", tag_field="kind"):
    """Findings, the most severe first."""

    items: tuple[FindingOf, ...]


class Card(Value, frozen=True, kw_only=True):
    """One number to see first, what it is about, and how sure it is."""

    title: str
    value: str
    detail: str = ""
    tone: Tone = "plain"


class Cards(Value, frozen=True, kw_only=True, tag="cards", tag_field="kind"):
    """The few numbers a reader came for."""

    items: tuple[Card, ...]


class Picture(Value, frozen=True, kw_only=True, tag="picture", tag_field="kind"):
    """A picture that exists as a file; its id is its file name in the report."""

    id: str
    title: str
    path: str
    caption: str | None = None


class Drawing(Value, frozen=True, kw_only=True, tag="drawing", tag_field="kind"):
    """A picture that draws itself: SVG with its own zoom and search; its id is its file name."""

    id: str
    title: str
    svg: str
    caption: str | None = None


class Details(Value, frozen=True, kw_only=True, tag="details", tag_field="kind"):
    """Blocks that are folded away until asked for."""

    summary: str
    blocks: tuple[Block, ...]


class Figure(Value, frozen=True, kw_only=True, tag="figure", tag_field="kind"):
    """A picture as data; its id is its file name."""

    id: str
    title: str
    chart: Chart
    caption: str | None = None


Block = Text | Table | KeyValues | Code | FindingList | Cards | Details | Figure | Picture | Drawing


class Section(Value, frozen=True, kw_only=True):
    """Blocks under one title, which is empty where the document's own says it all."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Attachment(Value, frozen=True, kw_only=True):
    """A file that travels inside a page; packed with gzip, because most of it is digits."""

    name: str
    """As it is saved by whoever wants it."""
    title: str
    content: bytes


class Document(Value, frozen=True, kw_only=True):
    """A whole report; ``data`` holds further facts for programs, shown by no renderer but JSON."""

    title: str
    created: str
    sections: tuple[Section, ...]
    data: dict[str, object] = {}
    attachments: tuple[Attachment, ...] = ()
    """Raw data for pages to carry; other formats have folders for that."""
    brief: bool = False
    """Asks renderers that can be short to be so."""

    def blocks(self) -> Iterator[Block]:
        """List every block, those inside details too."""
        for section in self.sections:
            yield from _walk(section.blocks)

    def figures(self) -> list[Figure]:
        return [block for block in self.blocks() if isinstance(block, Figure)]

    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks() if isinstance(block, Picture)]

    def drawings(self) -> list[Drawing]:
        return [block for block in self.blocks() if isinstance(block, Drawing)]

    def without_drawings(self) -> Document:
        """Find the same document for programs, which read layers in its tables."""
        kept = tuple(each.having(blocks=_undrawn(each.blocks)) for each in self.sections)
        return self.having(sections=kept)

    def tables(self) -> list[Table]:
        return [block for block in self.blocks() if isinstance(block, Table)]

    def with_figures(self, ids: Sequence[str]) -> Document:
        """Keep only the figures and pictures named; a section of others alone is left out."""
        kept = ((each, _with_figures(each.blocks, ids)) for each in self.sections)
        sections = (
            each.having(blocks=blocks) for each, blocks in kept if blocks or not each.blocks
        )
        return self.having(sections=tuple(sections))

    def section(self, id: str) -> Section | None:
        return next((section for section in self.sections if section.id == id), None)


def _walk(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _walk(block.blocks)


def _undrawn(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(
        each.having(blocks=_undrawn(each.blocks)) if isinstance(each, Details) else each
        for each in blocks
        if not isinstance(each, Drawing)
    )


def _with_figures(blocks: tuple[Block, ...], ids: Sequence[str]) -> tuple[Block, ...]:
    drawn = (Figure, Picture, Drawing)
    kept = (each for each in blocks if not isinstance(each, drawn) or each.id in ids)
    return tuple(
        each.having(blocks=_with_figures(each.blocks, ids)) if isinstance(each, Details) else each
        for each in kept
    )


def document_from_blocks(
    id: str, blocks: Iterable[Block], *, title: str = "", created: str = ""
) -> Document:
    """Make a document of one section, which needs no title beside the document's."""
    section = Section(id=id, title="", blocks=tuple(blocks))
    return Document(title=title, created=created, sections=(section,))


def table_from_rows(
    id: str,
    *,
    headings: tuple[Heading, ...],
    rows: Iterable[Sequence[Cell | Scalar]],
    caption: str | None = None,
) -> Table:
    """Make a table, plain values becoming cells."""
    cells = tuple(
        tuple(each if isinstance(each, Cell) else Cell(value=each) for each in row) for row in rows
    )
    return Table(id=id, headings=headings, rows=cells, caption=caption)
