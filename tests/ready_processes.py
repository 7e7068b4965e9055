"""Processes of trtbench that begin as copies of one that has imported everything already.

Tests start some thousand commands and workers, and most of the processor's time went into
importing the same libraries in each. Here a process waits that has done so; asked for ``python -m
trtbench`` or a worker it makes a copy of itself, which takes on descriptors, folder, environment
and arguments, and goes on as a new interpreter would. It knows nothing of the test that asks:
whatever was patched there is not here. A command has such a process for its workers, too, which it
sees as a child. Starts that another environment could make different (a search path, a limit, an
interpreter) are real ones, and so is every start outside ``make test``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MODULES = ("trtbench", "trtbench.worker", "trtbench.node")
IMPORTED = (
    "trtbench.cli", "trtbench.verbs.bench", "trtbench.worker", "trtbench.node",
    "trtbench.runtimes.onnxruntime", "trtbench.runtimes._loop", "trtbench.runtimes._turns",
    "trtbench.runtimes._stream", "sqlalchemy.dialects.sqlite.pysqlite", "rich.table",
    "rich.progress", "onnx", "numpy.random", "email.parser",
)  # fmt: skip
"""All but ONNX Runtime, which starts a thread when it is imported: a copy would lack it."""

PACKAGES = ("trtbench.verbs", "trtbench.workflows")
"""All that is in these is imported, too."""

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_", "COVERAGE")
"""Beginnings of names that only a new interpreter or a library being loaded takes notice of."""

REAL = "TRTBENCH_TEST_STARTS"
"""What must be a real start, whatever else holds: "all", or "workers" of commands that are copies.

With "few", a program (-c) may be a copy, too."""

GIVEN = {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
"""What workers are given, which a copy can follow."""

SET_DEATH_SIGNAL, SET_ADOPTS = 1, 36
KILL = signal.SIGKILL
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
MAX_BYTES = 1 << 18
FREE_FROM = 500
"""Descriptors from here on are nobody's: those that were sent wait here for their numbers."""


