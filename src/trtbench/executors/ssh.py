"""Runs on machines that are reached by ssh, whatever their Python is."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from pathlib import Path

from trtbench.errors import UsageError
from trtbench.executors._folders import unpack
from trtbench.executors._hosts import Host, hosts_from_file, slots_of
from trtbench.executors._node import result_of
from trtbench.executors._parcel import Parcel, bytes_from_parcel, parcel_from_request
from trtbench.executors._request import Executor, ExecutorSettings, Needs, Request, Tell
from trtbench.executors._shell import Shell
from trtbench.executors._slots import Slot, Slots
from trtbench.host.gpu_names import SLOT_VARIABLE

ELSEWHERE = True
GRACE_S = 60.0


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
        places = [slot for host in hosts for slot in slots_of(host, beside=beside)]
        self._slots = Slots(lambda: places)
        self._closed = threading.Event()

    def width(self, needs: Needs) -> int:
        return len(self._slots.fitting(needs))

    def run(self, request: Request, *, folder: Path, tell: Tell) -> None:
        """Measure on a free host."""
        parcel = parcel_from_request(request)
        with self._slots.taken(request.needs, tell=tell) as slot:
            shell = self._shells[slot.machine]
            shell.prepare()
            there = f"work/{request.id}-{secrets.token_hex(3)}"
            try:
                self._send(shell, parcel, there, tell)
                self._measure(shell, slot, request, there, folder, tell)
            finally:
                shell.far("remove", there)

    def close(self) -> None:
        """End what is being measured."""
        self._closed.set()

    def _send(self, shell: Shell, parcel: Parcel, there: str, tell: Tell) -> None:
        contents = parcel.contents
        for sha256 in shell.far("missing", *contents).split() if contents else ():
            tell(f"sending {contents[sha256].name} to {shell.host.title}")
            shell.far("keep", sha256, source=contents[sha256])
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(bytes_from_parcel(parcel))
            file.flush()
            shell.far("place", there, source=Path(file.name))

    def _measure(
        self, shell: Shell, slot: Slot, request: Request, there: str, folder: Path, tell: Tell
    ) -> None:
        view = {SLOT_VARIABLE: str(slot.number)}
        if slot.gpu is not None:
            view["CUDA_VISIBLE_DEVICES"] = str(slot.gpu)
        limit_s = None if request.limit_s is None else request.limit_s + GRACE_S
        title = shell.host.title
        ended = shell.measure(
            there,
            tell=lambda text: tell(f"{title}: {text}"),
            limit_s=limit_s,
            environment=view,
            closed=self._closed,
        )
        how = "no end in time" if ended.timed_out else ended.signal or f"status {ended.status}"
        with tempfile.TemporaryDirectory(prefix="trtbench-ssh-") as name:
            shell.far("pack", there, target=Path(name) / "left.tar")
            unpack(Path(name) / "left.tar", Path(name) / "left")
            run = result_of(Path(name) / "left", where=title, how=how)
            shutil.copytree(run, folder, dirs_exist_ok=True)
