"""Runs on machines that are reached by ssh, whatever their Python is."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex

from trtbench.errors import UnavailableError, UsageError
from trtbench.executors._folders import unpack
from trtbench.executors._hosts import Host, hosts_from_file, slots_of
from trtbench.executors._node import RUN, interrupt_if, result_of
from trtbench.executors._parcel import (
    Parcel,
    bytes_from_parcel,
    parcel_from_request,
    text_of_files,
)
from trtbench.executors._request import AGAIN, Executor, ExecutorSettings, Needs, Request, Tell
from trtbench.executors._shell import Shell
from trtbench.executors._slots import Lacking, Slot, Slots
from trtbench.host.gpu_names import SLOT_VARIABLE
from trtbench.host.process import Exit
from trtbench.host.unfinished import temporary_folder

ELSEWHERE = True
TAKES = ("hosts",)
GRACE_S = 60.0
RETRIES = 2
"""How often a run is begun again when its host is lost."""
SMALL_BYTES = 16 << 20
"""Files below this go together: a folder of images would take a connection for each."""
ARCHIVE_BYTES = 64 << 20
"""How much goes together."""


class _HostLost(Exception):
    """The host a run was on cannot be used, or its connection was cut."""

    def __init__(self, problem: UnavailableError, title: str) -> None:
        super().__init__(problem.message)
        self.problem, self.title = problem, title


def open_executor(settings: ExecutorSettings) -> Executor:
    """Read the list of hosts; none is reached before it is used."""
    if settings.hosts is None:
        raise UsageError("the executor ssh needs a list of hosts", fix="--hosts hosts.toml")
    return SshExecutor(hosts_from_file(settings.hosts), beside=settings.beside)


class SshExecutor:
    """Copies requests and models to hosts, has them measured, and fetches the directories."""

    elsewhere = ELSEWHERE

    def __init__(self, hosts: tuple[Host, ...], *, beside: int = 1) -> None:
        self._shells = {host.title: Shell(host) for host in hosts}
        self._places = [slot for host in hosts for slot in slots_of(host, beside=beside)]
        self._lost: dict[str, UnavailableError] = {}
        """Hosts that cannot be used, and why: others take over."""
        self._slots = Slots(self._look)
        self._closed = threading.Event()

    def width(self, needs: Needs) -> int:
        self._refuse_lost(needs)
        return len(self._slots.fitting(needs))

    def run(self, request: Request, *, folder: Path, tell: Tell) -> None:
        """Measure on a free host; another one takes over when it is lost, or the same once more."""
        parcel = parcel_from_request(request)
        self._refuse_lost(request.needs)
        times = 0
        while True:
            try:
                if self._tried(request.needs, parcel, folder, tell):
                    return
            except _HostLost as lost:
                interrupt_if(self._closed)
                times += 1
                if times > RETRIES:
                    raise lost.problem from None
                self._refuse_lost(request.needs)
                reason = lost.problem.facts.get("reason", lost.problem.message)
                tell(f"{lost.title} was lost ({reason}); {AGAIN}")
            except UnavailableError:
                self._refuse_lost(request.needs)  # by who was before it
                raise

    def _tried(self, needs: Needs, parcel: Parcel, folder: Path, tell: Tell) -> bool:
        """Carry a request out on the next free host; false where that lacks what it takes."""
        with self._slots.taken(needs, tell=tell) as slot:
            try:
                self._on(slot, parcel, folder, tell)
            except Lacking:
                return False  # elsewhere; that no other has it is said there
        return True

    def _on(self, slot: Slot, parcel: Parcel, folder: Path, tell: Tell) -> None:
        """Carry a request out on one host; one that cannot be reached is left out from now on."""
        shell, there = self._shells[slot.machine], f"work/{parcel.request.id}-{token_hex(3)}"
        try:
            shell.prepare()
            self._slots.demand(slot, parcel.request.needs, shell.lacks)
            self._send(shell, parcel, there, tell)
            self._measure(shell, slot, parcel.request, there, folder, tell)
        except UnavailableError as problem:
            if shell.usable:  # it was reached, and said itself what is wrong
                raise
            lost = _HostLost(problem, slot.title)
        else:
            return
        finally:
            if shell.prepared:
                with contextlib.suppress(UnavailableError):  # what went wrong before says more
                    shell.far("remove", there)
        if not shell.usable:
            self._lost[slot.machine] = lost.problem
        raise lost from None

    def _look(self) -> list[Slot]:
        interrupt_if(self._closed)
        return [slot for slot in self._places if slot.machine not in self._lost] or self._places

    def _refuse_lost(self, needs: Needs) -> None:
        """Say why the only hosts that would do cannot be used."""
        fitting = [slot.machine for slot in self._places if slot.lacks(needs) is None]
        if fitting and self._lost.keys() >= set(fitting):
            raise self._lost[fitting[0]]

    def close(self) -> None:
        """End what is being measured."""
        self._closed.set()

    def _send(self, shell: Shell, parcel: Parcel, there: str, tell: Tell) -> None:
        if parcel.contents:
            with shell.sending:  # who needs the same at the same time waits, and finds it there
                _send_missing(shell, parcel.contents, tell)
        parcel = parcel.having(request=parcel.request.having(machine=shell.host.label))
        with temporary_folder() as folder:
            (folder / "parcel.json").write_bytes(bytes_from_parcel(parcel))
            shell.far("place", there, source=folder / "parcel.json")

    def _measure(
        self, shell: Shell, slot: Slot, request: Request, there: str, folder: Path, tell: Tell
    ) -> None:
        view = {SLOT_VARIABLE: str(slot.number)}
        if slot.gpu is not None:
            view["CUDA_VISIBLE_DEVICES"] = slot.visible or str(slot.gpu)
        limit_s = None if request.limit_s is None else request.limit_s + GRACE_S
        title = shell.host.title
        ended = shell.measure(
            there,
            tell=lambda text: tell(f"{title}: {text}"),
            limit_s=limit_s,
            environment=view,
            closed=self._closed,
        )
        with temporary_folder() as own:
            shell.far("pack", there, target=own / "left.tar")
            unpack(own / "left.tar", own / "left")
            if (own / "left" / RUN).is_dir():  # of work that failed, its log
                shutil.copytree(own / "left" / RUN, folder, dirs_exist_ok=True)
            result_of(own / "left", where=title, how=_how(ended))


def _how(ended: Exit) -> str:
    """Say how a command over there ended; its shell adds 128 to the number of a signal."""
    if ended.timed_out:
        return "no end in time"
    with contextlib.suppress(ValueError):
        return signal.Signals((ended.status or 0) - 128).name
    return ended.signal or f"status {ended.status}"


def _send_missing(shell: Shell, contents: Mapping[str, Path], tell: Tell) -> None:
    """Send the contents that a host does not have, small ones many at a time."""
    with temporary_folder() as folder:
        listed = folder / "asked"
        listed.write_text("\n".join(contents))
        missing = shell.far("missing", source=listed).split()
        for group in _groups({sha256: contents[sha256] for sha256 in missing}):
            files = [contents[each] for each in group]
            tell(f"sending {text_of_files(files)} to {shell.host.title}")
            if len(group) == 1:
                shell.far("keep", group[0], source=files[0])
                continue
            archive = folder / "contents.tar"
            with tarfile.open(archive, "w", dereference=True) as file:
                for sha256 in group:
                    file.add(contents[sha256], arcname=sha256, recursive=False)
            shell.far("keep-all", source=archive)


def _groups(contents: Mapping[str, Path]) -> Iterator[list[str]]:
    """Put small files together, up to the size of an archive; large ones go alone."""
    group: list[str] = []
    size = 0
    for sha256, path in contents.items():
        own = path.stat().st_size
        if own >= SMALL_BYTES:
            yield [sha256]
            continue
        if group and size + own > ARCHIVE_BYTES:
            yield group
            group, size = [], 0
        group.append(sha256)
        size += own
    if group:
        yield group
