"""What is known of the fields of a request.

A request is what a verb is asked for, in the words of whoever asks: a frozen dataclass whose
fields carry an ``Option`` or an ``Argument``, those that must be given in ``Annotated``, the others
as ``option(default, ...)`` or ``argument(default, ...)``. Flags, Python arguments, axes of sweeps,
settings in ``trtbench.toml`` and the pages of the reference are made from it, so that a new field
is one line.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Generic, Literal, ParamSpec, TypeVar, Union

from trtbench.errors import UsageError, meant

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
    """Raises a ``UsageError`` for what has no meaning."""
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
    """A sweep may vary it."""
    setting: bool = False
    """``[defaults]`` in ``trtbench.toml`` may say it."""
    unless: tuple[str, ...] = ()
    """Fields beside which the setting is not taken."""
    python: bool = True
    """Python has it too; ``False`` for what only a command line needs."""
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
            if value is not None:
                _refuse(field, value)


R = TypeVar("R", bound=VerbRequest)


_KNOWN: dict[type[VerbRequest], tuple[RequestField, ...]] = {}


def fields_of(request: type[VerbRequest]) -> tuple[RequestField, ...]:
    """List the fields of a request: what has a place, then its own, then group after group.

    Groups come in the order in which the request names them; the store is last.
    """
    if request not in _KNOWN:
        _KNOWN[request] = _fields(request)
    return _KNOWN[request]


def _fields(request: type[VerbRequest]) -> tuple[RequestField, ...]:
    hints = typing.get_type_hints(request, include_extras=True)
    own = {each.name: each for each in dataclasses.fields(request)}  # type: ignore[arg-type]
    found = [_described(hints[name], own[name]) for name in _names(request)]
    return tuple(sorted(found, key=_place))


def settled(request: R, given: Mapping[str, object]) -> R:
    """Fill what a request leaves open with settings of the same names."""
    found = {}
    for field in fields_of(type(request)):
        about = field.about
        if not isinstance(about, Option) or not about.setting or field.name not in given:
            continue
        beside = (field.name, *about.unless)
        if all(getattr(request, name) is None for name in beside):
            found[field.name] = given[field.name]
    return dataclasses.replace(request, **found) if found else request  # type: ignore[type-var]


def request_from_arguments(request: type[R], said: Mapping[str, object]) -> R:
    """Make a request of a function's arguments; ``None`` is the default of what cannot hold it."""
    return request(
        **{
            field.name: said[field.name]
            for field in fields_of(request)
            if field.name in said
            and (said[field.name] is not None or field.optional or field.is_required)
        }
    )


def converted(request: VerbRequest, target: type[R], **changes: object) -> R:
    """Ask another verb for the same: the fields that both have, meaning the same, are kept."""
    known = {field.name: field.about for field in fields_of(type(request))}
    same = {
        field.name: getattr(request, field.name)
        for field in fields_of(target)
        if known.get(field.name) == field.about
    }
    return target(**{**same, **changes})


def _place(field: RequestField) -> int:
    if isinstance(field.about, Option):
        return 3 if field.name == "store" else 2
    return 1 if field.about.rest else 0


def _names(request: type) -> list[str]:
    names = dict.fromkeys(inspect.get_annotations(request))
    for base in request.__bases__:
        names |= dict.fromkeys(_names(base))
    return list(names)


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _described(hint: object, field: dataclasses.Field[object]) -> RequestField:
    inner, about = hint, field.metadata.get("about")
    if typing.get_origin(hint) is typing.Annotated:
        inner, about = typing.get_args(hint)[:2]
    if about is None:
        raise TypeError(f"the field {field.name} of a request has no Option")
    parts = typing.get_args(inner) if typing.get_origin(inner) in (Union, types.UnionType) else ()
    optional = type(None) in parts
    kept = [part for part in parts if part is not type(None)]
    plain = kept[0] if len(kept) == 1 else (Union[tuple(kept)] if kept else inner)  # noqa: UP007
    return RequestField(
        name=field.name, type=plain, optional=optional, default=_default(field), about=about
    )


def _refuse(field: RequestField, value: object) -> None:
    about = field.about
    if field.choices and value not in field.choices:
        raise UsageError(
            f"{field.flag} {value} has no meaning",
            facts={"known": ", ".join(field.choices)},
            fix=meant(
                str(value), map(str, field.choices), write=lambda word: f"{field.flag} {word}"
            ),
        )
    if field.type is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{field.flag} is a whole number, not {value!r}", fix=f"{field.flag} 1")
    if about.kind is not None and about.kind.check is not None:
        about.kind.check(value)
    if isinstance(about, Option) and isinstance(value, int | float):
        _refuse_range(field.flag, value, about)


def _refuse_range(flag: str, value: float, about: Option) -> None:
    if about.least is not None and value < about.least:
        raise UsageError(
            f"{flag} must be at least {about.least:g}, not {value:g}", fix=f"{flag} {about.least:g}"
        )
    if about.most is not None and value > about.most:
        raise UsageError(
            f"{flag} must be at most {about.most:g}, not {value:g}", fix=f"{flag} {about.most:g}"
        )
