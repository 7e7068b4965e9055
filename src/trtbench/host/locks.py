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
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from trtbench.errors import UnavailableError
from trtbench.host.gpu_names import lock_name

FOLDER_VARIABLE = "TRTBENCH_LOCKS"
"""Names another folder, for machines without a common /tmp."""

_NOTE_BYTES = 4096
_WHAT_CHARACTERS = 300
"""A holder's command line is cut to this, so that its note always fits."""


def lock_folder() -> Path:
    """The folder of lock files, one per machine, writable by everyone like the system's own.

    Not below ``TMPDIR``: jobs of one machine often have one each, and must still exclude another.
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE) or "/tmp/trtbench-locks")
    folder.mkdir(mode=0o1777, exist_ok=True)
    with contextlib.suppress(PermissionError):
        folder.chmod(0o1777)
    return folder


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
        if not _take(descriptor, block=False):
            holder = _holder(descriptor)
            if not wait:
                raise UnavailableError(
                    f"the device {device} is being measured by another process",
                    facts={"holder": holder},
                    fix="leave out --no-wait to queue behind it",
                )
            if on_wait is not None:
                on_wait(holder)
            _take(descriptor, block=True)
        _sign(descriptor, what)
        yield time.monotonic() - began
    finally:
        os.close(descriptor)


def _open(device: str) -> int:
    try:
        return _open_file(lock_folder() / (re.sub(r"[^\w.-]", "_", lock_name(device)) + ".lock"))
    except OSError as problem:
        raise UnavailableError(
            f"no lock can be taken for the device {device}",
            facts={"reason": problem},
            fix=f"set {FOLDER_VARIABLE} to a folder that can be written",
        ) from None


def _open_file(path: Path) -> int:
    """Open for locking; an existing file first without O_CREAT, which Linux may refuse others."""
    try:
        return os.open(path, os.O_RDWR)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        path.chmod(0o666)
    return descriptor


def _take(descriptor: int, *, block: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
    except OSError as problem:
        if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _sign(descriptor: int, what: str) -> None:
    since = time.strftime("%H:%M:%S")
    note = {"pid": os.getpid(), "what": what[:_WHAT_CHARACTERS], "since": since}
    with contextlib.suppress(OSError):  # a full disk must not stop a measurement
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(note).encode(), 0)


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
        return f"process {note['pid']} ({note['what']}) since {note['since']}"
    except (ValueError, KeyError, TypeError, OSError):
        return "unknown"
