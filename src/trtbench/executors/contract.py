"""What an executor offers, the jobs that it gets, and what they need of a machine."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from trtbench.core.errors import UnavailableError
from trtbench.core.run import LoadSearch
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import text_from_bytes
from trtbench.version import __version__

T = TypeVar("T")
Notify = Callable[[str], None]

AGAIN = "once more elsewhere"  # end of the line that says that the machine of a job was lost
WAITING = "waiting for a machine"
"""Start of the line that says that no machine is free, or that none fits."""
SIZES = ("memory", "gpu_memory")  # resources that are measured in bytes
LOOK_S = 2.0  # seconds between two looks for new machines, while jobs are waiting


class Needs(Value, frozen=True, kw_only=True):
    gpu: bool = False
    """Whether the job needs a GPU for itself; otherwise it takes the whole processor."""
    machine: str | None = None  # part of the name of the machine, or of its GPU
    gpu_type: str | None = None  # part of the GPU's name: `H100`, `Orin`
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
    """Return a text like ``camera 2`` or ``gpu memory 24 GiB``."""
    shown = text_from_bytes(amount) if name in SIZES else f"{amount:g}"
    return f"{name.replace('_', ' ')} {shown}"


class Turns(Value, frozen=True, kw_only=True):
    """The candidate of a comparison whose two sides take turns on one machine."""

    spec: RunSpec
    python: str | None = None
    asked: dict[str, object]  # fields of the request: number of launches, mode, margin


class FileGroup(Value, frozen=True, kw_only=True):
    """Files of one folder that are sent together and keep their relative paths."""

    folder: str
    names: tuple[str, ...]
    """Files and folders in it: first the one that the job names, then those it refers to."""


class RemoteJob(Value, frozen=True, kw_only=True):
    """A run, a comparison, or a verb to run on another machine; all plain values.

    A file is named ``trtbench-file:GROUP/NAME``: each machine has its own folder for groups.
    """

    id: str
    version: str = __version__
    """The version of the sender; a machine with another version refuses the job."""
    title: str = "run"  # the name of the job in the dashboard of a cluster
    spec: RunSpec | None = None  # the spec of the run, or of the baseline; `None` for a verb
    search: LoadSearch | None = None  # a search for a rate, whose answer is the run's rate
    turns: Turns | None = None
    """Set for a comparison: two runs are sent back, in the folders ``0`` and ``1``."""
    verb: str | None = None
    arguments: dict[str, object] = {}
    output: str | None = None
    """The name of the file or folder that the verb writes, and that is sent back."""
    files: dict[str, FileGroup] = {}  # all files that the job names; they are sent before it
    code: tuple[str, ...] = ()
    placed: str | None = None  # the folder of the file groups on the machine that runs the job
    machine: str | None = None
    """The sender's name for the machine; settings of the machine itself take precedence."""
    python: str | None = None
    timeout_s: float | None = None  # the limit for one launch
    limit_s: float | None = None
    """The limit for the whole job, after which the machine counts as hung."""
    memory_bytes: int | None = None
    command: str | None = None
    tags: tuple[str, ...] = ()
    needs: Needs = Needs()


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    address: str | None = None
    """The address of a Ray cluster; ``None`` means the one that ``RAY_ADDRESS`` names."""
    hosts: Path | None = None
    beside: int = 1  # how many CPU runs share one machine; more than one disturb each other
    patience_s: float = 0.0
    environment: Mapping[str, str] | None = None


class Executor:
    """Runs work for several threads at once. By default, work is sent to machines as jobs."""

    elsewhere = True
    """Whether work runs on other machines: engines are then built where they are measured."""

    def width(self, needs: Needs) -> int:
        """Return how many such jobs can run at the same time; raises if no machine can run one."""
        raise NotImplementedError

    def run(self, job: RemoteJob, *, folder: Path, notify: Notify) -> None:
        """Run a job and put its run directory into the folder; raises errors that it reports."""
        raise NotImplementedError

    def close(self) -> None:
        """End running jobs and interrupt the threads that wait for them."""

    def do(self, here: Callable[[], T], away: Callable[[], T]) -> T:
        """Call ``here``, which works in this process, or ``away``, which sends a job."""
        return away()

    def each(
        self, items: Iterable[T], work: Callable[[T], object], needs: Needs | None = None
    ) -> None:
        """Call ``work`` with each item, as many at a time as there are slots.

        Machines may join and leave meanwhile. The first error ends the other jobs and is raised.
        """

        def count_slots() -> int:
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
                    free = min(count_slots() - len(running), len(left)) if left else 0
                    running |= {pool.submit(work, left.popleft()) for _ in range(free)}
                    done, running = wait(running, LOOK_S if left else None, FIRST_COMPLETED)
                    for each in done:
                        each.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise


class Here(Executor):
    """Does work from this process, one item at a time; measurements still run in fresh ones."""

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
