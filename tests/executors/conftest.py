"""Machines, and a runtime that only notes when it measured, so that overlaps can be seen.

``meet=2`` lets it go on when two have begun, so that two that may be beside each other are;
with ``from=3`` those before the third do not wait.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import Nodes, ssh_server
from ports import agent_ports, free_port, patient_raylet

RUNTIME = """
import json, os, time
import numpy as np
from trtbench.core.jobs import BenchOutcome
from trtbench.core.run import LaunchFacts
from trtbench.core.samples import IterationTimes
from trtbench.core.errors import InputError

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
    late = os.path.getsize(begun) >= int(spec.options.get("from", "0"))
    while late and os.path.getsize(begun) < int(spec.options.get("meet", "0")):
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
    with ssh_server() as server:
        yield server


@pytest.fixture
def patient_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Have Ray wait for its own processes as long as a test does, and leave clusters at the end."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: trtbench[ray]")
    services = pytest.importorskip("ray._private.services")
    monkeypatch.setattr(services, "RAYLET_EXECUTABLE", patient_raylet(tmp_path))
    monkeypatch.setenv("RAY_agent_register_timeout_ms", "300000")
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "300")
    yield ray
    ray.shutdown()


@pytest.fixture
def nodes(
    tmp_path: Path, clocked: Path, monkeypatch: pytest.MonkeyPatch, patient_ray: Any
) -> Iterator[Nodes]:
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
            **agent_ports(),
        },
    )
    yield Nodes(tmp_path, clocked, cluster, port)
    patient_ray.shutdown()
    cluster.shutdown()
