"""Runs jobs on machines that are reached by ssh; their Python may be another version."""

import contextlib
import errno
import hashlib
import os
import re
import shlex
import shutil
import signal
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex

import msgspec

from trtbench.core import safety as boundary
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, TrtbenchError, UnavailableError, UsageError, reading
from trtbench.core.spec import Value
from trtbench.core.units import bytes_from_text
from trtbench.executors import _node
from trtbench.executors._transfer import Upload, text_of_files, upload_from_job
from trtbench.executors.contract import ExecutorSettings, Notify, RemoteJob
from trtbench.host.files import temporary_folder
from trtbench.host.nvml import SLOT_VARIABLE
from trtbench.host.process import Child, run_together, tail
from trtbench.host.workers import OLDEST

TAKES = ("hosts",)
GRACE_S = 60.0
RETRIES = 2  # how often a job is started again after its host was lost
ARCHIVE_BYTES = 64 << 20
"""Size up to which files are sent together: each archive takes one connection."""
MOST_GPUS = 1024
MOST_BYTES = boundary.MAX_UNPACKED_BYTES
"""The most that a host may send back; four times what it was sent if that is more."""
MOST_TEXT_BYTES = 1 << 28  # hashes of all files of a job
LIKE = "write it like [[host]] and, below, address = 'user@board'"
NEEDS = ("msgspec", "numpy", "sqlalchemy")
"""Packages that the host's Python must have, in addition to the library that measures."""
COMMAND_S = 120.0
COPY_S = 3600.0

_LOST = 255  # the exit status of ssh when it cannot reach the machine, or lost the connection
_FULL = os.strerror(errno.ENOSPC)
_PROBE = (
    "import sys, importlib.util as u; print('trtbench-probe', *sys.version_info[:2], "
    "*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
)
_EXTRACT = (
    "import os, shutil, sys, tarfile\np = sys.argv[1]; t = p + '.' + str(os.getpid())\n"
    "try:\n"
    "    tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(t)\n"
    "    os.path.isdir(p) or os.rename(t, p)\n"
    "finally:\n"
    "    shutil.rmtree(t, ignore_errors=True)\n"
)


