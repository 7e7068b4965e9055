"""How a job is carried out; nothing of it changes what is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from trtbench.boundary import clean_line, mask
from trtbench.domain.spec import RunSpec
from trtbench.errors import UsageError
from trtbench.executors import EXECUTORS, Executor, Needs
from trtbench.units import bytes_from_text, text_from_bytes
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import settled
from trtbench.workflows.request.groups import (
    ExecutorFields,
    MemoryFields,
    PythonFields,
    TagFields,
    TimeoutFields,
    WaitFields,
)
from trtbench.workflows.request.kinds import seconds, size_bytes
from trtbench.workflows.request.measuring import RunFields
from trtbench.workflows.request.progress import Event, Listener, part_of, silent

PATIENCE_S = 600.0
"""Added to the expected length of a launch before it counts as hung."""


LEAST_MEMORY_BYTES = 128 << 20
"""Address space in which an interpreter with numpy does not even start."""


TICK_S = 5.0
"""Sign of life on long work; the parent sleeps otherwise."""


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How a job is carried out: nothing of it changes what is measured."""

    python: str | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    wait: bool = True
    command: str | None = None
    """The command line, for the record; secrets in it are hidden from here on."""
    tags: tuple[str, ...] = ()
    machine: str | None = None
    """What this machine is called, where its owner says so."""
    output: Path | None = None
    run_id: str | None = None
    """The id that whoever asked for the run has given it."""
    executor: Executor | None = None
    """Where runs are measured; ``None`` is here, one after the other."""
    needs: Needs | None = None
    """What a machine must have, beyond what the runtime itself asks for."""
    listen: Listener = field(default=silent)

    def __post_init__(self) -> None:
        if self.command is not None:
            object.__setattr__(self, "command", clean_line(mask(self.command)))
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise UsageError("a timeout of 0 s lets nothing be measured", fix="--timeout 10min")
        if self.memory_bytes is not None and self.memory_bytes < LEAST_MEMORY_BYTES:
            raise UsageError(
                f"a memory limit of {text_from_bytes(self.memory_bytes)} lets nothing start",
                facts={"least": text_from_bytes(LEAST_MEMORY_BYTES)},
                fix="--memory-limit 8GiB",
            )

    def part(self, start: float, stop: float, *, name: str = "") -> Conduct:
        """Carry out one step of several, which tells how far the whole is."""
        return replace(self, listen=part_of(self.listen, start, stop, name=name))


class Steps:
    """Tells how far several steps are together, and passes on what each says in between."""

    def __init__(self, conduct: Conduct, count: int) -> None:
        self._conduct, self._count, self._done = conduct, count, -1

    def next(self, name: str) -> Conduct:
        """Begin the next step."""
        self._done = min(self._done + 1, self._count - 1)
        ends = self._done / self._count, (self._done + 1) / self._count
        step = self._conduct.part(*ends, name=name)
        step.listen(Event(kind="stage", text="starting", done=0.0))
        return step


def conduct_from_request(
    request: TimeoutFields,
    config: Config,
    *,
    runtime: str | None = None,
    command: str | None = None,
    listen: Listener = silent,
) -> Conduct:
    """Make, of what is asked for, how the job is carried out.

    ``runtime`` names the interpreter in the configuration, where nobody names another.
    """
    asked = settled(request, config.defaults)
    if isinstance(asked, ExecutorFields) and is_elsewhere(asked):
        config = config.elsewhere()
    python = asked.python if isinstance(asked, PythonFields) else None
    limit = asked.memory_limit if isinstance(asked, MemoryFields) else None
    output = asked.output if isinstance(asked, RunFields) else None
    return Conduct(
        python=str(python) if python else (config.python_for(runtime) if runtime else None),
        timeout_s=seconds(asked.timeout) if asked.timeout is not None else None,
        memory_bytes=size_bytes(limit) if limit is not None else None,
        wait=asked.wait if isinstance(asked, WaitFields) else True,
        command=command,
        machine=config.machine,
        tags=tuple(asked.tags) if isinstance(asked, TagFields) else (),
        output=Path(output) if output else None,
        needs=needs_from_request(asked) if isinstance(asked, ExecutorFields) else None,
        listen=listen,
    )


def is_elsewhere(request: ExecutorFields) -> bool:
    """Tell whether the executor that a request names, if any, sends work to other machines."""
    return request.executor is not None and EXECUTORS.load(request.executor).ELSEWHERE


def needs_from_request(request: ExecutorFields) -> Needs | None:
    """Read ``gpu=H100``, ``memory=16GiB`` and amounts of anything else."""
    if not request.needs:
        return None
    needs, resources = Needs(), {}
    for word in request.needs:
        key, equals, value = word.partition("=")
        try:
            if not (key and equals and value):
                raise ValueError
            if key == "gpu":
                needs = needs.having(gpu_type=value)
            elif key == "memory":
                needs = needs.having(memory_bytes=bytes_from_text(value))
            elif key == "gpu-memory":
                needs = needs.having(gpu_memory_bytes=bytes_from_text(value))
            else:
                resources[key] = float(value)
                if not 0 < resources[key] < math.inf:
                    raise ValueError
        except ValueError:
            raise UsageError(
                f"--need {word} cannot be read",
                fix="--need gpu=H100 --need memory=16GiB --need camera=1",
            ) from None
    return needs.having(resources=resources)


def expected_s(spec: RunSpec) -> float:
    """Tell how long one launch takes at most when all goes well, as far as the spec tells."""
    warm = max(spec.warmup.floor.seconds or 0.0, spec.warmup.cap_s)
    if spec.rate_hz:  # the schedule decides, and an overloaded server may take twice as long
        scheduled = max(spec.stop.seconds or 0.0, (spec.stop.iterations or 0) / spec.rate_hz)
        return warm + 2 * scheduled + 1.0
    return warm + (spec.stop.seconds or 0.0)
