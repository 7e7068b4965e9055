"""What the file of a builder offers; ``BUILDERS`` holds every one to it when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trtbench.domain.job import BuildOutcome, Stage
from trtbench.domain.spec import BuildSpec

if TYPE_CHECKING:
    from trtbench.build.builders._precision import PrecisionStep


class Builder(Protocol):
    """The module of a builder. What has a value here may be left out."""

    OPTIONS: Mapping[str, str] = {}
    """What ``--opt key=value`` may set, with a line of help each."""
    TIMING_CACHE: bool = True
    """Whether it keeps the times of kernels for the next build."""
    LIBRARY: str = ""
    """What it imports where it builds; a program imports nothing."""
    CHOSEN: int = 0
    """Where it stands when nobody names a builder: the usable one of the lowest number."""
    needs_types: Callable[[Mapping[str, str]], bool] | None = None
    """Tell, by its options, whether it only builds the types that are in the file."""
    step_ahead: Callable[[BuildSpec], PrecisionStep | None] | None = None
    """Plan what is done to the model in another interpreter, before this one is started."""
    command_lines: Callable[[BuildSpec], list[str]] | None = None
    """Write the steps and commands of a build, for ``--dry-run``."""

    def available(self) -> str | None:
        """Tell in a few words why it does not work here; ``None`` when it does."""

    def fix(self) -> str | None:
        """Tell what to type to get it."""

    def device(self, spec: BuildSpec) -> str:
        """Name what is locked while it builds: ``cpu`` or ``cuda:0``."""
        ...

    def tools(self) -> dict[str, str]:
        """Name what its engines depend on beside their inputs: programs and versions."""
        ...

    def build(self, spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
        """Build one engine; log and layers are left in the folder."""
        ...
