"""Conditions on results: ``p99<5ms and top1>=baseline-0.5%``, read and evaluated without eval().

``baseline`` alone stands for the other side's quantity of the baseline; ``baseline.p99`` names it.
What is not known makes a condition unknown, never true.

A bare number between two shares is in points of per cent, as tables show them: ``baseline-0.5`` is
``baseline-0.5%``. A limit of its own needs its sign: ``top1>=0.7`` may mean 0.7 % or 70 %.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from trtbench.domain.spec import Value
from trtbench.errors import UsageError, near_miss
from trtbench.units import BYTES, HERTZ, SECONDS

T = TypeVar("T")
Content = float | str | None
Row = Mapping[str, Content]

EXAMPLE = "p99<5ms and top1>=baseline-0.5%"
BASELINE = "baseline"
DEEPEST = 50
"""Brackets within brackets; more is a mistake, and would exhaust Python's stack."""

LONGEST = 300
"""Words and signs of a condition, for the same reason."""

Kind = Literal["time", "size", "rate", "share", "level", "count"]
"""What a quantity is, as far as its unit goes."""

UNITS: Mapping[str, float] = {**SECONDS, **BYTES, **HERTZ, "%": 0.01, "dB": 1.0}
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(SECONDS, "time"), **dict.fromkeys(BYTES, "size"),
    **dict.fromkeys(HERTZ, "rate"), "%": "share", "dB": "level",
}  # fmt: skip
_NEEDED: Mapping[Kind, str] = {"time": "{:g}ms", "size": "{:g}MiB"}
"""How numbers without a unit are to be written where several units are usual."""
_UNIT = "|".join(sorted((re.escape(name) for name in UNITS), key=len, reverse=True))
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:\s*(?P<unit>{_UNIT})(?![\w]))?
    | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign><=|>=|==|!=|<|>|=|[-+*/()])
    )""",
    re.VERBOSE,
)
_RELATION = re.compile(
    r"(?P<name>[A-Za-z_]\w*(?:\.\w+)*)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>[^<>=!]+)"
)
_RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
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


def condition_from_text(
    text: str, *, names: Iterable[str], kinds: Mapping[str, Kind] | None = None
) -> Condition:
    """Read a condition; every name in it must be one of these.

    A number beside a quantity of a known kind has a unit of that kind; times, sizes and shares are
    never without one.
    """
    known = frozenset(names), kinds or {}
    return _parsed(_in_points(text, *known), *known)[0]


def understood(text: str, *, names: Iterable[str], kinds: Mapping[str, Kind]) -> str:
    """Write a condition as it was understood: with every per cent sign that it means."""
    return _in_points(text, frozenset(names), kinds)


def _in_points(text: str, names: frozenset[str], kinds: Mapping[str, Kind]) -> str:
    """Put the sign of per cent behind the bare numbers that are points of it."""
    for end in sorted(_parsed(text, names, kinds)[1], reverse=True):
        text = f"{text[:end]}%{text[end:]}"
    return text


def _parsed(
    text: str, names: frozenset[str], kinds: Mapping[str, Kind]
) -> tuple[Condition, set[int]]:
    """Read a condition, and where bare numbers end in it that are points of per cent."""
    parser = _Parser(text, names, kinds)
    condition = parser.either()
    parser.demand_end()
    return condition, parser.points


def parts_of_relation(text: str) -> tuple[str, str, str] | None:
    """Divide ``p99 < 5ms`` into name, sign and limit, for who knows the unit of the name."""
    match = _RELATION.fullmatch(text.strip())
    return (match["name"], match["sign"], match["limit"]) if match else None


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


class _Parser:
    """Reads from left to right; each method is one rule of the grammar."""

    def __init__(self, text: str, names: frozenset[str], kinds: Mapping[str, Kind]) -> None:
        self._text, self._names, self._kinds = text, names, kinds
        self._tokens = _tokens(text)
        self.points: set[int] = set()
        self._place = 0
        self._depth = 0

    def either(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._negation))

    def demand_end(self) -> None:
        if self._place < len(self._tokens):
            raise self._error(f"{self._tokens[self._place][1]!r} is too much")

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._take("name", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Join(word=word, parts=tuple(parts))

    def _negation(self) -> Condition:
        if self._take("name", "not"):
            return Join(word="not", parts=(self._negation(),))
        begin, depth = self._place, self._depth
        if self._take("sign", "("):
            # A bracket opens a condition or a sum; what follows it decides.
            try:
                return self._bracket(self.either)
            except UsageError:
                self._place, self._depth = begin, depth
        return self._relation()

    def _relation(self) -> Relation:
        left = self._sum()
        kind, sign = self._peek()
        if kind != "sign" or sign not in _RELATIONS:
            raise self._error("a comparison such as < or >= is missing")
        self._place += 1
        right = self._sum()
        self._demand_units([*_addends(left), *_addends(right)])
        pair = _with_baseline(left, right, self._error), _with_baseline(right, left, self._error)
        left, right = pair
        return Relation(sign=sign, left=left, right=right)

    def _demand_units(self, addends: list[Term]) -> None:
        """Refuse a number whose unit is another than the quantity's, or that lacks one.

        Between two shares a bare one is an allowance, and half of all is none: points of per cent.
        """
        names = [each.name for each in addends if isinstance(each, Name)]
        kinds = {name: self._kinds[name] for name in names if name in self._kinds}
        for number in addends:
            if not isinstance(number, Number) or not (number.value or number.unit):
                continue
            if not number.unit and "share" in kinds.values() and len(names) > 1:
                self.points.add(number.end)
                continue
            for name, kind in kinds.items():
                if _KINDS.get(number.unit, "count") != kind:
                    self._refuse_unit(number, name, kind)

    def _refuse_unit(self, number: Number, name: str, kind: Kind) -> None:
        """A bare number beside a time or a share: nobody knows whether ms or s, 1 or % is meant."""
        if number.unit:
            way = f"; write baseline*{1 + number.value:g}" if number.unit == "%" else ""
            raise self._error(f"{number} is no {kind}, and {name} is one{way}")
        if kind == "share":
            said = f"{number} % or {100 * number.value:g} %"
            raise self._error(f"{number} has no unit, {said} may be meant; write the %")
        if kind in _NEEDED:
            raise self._error(f"{number} has no unit; write {_NEEDED[kind].format(number.value)}")

    def _sum(self) -> Term:
        return self._chain("+-", lambda: self._chain("*/", self._factor))

    def _chain(self, signs: str, part: Callable[[], Term]) -> Term:
        left = part()
        while self._peek()[0] == "sign" and self._peek()[1] in signs:
            sign = self._peek()[1]
            self._place += 1
            left = Sum(sign=sign, left=left, right=part())
        return left

    def _factor(self) -> Term:
        kind, content = self._peek()
        end = self._tokens[self._place][2] if kind != "end" else 0
        self._place += 1
        if kind == "sign" and content == "-":
            return Sum(sign="-", left=Number(value=0.0), right=self._factor())
        if kind == "sign" and content == "(":
            return self._bracket(self._sum)
        if kind == "number":
            value, _, unit = content.partition(" ")
            return Number(value=float(value), unit=unit, end=end)
        if kind == "text":
            return Word(value=content[1:-1])
        if kind == "name" and content not in ("and", "or", "not"):
            return self._name(content)
        self._place -= 1
        raise self._error("a quantity or a number is missing")

    def _bracket(self, inside: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UsageError("the condition has too many brackets within brackets")
        content = inside()
        if not self._take("sign", ")"):
            raise self._error("a closing bracket is missing")
        self._depth -= 1
        return content

    def _name(self, content: str) -> Name:
        if content == BASELINE:
            return Name(name="", of_baseline=True)
        head, _, rest = content.partition(".")
        of_baseline = head == BASELINE
        name = rest if of_baseline else content
        if name not in self._names:
            guess = near_miss(name, self._names)
            raise UsageError(
                f"there is no quantity called {name!r}",
                facts={"quantities": " ".join(sorted(self._names))},
                fix=f"did you mean {guess}?" if guess else f"put texts in quotes: '{name}'",
            )
        return Name(name=name, of_baseline=of_baseline)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place][:2] if self._place < len(self._tokens) else ("end", "")

    def _take(self, kind: str, content: str) -> bool:
        if self._peek() != (kind, content):
            return False
        self._place += 1
        return True

    def _error(self, problem: str) -> UsageError:
        return UsageError(
            f"the condition {self._text!r} cannot be read: {problem}",
            fix=f"write it like {EXAMPLE}",
        )


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """Divide a condition into kind, content and end of its words, numbers and signs."""
    tokens: list[tuple[str, str, int]] = []
    place, text = 0, text.rstrip()
    while place < len(text):
        if len(tokens) > LONGEST:
            raise UsageError("the condition is too long", facts={"words": f"more than {LONGEST}"})
        match = _TOKEN.match(text, place)
        if match is None:
            raise UsageError(
                f"the condition {text!r} cannot be read at {text[place:].strip()[:10]!r}",
                fix=f"write it like {EXAMPLE}",
            )
        kind = match.lastgroup if match.lastgroup != "unit" else "number"
        assert kind is not None
        content = match[kind]
        if kind == "number":
            unit = match["unit"] or ""
            content = f"{float(match['number']) * (UNITS[unit] if unit else 1.0)!r} {unit}".rstrip()
        tokens.append((kind, content, match.end()))
        place = match.end()
    return tokens


def _with_baseline(term: Term, other: Term, error: Callable[[str], UsageError]) -> Term:
    """Let a bare ``baseline`` stand for the one quantity on the other side."""
    if isinstance(term, Sum):
        return Sum(
            sign=term.sign,
            left=_with_baseline(term.left, other, error),
            right=_with_baseline(term.right, other, error),
        )
    if not isinstance(term, Name) or term.name:
        return term
    names = {each.name for each in _terms(other) if isinstance(each, Name) and each.name}
    if len(names) != 1:
        raise error("baseline needs one quantity on the other side, or a name: baseline.p99")
    return Name(name=names.pop(), of_baseline=True)


def _terms(term: Term) -> list[Term]:
    return [*_terms(term.left), *_terms(term.right)] if isinstance(term, Sum) else [term]


def _addends(term: Term) -> list[Term]:
    """List what is added up in a term; a factor is a number without a unit by right."""
    if not isinstance(term, Sum):
        return [term]
    if term.sign in "*/":
        return [each for each in _terms(term) if isinstance(each, Name)]
    return [*_addends(term.left), *_addends(term.right)]


def _names(condition: Condition) -> list[Name]:
    if isinstance(condition, Join):
        return [name for part in condition.parts for name in _names(part)]
    terms = [*_terms(condition.left), *_terms(condition.right)]
    return [term for term in terms if isinstance(term, Name)]


def _compare(relation: Relation, row: Row, baseline: Row | None) -> bool | None:
    left, right = (_value(each, row, baseline) for each in (relation.left, relation.right))
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        raise UsageError(f"{left!r} and {right!r} cannot be compared", fix="texts stand in quotes")
    return _RELATIONS[relation.sign](left, right)


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
