"""Folders as one file, and files by the hash of their content, for the way between machines."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path

from trtbench import boundary
from trtbench.errors import StoreError, write_error
from trtbench.models.identity import sha256_of

CACHE_VARIABLE = "TRTBENCH_CACHE"
"""Names the folder where a machine keeps the models that it was sent."""


def pack(folder: Path, target: Path) -> None:
    """Write a folder's files into one file."""
    with tarfile.open(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                archive.add(path, arcname=str(path.relative_to(folder)), recursive=False)


def unpack(source: Path, folder: Path) -> None:
    """Write out the files of ``pack``; what points elsewhere, or is more than came, is refused."""
    try:
        with tarfile.open(source, "r:") as archive:  # packed as it is: nothing swells
            for member in archive:
                _unpack_one(archive, member, folder)
    except (tarfile.TarError, ValueError, OverflowError) as problem:
        raise StoreError("what came back is damaged", facts={"reason": problem}) from None
    except OSError as problem:
        raise write_error(folder, problem) from None


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    # A sparse member says that it is large, and brings nothing.
    plain = member.isreg() and not member.issparse()
    content = archive.extractfile(member) if plain else None
    if content is None:
        raise StoreError(
            "what came back is no run directory", facts={"member": boundary.shown(member.name)}
        )
    target = boundary.inside(folder, member.name, what="file", where="what came back")
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)


FORGOTTEN_S = 7 * 86400.0
"""After so long without a change, nobody comes back for what was begun."""


def remove_forgotten(cache: Path) -> None:
    """Remove requests, and halves of contents, of askers that were killed or cut off."""
    for path in (*cache.glob("work/*"), *cache.glob("blobs/.*"), *cache.glob("code/*.*")):
        with contextlib.suppress(OSError):
            newest = max(each.lstat().st_mtime for each in (path, *path.rglob("*")))
            if time.time() - newest < FORGOTTEN_S:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def cache_folder() -> Path:
    """Name the folder where this machine keeps what it was sent."""
    named = os.environ.get(CACHE_VARIABLE)
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(named) if named else (Path(base) if base else Path.home() / ".cache") / "trtbench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def blob(cache: Path, sha256: str) -> Path:
    """Name the place of a content in a cache."""
    return cache / "blobs" / boundary.check_id(sha256, what="hash of a content")


def keep_blob(cache: Path, sha256: str, chunks: Iterable[bytes]) -> None:
    """Put a content into a cache, whole or not at all, and only if it is what it should be."""
    target = blob(cache, sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{sha256[:16]}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        if sha256_of(temporary) != sha256:
            raise StoreError("a file was damaged on its way", facts={"sha256": sha256})
        temporary.chmod(0o444)  # names are hard links: a job must not change what others use
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def place_blob(cache: Path, sha256: str, target: Path) -> None:
    """Put a content into a folder under its name, without a second copy where nobody else has it.

    A link changes the times of a file, by which whoever measures sees that it was not replaced.
    """
    source = blob(cache, sha256)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.stat().st_nlink == 1:
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(source, target)
    if not target.exists():
        shutil.copyfile(source, target)
