"""Machines for tests: hosts behind a real sshd, nodes of a real Ray cluster."""

from __future__ import annotations

import contextlib
import getpass
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import runs

START_S = 250.0
"""For a node to come; a test has 300 s."""


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def hosts_file(tmp_path: Path, sshd: dict[str, object], clocked: Path, *names: str) -> Path:
    """Hosts that believe they are machines of their own, though they are one."""
    blocks = []
    for name in names:
        (tmp_path / name).mkdir(exist_ok=True)
        known = f"UserKnownHostsFile={sshd['known']}"
        environment = {
            "TRTBENCH_LOCKS": str(tmp_path / name / "locks"),
            "CLOCKED_LOG": str(tmp_path / name / "log"),
            "PYTHONPATH": str(clocked),
        }
        inside = ", ".join(f'{key} = "{value}"' for key, value in environment.items())
        blocks.append(
            f'[[host]]\nname = "{name}"\naddress = "{getpass.getuser()}@127.0.0.1"\n'
            f'port = {sshd["port"]}\nidentity = "{sshd["identity"]}"\n'
            f'options = ["StrictHostKeyChecking=accept-new", "{known}"]\n'
            f'python = "{sys.executable}"\nfolder = "{tmp_path / name / "kept"}"\n'
            f"environment = {{ {inside} }}\nresources = {{ camera = 1 }}\n"
        )
    path = tmp_path / "hosts.toml"
    path.write_text("\n".join(blocks))
    return path


@dataclass
class Nodes:
    """Ray nodes that believe they are machines of their own: other locks, other caches."""

    folder: Path
    site: Path
    cluster: Any
    client_port: int = 0
    alive: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, **resources: Any) -> None:
        (self.folder / name / "tmp").mkdir(parents=True)
        self.alive[name] = self.cluster.add_node(
            wait=False,  # Ray's own patience is 30 s, which a busy machine exceeds
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=100 << 20,
            env_vars={
                "TRTBENCH_LOCKS": str(self.folder / name / "locks"),
                "TRTBENCH_CACHE": str(self.folder / name / "cache"),
                "TMPDIR": str(self.folder / name / "tmp"),
                "CLOCKED_BEGUN": str(self.folder / "begun"),
                "CLOCKED_LOG": str(self.folder / name / "log"),
                "PYTHONPATH": str(self.site),
            },
            **resources,
        )
        self.cluster.wait_for_nodes(timeout=START_S)

    def kill(self, name: str) -> None:
        """Take a node away as a cut of its power does: whatever runs there ends at once."""
        node = self.alive.pop(name)
        for raylet in node.all_processes["raylet"]:
            first = psutil.Process(raylet.process.pid)
            for each in (first, *first.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    each.kill()
        self.cluster.remove_node(node, allow_graceful=False)

    def spans(self, name: str) -> list[tuple[str, float, float]]:
        return runs.spans(self.folder / name / "log")
