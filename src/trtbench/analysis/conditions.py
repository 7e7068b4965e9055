"""Conditions on results, as values: what they ask for, and whether a row meets them.

What is not known makes a condition unknown, never true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal

from trtbench.domain.spec import Value
from trtbench.errors import UsageError
from trtbench.units import BYTES, HERTZ, SECONDS

Content = float | str | None
Row = Mapping[str, Content]

EXAMPLE = "p99<5ms and top1>=baseline-0.5%"
BASELINE = "baseline"


QuantityKind = Literal["time", "size", "rate", "share", "level", "count"]
"""What a quantity is, as far as its unit goes."""

UNITS: Mapping[str, float] = {**SECONDS, **BYTES, **HERTZ, "%": 0.01, "dB": 1.0}
RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


class Number(Value, frozen=True, kw_only=True):
    """A number in seconds, bytes, per second, or as it stands."""

    value: float
    unit: str = ""
    end: int = 0
    """Where it ends in the text of the condition."""

    def __str__(self) -> str:
        """Write it as it was given."""
        return f"{self.value / UNITS.get(self.unit, 1.0):g}{self.unit}"


class Word(Value, frozen=True, kw_only=True):
    """A text in quotes."""

    value: str


class Name(Value, frozen=True, kw_only=True):
    """A quantity of the row or of its baseline."""

    name: str
    of_baseline: bool = False


class Sum(Value, frozen=True, kw_only=True):
    """Two numbers and a sign between them."""

    sign: str
    left: Term
    right: Term


class Relation(Value, frozen=True, kw_only=True):
    """One comparison."""

    sign: str
    left: Term
    right: Term


class Join(Value, frozen=True, kw_only=True):
    """Conditions joined by ``and``, ``or``; ``not`` has one."""

    word: str
    parts: tuple[Condition, ...]


Term = Number | Word | Name | Sum
Condition = Relation | Join


def holds(condition: Condition, row: Row, *, baseline: Row | None = None) -> bool | None:
    """Tell whether a row meets a condition; ``None`` when too little is known."""
    if isinstance(condition, Relation):
        return _compare(condition, row, baseline)
    parts = [holds(part, row, baseline=baseline) for part in condition.parts]
    if condition.word == "not":
        return None if parts[0] is None else not parts[0]
    decisive = condition.word == "or"
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def names_of(condition: Condition) -> list[str]:
    """List the quantities a condition asks for, each once."""
    return list(dict.fromkeys(name.name for name in _names(condition) if not name.of_baseline))


def unknown_names(condition: Condition, row: Row) -> list[str]:
    """List what a condition asks for and a row does not know."""
    return [name for name in names_of(condition) if row.get(name) is None]


def terms_of(term: Term) -> list[Term]:
    """List the numbers, names and words of a term."""
    return [*terms_of(term.left), *terms_of(term.right)] if isinstance(term, Sum) else [term]


def _names(condition: Condition) -> list[Name]:
    if isinstance(condition, Join):
        return [name for part in condition.parts for name in _names(part)]
    terms = [*terms_of(condition.left), *terms_of(condition.right)]
    return [term for term in terms if isinstance(term, Name)]


def _compare(relation: Relation, row: Row, baseline: Row | None) -> bool | None:
    left, right = (_value(each, row, baseline) for each in (relation.left, relation.right))
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        raise UsageError(f"{left!r} and {right!r} cannot be compared", fix="texts stand in quotes")
    return RELATIONS[relation.sign](left, right)


def _value(term: Term, row: Row, baseline: Row | None) -> Content:
    if isinstance(term, Number | Word):
        return term.value
    if isinstance(term, Name):
        source = (baseline or {}) if term.of_baseline else row
        return source.get(term.name)
    left, right = _value(term.left, row, baseline), _value(term.right, row, baseline)
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        raise UsageError("texts cannot be added", fix=f"write it like {EXAMPLE}")
    if term.sign == "/" and right == 0:
        return None
    return _ARITHMETIC[term.sign](left, right)
