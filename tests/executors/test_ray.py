"""A real Ray cluster on this machine: nodes that come and go, and runs that do not."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
import runs
from ports import agent_ports, free_port, listens

from trtbench.domain.result import Run
from trtbench.errors import InputError, JobError, UnavailableError
from trtbench.executors import ExecutorSettings, Needs
from trtbench.store.store import Store
from trtbench.version import __version__
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.progress import Event
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]
COUNT = 18
NAMED = "bench tiny.onnx, clocked, batch 1"


def join(address: str):
    from trtbench.executors.ray import RayExecutor

    return RayExecutor(ExecutorSettings(address=address))


def no_overlap(spans: list[tuple[str, float, float]]) -> bool:
    return all(a[2] <= b[1] for a, b in itertools.pairwise(spans))


def test_many_runs_on_three_nodes_one_of_which_is_lost(nodes, tmp_path):
    for name in ("a", "b", "c"):
        nodes.add(name)
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    assert executor.width(Needs()) == 3
    specs = [
        runs.quick_spec(tmp_path, runtime="clocked", options={"case": str(number), "sleep": "0.3"})
        for number in range(COUNT)
    ]
    finished = threading.Semaphore(0)

    def kill_one() -> None:
        for _ in range(5):
            finished.acquire()
        wait_for(lambda: nodes.spans("b"))  # it has taken part
        nodes.kill("b")

    killer = threading.Thread(target=kill_one)
    killer.start()
    measured = runs.measure_all(specs, store=store, executor=executor, done=finished)
    killer.join()
    executor.close()
    cases = [run.record.spec.options["case"] for run in measured]
    assert cases == [str(number) for number in range(COUNT)]
    assert len(store.index.find(kind="run")) == COUNT
    assert all(isinstance(store.load(run.id), Run) for run in measured)
    counts = {name: len(nodes.spans(name)) for name in ("a", "b", "c")}
    assert COUNT <= sum(counts.values()) <= COUNT + 2  # begun again elsewhere
    assert all(0 < count < COUNT for count in counts.values())
    for name in ("a", "b", "c"):
        assert no_overlap(nodes.spans(name)), name
    assert sorted(executor.fetched.values()) == [1, 1, 1]  # one model, once to each node


def test_three_nodes_measure_at_the_same_time_and_one_in_turn(nodes, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name in ("a", "b", "c"):
        nodes.add(name, resources={"first": 1.0} if name == "a" else {})
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    three = runs.quick_spec(tmp_path, runtime="clocked", options={"meet": "3"})
    runs.measure_all([three] * 3, store=store, executor=executor)  # they go on when all are there
    (a,), (b,), (c,) = (nodes.spans(name) for name in ("a", "b", "c"))
    assert max(a[1], b[1], c[1]) < min(a[2], b[2], c[2])
    alone = runs.quick_spec(tmp_path, runtime="clocked")
    needs = Needs(resources={"first": 1.0})
    measured = runs.measure_all([alone] * 2, store=store, executor=executor, needs=needs)
    executor.close()
    for run in measured:  # Ray sets it to 1, which the node itself does not
        assert "OMP_NUM_THREADS" not in str(run.record.environment.extra.get("variables"))
    assert [len(nodes.spans(name)) for name in ("a", "b", "c")] == [3, 1, 1]
    assert no_overlap(nodes.spans("a"))


def test_a_model_that_crashes_or_is_refused_there_is_said_here_and_not_tried_again(nodes, tmp_path):
    nodes.add("a")
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    for what, kind in (("refuse", InputError), ("crash", JobError)):
        spec = runs.quick_spec(tmp_path, runtime="clocked", options={"do": what})
        with pytest.raises(kind) as caught:
            run_bench(spec, store=store, conduct=Conduct(executor=executor))
        assert "refused" in str(caught.value) or "SIGABRT" in str(caught.value)
    assert [entry.kind for entry in store.index.find()] == ["failed"]
    real = run_bench(runs.quick_spec(tmp_path), store=store, conduct=Conduct(executor=executor))
    assert len(real.times) >= 10
    assert real.record.spec.model.path == str(tmp_path / "tiny.onnx")
    executor.close()


def test_what_no_node_can_ever_do_is_refused_at_once(nodes, tmp_path):
    nodes.add("a", resources={"camera": 1.0, "accelerator_type:H100": 1.0})
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    spec = runs.quick_spec(tmp_path, runtime="clocked")
    for needs in (Needs(resources={"lidar": 1.0}), Needs(memory_bytes=1 << 60)):
        with pytest.raises(UnavailableError, match="no machine can ever") as caught:
            run_bench(spec, store=store, conduct=Conduct(executor=executor, needs=needs))
        assert str(needs) in caught.value.facts["needed"]
    gpu = runs.quick_spec(tmp_path, runtime="clocked", device="cuda:0")
    with pytest.raises(UnavailableError, match="no machine can ever"):
        run_bench(gpu, store=store, conduct=Conduct(executor=executor))
    conduct = Conduct(executor=executor, needs=Needs(resources={"camera": 1.0}))
    assert run_bench(spec, store=store, conduct=conduct).id
    executor.close()


def test_a_node_with_another_trtbench_is_refused_before_anything_is_sent(nodes, tmp_path):
    """Whoever has joined the cluster before lent its nodes nothing."""
    ray = pytest.importorskip("ray")
    (nodes.site / "trtbench").mkdir()
    (nodes.site / "trtbench" / "__init__.py").touch()
    (nodes.site / "trtbench" / "version.py").write_text('__version__ = "0.0.1"\n')
    nodes.add("a")
    ray.init(address=nodes.cluster.address, log_to_driver=False)
    executor = join(nodes.cluster.address)
    spec = runs.quick_spec(tmp_path, runtime="clocked")
    with pytest.raises(UnavailableError, match="another trtbench") as caught:
        run_bench(spec, store=Store(tmp_path / "store"), conduct=Conduct(executor=executor))
    assert (caught.value.facts["there"], caught.value.facts["here"]) == ("0.0.1", __version__)
    assert not (tmp_path / "a" / "cache").exists()
    executor.close()
    assert ray.is_initialized()  # it is the caller's


def test_neither_here_nor_there_a_name_leads_out(nodes, tmp_path, monkeypatch):
    nodes.add("a")
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    conduct = Conduct(executor=executor)
    with pytest.raises(InputError, match="leads out"):
        run_bench(runs.evil_spec(tmp_path), store=store, conduct=conduct)
    assert runs.files_with_secret(tmp_path / "a") == []
    monkeypatch.setattr("trtbench.executors.ray.parcel_from_request", runs.evil_parcel)
    with pytest.raises(InputError, match="leads out"):
        run_bench(runs.quick_spec(tmp_path), store=store, conduct=conduct)
    assert list((tmp_path / "a" / "cache" / "blobs").iterdir())  # it came as far as that
    assert list(tmp_path.rglob(".bash_profile")) == []
    executor.close()


def test_a_node_that_comes_later_is_waited_for_and_the_run_goes_on(nodes, tmp_path):
    from trtbench.executors.ray import RayExecutor

    settings = ExecutorSettings(address=nodes.cluster.address, patience_s=600.0)
    executor, store = RayExecutor(settings), Store(tmp_path / "store")
    heard: list[str] = []

    def listen(event: Event) -> None:
        if "waiting for a machine to come" in event.text:
            nodes.add("a", resources={"camera": 1.0})
        heard.append(event.text)

    needs = Needs(resources={"camera": 1.0}, memory_bytes=1 << 20)
    conduct = Conduct(executor=executor, needs=needs, listen=listen)
    run = run_bench(runs.quick_spec(tmp_path, runtime="clocked"), store=store, conduct=conduct)
    assert len(nodes.spans("a")) == 1
    assert run.id in store.index.ids()
    assert any("camera 1" in text for text in heard)
    assert "a machine has come" in heard
    executor.close()


def measuring(folder: Path) -> list[int]:
    """Processes that measure on the nodes of a test."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = "\n".join(each.cmdline())
            if "trtbench.worker" in words and str(folder) in words:
                found.append(each.pid)
    return found


