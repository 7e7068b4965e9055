"""Several runs at once on this machine: one for each GPU, and one for the processor."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from trtbench.executors._node import run_node
from trtbench.executors._request import ExecutorSettings, Needs, Request, Tell
from trtbench.executors._slots import Slot, Slots
from trtbench.host.gpu_names import SLOT_VARIABLE
from trtbench.host.machine import memory_bytes
from trtbench.host.nvml import gpus


class LocalExecutor:
    """Measures each run in a process that sees one GPU; locks keep out everybody else's runs."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._places = list(_places(settings.beside))
        self._slots = Slots(lambda: self._places)
        self._closed = threading.Event()

    def width(self, needs: Needs) -> int:
        return len(self._slots.fitting(needs))

    def run(self, request: Request, *, folder: Path, tell: Tell) -> None:
        """Measure on a free device of this machine."""
        with (
            self._slots.taken(request.needs, tell=tell) as slot,
            tempfile.TemporaryDirectory(prefix="trtbench-node-") as work,
        ):
            environment = {**(self._settings.environment or {}), **_view(slot)}
            made = run_node(
                request,
                folder=Path(work),
                tell=tell,
                environment=environment,
                closed=self._closed,
            )
            shutil.copytree(made, folder, dirs_exist_ok=True)

    def close(self) -> None:
        """End what is being measured."""
        self._closed.set()


def _view(slot: Slot) -> dict[str, str]:
    """Let a process see its own GPU, counted as the driver counts them, or none."""
    if slot.gpu is None:
        return {"CUDA_VISIBLE_DEVICES": "", SLOT_VARIABLE: str(slot.number)}
    return {"CUDA_VISIBLE_DEVICES": str(slot.gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _places(beside: int) -> Iterator[Slot]:
    host, memory = platform.node() or "here", memory_bytes("MemTotal", root=Path("/"))
    for number in range(beside):
        yield Slot(machine=host, title=host, number=number, memory_bytes=memory)
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    for index, gpu in enumerate(gpus()):
        if allowed is not None and str(index) not in allowed.replace(" ", "").split(","):
            continue
        yield Slot(
            machine=host,
            title=f"{host}, {gpu.name}",
            gpu=index,
            gpu_type=gpu.name,
            memory_bytes=memory,
            gpu_memory_bytes=gpu.memory_bytes,
        )
