"""What travels goes once to each machine, and machines that are lost under a sweep lose nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from machines import hosts_file
from ports import free_port

import models
import trtbench
from trtbench import verbs
from trtbench.errors import UnavailableError
from trtbench.executors import ray as ray_module
from trtbench.executors._shell import Shell
from trtbench.executors.ray import RayExecutor
from trtbench.executors.ssh import ARCHIVE_BYTES, SMALL_BYTES, _groups
from trtbench.models.identity import sha256_of
from trtbench.workflows.request.making import BuildRequest

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.xdist_group("machines")]


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
    found = six_cases(tmp_path, executor="ssh", hosts=hosts, beside=2)
    assert [row.reason for row in found.rows] == [None] * 6
    for name in ("a", "b"):
        assert sent[f"{name} keep-all"] == 1  # model and data together, before the first case
        assert sent[f"{name} keep"] == 0
        assert len(list((tmp_path / name / "kept" / "blobs").iterdir())) == 6
        assert list((tmp_path / name / "kept" / "work").iterdir()) == []


def test_a_model_and_a_folder_of_data_go_once_to_each_node(nodes, tmp_path, monkeypatch):
    opened: list[RayExecutor] = []

    def kept(settings):
        opened.append(RayExecutor(settings))
        return opened[-1]

    monkeypatch.setattr(ray_module, "open_executor", kept)
    for name in ("a", "b", "c"):
        nodes.add(name)
    found = six_cases(tmp_path, executor="ray", address=nodes.cluster.address)
    assert [row.reason for row in found.rows] == [None] * 6
    assert len(opened[0].fetched) == 3
    assert set(opened[0].fetched.values()) == {6}


def test_an_engine_is_built_again_when_the_connection_is_cut(tmp_path, sshd, clocked, rtx):
    if rtx.python is not None:
        pytest.skip("TensorRT-RTX is in another interpreter")
    site = f"{clocked}:{rtx.env.get('PYTHONPATH', '')}"
    hosts = hosts_file(tmp_path, sshd, site, "a")
    heard: list[str] = []

    def listen(event) -> None:
        heard.append(event.text)
        if "build" in event.text and not any("was lost" in each for each in heard):
            cut_connection(tmp_path / "a")

    request = BuildRequest(
        model=models.tiny_model(tmp_path / "tiny.onnx"), runtime="tensorrt-rtx",
        output=tmp_path / "e.engine", executor="ssh", hosts=hosts,
    )  # fmt: skip
    made = verbs.build(request, listen=listen)
    assert any("a was lost" in text for text in heard)
    assert sha256_of(tmp_path / "e.engine") == made.sha256
    assert list((tmp_path / "a" / "kept" / "work").iterdir()) == []


def cut_connection(folder: Path) -> None:
    """End the server's side of the connection over which a host works."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if "trtbench.node" in words and Path(process.cwd()).is_relative_to(folder):
                for above in process.parents():
                    if above.name().startswith("sshd"):
                        above.kill()
                        return
        except psutil.Error:
            continue


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
