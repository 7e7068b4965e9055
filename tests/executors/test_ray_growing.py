"""Clusters that grow while a sweep is measured: by Ray's own autoscaler, and by hand.

Ray's own ``AutoscalingCluster`` cannot be used: it reads a file that Ray's packages lack, and
begins with ``ray stop --force``, which ends every cluster of the machine. Here the same autoscaler
adds the same nodes (``growing_machines.py``).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import runs
from ports import agent_ports, free_port

from trtbench.cli import run as trtbench
from trtbench.executors import ExecutorSettings, Needs
from trtbench.executors._ray_nodes import bundle
from trtbench.executors._slots import Want
from trtbench.executors.ray import MOST_ASKED, RayExecutor
from trtbench.store.store import Store
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]
WORKERS = 3


@pytest.fixture
def growing(
    tmp_path: Path, clocked: Path, monkeypatch: pytest.MonkeyPatch, patient_ray: Any
) -> Iterator[str]:
    """Start a head without a processor, to which an autoscaler adds nodes of two; its address."""
    utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("AUTOSCALER_UPDATE_INTERVAL_S", "1")
    monkeypatch.setenv("RAY_FAKE_CLUSTER", "1")
    monkeypatch.setenv("CLOCKED_BEGUN", str(tmp_path / "begun"))
    monkeypatch.setenv("GROWING_FOLDER", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{clocked}:{Path(__file__).resolve().parent}")
    config = tmp_path / "autoscaling.json"  # JSON is YAML too
    port = free_port()
    address = f"{patient_ray.util.get_node_ip_address()}:{port}"
    config.write_text(json.dumps(autoscaling(address=address)))
    head = {
        "num_cpus": 0, "include_dashboard": False, "autoscaling_config": str(config),
        "gcs_server_port": port, **agent_ports(),
    }  # fmt: skip
    cluster = utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster.address
    finally:
        patient_ray.shutdown()
        (monitor,) = cluster.head_node.all_processes["monitor"]
        added = psutil.Process(monitor.process.pid).children(recursive=True)
        cluster.shutdown()
        for each in added:  # the autoscaler does not take back what it added
            with contextlib.suppress(psutil.Error):
                each.kill()


def autoscaling(*, address: str) -> dict[str, object]:
    """Describe a cluster whose nodes are processes of this machine."""
    lists = ("setup_commands", "initialization_commands", "head_setup_commands",
             "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands",
             "cluster_synced_files", "rsync_exclude", "rsync_filter")  # fmt: skip
    return {
        "cluster_name": "grows",
        "max_workers": WORKERS,
        "provider": {
            "type": "external",
            "module": "growing_machines.GrowingMachines",
            "gcs_address": address,
            # Without these it takes all nodes, which have one address, for one that is dead.
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
            **{
                name: {"resources": {"CPU": 2, resource: 1}, "node_config": {}, "min_workers": 0,
                       "max_workers": WORKERS}
                for name, resource in (("board", "camera"), ("server", "accelerator_type:H100"))
            },
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
        **{name: {} for name in ("auth", "docker", "head_node", "worker_nodes", "file_mounts")},
        **{name: [] for name in lists},
    }  # fmt: skip


@pytest.mark.real("Ray")
def test_an_autoscaler_adds_a_node_for_each_case_that_waits(growing, tmp_path, capfd):
    """No case ends before three have begun; a node has two processors, and takes one case."""
    words = ["sweep", runs.quick_spec(tmp_path).model.path, "-r", "clocked", "--batch", "1",
             "--axis", "opt.case=0,1,2", "--axis", "opt.meet=3", "--format", "none",
             "-o", str(tmp_path / "sweep"), "--store", str(tmp_path / "store"),
             "--executor", "ray", "--address", growing, "--wait-node", "1h"]  # fmt: skip
    assert trtbench(words) == 0
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 3
    logs = sorted(tmp_path.glob("node*/log"))
    assert [len(runs.spans(log)) for log in logs] == [1, 1, 1]
    heard = capfd.readouterr().err
    assert heard.count("waiting for a machine to come that has a processor") >= 3


@pytest.mark.real("Ray")
def test_an_autoscaler_adds_nodes_of_the_kinds_that_cases_name(growing, tmp_path):
    """Two kinds of nodes differ by what they declare, and none is there to begin with."""
    words = ["sweep", runs.quick_spec(tmp_path).model.path, "-r", "clocked", "--batch", "1",
             "--axis", "machine=camera,h100", "--axis", "opt.case=0,1", "--format", "none",
             "-o", str(tmp_path / "sweep"), "--store", str(tmp_path / "store"),
             "--executor", "ray", "--address", growing, "--wait-node", "1h"]  # fmt: skip
    assert trtbench(words) == 0
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4


@pytest.mark.parametrize(
    ("needs", "known", "asked"),
    [
        (Needs(gpu_type="h100"), ["CPU", "accelerator_type:H100"], "accelerator_type:H100"),
        (Needs(gpu_type="A100"), [f"accelerator_type:A100{end}" for end in ("-40G", "")],
         "accelerator_type:A100"),
        (Needs(machine="ORIN"), ["orin", "orin-nano", "CPU"], "orin"),
        (Needs(machine="H100"), ["accelerator_type:H100"], "accelerator_type:H100"),
        (Needs(gpu_type="orin"), ["orin"], None),  # a name of a machine, not of a GPU
        (Needs(gpu_type="B200"), ["accelerator_type:H100"], None),
    ],
)  # fmt: skip
def test_a_cluster_is_asked_by_the_names_it_has_for_kinds_of_nodes(needs, known, asked):
    wanted = bundle(Want(needs.having(gpu=True)), [], known, beside=1)
    assert wanted == {"GPU": 1.0, **({asked: 0.001} if asked else {})}


def test_nodes_that_join_late_take_part_and_are_asked_for_as_long_as_cases_wait(
    nodes, tmp_path, monkeypatch
):
    """Two cases are measured on one node; the next go on only when five have begun."""
    asked: list[list[dict[str, float]]] = []
    monkeypatch.setattr("trtbench.executors.ray.request_nodes", asked.append)
    nodes.add("a")
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address, patience_s=3600.0))
    assert executor.width(Needs()) == 1 + MOST_ASKED
    meets = {"from": "3", "meet": "5"}
    specs = [
        runs.quick_spec(tmp_path, runtime="clocked", options={"case": str(number), **meets})
        for number in range(6)
    ]
    begun, store = tmp_path / "begun", Store(tmp_path / "store")
    with ThreadPoolExecutor(1) as pool:
        measuring = pool.submit(runs.measure_all, specs, store=store, executor=executor)
        for name, size in (("b", 3), ("c", 4)):
            wait_for(lambda size=size: begun.is_file() and begun.stat().st_size >= size)
            nodes.add(name)
        measured = measuring.result()
    executor.close()
    assert len(measured) == 6
    counts = [len(nodes.spans(name)) for name in ("a", "b", "c")]
    assert sum(counts) == 6
    assert min(counts) >= 1
    assert max(map(len, asked)) >= 4  # one is measured while three wait
    assert asked[-1] == []