def prctl(option: int, value: int) -> None:
    """Tell the kernel about this process."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class ReadyPopen(subprocess.Popen):  # type: ignore[type-arg]
    """``Popen`` that takes a copy where a copy is as good; all but the start is its own."""

    source: Source | None = None

    def _execute_child(self, *given: Any) -> None:  # type: ignore[override]
        (command, executable, setup, close, kept, folder, environment, *_) = given[:10]
        shell, stdin, _, _, stdout, _, stderr = given[9:16]
        (gid, gids, uid, umask, session, *group) = given[17:]
        plain = executable is None and close and not shell and umask == -1
        plain = plain and gid is None and gids is None and uid is None and group in ([], [-1])
        plain = plain and (setup is None or hasattr(setup, "dies_with_parent"))
        plain = plain and Path(folder or ".").is_dir()
        environment = dict(os.environ if environment is None else environment)
        source = self.source
        if not plain or source is None or not source.takes(command, environment):
            super()._execute_child(*given)
            return
        streams = [own if each == -1 else each for own, each in enumerate((stdin, stdout, stderr))]
        asked = {
            "words": [os.fspath(each) for each in command][1:],
            "environment": environment,
            "folder": os.path.abspath(folder or "."),  # noqa: PTH100
            "numbers": [0, 1, 2, *map(int, kept)],
            "session": bool(session),
            "dies_with_parent": setup is not None,
        }
        self.pid = source.start(asked, [*streams, *kept])
        self._child_created = True
        self._close_pipe_fds(*given[10:16])


class Source:
    """The process that copies are made of; it is started when the first is asked for."""

    def __init__(self, own: socket.socket | None = None) -> None:
        self._lock = threading.Lock()
        self._socket = own
        self._process: subprocess.Popen[bytes] | None = None
        self._modules: set[str] = set()
        self._path: set[str] = set()
        self._environment = dict(os.environ)
        self._owner = os.getpid()  # a copy is adopted by its own ancestors only
        self.started = 0

    def takes(self, command: Sequence[Any], environment: Mapping[str, str]) -> bool:
        """Whether a copy is as good as a new process."""
        if isinstance(command, str | bytes) or len(command) < 3 or os.getpid() != self._owner:
            return False
        how, module = command[1:3]
        named = how == "-m" and module in MODULES
        named = named or (how == "-c" and environment.get(REAL) == "few")
        if command[0] != sys.executable or not named or environment.get(REAL) == "all":
            return False
        own, known = _at_start(environment), _at_start(self._environment)
        path = own.get("PYTHONPATH", "")
        if path and path != known.get("PYTHONPATH"):
            if "PYTHONPATH" in known or not self._adds(path):
                return False
            del own["PYTHONPATH"]
        kept = {k: v for k, v in own.items() if k in known or GIVEN.get(k) != v}
        return kept == known

    def _adds(self, path: str) -> bool:
        """Whether folders to search first hold nothing that is imported already."""
        with self._lock:
            self._begin()
        folders = [Path(each) for each in path.split(os.pathsep) if each not in self._path]
        files = [each for folder in folders for each in folder.glob("*.*")]
        packages = [each.parent for folder in folders for each in folder.glob("*/__init__.py")]
        found = {each.name.partition(".")[0] for each in (*files, *packages)}
        return not found & (self._modules | {"sitecustomize", "usercustomize"})

    def start(self, asked: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Ask for a copy, and become its parent."""
        with self._lock:
            ends = self._begin()
            prctl(SET_ADOPTS, 1)
            try:
                message = json.dumps({**asked, "parent": os.getpid()}).encode()
                socket.send_fds(ends, [message], list(descriptors))
                self.started += 1
                return int(ends.recv(64))
            finally:
                prctl(SET_ADOPTS, 0)

    def close(self) -> None:
        """Let the process go."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def _begin(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (mine, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),), env=self._environment, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._socket = mine
        self.know(json.loads(mine.recv(MAX_BYTES)))
        return mine

    def know(self, told: Sequence[Sequence[str]]) -> None:
        """Take note of what the process has imported, and where it looks for more."""
        self._modules, self._path = map(set, told)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(READ_AT_START)}


@contextlib.contextmanager
def ready_processes(source: Source | None = None) -> Iterator[Source]:
    """Let commands and workers that this process starts be copies, where they may."""
    from trtbench.host import process

    before, real_popen, real_setup = ReadyPopen.source, subprocess.Popen, process._child_setup
    source = source or Source()

    def child_setup(*, memory_bytes: int | None) -> Callable[[], None]:
        setup = real_setup(memory_bytes=memory_bytes)
        if memory_bytes is None:
            setup.dies_with_parent = True  # type: ignore[attr-defined]
        return setup

    ReadyPopen.source = source
    subprocess.Popen, process._child_setup = ReadyPopen, child_setup  # type: ignore[misc]
    try:
        yield source
    finally:
        subprocess.Popen, process._child_setup = real_popen, real_setup  # type: ignore[misc]
        ReadyPopen.source = before
        source.close()


# --- in the process that copies are made of ---------------------------------------------------


def serve(ends: socket.socket) -> dict[str, Any]:
    """Make a copy for every message; returns in each copy, with what it was asked for."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(ends, MAX_BYTES, 64)
        if not message:
            os._exit(0)
        between = os.fork()
        if between == 0:
            if os.fork():
                os._exit(0)  # who asked adopts the copy
            return _become(json.loads(message), descriptors, ends)
        os.waitpid(between, 0)
        for each in descriptors:
            os.close(each)


