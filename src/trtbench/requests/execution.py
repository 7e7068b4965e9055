"""How a job is executed, and what it reports; nothing here changes a measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trtbench.core.errors import StoreError, UsageError
from trtbench.core.safety import clean_line, mask
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import bytes_from_text, text_from_bytes
from trtbench.executors import EXECUTORS
from trtbench.executors.contract import HERE, Executor, ExecutorModule, ExecutorSettings, Needs
from trtbench.requests import fields
from trtbench.requests.measure import RunFields
from trtbench.requests.settings import Config


class Event(Value, frozen=True, kw_only=True):
    """A progress event: a stage that began, a note, a wait, or a tick during long work."""

    kind: Literal["stage", "note", "wait", "tick"]
    text: str
    done: float | None = None  # fraction of the work that is done, from 0 to 1, if known
    seconds: float | None = None  # how long the stage takes, if known
    until: float | None = None  # fraction that is done when the stage ends
    rest_s: float | None = None
    """How long the work after the stage takes, if ``done`` is not of the whole work."""
    at_most: bool = False  # whether the work may end before all of it is done
    guessed: bool = False  # whether ``done`` is no measure, so that no time follows from it


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore an event."""


@contextmanager
def reporting_unwritten(report: Callable[[StoreError], None]) -> Iterator[None]:
    """Report the error of files that cannot be written, instead of raising it."""
    try:
        yield
    except StoreError as problem:
        report(problem)


def refuse(problem: StoreError) -> None:
    """Raise the error of a result that could not be written."""
    raise problem


PATIENCE_S = 600.0  # added to the expected length of a launch before it counts as hung
MIN_MEMORY_BYTES = 128 << 20
"""An interpreter with numpy does not start in less address space."""
TICK_S = 5.0  # time between ticks during long work; the parent sleeps otherwise


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a job is executed; nothing here changes what is measured."""

    python: str | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    wait: bool = True
    command: str | None = None
    """The command line, for the record, with secrets masked."""
    tags: tuple[str, ...] = ()
    machine: str | None = None  # the name that the settings give to this machine
    output: Path | None = None
    run_id: str | None = None  # the id of the run, if the requesting machine has chosen it
    executor: Executor = HERE
    needs: Needs | None = None
    listen: Listener = field(default=silent)
    on_unwritten: Callable[[StoreError], None] = field(default=refuse)
    """Gets the error if a result is known but cannot be written; the work goes on if it returns."""

    def __post_init__(self) -> None:
        if self.command is not None:
            object.__setattr__(self, "command", clean_line(mask(self.command)))
        if self.memory_bytes is not None and self.memory_bytes < MIN_MEMORY_BYTES:
            raise UsageError(
                f"a memory limit of {text_from_bytes(self.memory_bytes)} is too small",
                facts={"minimum": text_from_bytes(MIN_MEMORY_BYTES)},
                fix="--memory-limit 8GiB",
            )

    def part(self, start: float, stop: float, *, name: str = "") -> Execution:
        """Return the execution of one step; its events report the progress of the whole work."""

        def listen(event: Event) -> None:
            text = f"{name}: {event.text}" if name else event.text
            ends = (event.done, event.until)
            done, until = (None if x is None else start + (stop - start) * x for x in ends)
            self.listen(event.having(text=text, done=done, until=until))

        return replace(self, listen=listen)

    def writing_result(self) -> AbstractContextManager[None]:
        """Write files of a result that is known whether or not they can be written."""
        return reporting_unwritten(self.on_unwritten)

    def settings(self, config: Config) -> Config:
        """Return the settings for the machine that does the work."""
        return config.for_other_machine() if self.executor.elsewhere else config


class Steps:
    """Several steps that report their progress as one."""

    def __init__(self, execution: Execution, count: int) -> None:
        self._execution, self._count, self._done = execution, count, -1

    def next(self, name: str) -> Execution:
        """Begin the next step; returns its execution."""
        self._done = min(self._done + 1, self._count - 1)
        ends = self._done / self._count, (self._done + 1) / self._count
        step = self._execution.part(*ends, name=name)
        step.listen(Event(kind="stage", text="starting", done=0.0))
        return step


def execution_from_request(
    request: fields.TimeoutFields,
    config: Config,
    *,
    runtime: str | None = None,
    command: str | None = None,
    listen: Listener = silent,
) -> Execution:
    """Return how a request's job is executed: by its ``python``, else by that of ``runtime``."""
    asked = fields.with_settings(request, config.defaults)
    if isinstance(asked, fields.ExecutorFields) and asked.executor is not None:
        config = config.for_other_machine()
    python = asked.python if isinstance(asked, fields.PythonFields) else None
    configured = config.python_for(runtime) if runtime else None
    limit = asked.memory_limit if isinstance(asked, fields.MemoryFields) else None
    output = asked.output if isinstance(asked, RunFields) else None
    return Execution(
        python=str(python) if python else configured,
        timeout_s=fields.seconds(asked.timeout) if asked.timeout is not None else None,
        memory_bytes=fields.size_bytes(limit) if limit is not None else None,
        wait=asked.wait if isinstance(asked, fields.WaitFields) else True, command=command,
        machine=config.machine,
        tags=tuple(asked.tags) if isinstance(asked, fields.TagFields) else (),
        output=Path(output) if output else None,
        needs=needs_from_request(asked) if isinstance(asked, fields.ExecutorFields) else None,
        listen=listen,
    )  # fmt: skip


