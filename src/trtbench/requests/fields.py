"""The fields of a request, and how people write their values.

A request is what a verb is asked for: a frozen dataclass whose fields carry an ``Option`` or an
``Argument``, those that must be given in ``Annotated``, the others as ``option(default, ...)`` or
``argument(default, ...)``. Flags, Python arguments, axes of sweeps, settings in ``trtbench.toml``
and the pages of the reference are derived from it, so that a new field is one line.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Union

from trtbench.core.errors import UsageError, meant
from trtbench.core.units import (
    bytes_from_text,
    demand_part,
    fraction_from_text,
    hertz_from_text,
    seconds_from_text,
)

P = ParamSpec("P")
T = TypeVar("T")

Travels = Literal[
    "model", "file", "files", "cache", "data", "calibration", "settings", "options", "code", "as-is"
]
"""What goes with a value to another machine: a model with its weights, a file or folder, several
with commas, a file that is added to and comes back, data and what their task reads beside them, the
files that settings of a task or options of a runtime name, the code of ``module:function``; or the
text alone, which means something there."""
WRITTEN_HERE = "written where it is asked for"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How people write a value that is more than a word or a number."""

    metavar: str
    python: str
    """What a Python argument of this kind holds, for the reference."""
    check: Callable[[object], object] | None = None
    read: Callable[[tuple[str, ...]], object] | None = None
    """Makes the value of what was typed, where a flag can be typed several times."""


@dataclass(frozen=True)
class Option:
    """What a field means, and how it is written."""

    help: str
    flags: tuple[str, ...] = ()
    """As typed; by default ``--`` and the field's name."""
    _: dataclasses.KW_ONLY
    kind: Kind | None = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    bare: str | None = None
    """The value of a flag that is typed without one."""
    bare_unless: str = ""
    """Pattern of a word that is the value, where it may be left out."""
    per_side: bool = False
    """May be given once for all sides, or once per side."""
    axis: bool = False
    setting: bool = False
    unless: tuple[str, ...] = ()
    """Fields beside which the setting is not taken."""
    was: tuple[str, ...] = ()
    """Old spellings of the flag, still read."""
    python_help: str | None = None
    """What it means as an argument, where the flag says the opposite."""
    travels: Travels | None = None
    """What goes along to another machine, where it names a file."""
    stays: str = ""
    """Why it does not travel at all."""


@dataclass(frozen=True)
class Argument:
    """A field that is given by its place, not by a flag."""

    help: str
    metavar: str | None = None
    _: dataclasses.KW_ONLY
    kind: Kind | None = None
    needed: bool = True
    """Of several, at least one."""
    rest: bool = False
    """What follows ``--``, passed on as it is; a keyword in Python."""
    was: tuple[str, ...] = ()
    travels: Travels | None = None
    stays: str = ""


class Declared(Generic[P]):
    """Makes a field that may be left out, of its default and of what is known of it."""

    def __init__(self, about: Callable[P, Option | Argument]) -> None:
        self._about = about

    def __call__(self, default: T, *arguments: P.args, **named: P.kwargs) -> T:
        about = {"about": self._about(*arguments, **named)}
        if isinstance(default, dict):  # each request has one of its own
            return dataclasses.field(default_factory=lambda: copy(default), metadata=about)
        return dataclasses.field(default=default, metadata=about)


option = Declared(Option)
argument = Declared(Argument)


