"""The executor ssh with a program in the place of ssh: what a network does, on demand.

The program runs its last word with a shell on this machine, as sshd would on the other. What a
real sshd does is in ``test_ssh.py``.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import runs

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, JobError, TrtbenchError, UnavailableError
from trtbench.executors._node import result_of
from trtbench.executors.contract import ExecutorSettings, Needs
from trtbench.executors.ssh import open_executor
from trtbench.measure.bench import run_bench
from trtbench.measure.remote import job_from_spec
from trtbench.node import main as node
from trtbench.requests.execution import Execution
from trtbench.store.store import Store
from trtbench.version import __version__

pytestmark = pytest.mark.process

PROGRAM = """#!/bin/sh
echo "$@" >> "$SSH_LOG"
for word; do command=$word; done
case "$SSH_DOES" in
  refuse) echo "connect: no route to host" >&2; exit 255 ;;
  lose) case "$command" in *node*request.json*) echo "connection reset" >&2; exit 255 ;; esac ;;
  chat) case "$command" in *trtbench-probe*) echo "Welcome to the board!"; exit 0 ;; esac ;;
  die) case "$command" in *node*request.json*) exit 9 ;; esac ;;
  full) case "$command" in
    *_transfer?place*) echo "OSError: No space left on device" >&2; exit 1 ;;
  esac ;;
