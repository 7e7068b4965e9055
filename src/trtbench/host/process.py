"""The one module that starts processes.

A child lives in its own process group, dies with its parent, writes to a log file, and may report
short lines over a pipe; the parent sleeps in ``select`` until a line, the end, or the deadline.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 2.0
"""How long a child may take to end after SIGTERM before it is killed."""

_PR_SET_PDEATHSIG = 1
_EVENT_BYTES = 65536


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a process ended: by status, by signal, or because its time was up."""

    seconds: float
    status: int | None
    signal: str | None
    timed_out: bool = False


def run_process(
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    memory_bytes: int | None = None,
    own_group: bool = True,
    on_line: Callable[[str], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> Exit:
    """Run a command to its end, with output appended to a log.

    ``{events}`` in an argument becomes the number of the descriptor on which the child may write
    lines; each goes to ``on_line``. On an interrupt the whole group is ended first.
    ``on_tick`` is called every ``tick_s`` for work that needs a sign of life.
    """
    read_end, write_end = os.pipe()
    started = time.monotonic()
    try:
        with open(log, "ab") as sink:
            child = subprocess.Popen(
                [argument.replace("{events}", str(write_end)) for argument in command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                cwd=folder,
                pass_fds=(write_end,),
                start_new_session=own_group,
                preexec_fn=_child_setup(memory_bytes=memory_bytes),
            )
        os.close(write_end)
        write_end = -1
        deadline = started + timeout_s if timeout_s is not None else None
        try:
            ended = _wait(child, read_end, deadline, on_line, tick_s, on_tick)
        except BaseException:
            end_process(child, group=own_group)
            raise
        if not ended:
            end_process(child, group=own_group)
        return _exit(child, started=started, timed_out=not ended)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def end_process(child: subprocess.Popen[bytes], *, group: bool = True) -> None:
    """End a child, and its group if it has one: politely, then for good."""
    send = os.killpg if group else os.kill
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(child.pid, signal.SIGKILL)
    child.wait()


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _child_setup(*, memory_bytes: int | None) -> Callable[[], None]:
    """Prepare, before the fork, what the child does between fork and exec."""
    parent = os.getpid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # not Linux
        prctl = None

    def setup() -> None:
        import resource

        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # died between fork and prctl
                os._exit(1)
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    return setup


def _wait(
    child: subprocess.Popen[bytes],
    events: int,
    deadline: float | None,
    on_line: Callable[[str], None] | None,
    tick_s: float | None,
    on_tick: Callable[[], None] | None,
) -> bool:
    """Sleep until the child has ended; False when the deadline came first."""
    rest = b""
    while True:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return False
        limits = [tick_s] if tick_s is not None else []
        limits += [deadline - now] if deadline is not None else []
        ready, _, _ = select.select([events], [], [], min(limits) if limits else None)
        if not ready:
            if on_tick is not None:
                on_tick()
            continue
        data = os.read(events, _EVENT_BYTES)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if on_line is not None:
                on_line(line.decode("utf-8", "replace"))
    try:  # the pipe is closed: the child is at its end, or closed it and goes on
        child.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _exit(child: subprocess.Popen[bytes], *, started: float, timed_out: bool) -> Exit:
    code = child.returncode
    return Exit(
        seconds=time.monotonic() - started,
        status=code if code >= 0 else None,
        signal=_signal_name(-code) if code < 0 else None,
        timed_out=timed_out,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def tail(path: Path, *, lines: int = 20, most_bytes: int = 65536) -> tuple[str, ...]:
    """Give the last lines of a log, however long it is."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])
