"""The list of machines for ssh: a TOML file with one ``[[host]]`` each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trtbench import boundary
from trtbench.boundary import read_toml
from trtbench.domain.spec import Value
from trtbench.errors import UsageError, reading
from trtbench.executors._slots import Slot
from trtbench.units import bytes_from_text

MOST_GPUS = 1024


class Host(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine: how to reach it, and what it has."""

    address: str
    """``user@name``, or a name from ``~/.ssh/config``."""
    name: str | None = None
    port: int | None = None
    identity: str | None = None
    """The file of the private key."""
    options: tuple[str, ...] = ()
    """Further options of ssh, written ``Name=value``."""
    python: str = "python3"
    folder: str = ".cache/trtbench"
    """Where models and code are kept there, from the home folder."""
    environment: dict[str, str] = {}
    gpus: int | tuple[str, ...] = 0
    """How many, or what CUDA calls each of them: UUIDs, also of MIG slices."""
    gpu_type: str = ""
    memory: str | None = None
    gpu_memory: str | None = None
    resources: dict[str, float] = {}

    @property
    def title(self) -> str:
        return self.name or self.address


class HostsFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of ``--hosts``: tables ``[[host]]``."""

    host: tuple[Host, ...] = ()


def hosts_from_file(path: Path) -> tuple[Host, ...]:
    """Read the machines; keys that mean nothing are named."""
    try:
        with reading(path):
            hosts = msgspec.convert(read_toml(path), type=HostsFile).host
    except (ValueError, msgspec.ValidationError) as problem:
        raise UsageError(
            f"{path} is no list of hosts",
            facts={"reason": problem},
            fix="write it like [[host]] and, below, address = 'user@board'",
        ) from None
    if not hosts:
        raise UsageError(f"{path} lists no host", fix="[[host]]\\naddress = 'user@board'")
    titles = [host.title for host in hosts]
    if len(set(titles)) < len(titles):
        raise UsageError(f"{path} lists a host twice", fix="give each a name of its own")
    for host in hosts:
        _refuse_odd(host, path)
        if ":" in host.address.rpartition("@")[0]:
            raise UsageError(
                "an address of ssh holds no password",
                facts={"file": path, "host": host.address.rpartition("@")[2]},
                fix="let the machine know your key: ssh-copy-id user@board",
            )
        if host.address.startswith("-"):  # ssh would take it for a flag
            raise UsageError(
                f"{host.address!r} is not an address",
                facts={"file": path},
                fix="write it like user@board",
            )
    return hosts


def _refuse_odd(host: Host, path: Path) -> None:
    """Refuse what no machine has: more GPUs than a list can hold, names that a shell would run."""
    odd = [name for name in host.environment if not name.isidentifier() or not name.isascii()]
    if odd:
        raise UsageError(
            f"{boundary.shown(odd[0])} is no name of a variable",
            facts={"file": path, "host": host.title},
        )
    if isinstance(host.gpus, int) and not 0 <= host.gpus <= MOST_GPUS:
        raise UsageError(
            f"a host has 0 to {MOST_GPUS} GPUs", facts={"file": path, "host": host.title}
        )


def slots_of(host: Host, *, beside: int = 1) -> list[Slot]:
    """List the devices of a machine: its GPUs and its processor."""
    memory = bytes_from_text(host.memory) if host.memory else None
    gpu_memory = bytes_from_text(host.gpu_memory) if host.gpu_memory else None
    names = ("",) * host.gpus if isinstance(host.gpus, int) else host.gpus
    places: list[tuple[int | None, int, str]] = [(None, number, "") for number in range(beside)]
    places += [(index, 0, name) for index, name in enumerate(names)]
    return [
        Slot(
            machine=host.title,
            title=host.title,
            gpu=gpu,
            number=number,
            visible=visible,
            gpu_type=host.gpu_type if gpu is not None else "",
            memory_bytes=memory,
            gpu_memory_bytes=gpu_memory,
            resources=dict(host.resources),
        )
        for gpu, number, visible in places
    ]
