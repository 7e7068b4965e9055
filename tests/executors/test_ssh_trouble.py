"""What goes wrong on machines behind a real sshd: keys, disks, killed processes, lost hosts."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import runs
from machines import hosts_file, kill_with_children, ssh_server

import models
from disks import small_disk
from trtbench import verbs
from trtbench.errors import JobError, UnavailableError
from trtbench.executors import AGAIN, Executor, ExecutorSettings
from trtbench.executors.ssh import open_executor
from trtbench.models.identity import sha256_of
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.making import BuildRequest
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


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
        run_bench(spec, store=store, conduct=Conduct(executor=executor))
    assert store.index.find() == []
    return caught.value


def test_a_host_whose_key_is_unknown_is_not_believed(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    keys = (f"UserKnownHostsFile={sshd['known']}", f"UserKnownHostsFile={tmp_path / 'nobody'}")
    strict = ("StrictHostKeyChecking=accept-new", "StrictHostKeyChecking=ask")
    error = refused(executor_on(path, keys=keys, strict=strict), tmp_path)
    assert "Host key verification failed" in error.facts["reason"]
    assert error.fix.startswith("compare its key with the one the machine has, then: ssh ")
    assert "BatchMode" not in error.fix
    assert not (tmp_path / "a" / "kept").exists()


def test_a_folder_there_that_cannot_be_written_is_said(tmp_path, sshd, clocked):
    (tmp_path / "file").touch()
    path = hosts_file(tmp_path, sshd, clocked, "a")
    folder = (str(tmp_path / "a" / "kept"), str(tmp_path / "file" / "kept"))
    error = refused(executor_on(path, folder=folder), tmp_path)
    assert "Not a directory" in error.facts["reason"]
    assert error.fix == "set folder of a in the list of hosts to one that can be written there"


def test_a_full_disk_there_is_said_and_leaves_no_half_of_a_file(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    with small_disk(tmp_path / "a" / "kept", "64k") as kept:
        error = refused(executor_on(path), tmp_path)
        assert "No space left on device" in error.facts["reason"]
        assert error.fix == f"make room on the disk of {kept} there"
        assert [each for each in kept.rglob("*") if each.is_file()] == []


def processes(words: str, folder: Path) -> list[psutil.Process]:
    """Processes of a host that were started with these words."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = "\n".join(each.cmdline())
            place = line + str(each.cwd())
            if words in line and str(folder) in place and each.name().startswith("python"):
                found.append(each)
    return found


@pytest.mark.parametrize(
    ("words", "says"), [("trtbench.worker", "SIGKILL"), ("trtbench.node", "not carried out")]
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
        run_bench(spec, store=Store(tmp_path / "store"), conduct=Conduct(executor=executor))
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
    tmp_path, sshd, clocked, rtx
):
    if rtx.python is not None:
        pytest.skip("TensorRT-RTX is in another interpreter")
    site = f"{clocked}:{rtx.env.get('PYTHONPATH', '')}"
    model, heard = models.tiny_model(tmp_path / "tiny.onnx"), []
    with ssh_server() as other:
        path = hosts_file(tmp_path, sshd, site, "a")
        second = path.read_text()
        first = hosts_file(tmp_path, other, site, "b").read_text()  # the first in the list is asked
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
        made = verbs.build(request, listen=lambda event: heard.append(event.text))
        ending.join()
    assert any(text.startswith("b was lost") and text.endswith(AGAIN) for text in heard)
    assert sha256_of(tmp_path / "e.engine") == made.sha256
    assert list((tmp_path / "a" / "kept" / "work").iterdir()) == []
