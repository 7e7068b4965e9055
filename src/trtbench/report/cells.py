"""Cells of tables that hold one number: the value for programs, and as people read it."""

from __future__ import annotations

from trtbench.report.document import Cell
from trtbench.report.numbers import (
    Bounds,
    UnitScale,
    text_from_change,
    text_from_count,
    text_from_duration,
    text_from_number,
    text_from_share,
)
from trtbench.units import text_from_bytes, text_from_fraction, text_from_rate, text_from_seconds


def bytes_cell(value: float | None) -> Cell:
    return Cell(value=value, text=text_from_bytes(value))


def change_cell(value: float | None, *, digits: int = 2) -> Cell:
    return Cell(value=value, text=text_from_change(value, digits=digits))


def count_cell(value: int | None) -> Cell:
    return Cell(value=value, text=text_from_count(value))


def duration_cell(
    value_s: float | None, *, bounds: Bounds | None = None, unit: UnitScale | None = None
) -> Cell:
    return Cell(value=value_s, text=text_from_duration(value_s, bounds=bounds, unit=unit))


def fraction_cell(value: float | None, *, digits: int = 2, signed: bool = False) -> Cell:
    return Cell(value=value, text=text_from_fraction(value, digits=digits, signed=signed))


def number_cell(value: float | None) -> Cell:
    return Cell(value=value, text=text_from_number(value))


def rate_cell(value: float | None, *, what: str = "") -> Cell:
    return Cell(value=value, text=text_from_rate(value, what=what))


def seconds_cell(value_s: float | None) -> Cell:
    return Cell(value=value_s, text=text_from_seconds(value_s))


def share_cell(value: float | None) -> Cell:
    return Cell(value=value, text=text_from_share(value))
