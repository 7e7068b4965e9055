"""What requests say of themselves, as text: types as they are written, defaults, groups."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
import typing
from types import FunctionType

from trtbench import verbs, verbs_of_runs
from trtbench.workflows.request.fields import VerbRequest

INNER = ("open_store_of",)


def requests_by_verb() -> dict[str, type[VerbRequest]]:
    """List the verbs of Python with the request that each takes."""
    return {name: _request_of(function) for name, function in functions().items()}


@functools.cache
def functions() -> dict[str, FunctionType]:
    """List the verbs of Python in the order of their files, which is that of the work."""
    found = [
        (name, function)
        for module in (verbs, verbs_of_runs)
        for name, function in sorted(
            inspect.getmembers(module, inspect.isfunction),
            key=lambda each: each[1].__code__.co_firstlineno,
        )
        if function.__module__ == module.__name__
        and next(iter(inspect.signature(function).parameters), "") == "request"
    ]
    return {name: function for name, function in found if name not in INNER and name[0] != "_"}


def written_type(request: type[VerbRequest], name: str) -> str:
    """Read the type of a field as its source has it: ``Duration | None``."""
    for owner in request.__mro__:
        if name in inspect.get_annotations(owner):
            return _annotations(owner)[name]
    raise KeyError(name)


def group_of(request: type[VerbRequest], name: str) -> type:
    """Name the class that brings a field along."""
    return next(owner for owner in request.__mro__ if name in inspect.get_annotations(owner))


def default_text(default: object) -> str:
    """Write a default as Python does; what is filled anew each time is ``None``."""
    return "None" if default in ({}, []) else repr(default)


def is_filled(default: object) -> bool:
    """Whether the default is made anew for each request."""
    return default is not dataclasses.MISSING and default in ({}, [])


def _request_of(function: FunctionType) -> type[VerbRequest]:
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = source.body[0]
    assert isinstance(definition, ast.FunctionDef)
    annotation = definition.args.args[0].annotation
    assert annotation is not None
    request = function.__globals__[ast.unparse(annotation)]
    return typing.cast("type[VerbRequest]", request)


@functools.cache
def _annotations(owner: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    definition = tree.body[0]
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind = node.annotation
            if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Annotated":
                assert isinstance(kind.slice, ast.Tuple)
                kind = kind.slice.elts[0]
            found[node.target.id] = ast.unparse(kind)
    return found
