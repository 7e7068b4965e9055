"""Machines, and a runtime that only notes when it measured, so that overlaps can be seen.

``meet=2`` lets it go on when two have begun, so that two that may be beside each other are.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import Nodes, free_port

RUNTIME = """
import json, os, time
import numpy as np
from trtbench.domain.job import BenchOutcome
from trtbench.domain.result import LaunchFacts
from trtbench.domain.samples import IterationTimes
from trtbench.errors import InputError

FORMATS = ("onnx",)


def available():
    return None


def fix():
    return None


def device(spec):
    return spec.device or "cpu"


def bench(spec, *, folder, stage):
    stage("measure")
    if spec.options.get("do") == "refuse":
        raise InputError("this model is refused", fix="give another")
    if spec.options.get("do") == "crash":
        os.abort()
    begin = time.monotonic()
    begun = os.environ["CLOCKED_LOG"].removesuffix(".log") + ".begun"
    begun = os.environ.get("CLOCKED_BEGUN", begun)
    with open(begun, "a") as others:
        others.write("x")
    while os.path.getsize(begun) < int(spec.options.get("meet", "0")):
        time.sleep(0.01)
    time.sleep(float(spec.options.get("sleep", "0.2")))
    note = {"device": os.environ.get("CUDA_VISIBLE_DEVICES") or "cpu", "begin": begin,
            "end": time.monotonic(), "pid": os.getpid(), "case": spec.options.get("case"),
            "model": spec.model.path}
    with open(os.environ["CLOCKED_LOG"], "a") as log:
        log.write(json.dumps(note) + "\\n")
    return BenchOutcome(facts=LaunchFacts(wall_s=0.1)), IterationTimes(host=np.full(20, 1e-3))
"""


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the runtime ``clocked`` for this process and its children."""
    folder = tmp_path / "site"
    facts = folder / "clocked-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "clocked.py").write_text(RUNTIME)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: clocked\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[trtbench.runtimes]\nclocked = clocked\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("CLOCKED_LOG", str(tmp_path / "clocked.log"))
    return folder


@pytest.fixture(scope="module")
def sshd() -> Iterator[dict[str, object]]:
    """A server of our own: high port, own keys, one user, nothing of the machine's settings."""
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
            yield {"port": port, "identity": str(folder / "user"), "known": str(folder / "known")}
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    for _ in range(1200):
        if server.poll() is not None:
            pytest.skip(f"sshd does not start here: {log.read_text()[-300:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.skip("sshd does not answer")


@pytest.fixture
def nodes(tmp_path: Path, clocked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: trtbench[ray]")
    utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "0")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    monkeypatch.setenv("RAY_health_check_period_ms", "1000")
    port = free_port()
    cluster = utils.Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
            "ray_client_server_port": port,
        },
    )
    yield Nodes(tmp_path, clocked, cluster, port)
    ray.shutdown()
    cluster.shutdown()
