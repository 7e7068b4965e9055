"""Extracts the files of zip and tar archives one at a time, within size limits."""

import io
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from trtbench.core.errors import InputError
from trtbench.core.safety import check_name, clean_line, file_name_from_text
from trtbench.host.process import guarded
from trtbench.host.tar import is_plain, tar_members
from trtbench.trtexec.log import encoding_of, is_packed, unpacked
from trtbench.trtexec.sniff import HEAD_BYTES, is_archive, kind_of

MOST_MEMBERS, MAX_BYTES = 10_000, 2 << 30  # limits of all archives of one command together

MOST_RATIO, RATIO_FROM_BYTES = 300, 16 << 20
"""Packed logs are a tenth to a hundredth of their size; anything that expands more is refused."""
SECONDS, SECONDS_PER_BYTE = 20.0, 1e-7  # how long an archive may take: far beyond any honest one

_MOST_DIRECTORY_BYTES = 64 << 20
_TAIL_BYTES = (1 << 16) + 98  # a zip file's directory is followed by a comment of at most 64 KiB
_EARLIEST_S, _LATEST_S = 11 * 365 * 86400.0, 2.0**33  # zip files state 1980 for an unknown time

_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError,
)  # fmt: skip

Member = tuple[str, "Path | None", str]
"""A file of an archive: its name there, if any, and its path or why it was skipped."""


class _Packed(NamedTuple):
    name: str
    modified_s: float
    open: Callable[[], IO[bytes] | None]
    reason: str = ""


class TooMuchError(InputError):
    """An archive exceeds the limits."""


class Unpacking:
    """Extracts files of archives to a folder; the limits apply to all archives together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes, self._members, self._archives = MAX_BYTES, MOST_MEMBERS, 0

    def members(self, path: Path, shown: str) -> Iterator[Member]:
        """Extract an archive's files; of a damaged or too large one the first, before the error."""
        self._archives += 1

        def unpack() -> tuple[list[Member], InputError | None, int, int]:
            found: list[Member] = []
            try:
                found.extend(self._unpacked(path, shown))  # keeps those before a problem
            except InputError as problem:
                return found, problem, self._bytes, self._members
            return found, None, self._bytes, self._members

        seconds = SECONDS + path.stat().st_size * SECONDS_PER_BYTE
        found, problem, self._bytes, self._members = guarded(unpack, what=shown, seconds=seconds)
        yield from found
        if problem is not None:
            raise problem

    def _unpacked(self, path: Path, shown: str) -> Iterator[Member]:
        place, archive = self._folder / str(self._archives), path
        self._allowed = max(RATIO_FROM_BYTES, MOST_RATIO * path.stat().st_size)
        place.mkdir(parents=True)
        try:
            with open(path, "rb") as file:
                if is_packed(file):
                    archive = place / path.stem
                    with unpacked(file) as content:
                        self._write(archive, content, shown, path.name)
            with open(archive, "rb") as file:
                head = file.read(HEAD_BYTES)
            if not is_archive(head):  # one compressed file
                shutil.copystat(path, archive)
                yield "", archive, ""
                return
            members = _in_zip(archive, shown) if head[:2] == b"PK" else _in_tar(archive)
            for each in members:
                self._members -= 1
                if self._members < 0:
                    raise _too_much(shown, "files", each.name)
                yield self._member(each, place / "files", shown, path.stat().st_mtime)
        except _DAMAGE as problem:
            facts = {"reason": clean_line(str(problem) or type(problem).__name__)}
            raise InputError(f"{shown} is damaged", facts=facts, fix="copy it again") from None

    def _member(self, each: _Packed, place: Path, shown: str, archived_s: float) -> Member:
        name, reason = clean_line(each.name).removeprefix("./"), each.reason
        try:
            relative = check_name(each.name.replace("\\", "/"))
            stream = None if reason else each.open()
            if stream is None:
                return name, None, reason
            with stream:
                unwanted = _unwanted(each.name, stream.read(HEAD_BYTES))
            if unwanted is not None:
                return name, None, unwanted
            target = place / relative
            while target.exists():  # a repeated name
                target = target.parent / "again" / file_name_from_text(target.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._write(target, each.open(), shown, each.name)
            is_known = _EARLIEST_S < each.modified_s < _LATEST_S
            os.utime(target, (modified := each.modified_s if is_known else archived_s, modified))
            return name, target, ""
        except TooMuchError:
            raise
        except InputError as problem:
            return name, None, problem.message
        except _DAMAGE as problem:
            return name, None, f"damaged: {clean_line(str(problem))}"
        except (FileExistsError, NotADirectoryError):
            return name, None, "a folder has the same name"

    def _write(self, target: Path, stream: Any, shown: str, name: str) -> None:
        with stream, open(target, "xb") as file:
            while piece := stream.read(1 << 20):
                self._bytes -= len(piece)
                self._allowed -= len(piece)
                if min(self._allowed, self._bytes) < 0:
                    raise _too_much(shown, "bytes", name)
                file.write(piece)


def _too_much(shown: str, what: str, first: str) -> TooMuchError:
    facts, fix = {"not read": f"from {clean_line(first)} on"}, "unpack it, and import the folder"
    return TooMuchError(f"{shown} has more {what} than the limit", facts=facts, fix=fix)


def _in_zip(path: Path, shown: str) -> Iterator[_Packed]:
    # A directory of members that would fill the memory is refused before it is read.
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    at, large = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = tail[large + 40 : large + 48] if large >= 0 else tail[at + 12 : at + 16]
    if int.from_bytes(size, "little") > _MOST_DIRECTORY_BYTES:
        raise _too_much(shown, "files", "the first")
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            try:
                modified_s = time.mktime((*each.date_time, 0, 0, -1))
            except (ValueError, OverflowError):
                modified_s = 0.0
            reason = "encrypted; unpack it with its password" if each.flag_bits & 1 else ""
            yield _Packed(each.filename, modified_s, partial(archive.open, each), reason)


def _in_tar(path: Path) -> Iterator[_Packed]:
    for each, content in tar_members(path):
        if not each.isdir():
            reason = "" if is_plain(each) else "a link, or no regular file"
            yield _Packed(each.name, float(each.mtime), content, reason)


def _unwanted(name: str, head: bytes) -> str | None:
    """Return why a file of an archive is not read: models and other binary data are skipped."""
    kind = kind_of(head, name=name)
    if kind in ("onnx", "plan"):
        return "a model; unpack the archive to import it with its runs"
    if is_archive(head):
        return "an archive within an archive; unpack it, and import the folder"
    packed = is_packed(io.BytesIO(head))
    return "" if kind == "unknown" and not packed and encoding_of(head) is None else None