def test_who_is_interrupted_leaves_nothing_that_goes_on_measuring(nodes, tmp_path):
    nodes.add("a")
    executor, store = join(nodes.cluster.address), Store(tmp_path / "store")
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        wait_for(lambda: measuring(tmp_path / "a"))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_bench(spec, store=store, conduct=Conduct(executor=executor))
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for(lambda: not measuring(tmp_path / "a"))
    assert store.index.find() == []
    executor.close()


@pytest.mark.real("Ray")
def test_the_dashboard_shows_a_run_by_its_name_while_it_is_measured(
    tmp_path, clocked, patient_ray, monkeypatch
):
    utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("TRTBENCH_CACHE", str(tmp_path / "cache"))
    port = free_port()
    head = {"num_cpus": 1, "include_dashboard": True, "dashboard_port": port, **agent_ports()}
    cluster = utils.Cluster(initialize_head=True, head_node_args=head)
    executor, store = join(cluster.address), Store(tmp_path / "store")
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"meet": "2"})

    def states() -> list[str]:
        """What the page of tasks is made from."""
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/api/v0/tasks") as page:
            tasks = json.load(page)["data"]["result"]["result"]
            return [task["state"] for task in tasks if task["name"] == NAMED]
        return []

    with ThreadPoolExecutor(1) as pool:
        conduct = Conduct(executor=executor)
        measuring = pool.submit(run_bench, spec, store=store, conduct=conduct)
        wait_for(lambda: states() == ["RUNNING"])
        with open(tmp_path / "clocked.begun", "a") as others:
            others.write("x")  # now it goes on
        assert measuring.result().id in store.index.ids()
    wait_for(lambda: states() == ["FINISHED"])
    executor.close()
    cluster.shutdown()


