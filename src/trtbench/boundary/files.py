"""Files read whole: only ordinary ones, of bounded size and depth."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from trtbench.boundary.texts import clean_line
from trtbench.errors import InputError, UsageError

MOST_BYTES = 2**30
"""A file that is read as a whole is refused beyond this; models and arrays are read in pieces."""

MOST_TEXT_BYTES = 2**20
"""Files that people write by hand: settings, sweeps, lists of hosts."""

MOST_DEPTH = 64
"""Brackets within brackets; files of trtexec and of ours stay below ten."""

MOST_PARTS = 10**6
"""Values within values, counted as often as they are repeated."""

MOST_BITS = 64
"""Of a whole number; longer ones cannot be written as text, or turned into seconds."""

MOST_UNPACKED_BYTES = 2**33
"""What an archive may say that it unpacks to, unless the caller knows better."""


MOST_NOTHING = 2**32
"""Bytes that a file may say it has and that were never written: they would be read for hours."""

_CHUNK = 1 << 16


def check_file(path: Path) -> os.stat_result:
    """Refuse what is no ordinary file, before anything waits for it: pipes, devices, sockets."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise InputError(f"there is no file {clean_line(str(path))}") from None
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{clean_line(str(path))} cannot be read",
            facts={"reason": getattr(problem, "strerror", None) or problem},
        ) from None
    _check_facts(path, facts, None)
    check_filled(path)
    return facts


def check_filled(path: Path) -> None:
    """Refuse a file most of which was never written: a small one may say that it has terabytes."""
    try:
        size = path.stat().st_size
        empty = _nothing_in(path) if size > MOST_NOTHING else 0
    except OSError:
        return  # it was taken away meanwhile: who reads it says so
    if empty > MOST_NOTHING:
        raise InputError(
            f"{clean_line(str(path))} has gigabytes that were never written",
            facts={"bytes": size},
            fix="copy it again: most of it never came",
        )


def _nothing_in(path: Path) -> int:
    """Count the bytes of a file that were never written, up to where they are too many."""
    empty = at = 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        end = os.fstat(descriptor).st_size
        while at < end and empty <= MOST_NOTHING:
            try:
                data = os.lseek(descriptor, at, os.SEEK_DATA)
            except OSError as problem:  # nothing more, or a file system that does not tell
                return empty + end - at if problem.errno == errno.ENXIO else empty
            empty += data - at
            at = os.lseek(descriptor, data, os.SEEK_HOLE)
    finally:
        os.close(descriptor)
    return empty


def read_bytes(path: Path, *, most: int = MOST_BYTES) -> bytes:
    """Read an ordinary file of bounded size; a pipe or device is refused and never waited for.

    What the system says of a file that is not there, or not allowed, is raised as it is.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        _check_facts(path, facts, most)
        # Never asked for more than there is: Python would set the memory aside first.
        parts = [file.read(facts.st_size + 1)]
        while parts[-1] and sum(map(len, parts)) <= most:
            parts.append(file.read(_CHUNK))
        data = b"".join(parts) if len(parts) > 2 else parts[0]
    if len(data) > most:  # it grew, or is one of the system's files, whose size is not told
        raise _too_large(path, len(data), most)
    return data


def read_text(path: Path, *, most: int = MOST_TEXT_BYTES) -> str:
    """Read a text that people write by hand; editors on Windows put a mark before it."""
    return read_bytes(path, most=most).decode("utf-8-sig")


def read_toml(path: Path) -> dict[str, object]:
    """Read settings, a sweep, rules or hosts; what is no TOML, or too deep, is a ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = read_text(path)
    try:
        found: dict[str, object] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check_parts(found, where=str(path))
    return found


def read_settings(path: Path) -> dict[str, object]:
    """Read TOML that a user wrote; what cannot be read is said as an error of the user's."""
    try:
        return read_toml(path)
    except (OSError, ValueError) as problem:
        there = path.is_file()
        raise UsageError(
            f"{path} cannot be read",
            facts={"reason": problem},
            fix="correct it; it is written in TOML" if there else "give a file that is there",
        ) from None


