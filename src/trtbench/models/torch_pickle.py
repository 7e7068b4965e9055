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
from types import ModuleType
from typing import Literal

ArchiveKind = Literal["ExportedProgram", "TorchScript", "pickle", "unknown"]

_MOST_BYTES = 1 << 26
"""The part of a file that names code is small; tensors are not looked at."""

_MOST_OPERATIONS = 1_000_000
"""Of all pickles of a file; those of weights have some ten for each tensor."""

DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError, EOFError)
"""What zipfile raises on archives that are damaged, encrypted or packed in an unknown way."""

_FILE_OPERATORS = re.compile(rb"\b(from_file|save|read_file|write_file)\b")

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
    """Find the packages whose code a pickle would run, beyond those that tensors need."""
    found: set[str] = set()
    left = iter(range(_MOST_OPERATIONS))
    for data in _pickles(path):
        texts: list[str] = []
        try:
            for _, (operation, argument, _) in zip(left, pickletools.genops(data), strict=False):
                if operation.name == "GLOBAL":
                    found.add(str(argument).partition(" ")[0].partition(".")[0])
                elif operation.name == "STACK_GLOBAL" and len(texts) > 1:
                    found.add(texts[-2].partition(".")[0])
                elif isinstance(argument, str):
                    texts.append(argument)
        except Exception:  # a damaged pickle names what it names up to there
            continue
    return found - _PLAIN or (found & {"torch"} if found else set())


def file_operators(path: Path, torch: ModuleType) -> set[str]:
    """Find the operators in the code of a TorchScript file that read or write files of the machine.

    PyTorch and torchvision have no others whose arguments are names of files. The archive is read
    by PyTorch itself: a file can have two lists of contents, of which Python's reader takes the
    other. What cannot be looked at counts as one.
    """
    found: set[bytes] = set()
    try:
        if any(member.file_size > _MOST_BYTES for member in _code(path)):
            return {"code that is too large to be looked at"}
        reader = torch._C.PyTorchFileReader(str(path))
        for name in reader.get_all_records():
            if name.endswith(".py"):
                found |= set(_FILE_OPERATORS.findall(reader.get_record(name)))
    except (*DAMAGE, AttributeError):
        return {"code that cannot be looked at"}
    return {f"torch.{each.decode()}" for each in found}


def _code(path: Path) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(path) as archive:
        return [each for each in archive.infolist() if each.filename.endswith(".py")]


def _pickles(path: Path) -> list[bytes]:
    try:
        return list(_packed(path))
    except DAMAGE:
        with open(path, "rb") as file:
            return [file.read(_MOST_BYTES)]


def _packed(source: Path | io.BytesIO) -> Iterator[bytes]:
    """List the pickles of an archive, and of the archives in it."""
    left = _MOST_BYTES
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if not member.filename.endswith((".pkl", ".pt")) or member.file_size > left:
                continue
            left -= member.file_size
            if member.filename.endswith(".pkl"):
                yield archive.read(member)
            elif isinstance(source, Path):
                with contextlib.suppress(*DAMAGE):
                    yield from _packed(io.BytesIO(archive.read(member)))
