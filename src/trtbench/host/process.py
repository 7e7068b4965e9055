"""The one module that starts processes.

A child lives in its own process group, dies with its parent, writes to a log file, and may report
short lines over a pipe; the parent sleeps in ``select`` until a line, the end, or the deadline.
When the child has ended, whatever is left of its group is ended too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 2.0
"""How long a child may take to end after SIGTERM before it is killed."""

LOOK_S = 0.2
"""How often to look after a child where the kernel cannot wake us at its end."""

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
        self._talks = True
        self._handle = _handle(self._process.pid)

    def watched(self) -> list[int]:
        """List descriptors that become readable when the child has said something or has ended."""
        return [*([self._events] if self._talks else []), *self._handles()]

    @property
    def wakes(self) -> bool:
        """Whether the kernel tells of the end; without, somebody must look now and then."""
        return self._handle is not None

    def hear(self, ready: Sequence[int]) -> None:
        """Take in what the child wrote; it may close its end of the pipe and go on."""
        if not self._talks or self._events not in ready:
            return
        data = os.read(self._events, _EVENT_BYTES)
        self._talks = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._on_line is not None:
                self._on_line(line.decode("utf-8", "replace"))

    def has_ended(self) -> bool:
        """Look whether the process itself is at its end; it is not yet taken off the list."""
        if self._process.returncode is not None:
            return True
        return _is_over(self._process.pid)

    def failed(self) -> bool:
        """Say whether it ended otherwise than with status 0."""
        seen = _look(self._process.pid)
        return seen is not None and (seen.si_code != os.CLD_EXITED or seen.si_status != 0)

    def end(self) -> None:
        """End it and its group, if it still runs."""
        end_process(self._process, group=self._own_group)

    def close(self, *, timed_out: bool = False) -> Exit:
        """Clear away what is left of the group, and tell how the process ended."""
        if self._own_group and self._process.returncode is None:
            # While the leader is not taken off the list, its number cannot mean somebody else.
            _send(os.killpg, self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain()
        for descriptor in (self._events, *self._handles()):
            os.close(descriptor)
        return _exit(self._process, started=self._started, timed_out=timed_out)

    def _drain(self) -> None:
        """Take in the last lines, which may come together with the end."""
        while self._talks and select.select([self._events], [], [], 0)[0]:
            self.hear([self._events])

    def _handles(self) -> list[int]:
        return [] if self._handle is None else [self._handle]


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
    on_started: Callable[[], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> list[Exit]:
    """Start several processes at once and sleep until all have ended or the time is up.

    They are worth nothing one without the other: when one fails, the others get a moment to
    notice it and are then ended.
    """
    deadline = time.monotonic() + timeout_s if timeout_s is not None else None
    children: list[Child] = []
    late: list[Child] = []
    try:
        for start in starts:
            children.append(start())
        if on_started is not None:
            on_started()
        late = _wait(children, deadline, tick_s, on_tick)
    finally:
        exits = _end_all(children, late)
    return exits


def _end_all(children: Sequence[Child], late: Sequence[Child]) -> list[Exit]:
    for child in children:
        if not child.has_ended():
            child.end()
    return [child.close(timed_out=child in late) for child in children]


@contextlib.contextmanager
def run_on_death(command: Sequence[str]) -> Iterator[None]:
    """Have a command run if this process dies within the block, be it by SIGKILL.

    A shell in a session of its own waits for a line, or for the end of who would write it.
    """
    script = 'trap "" INT TERM HUP; read -r over || exec "$@"'
    waiting = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        waiting.communicate(b"over\n")


def end_process(child: subprocess.Popen[bytes], *, group: bool = True) -> None:
    """End a child, and its group if it has one: politely, then for good."""
    send = os.killpg if group else os.kill
    try:
        _send(send, child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while not _is_over(child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:  # also when a second interrupt comes while waiting
        _send(send, child.pid, signal.SIGKILL)
        child.wait()


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def _handle(pid: int) -> int | None:
    """Open a descriptor that becomes readable at the end of a process (Linux 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_over(pid: int) -> bool:
    """Look at a child without taking it off the kernel's list."""
    try:
        return _look(pid) is not None
    except ChildProcessError:
        return True


def _look(pid: int) -> os.waitid_result | None:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _child_setup(*, memory_bytes: int | None) -> Callable[[], None]:
    """Prepare, before the fork, what the child does between fork and exec."""
    parent = os.getpid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # not Linux
        prctl = None

    limits = _memory_limits(memory_bytes)

    def setup() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # died between fork and prctl
                os._exit(1)
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    return setup


def _memory_limits(memory_bytes: int | None) -> tuple[int, int] | None:
    """Find the limit asked for, or the stricter one that this process is under already."""
    if memory_bytes is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    return most, most


def _wait(
    children: Sequence[Child],
    deadline: float | None,
    tick_s: float | None,
    on_tick: Callable[[], None] | None,
) -> list[Child]:
    """Sleep until all have ended, or the others of one that failed; gives those that were late."""
    running = list(children)
    last_moment = None
    while running:
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return running
        if last_moment is not None and now >= last_moment:
            return []
        ends = [end - now for end in (deadline, last_moment) if end is not None]
        ready = _sleep(running, [*ends, *([tick_s] if tick_s is not None else [])])
        if not ready and on_tick is not None:
            on_tick()
        for child in running:
            child.hear(ready)
        over = [child for child in running if child.has_ended()]
        if last_moment is None and any(child.failed() for child in over):
            last_moment = time.monotonic() + GRACE_S
        running = [child for child in running if child not in over]
    return []


def _sleep(running: Sequence[Child], limits: list[float]) -> list[int]:
    """Sleep until a child says something or ends; gives the descriptors to look at."""
    if not all(child.wakes for child in running):
        limits = [*limits, LOOK_S]
    watched = [each for child in running for each in child.watched()]
    ready: list[int] = select.select(watched, [], [], min(limits) if limits else None)[0]
    return ready


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
    """List the last lines of a log, however long it is."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])
