"""The files a request needs, by content: listed here, put in place where it is carried out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trtbench import boundary
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.spec import Value
from trtbench.errors import InputError
from trtbench.executors._errand import with_files_in
from trtbench.executors._folders import place_blob
from trtbench.executors._request import Bag, Request
from trtbench.models.identity import sha256_of
from trtbench.units import counted

FILES = "files"
MOST_FILES = 2_000_000
"""Of one request; a folder of more was hardly meant."""


class ParcelPart(Value, frozen=True, kw_only=True):
    """One file on its way: where it comes from, what it holds, and its name there."""

    source: str
    sha256: str
    name: str


class Parcel(Value, frozen=True, kw_only=True):
    """A request and the files it needs."""

    request: Request
    parts: tuple[ParcelPart, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders in which nothing is: a class without images is one of the classes."""

    @property
    def contents(self) -> dict[str, Path]:
        """Each content once, with a file here that has it."""
        return {part.sha256: Path(part.source) for part in self.parts}


def parcel_from_request(request: Request) -> Parcel:
    """List all files of the bags; each is read for its hash only when all may travel."""
    found: dict[str, Path] = {}
    for number, bag in request.bags.items():
        for path, name in _listed(bag):
            found[f"{FILES}/{number}/{name}"] = path
            if len(found) > MOST_FILES:
                raise InputError(
                    f"there are more than {MOST_FILES:,} files to send",
                    facts={"folder": Path(bag.folder) / bag.names[0]},
                    fix="name a smaller folder",
                )
    return Parcel(
        request=request.having(bags={}),
        parts=tuple(_part(path, name) for name, path in found.items() if not path.is_dir()),
        folders=tuple(name for name, path in found.items() if path.is_dir()),
    )


def text_of_files(paths: Sequence[Path]) -> str:
    """Name what is sent: the first file, and how many more."""
    more = f" and {counted(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    return f"{paths[0].name}{more}"


def bytes_from_parcel(parcel: Parcel) -> bytes:
    return json_from_value(parcel)


def parcel_from_bytes(data: bytes) -> Parcel:
    return value_from_json(data, Parcel, where="the request")


def place_parcel(parcel: Parcel, *, cache: Path, folder: Path) -> Request:
    """Put the files where they are needed; gives the request with their names there."""

    def target(name: str) -> Path:
        return boundary.inside(folder, name, what="name of a file", where="the request")

    folder.mkdir(parents=True, exist_ok=True)
    for part in parcel.parts:
        place_blob(cache, part.sha256, target(part.name))
    for name in parcel.folders:
        target(name).mkdir(parents=True, exist_ok=True)
    return with_files_in(parcel.request, folder / FILES)


def _part(path: Path, name: str) -> ParcelPart:
    try:
        return ParcelPart(source=str(path), sha256=sha256_of(path), name=name)
    except OSError as problem:
        raise InputError(f"{path} cannot be sent", facts={"reason": problem.strerror}) from None


def _listed(bag: Bag) -> Iterator[tuple[Path, str]]:
    """List the files of a bag, and folders without any.

    What was asked for may be a link; what that refers to may neither be one nor lead out.
    """
    folder = Path(bag.folder)
    for place, name in enumerate(bag.names):
        find = boundary.inside if place else _named
        top = find(folder, name, what="file that belongs to it", where=folder / bag.names[0])
        if not top.is_dir():
            yield top, name
            continue
        for each in _below(top):
            yield each, f"{name}/{each.relative_to(top)}" if each != top else name


def _named(folder: Path, name: str, *, what: str, where: Path) -> Path:
    return folder / boundary.check_name(name, what=what, where=where)


def _below(top: Path) -> Iterator[Path]:
    """List the files below a folder and its empty folders; links stay in it or are refused."""
    for here, folders, files in os.walk(top):
        paths = [Path(here, name) for name in (*folders, *files)]
        for path in paths:
            if path.is_symlink() and (path.is_dir() or not boundary.is_inside(top, path)):
                whither = "to a folder" if path.is_dir() else "that leads out of its folder"
                raise InputError(
                    f"{path} is a link {whither}",
                    fix="put the files themselves there: cp -rL copies what links point to",
                )
        folders.sort()
        yield from sorted(path for path in paths if path.is_file())
        if not paths:
            yield Path(here)
