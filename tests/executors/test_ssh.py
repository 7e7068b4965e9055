"""A real sshd on the loopback address: requests go, directories come back."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
import runs
from machines import hosts_file, kill_with_children, processes, ssh_server

import models
from disks import small_disk
from trtbench.core.errors import JobError, UnavailableError
from trtbench.executors.contract import AGAIN, Executor, ExecutorSettings, Needs
from trtbench.executors.ssh import open_executor
from trtbench.measure.bench import run_bench
from trtbench.models.identity import sha256_of
from trtbench.requests.execution import Execution
from trtbench.requests.models import BuildRequest
from trtbench.store.store import Store
from trtbench.verbs import build
from trtbench.verbs._verb import Caller
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def test_runs_on_two_hosts(tmp_path, sshd, clocked):
    executor = open_executor(ExecutorSettings(hosts=hosts_file(tmp_path, sshd, clocked, "a", "b")))
    store = Store(tmp_path / "store")
    assert executor.width(Needs()) == 2
    specs = [runs.quick_spec(tmp_path)] + [
        runs.quick_spec(tmp_path, runtime="clocked", options={"case": str(number)})
        for number in range(4)
    ]
    measured = runs.measure_all(specs, store=store, executor=executor)
    assert len(measured[0].times) >= 10
    assert measured[0].record.spec.model.path == str(tmp_path / "tiny.onnx")
    assert len(store.index.find(kind="run")) == 5
    noted = [runs.spans(tmp_path / name / "log") for name in ("a", "b")]
    assert sum(len(each) for each in noted) == 4
    # One host name, two machines: they go by what the list calls them.
    assert {run.record.environment.label for run in measured} == {"a", "b"}
    for name in ("a", "b"):
        kept = tmp_path / name / "kept"
        assert len(list((kept / "blobs").iterdir())) == 1  # the model, once
        assert len(list((kept / "code").iterdir())) == 1  # this package, once
        assert list((kept / "work").iterdir()) == []


def test_a_careless_sender_writes_nothing_into_the_home_there(tmp_path, sshd, clocked, monkeypatch):
    executor = open_executor(ExecutorSettings(hosts=hosts_file(tmp_path, sshd, clocked, "a")))
    monkeypatch.setattr("trtbench.executors.ssh.upload_from_job", runs.evil_upload)
    spec, store = runs.quick_spec(tmp_path), Store(tmp_path / "store")
    with pytest.raises(UnavailableError, match="cannot be used by ssh") as caught:
        run_bench(spec, store=store, execution=Execution(executor=executor))
    assert "leads out of its folder" in str(caught.value.facts)
    assert (tmp_path / "a" / "kept" / "blobs").is_dir()  # it came as far as that
    assert list(tmp_path.rglob(".bash_profile")) == []


def test_a_run_ends_with_whoever_asked_for_it(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from pathlib import Path; import runs\n"
        "from trtbench.executors.contract import ExecutorSettings\n"
        "from trtbench.executors.ssh import open_executor\n"
        "folder = Path(sys.argv[1])\n"
        "spec = runs.quick_spec(folder, runtime='clocked', options={'sleep': '3600'})\n"
        "executor = open_executor(ExecutorSettings(hosts=Path(sys.argv[2])))\n"
        "runs.measure_all([spec], store=runs.Store(folder / 'store'), executor=executor)\n"
    )
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    asking = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(path), *places])
    wait_for(lambda: processes("trtbench.worker", tmp_path / "a"))
    os.kill(asking.pid, signal.SIGKILL)
    asking.wait()
    wait_for(lambda: not processes("trtbench.worker", tmp_path / "a"))


def executor_on(path: Path, **changes: str) -> Executor:
    """Open the executor on hosts, with lines of their list changed."""
    text = path.read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return open_executor(ExecutorSettings(hosts=path))


def refused(executor: Executor, folder: Path) -> UnavailableError:
    """Have a host refuse to measure; gives what was said."""
    spec, store = runs.quick_spec(folder, runtime="clocked"), Store(folder / "store")
    with pytest.raises(UnavailableError, match="a cannot be used by ssh") as caught:
        run_bench(spec, store=store, execution=Execution(executor=executor))
    assert store.index.find() == []
    return caught.value


def test_a_host_whose_key_is_unknown_is_not_believed(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    keys = (f"UserKnownHostsFile={sshd['known']}", f"UserKnownHostsFile={tmp_path / 'nobody'}")
    strict = ("StrictHostKeyChecking=accept-new", "StrictHostKeyChecking=ask")
    error = refused(executor_on(path, keys=keys, strict=strict), tmp_path)
    assert "Host key verification failed" in error.facts["reason"]
    assert error.fix.startswith("compare the key with the machine's own, then: ssh ")
    assert "BatchMode" not in error.fix
    assert not (tmp_path / "a" / "kept").exists()


def test_a_full_disk_there_is_said_and_leaves_no_half_of_a_file(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    with small_disk(tmp_path / "a" / "kept", "64k") as kept:
        error = refused(executor_on(path), tmp_path)
        assert "No space left on device" in error.facts["reason"]
        assert error.fix == f"free space on the disk of {kept} on the host"
        assert [each for each in kept.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize(
    ("words", "says"), [("trtbench.worker", "SIGKILL"), ("trtbench.node", "without a result")]
)
def test_a_process_there_that_is_killed_is_a_failure_and_not_tried_again(
    tmp_path, sshd, clocked, words, says
):
    executor = executor_on(hosts_file(tmp_path, sshd, clocked, "a"))
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})

    def kill() -> None:
        wait_for((tmp_path / "a" / "log.begun").is_file)
        for each in processes(words, tmp_path / "a"):
            each.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(JobError, match=says) as caught:
        run_bench(spec, store=Store(tmp_path / "store"), execution=Execution(executor=executor))
    killer.join()
    assert "SIGKILL" in str(caught.value)
    wait_for(lambda: not processes("trtbench.", tmp_path / "a"))
    assert list((tmp_path / "a" / "kept" / "work").iterdir()) == []


def test_an_interrupted_sweep_leaves_nothing_on_its_hosts(tmp_path, sshd, clocked):
    hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
    words = ["sweep", runs.quick_spec(tmp_path).model.path, "-r", "clocked", "--batch", "1",
             "--axis", "opt.case=0,1,2", "--axis", "opt.sleep=3600", "--format", "none",
             "-o", str(tmp_path / "sweep"), "--store", str(tmp_path / "store"),
             "--executor", "ssh", "--hosts", str(hosts)]  # fmt: skip
    sweep = subprocess.Popen([sys.executable, "-m", "trtbench", *words])
    for name in ("a", "b"):
        wait_for(lambda name=name: processes("trtbench.worker", tmp_path / name))
    sweep.send_signal(signal.SIGINT)
    assert sweep.wait() == 130
    for name in ("a", "b"):
        wait_for(lambda name=name: not processes("trtbench.", tmp_path / name))
    assert Store(tmp_path / "store").index.find() == []


def test_one_of_two_hosts_dies_while_it_builds_and_the_other_takes_its_case(
    tmp_path, sshd, clocked, tensorrt_rtx
):
    model, heard = models.tiny_model(tmp_path / "tiny.onnx"), []
    with ssh_server() as other:
        path = hosts_file(tmp_path, sshd, clocked, "a")
        second = path.read_text()
        # The first in the list is asked first.
        first = hosts_file(tmp_path, other, clocked, "b").read_text()
        path.write_text(f"{first}\n{second}")

        def end() -> None:
            wait_for(lambda: processes("trtbench.worker", tmp_path / "b"))
            kill_with_children(other["pid"])

        ending = threading.Thread(target=end)
        ending.start()
        request = BuildRequest(
            model=model, runtime="tensorrt-rtx", output=tmp_path / "e.engine",
            executor="ssh", hosts=path,
        )  # fmt: skip
        made = build.run(
            request,
            Caller(progress=lambda title: nullcontext(lambda event: heard.append(event.text))),
        )
        ending.join()
    assert any(text.startswith("b was lost") and text.endswith(AGAIN) for text in heard)
    assert sha256_of(tmp_path / "e.engine") == made.sha256
    assert list((tmp_path / "a" / "kept" / "work").iterdir()) == []