@contextmanager
def opened_executor(request: fields.TimeoutFields) -> Iterator[Executor]:
    """Open the executor of a request during the block; by default, this machine."""
    if not isinstance(request, fields.ExecutorFields) or request.executor is None:
        yield HERE
        return
    module = EXECUTORS.load(request.executor)
    for name in ExecutorModule.TAKES:
        if getattr(request, name) is not None and name not in module.TAKES:
            raise UsageError(
                f"the executor {request.executor} has no --{name.replace('_', '-')}",
                fix=f"leave it out, or choose another executor: {', '.join(EXECUTORS.names())}",
            )
    settings = ExecutorSettings(
        address=request.address,
        hosts=Path(request.hosts) if request.hosts else None,
        beside=request.jobs,
        patience_s=fields.seconds(request.wait_node) if request.wait_node is not None else 0.0,
    )
    executor: Executor = module.open_executor(settings)
    try:
        yield executor
    finally:
        executor.close()


def needs_from_request(request: fields.ExecutorFields) -> Needs | None:
    """Read ``gpu=H100``, ``memory=16GiB`` and amounts of other resources."""
    if not request.needs:
        return None
    gpu_type, resources = None, dict[str, float]()
    for word in request.needs:
        key, _, value = word.partition("=")
        try:
            if key == "gpu" and value:
                gpu_type = value
            elif key in ("memory", "gpu-memory"):
                resources[key.replace("-", "_")] = bytes_from_text(value)
            elif key and 0 < float(value) < math.inf:
                resources[key] = float(value)
            else:
                raise ValueError
        except ValueError:
            raise UsageError(
                f"--need {word} is not valid",
                fix="--need gpu=H100 --need memory=16GiB --need camera=1",
            ) from None
    return Needs(gpu_type=gpu_type, resources=resources)


def expected_s(spec: RunSpec) -> float:
    """Return the longest time that one launch should take, by its spec."""
    warm = max(spec.warmup.floor.seconds or 0.0, spec.warmup.cap_s)
    if spec.rate_hz:  # the schedule decides, and an overloaded server may take twice as long
        scheduled = max(spec.stop.seconds or 0.0, (spec.stop.iterations or 0) / spec.rate_hz)
        return warm + 2 * scheduled + 1.0
    return warm + (spec.stop.seconds or 0.0)
