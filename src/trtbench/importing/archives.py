"""Files in zip and tar files: taken out one by one, within bounds, and looked at as in a folder."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

from trtbench.core.errors import InputError
from trtbench.core.safety import check_name, clean_line, file_name_from_text
from trtbench.core.units import counted
from trtbench.importing.files import (
    KINDS,
    FilePart,
    FoundFile,
    TimesShelf,
    Unused,
    broken_file,
    found_from_path,
    parts_from_file,
    plain,
)
from trtbench.trtexec.log_text import encoding_of, unpacked
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.sniff import is_archive, kind_of

MOST_MEMBERS, MOST_BYTES = 10_000, 2 << 30
"""What all archives of one command may hold together."""
MOST_RATIO, RATIO_FROM_BYTES = 300, 16 << 20
"""Logs are a tenth to a hundredth of their size when packed; what swells more is none."""
_MOST_DIRECTORY_BYTES, _MOST_HEADER_BYTES = 64 << 20, 16 << 20
_TAIL_BYTES = (1 << 16) + 98
"""Where the end of a zip file's directory is: behind it comes a comment of 64 KiB at most."""
_CHUNK, _HEAD_BYTES = 1 << 20, 64 << 10
_ENDINGS = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz")
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError, lzma.LZMAError,
)  # fmt: skip
_FIRST_TIME_S, _LAST_TIME_S = 11 * 365 * 86400.0, 2.0**33
"""Zip files say 1980 where the time is not known."""


class TooMuchError(InputError):
    """An archive holds more than is taken out of one."""


def _too_much(shown: str, what: str, first: str) -> TooMuchError:
    return TooMuchError(
        f"{shown} holds more {what} than are taken out",
        facts={"not read": f"from {clean_line(first)} on"},
        fix="unpack it, and import the folder",
    )


class Member(NamedTuple):
    """A file of an archive: how it is shown, and where it is now or why it was not taken out."""

    shown: str
    path: Path | None
    reason: str = ""


class _Packed(NamedTuple):
    name: str
    modified_s: float
    open: Callable[[], IO[bytes] | None]
    reason: str | None = None


