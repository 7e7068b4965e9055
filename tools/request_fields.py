"""What requests say of themselves, as text: types as they are written, defaults, groups."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator

from trtbench import verbs
from trtbench.workflows.request.fields import VerbRequest


def requests_by_verb() -> dict[str, type[VerbRequest]]:
    """List the verbs of Python with the request that each takes."""
    found = {}
    for name, function in inspect.getmembers(verbs, inspect.isfunction):
        if function.__module__ == verbs.__name__ and not name.startswith("_"):
            found[name] = _request_of(function)
    return {name: found[name] for name in _in_order(found)}


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


def _request_of(function: object) -> type[VerbRequest]:
    source = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    definition = source.body[0]
    assert isinstance(definition, ast.FunctionDef)
    annotation = definition.args.args[0].annotation
    assert annotation is not None
    request = getattr(verbs, ast.unparse(annotation))
    return typing.cast("type[VerbRequest]", request)


def _in_order(found: dict[str, type[VerbRequest]]) -> Iterator[str]:
    """Keep the order of the file, which is that of the work."""
    return iter(sorted(found, key=lambda name: getattr(verbs, name).__code__.co_firstlineno))


def _annotations(owner: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    definition = tree.body[0]
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            annotated = node.annotation
            assert isinstance(annotated, ast.Subscript)
            assert isinstance(annotated.slice, ast.Tuple)
            found[node.target.id] = ast.unparse(annotated.slice.elts[0])
    return found
