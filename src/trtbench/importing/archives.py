"""Files in zip and tar files: taken out one by one, within bounds, and looked at as in a folder."""

from __future__ import annotations

import io
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
from trtbench.trtexec.log import LogRun
from trtbench.trtexec.log_text import encoding_of, unpacked
from trtbench.trtexec.sniff import is_archive, kind_of

MOST_MEMBERS, MOST_BYTES = 10_000, 2 << 30
"""What all archives of one command may hold together."""
MOST_RATIO, RATIO_FROM_BYTES = 300, 16 << 20
"""Logs are a tenth to a hundredth of their size when packed; what swells more is none."""
_MOST_DIRECTORY_BYTES, _MOST_HEADER_BYTES = 64 << 20, 16 << 20
_TAIL_BYTES = (1 << 16) + 98
"""Where the end of a zip file's directory is: behind it comes a comment of 64 KiB at most."""
_CHUNK = 1 << 20
HEAD_BYTES = 64 << 10
"""How much of a file is looked at to decide whether it is wanted."""
_ENDINGS = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz")
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError, lzma.LZMAError,
)  # fmt: skip
_FIRST_TIME_S, _LAST_TIME_S = 11 * 365 * 86400.0, 2.0**33
"""Zip files say 1980 where the time is not known."""
_NOTHING = frozenset({"unknown", "empty"})


class TooMuchError(InputError):
    """An archive holds more than is taken out of one."""


def _too_much(shown: str, what: str, first: str) -> TooMuchError:
    return TooMuchError(
        f"{shown} holds more {what} than are taken out",
        facts={"not read": f"from {clean_line(first)} on"},
        fix="unpack it, and import the folder",
    )


class Member(NamedTuple):
    """A file of an archive: where it lies now, or why it was not taken out."""

    name: str
    path: Path | None
    reason: str | None = None


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
    """Takes files out of archives into a folder; its bounds hold for all of them together.

    ``unwanted`` says by a file's name and first bytes why it is left where it is, or ``None``.
    """

    def __init__(
        self,
        folder: Path,
        *,
        unwanted: Callable[[str, bytes], str | None],
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
        with open(path, "rb") as file:  # one that only ends as zip files do may be something else
            is_zip = file.read(4) in (b"PK\3\4", b"PK\5\6")
        try:
            for each in _in_zip(path) if is_zip else _in_tar(path):
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
        name, reason = clean_line(each.name).removeprefix("./"), each.reason
        if reason is not None:
            return Member(name, None, reason)
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
    others, count = 0, 0
    try:
        for member, shown in _members(found, unpacking):
            count += 1
            kind, inside, left = "unknown", list[FilePart](), None
            if member.path is None:
                kind = "archive" if member.reason else "unknown"
                left = Unused(path=shown, kind=kind, reason=member.reason or "")
            else:
                try:
                    each = found_from_path(member.path, named=False, inside=shown)
                    kind = each.kind
                    inside = parts_from_file(each, shelf)
                except (InputError, OSError) as problem:
                    left = broken_file(shown, kind, problem)
                if not inside:
                    member.path.unlink()
                    reason = KINDS.get(kind, KINDS["unknown"])
                    left = left or Unused(path=shown, kind=kind, reason=reason)
            parts += inside
            others += left is not None and left.kind in _NOTHING
            unused += [left] if left is not None and left.kind not in _NOTHING else []
    except (InputError, OSError) as problem:
        unused.append(broken_file(found.shown, "archive", problem, named=found.named))
    kept, again = _without_repeated(parts)
    unused += again
    if not parts and not unused:
        what = f"an archive of {counted(count, 'file')}: {KINDS['unknown']}"
        unused.append(Unused(path=found.shown, kind="archive", reason=what, named=found.named))
    elif others:
        what = f"{counted(others, 'other file')} in it: {KINDS['unknown']}"
        unused.append(Unused(path=found.shown, kind="archive", reason=what))
    return kept, unused


def _members(found: FoundFile, unpacking: Unpacking) -> Iterator[tuple[Member, str]]:
    """List the files of an archive, each with how it is shown."""
    path, archive = found.path, plain(found.path)
    with open(path, "rb") as file:
        packed = unpacked(file, most=MOST_BYTES)
        if packed is not None:
            path = unpacking.unpacked(path, packed.read)
    if packed is not None:
        with open(path, "rb") as file:
            holds_files = is_archive(file.read(512))
        if not holds_files:
            yield Member(path.name, path), archive
            if packed.is_damaged:
                raise InputError(f"{archive} is damaged", fix="copy it again, or make it anew")
            return
    for member in unpacking.members(path, shown=archive):
        yield member, f"{archive}/{member.name}"
    if packed is not None:
        path.unlink()


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