def _become(asked: dict[str, Any], descriptors: Sequence[int], ends: socket.socket) -> Any:
    while (parent := os.getppid()) != asked["parent"]:
        if parent == 1:
            os._exit(1)  # who asked is gone
        time.sleep(0.0005)
    if asked["dies_with_parent"]:
        prctl(SET_DEATH_SIGNAL, KILL)
    if asked["session"]:
        os.setsid()
    waiting = [fcntl.fcntl(each, fcntl.F_DUPFD, FREE_FROM) for each in descriptors]
    answer = fcntl.fcntl(ends.detach(), fcntl.F_DUPFD, FREE_FROM)
    os.closerange(0, FREE_FROM)
    for each, number in zip(waiting, asked["numbers"], strict=True):
        os.dup2(each, number)
    os.write(answer, str(os.getpid()).encode())
    os.closerange(FREE_FROM, FREE_FROM + len(waiting) + 8)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    return asked


def _streams(*, unbuffered: bool) -> None:
    """Open the three streams anew, as an interpreter does that starts."""
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    for number, name, errors in ((1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        stream = open(number, "w", errors=errors, closefd=False)  # noqa: SIM115
        line = number == 2 or stream.isatty()
        stream.reconfigure(line_buffering=line, write_through=unbuffered)  # type: ignore[union-attr]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def serve_workers(given: socket.socket, told: Any) -> tuple[Any, Source | None]:
    """Serve, and let each copy that is no worker have a process like this one for its own."""
    with given:
        asked = serve(given)
    while asked["words"][1] != "trtbench.worker" and asked["environment"].get(REAL) != "workers":
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork():
            theirs.close()
            high = fcntl.fcntl(mine, fcntl.F_DUPFD_CLOEXEC, FREE_FROM)
            mine.close()
            source = Source(socket.socket(fileno=high))
            source.know(told)
            return asked, source
        mine.close()
        number = fcntl.fcntl(theirs.detach(), fcntl.F_DUPFD, FREE_FROM)
        os.closerange(0, FREE_FROM)
        # A signal is for the command; this process ends with it.
        kept = {each: signal.signal(each, signal.SIG_IGN) for each in SIGNALS}
        with socket.socket(fileno=number) as ends:
            asked = serve(ends)
        for each, handler in kept.items():
            signal.signal(each, handler)
    return asked, None


def main() -> None:
    """Import everything, wait, and be the command that is asked for."""
    import gc
    import runpy
    import warnings

    packages = map(importlib.import_module, PACKAGES)
    within = [
        each.name for p in packages for each in pkgutil.iter_modules(p.__path__, f"{p.__name__}.")
    ]
    for name in (*IMPORTED, *within):
        importlib.import_module(name)
    gc.freeze()
    ends = socket.socket(fileno=int(sys.argv[1]))
    tops = {name.partition(".")[0] for name in sys.modules}
    told = [sorted(tops), ["", *sys.path]]
    ends.send(json.dumps(told).encode())
    with warnings.catch_warnings():  # of threads, which NumPy's library starts anew in a copy
        warnings.simplefilter("ignore", DeprecationWarning)
        asked, source = serve_workers(ends, told)
    environment, (how, module, *words) = asked["environment"], asked["words"]
    _streams(unbuffered="PYTHONUNBUFFERED" in environment)
    first = [] if "PYTHONSAFEPATH" in environment else [asked["folder"]]
    added = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:1] = [*first, *(each for each in added if each not in sys.path)]
    sys.argv = [module if how == "-m" else how, *words]
    importlib.invalidate_caches()
    with ready_processes(source) if source else contextlib.nullcontext():
        try:
            if how == "-m":
                sys.modules.pop(module if module != "trtbench" else "trtbench.__main__", None)
                runpy.run_module(module, run_name="__main__", alter_sys=True)  # anew
            else:
                exec(module, {"__name__": "__main__"})
        except SystemExit as end:
            leave(end.code or 0)
            raise
        leave(0)


def leave(status: object) -> None:
    """End at once: to take apart all that was imported would be most of a short command."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(status, int):
        with contextlib.suppress(OSError, ValueError):  # which the interpreter tells of
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status & 0xFF)


if __name__ == "__main__":
    main()
