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


class Child:
    """A started process: output appended to a log, lines heard over a pipe.

    ``{events}`` in an argument becomes the number of the descriptor on which the child may write
    lines; each goes to ``on_line``.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        memory_bytes: int | None = None,
        own_group: bool = True,
        pass_fds: Sequence[int] = (),
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self._on_line = on_line
        self._own_group = own_group
        self._rest = b""
        self._started = time.monotonic()
        self._events, write_end = os.pipe()
        try:
            with open(log, "ab") as sink:
                self._process = subprocess.Popen(
                    [argument.replace("{events}", str(write_end)) for argument in command],
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    env=dict(env) if env is not None else None,
                    cwd=folder,
                    pass_fds=(write_end, *pass_fds),
                    start_new_session=own_group,
                    preexec_fn=_child_setup(memory_bytes=memory_bytes),
                )
        except BaseException:
            os.close(self._events)
            raise
        finally:
            os.close(write_end)

    def fileno(self) -> int:
        """The descriptor that becomes readable when the child has said something or ended."""
        return self._events

    def hear(self) -> bool:
        """Take in what the child wrote; False when it has closed its end."""
        data = os.read(self._events, _EVENT_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._on_line is not None:
                self._on_line(line.decode("utf-8", "replace"))
        return bool(data)

    def finished(self, timeout_s: float | None) -> bool:
        """Wait for the end itself: a child may close its pipe and go on."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End it and its group, if it still runs."""
        end_process(self._process, group=self._own_group)

    def close(self, *, timed_out: bool = False) -> Exit:
        """Let go of the pipe and tell how the process ended."""
        os.close(self._events)
        return _exit(self._process, started=self._started, timed_out=timed_out)


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
    """Run one command to its end; on an interrupt its whole group is ended first."""

    def start() -> Child:
        return Child(
            command,
            log=log,
            env=env,
            folder=folder,
            memory_bytes=memory_bytes,
            own_group=own_group,
            on_line=on_line,
        )

    return run_together([start], timeout_s=timeout_s, tick_s=tick_s, on_tick=on_tick)[0]


def run_together(
    starts: Sequence[Callable[[], Child]],
    *,
    timeout_s: float | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> list[Exit]:
    """Start several processes at once and sleep until all have ended or the time is up."""
    deadline = time.monotonic() + timeout_s if timeout_s is not None else None
    children: list[Child] = []
    ended = False
    try:
        for start in starts:
            children.append(start())
        ended = _wait(children, deadline, tick_s, on_tick)
    finally:
        if not ended:
            for child in children:
                child.end()
        exits = [child.close(timed_out=not ended) for child in children]
    return exits


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
    children: Sequence[Child],
    deadline: float | None,
    tick_s: float | None,
    on_tick: Callable[[], None] | None,
) -> bool:
    """Sleep until every child has ended; False when the deadline came first."""
    talking = list(children)
    while talking:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return False
        limits = [tick_s] if tick_s is not None else []
        limits += [deadline - now] if deadline is not None else []
        ready, _, _ = select.select(talking, [], [], min(limits) if limits else None)
        if not ready and on_tick is not None:
            on_tick()
        talking = [child for child in talking if child not in ready or child.hear()]
    for child in children:
        rest = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not child.finished(rest):
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
