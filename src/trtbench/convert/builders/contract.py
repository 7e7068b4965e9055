"""The names a builder module must have; ``BUILDERS`` checks every module when it is loaded."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from trtbench.core.jobs import BuildOutcome, Stage
from trtbench.core.spec import BuildSpec


class Builder(Protocol):
    """The module of a builder. Names that have a value here are optional."""

    OPTIONS: Mapping[str, str] = {}  # the keys of `--opt key=value`, each with a line of help
    TIMING_CACHE: bool = True  # whether it uses a timing cache
    LIBRARY: str = ""  # the library it imports to build; empty for a program
    TAKES_ARGUMENTS: bool = False  # whether it gets the arguments after `--`, as a program does
    CHOSEN: int = 0
    """Its rank when no builder is named: the available one with the lowest number is used."""
    needs_types: Callable[[Mapping[str, str]], bool] | None = None
    """Whether, with these options, it only builds the types in the ONNX file."""
    command_lines: Callable[[BuildSpec], list[str]] | None = None
    """The steps and commands of a build, for ``--dry-run``."""

    def available(self) -> str | None:
        """Return why it does not work here, in a few words; ``None`` if it works."""

    def fix(self) -> str | None:
        """Return the command that installs it."""

    def device(self, spec: BuildSpec) -> str:
        """Return the device to lock during a build: ``cpu`` or a GPU."""
        ...

    def tools(self) -> dict[str, str]:
        """Return the programs and versions that its engines depend on."""
        ...

    def build(self, spec: BuildSpec, *, folder: Path, stage: Stage) -> BuildOutcome:
        """Build one engine; the log and the layers are written to the folder."""
        ...
