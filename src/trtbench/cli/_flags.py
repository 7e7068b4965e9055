"""Flags from the fields of a request, and a request from what was typed."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trtbench.workflows.request.fields import Argument, Option, RequestField, VerbRequest, fields_of
from trtbench.workflows.request.kinds import FILE

if TYPE_CHECKING:
    from trtbench.domain.words import Scalar

F = TypeVar("F", bound=Callable[..., None])

ADDED = "trtbench.added"
"""Where a command that adds flags of its own notes their names; they become ``settings``."""


def flags(request: type[VerbRequest]) -> Callable[[F], F]:
    """Find a command the flags of a request, which it is called with as ``request``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_request(**typed: object) -> None:
            function(request=request_from_flags(request, typed), **typed)

        for field in reversed(fields_of(request)):
            if field.name != "settings":
                parameter(field)(with_request)
        return with_request  # type: ignore[return-value]

    return decorate


def command_line() -> str:
    """Write what was typed, for the record."""
    return shlex.join(["trtbench", *sys.argv[1:]])


def request_from_flags(request: type[VerbRequest], typed: dict[str, Any]) -> VerbRequest:
    """Take a request's values out of what click has read."""
    values = {}
    for field in fields_of(request):
        given = typed.pop(field.name, None)
        if given is not None:  # else its default stands
            values[field.name] = _value(field, given)
    added: dict[str, Scalar] = {}
    for name in click.get_current_context().meta.get(ADDED, ()):
        added[name] = typed.pop(name)
    if added:
        values["settings"] = added
    return request(**values)


def parameter(field: RequestField) -> Callable[[F], F]:
    """Make click's parameter of a field."""
    about = field.about
    return _argument(field, about) if isinstance(about, Argument) else _option(field, about)


def _value(field: RequestField, value: Any) -> object:
    about = field.about
    if about.kind is not None and about.kind.read is not None:
        return about.kind.read(value)
    if isinstance(about, Option) and about.per_side:
        return value or None
    return value


def _argument(field: RequestField, about: Argument) -> Callable[[F], F]:
    many = field.item is not None
    metavar = f"[{about.metavar}]..." if about.rest else about.metavar
    return click.argument(
        field.name,
        type=click.UNPROCESSED if about.rest else _type(field),
        nargs=-1 if many else 1,
        required=about.needed and (many or field.is_required) and not about.rest,
        metavar=metavar,
    )


def _option(field: RequestField, about: Option) -> Callable[[F], F]:
    default = None if field.is_required else field.default
    named: dict[str, Any] = {"help": about.help, "metavar": about.metavar}
    if field.type is bool:
        return _switch(field, about, default)
    if about.bare is not None:
        named |= {"cls": ValueIfAny, "looks_like": about.bare_unless, "flag_value": about.bare}
    many = field.item is not None or about.per_side or (about.kind and about.kind.read)
    if about.kind is not None:
        named["metavar"] = about.metavar or (None if about.kind is FILE else about.kind.metavar)
    if default not in (None, (), {}):
        named |= {"default": default, "show_default": True}
    return click.option(
        *field.flags,
        field.name,
        type=_type(field),
        multiple=bool(many),
        required=field.is_required,
        **named,
    )


def _switch(field: RequestField, about: Option, default: object) -> Callable[[F], F]:
    named: dict[str, Any] = {"help": about.help}
    if default is True and "/" not in field.flags[0]:  # --no-wait: there is no flag that says yes
        named |= {"is_flag": True, "callback": lambda context, option, value: not value}
    elif "/" in field.flags[-1]:
        named |= {"default": default, "show_default": default is not None}
    else:
        named |= {"is_flag": True}
    return click.option(*field.flags, field.name, **named)


def _type(field: RequestField) -> Any:
    if field.choices:
        return click.Choice(field.choices)
    if field.about.kind is FILE:
        return click.Path(path_type=Path)
    plain = field.item if field.item is not None else field.type
    return plain if plain in (int, float) else str


class ValueIfAny(click.Option):
    """An option whose value may be left out: ``--telemetry``, ``--telemetry 50ms``.

    click takes the word after such an option for its value, so that ``--telemetry model.engine``
    would lose its model. A word that cannot be the value is given back.
    """

    def __init__(self, *arguments: Any, looks_like: str, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "is_flag": False})
        self._looks_like = re.compile(looks_like, re.IGNORECASE)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            option = parser._long_opt[name]
            option.process = self._sorting(option.process)

    def _sorting(self, process: Callable[[object, Any], None]) -> Callable[[object, Any], None]:
        def sorted_out(value: object, state: Any) -> None:
            if isinstance(value, str) and not self._looks_like.fullmatch(value):
                state.rargs.insert(0, value)
                value = self.flag_value
            process(value, state)

        return sorted_out