def check_archive(path: Path, *, most: int = MOST_UNPACKED_BYTES) -> None:
    """Refuse a zip file that unpacks to more than it may, by what its directory says.

    A reader gets no more of a member than the directory says, whatever is packed in it.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as problem:
        raise InputError(
            f"{clean_line(str(path))} is damaged",
            facts={"reason": clean_line(str(problem))},
            fix="copy it again, or make it anew",
        ) from None
    if total > most:
        raise InputError(
            f"{clean_line(str(path))} unpacks to more than is allowed",
            facts={"bytes": total, "at most": most},
        )


def check_nesting(data: bytes | str, *, where: str) -> None:
    """Refuse JSON-like text whose brackets are nested deeper than any real file's.

    Brackets within quoted texts do not count.
    """
    text = data if isinstance(data, str) else data.decode("latin-1")
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth, quoted = 0, False
    for mark in _MARKS.finditer(text):
        if mark[0] == '"':
            quoted = not quoted
        elif not quoted and mark[0] in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise _too_deep(where)
        elif not quoted and mark[0] in "]}":
            depth -= 1


_MARKS = re.compile(r'\\.|["\[\]{}]', re.DOTALL)


def check_parts(value: object, *, where: str) -> None:
    """Refuse a decoded value that is nested too deeply, contains itself, or repeats itself.

    Parts that stand in several places count as often: anchors of YAML make billions of few lines.
    """
    known: dict[int, tuple[int, int]] = {}

    def measure(part: object, left: int) -> tuple[int, int]:
        if not isinstance(part, (Mapping, list, tuple)):
            if isinstance(part, int) and part.bit_length() > MOST_BITS:
                raise InputError(
                    f"{clean_line(where)} holds a number that nothing can be done with",
                    facts={"bits": part.bit_length(), "at most": MOST_BITS},
                )
            return 1, 0
        if left == 0:
            raise _too_deep(where)
        if id(part) not in known:
            inner = part.values() if isinstance(part, Mapping) else part
            sizes = [measure(each, left - 1) for each in inner]
            known[id(part)] = (
                1 + sum(size for size, _ in sizes),
                1 + max((height for _, height in sizes), default=0),
            )
        size, height = known[id(part)]
        if height > left or size > MOST_PARTS:
            raise _too_deep(where)
        return size, height

    measure(value, MOST_DEPTH)


def _check_facts(path: Path, facts: os.stat_result, most: int | None) -> None:
    mode = facts.st_mode
    if not stat.S_ISREG(mode):
        kinds = (
            (stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"),
            (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"),
        )  # fmt: skip
        kind = next((name for test, name in kinds if test(mode)), "thing of another kind")
        raise InputError(
            f"{clean_line(str(path))} is a {kind}, not a file", fix="give an ordinary file"
        )
    if most is not None and facts.st_size > most:
        raise _too_large(path, facts.st_size, most)


def _too_large(path: Path, size: int, most: int) -> InputError:
    return InputError(
        f"{clean_line(str(path))} is too large to be read as a whole",
        facts={"bytes": size, "at most": most},
    )


def _too_deep(where: str) -> InputError:
    return InputError(
        f"{clean_line(where)} is nested too deeply, or repeats itself without end",
        facts={"levels": f"more than {MOST_DEPTH}"},
    )


def stranger(path: Path) -> str | None:
    """Say why a file must not steer what this user does; ``None`` when it may.

    It and its folder belong to this user, to whoever called sudo, or to the system, and nobody
    else can write to them. A sticky folder such as /tmp keeps others from replacing the file.
    """
    trusted = _own_users()
    folder = path.absolute().parent
    for each, facts in ((path, path.lstat()), (path, path.stat()), (folder, folder.stat())):
        if facts.st_uid not in trusted:
            return f"{each} belongs to {user_name(facts.st_uid)}, not to {user_name(os.getuid())}"
        sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
        link = stat.S_ISLNK(facts.st_mode)
        if facts.st_mode & stat.S_IWOTH and not sticky and not link:
            return f"{each} can be written by everyone"
    return None


def _own_users() -> set[int]:
    users = {os.getuid(), 0}
    caller = os.environ.get("SUDO_UID", "")
    if os.getuid() == 0 and caller.isdecimal():
        users.add(int(caller))
    return users


def user_name(number: int) -> str:
    """Name a user; a number that nobody has stays one."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
