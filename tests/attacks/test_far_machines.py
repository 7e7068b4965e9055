"""A machine that was asked for an errand, and answers with an attack on whoever asked."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from commands import typed
from evil_models import tar_of, tar_with_header

import models
from trtbench.core.errors import InputError, StoreError, TrtbenchError
from trtbench.executors._node import ANSWER, Slot, SlotExecutor
from trtbench.executors._transfer import ABANDONED_S, remove_abandoned_jobs
from trtbench.executors.contract import Executor, RemoteJob
from trtbench.executors.ray import RayExecutor
from trtbench.measure import remote as errands
from trtbench.measure.remote import InputFiles
from trtbench.requests.execution import Execution
from trtbench.requests.models import CheckRequest, EvalRequest
from trtbench.verbs import check
from trtbench.verbs import eval as evaluation
from trtbench.verbs._verb import Caller

Answering = Callable[[Path], object]


class EvilExecutor(Executor):
    """Fills the folder of an errand with whatever an attacker likes."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def run(self, request: RemoteJob, *, folder: Path, notify: object) -> None:
        (folder / "output").mkdir(parents=True, exist_ok=True)
        answer = self._answering(folder)
        data = answer if isinstance(answer, bytes) else msgspec.msgpack.encode(answer)
        (folder / ANSWER).write_bytes(data)

    def width(self, needs: object) -> int:
        return 1

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
def home(world: Path) -> Path:
    """Somebody's home, with a secret, a project and what belongs to it."""
    (world / "id_rsa").write_text("a private key")
    (world / ".bash_profile").write_text("# mine")
    models.tiny_model(world / "m.onnx")
    return world


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answering], None]:
    """Have every errand carried out by an evil machine."""

    def arrange(answering: Answering) -> None:
        @contextlib.contextmanager
        def opened(request: object) -> Iterator[Executor]:
            yield EvilExecutor(answering)

        monkeypatch.setattr("trtbench.requests.execution.opened_executor", opened)

    return arrange


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", [".bash_profile", "id_rsa", "n.engine", "bin/ls", "m.engine2"])
def test_a_machine_writes_nothing_but_what_was_asked_for(home: Path, name: str) -> None:
    source = home / "came"
    for each in (name, "m.engine"):
        (source / each).parent.mkdir(parents=True, exist_ok=True)
        (source / each).write_text("evil")
    before = files(home)
    with pytest.raises(StoreError, match="files that were not requested"):
        errands._copy_output(source, home / "m.engine")
    assert files(home) == before


def test_what_was_asked_for_comes_whole_and_leaves_nothing_behind(home: Path) -> None:
    source, target = home / "came", home / "out" / "m.engine"
    for name in ("m.engine", "m.engine.json", "m.engine.build.log"):
        source.mkdir(exist_ok=True)
        (source / name).write_text(name)
    target.parent.mkdir()
    target.symlink_to(home / "id_rsa")  # a link in its place is replaced, not followed
    errands._copy_output(source, target)
    assert sorted(files(target.parent)) == sorted(files(source))
    assert target.read_text() == "m.engine"
    assert (home / "id_rsa").read_text() == "a private key"
    (source / "m.engine").unlink()
    (source / "m.engine").mkdir()
    (source / "m.engine" / "inner").write_text("evil")
    target.unlink()
    target.mkdir()
    (target / "inner").symlink_to(home / "id_rsa")
    with pytest.raises(InputError, match="passes through a link"):
        errands._copy_output(source, target)
    assert (home / "id_rsa").read_text() == "a private key"


BOMB = b"\x91" * 100_000 + b"\xc0"


@pytest.mark.parametrize("answer", [BOMB, b"\xc1", b"", {"a": [[[1] * 1000] * 40] * 40}])
def test_an_answer_that_is_a_trap_is_refused_in_words(home: Path, answer: object) -> None:
    evil = Execution(executor=EvilExecutor(lambda folder: answer))
    sent = {"files": InputFiles(), "execution": evil, "gpu": False, "title": "check"}
    with pytest.raises(TrtbenchError, match="the answer"):
        errands.send_verb("check", {}, home / "folder", **sent)


def test_a_hash_that_leads_out_of_the_store_writes_nothing(home, asked):
    model = {"path": "m.onnx", "format": "onnx", "sha256": "../../../evil"}
    side = {"model": model, "runtime": "x", "python": None, "versions": {}, "seconds": 1.0}
    answer = {
        "reference": side, "candidates": [{"side": side, "checks": []}],
        "inputs": "x", "items": 1, "inputs_sha256": "0" * 64,
    }  # fmt: skip
    asked(lambda folder: answer)
    before = set(home.parent.rglob("*evil*"))
    request = CheckRequest(
        reference="m.onnx", candidates=("m.onnx",), executor="ssh", hosts="h", store=home / "store"
    )
    with pytest.raises(InputError, match="hash of a model"):
        check.run(request, Caller())
    assert set(home.parent.rglob("*evil*")) == before