@dataclass(frozen=True, kw_only=True)
class RequestField:
    """One field of a request, completely described."""

    name: str
    type: object
    """Without ``None`` and without what is known about it."""
    optional: bool
    default: object
    about: Option | Argument

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may hold; empty when it may hold any."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    @property
    def item(self) -> object:
        """The type of one element, where the field is a series; else ``None``."""
        is_series = typing.get_origin(self.type) in (tuple, Sequence, Collection)
        return typing.get_args(self.type)[0] if is_series else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags as typed; of a switch that can be turned off, both, joined by a slash."""
        assert isinstance(self.about, Option)
        if self.about.flags:
            return self.about.flags
        word = self.name.replace("_", "-")
        has_two = self.type is bool and (self.optional or self.default is True)
        return (f"--{word}/--no-{word}",) if has_two else (f"--{word}",)

    @property
    def flag(self) -> str:
        """The long flag, for messages."""
        if isinstance(self.about, Argument):
            return (self.about.metavar or self.name).upper()
        return self.flags[-1].partition("/")[0]


class VerbRequest:
    """Base of all requests; one that has no meaning cannot be made."""

    def __post_init__(self) -> None:
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if isinstance(field.about, Argument) and field.item is not None:
                if isinstance(value, str | Path | Mapping):  # one of a series, given alone
                    object.__setattr__(self, field.name, (value,))
            elif value is not None:
                _refuse(field, value)


R = TypeVar("R", bound=VerbRequest)


def _refuse(field: RequestField, value: object) -> None:
    about, flag = field.about, field.flag
    if field.choices and value not in field.choices:
        raise UsageError(
            f"{flag} {value} has no meaning",
            facts={"known": ", ".join(field.choices)},
            fix=meant(str(value), map(str, field.choices), write=lambda word: f"{flag} {word}"),
        )
    if field.type is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{flag} is a whole number, not {value!r}", fix=f"{flag} 1")
    if about.kind is not None and about.kind.check is not None:
        about.kind.check(value)
    if isinstance(about, Option) and isinstance(value, int | float):
        for limit, broken, words in (
            (about.least, about.least is not None and value < about.least, "least"),
            (about.most, about.most is not None and value > about.most, "most"),
        ):
            if broken:
                message = f"{flag} must be at {words} {limit:g}, not {value:g}"
                raise UsageError(message, fix=f"{flag} {limit:g}")


_KNOWN: dict[type[VerbRequest], tuple[RequestField, ...]] = {}


def _hints(request: type[VerbRequest]) -> dict[str, Any]:
    """The types of all fields. Python 3.10 refuses the marker of keyword-only fields as a type."""
    found: dict[str, Any] = {}
    for kind in reversed(request.__mro__):
        own = {k: v for k, v in inspect.get_annotations(kind).items() if k != "_"}
        plain = type(kind.__name__, (), {"__annotations__": own, "__module__": kind.__module__})
        found |= typing.get_type_hints(plain, include_extras=True)
    return found


def fields_of(request: type[VerbRequest]) -> tuple[RequestField, ...]:
    """The fields of a request: what has a place, then its own, then group after group.

    Groups come in the order in which the request names them; the store is last.
    """
    if request in _KNOWN:
        return _KNOWN[request]
    hints = _hints(request)
    known = {each.name: each for each in dataclasses.fields(request)}  # type: ignore[arg-type]
    found = []
    for name in _names(request):
        inner, about = hints[name], known[name].metadata.get("about")
        if typing.get_origin(inner) is typing.Annotated:
            inner, about = typing.get_args(inner)[:2]
        if about is None:
            raise TypeError(f"the field {name} of a request has no Option")
        is_union = typing.get_origin(inner) in (Union, types.UnionType)
        parts = typing.get_args(inner) if is_union else (inner,)
        kept = [part for part in parts if part is not type(None)]
        factory = known[name].default_factory
        found.append(
            RequestField(
                name=name,
                type=kept[0] if len(kept) == 1 else Union[tuple(kept)],  # noqa: UP007
                optional=len(kept) < len(parts),
                default=known[name].default if factory is dataclasses.MISSING else factory(),
                about=about,
            )
        )

    def place(field: RequestField) -> int:
        if isinstance(field.about, Option):
            return 3 if field.name == "store" else 2
        return 1 if field.about.rest else 0

    return _KNOWN.setdefault(request, tuple(sorted(found, key=place)))


def _names(request: type) -> list[str]:
    names = dict.fromkeys(name for name in inspect.get_annotations(request) if name != "_")
    for base in request.__bases__:
        names |= dict.fromkeys(_names(base))
    return list(names)


def settled(request: R, given: Mapping[str, object]) -> R:
    """Fill what a request leaves open with settings of the same names."""
    found = {}
    for field in fields_of(type(request)):
        about = field.about
        if not isinstance(about, Option) or not about.setting or field.name not in given:
            continue
        if all(getattr(request, name) is None for name in (field.name, *about.unless)):
            found[field.name] = given[field.name]
    return dataclasses.replace(request, **found) if found else request  # type: ignore[type-var]


def converted(request: VerbRequest, target: type[R], /, **changes: object) -> R:
    """The request of another verb: fields that both have, with the same meaning, are kept."""
    known = {field.name: field.about for field in fields_of(type(request))}
    same = {
        field.name: getattr(request, field.name)
        for field in fields_of(target)
        if known.get(field.name) == field.about
    }
    return target(**{**same, **changes})


Duration = str | float
"""Seconds, or text with a unit: ``"500ms"``."""
Size = str | int
"""Bytes, or text with a unit: ``"8GiB"``."""
Rate = str | float
"""Per second, or text with a unit: ``"500/s"``."""
Fraction = str | float
"""A part of one, or text: ``"3%"``."""
File = str | Path
PerSide = str | Sequence[str | None]
Shapes = Mapping[str, Sequence[int]]
"""Dimensions by the name of the input: ``{"x": (1, 3, 224, 224)}``."""
Pairs = Mapping[str, str]
Words = str | Sequence[str]


def seconds(value: Duration) -> float:
    """Seconds of a number, or of a text with its unit."""
    number = seconds_from_text(value) if isinstance(value, str) else float(value)
    if not 0 <= number < math.inf:
        raise UsageError(f"a length of {number} s has no meaning", fix="write it like 500ms or 3s")
    return number


def size_bytes(value: Size) -> int:
    """Bytes of a number, or of a text with its unit."""
    return bytes_from_text(value) if isinstance(value, str) else value


def hertz(value: Rate) -> float:
    """Times per second of a number, or of a text with its unit."""
    rate = hertz_from_text(value) if isinstance(value, str) else value
    if not 0 < rate < math.inf:
        raise UsageError("a rate of arrivals is above zero and finite", fix="--rate 100/s")
    return rate


def fraction(value: Fraction) -> float:
    """A part of one, of a number or of a text such as ``3%``."""
    return fraction_from_text(value) if isinstance(value, str) else demand_part(value)


def shapes_from_flags(flags: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Read ``name:1x3x224x224``; a comma joins several, as in trtexec."""
    shapes: dict[str, tuple[int, ...]] = {}
    for flag in flags:
        for part in re.split(r",(?=[^,]*:)", flag):
            name, _, dims = part.strip().rpartition(":")
            if not name or not re.fullmatch(r"\d+(x\d+)*", dims):
                fix = "write it like input:1x3x224x224"
                raise UsageError(f"the shape {part!r} cannot be read", fix=fix)
            if name in shapes:
                raise UsageError(f"the input {name} has two shapes", fix="give each input once")
            shapes[name] = tuple(map(int, dims.split("x")))
    return shapes


