"""Folders that are filled under another name, renamed when complete, and removed when abandoned."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from trtbench.boundary import clean_line
from trtbench.errors import StoreError, UnavailableError, write_error, writing
from trtbench.host.files import text_of
from trtbench.host.locks import NoLocksError, try_lock

PARTIAL = ".partial-"
"""Prefix of a directory that is not complete; no reader looks at it.

After it come the process that fills it, the kernel and the container it runs in, and a random part.
The process also holds a lock on the directory where the file system has locks.
"""

TEMPORARY = "trtbench-"
"""Prefix of the same in the folder for temporary files, where nothing needs to be hidden."""

FORGOTTEN_S = 7 * 86400.0
"""After so long without a change, what another machine left unfinished may be removed."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/pid")


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """List a folder that no reader looks at and that vanishes at the end."""
    with _made(partial_name(parent), mode=0o777) as folder:
        yield folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """List a folder of this user alone, outside every store, that vanishes at the end.

    One whose process was killed is removed by the next process that asks for one or opens a store.
    """
    remove_temporary()
    with _made(temporary_name(), mode=0o700) as folder:
        yield folder


@contextlib.contextmanager
def _made(folder: Path, *, mode: int) -> Iterator[Path]:
    with writing(folder):
        folder.mkdir(mode=mode)
        lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def partial_name(parent: Path, *, prefix: str = PARTIAL) -> Path:
    """Make a name that says who fills a folder."""
    kernel, space = _whereabouts()
    return parent / f"{prefix}{os.getpid()}-{kernel}.{space}-{secrets.token_hex(3)}"


def temporary_name() -> Path:
    """Make a name for a temporary file or folder that says whose it is."""
    return partial_name(Path(tempfile.gettempdir()), prefix=TEMPORARY)


@contextlib.contextmanager
def signed(path: Path, *, what: str) -> Iterator[None]:
    """Hold a file that says who made it, where the file system has no locks.

    Only one process can make it. One of a process that is certainly dead is replaced; whether one
    of another machine or container still lives cannot be known here, and is never guessed.
    """
    mine = f"{os.getpid()}-{'.'.join(_whereabouts())}"
    for last in (False, True):
        try:
            with open(path, "x", encoding="ascii") as file:
                file.write(mine)
            break
        except FileExistsError:
            other = clean_line(text_of(path) or "")
            if last or not _is_dead(other):
                raise UnavailableError(
                    f"{what} is being carried out by another process",
                    facts={"signed by": other or "nobody", "file": path},
                    fix=f"if that one was killed: rm {path}",
                ) from None
            path.unlink(missing_ok=True)
        except OSError as problem:
            raise write_error(path, problem) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def remove_abandoned(root: Path) -> int:
    """Remove what dead processes of this machine left unfinished; gives how many."""
    removed = 0
    for folder in _partial(root):
        if _is_abandoned(folder, PARTIAL):
            shutil.rmtree(folder, ignore_errors=True)
            removed += not folder.exists()
    return removed


@cache
def remove_temporary() -> None:
    """Remove what killed processes of this user left among the temporary files, once.

    Others write to that folder too: nothing of theirs is touched, whatever its name is.
    """
    root = Path(tempfile.gettempdir())
    for path in _partial(root, TEMPORARY):
        with contextlib.suppress(OSError):
            facts = path.lstat()
            if facts.st_uid != os.getuid() or not _is_abandoned(path, TEMPORARY):
                continue
            shutil.rmtree(path) if stat.S_ISDIR(facts.st_mode) else path.unlink()


def _partial(root: Path, prefix: str = PARTIAL) -> list[Path]:
    """List unfinished folders; every new run asks, and a store may hold many thousands."""
    try:
        with os.scandir(root) as found:
            return [Path(each.path) for each in found if each.name.startswith(prefix)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def forgotten(root: Path) -> list[Path]:
    """List what other machines, or this one before it was started again, left long ago."""
    found = []
    for folder in sorted(_partial(root)):
        with contextlib.suppress(OSError):
            newest = max(each.stat().st_mtime for each in (folder, *folder.rglob("*")))
            if time.time() - newest > FORGOTTEN_S and not _is_locked(folder):
                found.append(folder)
    return found


def refuse_occupied(target: Path) -> None:
    """Refuse a target that holds something; an empty folder makes room."""
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not empty", fix="give a new folder with -o, or remove it"
        )
    target.rmdir()


@cache
def _whereabouts() -> tuple[str, str]:
    """Name the running kernel, and the space in which process numbers count.

    Containers may share a host name, a machine id and a folder; process 7 of one is not the
    other's. Where the kernel does not say, a name of its own for each process: nobody else's.
    """
    kernel = text_of(_BOOT)
    try:
        space = str(_SPACE.readlink())
    except OSError:
        space = None
    if not kernel or not space:
        return "unknown", secrets.token_hex(4)
    return _short(kernel), _short(space)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _is_abandoned(path: Path, prefix: str) -> bool:
    """Say whether it is certain that nobody fills a folder any more."""
    signature = "-".join(path.name.removeprefix(prefix).split("-")[:2])
    return _is_dead(signature) and not _is_locked(path)


def _is_dead(signature: str) -> bool:
    """Say whether whoever signed ``process-kernel.space`` was on this machine and is no more."""
    pid, _, where = signature.partition("-")
    return where == ".".join(_whereabouts()) and pid.isdecimal() and not _alive(int(pid))


def _lock(folder: Path) -> int | None:
    """Hold a directory as long as this process lives; ``None`` where the file system cannot."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if try_lock(descriptor):
            return descriptor
    except NoLocksError:
        pass
    os.close(descriptor)
    return None


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    except NoLocksError:
        return False
    finally:
        os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
