"""The language of conditions: ``p99<5ms and top1>=baseline-0.5%``.

A text is split into names, numbers with units and operators; Python's parser makes a tree of them,
which is never executed as code. A condition with an unknown value is unknown, never true.

``baseline`` alone is the baseline's value of the quantity on the other side; ``baseline.p99`` names
one. A number without a unit between two shares is in percentage points, as in tables:
``baseline-0.5`` is ``baseline-0.5%``. A limit needs its %: ``top1>=0.7`` may be 0.7 % or 70 %.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from trtbench.core.errors import UsageError, near_miss
from trtbench.core.metrics import Kind
from trtbench.core.units import BYTES, HERTZ, SECONDS

Content = float | str | None
Row = Mapping[str, Content]

EXAMPLE = "NAME<=VALUE with a unit, joined by and or or, such as p99<5ms"
MAX_BRACKETS, MAX_WORDS = 50, 300  # more could exhaust Python's stack
UNITS: Mapping[str, float] = {**SECONDS, **BYTES, **HERTZ, "%": 0.01, "dB": 1.0}
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(SECONDS, "time"), **dict.fromkeys(BYTES, "size"),
    **dict.fromkeys(HERTZ, "rate"), "%": "share", "dB": "level",
}  # fmt: skip
_NEEDED = {"time": "ms", "size": "MiB"}
_RELATIONS: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge), ast.Eq: ("==", operator.eq), ast.NotEq: ("!=", operator.ne),
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.UAdd: operator.add, ast.USub: operator.sub,
}  # fmt: skip
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_NAME = r"[A-Za-z_]\w*(?:@\d+(?:\.\d+)?)?(?:\.\w+)*"  # may have a parameter: `PCK@0.2`
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:\s*(?P<unit>{_UNIT})(?![\w]))?
    | (?P<call>[a-z]+\([^()]*\))
    | (?P<name>{_NAME})
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign><=|>=|==|!=|<|>|=|≤|≥|[-+*/()])
    )""",
    re.VERBOSE,
)
_SIGNS = {"=": "==", "≤": "<=", "≥": ">="}


class _Atom(NamedTuple):
    """A name, a number or a text; the tree refers to it by its index."""

    name: str | None = None
    of_baseline: bool = False
    value: float | str = 0.0
    unit: str = ""
    end: int = 0

    @property
    def is_number(self) -> bool:
        return self.name is None and not isinstance(self.value, str)

    def __str__(self) -> str:
        assert isinstance(self.value, float)
        return f"{self.value / UNITS.get(self.unit, 1.0):g}{self.unit}"


@dataclass(frozen=True)
class Condition:
    """A parsed condition; per cent signs that were implied are written out in ``text``."""

    text: str
    names: tuple[str, ...] = field(compare=False)
    tree: ast.expr = field(compare=False, repr=False)
    atoms: tuple[_Atom, ...] = field(compare=False, repr=False)


class Limit(NamedTuple):
    """One comparison of a quantity with a number: ``p99<5ms``."""

    name: str
    sign: str
    value: float


def condition_from_text(
    text: str,
    *,
    names: Iterable[str] | Callable[[str], bool],
    kinds: Mapping[str, Kind] | Callable[[str], Kind | None] | None = None,
    functions: Iterable[str] = (),
) -> Condition:
    """Parse a condition; every name in it must be one of ``names``.

    A number compared with a quantity of a known kind needs a unit of that kind. A function with
    its brackets is a quantity: ``count(Einsum)``.
    """
    reader = _Reader(text, functions)
    tree = reader.tree()
    known = () if callable(names) else sorted(names)
    is_known = names if callable(names) else known.__contains__
    for atom in reader.atoms:
        if atom.name and not is_known(atom.name):
            guess = near_miss(atom.name, known)
            message = f"there is no quantity called {atom.name!r}"
            fix = f"did you mean {guess}?" if guess else f"put text in quotes: '{atom.name}'"
            raise UsageError(message, facts={"quantities": " ".join(known)}, fix=fix)
    points = reader.check(tree, kinds if callable(kinds) else (kinds or {}).get)
    written = text
    for end in sorted(points, reverse=True):
        written = f"{written[:end]}%{written[end:]}"
    atoms = tuple(
        atom._replace(value=float(atom.value) * 0.01, unit="%")
        if atom.is_number and atom.end in points
        else atom
        for atom in reader.atoms
    )
    own = dict.fromkeys(atom.name for atom in atoms if atom.name and not atom.of_baseline)
    return Condition(text=written, names=tuple(own), tree=tree, atoms=atoms)