class Unpacking:
    """Takes files out of archives into a folder; its bounds hold for all of them together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left_bytes, self._left_members = MOST_BYTES, MOST_MEMBERS
        self._archives = 0

    def members(self, path: Path) -> Iterator[Member]:
        """Take out the files of an archive, or the one that is packed, one at a time.

        An archive that is damaged, or holds more than may be taken out, is an ``InputError`` after
        what came before.
        """
        archive, shown = path, plain(path)
        self._archives += 1
        stem = path.name
        while stem.lower().endswith(_ENDINGS):
            stem = stem.rpartition(".")[0]
        place = self._folder / str(self._archives) / file_name_from_text(stem or "archive")
        self._allowed = max(RATIO_FROM_BYTES, MOST_RATIO * path.stat().st_size)
        with open(path, "rb") as file:
            packed = unpacked(file, most=MOST_BYTES)
            if packed is not None:
                archive = place / path.name.rpartition(".")[0]
                self._write(archive, iter(partial(packed.read, _CHUNK), b""), shown, path.name)
        with open(archive, "rb") as file:
            head = file.read(512)
        if packed is not None and not is_archive(head):
            modified_s = path.stat().st_mtime
            os.utime(archive, (modified_s, modified_s))
            yield Member(shown, archive)
            if packed.is_damaged:
                raise _damaged(shown, "it is cut off")
            return
        try:
            for each in _in_zip(archive) if head[:2] == b"PK" else _in_tar(archive):
                self._left_members -= 1
                if self._left_members < 0:
                    raise _too_much(shown, "files", each.name)
                yield self._member(each, place / "files", shown, path.stat().st_mtime)
        except _DAMAGE as problem:
            raise _damaged(shown, str(problem) or type(problem).__name__) from None

    def _member(self, each: _Packed, place: Path, shown: str, usual_s: float) -> Member:
        name, reason = f"{shown}/{clean_line(each.name).removeprefix('./')}", each.reason
        try:
            target = place / check_name(each.name.replace("\\", "/"))
            while target.exists():  # a name that comes again
                target = target.parent / "again" / target.name
            stream = each.open() if reason is None else None
            if stream is None:
                return Member(name, None, reason or "")
            with stream:
                head = stream.read(_HEAD_BYTES)
                reason = unwanted(each.name, head)
                if reason is None:
                    pieces = chain([head], iter(partial(stream.read, _CHUNK), b""))
                    self._write(target, pieces, shown, each.name)
                    is_known = _FIRST_TIME_S < each.modified_s < _LAST_TIME_S
                    modified_s = each.modified_s if is_known else usual_s
                    os.utime(target, (modified_s, modified_s))
                    return Member(name, target)
        except TooMuchError:
            raise
        except InputError as problem:
            reason = problem.message
        except _DAMAGE as problem:
            reason = f"damaged: {clean_line(str(problem))}"
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            reason = "its name is that of a folder, too"
        return Member(name, None, reason)

    def _write(self, target: Path, pieces: Iterable[bytes], shown: str, name: str) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            for piece in pieces:
                self._left_bytes -= len(piece)
                self._allowed -= len(piece)
                if min(self._allowed, self._left_bytes) < 0:
                    raise _too_much(shown, "bytes", name)
                file.write(piece)


def _damaged(shown: str, reason: str) -> InputError:
    return InputError(
        f"{shown} is damaged",
        facts={"reason": clean_line(reason)},
        fix="copy it again, or make it anew",
    )


def _in_zip(path: Path) -> Iterator[_Packed]:
    # A directory of members that would fill the memory is refused before it is read.
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    at, large = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    if large >= 0:
        size = int.from_bytes(tail[large + 40 : large + 48], "little")
    if size > _MOST_DIRECTORY_BYTES:
        raise _too_much(clean_line(str(path)), "files", "the first")
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            reason = "encrypted; unpack it with its password" if each.flag_bits & 1 else None
            try:
                modified_s = time.mktime((*each.date_time, 0, 0, -1))
            except (ValueError, OverflowError):
                modified_s = 0.0
            yield _Packed(each.filename, modified_s, partial(archive.open, each), reason)


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


def unwanted(name: str, head: bytes) -> str | None:
    """Why a file of an archive is not looked into: a model is large, and other data no text."""
    if unpacked(io.BytesIO(head)) is not None:
        return None
    kind = kind_of(head, name=name)
    if kind in ("onnx", "plan"):
        return "a model; unpack the archive to have it beside its runs"
    if is_archive(head):
        return KINDS["archive"]
    return "" if kind == "unknown" and encoding_of(head) is None else None


def parts_from_archive(
    found: FoundFile, unpacking: Unpacking, shelf: TimesShelf
) -> tuple[list[FilePart], list[Unused]]:
    """Look into an archive; files in it that hold nothing of use are counted, others named."""
    parts: list[FilePart] = []
    unused: list[Unused] = []
    others = 0
    try:
        for shown, path, reason in unpacking.members(found.path):
            inside, kind = list[FilePart](), "archive" if reason else "unknown"
            try:
                if path is not None:
                    each = found_from_path(path, named=False, inside=shown)
                    kind = each.kind
                    inside = parts_from_file(each, shelf)
            except (InputError, OSError) as problem:
                unused.append(broken_file(shown, kind, problem))
                continue
            parts += inside
            if not inside and kind in ("unknown", "empty"):
                others += 1
            elif not inside:
                reason = reason or KINDS.get(kind, KINDS["unknown"])
                unused.append(Unused(path=shown, kind=kind, reason=reason))
    except (InputError, OSError) as problem:
        unused.append(broken_file(found.shown, "archive", problem, named=found.named))
    kept, again = _without_repeated(parts)
    is_empty = not parts and not unused
    if others or is_empty:
        what = f"{counted(others, 'other file')} in it: {KINDS['unknown']}"
        named = found.named and is_empty
        unused.append(Unused(path=found.shown, kind="archive", reason=what, named=named))
    return kept, unused + again


def _without_repeated(parts: Iterable[FilePart]) -> tuple[list[FilePart], list[Unused]]:
    """Leave out logs that stand in an archive twice: build servers keep jobs whole and by step."""
    kept: list[FilePart] = []
    again: list[Unused] = []
    known: dict[object, str] = {}
    for part in parts:
        run, shown = part.value, part.file.shown
        first = shown
        if isinstance(run, LogRun) and run.first_stamp is not None and run.summary is not None:
            stamps = (run.first_stamp, run.last_stamp)
            identity = (run.command, *stamps, repr(run.summary), repr(run.averages))
            first = known.setdefault(identity, shown)
        if first == shown:
            kept.append(part)
            continue
        reason = f"the same run stands in {first.rsplit('/', 1)[-1]}"
        again.append(Unused(path=shown, kind=part.file.kind, reason=reason))
    return kept, again
