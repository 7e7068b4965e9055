"""What the module of a runtime offers; ``RUNTIMES`` checks each one when it is loaded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.samples import Arrays, IterationTimes
from trtbench.core.spec import ModelFormat, RunSpec
from trtbench.core.spec import Protocol as QueryProtocol
from trtbench.runtimes._loop import bench_session
from trtbench.runtimes._session import Session, TurnSpec

__all__ = ["Arrays", "ModelParts", "Runtime", "Session", "TurnSpec", "bench_session"]

ModelParts = tuple[tuple[str, ...], tuple[str, ...]]  # names of files, and options as `key=value`


class Runtime(Protocol):
    """The module of a runtime. Attributes with a default are optional."""

    FORMATS: tuple[ModelFormat, ...]
    OPTIONS: Mapping[str, str] = {}  # keys of `--opt key=value`, with a line of help each
    CONDITIONS: Sequence[str] = ()
    """Options that are only conditions of a measurement, which a stored run may set."""
    TRAVELS: Mapping[str, str] = {}
    """Options that name files to send to the machine that measures: ``file``, ``files`` (separated
    by commas), or ``code`` (``module:function``)."""
    CHOSEN_FOR: Mapping[ModelFormat, int] = {}
    """Formats for which it is a default; the available runtime with the lowest number is used."""
    FLAVOUR: str = ""
    """The kind of engine that it executes, by the engine's first bytes; empty means any."""
    DEFAULT_PROTOCOL: QueryProtocol = "serve"
    DEFAULT_PROFILE: bool = False
    TIMES_LAYERS: bool = True
    TAKES_PRECISION: bool = True
    """Whether it executes a model in the requested precision; if not, the file decides."""
    TAKES_ARGUMENTS: bool = False  # whether it accepts arguments after `--`
    EXECUTES_ENGINES: bool = False
    """Whether it executes an engine, whatever the format of the given file."""
    open_session: Callable[[RunSpec], Session] | None = None
    """Load a model in the worker's process; ``None`` if the runtime is a program."""
    turn_spec: Callable[[RunSpec, Sequence[RunSpec]], TurnSpec] | None = None
    """Return how a side is opened to take turns, given all sides of this process, or none."""
    load_library: Callable[[], None] | None = None
    """Import its libraries without using a device, because others may be measuring."""
    bursts: Callable[[RunSpec], bool] | None = None
    """Return whether its sessions time bursts of queries on the device."""
    early_context: Callable[[RunSpec], dict[str, str]] | None = None
    """Return environment variables that make a worker create its CUDA context early."""
    model_parts: Callable[[str, Mapping[str, str]], ModelParts] | None = None
    """Return the files and options that are part of a model's identity."""
    check: Callable[[RunSpec], None] | None = None
    """Raise if a spec is not supported, without loading anything."""
    command_lines: Callable[[RunSpec], list[str]] | None = None
    """Return the command lines of a program, for ``--dry-run``."""

    def available(self) -> str | None:
        """Return why it is not available here, in a few words; ``None`` if it is."""

    def fix(self) -> str | None:
        """Return the command that installs it."""

    def device(self, spec: RunSpec) -> str:
        """Return the device to lock while it measures: ``cpu`` or ``cuda:0``."""
        ...

    def bench(
        self, spec: RunSpec, *, folder: Path, stage: Stage
    ) -> tuple[BenchOutcome, IterationTimes]:
        """Measure one launch; the runtime may write files to the folder."""
        ...
