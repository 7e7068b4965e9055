"""What a file holds: facts, inputs and outputs, operators or layers."""

from __future__ import annotations

from collections.abc import Iterator

from trtbench.analysis import inspection
from trtbench.analysis.inspection import Inspection
from trtbench.domain.result import Scalar
from trtbench.domain.spec import NO_TENSORS
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.numbers import text_from_count
from trtbench.units import text_from_bytes, text_from_fraction, text_from_seconds, text_from_shape

FIRST_RANK = 2
"""Columns up to the third stay in any width; the others go from the last."""


def document_from_inspection(found: Inspection, *, layers: bool = False) -> Document:
    """Describe a file; every one of its layers is listed only where asked for."""
    pairs = tuple((name, Cell(text=text)) for name, text in _facts(found))
    blocks: list[Block] = [KeyValues(id="facts", pairs=pairs)]
    for name, table in (("summary", found.summary), ("layers", found.layers if layers else None)):
        if table is not None and table.rows:
            blocks.append(_table(name, table))
    blocks += [Text(text=note, tone="unclear") for note in found.notes]
    return document_from_blocks("file", blocks)


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    yield "kind", found.kind
    for name, value in found.facts.items():
        if value is not None:
            yield _title(name), value_text(name, value)
    for title, tensors in (("input", found.inputs), ("output", found.outputs)):
        for each in tensors:
            shape = "" if each.dtype in NO_TENSORS else text_from_shape(each.shape)
            yield title, f"{each.name}  {each.dtype}  {shape}".rstrip()


def _table(id: str, table: inspection.InspectionTable) -> Table:
    headings = []
    for place, name in enumerate(table.columns):
        words = any(isinstance(row[place], str) for row in table.rows)
        headings.append(
            Heading(
                key=name,
                title=_title(name),
                align="left" if words else "right",
                rank=max(0, place - FIRST_RANK),
                fit="shorten" if words and place == 0 else "wrap" if words else "whole",
            )
        )
    rows = [
        [Cell(value=v, text=value_text(n, v)) for n, v in zip(table.columns, row, strict=True)]
        for row in table.rows
    ]
    return table_from_rows(id, headings=tuple(headings), rows=rows)


def _title(name: str) -> str:
    if name.endswith("_per_s"):
        return name.removesuffix("_per_s").replace("_", " ") + "/s"
    for ending in ("_bytes", "_s"):
        name = name.removesuffix(ending)
    return name.replace("_", " ")


def value_text(name: str, value: Scalar) -> str:
    """Write a value in the unit that its name tells."""
    if value is None:
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    if name.endswith("_bytes"):
        return text_from_bytes(value)
    if name.endswith("_per_s"):
        return f"{value:,.1f}".replace(",", " ")
    if name.endswith("_s"):
        return text_from_seconds(value)
    if name.endswith("share"):
        return text_from_fraction(value, digits=1)
    if name == "flops":
        return _scaled(value)
    return f"{value:.4g}" if isinstance(value, float) else text_from_count(value)


def _scaled(value: float) -> str:
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:g}"
