"""A real Ray cluster on this machine: nodes that come and go, and runs that do not."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import runs
from machines import processes
from ports import listens

from trtbench.core.errors import JobError
from trtbench.core.run import Run
from trtbench.executors.contract import ExecutorSettings, Needs, RemoteJob
from trtbench.executors.ray import RayExecutor
from trtbench.measure.bench import run_bench
from trtbench.measure.remote import InputFiles
from trtbench.requests.execution import Execution
from trtbench.store.store import Store
from waiting import ended, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]

COUNT = 18


def no_overlap(spans: list[tuple[str, float, float]]) -> bool:
    return all(a[2] <= b[1] for a, b in itertools.pairwise(spans))


def test_many_runs_on_three_nodes_one_of_which_is_lost(nodes, tmp_path):
    for name in ("a", "b", "c"):
        nodes.add(name)
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address))
    store = Store(tmp_path / "store")
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


def test_who_is_interrupted_leaves_nothing_that_goes_on_measuring(nodes, tmp_path):
    nodes.add("a")
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address))
    store = Store(tmp_path / "store")
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        wait_for(lambda: processes("trtbench.worker", tmp_path / "a"))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_bench(spec, store=store, execution=Execution(executor=executor))
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for(lambda: not processes("trtbench.worker", tmp_path / "a"))
    assert store.index.find() == []
    executor.close()


CLIENT = """
import sys, runs
from pathlib import Path
from trtbench.executors.contract import ExecutorSettings
from trtbench.executors.ray import RayExecutor
from trtbench.store.store import Store
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Execution
executor = RayExecutor(ExecutorSettings(address=sys.argv[1], patience_s=3600.0))
folder = Path(sys.argv[2])
spec = runs.quick_spec(folder, runtime='clocked')
execution = Execution(executor=executor, listen=lambda event: print(event.text, flush=True))
run_bench(spec, store=Store(folder / 'store'), execution=execution)
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
    with ended(client(CLIENT, nodes, tmp_path)) as measuring:
        assert measuring.stdout is not None
        heard = []
        for line in measuring.stdout:
            heard.append(line.strip())
            if "waiting for a machine to join" in line:
                nodes.add("a")
    assert measuring.returncode == 0, heard
    assert "a machine has joined" in heard
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 1
    assert len(nodes.spans("a")) == 1


def test_nodes_that_join_late_take_part(nodes, tmp_path):
    """Two cases are measured on one node; the next go on only when five have begun."""
    nodes.add("a")
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address, patience_s=3600.0))
    assert executor.width(Needs()) == 1
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


def kill_task() -> None:
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "ray::a run to be lost" in " ".join(each.cmdline()):
                each.kill()


def test_what_is_lost_under_a_run_is_said(nodes, tmp_path, monkeypatch):
    """The task hangs, or is killed, on a node that goes on: the run has failed. Then it is lost."""
    monkeypatch.setattr("trtbench.executors.ray._CHUNK", 100)
    monkeypatch.setattr("trtbench.executors.ray.GRACE_S", 0.0)
    monkeypatch.setattr("trtbench.executors.ray.RETRIES", 0)
    nodes.add("a")
    executor = RayExecutor(ExecutorSettings(address=nodes.cluster.address))
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    begun = tmp_path / "begun"

    def failure(lose: Callable[[], None] | None = None, limit_s: float | None = None) -> JobError:
        """Have a run fail by what is done once it has begun, or by its limit."""
        begun.unlink(missing_ok=True)
        files = InputFiles()
        sent = files.add_spec(spec)
        request = RemoteJob(
            id="r", title="a run to be lost", spec=sent, files=files.groups, limit_s=limit_s
        )
        losing = threading.Thread(target=lambda: lose and (wait_for(begun.is_file), lose()))
        losing.start()
        with pytest.raises(JobError) as caught:
            executor.run(request, folder=tmp_path / "run", notify=lambda text: None)
        losing.join()
        return caught.value

    killed = failure(kill_task)
    assert killed.message == "Ray could not run the job"
    assert killed.facts["where"].endswith(")")
    assert killed.facts["reason"]
    hung = failure(limit_s=0.01)
    assert (hung.message, hung.facts["limit"]) == ("the job timed out", "0.01 s")
    (pieces,) = executor._contents.values()
    assert len(pieces) > 1
    (kept,) = (tmp_path / "a" / "cache" / "blobs").iterdir()
    assert kept.read_bytes() == Path(spec.model.path).read_bytes()
    lost = failure(lambda: nodes.kill("a"))
    assert lost.message == "Ray could not run the job"
    assert not (tmp_path / "run").exists()
    executor.close()
