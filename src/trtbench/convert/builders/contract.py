"""What the module of a builder offers; ``BUILDERS`` checks every one against it on loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec


class Builder(Protocol):
    """The module of a builder. What has a value here may be left out."""

    OPTIONS: Mapping[str, str] = {}
    """What ``--opt key=value`` may set, with a line of help each."""
    TIMING_CACHE: bool = True
    """Whether it keeps the times of kernels for the next build."""
    LIBRARY: str = ""
    """What it imports where it builds; a program imports nothing."""
    CHOSEN: int = 0
    """Its rank when no builder is named: the usable one of the lowest number builds."""
    needs_types: Callable[[Mapping[str, str]], bool] | None = None
    """Whether, by its options, it only builds the types that are in the file."""
    command_lines: Callable[[BuildSpec], list[str]] | None = None
    """The steps and commands of a build, for ``--dry-run``."""

    def available(self) -> str | None:
        """Why it does not work here, in a few words; ``None`` when it does."""

    def fix(self) -> str | None:
        """What to type to get it."""

    def device(self, spec: BuildSpec) -> str:
        """What is locked while it builds: ``cpu`` or ``cuda:0``."""
        ...

    def tools(self) -> dict[str, str]:
        """What its engines depend on beside their inputs: programs and versions."""
        ...

    def build(self, spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
        """Build one engine; log and layers are left in the folder."""
        ...
