"""Names of files in what an errand is asked for, and answers: one for all machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from trtbench import boundary
from trtbench.domain.codec import learned
from trtbench.executors._request import Bag, Request

FILE_MARK = "trtbench-file:"
"""Begins a text that stands for a file, which lies somewhere else on every machine."""
OUTPUT_MARK = "trtbench-output:"
"""Begins a text that stands for a file that an errand wrote."""


def renamed(tree: object, rename: Callable[[str], str]) -> object:
    """Rewrite every text of a tree of plain values; the names of keys stay."""
    if isinstance(tree, str):
        return rename(tree)
    if isinstance(tree, Mapping):
        return {str(key): renamed(value, rename) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [renamed(value, rename) for value in tree]
    return tree


def with_files_in(request: Request, folder: Path) -> Request:
    """Say where on this machine the files are; a name that leads out of the folder is refused."""

    def place(name: str) -> str:
        return str(boundary.inside(folder, name, what="name of a file", where="the request"))

    return _with_places(request, place).having(placed=str(folder))


def with_own_files(request: Request) -> Request:
    """Have a request carried out on the machine that asks: its files are where they are."""
    return _with_places(request, partial(_own_path, request.bags))


def _own_path(bags: Mapping[str, Bag], name: str) -> str:
    number, _, inner = name.partition("/")
    if number not in bags:
        return name
    folder = Path(bags[number].folder)
    return str(
        folder / boundary.check_name(inner, what="file", where="a request") if inner else folder
    )


def _with_places(request: Request, place: Callable[[str], str]) -> Request:
    """Rewrite every name of a file in a request; a text may hold several, joined by commas."""

    def rewrite(text: str) -> str:
        head, *names = text.split(FILE_MARK)
        parts = [*(name.rpartition(",") for name in names[:-1]), *((n, "", "") for n in names[-1:])]
        return head + "".join(f"{place(name)}{comma}{rest}" for name, comma, rest in parts)

    own = renamed(msgspec.to_builtins(request), rewrite)
    return msgspec.convert(own, type=learned(Request))


def with_marks(tree: object, *, files: Path, output: Path) -> object:
    """Hide where this machine has files and outputs, for the way back."""

    def hide(text: str) -> str:
        return text.replace(f"{output}/", OUTPUT_MARK).replace(f"{files}/", FILE_MARK)

    return renamed(tree, hide)


def with_own_names(tree: object, *, bags: Mapping[str, Bag], output: Path) -> object:
    """Name what came back as it is called here; outputs stay within their folder."""

    def path_of(text: str) -> str:
        if text.startswith(OUTPUT_MARK):
            inner = text.removeprefix(OUTPUT_MARK)
            return str(boundary.inside(output, inner, what="output", where="what came back"))
        return _own_path(bags, text.removeprefix(FILE_MARK))

    def name(text: str) -> str:
        if text.startswith((OUTPUT_MARK, FILE_MARK)):
            return path_of(text)
        return within.sub(lambda found: path_of(found[0]), text)  # a command line, for one

    # Names that are known may hold spaces; the others end where a word does.
    sent = [f"{FILE_MARK}{number}/{name}" for number, bag in bags.items() for name in bag.names]
    known = [re.escape(each) + _BENEATH for each in sorted(sent, key=len)[::-1] if " " in each]
    within = re.compile("|".join([*known, rf"(?:{OUTPUT_MARK}|{FILE_MARK})[^\s'\"]+"]))
    return renamed(tree, name)


_BENEATH = r"(?:/[^\s'\"]+|(?=['\"\s]|$))"
