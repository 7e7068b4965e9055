"""What an executor offers, the jobs it is given, and what a machine needs for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from trtbench.core.errors import UnavailableError
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import text_from_bytes
from trtbench.version import __version__

T = TypeVar("T")
Notify = Callable[[str], None]

AGAIN = "once more elsewhere"
"""Ends the line that says that a machine was lost under a job."""
WAITING = "waiting for a machine"
"""Begins the line that says that no machine is free, or present."""
SIZES = ("memory", "gpu_memory")
"""Resources that are counted in bytes."""
LOOK_S = 2.0
"""How often new machines are looked for, while there is work for more."""


class Needs(Value, frozen=True, kw_only=True):
    gpu: bool = False
    """A GPU of its own; without, the job takes the whole processor."""
    machine: str | None = None
    """Part of the machine's name, or of its GPU's."""
    gpu_type: str | None = None
    """Part of the GPU's name: ``H100``, ``Orin``."""
    resources: dict[str, float] = {}
    """``memory`` and ``gpu_memory`` in bytes, and what a cluster or a hosts file declares."""

    def __str__(self) -> str:
        parts = [
            "a GPU" if self.gpu else "a processor",
            f"machine {self.machine}" if self.machine else "",
            f"GPU type {self.gpu_type}" if self.gpu_type else "",
            *(text_of_resource(name, self.resources[name]) for name in sorted(self.resources)),
        ]
        return ", ".join(filter(None, parts))


def text_of_resource(name: str, amount: float) -> str:
    """Write ``camera 2`` or ``gpu memory 24 GiB``."""
    shown = text_from_bytes(amount) if name in SIZES else f"{amount:g}"
    return f"{name.replace('_', ' ')} {shown}"


class Turns(Value, frozen=True, kw_only=True):
    """The candidate of two sides that are measured in turn on one machine."""

    spec: RunSpec
    python: str | None = None
    asked: dict[str, object]
    """Fields of the request: how often, in which mode, with which margin."""


class FileGroup(Value, frozen=True, kw_only=True):
    """Files of one folder that are sent together and keep their places in it."""

    folder: str
    names: tuple[str, ...]
    """Files and folders in it: what the job names first, then what that refers to."""


class RemoteJob(Value, frozen=True, kw_only=True):
    """A run, a comparison in turns, or a verb to carry out on some machine; all plain values.

    A file is named ``trtbench-file:GROUP/NAME``: each machine has its own folder for groups.
    """

    id: str
    version: str = __version__
    """Of the package that sends it; a machine with another refuses the job."""
    title: str = "run"
    """Its name in the dashboard of a cluster."""
    spec: RunSpec | None = None
    """Of the run, or of the baseline; ``None`` when there is a verb."""
    turns: Turns | None = None
    """With it, two runs come back, in the folders ``0`` and ``1``."""
    verb: str | None = None
    arguments: dict[str, object] = {}
    output: str | None = None
    """The name of the file or folder that the verb writes, which comes back."""
    files: dict[str, FileGroup] = {}
    """All files that it names; they are sent before it."""
    code: tuple[str, ...] = ()
    placed: str | None = None
    """The folder of the file groups on the machine that carries it out."""
    machine: str | None = None
    """The sender's name for the machine; its own settings come first."""
    python: str | None = None
    timeout_s: float | None = None
    """Of one launch."""
    limit_s: float | None = None
    """Of the whole job, after which the machine counts as hung."""
    memory_bytes: int | None = None
    command: str | None = None
    tags: tuple[str, ...] = ()
    needs: Needs = Needs()


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    address: str | None = None
    """Of a Ray cluster; ``None`` is the one that ``RAY_ADDRESS`` names."""
    hosts: Path | None = None
    beside: int = 1
    """CPU runs at the same time on one machine; more than one disturb each other."""
    patience_s: float = 0.0
    environment: Mapping[str, str] | None = None


class Executor:
    """Carries out work, from several threads at once. By default, work is sent as jobs."""

    elsewhere = True
    """Whether work leaves this machine: engines are then built where they are measured."""

    def width(self, needs: Needs) -> int:
        """Return how many such jobs can run at the same time; raises when none ever can."""
        raise NotImplementedError

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        """Fill a folder with the directory of a run, finished or failed; raises reported errors."""
        raise NotImplementedError

    def close(self) -> None:
        """End running jobs and interrupt the threads that wait for them."""

    def do(self, here: Callable[[], T], away: Callable[[], T]) -> T:
        """Return the result of work that this process can do, or send as a job and take back."""
        return away()

    def each(
        self, items: Iterable[T], work: Callable[[T], object], needs: Needs | None = None
    ) -> None:
        """Do something with each item, as many at a time as there are places for.

        Machines may come and go meanwhile. What the first to fail raises is raised, and the others
        are ended.
        """

        def places() -> int:
            count = 0
            for gpu in (False, True):
                with suppress(UnavailableError):
                    count += self.width((needs or Needs()).having(gpu=gpu))
            return max(1, count)

        left = deque(items)
        running: set[Future[object]] = set()
        with ThreadPoolExecutor(max(1, len(left)), thread_name_prefix="executor") as pool:
            try:
                while left or running:
                    free = min(places() - len(running), len(left)) if left else 0
                    running |= {pool.submit(work, left.popleft()) for _ in range(free)}
                    done, running = wait(running, LOOK_S if left else None, FIRST_COMPLETED)
                    for each in done:
                        each.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise


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


class ExecutorModule(Protocol):
    TAKES: tuple[str, ...] = ("address", "hosts", "wait_node")

    def open_executor(self, settings: ExecutorSettings) -> Executor: ...
