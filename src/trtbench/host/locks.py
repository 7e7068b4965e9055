"""One measurement at a time on a device: a lock per device, shared by all processes of a machine.

The kernel releases a lock when its holder dies, so a crash never leaves one behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trtbench.boundary import clean_line
from trtbench.errors import UnavailableError
from trtbench.host.gpu_names import lock_name

FOLDER_VARIABLE = "TRTBENCH_LOCKS"
"""Names another folder, for machines without a common /tmp."""

MACHINE_FOLDER = "/tmp/trtbench-locks"

_NOTE_BYTES = 4096
_NOTE_BEGIN = b"{"
_WHAT_CHARACTERS = 300
"""A holder's command line is cut to this, so that its note always fits."""


class NoLocksError(OSError):
    """The file system knows no locks, as some network file systems do."""


def try_lock(descriptor: int, *, block: bool = False) -> bool:
    """Lock an open file or folder until it is closed; false when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise NoLocksError(problem.errno, "this file system has no locks") from None
    return True


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Keep others who have this file, or folder, as their lock waiting until the block ends."""
    flags = os.O_RDONLY if place.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(place, flags | os.O_CLOEXEC, 0o600)
    try:
        try_lock(descriptor, block=True)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold(
    device: str, *, what: str, wait: bool = True, on_wait: Callable[[str], None] | None = None
) -> Iterator[float]:
    """Hold a device for the length of the block; gives the seconds spent waiting.

    A GPU is held by its UUID: ``cuda:0`` is another one for each who sees others.
    When another process holds it, ``on_wait`` is told who, once; without ``wait`` it is an error.
    """
    descriptor = _open(device)
    began = time.monotonic()
    try:
        if not _take(device, descriptor):
            holder = _holder(descriptor)
            if not wait:
                raise UnavailableError(
                    f"the device {device} is being measured by another process",
                    facts={"holder": holder},
                    fix="leave out --no-wait to queue behind it",
                )
            if on_wait is not None:
                on_wait(holder)
            _take(device, descriptor, block=True)
        _sign(descriptor, what)
        yield time.monotonic() - began
    finally:
        os.close(descriptor)


def _open(device: str) -> int:
    name = re.sub(r"[^\w.-]", "_", lock_name(device)) + ".lock"
    try:
        folder = _open_folder()
        try:
            return _open_file(name, folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise _unusable(device, problem) from None


def _open_folder() -> int:
    """Open the folder of lock files, one per machine, writable by everyone like the system's own.

    Not below ``TMPDIR``: jobs of one machine often have one each, and must still exclude another.
    Where the machine has no such place, the user's own runs exclude each other at least.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    try:
        return _made_folder(Path(named or MACHINE_FOLDER), mode=0o1777)
    except OSError as problem:
        if named or problem.errno not in (errno.EROFS, errno.ENOENT, errno.EACCES):
            raise
        return _made_folder(_own_folder(), mode=0o700)


def _made_folder(path: Path, *, mode: int) -> int:
    """Open a folder that is no link, or make it; only what was made here gets another mode."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return os.open(path, flags)
    descriptor = os.open(path, flags)
    os.fchmod(descriptor, mode)
    return descriptor


def _own_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(runtime or base)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "trtbench-locks"


def _open_file(name: str, folder: int) -> int:
    """Open for locking; an existing file first without O_CREAT, which Linux may refuse others."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return _checked(os.open(name, flags, dir_fd=folder))
    try:
        descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    except FileExistsError:  # another process was quicker
        return _checked(os.open(name, flags, dir_fd=folder))
    os.fchmod(descriptor, 0o666)  # whatever the umask: every user of the machine takes turns
    return descriptor


def _checked(descriptor: int) -> int:
    """Refuse a lock that is no file of its own: a pipe, or another name of someone's file."""
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EPERM, "the lock is not a file of its own")


def _unusable(device: str, problem: OSError) -> UnavailableError:
    planted = problem.errno in (errno.ELOOP, errno.ENOTDIR, errno.EPERM)
    named = os.environ.get(FOLDER_VARIABLE) or MACHINE_FOLDER
    return UnavailableError(
        f"no lock can be taken for the device {device}",
        facts={
            "folder": named,
            "reason": "something else stands where the lock should be: a link, or another's file"
            if planted
            else problem.strerror or problem,
        },
        fix=f"set {FOLDER_VARIABLE} to a folder that can be written, on a disk of this machine",
    )


def _take(device: str, descriptor: int, *, block: bool = False) -> bool:
    try:
        return try_lock(descriptor, block=block)
    except NoLocksError as problem:
        raise _unusable(device, problem) from None


def _sign(descriptor: int, what: str) -> None:
    since = time.strftime("%H:%M:%S")
    note = {"pid": os.getpid(), "what": what[:_WHAT_CHARACTERS], "since": since}
    with contextlib.suppress(OSError):  # a full disk must not stop a measurement
        if os.pread(descriptor, 1, 0) not in (b"", _NOTE_BEGIN):
            return  # whoever put this file here keeps what is in it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
        return clean_line(f"process {note['pid']} ({note['what']}) since {note['since']}")
    except (ValueError, KeyError, TypeError, OSError):
        return "unknown"
