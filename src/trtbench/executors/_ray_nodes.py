"""What an autoscaler of Ray is asked for, which kinds of nodes it may add, and who listens."""

from __future__ import annotations

import contextlib
import importlib
import socket
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from trtbench.boundary import at_home, read_bytes, read_text
from trtbench.domain.spec import Value
from trtbench.errors import TrtbenchError
from trtbench.executors._request import Needs
from trtbench.executors._slots import Slot, Want
from trtbench.host.yaml_files import yaml_from_text

TYPE = "accelerator_type:"
_TRACE = 0.001
"""How much of a resource Ray itself asks for where it stands for a kind of node."""
LISTEN_S = 30.0
"""How long a head that has just been started is given to listen."""


def refuse_nobody(address: str) -> None:
    """Raise where nothing listens at an address; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    deadline = time.monotonic() + LISTEN_S
    while host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
        except ConnectionRefusedError:
            if time.monotonic() >= deadline:
                raise ConnectionRefusedError("nothing listens there") from None
            time.sleep(0.5)
            continue
        except (OSError, OverflowError):  # Ray has more to say about it
            pass
        return


def bundle(
    want: Want, places: Sequence[Slot], known: Collection[str], *, beside: int
) -> dict[str, float]:
    """Say what a run takes of a node: of its processor all that no other run may have."""
    needs = want.needs
    if needs.gpu:
        wanted = {"GPU": 1.0}
    else:
        fitting = [want.slot] if want.slot else [each for each in places if not each.lacks(needs)]
        wanted = {"CPU": min((each.resources["CPU"] for each in fitting), default=1.0) / beside}
    if needs.memory_bytes:
        wanted["memory"] = float(needs.memory_bytes)
    return {
        **wanted,
        **_kinds(needs, want.slot.resources if want.slot else known),
        **needs.resources,
    }


def _kinds(needs: Needs, known: Collection[str]) -> dict[str, float]:
    """Name the resources that stand for a GPU's type or a machine, where a cluster has such."""
    wanted = {}
    for word, alone in ((needs.gpu_type, False), (needs.machine, True)):
        asked = (word or "").lower()
        bare = {name: name.removeprefix(TYPE).lower() for name in known}
        fitting = [
            name
            for name, own in bare.items()
            if (asked in own if name.startswith(TYPE) else alone and asked == own)
        ]
        if asked and fitting:  # H100 itself rather than H100-80G
            wanted[min(fitting, key=lambda name: (len(bare[name]), name))] = _TRACE
    return wanted


def request_nodes(bundles: list[dict[str, float]]) -> None:
    """Ask the autoscaler, from within the cluster."""
    importlib.import_module("ray.autoscaler.sdk").request_resources(bundles=bundles)


class _NodeKind(Value, frozen=True, kw_only=True):
    resources: dict[str, float] = {}


class _Scaling(Value, frozen=True, kw_only=True):
    """What the file of an autoscaler says of nodes; the rest is not ours."""

    available_node_types: dict[str, _NodeKind] = {}


def declared_here() -> tuple[str, ...]:
    """List resources of the nodes that this head's autoscaler may add; none where it tells none.

    A file tells them, which its process was started with; Ray itself keeps them to itself.
    """
    ray, found = importlib.import_module("ray"), []
    address = ray.get_runtime_context().gcs_address
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError, ValueError, TrtbenchError):
            words = read_bytes(path).decode(errors="replace").split("\0")
            told = dict(word.partition("=")[::2] for word in words)
            if told.get("--gcs-address") == address and "--autoscaling-config" in told:
                file = at_home(told["--autoscaling-config"])
                told_there = yaml_from_text(read_text(file), where=str(file))
                kinds = msgspec.convert(told_there, type=_Scaling).available_node_types
                found += [name for kind in kinds.values() for name in kind.resources]
    return tuple(dict.fromkeys(found))
