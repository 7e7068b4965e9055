"""What a PyTorch file is, told from its outside: no code in it is run."""

from __future__ import annotations

import contextlib
import io
import pickletools
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

ArchiveKind = Literal["ExportedProgram", "TorchScript", "pickle", "unknown"]

_MOST_BYTES = 1 << 26
"""The part of a file that names code is small; tensors are not looked at."""

DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError, EOFError)
"""What zipfile raises on archives that are damaged, encrypted or packed in an unknown way."""

_FILE_OPERATORS = re.compile(rb"\b(from_file|save)\b")

_PLAIN = {"torch", "collections", "numpy", "builtins", "__builtin__"}
"""Packages that weights alone may name."""


def archive_kind(path: Path) -> ArchiveKind:
    """Tell a file by the names in its archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except DAMAGE:
        with open(path, "rb") as file:
            return "pickle" if file.read(2)[:1] == b"\x80" else "unknown"
    inner = [name.partition("/")[2] for name in names]
    if any(name.startswith(("models/", "serialized_exported_program")) for name in inner + names):
        return "ExportedProgram"
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return "TorchScript"
    return "pickle" if "data.pkl" in inner else "unknown"


def modules_named(path: Path) -> set[str]:
    """The packages whose code a pickle would run, beyond those that tensors need."""
    found: set[str] = set()
    for data in _pickles(path):
        texts: list[str] = []
        try:
            for operation, argument, _ in pickletools.genops(data):
                if operation.name == "GLOBAL":
                    found.add(str(argument).partition(" ")[0].partition(".")[0])
                elif operation.name == "STACK_GLOBAL" and len(texts) > 1:
                    found.add(texts[-2].partition(".")[0])
                elif isinstance(argument, str):
                    texts.append(argument)
        except Exception:  # a damaged pickle names what it names up to there
            continue
    return found - _PLAIN or (found & {"torch"} if found else set())


def file_operators(path: Path) -> set[str]:
    """The operators in the code of a TorchScript file that read or write files of the machine.

    PyTorch has no others whose arguments are names of files. A part that is too large to be looked
    at, or cannot be, counts as one.
    """
    found: set[bytes] = set()
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(".py"):
                    continue
                if member.file_size > _MOST_BYTES:
                    return {"code that is too large to be looked at"}
                found |= set(_FILE_OPERATORS.findall(archive.read(member)))
    except DAMAGE:
        return {"code that cannot be looked at"}
    return {f"torch.{each.decode()}" for each in found}


def _pickles(path: Path) -> list[bytes]:
    try:
        return list(_packed(path))
    except DAMAGE:
        with open(path, "rb") as file:
            return [file.read(_MOST_BYTES)]


def _packed(source: Path | io.BytesIO) -> Iterator[bytes]:
    """List the pickles of an archive, and of the archives in it."""
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if member.file_size > _MOST_BYTES:
                continue
            if member.filename.endswith(".pkl"):
                yield archive.read(member)
            elif member.filename.endswith(".pt") and isinstance(source, Path):
                with contextlib.suppress(*DAMAGE):
                    yield from _packed(io.BytesIO(archive.read(member)))
