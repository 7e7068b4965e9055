"""A real sshd on the loopback address: requests go, directories come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import runs
from machines import hosts_file

from trtbench.errors import InputError, JobError, UnavailableError, UsageError
from trtbench.executors import ExecutorSettings, Needs
from trtbench.executors.ssh import open_executor
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
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


def test_what_goes_wrong_there_is_said_here(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    executor, store = open_executor(ExecutorSettings(hosts=path)), Store(tmp_path / "store")
    conduct = Conduct(executor=executor)
    refused = runs.quick_spec(tmp_path, runtime="clocked", options={"do": "refuse"})
    with pytest.raises(InputError, match="refused") as caught:
        run_bench(refused, store=store, conduct=conduct)
    assert (caught.value.fix, caught.value.facts["where"]) == ("give another", "a")
    crashing = runs.quick_spec(tmp_path, runtime="clocked", options={"do": "crash"})
    with pytest.raises(JobError, match="SIGABRT"):
        run_bench(crashing, store=store, conduct=conduct)
    assert [entry.kind for entry in store.index.find()] == ["failed"]
    needs = Needs(resources={"lidar": 1.0})
    with pytest.raises(UnavailableError, match="no machine can ever"):
        run_bench(refused, store=store, conduct=Conduct(executor=executor, needs=needs))
    path.write_text(path.read_text().replace(sys.executable, "/no/such/python"))
    broken = open_executor(ExecutorSettings(hosts=path))
    with pytest.raises(UnavailableError, match="cannot be used by ssh") as caught:
        run_bench(refused, store=store, conduct=Conduct(executor=broken))
    assert "interpreter there" in caught.value.fix


def test_a_secret_beside_a_model_is_not_sent(tmp_path, sshd, clocked):
    executor = open_executor(ExecutorSettings(hosts=hosts_file(tmp_path, sshd, clocked, "a")))
    with pytest.raises(InputError, match="leads out"):
        run_bench(
            runs.evil_spec(tmp_path),
            store=Store(tmp_path / "store"),
            conduct=Conduct(executor=executor),
        )
    assert runs.files_with_secret(tmp_path / "a") == []


def test_a_careless_sender_writes_nothing_into_the_home_there(tmp_path, sshd, clocked, monkeypatch):
    executor = open_executor(ExecutorSettings(hosts=hosts_file(tmp_path, sshd, clocked, "a")))
    monkeypatch.setattr("trtbench.executors.ssh.parcel_from_request", runs.evil_parcel)
    with pytest.raises(UnavailableError, match="cannot be used by ssh") as caught:
        run_bench(
            runs.quick_spec(tmp_path),
            store=Store(tmp_path / "store"),
            conduct=Conduct(executor=executor),
        )
    assert "leads out of its folder" in str(caught.value.facts)
    assert (tmp_path / "a" / "kept" / "blobs").is_dir()  # it came as far as that
    assert runs.files_with_secret(tmp_path) == []


def test_a_run_ends_with_whoever_asked_for_it(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from pathlib import Path; import runs\n"
        "from trtbench.executors import ExecutorSettings\n"
        "from trtbench.executors.ssh import open_executor\n"
        "folder = Path(sys.argv[1])\n"
        "spec = runs.quick_spec(folder, runtime='clocked', options={'sleep': '3600'})\n"
        "executor = open_executor(ExecutorSettings(hosts=Path(sys.argv[2])))\n"
        "runs.measure_all([spec], store=runs.Store(folder / 'store'), executor=executor)\n"
    )
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    asking = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(path), *places])
    wait_for(lambda: workers(tmp_path))
    os.kill(asking.pid, signal.SIGKILL)
    asking.wait()
    wait_for(lambda: not workers(tmp_path))


def workers(folder: Path) -> list[int]:
    """Processes that measure for a host of this test."""
    found = []
    for process in psutil.process_iter():
        try:
            line = process.cmdline()
            words = "\n".join(line)  # Python 3.10 names the worker within a line of code
            if "trtbench.worker" in words and str(folder / "a") in words:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "lists no host"),
        ("[[host]]\naddress = 'x'\nport = 'y'", "no list of hosts"),
        ("[[host]]\nadress = 'x'", "did you mean address"),
        ("[[hosts]]\naddress = 'x'", "did you mean host"),
        ("[[host]]\naddress = ''", "not an address"),
        ("[[host]]\naddress = 'x'\nmemory = 'lots'", "hosts.toml"),
        ("[[host]]\naddress = 'x'\ngpu_type = 'Orin'", "gpus = 1"),
        ("[[host]]\naddress = '-oProxyCommand=evil'", "not an address"),
        ("[[host]]\naddress = 'x'\n[[host]]\naddress = 'x'", "twice"),
        ("[[host]]\naddress = 'me:secret@board'", "holds no password"),
    ],
)
def test_a_list_of_hosts_that_is_none(tmp_path, text, match):
    (tmp_path / "hosts.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        open_executor(ExecutorSettings(hosts=tmp_path / "hosts.toml"))
    assert match in str(caught.value)
    assert "\\n" not in str(caught.value)
    with pytest.raises(UsageError, match="needs a list"):
        open_executor(ExecutorSettings())
