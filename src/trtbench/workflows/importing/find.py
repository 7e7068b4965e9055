"""Which files are meant, and what kind each is."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trtbench.boundary import at_home, check_filled
from trtbench.domain.spec import Value
from trtbench.errors import InputError, near_miss, reading
from trtbench.models.identity import sha256_of
from trtbench.store.directory import RECORD
from trtbench.trtexec.sniff import is_archive, kind_of, kind_of_stream, unpacked

_GLOB = re.compile(r"[*?\[]")
_ROLES = (
    "export",
    "times|timings?|trace",
    "profile|profiling|layer_?latency",
    "graph|layer_?info|layers?|engine_?info|engine_?inspector|inspector",
    "output_?diff|outputs?",
    "build|metadata|engine_?metadata|run_?config",
    "trtexec|stdout|stderr|log|raw|report",
    "summary|percentiles|per_?layer_?times?|(?:latency|enqueue|compute|end_to_end)_?series",
    "latency_?percentiles|bench_?pt_?result|calib|calibration|int8cache",
)
_ROLE = "|".join(_ROLES)
_BEFORE = re.compile(rf"(?:{_ROLE})(?:[._-]+|\Z)", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[._-]+|\A)(?:{_ROLE})\Z", re.IGNORECASE)
_RUN_TOGETHER = re.compile(r"[._-]export(?:Times|Profile|LayerInfo|Output)\Z", re.IGNORECASE)
_ENDINGS = re.compile(
    r"\.(?:json|csv|log|txt|md|out|ipynb|html?|cache|int8cache|profile)\Z", re.IGNORECASE
)
_MODEL_ENDINGS = re.compile(r"\.(?:engine|plan|trt|onnx|pt|pth)\Z", re.IGNORECASE)

_KINDS_BY_NAME = {
    "engine_metadata.json": "toolkit-engine-metadata",
    "run_config.json": "toolkit-run-config",
    "output_diff.json": "toolkit-output-diff",
}
_DEVICE = re.compile(rb'\s*\[\s*\{\s*"Name"\s*:.{1,200}"ComputeCapability"', re.DOTALL)
"""Attributes of a device, as TREx keeps them beside an engine."""


class Unused(Value, frozen=True, kw_only=True):
    """A file that became no part of a run, and why."""

    path: str
    kind: str
    reason: str
    named: bool = False
    """Whether the user named this very file."""
    broken: bool = False
    """Whether the file is damaged, as against one that has nothing to tell."""


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """One file that was asked about."""

    path: Path
    kind: str
    named: bool
    inside: str | None = None
    """Of a file that was taken out of an archive: the archive, and its name in there."""

    @property
    def shown(self) -> str:
        """Name the file as the user knows it."""
        return plain(self.path) if self.inside is None else self.inside

    @property
    def place(self) -> str:
        """Name the file, whatever folder one is in."""
        return plain(Path(self.inside or self.path).absolute())

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def key(self) -> str:
        """What the file's name says beside the part it plays; empty for ``times.json``."""
        return key_of(plain(self.path.name))

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.path)


def plain(path: Path | str) -> str:
    """Write a path so that it can be printed and kept; bytes that are no text are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def key_of(name: str) -> str:
    """Take words like ``times``, ``profile`` or ``stdout`` off a file's name, and its endings."""
    text = _ENDINGS.sub("", name)
    before = None
    while text != before:
        before = text
        text = _RUN_TOGETHER.sub("", text)
        text = _AFTER.sub("", _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text)
    for _ in range(2):  # net.onnx.engine
        text = _MODEL_ENDINGS.sub("", text)
    return text.strip("._-")


def files_from_paths(paths: Sequence[str]) -> tuple[list[tuple[Path, bool]], list[Unused]]:
    """List every file once, with whether it was named itself; folders are searched."""
    found: dict[Path, tuple[Path, bool]] = {}
    left: list[Unused] = []
    for text in paths:
        for path, named in _given(text):
            if path.is_dir():
                for each, real in _below(path, left):
                    found.setdefault(real, (each, False))
            else:
                found[path.resolve()] = (path, named)
    return list(found.values()), left


def found_from_path(path: Path, *, named: bool, inside: str | None = None) -> FoundFile:
    """Tell what kind of file it is by its first bytes, then by its name."""
    shown = inside or plain(path)
    if not path.is_file():
        raise InputError(f"{shown} is no regular file", fix="write it to a file first")
    check_filled(path)
    with reading(shown), open(path, "rb") as file:
        kind, head = kind_of_stream(file, name=path.name)
        is_packed = kind == "unknown" and not file.seek(0) and unpacked(file) is not None
    found: str = kind
    if kind == "unknown":
        found = _KINDS_BY_NAME.get(path.name.lower(), kind)
        found = "device" if _DEVICE.match(head) else found
        inner = kind_of(head, name=path.stem) if is_packed else "unknown"
        is_inside = inner not in ("unknown", "onnx", "plan")
        found = "archive" if is_archive(head) or is_inside else found
    found = found if head.strip() else "empty"
    return FoundFile(path=path, kind=found, named=named, inside=inside)


def _given(text: str) -> Iterator[tuple[Path, bool]]:
    path = at_home(text)
    if path.exists():
        yield path, not path.is_dir()
        return
    # Path.glob takes no absolute pattern.
    pattern = str(path)
    matches = sorted(glob.glob(pattern, recursive=True)) if _GLOB.search(text) else []  # noqa: PTH207
    if not matches:
        raise _nothing(text, path)
    yield from ((Path(each), False) for each in matches)


def _below(folder: Path, left: list[Unused]) -> Iterator[tuple[Path, Path]]:
    """List the files below a folder, each with where it lies when links are followed."""
    for place, folders, names in os.walk(folder):
        here, real = Path(place), Path(place).resolve()
        if RECORD in names:
            reason = "a run of trtbench already; to list it: trtbench runs reindex FOLDER"
            left.append(Unused(path=plain(here), kind="run directory", reason=reason))
            folders.clear()
            continue
        for name in sorted(each for each in folders if each.startswith(".")):
            reason = "a hidden folder, not looked into"
            left.append(Unused(path=plain(here / name), kind="folder", reason=reason))
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            path = here / name
            is_link = path.is_symlink()
            if path.is_file():
                yield path, path.resolve() if is_link else real / name
                continue
            reason = "a link to nothing" if is_link else "no regular file"
            left.append(Unused(path=plain(path), kind="unknown", reason=reason))


def _nothing(text: str, path: Path) -> InputError:
    if _GLOB.search(text):
        return InputError(f"no file matches {text}")
    folder = path.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    guess = near_miss(path.name, names)
    return InputError(
        f"there is no file or folder {text}",
        fix=f"trtbench import {folder / guess}" if guess else "give a file of trtexec, or a folder",
    )