def pairs_from_flags(flags: Iterable[str]) -> dict[str, str]:
    """Read ``key=value``."""
    pairs = {}
    for flag in flags:
        key, equals, value = flag.partition("=")
        if not equals or not key:
            raise UsageError(f"--opt {flag} cannot be read", fix="write it like threads=2")
        pairs[key.strip()] = value
    return pairs


def profiles_from_flags(flags: Iterable[str]) -> list[dict[str, tuple[int, ...]]]:
    """Read the shapes of each profile: an input that comes again belongs to the next one."""
    profiles: list[dict[str, tuple[int, ...]]] = []
    for text in flags:
        for name, dims in shapes_from_flags((text,)).items():
            if all(name in each for each in profiles):
                profiles.append({})
            next(each for each in profiles if name not in each)[name] = dims
    return profiles


def words_from_text(value: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a text with commas; a list stays one."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _refuse_empty_shapes(value: object) -> None:
    assert isinstance(value, Mapping)
    for name, shape in value.items():
        if any(dim < 1 for dim in shape):
            message = f"the shape {'x'.join(map(str, shape))} of {name!r} holds nothing"
            raise UsageError(message, fix="give dimensions of at least 1")


TIME = Kind(metavar="TIME", python='seconds, or text such as "500ms"', check=seconds)  # type: ignore[arg-type]
SIZE = Kind(metavar="SIZE", python='bytes, or text such as "8GiB"', check=size_bytes)  # type: ignore[arg-type]
RATE = Kind(metavar="RATE", python='per second, or text such as "500/s"', check=hertz)  # type: ignore[arg-type]
PART = Kind(metavar="PERCENT", python='a part of one, or text such as "3%"', check=fraction)  # type: ignore[arg-type]
FILE = Kind(metavar="PATH", python="a path")
SHAPES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input",
    check=_refuse_empty_shapes,
    read=shapes_from_flags,
)
PROFILES = Kind(
    metavar="NAME:1x3x224x224",
    python="dimensions by the name of the input; a list of such, one per profile",
    read=profiles_from_flags,
)
PAIRS = Kind(metavar="KEY=VALUE", python="values by key", read=pairs_from_flags)
LIST = Kind(metavar="LIST", python="a list, or text with commas")