class Host(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: str  # `user@name`, or a name from `~/.ssh/config`
    name: str | None = None
    port: int | None = None
    identity: str | None = None
    options: tuple[str, ...] = ()  # more options of ssh, written `Name=value`
    python: str = "python3"
    folder: str = ".cache/trtbench"
    """The folder for models and code on the host, relative to the home folder."""
    environment: dict[str, str] = {}
    gpus: int | tuple[str, ...] = 0  # the number of GPUs, or their UUIDs, also of MIG slices
    gpu_type: str = ""
    memory: str | None = None
    gpu_memory: str | None = None
    resources: dict[str, float] = {}

    @property
    def title(self) -> str:
        return self.name or self.address


class HostsFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of ``--hosts``: tables ``[[host]]``."""

    host: tuple[Host, ...] = ()


def hosts_from_file(path: Path) -> tuple[Host, ...]:
    """Read the hosts of a hosts file; raises on unknown keys and unsafe values."""
    if not path.exists():
        raise InputError(f"there is no hosts file {path}", fix=f"make it: {LIKE}")
    try:
        with reading(path):
            hosts = msgspec.convert(boundary.read_toml(path), type=HostsFile).host
    except (ValueError, msgspec.ValidationError) as problem:
        facts = {"reason": str(problem), "keys": ", ".join(Host.__struct_fields__)}
        raise UsageError(f"{path} is not a valid hosts file", facts=facts, fix=LIKE) from None
    if not hosts:
        raise UsageError(f"{path} lists no host", fix=LIKE)
    titles = [host.title for host in hosts]
    for host in hosts:  # refuse impossible values, flags of ssh, and text that a shell would run
        odd = [name for name in host.environment if not name.isidentifier() or not name.isascii()]
        try:
            if ":" in host.address.rpartition("@")[0]:
                fix = "install your key on the machine: ssh-copy-id user@board"
                raise UsageError("an ssh address cannot contain a password", fix=fix)
            if not host.address or host.address.startswith("-") or len(host.address.split()) != 1:
                fix = "write it like user@board"
                raise UsageError(f"{host.address!r} is not an address", fix=fix)
            if (parts := host.address.rpartition(":"))[2].isdecimal() and ":" not in parts[0]:
                fix = f'address = "{parts[0]}" and, below, port = {parts[2]}'
                raise UsageError("an ssh address cannot contain a port", fix=fix)
            if odd:
                raise UsageError(f"{boundary.shown(odd[0])} is not a valid variable name")
            if isinstance(host.gpus, int) and not 0 <= host.gpus <= MOST_GPUS:
                raise UsageError(f"gpus must be 0 to {MOST_GPUS}")
            for size in filter(None, (host.memory, host.gpu_memory)):
                bytes_from_text(size)
            if titles.count(host.title) > 1:
                fix = "give each a different name = '...'"
                raise UsageError(f"{path} lists a host twice", fix=fix)
        except UsageError as problem:
            user, _, name = host.title.rpartition("@")  # the user part may contain a password
            problem.facts |= {"file": str(path), "host": name if ":" in user else host.title}
            raise
    return hosts


def slots_of(host: Host, *, beside: int = 1) -> list[_node.Slot]:
    names = ("",) * host.gpus if isinstance(host.gpus, int) else host.gpus
    given = {"memory": host.memory, "gpu_memory": host.gpu_memory}
    sizes = {name: bytes_from_text(size) for name, size in given.items() if size}
    devices: list[tuple[int | None, int, str]] = [(None, number, "") for number in range(beside)]
    devices += [(index, 0, name) for index, name in enumerate(names)]
    return [
        _node.Slot(
            machine=host.title,
            title=host.title,
            gpu=gpu,
            number=number,
            visible=visible,
            gpu_type=host.gpu_type,
            resources={**host.resources, **sizes},
        )
        for gpu, number, visible in devices
    ]


class Shell:
    """Runs commands on one host; ``prepare`` checks its Python and copies this package there."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._folder = host.folder.removeprefix("~/")
        self.code: str | None = None  # the version of this package on the host, once prepared
        self._preparing = threading.Lock()
        self.sending = threading.Lock()
        self._lost = False

    @property
    def usable(self) -> bool:
        """Whether the host is prepared, and the last command reached it."""
        return self.code is not None and not self._lost

    def prepare(self) -> None:
        """Check the host's Python and copy this package to the host, once."""
        with self._preparing:
            if self.code is not None:
                return
            words = self._run(self._python("-c", _PROBE, *NEEDS)).split()
            version = [int(part) for part in words[1:3] if re.fullmatch("[0-9]{1,3}", part)]
            if words[:1] != ["trtbench-probe"] or len(version) != 2:
                raise self._unreachable((" ".join(words)[:200],))
            python, missing = self.host.python, " ".join(words[3:])
            if tuple(version) < OLDEST or missing:
                raise UnavailableError(
                    "the host's Python cannot run trtbench",
                    facts={
                        "host": self.host.title,
                        "interpreter": python,
                        "Python": ".".join(words[1:3]),
                        "missing": missing or "Python 3.10 or newer",
                    },
                    fix=f"run on the host: {python} -m pip install {missing}"
                    if missing
                    else "set python of this host to an interpreter of 3.10 or newer",
                )
            package, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
            with temporary_folder() as own:
                archive = own / "code.tar"
                with tarfile.open(archive, "w") as file:
                    for path in sorted(package.rglob("*")):
                        if path.is_file() and not {"__pycache__", "demo"} & {*path.parts}:
                            name = str(Path("trtbench") / path.relative_to(package))
                            digest.update(name.encode() + b"\0" + path.read_bytes())
                            file.add(path, arcname=name, recursive=False)
                code = digest.hexdigest()[:16]
                remote = shlex.quote(f"{self._folder}/code/{code}")
                if self._run(f"test -d {remote} && echo yes || echo no").strip() != "yes":
                    self._run(f"mkdir -p {shlex.quote(self._folder)}/code")
                    extract = self._python("-c", _EXTRACT, f"code/{code}")
                    self._run(extract, source=archive, limit_s=COPY_S)
            self.code = code

    def transfer(self, *words: str, most: int = MOST_TEXT_BYTES, **files: Path) -> str:
        """Run a service of ``_transfer``, with files as for ``_run``; returns what it printed."""
        command = self._python("-m", "trtbench.executors._transfer", *words)
        return self._run(command, limit_s=COPY_S if files else COMMAND_S, most=most, **files)

    def run_job(
        self,
        folder: str,
        *,
        notify: Notify,
        limit_s: float | None,
        environment: dict[str, str],
        closed: threading.Event,
    ) -> str:
        words = (f"{folder}/request.json", folder, "-")
        command = self._python("-m", "trtbench.node", *words, environment=environment)
        with temporary_folder() as own, contextlib.ExitStack() as pipe:
            # This pipe closes when this process ends, in whatever way; the job then ends too.
            reader, writer = os.pipe()
            pipe.callback(os.close, reader)
            pipe.callback(os.close, writer)
            log = own / "log.txt"
            script = f'exec "$@" </dev/fd/{reader} >/dev/fd/{{events}}'
            full = ["sh", "-c", script, "sh", *self._ssh(command)]
            start = partial(Child, full, log=log, pass_fds=(reader,), on_line=notify)

            def check() -> None:
                _node.interrupt_if_closed(closed)
                self._check_size(MOST_BYTES, log)

            ended = run_together([start], timeout_s=limit_s, tick_s=_node.LOOK_S, on_tick=check)[0]
            self._lost = ended.status == _LOST
            if self._lost:
                raise self._unreachable(tail(log, lines=3))
        if ended.timed_out:
            return "timed out"
        with contextlib.suppress(ValueError):  # a shell returns 128 plus the number of a signal
            return signal.Signals((ended.status or 0) - 128).name
        return ended.signal or f"status {ended.status}"

    def _run(
        self,
        command: str,
        *,
        source: Path | None = None,
        target: Path | None = None,
        limit_s: float = COMMAND_S,
        most: int = MOST_TEXT_BYTES,
    ) -> str:
        with temporary_folder() as own:
            log, out = own / "log.txt", target or own / "out"
            into, from_ = shlex.quote(str(out)), shlex.quote(str(source or os.devnull))
            full = ["sh", "-c", f'exec "$@" <{from_} >{into}', "sh", *self._ssh(command)]
            start, check = partial(Child, full, log=log), partial(self._check_size, most, out, log)
            ended = run_together(
                [start], timeout_s=limit_s, tick_s=_node.LOOK_S / 4, on_tick=check
            )[0]
            check()
            self._lost = ended.status == _LOST
            if ended.status != 0:
                raise self._unreachable(tail(log, lines=5), status=ended.status)
            return "" if target else out.read_text("utf-8", "replace")

    def _check_size(self, most: int, *answers: Path) -> None:
        """Raise an error if the host sent too much; a limit of ssh itself would end its master."""
        if any(each.exists() and each.stat().st_size > most for each in answers):
            message = f"{self.host.title} sends more than is allowed"
            facts = {"host": self.host.title, "bytes": f"more than {most}"}
            fix = "leave out this host, or look at what its shell prints"
            raise UnavailableError(message, facts=facts, fix=fix)

    def _ssh(self, command: str, *, ask: bool = False) -> list[str]:
        host = self.host
        if shutil.which("ssh") is None:
            fix = "apt-get install openssh-client"
            raise UnavailableError("the program ssh is not installed here", fix=fix)
        options = [] if ask else ["BatchMode=yes"]
        options += ["ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4"]
        words = [word for option in (*options, *host.options) for word in ("-o", option)]
        if host.port is not None:
            words += ["-p", str(host.port)]
        if host.identity is not None:
            words += ["-i", str(boundary.expand_home(host.identity))]
        return ["ssh", "-T", *words, host.address, command]

    def _python(self, *words: str, environment: dict[str, str] | None = None) -> str:
        """Return a command line that runs the host's Python in the host's folder."""
        folder = shlex.quote(self._folder)
        own = {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
        given = {**own, **self.host.environment, **(environment or {})}
        sets = ['TRTBENCH_CACHE="$PWD"']
        sets += [f"{name}={shlex.quote(value)}" for name, value in given.items()]
        if self.code:
            more = shlex.quote(f":{given['PYTHONPATH']}") if "PYTHONPATH" in given else ""
            sets.append(f'PYTHONPATH="$PWD/code/{self.code}"{more}')  # overrides earlier ones
        # Shell code that returns a status if its program was killed; ssh would return `_LOST`.
        python = shlex.join(["sh", "-c", '"$@"; exit $?', "sh", self.host.python, *words])
        return f"mkdir -p {folder} && cd {folder} && exec env {' '.join(sets)} {python}"

    def _unreachable(self, lines: Sequence[str], *, status: int | None = _LOST) -> UnavailableError:
        title = self.host.title
        fix: str | None = shlex.join(self._ssh("true"))
        if status in (126, 127):  # exit statuses of a shell when there is no such program
            fix = f"set python of {title} in the hosts file to an interpreter on the host"
        elif _FULL in " ".join(lines):
            fix = f"free space on the disk of {self.host.folder} on the host"
        elif any(line.startswith("mkdir: ") for line in lines):
            fix = f"set folder of {title} in the hosts file to one that is writable on the host"
        elif any("Host key verification failed" in line for line in lines):
            once = shlex.join(self._ssh("true", ask=True))
            fix = f"compare the key with the machine's own, then: {once}"
        elif status != _LOST:
            fix = None  # the host was reached, and reports itself what is wrong
        lines = [line for line in lines if line.strip()]
        if status != _LOST:  # leave out the frames of a traceback, which are indented
            errors = [line for line in lines if not line.startswith((" ", "Traceback"))]
            lines = errors or lines[-1:]
        reason = " | ".join(line.strip() for line in lines) or "no output"
        facts = {"host": title, "address": self.host.address, "reason": reason}
        return UnavailableError(f"{title} cannot be used by ssh", facts=facts, fix=fix)


class SshExecutor(_node.SlotExecutor):
    """Copies jobs and models to hosts, runs the jobs, and fetches the run directories."""

    def __init__(self, settings: ExecutorSettings) -> None:
        """Read the hosts file; a host is not contacted before it is used."""
        if settings.hosts is None:
            raise UsageError("the executor ssh needs a hosts file", fix="--hosts hosts.toml")
        hosts = hosts_from_file(settings.hosts)
        self._shells = {host.title: Shell(host) for host in hosts}
        slots = [slot for host in hosts for slot in slots_of(host, beside=settings.beside)]
        super().__init__(lambda: slots)

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        upload = upload_from_job(job)

        def run_in(slot: _node.Slot) -> None:
            """Run the job on one host; a host that cannot be used gets no more jobs."""
            shell, there = self._shells[slot.machine], f"work/{job.id}-{token_hex(3)}"
            try:
                shell.prepare()
                _send(shell, upload, there, notify)
                view = {SLOT_VARIABLE: str(slot.number)}
                if slot.gpu is not None:
                    view["CUDA_VISIBLE_DEVICES"] = slot.visible or str(slot.gpu)
                how = shell.run_job(
                    there, notify=lambda text: notify(f"{slot.title}: {text}"),
                    limit_s=None if job.limit_s is None else job.limit_s + GRACE_S,
                    environment=view, closed=self._closed,
                )  # fmt: skip
                with temporary_folder() as own:
                    sent = sum(each.stat().st_size for each in upload.contents.values())
                    most = max(MOST_BYTES, 4 * sent)
                    shell.transfer("pack", there, target=own / "left.tar", most=most)
                    _node.receive(own / "left.tar", folder, where=slot.title, how=how)
                return
            except TrtbenchError as problem:
                if "where" not in problem.facts:
                    problem.facts = {"host": slot.title, **problem.facts}
                if shell.usable or not isinstance(problem, UnavailableError):
                    raise  # the host was reached, and reported the error itself
                lost = _node.MachineLost(problem)
            finally:
                if shell.code is not None:
                    with contextlib.suppress(UnavailableError):  # an earlier error says more
                        shell.transfer("remove", there)
            if not shell.usable:
                self.unusable[slot.machine] = lost.problem
            _node.interrupt_if_closed(self._closed)
            raise lost

        self.run_in_slot(job.needs, run_in, notify=notify, retries=RETRIES)


def _send(shell: Shell, upload: Upload, there: str, notify: Notify) -> None:
    """Send the contents that a host lacks, small files many at a time, and then the job."""
    contents, name = upload.contents, shell.host.name
    with temporary_folder() as folder:
        archive, hashes, request = folder / "contents.tar", folder / "hashes", folder / "job.json"
        if contents:
            with shell.sending:  # other threads that need the same files wait until they are there
                hashes.write_text("\n".join(contents))
                missing = set(shell.transfer("missing", source=hashes).split())
                for group in _groups({k: path for k, path in contents.items() if k in missing}):
                    files = [contents[each] for each in group]
                    notify(f"sending {text_of_files(files)} to {shell.host.title}")
                    if len(group) == 1:
                        shell.transfer("keep", group[0], source=files[0])
                        continue
                    with tarfile.open(archive, "w", dereference=True) as file:
                        for sha256 in group:
                            file.add(contents[sha256], arcname=sha256, recursive=False)
                    shell.transfer("keep-all", source=archive)
        label = None  # the machine's name in records, unless its own settings name it
        with contextlib.suppress(InputError):
            label = boundary.check_tag(name) if name else None
        request.write_bytes(json_from_value(upload.having(job=upload.job.having(machine=label))))
        shell.transfer("place", there, source=request)


def _groups(contents: Mapping[str, Path]) -> Iterator[list[str]]:
    """Yield groups of small files up to the size of an archive; larger files go alone."""
    group: list[str] = []
    size = 0
    for sha256, path in contents.items():
        own = path.stat().st_size
        if group and size + own > ARCHIVE_BYTES:
            yield group
            group, size = [], 0
        group.append(sha256)
        size += own
    if group:
        yield group


open_executor = SshExecutor
