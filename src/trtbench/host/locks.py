"""A lock for each device, shared by all processes of a machine: one measurement at a time.

The kernel releases a lock when its holder dies, so a crash never leaves one behind.
``docs/design.md`` says why the package filelock is not used.
"""

import contextlib
import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trtbench.core.errors import UnavailableError
from trtbench.core.safety import clean_line
from trtbench.host.files import NoLocksError, try_lock
from trtbench.host.nvml import lock_name

FOLDER_VARIABLE = "TRTBENCH_LOCKS"  # names another folder, if jobs do not share /tmp
MACHINE_FOLDER = "/tmp/trtbench-locks"


@contextlib.contextmanager
def hold(
    device: str, *, what: str, wait: bool = True, on_wait: Callable[[str], None] | None = None
) -> Iterator[float]:
    """Hold the lock of a device during the block; yields the seconds spent waiting.

    A GPU is identified by its UUID, since ``cuda:0`` depends on the GPUs that a process sees. If
    another process holds the lock, ``on_wait`` is called once with its description, or an error is
    raised if ``wait`` is false.
    """
    began = time.monotonic()
    try:
        descriptor = _open(re.sub(r"[^\w.-]", "_", lock_name(device)) + ".lock")
    except OSError as problem:
        raise _unusable(device, problem) from None
    try:
        try:
            if not try_lock(descriptor):
                try:
                    note = json.loads(os.pread(descriptor, 4096, 0))
                    holder = f"process {note['pid']} ({note['what']}) since {note['since']}"
                except (ValueError, KeyError, TypeError, OSError):
                    holder = "unknown"
                holder = clean_line(holder)
                if not wait:
                    message = f"the device {device} is being measured by another process"
                    fix = "leave out --no-wait to wait for it"
                    raise UnavailableError(message, facts={"holder": holder}, fix=fix)
                if on_wait is not None:
                    on_wait(holder)
                try_lock(descriptor, block=True)
        except NoLocksError as problem:
            raise _unusable(device, problem) from None
        since = time.strftime("%H:%M:%S")  # the command is truncated, so that the note always fits
        own = json.dumps({"pid": os.getpid(), "what": what[:300], "since": since})
        with contextlib.suppress(OSError):  # a full disk must not stop a measurement
            if os.pread(descriptor, 1, 0) in (b"", b"{"):  # not another program's file
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, own.encode(), 0)
        yield time.monotonic() - began
    finally:
        os.close(descriptor)


def _open(name: str) -> int:
    """Open a lock file in the machine's folder of locks, which every user can write to.

    The folder is not below ``TMPDIR``, which is often different for each job of a machine. If the
    folder cannot be used, one of this user is, so that at least their runs exclude each other.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    try:
        folder = _open_folder(Path(named or MACHINE_FOLDER), mode=0o1777)
    except OSError as problem:
        if named or problem.errno not in (errno.EROFS, errno.ENOENT, errno.EACCES):
            raise
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or cache)
        base.mkdir(parents=True, exist_ok=True)
        folder = _open_folder(base / "trtbench-locks", mode=0o700)
    # First without O_CREAT: Linux may refuse that on an existing file of another user.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with contextlib.suppress(FileNotFoundError):
            return _checked(os.open(name, flags, dir_fd=folder))
        try:
            descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        except FileExistsError:  # another process was faster
            return _checked(os.open(name, flags, dir_fd=folder))
        os.fchmod(descriptor, 0o666)  # for every user of the machine, whatever the umask
        return descriptor
    finally:
        os.close(folder)


def _open_folder(path: Path, *, mode: int) -> int:
    """Open a folder that is not a link, or create it; only a new one gets the mode."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return os.open(path, flags)
    descriptor = os.open(path, flags)
    os.fchmod(descriptor, mode)
    return descriptor


def _checked(descriptor: int) -> int:
    """Raise if a lock is not a regular file, or is a hard link to another file."""
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EPERM, "the lock is not a regular file of its own")


def _unusable(device: str, problem: OSError) -> UnavailableError:
    planted = problem.errno in (errno.ELOOP, errno.ENOTDIR, errno.EPERM)
    reason = "a link or another user's file is where the lock should be"
    return UnavailableError(
        f"no lock can be taken for the device {device}",
        facts={
            "folder": os.environ.get(FOLDER_VARIABLE) or MACHINE_FOLDER,
            "reason": reason if planted else problem.strerror or problem,
        },
        fix=f"set {FOLDER_VARIABLE} to a writable folder on a disk of this machine",
    )