esac
cd "$SSH_HOME" && exec sh -c "$command"
"""


@pytest.fixture
def ssh(tmp_path: Path, clocked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the program in the place of ssh; gives the file that notes each call."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SSH_HOME", str(home))
    monkeypatch.setenv("SSH_LOG", str(tmp_path / "ssh.log"))
    monkeypatch.setenv("SSH_DOES", "")
    return tmp_path / "ssh.log"


def hosts(place: Path, **more: str) -> Path:
    given = {"address": "me@board", "python": sys.executable, **more}
    lines = [f'{key} = "{value}"' for key, value in given.items()]
    lines.append(f'environment = {{ PYTHONPATH = "{place / "site"}" }}')
    path = place / "hosts.toml"
    path.write_text("\n".join(["[[host]]", *lines, ""]))
    return path


def measure(folder: Path, path: Path, **options: str) -> tuple[Store, object]:
    executor, store = open_executor(ExecutorSettings(hosts=path)), Store(folder / "store")
    spec = runs.quick_spec(folder, runtime="clocked", options={"sleep": "0", **options})
    return store, run_bench(spec, store=store, execution=Execution(executor=executor))


def test_a_run_goes_there_and_comes_back(tmp_path: Path, ssh: Path) -> None:
    path = hosts(tmp_path, name="board", identity="~/key", folder="~/kept")
    path.write_text(path.read_text() + 'port = 2222\noptions = ["Compression=yes"]\n')
    store, run = measure(tmp_path, path)
    assert [entry.id for entry in store.index.find(kind="run")] == [run.id]  # type: ignore[attr-defined]
    there = tmp_path / "home" / "kept"
    assert len(list((there / "blobs").iterdir())) == 1
    assert len(list((there / "code").iterdir())) == 1
    assert list((there / "work").iterdir()) == []
    first = ssh.read_text().splitlines()[0]
    assert "-o BatchMode=yes" in first
    assert "-o Compression=yes -p 2222 -i /" in first
    calls = len(ssh.read_text().splitlines())
    measure(tmp_path, path)
    again = len(ssh.read_text().splitlines()) - calls
    assert again < calls, "the package and the model were sent once more"
    assert len(store.index.find(kind="run")) == 2


@pytest.mark.parametrize(
    ("does", "kind", "words"),
    [
        ("refuse", UnavailableError, "no route to host"),
        ("lose", UnavailableError, "connection reset"),
        ("chat", UnavailableError, "Welcome to the board"),
        ("die", JobError, "status 9"),
        ("full", UnavailableError, "No space left on device"),
    ],
)
def test_what_a_network_does_is_said(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch, does: str, kind: type, words: str
) -> None:
    monkeypatch.setenv("SSH_DOES", does)
    with pytest.raises(kind) as caught:
        measure(tmp_path, hosts(tmp_path))
    error = caught.value
    assert isinstance(error, TrtbenchError)
    assert words in " ".join(error.facts.values())
    assert Store(tmp_path / "store").index.find(kind="run") == []
    if does == "full":
        assert error.fix == "free space on the disk of .cache/trtbench on the host"
        assert not ssh.read_text().count("request.json"), "it was measured nevertheless"
    elif kind is UnavailableError:
        assert (error.fix or "").endswith("me@board true")


def test_an_error_of_the_run_there_is_the_same_error_here(tmp_path: Path, ssh: Path) -> None:
    with pytest.raises(InputError, match="this model is refused") as caught:
        measure(tmp_path, hosts(tmp_path, name="board"), do="refuse")
    assert (caught.value.fix, caught.value.facts["where"]) == ("give another", "board")
    with pytest.raises(JobError, match="SIGABRT"):
        measure(tmp_path, hosts(tmp_path, name="board"), do="crash")
    assert [entry.kind for entry in Store(tmp_path / "store").index.find()] == ["failed"]


@pytest.mark.parametrize(
    ("answer", "message", "fix"),
    [
        ("trtbench-probe 3 8", "cannot run trtbench", "3.10 or newer"),
        (
            "trtbench-probe 3 12 msgspec scipy",
            "cannot run trtbench",
            "-m pip install msgspec scipy",
        ),
    ],
)
def test_a_python_there_that_cannot_measure_is_said(
    tmp_path: Path, ssh: Path, answer: str, message: str, fix: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {answer}\n")
    python.chmod(0o755)
    with pytest.raises(UnavailableError, match=message) as caught:
        measure(tmp_path, hosts(tmp_path, python=str(python)))
    assert fix in (caught.value.fix or "")
    assert caught.value.facts["host"] == "me@board"


def test_work_goes_to_the_host_that_has_what_it_needs(tmp_path: Path, ssh: Path) -> None:
    (tmp_path / "hidden").mkdir()
    hide = "import sys\nsys.modules['onnxruntime'] = None\n"
    (tmp_path / "hidden" / "sitecustomize.py").write_text(hide)
    path = hosts(tmp_path, name="a", folder="a")
    bare = path.read_text().replace(str(tmp_path / "site"), str(tmp_path / "hidden"))
    path.write_text(bare + hosts(tmp_path, name="b", folder="b").read_text())
    executor, store = open_executor(ExecutorSettings(hosts=path)), Store(tmp_path / "store")
    spec, execution = runs.quick_spec(tmp_path), Execution(executor=executor)
    for _ in range(2):  # whoever is tried first
        run = run_bench(spec, store=store, execution=execution)
        assert run.record.environment.machine == "b"
    path.write_text(bare)
    execution = Execution(executor=open_executor(ExecutorSettings(hosts=path)))
    with pytest.raises(UnavailableError, match="onnxruntime") as caught:
        run_bench(spec, store=store, execution=execution)
    assert caught.value.facts["where"] == "a"


def test_a_job_of_another_version_is_refused(tmp_path: Path) -> None:
    job = job_from_spec(runs.quick_spec(tmp_path), "r", Execution()).having(version="0.0.1")
    (tmp_path / "request.json").write_bytes(json_from_value(job))
    assert node([str(tmp_path / "request.json"), str(tmp_path)]) == 3
    with pytest.raises(UnavailableError, match="different version of trtbench") as caught:
        result_of(tmp_path, where="board", how="")
    assert (caught.value.facts["there"], caught.value.facts["here"]) == (__version__, "0.0.1")


def test_a_closed_executor_lets_go_of_what_it_measures(tmp_path: Path, ssh: Path) -> None:
    executor = open_executor(ExecutorSettings(hosts=hosts(tmp_path)))
    assert executor.width(Needs()) == 1
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    store = Store(tmp_path / "store")
    ended = runs.closed_while_it_measures(executor, spec, store, begun=tmp_path / "clocked.begun")
    assert isinstance(ended, KeyboardInterrupt)
    assert store.index.find() == []


@pytest.mark.parametrize(("gpus", "seen"), [("2", "0"), ("['MIG-1111']", "MIG-1111")])
def test_a_run_on_a_gpu_there_sees_that_one_alone(tmp_path: Path, ssh: Path, gpus: str, seen: str):
    path = hosts(tmp_path)
    path.write_text(f"{path.read_text()}gpus = {gpus}\n")
    executor, store = open_executor(ExecutorSettings(hosts=path)), Store(tmp_path / "store")
    spec = runs.quick_spec(tmp_path, runtime="clocked", device="cuda:0", options={"sleep": "0"})
    run_bench(spec, store=store, execution=Execution(executor=executor))
    assert [device for device, *_ in runs.spans(tmp_path / "clocked.log")] == [seen]


def test_a_run_there_without_an_end_is_ended_and_said(
    tmp_path: Path, ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtbench.executors.ssh.GRACE_S", 0.0)
    executor = open_executor(ExecutorSettings(hosts=hosts(tmp_path)))
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "3600"})
    request = job_from_spec(spec, "r1", Execution()).having(limit_s=0.01)
    with pytest.raises(JobError, match="without a result") as caught:
        executor.run(request, folder=tmp_path / "run", notify=lambda text: None)
    assert caught.value.facts == {"where": "me@board", "how it ended": "timed out"}
    assert list((tmp_path / "home" / ".cache" / "trtbench" / "work").iterdir()) == []


def test_a_large_model_goes_alone_and_is_told(tmp_path: Path, ssh: Path) -> None:
    executor, heard = open_executor(ExecutorSettings(hosts=hosts(tmp_path))), []
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "0"})
    for number in range(2):
        request = job_from_spec(spec, f"r{number}", Execution())
        executor.run(request, folder=tmp_path / f"run{number}", notify=heard.append)
        assert (tmp_path / f"run{number}" / "run.json").is_file()
    assert heard.count("sending tiny.onnx to me@board") == 1
    assert any(text.startswith("me@board: ") for text in heard)
    calls = ssh.read_text()
    assert calls.count("_transfer keep ") == 1
    assert "keep-all" not in calls


def test_a_host_that_cannot_be_used_leaves_its_runs_to_another(tmp_path: Path, ssh: Path) -> None:
    path = hosts(tmp_path, name="good")
    bad = f'[[host]]\nname = "bad"\naddress = "me@bad"\npython = "{tmp_path}/gone"\n'
    path.write_text(bad + path.read_text())
    executor, heard = open_executor(ExecutorSettings(hosts=path)), []
    assert executor.width(Needs()) == 2
    spec = runs.quick_spec(tmp_path, runtime="clocked", options={"sleep": "0"})
    request = job_from_spec(spec, "r", Execution())
    executor.run(request, folder=tmp_path / "run", notify=heard.append)
    assert (tmp_path / "run" / "run.json").is_file()
    assert [text for text in heard if text.startswith("bad was lost")]
    assert executor.width(Needs()) == 1
    with pytest.raises(UnavailableError, match="bad cannot be used"):
        executor.width(Needs(machine="bad"))
    executor = open_executor(ExecutorSettings(hosts=path))
    meant = request.having(needs=Needs(machine="bad"))
    with ThreadPoolExecutor(3) as pool:  # also who waited for it hears what is wrong with it
        asked = [
            pool.submit(executor.run, meant, folder=tmp_path / str(number), notify=heard.append)
            for number in range(3)
        ]
    assert ["bad cannot be used" in str(each.exception()) for each in asked] == [True] * 3
