"""What the file of a runtime offers; ``RUNTIMES`` checks each one when it is loaded."""

from __future__ import annotations

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

ModelParts = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of files, and options as ``key=value``."""


class Runtime(Protocol):
    """The module of a runtime. What has a value here may be left out."""

    FORMATS: tuple[ModelFormat, ...]
    OPTIONS: Mapping[str, str] = {}
    """What ``--opt key=value`` may set, with a line of help each."""
    TRAVELS: Mapping[str, str] = {}
    """Options that name what has to be on the machine that measures: ``file``, ``files`` (with
    commas), or ``code`` (``module:function``)."""
    CHOSEN_FOR: Mapping[ModelFormat, int] = {}
    """Formats it is chosen for by default: the usable runtime of the lowest number."""
    FLAVOUR: str = ""
    """The kind of engine it alone executes, by the engine's first bytes; empty is any."""
    DEFAULT_PROTOCOL: QueryProtocol = "serve"
    DEFAULT_PROFILE: bool = False
    TIMES_LAYERS: bool = True
    TAKES_PRECISION: bool = True
    """Whether it executes a model in the requested precision; else the file decides."""
    TAKES_ARGUMENTS: bool = False
    """Whether arguments after ``--`` are handed on."""
    EXECUTES_ENGINES: bool = False
    """Whether what it runs is an engine, whatever file it was given."""
    open_session: Callable[[RunSpec], Session] | None = None
    """Load a model in the worker's own process; programs cannot."""
    turn_spec: Callable[[RunSpec, Sequence[RunSpec]], TurnSpec] | None = None
    """Settle how a side waits for its turn, given all sides of this process, or none of them."""
    load_library: Callable[[], None] | None = None
    """Import its libraries, and touch no device: others may be measuring."""
    bursts: Callable[[RunSpec], bool] | None = None
    """Whether its sessions time bursts of queries on a device of their own."""
    early_context: Callable[[RunSpec], dict[str, str]] | None = None
    """Write variables that have a worker begin CUDA's context before all else, as sessions do."""
    model_parts: Callable[[str, Mapping[str, str]], ModelParts] | None = None
    """Name the files that options make a part of a model, and those options that are one."""
    check: Callable[[RunSpec], None] | None = None
    """Refuse what no session would be opened for, and load nothing."""
    command_lines: Callable[[RunSpec], list[str]] | None = None
    """Write what a program would be started with, for ``--dry-run``."""

    def available(self) -> str | None:
        """Return in a few words why it does not work here; ``None`` when it does."""

    def fix(self) -> str | None:
        """Return what to type to get it."""

    def device(self, spec: RunSpec) -> str:
        """Name what is locked while it measures: ``cpu`` or ``cuda:0``."""
        ...

    def bench(
        self, spec: RunSpec, *, folder: Path, stage: Stage
    ) -> tuple[BenchOutcome, IterationTimes]:
        """Measure one launch; files of its own go into the folder."""
        ...
