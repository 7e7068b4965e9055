"""Starts processes and programs; no other module does.

A child has its own process group, dies with its parent, writes to a log file and may send short
lines through a pipe. The parent sleeps in ``select`` until a line, the end or the deadline. When
the child has ended, the rest of its group is killed.
"""

import contextlib
import ctypes
import os
import pickle
import resource
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from trtbench.core.errors import InputError, UnavailableError
from trtbench.core.safety import expand_home, mask, mask_words
from trtbench.host.files import temporary_folder

T = TypeVar("T")
GRACE_S = 2.0  # how long a child may take to end after SIGTERM before it is killed
TRTEXEC_FOLDERS = (Path("/usr/src/tensorrt/bin"), Path("/opt/tensorrt/bin"))
"""Folders where NVIDIA's packages and containers install trtexec, not on the search path."""
_BOOTSTRAP = """
import sys
if sys.path[:1] == ['']: del sys.path[0]  # before any other import
import importlib.util as u, runpy
s = u.spec_from_file_location('trtbench', {init!r}, submodule_search_locations=[{folder!r}])
m = u.module_from_spec(s); sys.modules['trtbench'] = m; s.loader.exec_module(m)
runpy.run_module({module!r}, run_name='__main__')
"""
INSTALL = "sudo apt install libnvinfer-bin, or --opt binary=PATH, or -r tensorrt"


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a process ended: with a status, by a signal, or by its time limit."""

    seconds: float
    code: int  # below zero: the signal that ended it
    timed_out: bool = False

    @property
    def status(self) -> int | None:
        return self.code if self.code >= 0 else None

    @property
    def signal(self) -> str | None:
        if self.code >= 0:
            return None
        known = -self.code in list(signal.Signals)
        return signal.Signals(-self.code).name if known else f"signal {-self.code}"

    @property
    def text(self) -> str:
        return f"ended by {self.signal}" if self.signal else f"ended with status {self.status}"


class Child:
    """A started process: its output is appended to a log, and it may send lines through a pipe.

    ``{events}`` in an argument is replaced by the number of the pipe's descriptor; ``on_line`` gets
    each line. After ``last_line`` its results are complete, whatever its exit status is.
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
        last_line: str | None = None,
    ) -> None:
        self._on_line, self._own_group, self._last_line = on_line, own_group, last_line
        self._has_finished = False
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
        self._pipe_open = True
        self.handles: list[int] = []
        """Become readable when it ends; if there are none, the caller must poll."""
        with contextlib.suppress(AttributeError, OSError):  # needs Linux 5.3
            self.handles.append(os.pidfd_open(self._process.pid))

    def descriptors(self) -> list[int]:
        """Return descriptors that become readable when the child writes a line or ends."""
        return [*([self._events] if self._pipe_open else []), *self.handles]

    def read_lines(self, ready: Sequence[int]) -> None:
        """Read what the child wrote; it may close its end of the pipe and go on."""
        if not self._pipe_open or self._events not in ready:
            return
        data = os.read(self._events, 65536)
        self._pipe_open = bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        # Bytes of the longest line of a child: an error with the end of its log.
        if len(self._rest) > 1 << 20:
            self._pipe_open = False
            raise UnavailableError("a process reports without end", fix="find out what it writes")
        for line in (each.decode("utf-8", "replace") for each in lines):
            self._has_finished |= line == self._last_line
            if self._on_line is not None:
                self._on_line(line)

    def has_ended(self) -> bool:
        """Return whether the process has ended; it is not reaped yet."""
        with contextlib.suppress(ChildProcessError):
            return self._process.returncode is not None or self._poll() is not None
        return True

    def failed(self) -> bool:
        """Return whether it ended with another status than 0, and without its results."""
        ended = None if self._has_finished else self._poll()
        return ended is not None and (ended.si_code != os.CLD_EXITED or ended.si_status != 0)

    def _poll(self) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def end(self) -> None:
        """End the process, and its group if it has one: SIGTERM, then SIGKILL."""
        send = os.killpg if self._own_group else os.kill
        try:
            _send(send, self._process.pid, signal.SIGTERM)
            deadline = time.monotonic() + GRACE_S
            while not self.has_ended() and time.monotonic() < deadline:
                time.sleep(0.01)
        finally:  # also on a second interrupt while waiting
            _send(send, self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self, *, timed_out: bool = False) -> Exit:
        """Kill the rest of the group, and return how the process ended."""
        if self._own_group and self._process.returncode is None:
            # Until the leader is reaped, its number cannot be reused by another process.
            _send(os.killpg, self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        while self._pipe_open and select.select([self._events], [], [], 0)[0]:
            self.read_lines([self._events])  # the last lines may arrive together with the end
        for descriptor in (self._events, *self.handles):
            os.close(descriptor)
        return Exit(seconds=time.monotonic() - self._started, code=code, timed_out=timed_out)


def _send(send: Callable[[int, int], None], pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def _child_setup(*, memory_bytes: int | None) -> Callable[[], None]:
    """Return the function that the child calls between fork and exec."""
    parent = os.getpid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):  # not Linux
        prctl = None
    limits = None
    if memory_bytes is not None:  # or the limit of this process, if that is stricter
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        limits = (most, most)

    def setup() -> None:
        if prctl is not None:
            prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:  # the parent died between fork and prctl
                os._exit(1)
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    return setup


def module_command(module: str, *, python: str | None = None) -> list[str]:
    """Return a command line for a module of this package; the working folder is not searched."""
    package = Path(__file__).resolve().parents[1]
    init = str(package / "__init__.py")
    code = _BOOTSTRAP.format(init=init, folder=str(package), module=module)
    return [python or sys.executable, "-c", code]


def run_process(
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    own_group: bool = True,
    on_line: Callable[[str], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> Exit:
    """Run a command until it ends; on an interrupt, its whole group is ended first."""
    start = partial(
        Child, command, log=log, env=env, folder=folder, own_group=own_group, on_line=on_line
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
    """Start several processes at once and wait until all have ended or the time is up.

    If one fails, the others, which depend on it, get ``GRACE_S`` to notice that, and are ended.
    """
    deadline = time.monotonic() + timeout_s if timeout_s is not None else None
    last_moment = None
    children: list[Child] = []
    late: list[Child] = []
    try:
        for start in starts:
            children.append(start())
        if on_started is not None:
            on_started()
        running = list(children)
        while running:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                late = running
                break
            if last_moment is not None and now >= last_moment:
                break
            limits = [end - now for end in (deadline, last_moment) if end is not None]
            limits += [tick_s] if tick_s is not None else []
            limits += [0.2] if not all(child.handles for child in running) else []
            watched = [each for child in running for each in child.descriptors()]
            ready = select.select(watched, [], [], min(limits) if limits else None)[0]
            if not ready and on_tick is not None:
                on_tick()
            for child in running:
                child.read_lines(ready)
            over = [child for child in running if child.has_ended()]
            if last_moment is None and any(child.failed() for child in over):
                last_moment = time.monotonic() + GRACE_S
            running = [child for child in running if child not in over]
    finally:
        for child in children:
            if not child.has_ended():
                child.end()
        exits = [child.close(timed_out=child in late) for child in children]
    return exits


@contextlib.contextmanager
def run_on_death(command: Sequence[str]) -> Iterator[None]:
    """Run a command if this process dies during the block, even by SIGKILL.

    A shell in its own session waits for a line at the end of the block, or the end of the pipe.
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


def guarded(work: Callable[[], T], *, what: str, seconds: float, memory_bytes: int = 2 << 30) -> T:
    """Return the result of ``work``, done by a copy of this process within limits.

    For parsers of files that anyone may have written: one that hangs or fills the memory is ended,
    and while it works, a signal ends this process at once. Errors are raised here.
    """
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    setup = _child_setup(memory_bytes=used + memory_bytes)
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are not copied
        child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            setup()
            try:
                answer: tuple[bool, object] = (True, work())
            except Exception as problem:
                answer = (False, problem)
            with open(sink, "wb") as file:
                pickle.dump(answer, file)
        finally:
            os._exit(0)
    os.close(sink)
    deadline, data = time.monotonic() + seconds, bytearray()
    try:
        while select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(source, 1 << 20)
            if not piece:
                break
            data += piece
        else:
            raise InputError(f"{what} takes more than {seconds:.0f} s to read", fix="leave it out")
    finally:
        os.close(source)
        _send(os.kill, child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not data:
        raise InputError(f"{what} cannot be read: its parser broke down", fix="leave it out")
    succeeded, value = pickle.loads(data)
    if not succeeded:
        raise value
    result: T = value
    return result


def tail(path: Path, *, lines: int = 20, most_bytes: int = 65536) -> tuple[str, ...]:
    """Return the last lines of a log, however long it is."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])


def program_output(program: str, *arguments: str) -> str:
    """Return the output of a short program; empty if it is not installed, or fails."""
    found = shutil.which(program)
    if found is None:
        return ""
    with temporary_folder() as folder:
        log = folder / "output.txt"
        try:
            ended = run_process([found, *arguments], log=log, timeout_s=10.0)
        except OSError:
            return ""
        return log.read_text(errors="replace") if ended.code == 0 else ""


def find_trtexec(*, folders: Sequence[Path] = TRTEXEC_FOLDERS) -> Path | None:
    """Return the path of trtexec: on the search path, or where NVIDIA's packages install it."""
    paths = (shutil.which("trtexec", path=path) for path in (None, *map(str, folders)))
    return next((Path(found) for found in paths if found), None)


def trtexec_binary(given: str | None) -> str:
    """Return the trtexec to run: the given one, or the one that ``find_trtexec`` returns."""
    if given is not None:
        # Not as a Path, which drops ./, because a bare name is looked up on the search path.
        found = shutil.which(str(expand_home(given)) if given.startswith("~") else given)
        if found is None:
            raise UnavailableError(f"{given} is not an executable program", fix="--opt binary=PATH")
        return found
    path = find_trtexec()
    if path is None:
        folders = ", ".join(str(folder) for folder in TRTEXEC_FOLDERS)
        raise UnavailableError(
            "trtexec is not installed here", facts={"searched": f"PATH, {folders}"}, fix=INSTALL
        )
    return str(path)


def trtexec_missing() -> str | None:
    """Return a short reason if there is no trtexec; ``None`` if there is one."""
    return None if find_trtexec() else "trtexec is neither on PATH nor in NVIDIA's usual folders"


def help_text(binary: str, *, timeout_s: float = 60.0) -> str:
    """Return the output of a program's ``--help``; takes seconds on a cold disk."""
    with temporary_folder() as folder:
        log = folder / "help.txt"
        try:
            end = run_process([binary, "--help"], log=log, timeout_s=timeout_s, own_group=False)
            text = log.read_text("utf-8", "replace")
        except OSError as problem:
            raise UnavailableError(
                f"{binary} does not start", facts={"reason": problem.strerror or problem}
            ) from None
    if end.timed_out or end.code:
        how = f"no answer within {timeout_s:.0f} s" if end.timed_out else end.text
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "nothing")
        raise UnavailableError(
            f"{binary} --help does not work", facts={"end": how, "last line": last}, fix=INSTALL
        )
    return text


def run_logged(
    command: Sequence[str], *, log: Path, on_text: Callable[[str], None] | None = None
) -> Exit:
    """Run a program in the group of this process; its log begins with the command."""
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"# run by trtbench:\n{shlex.join(mask_words(command))}\n")
    seen = log.stat().st_size

    def read_new() -> None:
        nonlocal seen
        if on_text is not None:
            with open(log, "rb") as file:
                file.seek(seen)
                data = file.read()
            seen += len(data)
            on_text(data.decode("utf-8", "replace"))

    try:  # read rarely, because the program is measuring
        end = run_process(command, log=log, own_group=False, tick_s=0.25, on_tick=read_new)
        read_new()
    except OSError as problem:
        raise UnavailableError(
            f"{command[0]} does not start", facts={"reason": problem.strerror or problem}
        ) from None
    finally:
        if mask_words(command) != list(command):  # programs print their own command line
            text = log.read_bytes().decode("utf-8", "surrogateescape")
            text = "".join(map(mask, text.splitlines(keepends=True)))
            log.write_bytes(text.encode("utf-8", "surrogateescape"))
    return end
