"""Archives from outside: the files in zip and tar files, taken out one by one, within bounds."""

from __future__ import annotations

import lzma
import os
import tarfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

from trtbench.boundary.names import check_name, file_name_from_text
from trtbench.boundary.texts import clean_line
from trtbench.errors import InputError

MOST_MEMBERS, MOST_BYTES = 10_000, 2 << 30
"""What all archives of one command may hold together."""

MOST_RATIO, RATIO_FROM_BYTES = 300, 16 << 20
"""Logs are a tenth to a hundredth of their size when packed; what swells more is none."""

_MOST_DIRECTORY_BYTES, _MOST_HEADER_BYTES = 64 << 20, 16 << 20
_TAIL_BYTES = (1 << 16) + 98
"""Where the end of a zip file's directory is told: behind it comes a comment of 64 KiB at most."""
_CHUNK = 1 << 20
HEAD_BYTES = 64 << 10
"""How much of a file is shown to whoever decides whether it is wanted."""

_ENDINGS = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz")
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError, lzma.LZMAError,
)  # fmt: skip
_FIRST_TIME_S, _LAST_TIME_S = 11 * 365 * 86400.0, 2.0**33
"""Zip files say 1980 where nobody knows when."""


class TooMuchError(InputError):
    """An archive holds more than is taken out of one."""


class Member(NamedTuple):
    """A file of an archive: where it lies now, or why it was not taken out."""

    name: str
    path: Path | None
    reason: str | None = None


Unwanted = Callable[[str, bytes], "str | None"]
"""Says by a file's name and first bytes why it is left where it is; ``None`` takes it out."""


class _Packed(NamedTuple):
    name: str
    modified_s: float
    open: Callable[[], IO[bytes] | None]
    reason: str | None = None


@dataclass
class _Archive:
    path: Path
    shown: str
    number: int
    left_bytes: int
    alike: Counter[str] = field(default_factory=Counter)


class Unpacking:
    """Takes files out of archives into a folder; its bounds hold for all of them together."""

    def __init__(
        self,
        folder: Path,
        *,
        unwanted: Unwanted,
        most_bytes: int = MOST_BYTES,
        most_members: int = MOST_MEMBERS,
    ) -> None:
        self._folder, self._unwanted = folder, unwanted
        self._left_bytes, self._left_members = most_bytes, most_members
        self._archives = 0

    def members(self, path: Path, *, shown: str | None = None) -> Iterator[Member]:
        """Take out the files of a zip or tar file, one at a time; folders are none.

        An archive that is damaged, or holds more than may be taken out, is an ``InputError`` after
        what came before. ``shown`` is what the archive is called, if not as its file.
        """
        archive = self._archive(path, shown)
        try:
            for each in _in_zip(path) if _is_zip(path) else _in_tar(path):
                self._left_members -= 1
                if self._left_members < 0:
                    raise _too_much(archive.shown, "files", each.name)
                yield self._member(archive, each)
        except _DAMAGE as problem:
            raise InputError(
                f"{archive.shown} is damaged",
                facts={"reason": clean_line(str(problem)) or type(problem).__name__},
                fix="copy it again, or make it anew",
            ) from None

    def unpacked(self, path: Path, read: Callable[[int], bytes]) -> Path:
        """Write out the one file that a packed one holds; it may be a tar file."""
        known = (path.name[: -len(each)] for each in _ENDINGS if path.name.lower().endswith(each))
        each = _Packed(next(known, "") or "unpacked", 0.0, lambda: None)
        archive = self._archive(path, None)
        target = self._target(archive, each.name)
        self._write(archive, each, iter(partial(read, _CHUNK), b""), target)
        return target

    def _archive(self, path: Path, shown: str | None) -> _Archive:
        self._archives += 1
        allowed = max(RATIO_FROM_BYTES, MOST_RATIO * path.stat().st_size)
        return _Archive(path, clean_line(shown or str(path)), self._archives, allowed)

    def _member(self, archive: _Archive, each: _Packed) -> Member:
        name = clean_line(each.name).removeprefix("./")
        if each.reason is not None:
            return Member(name, None, each.reason)
        try:
            target = self._target(archive, each.name)
            stream = each.open()
            assert stream is not None
            with stream:
                head = stream.read(HEAD_BYTES)
                reason = self._unwanted(each.name, head)
                if reason is None:
                    rest = iter(partial(stream.read, _CHUNK), b"")
                    self._write(archive, each, chain([head], rest), target)
        except TooMuchError:
            raise
        except InputError as problem:
            return Member(name, None, problem.message)
        except _DAMAGE as problem:
            return Member(name, None, f"damaged: {clean_line(str(problem))}")
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            return Member(name, None, "its name is that of a folder, too")
        return Member(name, target if reason is None else None, reason)

    def _target(self, archive: _Archive, name: str) -> Path:
        """Choose where a member goes; names that come again have folders of their own."""
        relative = check_name(name.replace("\\", "/"))
        archive.alike[name] += 1
        stem = Path(archive.shown).name
        while (ending := Path(stem).suffix.lower()) in _ENDINGS:
            stem = stem[: -len(ending)]
        place = self._folder / f"{archive.number}.{archive.alike[name]}"
        return place / file_name_from_text(stem) / relative

    def _write(
        self, archive: _Archive, each: _Packed, pieces: Iterable[bytes], target: Path
    ) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            for piece in pieces:
                self._left_bytes -= len(piece)
                archive.left_bytes -= len(piece)
                if min(archive.left_bytes, self._left_bytes) < 0:
                    raise _too_much(archive.shown, "bytes", each.name)
                file.write(piece)
        known = _FIRST_TIME_S < each.modified_s < _LAST_TIME_S
        modified_s = each.modified_s if known else archive.path.stat().st_mtime
        os.utime(target, (modified_s, modified_s))


