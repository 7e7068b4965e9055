"""One machine reached by ssh: commands there, files to it, and this package lent to it."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import shutil
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from trtbench.boundary import at_home
from trtbench.errors import UnavailableError
from trtbench.executors._hosts import Host
from trtbench.executors._interpreter import OLDEST
from trtbench.executors._node import LOOK_S, interrupt_if, told_in
from trtbench.executors._request import Tell, Told
from trtbench.host.process import Child, Exit, run_together, tail
from trtbench.host.unfinished import temporary_folder
from trtbench.version import __version__

NEEDS = ("msgspec", "numpy", "sqlalchemy")
"""What the interpreter there must have, beside the library that measures."""

COMMAND_S = 120.0
COPY_S = 3600.0

_LOST = 255
"""The status with which ssh says that it could not reach the machine, or lost it."""

_NO_PROGRAM = (126, 127)
"""The statuses with which a shell says that there is no such program."""
_TELL_STATUS = '"$@"; exit $?'
"""Has a shell say that a program was killed; of that itself, ssh makes a lost connection."""
_FULL = os.strerror(errno.ENOSPC)

_PROBE = (
    "import sys, importlib.util as u; print('trtbench-probe', *sys.version_info[:2], "
    "*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
)
_WHICH = (
    "import os\n"
    "try:\n"
    "    import trtbench.version as v; d = os.path.dirname(v.__file__)\n"
    "    print('trtbench-code', v.__version__, d)\n"
    "except ImportError:\n"
    "    print('trtbench-code none')\n"
)
_TAKE = (
    "import os, shutil, sys, tarfile\np = sys.argv[1]; t = p + '.' + str(os.getpid())\n"
    "try:\n"
    "    tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(t)\n"
    "    os.path.isdir(p) or os.rename(t, p)\n"
    "finally:\n"
    "    shutil.rmtree(t, ignore_errors=True)\n"
)


class Shell:
    """Runs commands on one host; the first use checks its Python and lends it this package."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._code: str | None = None
        self._preparing = threading.Lock()
        self.sending = threading.Lock()
        self._lost = False

    @property
    def usable(self) -> bool:
        """Whether it had what is needed when it was looked at, and was there the last time."""
        return self.prepared and not self._lost

    @property
    def prepared(self) -> bool:
        """Whether it has this package, and all that it takes."""
        return self._code is not None

    def prepare(self) -> None:
        """Make sure that the machine can work, once."""
        with self._preparing:
            if self._code is None:
                self._check_python()
                code = self._lend()
                self._check_lent(code)
                self._code = code

    def far(self, *words: str, source: Path | None = None, target: Path | None = None) -> str:
        """Have a small service done there; gives what it printed."""
        command = self._python("-m", "trtbench.executors._ssh_services", *words)
        limit_s = COPY_S if source or target else COMMAND_S
        return self._run(command, source=source, target=target, limit_s=limit_s)

    def lacks(self, libraries: Sequence[str]) -> Told | None:
        """Ask what of these is not installed there."""
        return told_in(self._run(self._python("-m", "trtbench.node", "lacks", *libraries)))

    def measure(
        self,
        folder: str,
        *,
        tell: Tell,
        limit_s: float | None,
        environment: dict[str, str],
        closed: threading.Event | None = None,
    ) -> Exit:
        """Carry out the request in a folder there; what it tells is heard as it is told."""
        words = (f"{folder}/request.json", folder, "-")
        command = self._python("-m", "trtbench.node", *words, environment=environment)
        with temporary_folder() as own, _open_pipe() as end:
            log = own / "log.txt"
            script = f'exec "$@" </dev/fd/{end} >/dev/fd/{{events}}'

            def start() -> Child:
                full = ["sh", "-c", script, "sh", *self._ssh(command)]
                return Child(full, log=log, pass_fds=(end,), on_line=tell)

            ended = run_together(
                [start], timeout_s=limit_s, tick_s=LOOK_S, on_tick=partial(interrupt_if, closed)
            )[0]
            self._lost = ended.status == _LOST
            if self._lost:
                raise self._unreachable(tail(log, lines=3))
            return ended

    def _run(
        self,
        command: str,
        *,
        source: Path | None = None,
        target: Path | None = None,
        limit_s: float = COMMAND_S,
    ) -> str:
        with temporary_folder() as own:
            log, out = own / "log.txt", target or own / "out"
            into, from_ = shlex.quote(str(out)), shlex.quote(str(source or os.devnull))
            full = ["sh", "-c", f'exec "$@" <{from_} >{into}', "sh", *self._ssh(command)]
            ended = run_together([lambda: Child(full, log=log)], timeout_s=limit_s)[0]
            self._lost = ended.status == _LOST
            if ended.status != 0:
                raise self._unreachable(tail(log, lines=5), status=ended.status)
            return "" if target else out.read_text("utf-8", "replace")

    def _ssh(self, command: str, *, ask: bool = False) -> list[str]:
        host = self.host
        if shutil.which("ssh") is None:
            raise UnavailableError("there is no ssh here", fix="apt-get install openssh-client")
        words = ["ssh", "-T", *([] if ask else ["-o", "BatchMode=yes"]), "-o", "ConnectTimeout=15"]
        words += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
        for option in host.options:
            words += ["-o", option]
        if host.port is not None:
            words += ["-p", str(host.port)]
        if host.identity is not None:
            words += ["-i", str(at_home(host.identity))]
        return [*words, host.address, command]

    def _python(
        self, *words: str, environment: dict[str, str] | None = None, code: str | None = None
    ) -> str:
        """Write a command line for the shell there, in the folder where things are kept."""
        folder = shlex.quote(self.host.folder.removeprefix("~/"))
        given = {"PYTHONUNBUFFERED": "1", **self.host.environment, **(environment or {})}
        sets = ['TRTBENCH_CACHE="$PWD"']
        sets += [f"{name}={shlex.quote(value)}" for name, value in given.items()]
        if code := code or self._code:
            more = shlex.quote(f":{given['PYTHONPATH']}") if "PYTHONPATH" in given else ""
            sets.append(f'PYTHONPATH="$PWD/code/{code}"{more}')  # the last one counts
        python = shlex.join(["sh", "-c", _TELL_STATUS, "sh", self.host.python, *words])
        return f"mkdir -p {folder} && cd {folder} && exec env {' '.join(sets)} {python}"

    def _check_python(self) -> None:
        said = self._run(self._python("-c", _PROBE, *NEEDS)).split()
        if said[:1] != ["trtbench-probe"]:
            raise self._unreachable((" ".join(said)[:200],))
        version, missing = tuple(int(part) for part in said[1:3]), said[3:]
        facts = {"host": self.host.title, "interpreter": self.host.python}
        if version < OLDEST:
            raise UnavailableError(
                "the Python of a host is too old",
                facts={**facts, "Python": ".".join(said[1:3])},
                fix="set python of this host to one that is 3.10 or newer",
            )
        if missing:
            raise UnavailableError(
                "the Python of a host lacks what measuring needs",
                facts={**facts, "missing": " ".join(missing)},
                fix=f"there: {self.host.python} -m pip install {' '.join(missing)}",
            )

    def _lend(self) -> str:
        """Copy this package there unless it has this very one; gives the name of its folder."""
        with temporary_folder() as own:
            archive = own / "code.tar"
            digest = _packed(archive)
            code = f"code/{digest}"
            there = f"{self.host.folder.removeprefix('~/')}/{code}"
            known = self._run(f"test -d {shlex.quote(there)} && echo yes || echo no")
            if known.strip() != "yes":
                self._run(f"mkdir -p {shlex.quote(self.host.folder.removeprefix('~/'))}/code")
                self._run(self._python("-c", _TAKE, code), source=archive, limit_s=COPY_S)
            return digest

    def _check_lent(self, code: str) -> None:
        """Refuse an interpreter that takes another trtbench than the one it was lent."""
        said = self._run(self._python("-c", _WHICH, code=code)).split(maxsplit=2)
        version, place = said[1:] if len(said) == 3 else ("none", "")
        if place.strip().endswith(f"{code}/trtbench"):
            return
        raise UnavailableError(
            "a host takes another trtbench than the one it was lent",
            facts={
                "host": self.host.title,
                "interpreter": self.host.python,
                "there": f"{version} {place}".strip(),
                "here": __version__,
            },
            fix="set python of this host to one that heeds PYTHONPATH: no wrapper that starts it "
            "with -I or -E, or in a container",
        )

    def _unreachable(self, lines: Sequence[str], *, status: int | None = _LOST) -> UnavailableError:
        fix: str | None = shlex.join(self._ssh("true"))
        if status in _NO_PROGRAM:
            fix = f"set python of {self.host.title} in the list of hosts to an interpreter there"
        elif _FULL in " ".join(lines):
            fix = f"make room on the disk of {self.host.folder} there"
        elif any(line.startswith("mkdir: ") for line in lines):
            fix = (
                f"set folder of {self.host.title} in the list of hosts to one that can be "
                "written there"
            )
        elif any("Host key verification failed" in line for line in lines):
            once = shlex.join(self._ssh("true", ask=True))
            fix = f"compare its key with the one the machine has, then: {once}"
        elif status != _LOST:
            fix = None  # it was reached, and said itself what is wrong
        return UnavailableError(
            f"{self.host.title} cannot be used by ssh",
            facts={
                "host": self.host.title,
                "address": self.host.address,
                "reason": _reason(lines, whole=status == _LOST),
            },
            fix=fix,
        )


def _reason(lines: Sequence[str], *, whole: bool) -> str:
    """Put what was printed last into a line: all that ssh said, or how a program there ended."""
    said = [line for line in lines if line.strip()]
    if not whole:  # the frames of a traceback are set in
        said = [line for line in said if not line.startswith((" ", "Traceback"))] or said[-1:]
    return " | ".join(line.strip() for line in said) or "nothing was said"


def _packed(target: Path) -> str:
    """Pack the package's source; gives a hash of it."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    with tarfile.open(target, "w") as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "demo" not in path.parts:
                name = str(Path("trtbench") / path.relative_to(package))
                digest.update(name.encode() + b"\0" + path.read_bytes())
                archive.add(path, arcname=name, recursive=False)
    return digest.hexdigest()[:16]


@contextmanager
def _open_pipe() -> Iterator[int]:
    """List the reading end of a pipe that ends when this process does, however it does."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)
