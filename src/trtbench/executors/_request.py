"""What an executor is asked for, what a place must have for it, and how its end is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trtbench.domain.spec import RunSpec, Value
from trtbench.units import text_from_bytes

Tell = Callable[[str], None]
"""Hears in a few words what goes on far away."""


AGAIN = "once more elsewhere"
"""Ends what is told when a machine was lost under a run."""
WAITING = "waiting for a machine"
"""Begins what is told while none is free, or there."""


class Needs(Value, frozen=True, kw_only=True):
    """What a machine must have for a run."""

    gpu: bool = False
    """Whether a GPU of its own is needed; without, the whole processor is."""
    machine: str | None = None
    """Part of the machine's name, or of its GPU's."""
    gpu_type: str | None = None
    """Part of the GPU's name: ``H100``, ``Orin``."""
    memory_bytes: int | None = None
    """Least memory of the machine."""
    gpu_memory_bytes: int | None = None
    resources: dict[str, float] = {}
    """Further things by name, as a cluster or a list of hosts declares them."""
    libraries: tuple[str, ...] = ()
    """What must be installed: ``runtime:NAME``, ``builder:NAME`` (or any: ``builder:``), what
    executes ``format:NAME``, ``package:NAME``, or ``package:RUNTIME/NAME`` where that runs."""

    def __str__(self) -> str:
        parts = ["a GPU" if self.gpu else "a processor"]
        if self.machine:
            parts.append(f"machine {self.machine}")
        if self.gpu_type:
            parts.append(f"GPU type {self.gpu_type}")
        if self.memory_bytes:
            parts.append(f"{text_from_bytes(self.memory_bytes)} of memory")
        if self.gpu_memory_bytes:
            parts.append(f"{text_from_bytes(self.gpu_memory_bytes)} of GPU memory")
        parts += [f"{name} {amount:g}" for name, amount in sorted(self.resources.items())]
        return ", ".join(parts)


class Partner(Value, frozen=True, kw_only=True):
    """The other side, when two are measured in turn on one machine, and how."""

    spec: RunSpec
    python: str | None = None
    launches: int | None
    most_launches: int
    pairs: int | None
    mode: str
    margin: float
    seed: int = 0


class Bag(Value, frozen=True, kw_only=True):
    """Files of one folder that travel together, so that each finds the others as it does here."""

    folder: str
    """Where it is on the machine that asks."""
    names: tuple[str, ...]
    """Files and folders in it: what was asked for, then what that refers to."""


class Errand(Value, frozen=True, kw_only=True):
    """Work other than one run: a verb, and what it is asked for, in words that can travel."""

    verb: str
    asked: dict[str, object] = {}
    output: str | None = None
    """The name of the file or folder that the verb writes; it comes back."""


class Request(Value, frozen=True, kw_only=True):
    """One run to be measured somewhere; everything in it is a plain value that can travel.

    A file is named ``trtbench-file:BAG/NAME``: each machine has its own place for bags.
    """

    id: str
    title: str = "run"
    """What it is called where others see it: in the dashboard of a cluster."""
    spec: RunSpec | None = None
    """Of the run; ``None`` when there is an errand instead."""
    errand: Errand | None = None
    bags: dict[str, Bag] = {}
    """All files that it names; they travel before it."""
    code: tuple[str, ...] = ()
    """Folders that Python imports from."""
    placed: str | None = None
    """The folder the bags lie in on the machine that carries it out."""
    machine: str | None = None
    """What whoever asks calls the machine; its own settings come first."""
    python: str | None = None
    timeout_s: float | None = None
    """Of one launch."""
    limit_s: float | None = None
    """Of the whole run, after which the place counts as hung."""
    memory_bytes: int | None = None
    command: str | None = None
    tags: tuple[str, ...] = ()
    needs: Needs = Needs()
    partner: Partner | None = None
    """With one, two runs come back, in the folders ``0`` and ``1``."""


class Told(Value, frozen=True, kw_only=True):
    """An error that a place far away put in words: ``error.json``."""

    kind: str
    message: str
    facts: dict[str, str] = {}
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """What the user says about an executor, as far as it concerns one."""

    address: str | None = None
    """Of a Ray cluster; ``None`` is the one that ``RAY_ADDRESS`` names."""
    hosts: Path | None = None
    """The file that lists machines for ssh."""
    beside: int = 1
    """CPU runs at the same time on one machine; more than one disturb each other."""
    patience_s: float = 0.0
    """How long a machine that is not there yet is waited for."""
    environment: Mapping[str, str] | None = None
    """Variables for the processes that measure."""


class Executor(Protocol):
    """Takes requests, from several threads at once, and fills folders with run directories."""

    elsewhere: bool
    """Whether work leaves this machine: engines are then built where they are measured."""

    def width(self, needs: Needs) -> int:
        """Count such runs that can be measured at the same time; refuses needs nobody can meet."""

    def run(self, request: Request, *, folder: Path, tell: Tell) -> None:
        """Fill a folder with the directory of a run, finished or failed; raises what was told."""

    def close(self) -> None:
        """End what is being measured; who waits for it is interrupted."""