def _is_zip(path: Path) -> bool:
    """Say whether a file begins as zip files do; one that ends so may be something else."""
    with open(path, "rb") as file:
        return file.read(4) in (b"PK\3\4", b"PK\5\6")


def _in_zip(path: Path) -> Iterator[_Packed]:
    _check_directory(path)
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if not each.is_dir():
                reason = "encrypted; unpack it with its password" if each.flag_bits & 1 else None
                yield _Packed(each.filename, _zip_time(each), partial(archive.open, each), reason)


def _zip_time(each: zipfile.ZipInfo) -> float:
    try:
        return time.mktime((*each.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def _check_directory(path: Path) -> None:
    """Refuse a directory of members that would fill the memory, before it is read."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    at, large = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    if large >= 0:
        size = int.from_bytes(tail[large + 40 : large + 48], "little")
    if size > _MOST_DIRECTORY_BYTES:
        raise _too_much(clean_line(str(path)), "files", "the first")


class _Careful:
    """A tar file of which no header may ask for more than is sensible at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_HEADER_BYTES:
            raise tarfile.ReadError("a header that is too long")
        return self._file.read(size)


def _in_tar(path: Path) -> Iterator[_Packed]:
    with open(path, "rb") as file, tarfile.open(fileobj=_Careful(file), mode="r:") as archive:  # type: ignore[call-overload]
        for each in archive:
            if not each.isdir():
                # A sparse member says that it is large, and brings nothing.
                is_file = each.isreg() and not each.issparse()
                reason = None if is_file else "a link, or no regular file"
                content = partial(archive.extractfile, each)
                yield _Packed(each.name, float(each.mtime), content, reason)


def _too_much(shown: str, what: str, first: str) -> TooMuchError:
    return TooMuchError(
        f"{shown} holds more {what} than are taken out",
        facts={"not read": f"from {clean_line(first)} on"},
        fix="unpack it, and import the folder",
    )
