"""What a request names, on machines behind a real sshd and on nodes of a real Ray cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from machines import hosts_file
from PIL import Image

import models
import trtbench
from trtbench.cli import run as command
from trtbench.domain.codec import value_from_json
from trtbench.domain.conversion import Sidecar
from trtbench.executors import Executor, ExecutorSettings
from trtbench.models.identity import sha256_of
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.remote import open_executor
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]

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
        conduct = Conduct(
            executor=executor,
            python=python,
            listen=lambda event, told=told: told.append(event.text),
        )
        run = run_bench(spec, store=Store(folder / "store"), conduct=conduct)
        assert run.record.spec == spec  # with the names of this machine
        assert len(run.record.spec.model.files) == 2
    return heard


def test_a_factory_goes_by_ssh_once(tmp_path, sshd, clocked, own_net, torch_python):
    hosts = hosts_file(tmp_path, sshd, clocked, "a")
    executor = open_executor("ssh", ExecutorSettings(hosts=hosts))
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
        executor = open_executor("ray", ExecutorSettings(address=nodes.cluster.address))
        try:
            heard = measured_twice(executor, own_net, torch_python, tmp_path)
        finally:
            executor.close()
        sent += [text for told in heard for text in told if text.startswith("sending")]
        # The module and its code; who joins later gives the cluster nothing that the node has.
        assert sum(executor.fetched.values()) == len(executor._contents) == count
    assert len(sent) == 1
    assert "2 more files" in sent[0]


def test_a_factory_is_found_by_the_executor_of_this_machine(tmp_path, own_net, torch_python):
    executor = open_executor("local", ExecutorSettings())
    measured_twice(executor, own_net, torch_python, tmp_path)


def settings_with_torch(folder: Path, python: str) -> Path:
    """Settings of a machine whose PyTorch is in an interpreter of its own."""
    (folder / "trtbench").mkdir(parents=True)
    text = f"[runtimes.torch]\npython = '{python}'\n"
    (folder / "trtbench" / "config.toml").write_text(text)
    return folder


def swept(model: Path, folder: Path, *words: str) -> None:
    """Sweep a model with code of its own: PyTorch itself, and an export of it."""
    asked = ["sweep", str(model), "-r", "torch,onnxruntime", "--factory", "net:make",
             "--input-shape", "2x8", "--duration", "20ms",
             "--axis", "device=cpu", "--format", "none", "-o", str(folder / "sweep"),
             "--store", str(folder / "store"), *words]  # fmt: skip
    assert command(asked) == 0
    store = Store(folder / "store")
    found = [store.load(entry.id).record for entry in store.index.find(kind="run")]
    assert sorted(record.spec.runtime for record in found) == ["onnxruntime", "torch"]
    steps = [json.loads((store.directory(each.id) / "steps.json").read_bytes()) for each in found]
    assert sorted(step["kind"] for each in steps for step in each) == ["export"]


def test_a_sweep_of_a_factory_goes_by_ssh(tmp_path, sshd, clocked, own_net, torch_python):
    hosts = hosts_file(tmp_path, sshd, clocked, "a")
    settings = settings_with_torch(tmp_path / "a" / "settings", torch_python)
    own = f'environment = {{ XDG_CONFIG_HOME = "{settings}", '
    hosts.write_text(hosts.read_text().replace("environment = { ", own))
    swept(own_net, tmp_path, "--executor", "ssh", "--hosts", str(hosts))


def test_a_sweep_of_a_factory_goes_to_a_node_of_ray(
    nodes, tmp_path, own_net, torch_python, monkeypatch
):
    settings = settings_with_torch(tmp_path / "settings", torch_python)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))
    nodes.add("a")
    swept(own_net, tmp_path, "--executor", "ray", "--address", nodes.cluster.address)


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