CLIENT = """
import sys, runs
from pathlib import Path
from trtbench.executors import ExecutorSettings
from trtbench.executors.ray import RayExecutor
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
executor = RayExecutor(ExecutorSettings(address=sys.argv[1], patience_s=3600.0))
folder = Path(sys.argv[2])
spec = runs.quick_spec(folder, runtime='clocked')
conduct = Conduct(executor=executor, listen=lambda event: print(event.text, flush=True))
run_bench(spec, store=Store(folder / 'store'), conduct=conduct)
executor.close()
"""


def client(program: str, nodes, folder: Path) -> subprocess.Popen:
    """Start a program with the address of the cluster's proxy, once that listens, and a folder."""
    wait_for(lambda: listens(nodes.client_port))
    here = Path(__file__).resolve().parent
    paths = [str(here), str(here.parent), os.environ["PYTHONPATH"], *sys.path]
    return subprocess.Popen(
        [sys.executable, "-c", program, f"ray://127.0.0.1:{nodes.client_port}", str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_cluster_is_joined_through_its_client_too_and_asked_for_a_node(nodes, tmp_path):
    """The address ray://… is that of a proxy: this process is no part of the cluster then."""
    with client(CLIENT, nodes, tmp_path) as measuring:
        assert measuring.stdout is not None
        heard = []
        for line in measuring.stdout:
            heard.append(line.strip())
            if "waiting for a machine to come" in line:
                nodes.add("a")
    assert measuring.returncode == 0, heard
    assert "a machine has come" in heard
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 1
    assert len(nodes.spans("a")) == 1


JOIN = """
import sys
from trtbench.executors import ExecutorSettings
from trtbench.executors.ray import RayExecutor
executor = RayExecutor(ExecutorSettings(address=sys.argv[1]))
print("joined", flush=True)
executor.close()
"""

BASH = """#!/bin/sh
case "$*" in *--mode=specific-server*)
    mkdir {folder}/failed 2>/dev/null && exit 1
esac
exec {bash} "$@"
"""


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """Ray's proxy starts a server for each client with bash: let the first end at once."""
    bash = tmp_path / "bin" / "bash"
    bash.parent.mkdir()
    bash.write_text(BASH.format(folder=tmp_path, bash=shutil.which("bash")))
    bash.chmod(0o755)
    monkeypatch.setenv("PATH", str(bash.parent), prepend=os.pathsep)
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "5")  # until it leaves
    return tmp_path / "failed"


def test_a_proxy_that_cannot_start_a_server_for_this_client_is_asked_again(failed, nodes, tmp_path):
    with client(JOIN, nodes, tmp_path) as joining:
        said, _ = joining.communicate()
    assert joining.returncode == 0
    assert said.strip() == "joined"
    assert failed.is_dir()
