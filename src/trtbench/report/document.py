"""A report as values: a document holds sections, a section holds blocks; renderers draw them.

Does not know formats. A figure is described once, as data, and any renderer can draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from trtbench.domain.result import Finding, Scalar
from trtbench.domain.spec import Value

Align = Literal["left", "right"]
Scale = Literal["linear", "log", "log2", "tail"]
"""``tail`` is for quantiles: as much room from 0.99 to 0.999 as from 0.9 to 0.99."""


class Heading(Value, frozen=True, kw_only=True):
    """The head of one table column."""

    key: str
    """Name in data files, with the unit of the values: ``median_s``."""
    title: str
    align: Align = "left"


class Cell(Value, frozen=True, kw_only=True):
    """One value of a table, as data and as people read it."""

    value: Scalar = None
    text: str | None = None
    """With unit and honest digits; ``None`` shows the value itself."""

    @property
    def shown(self) -> str:
        if self.text is not None:
            return self.text
        return "–" if self.value is None else str(self.value)


class Text(Value, frozen=True, kw_only=True, tag="text", tag_field="kind"):
    """Plain prose; an empty line separates paragraphs."""

    text: str


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
    """A finding, and the names of the runs that have it."""

    finding: Finding
    runs: tuple[str, ...]


class FindingList(Value, frozen=True, kw_only=True, tag="findings", tag_field="kind"):
    """Findings, the most severe first."""

    items: tuple[FindingOf, ...]


class Details(Value, frozen=True, kw_only=True, tag="details", tag_field="kind"):
    """Blocks that are folded away until asked for."""

    summary: str
    blocks: tuple[Block, ...]


class Axis(Value, frozen=True, kw_only=True):
    """An axis of a figure; a range that is ``None`` follows the data."""

    title: str
    unit: str | None = None
    scale: Scale = "linear"
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


class Mark(Value, frozen=True, kw_only=True):
    """A straight line across a panel, with a word beside it."""

    at: float
    text: str
    axis: Literal["x", "y"] = "x"
    role: str = "mark"


class Span(Value, frozen=True, kw_only=True):
    """A shaded stretch of the x axis."""

    low: float
    high: float
    text: str
    role: str = "warm-up"


class Line(Value, frozen=True, kw_only=True):
    """Points that belong together; ``role`` chooses the colour (see ``style``)."""

    name: str | None
    """As the legend shows it; ``None`` keeps it out of the legend."""
    role: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    style: Literal["line", "dotted", "steps", "points", "both", "ring", "beyond"] = "line"
    """``beyond`` marks points that lie outside the drawn range, at its edge."""


class Panel(Value, frozen=True, kw_only=True):
    """One set of axes of a figure; the panels of a figure share their axes' meaning."""

    title: str | None = None
    low: float | None = None
    high: float | None = None
    """Range of the y axis of this panel alone; by default the figure's."""
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    spans: tuple[Span, ...] = ()


class Lines(Value, frozen=True, kw_only=True, tag="lines", tag_field="kind"):
    """Curves: ECDFs, time series, percentile curves, one quantity against another."""

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]


class Bins(Value, frozen=True, kw_only=True):
    """Counts of one group, one for each pair of neighbouring edges."""

    name: str
    role: str
    counts: tuple[int, ...]
    marks: tuple[Mark, ...] = ()
    beyond: str | None = None
    """What lies outside the drawn range, in words."""


class Histogram(Value, frozen=True, kw_only=True, tag="histogram", tag_field="kind"):
    """How often values fall between edges that all groups share."""

    x: Axis
    y: Axis
    edges: tuple[float, ...]
    groups: tuple[Bins, ...]


class BarGroup(Value, frozen=True, kw_only=True):
    """One colour of bars, a value for every category."""

    name: str
    role: str
    values: tuple[float | None, ...]
    labels: tuple[str, ...] = ()


class Bars(Value, frozen=True, kw_only=True, tag="bars", tag_field="kind"):
    """Horizontal bars, from top to bottom, stacked when there are several groups."""

    value: Axis
    category_title: str
    categories: tuple[str, ...]
    """Labels, not keys: they may repeat."""
    groups: tuple[BarGroup, ...]


class Box(Value, frozen=True, kw_only=True):
    """Five numbers of a distribution, and single values outside the whiskers."""

    name: str
    role: str
    low: float
    q1: float
    median: float
    q3: float
    high: float
    outliers: tuple[float, ...] = ()
    beyond: str | None = None


class Boxes(Value, frozen=True, kw_only=True, tag="boxes", tag_field="kind"):
    """Box plots side by side on one axis."""

    value: Axis
    boxes: tuple[Box, ...]


Chart = Lines | Histogram | Bars | Boxes


class Figure(Value, frozen=True, kw_only=True, tag="figure", tag_field="kind"):
    """A picture as data; its id is its file name."""

    id: str
    title: str
    chart: Chart
    caption: str | None = None


Block = Text | Table | KeyValues | Code | FindingList | Details | Figure


class Section(Value, frozen=True, kw_only=True):
    """Blocks under one title."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Document(Value, frozen=True, kw_only=True):
    """A whole report; ``data`` holds further facts for programs, shown by no renderer but JSON."""

    title: str
    created: str
    sections: tuple[Section, ...]
    data: dict[str, object] = {}

    def blocks(self) -> Iterator[Block]:
        """Give every block, those inside details too."""
        for section in self.sections:
            yield from _walk(section.blocks)

    def figures(self) -> list[Figure]:
        return [block for block in self.blocks() if isinstance(block, Figure)]

    def tables(self) -> list[Table]:
        return [block for block in self.blocks() if isinstance(block, Table)]

    def with_figures(self, ids: Sequence[str]) -> Document:
        """Give the same document with only the figures named."""
        sections = tuple(
            replace(each, blocks=_with_figures(each.blocks, ids)) for each in self.sections
        )
        return replace(self, sections=sections)

    def section(self, id: str) -> Section | None:
        return next((section for section in self.sections if section.id == id), None)


def _walk(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from _walk(block.blocks)


def _with_figures(blocks: tuple[Block, ...], ids: Sequence[str]) -> tuple[Block, ...]:
    kept = (each for each in blocks if not isinstance(each, Figure) or each.id in ids)
    return tuple(
        replace(each, blocks=_with_figures(each.blocks, ids)) if isinstance(each, Details) else each
        for each in kept
    )


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
