"""Runs jobs on this machine: in this process one after the other, or one on each GPU at once."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from trtbench.executors._node import RUN, Slot, SlotExecutor, run_node
from trtbench.executors._transfer import with_own_files
from trtbench.executors.contract import Executor, ExecutorSettings, Needs, Notify, RemoteJob
from trtbench.host.files import temporary_folder
from trtbench.host.machine import memory_bytes
from trtbench.host.nvml import SLOT_VARIABLE, devices

T = TypeVar("T")
TAKES: tuple[str, ...] = ()


class Here(Executor):
    """Does work in this process, one piece after the other: nothing is sent, nothing to wait for.

    What measures is a fresh process all the same.
    """

    elsewhere = False

    def width(self, needs: Needs) -> int:
        return 1

    def do(self, here: Callable[[], T], away: Callable[[], T]) -> T:
        return here()

    def each(
        self, items: Iterable[T], work: Callable[[T], object], needs: Needs | None = None
    ) -> None:
        for item in items:
            work(item)


HERE = Here()


def open_executor(settings: ExecutorSettings) -> Executor:
    """Return an executor for the devices of this machine."""
    return LocalExecutor(settings)


class LocalExecutor(SlotExecutor):
    """Runs each job in a process that sees one GPU; locks keep out everybody else's runs."""

    elsewhere = False

    def __init__(self, settings: ExecutorSettings) -> None:
        self._environment = settings.environment or {}
        places = list(_places(settings.beside))
        super().__init__(lambda: places)

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        def on(slot: Slot) -> None:
            view = {"CUDA_VISIBLE_DEVICES": "", SLOT_VARIABLE: str(slot.number)}
            if slot.gpu is not None:  # counted as the driver counts them
                name = slot.visible or str(slot.gpu)
                view = {"CUDA_VISIBLE_DEVICES": name, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
            with temporary_folder() as work:
                try:
                    run_node(
                        with_own_files(job),
                        folder=work,
                        notify=notify,
                        environment={**self._environment, **view},
                        closed=self._closed,
                    )
                finally:
                    if (work / RUN).is_dir():  # of work that failed, its log
                        shutil.copytree(work / RUN, folder, dirs_exist_ok=True)

        self._slots.carry_out(job.needs, on, notify=notify)


def _places(beside: int) -> Iterator[Slot]:
    host, memory = platform.node() or "here", memory_bytes("MemTotal", root=Path("/"))
    for number in range(beside):
        yield Slot(machine=host, title=host, number=number, memory_bytes=memory)
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    allowed = None if listed is None else tuple(filter(None, listed.replace(" ", "").split(",")))
    for index, parts in enumerate(devices()):
        for number, gpu in enumerate(parts):
            uuid = gpu.uuid or ""
            if allowed is None or str(index) in allowed or uuid.startswith(allowed or ("-",)):
                yield Slot(
                    machine=host,
                    title=f"{host}, {gpu.name}",
                    gpu=index,
                    number=number,
                    visible=uuid if uuid.startswith("MIG-") else "",
                    gpu_type=gpu.name,
                    memory_bytes=memory,
                    gpu_memory_bytes=gpu.memory_bytes,
                )
