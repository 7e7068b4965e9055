"""How a job is carried out; nothing of it changes what is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trtbench.boundary import clean_line, mask
from trtbench.domain.spec import RunSpec
from trtbench.errors import UsageError
from trtbench.executors import Executor, Needs
from trtbench.units import text_from_bytes
from trtbench.workflows.request.progress import Listener, silent

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


def expected_s(spec: RunSpec) -> float:
    """How long one launch takes at most when all goes well, as far as the spec tells."""
    warm = max(spec.warmup.floor.seconds or 0.0, spec.warmup.cap_s)
    if spec.rate_hz:  # the schedule decides, and an overloaded server may take twice as long
        scheduled = max(spec.stop.seconds or 0.0, (spec.stop.iterations or 0) / spec.rate_hz)
        return warm + 2 * scheduled + 1.0
    return warm + (spec.stop.seconds or 0.0)
