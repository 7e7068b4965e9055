"""Nodes that Ray's autoscaler adds, which believe they are machines of their own.

Ray's monitor loads this by name; the nodes are Ray's own fake ones, processes of this machine.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import ray._private.parameter as parameter
from ports import agent_ports
from ray._private import services
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

_MADE = parameter.RayParams
_patching = threading.Lock()
"""Nodes of two kinds are begun by two threads, and each has its own folders."""


class GrowingMachines(FakeMultiNodeProvider):
    """Adds nodes with locks, a cache and a log each: with one lock only one would measure."""

    def _create_node_with_resources_and_labels(self, *words: Any) -> None:
        folder = Path(os.environ["GROWING_FOLDER"], f"node{self._next_node_id + 1}")
        folder.mkdir()
        own = {
            "TRTBENCH_LOCKS": str(folder / "locks"),
            "TRTBENCH_CACHE": str(folder / "cache"),
            "CLOCKED_LOG": str(folder / "log"),
        }
        made = _MADE

        def params(*, env_vars: dict[str, str], **rest: Any) -> Any:
            given = {**rest, **agent_ports(), "object_store_memory": 100 << 20}
            return made(env_vars={**env_vars, **own}, **given)

        services.RAYLET_EXECUTABLE = str(folder.parent / "raylet")
        with _patching, mock.patch.object(parameter, "RayParams", params):
            super()._create_node_with_resources_and_labels(*words)