def holds(condition: Condition, row: Row, *, baseline: Row | None = None) -> bool | None:
    """Whether a row meets a condition; ``None`` if a value it needs is unknown."""
    return _truth(condition.tree, condition.atoms, row, baseline or {})


def unknown_names(condition: Condition, row: Row) -> list[str]:
    return [name for name in condition.names if row.get(name) is None]


def limits_of(condition: Condition) -> list[Limit] | None:
    """Return the limits that ``and`` joins; ``None`` if the condition has any other form."""
    tree, atoms = condition.tree, condition.atoms
    is_joined = isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And)
    found = []
    for part in tree.values if is_joined else [tree]:  # type: ignore[attr-defined]
        if not isinstance(part, ast.Compare):
            return None
        for left, sign, right in _pairs(part):
            if not _names(left, atoms):  # the number comes first
                left, sign, right = right, _FLIPPED[sign], left
            if not isinstance(left, ast.Name) or _names(right, atoms):
                return None
            atom, limit = atoms[int(left.id[1:])], _value(right, atoms, {}, {})
            if not atom.name or atom.of_baseline or not isinstance(limit, float):
                return None
            found.append(Limit(atom.name, sign, limit))
    return found


class _Reader:
    """Splits a text into atoms and operators, and parses them with Python's parser."""

    def __init__(self, text: str, functions: Iterable[str]) -> None:
        self.text, self.functions = text.rstrip(), tuple(functions)
        self.atoms: list[_Atom] = []

    def refuse(self, problem: str) -> NoReturn:
        message = f"the condition {self.text!r} is not valid: {problem}"
        raise UsageError(message, fix=f"write it like {EXAMPLE}")

    def tree(self) -> ast.expr:
        words = list(self._words())
        if len(words) > MAX_WORDS or words.count("(") > MAX_BRACKETS:
            raise UsageError("the condition is too long", fix="write several conditions")
        try:
            return ast.parse(" ".join(words), mode="eval").body
        except SyntaxError:
            missing = "bracket" if words.count("(") != words.count(")") else "number"
            self.refuse(f"a quantity, a {missing} or a comparison is missing or superfluous")

    def _words(self) -> Iterator[str]:
        place = 0
        while place < len(self.text):
            match = _TOKEN.match(self.text, place)
            call = match["call"] if match else None
            if match and call and call.partition("(")[0] not in self.functions:
                # Not a function of this condition: "and (p99<5ms)" has a bracket after a word.
                match = re.compile(rf"\s*(?P<name>{_NAME})").match(self.text, place)
                call = None
            if match is None:
                self.refuse(f"{self.text[place:].strip()[:20]!r} is unexpected")
            place = match.end()
            found = match.groupdict()
            name = found.get("name")
            if found.get("sign") or name in ("and", "or", "not"):
                sign = found.get("sign") or str(name)
                yield _SIGNS.get(sign, sign)
                continue
            if found.get("number"):
                unit = found["unit"] or ""
                atom = _Atom(value=float(found["number"]) * UNITS.get(unit, 1.0), unit=unit)
                word = re.match(r"\s*(?!(?:and|or|not)\b)([A-Za-zµ]\w*)", self.text[place:])
                if word and not unit:
                    self.refuse(f"{word[1]!r} is not a unit; units are {' '.join(UNITS)}")
            elif found.get("text"):
                atom = _Atom(value=found["text"][1:-1])
            elif name and name.partition(".")[0] == "baseline":
                atom = _Atom(name.partition(".")[2], of_baseline=True)
            else:
                atom = _Atom(name or call)
            self.atoms.append(atom._replace(end=place))
            yield f"_{len(self.atoms) - 1}"

    def check(self, node: ast.expr, kind_of: Callable[[str], Kind | None]) -> set[int]:
        """Raise an error for an invalid tree; returns the ends of numbers that imply a %."""
        if isinstance(node, ast.BoolOp):
            return set().union(*(self.check(part, kind_of) for part in node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.check(node.operand, kind_of)
        if not isinstance(node, ast.Compare):
            self.refuse("a comparison such as < or >= is missing")
        points = set()
        for left, _, right in _pairs(node):
            for side in (left, right):
                for part in ast.walk(side):
                    if isinstance(part, (ast.Compare, ast.BoolOp, ast.Call)):
                        self.refuse("a comparison cannot be compared")
            addends = [x for side in (left, right) for x in _addends(side, self.atoms, kind_of)]
            points |= self._check_units(addends, kind_of)
            for side, other in ((left, right), (right, left)):
                for place in _places(side):
                    if not self.atoms[place].of_baseline or self.atoms[place].name:
                        continue
                    # `baseline` alone means the one quantity on the other side.
                    names = {name for name in _names(other, self.atoms) if name}
                    if len(names) != 1:
                        self.refuse(
                            "baseline needs one quantity on the other side, or a name: baseline.p99"
                        )
                    self.atoms[place] = self.atoms[place]._replace(name=names.pop())
        return points

    def _check_units(self, addends: list[_Atom], kind_of: Callable[[str], Kind | None]) -> set[int]:
        names = [atom.name for atom in addends if atom.name is not None]
        kinds = {name: kind for name in names if (kind := kind_of(name)) is not None}
        points = set()
        for number in addends:
            if not number.is_number or not (number.value or number.unit):
                continue
            assert isinstance(number.value, float)
            if not number.unit and "share" in kinds.values() and len(names) > 1:
                points.add(number.end)
                continue
            for name, kind in kinds.items():
                if _KINDS.get(number.unit, "count") == kind:
                    continue
                if number.unit:
                    way = f"; write baseline*{1 + number.value:g}" if number.unit == "%" else ""
                    self.refuse(f"{name} is a {kind}, but {number} is not{way}")
                if kind == "share":
                    values = f"{number} % or {100 * number.value:g} %"
                    self.refuse(f"{number} has no unit and may mean {values}; add the %")
                if kind in _NEEDED:
                    self.refuse(f"{number} has no unit; write {number}{_NEEDED[kind]}")
        return points


def _pairs(node: ast.Compare) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """Iterate over the comparisons of a chain: ``1ms<p99<5ms`` has two."""
    left = node.left
    for sign, right in zip(node.ops, node.comparators, strict=True):
        yield left, _RELATIONS[type(sign)][0], right
        left = right


def _places(node: ast.expr) -> list[int]:
    return [int(part.id[1:]) for part in ast.walk(node) if isinstance(part, ast.Name)]


def _names(node: ast.expr, atoms: Sequence[_Atom]) -> list[str]:
    return [name for place in _places(node) if (name := atoms[place].name) is not None]


def _addends(
    node: ast.expr, atoms: Sequence[_Atom], kind_of: Callable[[str], Kind | None]
) -> list[_Atom]:
    """Return the atoms of a sum; numbers and counts that multiply or divide need no unit.

    A product of numbers has the unit of one of them; a quotient of two quantities has none.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        factors = [atoms[place] for place in _places(node)]
        names = [each for each in factors if each.name is not None]
        names = [each for each in names if kind_of(each.name or "") != "count"] or names
        units = [each for each in factors if each.is_number and each.unit]
        return [] if len(names) > 1 else names or (units or factors)[:1]
    if isinstance(node, ast.BinOp):
        return [x for side in (node.left, node.right) for x in _addends(side, atoms, kind_of)]
    return [atoms[place] for place in _places(node)]


def _truth(node: ast.expr, atoms: tuple[_Atom, ...], row: Row, baseline: Row) -> bool | None:
    if isinstance(node, ast.UnaryOp):
        inner = _truth(node.operand, atoms, row, baseline)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [_truth(part, atoms, row, baseline) for part in node.values]
        decisive = isinstance(node.op, ast.Or)
    else:
        assert isinstance(node, ast.Compare)
        sides = [_value(each, atoms, row, baseline) for each in (node.left, *node.comparators)]
        parts, decisive = [], False
        for left, sign, right in zip(sides, node.ops, sides[1:], strict=False):
            if left is None or right is None:
                parts.append(None)
                continue
            if isinstance(left, str) != isinstance(right, str):
                message = f"{left!r} and {right!r} cannot be compared"
                raise UsageError(message, fix="put text in quotes")
            parts.append(_RELATIONS[type(sign)][1](left, right))
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _value(node: ast.expr, atoms: tuple[_Atom, ...], row: Row, baseline: Row) -> Content:
    if isinstance(node, ast.Name):
        atom = atoms[int(node.id[1:])]
        if atom.name is None:
            return atom.value
        return (baseline if atom.of_baseline else row).get(atom.name)
    left: Content = 0.0  # -x is 0 - x
    if isinstance(node, ast.UnaryOp):
        right = _value(node.operand, atoms, row, baseline)
    else:
        assert isinstance(node, ast.BinOp)
        left, right = (_value(each, atoms, row, baseline) for each in (node.left, node.right))
    if left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        raise UsageError("text cannot be added", fix=f"write it like {EXAMPLE}")
    if isinstance(node.op, ast.Div) and right == 0:
        return None
    return _ARITHMETIC[type(node.op)](left, right)
