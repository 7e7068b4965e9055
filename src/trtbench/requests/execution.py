"""How a job is carried out, and what it reports; nothing of it changes a measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trtbench.core.errors import UsageError
from trtbench.core.safety import clean_line, mask
from trtbench.core.spec import RunSpec, Value
from trtbench.core.units import bytes_from_text, text_from_bytes
from trtbench.executors import EXECUTORS
from trtbench.executors.contract import HERE, Executor, ExecutorModule, ExecutorSettings, Needs
from trtbench.requests import fields
from trtbench.requests.measure import RunFields
from trtbench.requests.settings import Config


class Event(Value, frozen=True, kw_only=True):
    """Something worth telling: a stage that began, a note, a wait, or a sign of life."""

    kind: Literal["stage", "note", "wait", "tick"]
    text: str
    done: float | None = None  # part of the whole work that is done, from 0 to 1, when it is known
    seconds: float | None = None


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore an event."""


PATIENCE_S = 600.0  # added to the expected length of a launch before it counts as hung
LEAST_MEMORY_BYTES = 128 << 20
"""Address space in which an interpreter with numpy does not even start."""
TICK_S = 5.0  # sign of life on long work; the parent sleeps otherwise


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a job is carried out: nothing of it changes what is measured."""

    python: str | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    wait: bool = True
    command: str | None = None
    """The command line, for the record; secrets in it are hidden from here on."""
    tags: tuple[str, ...] = ()
    machine: str | None = None  # what this machine is called, where its owner says so
    output: Path | None = None
    run_id: str | None = None  # the id that whoever asked for the run has given it
    executor: Executor = HERE
    needs: Needs | None = None
    listen: Listener = field(default=silent)

    def __post_init__(self) -> None:
        if self.command is not None:
            object.__setattr__(self, "command", clean_line(mask(self.command)))
        if self.memory_bytes is not None and self.memory_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"a memory limit of {text_from_bytes(self.memory_bytes)} lets nothing start",
                facts={"least": text_from_bytes(LEAST_MEMORY_BYTES)},
                fix="--memory-limit 8GiB",
            )

    def part(self, start: float, stop: float, *, name: str = "") -> Execution:
        """One step of several, whose events report the progress of the whole."""

        def heard(event: Event) -> None:
            text = f"{name}: {event.text}" if name else event.text
            done = None if event.done is None else start + (stop - start) * event.done
            self.listen(event.having(text=text, done=done))

        return replace(self, listen=heard)

    def settings(self, config: Config) -> Config:
        """Return the settings that count where the work is done: another machine has its own."""
        return config.elsewhere() if self.executor.elsewhere else config


class Steps:
    """Several steps that report their progress together."""

    def __init__(self, execution: Execution, count: int) -> None:
        self._conduct, self._count, self._done = execution, count, -1

    def next(self, name: str) -> Execution:
        """Begin the next step."""
        self._done = min(self._done + 1, self._count - 1)
        ends = self._done / self._count, (self._done + 1) / self._count
        step = self._conduct.part(*ends, name=name)
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
    """How the job of a request is carried out.

    ``runtime`` names the interpreter in the configuration, unless the request has one.
    """
    asked = fields.settled(request, config.defaults)
    if isinstance(asked, fields.ExecutorFields) and asked.executor is not None:
        config = config.elsewhere()
    python = asked.python if isinstance(asked, fields.PythonFields) else None
    limit = asked.memory_limit if isinstance(asked, fields.MemoryFields) else None
    output = asked.output if isinstance(asked, RunFields) else None
    return Execution(
        python=str(python) if python else (config.python_for(runtime) if runtime else None),
        timeout_s=fields.seconds(asked.timeout) if asked.timeout is not None else None,
        memory_bytes=fields.size_bytes(limit) if limit is not None else None,
        wait=asked.wait if isinstance(asked, fields.WaitFields) else True,
        command=command,
        machine=config.machine,
        tags=tuple(asked.tags) if isinstance(asked, fields.TagFields) else (),
        output=Path(output) if output else None,
        needs=needs_from_request(asked) if isinstance(asked, fields.ExecutorFields) else None,
        listen=listen,
    )


@contextmanager
def opened_executor(request: fields.TimeoutFields) -> Iterator[Executor]:
    """Open the executor a request names for the length of the block; by default, this process."""
    if not isinstance(request, fields.ExecutorFields) or request.executor is None:
        yield HERE
        return
    module = EXECUTORS.load(request.executor)
    for name in ExecutorModule.TAKES:
        if getattr(request, name) is not None and name not in module.TAKES:
            raise UsageError(
                f"--{name.replace('_', '-')} says nothing to the executor {request.executor}",
                fix=f"leave it out, or another executor: {', '.join(EXECUTORS.names())}",
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
    """Read ``gpu=H100``, ``memory=16GiB`` and amounts of anything else."""
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
                f"--need {word} cannot be read",
                fix="--need gpu=H100 --need memory=16GiB --need camera=1",
            ) from None
    return Needs(gpu_type=gpu_type, resources=resources)


def expected_s(spec: RunSpec) -> float:
    """How long one launch takes at most when all goes well, as far as the spec says."""
    warm = max(spec.warmup.floor.seconds or 0.0, spec.warmup.cap_s)
    if spec.rate_hz:  # the schedule decides, and an overloaded server may take twice as long
        scheduled = max(spec.stop.seconds or 0.0, (spec.stop.iterations or 0) / spec.rate_hz)
        return warm + 2 * scheduled + 1.0
    return warm + (spec.stop.seconds or 0.0)