def test_a_picture_that_did_not_come_is_not_copied_from_here(home, asked):
    model = {"path": "m.onnx", "format": "onnx", "sha256": "0" * 64}
    evaluated = {
        "label": "m", "model": model, "runtime": "x", "scores": [], "items": 1,
        "split": {"batches": 1, "warmup_batches": 0, "parts": {}, "items_per_s": 1.0,
                  "items_per_s_all": 1.0},
        "batch": 1, "load_s": 1.0, "timed": "x",
    }  # fmt: skip
    answer = {
        "task": "classification", "data": "d", "method": "x", "models": [evaluated],
        "inputs_sha256": "0" * 64,
        "pictures": [{"title": "x", "path": str(home / "id_rsa"), "model": None}],
    }  # fmt: skip
    asked(lambda folder: answer)
    np.savez(home / "val.npz", data=np.zeros((2, 16), np.float32), labels=np.zeros(2, np.int64))
    request = EvalRequest(
        models=("m.onnx",), task="classification", data="val.npz", executor="ssh", hosts="h",
        store=home / "store", output=home / "eval",
    )  # fmt: skip
    with pytest.raises(StoreError, match="picture"):
        evaluation.run(request, Caller())
    copies = [name for name, data in files(home).items() if b"private key" in data]
    assert copies == ["id_rsa"]


def test_what_killed_askers_left_on_a_host_goes_after_a_week(tmp_path: Path) -> None:
    long_ago = time.time() - 2 * ABANDONED_S
    for name in ("work/old/model/m.onnx", "work/new/request.json", "blobs/.half", "blobs/whole"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for path in [*tmp_path.rglob("*")]:
        os.utime(path, (long_ago, long_ago))
    (tmp_path / "work" / "new" / "log").write_text("at work")
    remove_abandoned_jobs(tmp_path)
    assert sorted(files(tmp_path)) == ["blobs/whole", "work/new/log", "work/new/request.json"]


SSH = """#!/bin/sh
for command; do :; done
case "$command" in
  *trtbench-probe*) eval "${EVIL_PROBE-echo trtbench-probe 3 11}";;
  *test\\ -d*) echo yes;;
  *_transfer\\ missing*) eval "$EVIL_MISSING";;
  *_transfer\\ pack*) eval "$EVIL_PACK";;
  *trtbench.node*) eval "$EVIL_NODE";;
esac
"""


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("PROBE", "echo trtbench-probe three eleven"),
        ("PROBE", "echo trtbench-probe $(yes 9 | head -5000 | tr -d '\\n') 1"),
        ("PROBE", "exec yes"),
        ("MISSING", "echo 0123; echo ../../id_rsa"),
        ("PACK", "exec yes"),
        ("PACK", "cat left.tar"),
        ("NODE", "exec yes 1>&2"),
        ("NODE", "exec cat /dev/zero"),
    ],
)
def test_a_host_that_answers_nonsense_or_without_end_is_refused_in_words(
    home: Path, monkeypatch: pytest.MonkeyPatch, where: str, says: str
) -> None:
    (home / "bin").mkdir()
    (home / "bin" / "ssh").write_text(SSH)
    (home / "bin" / "ssh").chmod(0o755)
    (home / "hosts.toml").write_text("[[host]]\naddress = 'board'\n")
    (home / "left.tar").write_bytes(tar_of("run/run.json"))
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(f"EVIL_{where}", says)
    monkeypatch.setattr("trtbench.executors.ssh.MOST_BYTES", 1 << 23)
    done = typed("bench", "m.onnx", "--executor", "ssh", "--hosts", "hosts.toml")
    assert done.returncode not in (0, 70), done.stderr
    assert "board" in done.stderr or "run.json is not a run record" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*(home / "store" / "runs").glob("[!.]*")]


@pytest.mark.parametrize(("answer", "said"), [
    (None, "no result"), ("run", "no result"), ({"run": b""}, "no result"),
    ((tar_of("../evil"), ""), "leads out"), ((tar_with_header(99_999), ""), "damaged"),
    ((tar_of("run.json", link="/etc/passwd"), ""), "did not send back a run"),
])  # fmt: skip
def test_a_ray_node_that_answers_nonsense_is_refused_in_words(home, answer, said):
    nodes = RayExecutor.__new__(RayExecutor)  # without a cluster
    SlotExecutor.__init__(nodes, lambda: [Slot(machine="n", title="node n")])
    nodes._run_task = lambda *given: answer  # type: ignore[method-assign,assignment]
    with pytest.raises(TrtbenchError, match=said):
        nodes.run(RemoteJob(id="r1", title="x"), folder=home / "f", notify=lambda text: None)
    assert not list(home.rglob("evil"))
