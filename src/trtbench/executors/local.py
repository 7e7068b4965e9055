"""Runs jobs in child processes on this machine, in this interpreter or another; one on each GPU."""

from __future__ import annotations

import os
import platform
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trtbench.boundary import mask
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.job import DONE, PROGRESS_MARK, Job, JobEnd, WorkerError
from trtbench.errors import TrtbenchError, UnavailableError, writing
from trtbench.executors._errand import with_own_files
from trtbench.executors._interpreter import worker_command, worker_environment
from trtbench.executors._node import RUN, run_node
from trtbench.executors._request import Executor, ExecutorSettings, Needs, Request, Tell
from trtbench.executors._slots import Slot, Slots
from trtbench.host.gpu_names import SLOT_VARIABLE, devices
from trtbench.host.machine import memory_bytes
from trtbench.host.process import Child, Exit, run_together, tail
from trtbench.host.unfinished import temporary_folder

TAKES: tuple[str, ...] = ()
_RESULTS = ("outcome.json", "*/outcome.json", "outputs.npz")
"""What a job that has done its work leaves in its folder."""


def open_executor(settings: ExecutorSettings) -> Executor:
    """Measure several runs at once on this machine, one on each GPU."""
    return LocalExecutor(settings)


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One job with its folder and the interpreter it runs in."""

    job: Job
    folder: Path
    python: str | None = None
    descriptors: tuple[int, ...] = ()
    """Shared with other jobs: how they hand each other the turn, and wait for one another."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What its process finds in the environment beside what all do."""


def run_job(
    job: Job,
    *,
    folder: Path,
    python: str | None = None,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    on_stage: Callable[[str], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> JobEnd:
    """Do a job in a fresh process; its files and ``log.txt`` are left in the folder."""
    return run_jobs(
        [Assignment(job=job, folder=folder, python=python)],
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
        on_stage=on_stage,
        tick_s=tick_s,
        on_tick=on_tick,
    )[0]


def run_jobs(
    assignments: Sequence[Assignment],
    *,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    on_stage: Callable[[str], None] | None = None,
    on_started: Callable[[], None] | None = None,
    on_done: Callable[[], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> list[JobEnd]:
    """Do several jobs at the same time, each in a fresh process.

    ``on_done`` is called when all have said that their results are there, before they have ended.
    """
    heard = [_Heard() for _ in assignments]

    def note(mine: _Heard, line: str) -> None:
        _note(mine, on_stage, line)
        if line == DONE and on_done is not None and all(each.stage == DONE for each in heard):
            on_done()

    starts = [
        partial(_start, each, memory_bytes=memory_bytes, on_line=partial(note, mine))
        for each, mine in zip(assignments, heard, strict=True)
    ]
    exits = run_together(
        starts, timeout_s=timeout_s, on_started=on_started, tick_s=tick_s, on_tick=on_tick
    )
    return [
        _job_end(ended, each, heard=mine)
        for ended, each, mine in zip(exits, assignments, heard, strict=True)
    ]


@dataclass
class _Heard:
    """What a worker said over its pipe."""

    stage: str = "start"
    error: WorkerError | None = None


def _note(heard: _Heard, on_stage: Callable[[str], None] | None, line: str) -> None:
    """Take in the name of a stage, progress in it, or an error that no file could take."""
    if line.startswith("{"):
        heard.error = value_from_json(line, WorkerError, where="the worker's pipe")
        return
    if not line.startswith(PROGRESS_MARK):
        heard.stage = line
    if on_stage is not None:
        on_stage(line)


def _start(
    assignment: Assignment, *, memory_bytes: int | None, on_line: Callable[[str], None]
) -> Child:
    folder, log = assignment.folder, assignment.folder / "log.txt"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.json").write_bytes(json_from_value(assignment.job))
        log.touch()
    numbers = assignment.descriptors
    arguments = [str(folder / "job.json"), str(folder), "{events}", *map(str, numbers)]
    try:
        return Child(
            [*worker_command(assignment.python), *arguments],
            log=log,
            env={**worker_environment(assignment.python), **assignment.variables},
            memory_bytes=memory_bytes,
            pass_fds=numbers,
            on_line=on_line,
        )
    except OSError as problem:
        raise UnavailableError(
            "no process can be started for the measurement", facts={"reason": problem}
        ) from None


def _job_end(ended: Exit, assignment: Assignment, *, heard: _Heard) -> JobEnd:
    folder = assignment.folder
    stage = heard.stage
    error = _told(folder / "error.json") or heard.error
    if error is None and ended.status == 0 and not _left_result(folder):
        error = WorkerError(kind="bug", message="it ended without leaving a result", stage=stage)
    return JobEnd(
        seconds=ended.seconds,
        stage=error.stage if error else stage,
        exit_status=ended.status,
        signal=ended.signal,
        timed_out=ended.timed_out,
        error=error,
        log_tail=tuple(map(mask, (error.log_tail if error else ()) or _log_tail(folder))),
        program_status=error.program_status if error else None,
    )


def _log_tail(folder: Path) -> tuple[str, ...]:
    """Read the last lines of the worker, or of the program it had started when it was ended."""
    logs = [folder / "log.txt", *sorted(folder.glob("*.log"))]
    return next((lines for log in logs if (lines := tail(log))), ())


def _told(path: Path) -> WorkerError | None:
    """Read what the worker put in words; nothing when a full disk kept it from that."""
    try:
        return value_from_json(path.read_bytes(), WorkerError, where=str(path))
    except (OSError, TrtbenchError):
        return None


def _left_result(folder: Path) -> bool:
    return any(True for pattern in _RESULTS for _ in folder.glob(pattern))


class LocalExecutor:
    """Measures each run in a process that sees one GPU; locks keep out everybody else's runs."""

    elsewhere = False

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
            temporary_folder() as work,
        ):
            environment = {**(self._settings.environment or {}), **_view(slot)}
            try:
                run_node(
                    with_own_files(request),
                    folder=work,
                    tell=tell,
                    environment=environment,
                    closed=self._closed,
                )
            finally:
                if (work / RUN).is_dir():  # of work that failed, its log
                    shutil.copytree(work / RUN, folder, dirs_exist_ok=True)

    def close(self) -> None:
        """End what is being measured."""
        self._closed.set()


def _view(slot: Slot) -> dict[str, str]:
    """Let a process see its own GPU, counted as the driver counts them, or none."""
    if slot.gpu is None:
        return {"CUDA_VISIBLE_DEVICES": "", SLOT_VARIABLE: str(slot.number)}
    name = slot.visible or str(slot.gpu)
    return {"CUDA_VISIBLE_DEVICES": name, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


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
