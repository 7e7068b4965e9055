"""Conditions as people write them: ``p99<5ms and top1>=baseline-0.5%``, read without eval().

``baseline`` alone stands for the other side's quantity of the baseline; ``baseline.p99`` names it.

A bare number between two shares is in points of per cent, as tables show them: ``baseline-0.5`` is
``baseline-0.5%``. A limit of its own needs its sign: ``top1>=0.7`` may mean 0.7 % or 70 %.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from trtbench.analysis.conditions import (
    BASELINE,
    EXAMPLE,
    RELATIONS,
    UNITS,
    Condition,
    Join,
    Name,
    Number,
    QuantityKind,
    Relation,
    Sum,
    Term,
    Word,
    terms_of,
)
from trtbench.errors import UsageError, near_miss
from trtbench.units import BYTES, HERTZ, SECONDS

T = TypeVar("T")


DEEPEST = 50
"""Brackets within brackets; more is a mistake, and would exhaust Python's stack."""


LONGEST = 300
"""Words and signs of a condition, for the same reason."""


_KINDS: Mapping[str, QuantityKind] = {
    **dict.fromkeys(SECONDS, "time"), **dict.fromkeys(BYTES, "size"),
    **dict.fromkeys(HERTZ, "rate"), "%": "share", "dB": "level",
}  # fmt: skip


_NEEDED: Mapping[QuantityKind, str] = {"time": "{:g}ms", "size": "{:g}MiB"}
"""How numbers without a unit are to be written where several units are usual."""


_UNIT = "|".join(sorted((re.escape(name) for name in UNITS), key=len, reverse=True))


_NAME = r"[A-Za-z_]\w*(?:@\d+(?:\.\d+)?)?(?:\.\w+)*"
"""Quantities, also those with a parameter in their name: ``PCK@0.2``."""
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:\s*(?P<unit>{_UNIT})(?![\w]))?
    | (?P<name>{_NAME})
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign><=|>=|==|!=|<|>|=|[-+*/()])
    )""",
    re.VERBOSE,
)


_RELATION = re.compile(rf"(?P<name>{_NAME})\s*(?P<sign><=|>=|<|>)\s*(?P<limit>[^<>=!]+)")


def condition_from_text(
    text: str, *, names: Iterable[str], kinds: Mapping[str, QuantityKind] | None = None
) -> Condition:
    """Read a condition; every name in it must be one of these.

    A number beside a quantity of a known kind has a unit of that kind; times, sizes and shares are
    never without one.
    """
    known = frozenset(names), kinds or {}
    return _parsed(_in_points(text, *known), *known)[0]


def understood(text: str, *, names: Iterable[str], kinds: Mapping[str, QuantityKind]) -> str:
    """Write a condition as it was understood: with every per cent sign that it means."""
    return _in_points(text, frozenset(names), kinds)


def _in_points(text: str, names: frozenset[str], kinds: Mapping[str, QuantityKind]) -> str:
    """Put the sign of per cent behind the bare numbers that are points of it."""
    for end in sorted(_parsed(text, names, kinds)[1], reverse=True):
        text = f"{text[:end]}%{text[end:]}"
    return text


def _parsed(
    text: str, names: frozenset[str], kinds: Mapping[str, QuantityKind]
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


class _Parser:
    """Reads from left to right; each method is one rule of the grammar."""

    def __init__(self, text: str, names: frozenset[str], kinds: Mapping[str, QuantityKind]) -> None:
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
        if kind != "sign" or sign not in RELATIONS:
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

    def _refuse_unit(self, number: Number, name: str, kind: QuantityKind) -> None:
        """Refuse a bare number beside a time or a share: ms or s, 1 or % may be meant."""
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
            raise UsageError(
                "the condition has too many brackets within brackets",
                fix="write it with fewer brackets",
            )
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
            raise UsageError(
                "the condition is too long",
                facts={"words": f"more than {LONGEST}"},
                fix="write a shorter one",
            )
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
    names = {each.name for each in terms_of(other) if isinstance(each, Name) and each.name}
    if len(names) != 1:
        raise error("baseline needs one quantity on the other side, or a name: baseline.p99")
    return Name(name=names.pop(), of_baseline=True)


def _addends(term: Term) -> list[Term]:
    """List what is added up in a term; a factor is a number without a unit by right.

    Of a product of numbers alone the unit is that of any of them.
    """
    if not isinstance(term, Sum):
        return [term]
    if term.sign in "*/":
        factors = terms_of(term)
        names: list[Term] = [each for each in factors if isinstance(each, Name)]
        units: list[Term] = [each for each in factors if isinstance(each, Number) and each.unit]
        return names or (units or factors)[:1]
    return [*_addends(term.left), *_addends(term.right)]
