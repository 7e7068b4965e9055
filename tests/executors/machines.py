"""Machines for tests: hosts behind a real sshd, nodes of a real Ray cluster."""

import contextlib
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import runs
from ports import agent_ports, free_port, listens

START_S = 250.0  # for a node to come; a test has 300 s


@contextlib.contextmanager
def ssh_server() -> Iterator[dict[str, object]]:
    """Start a server of our own: high port, own keys, one user, no settings of the machine."""
    program = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(program).is_file() or shutil.which("ssh") is None:
        pytest.skip("sshd is not installed (Debian: apt-get install openssh-server)")
    with tempfile.TemporaryDirectory(prefix="trtbench-sshd-") as name:
        folder = Path(name)
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        shutil.copyfile(folder / "user.pub", folder / "authorized")
        port = free_port()
        (folder / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin prohibit-password\n"
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it for privilege separation
        with open(folder / "log", "w") as log:
            command = [program, "-D", "-e", "-f", str(folder / "config")]
            server = subprocess.Popen(command, stderr=log)
        try:
            _wait_for(port, server, folder / "log")
            known, identity = str(folder / "known"), str(folder / "user")
            yield {"port": port, "identity": identity, "known": known, "pid": server.pid}
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    for _ in range(1200):
        if server.poll() is not None:
            pytest.skip(f"sshd does not start here: {log.read_text()[-300:]}")
        if listens(port):
            return
        time.sleep(0.1)
    pytest.skip("sshd does not answer")


def kill_with_children(pid: int) -> None:
    """End a process and all that it began at once, as a cut of the power does."""
    first = psutil.Process(pid)
    for each in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            each.kill()


def processes(words: str, folder: Path) -> list[psutil.Process]:
    """Processes of a machine that were started with these words."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = "\n".join(each.cmdline())
            place = line + str(each.cwd())
            if words in line and str(folder) in place and each.name().startswith("python"):
                found.append(each)
    return found


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
            **agent_ports(),
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
            kill_with_children(raylet.process.pid)
        self.cluster.remove_node(node, allow_graceful=False)

    def spans(self, name: str) -> list[tuple[str, float, float]]:
        return runs.spans(self.folder / name / "log")
