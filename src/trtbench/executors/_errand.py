"""Names of files in what an errand is asked for, and answers: one for all machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from trtbench import boundary
from trtbench.executors._request import Request

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


def with_files_in(asked: dict[str, object], folder: Path) -> dict[str, object]:
    """Say where on this machine the files are; a name that leads out of the folder is refused."""

    def place(text: str) -> str:
        if not text.startswith(FILE_MARK):
            return text
        name = text.removeprefix(FILE_MARK)
        return str(boundary.inside(folder, name, what="name of a file", where="the request"))

    return {key: renamed(value, place) for key, value in asked.items()}


def with_sources(asked: dict[str, object], files: Mapping[str, str]) -> dict[str, object]:
    """Name files as the machine that asks does."""
    own = {FILE_MARK + name: path for name, path in files.items()}
    return {key: renamed(value, lambda text: own.get(text, text)) for key, value in asked.items()}


def with_own_files(request: Request) -> Request:
    """Have an errand carried out on the machine that asks: its files are where they are."""
    if request.errand is None:
        return request
    asked = with_sources(request.errand.asked, request.errand.files)
    return request.having(errand=request.errand.having(asked=asked))


def with_marks(tree: object, *, files: Path, output: Path) -> object:
    """Hide where this machine has files and outputs, for the way back."""

    def hide(text: str) -> str:
        return text.replace(f"{output}/", OUTPUT_MARK).replace(f"{files}/", FILE_MARK)

    return renamed(tree, hide)


def with_own_names(tree: object, *, files: Mapping[str, str], output: Path) -> object:
    """Name what came back as it is called here; outputs stay within their folder."""

    def path_of(text: str) -> str:
        if text.startswith(OUTPUT_MARK):
            inner = text.removeprefix(OUTPUT_MARK)
            return str(boundary.inside(output, inner, what="output", where="what came back"))
        inner = text.removeprefix(FILE_MARK)
        source = next((each for each in files if f"{inner}/".startswith(f"{each}/")), None)
        if source is None or inner == source:
            return inner if source is None else files[source]
        beneath = inner[len(source) + 1 :]
        return str(
            boundary.inside(Path(files[source]), beneath, what="file", where="what came back")
        )

    def name(text: str) -> str:
        if text.startswith((OUTPUT_MARK, FILE_MARK)):
            return path_of(text)
        return within.sub(lambda found: path_of(found[0]), text)  # a command line, for one

    # Names that are known may hold spaces; the others end where a word does.
    known = [re.escape(FILE_MARK + each) + _BENEATH for each in sorted(files, key=len)[::-1]]
    within = re.compile("|".join([*known, rf"(?:{OUTPUT_MARK}|{FILE_MARK})[^\s'\"]+"]))
    return renamed(tree, name)


_BENEATH = r"(?:/[^\s'\"]+|(?=['\"\s]|$))"
