"""A sweep over other machines: they quantize, build, measure and judge; results come back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import runs
from machines import hosts_file
from PIL import Image
from ports import free_port

import models
import trtbench
from trtbench.cli import run as command
from trtbench.core.codec import value_from_json
from trtbench.core.errors import UnavailableError, UsageError
from trtbench.core.results import Sidecar
from trtbench.executors import EXECUTORS
from trtbench.executors.contract import Executor, ExecutorSettings
from trtbench.executors.ssh import ARCHIVE_BYTES, SMALL_BYTES, Shell, _groups
from trtbench.measure.bench import run_bench
from trtbench.models.identity import sha256_of
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


def model_and_data(folder: Path) -> tuple[Path, Path]:
    rows = np.random.default_rng(0).normal(size=(12, 16)).astype(np.float32)
    np.savez(folder / "val.npz", data=rows, labels=np.zeros(12, dtype=np.int64))
    return models.tiny_model(folder / "tiny.onnx"), folder / "val.npz"


def steps_of(folder: Path, kind: str) -> list[Path]:
    """What a machine made for sweeps."""
    return list(folder.glob(f"store/steps/{kind}-*/made.json"))


def test_a_case_is_quantized_measured_and_judged_where_it_is_sent(tmp_path, sshd, clocked):
    model, data = model_and_data(tmp_path)
    hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
    found = trtbench.sweep(
        model, precision=["fp32", "int8"], batch=[1], runtime="onnxruntime", data=data,
        axis={"machine": ["a", "b"], "duration": ["50ms"]}, output=tmp_path / "sweep",
        store=tmp_path / "store", executor="ssh", hosts=hosts, check=20, fetch_engines=True,
    )  # fmt: skip
    assert [row.reason for row in found.rows] == [None] * 4
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()  # nothing was made here
    for name in ("a", "b"):
        kept = tmp_path / name / "kept"
        assert len(steps_of(kept, "quantize")) == 1
        assert len(steps_of(kept, "eval")) == 2
        assert len(steps_of(kept, "check")) == 2
        assert len(list((kept / "blobs").iterdir())) == 2  # the model and the data, once
        assert list((kept / "work").iterdir()) == []
    again = trtbench.sweep(output=tmp_path / "sweep", store=tmp_path / "store", executor="ssh",
                           hosts=hosts)  # fmt: skip
    assert [row.remark for row in again.rows] == [row.remark for row in found.rows]
    assert "random data" in str(found.rows[2].remark)
    assert [row.max_abs == 0 for row in found.rows] == [True, True, False, False]
    came = {sha256_of(path) for path in (tmp_path / "sweep" / "engines").rglob("*.onnx")}
    assert came == {run.record.spec.model.sha256 for run in found.runs} - {sha256_of(model)}
    for run in found.runs:
        assert run.extra["scores"]
        steps = json.loads((run.path / "steps.json").read_text())
        if run.record.spec.model.path == str(model):
            assert steps == []
        else:
            assert [each["kind"] for each in steps] == ["quantize"]
            assert steps[0]["sha256"] == run.record.spec.model.sha256


def test_a_machine_that_is_not_there_is_a_row_with_its_reason(tmp_path, sshd, clocked):
    model, _ = model_and_data(tmp_path)
    found = trtbench.sweep(
        model, batch=[1], runtime="onnxruntime", store=tmp_path / "store",
        axis={"machine": ["a", "moon"], "duration": ["50ms"]}, output=tmp_path / "sweep",
        executor="ssh", hosts=hosts_file(tmp_path, sshd, clocked, "a"),
    )  # fmt: skip
    reasons = [row.reason for row in found.rows]
    assert reasons[0] is None
    assert "no machine can ever do this: none is called moon" in reasons[1]
    assert "add it: a" in reasons[1]


def test_a_sweep_over_three_nodes_one_of_which_is_lost_while_it_quantizes(nodes, tmp_path):
    for name in ("a", "b", "c"):
        nodes.add(name)
    model, data = model_and_data(tmp_path)

    def quantizing() -> list[str]:
        begun = [n for n in nodes.alive if list((tmp_path / n / "cache").glob("store/steps/q*"))]
        return [n for n in begun if not steps_of(tmp_path / n / "cache", "quantize")]

    killer = threading.Thread(target=lambda: nodes.kill(wait_for(quantizing)[0]), daemon=True)
    killer.start()
    found = trtbench.sweep(
        model, precision=["fp32", "int8"], batch=[1, 2], runtime="onnxruntime", data=data,
        axis={"duration": ["50ms"]}, output=tmp_path / "sweep", store=tmp_path / "store",
        executor="ray", address=nodes.cluster.address,
    )  # fmt: skip
    killer.join()
    assert len(nodes.alive) == 2
    assert [row.reason for row in found.rows] == [None] * 4
    assert sha256_of(model) in {run.record.spec.model.sha256 for run in found.runs}
    assert all(run.extra["scores"] for run in found.runs)
    assert len(Store(tmp_path / "store").index.find(kind="run")) == 4
    assert not (tmp_path / "store" / "steps").exists()


def test_machines_are_no_axis_where_there_is_but_this_one(tmp_path):
    model, _ = model_and_data(tmp_path)
    with pytest.raises(UsageError, match="axis of machines"):
        trtbench.sweep(
            model, axis={"machine": ["a", "b"]}, output=tmp_path / "sweep", store=tmp_path / "store"
        )


def large_model(path: Path) -> Path:
    """A model of some megabytes; what they are does not matter to a runtime that only notes."""
    model = onnx.load(models.tiny_model(path))
    weights = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "unused"))
    onnx.save(model, path)
    return path


def data_folder(folder: Path) -> Path:
    for number in range(5):
        (folder / f"class-{number % 2}").mkdir(parents=True, exist_ok=True)
        (folder / f"class-{number % 2}" / f"{number}.png").write_bytes(bytes([number]) * 20_000)
    return folder


def six_cases(tmp_path: Path, **executor: object) -> object:
    return trtbench.sweep(
        large_model(tmp_path / "large.onnx"), batch=[1], runtime="clocked",
        data=data_folder(tmp_path / "data"), output=tmp_path / "sweep", store=tmp_path / "store",
        axis={"opt.case": [0, 1, 2, 3, 4, 5], "opt.sleep": [0.01]}, **executor,
    )  # fmt: skip


def test_a_model_and_a_folder_of_data_go_once_to_each_host(tmp_path, sshd, clocked, monkeypatch):
    sent: Counter[str] = Counter()
    far = Shell.far

    def noted(self, verb, *names, **files):
        sent[f"{self.host.title} {verb}"] += 1
        return far(self, verb, *names, **files)

    monkeypatch.setattr(Shell, "far", noted)
    hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
    found = six_cases(tmp_path, executor="ssh", hosts=hosts, jobs=2)
    assert [row.reason for row in found.rows] == [None] * 6
    for name in ("a", "b"):
        assert sent[f"{name} keep-all"] == 1  # model and data together, before the first case
        assert sent[f"{name} keep"] == 0
        assert len(list((tmp_path / name / "kept" / "blobs").iterdir())) == 6
        assert list((tmp_path / name / "kept" / "work").iterdir()) == []


def test_a_model_and_a_folder_of_data_go_once_to_each_node(nodes, tmp_path):
    for name in ("a", "b", "c"):
        nodes.add(name)
    found = six_cases(tmp_path, executor="ray", address=nodes.cluster.address)
    assert [row.reason for row in found.rows] == [None] * 6
    for name in ("a", "b", "c"):
        assert len(list((tmp_path / name / "cache" / "blobs").iterdir())) == 6


def test_a_host_that_is_not_there_leaves_its_cases_to_the_others(tmp_path, sshd, clocked):
    path = hosts_file(tmp_path, sshd, clocked, "a")
    dead = f'[[host]]\nname = "dead"\naddress = "nobody@127.0.0.1"\nport = {free_port()}\n'
    path.write_text(dead + path.read_text())
    found = six_cases(tmp_path, executor="ssh", hosts=path)
    assert [row.reason for row in found.rows] == [None] * 6
    lost = [row.remark for row in found.rows if row.remark and "dead was lost" in row.remark]
    assert len(lost) == 1  # nobody else was sent there
    path.write_text(dead)
    with pytest.raises(UnavailableError, match="dead cannot be used") as caught:
        trtbench.bench(
            tmp_path / "large.onnx", store=tmp_path / "store", executor="ssh", hosts=path
        )
    assert "onnect" in caught.value.facts["reason"]


def test_small_files_go_together_and_large_ones_alone(tmp_path):
    sizes = {"a": 10, "b": SMALL_BYTES, "c": SMALL_BYTES - 1, "d": 20}
    sizes |= {f"e{number}": SMALL_BYTES - 1 for number in range(ARCHIVE_BYTES // SMALL_BYTES)}
    for name, size in sizes.items():
        with open(tmp_path / name, "wb") as file:
            file.truncate(size)
    groups = list(_groups({name: tmp_path / name for name in sizes}))
    assert ["b"] in groups
    assert sorted(name for group in groups for name in group) == sorted(sizes)
    for group in groups:
        assert len(group) == 1 or sum(sizes[name] for name in group) <= ARCHIVE_BYTES
    assert len(groups) == 3


SAVE = """
import sys, torch, net
torch.manual_seed(0)
torch.save(net.make().state_dict(), sys.argv[1])
"""


@pytest.fixture
def own_net(tmp_path: Path, torch_python: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state dict, and the code that makes its module, in the working folder."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "net.py").write_text("from parts import layer\n\n\ndef make():\n"
                                              "    return layer()\n")  # fmt: skip
    (tmp_path / "mine" / "parts.py").write_text(
        "import torch\n\n\ndef layer():\n    return torch.nn.Linear(8, 4)\n"
    )
    monkeypatch.chdir(tmp_path / "mine")
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "net.pt"
    subprocess.run([torch_python, "-c", SAVE, str(path)], check=True)
    return path


def measured_twice(executor: Executor, model: Path, python: str, folder: Path) -> list[list[str]]:
    """Measure a model with code of its own twice; gives what was told of each time."""
    request = BenchRequest(
        model=model, runtime="torch", device="cpu", options={"factory": "net:make"},
        shapes={"input": (2, 8)}, duration="20ms", warmup="5ms", until_steady=False,
    )  # fmt: skip
    spec = run_spec(request, Config(store=""))
    heard: list[list[str]] = [[], []]
    for told in heard:
        execution = Execution(
            executor=executor,
            python=python,
            listen=lambda event, told=told: told.append(event.text),
        )
        run = run_bench(spec, store=Store(folder / "store"), execution=execution)
        assert run.record.spec == spec  # with the names of this machine
        assert len(run.record.spec.model.files) == 2
    return heard


def test_a_factory_goes_by_ssh_once(tmp_path, sshd, clocked, own_net, torch_python):
    hosts = hosts_file(tmp_path, sshd, clocked, "a")
    executor = EXECUTORS.load("ssh").open_executor(ExecutorSettings(hosts=hosts))
    first, second = measured_twice(executor, own_net, torch_python, tmp_path)
    assert [text for text in first if text.startswith("sending")] == [
        "sending net.py and 2 more files to a"
    ]
    assert not [text for text in second if text.startswith("sending")]
    kept = {path.name for path in (tmp_path / "a" / "kept" / "blobs").iterdir()}
    mine = tmp_path / "mine"
    assert kept == {sha256_of(path) for path in (own_net, mine / "net.py", mine / "parts.py")}


def test_a_factory_goes_to_a_node_of_ray_once(nodes, tmp_path, own_net, torch_python):
    nodes.add("a")
    sent = []
    for count in (3, 0):
        executor = EXECUTORS.load("ray").open_executor(
            ExecutorSettings(address=nodes.cluster.address)
        )
        try:
            heard = measured_twice(executor, own_net, torch_python, tmp_path)
        finally:
            executor.close()
        sent += [text for told in heard for text in told if text.startswith("sending")]
        # The module and its code; who joins later gives the cluster nothing that the node has.
        assert len(executor._contents) == count
    assert len(sent) == 1
    assert "2 more files" in sent[0]


def test_a_factory_is_found_by_the_executor_of_this_machine(tmp_path, own_net, torch_python):
    executor = EXECUTORS.load("local").open_executor(ExecutorSettings())
    measured_twice(executor, own_net, torch_python, tmp_path)


def test_a_model_is_quantized_elsewhere_and_comes_back_with_its_record(tmp_path, sshd, clocked):
    model = models.tiny_model(tmp_path / "tiny.onnx")
    (tmp_path / "data").mkdir()
    data = tmp_path / "data" / "rows.npz"
    np.savez(data, x=np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32))
    (tmp_path / "there.json").write_text("mine")  # what is not ours stays
    asked = {"precision": "int8", "calibration": data}
    here = trtbench.quantize(model, output=tmp_path / "here.onnx", **asked)
    hosts = hosts_file(tmp_path, sshd, clocked, "a")
    there = trtbench.quantize(
        model, output=tmp_path / "there.onnx", **asked, executor="ssh", hosts=hosts
    )
    assert there.sha256 == here.sha256 == sha256_of(tmp_path / "there.onnx")
    assert (there.source, there.calibration.source) == (str(model), str(data))
    assert there.recipe == here.recipe
    record = (tmp_path / "there.onnx.json").read_bytes()
    assert value_from_json(record, Sidecar, where="") == there
    assert str(tmp_path / "a") not in record.decode()
    assert (tmp_path / "there.json").read_text() == "mine"


def test_classes_without_images_are_counted_elsewhere_too(tmp_path, sshd, clocked):
    model = models.conv_model(tmp_path / "conv.onnx")
    for number in range(10):
        (tmp_path / "val" / f"class{number}").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in (3, 7):
        pixels = rng.integers(0, 255, (32, 32, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "val" / f"class{number}" / "1.png")
    asked = {"task": "classification", "data": tmp_path / "val", "store": tmp_path / "store"}
    here = trtbench.evaluate(model, output=tmp_path / "here", **asked)
    there = trtbench.evaluate(
        model, output=tmp_path / "there", **asked, executor="ssh",
        hosts=hosts_file(tmp_path, sshd, clocked, "a"),
    )  # fmt: skip
    assert there.models[0].scores == here.models[0].scores


def sweep_words(tmp_path, folder, *more: str) -> list[str]:
    model = runs.quick_spec(tmp_path).model.path
    return ["sweep", model, "-r", "clocked", "--axis", "opt.case=0,1,2,3,4,5",
            "--axis", "opt.sleep=0.5", "--batch", "1", "--format", "none", "-o", str(folder),
            "--store", str(tmp_path / "store"), "--json",
            "--executor", "local", "--jobs", "2", *more]  # fmt: skip


def test_cases_are_measured_beside_each_other_and_all_are_there(tmp_path, clocked, capsys):
    assert command(sweep_words(tmp_path, tmp_path / "sweep")) == 0
    found = [entry for entry in Store(tmp_path / "store").index.find() if entry.kind == "run"]
    assert len(found) == 6
    lines = (tmp_path / "clocked.log").read_text().splitlines()
    assert sorted(json.loads(line)["case"] for line in lines) == list("012345")


def test_an_interrupted_sweep_ends_at_once_and_blames_no_case(tmp_path, clocked):
    words = [word.replace("opt.sleep=0.5", "opt.sleep=3600") for word in
             sweep_words(tmp_path, tmp_path / "sweep")]  # fmt: skip
    started = subprocess.Popen(
        [sys.executable, "-m", "trtbench", *words], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    journal = tmp_path / "sweep" / "journal.jsonl"
    wait_for(lambda: journal.is_file() and journal.read_text().count("begin") == 2)
    wait_for(lambda: (tmp_path / "clocked.begun").is_file())
    started.send_signal(signal.SIGINT)
    said = started.communicate()[1]
    assert started.returncode == 130
    assert f"--resume {tmp_path / 'sweep'} --executor local --jobs 2" in said
    assert '"failed"' not in journal.read_text()
    assert Store(tmp_path / "store").index.find() == []


def test_a_killed_sweep_goes_on_and_repeats_nothing_that_was_kept(tmp_path, clocked, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    command = [sys.executable, "-m", "trtbench"]
    started = subprocess.Popen(
        [*command, *sweep_words(tmp_path, tmp_path / "sweep")], stdout=subprocess.DEVNULL
    )
    store = Store(tmp_path / "store")

    def caught_at_work() -> bool:
        """Stop it, and let it go on where it has nothing in hand, as between two cases."""
        if len(store.index.find()) < 2:
            return False
        os.kill(started.pid, signal.SIGSTOP)  # it may hold the index now: nobody asks for that
        if any((tmp_path / "tmp").iterdir()):
            return True
        os.kill(started.pid, signal.SIGCONT)
        return False

    wait_for(caught_at_work)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    kept = {entry.id for entry in store.index.find()}
    assert 2 <= len(kept) < 6
    assert list((tmp_path / "tmp").iterdir()), "what it worked on is still there"
    resume = ["sweep", "--resume", str(tmp_path / "sweep"), "--store", str(tmp_path / "store")]
    resume += ["--format", "none", "--executor", "local", "--jobs", "2"]
    done = subprocess.run([*command, *resume], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {entry.id for entry in store.index.find(kind="run")}
    assert len(found) == 6
    assert kept <= found
    cases = [store.load(each).record.spec.options["case"] for each in found]
    assert sorted(cases) == list("012345")
    assert not list((tmp_path / "tmp").iterdir())
