"""The list of machines for ssh: a TOML file with one ``[[host]]`` each."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from trtbench import boundary
from trtbench.boundary import read_toml
from trtbench.domain.spec import Value
from trtbench.errors import InputError, UsageError, meant, reading
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

    @property
    def label(self) -> str | None:
        """What runs on it say where they were, unless the machine has a name for itself."""
        with contextlib.suppress(InputError):
            return boundary.check_tag(self.name) if self.name else None
        return None


class HostsFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of ``--hosts``: tables ``[[host]]``."""

    host: tuple[Host, ...] = ()


LIKE = "write it like [[host]] and, below, address = 'user@board'"


def hosts_from_file(path: Path) -> tuple[Host, ...]:
    """Read the machines; keys that mean nothing are named."""
    try:
        with reading(path):
            hosts = msgspec.convert(read_toml(path), type=HostsFile).host
    except (ValueError, msgspec.ValidationError) as problem:
        raise _invalid(path, str(problem)) from None
    if not hosts:
        raise UsageError(f"{path} lists no host", fix=LIKE)
    titles = [host.title for host in hosts]
    for host in hosts:
        try:
            _refuse_odd(host)
            if titles.count(host.title) > 1:
                raise UsageError(
                    f"{path} lists a host twice", fix="name = '...' in each, which tells them apart"
                )
        except UsageError as problem:
            user, _, name = host.title.rpartition("@")  # of which one may hold a password
            title = name if ":" in user else host.title
            problem.facts |= {"file": str(path), "host": title}
            raise
    return hosts


def _invalid(path: Path, reason: str) -> UsageError:
    """Say which key of a list of hosts means nothing, and which was meant."""
    words, _, place = reason.partition(" - at `$.")
    if "unknown field" not in words:
        return UsageError(f"{path} is no list of hosts", facts={"reason": reason}, fix=LIKE)
    known = Host.__struct_fields__ if place else HostsFile.__struct_fields__
    return UsageError(
        f"{path} has a key that means nothing",
        facts={"key": words.split("`")[1], **({"in": f"[[{place.strip('`')}]]"} if place else {})},
        fix=meant(words.split("`")[1], known),
    )


def _refuse_odd(host: Host) -> None:
    """Refuse what no machine has, what ssh would take for a flag, and what a shell would run."""
    if ":" in host.address.rpartition("@")[0]:
        raise UsageError(
            "an address of ssh holds no password",
            fix="let the machine know your key: ssh-copy-id user@board",
        )
    if not host.address or host.address.startswith("-") or len(host.address.split()) != 1:
        raise UsageError(f"{host.address!r} is not an address", fix="write it like user@board")
    odd = [name for name in host.environment if not name.isidentifier() or not name.isascii()]
    if odd:
        raise UsageError(f"{boundary.shown(odd[0])} is no name of a variable")
    if not host.gpus and (host.gpu_type or host.gpu_memory):
        raise UsageError(
            "a host has a type of GPU and no GPU",
            fix="gpus = 1 in its table, or no gpu_type and no gpu_memory",
        )
    if isinstance(host.gpus, int) and not 0 <= host.gpus <= MOST_GPUS:
        raise UsageError(f"a host has 0 to {MOST_GPUS} GPUs")
    for size in filter(None, (host.memory, host.gpu_memory)):
        bytes_from_text(size)


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
            gpu_type=host.gpu_type,
            memory_bytes=memory,
            gpu_memory_bytes=gpu_memory,
            resources=dict(host.resources),
        )
        for gpu, number, visible in places
    ]
