"""Machines that lack what a run needs: refused by name, before anything is sent to them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import runs
from machines import hosts_file

import models
import trtbench
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import TrtbenchError, UnavailableError
from trtbench.executors import Executor, ExecutorSettings
from trtbench.node import main as node
from trtbench.runtimes import RUNTIMES
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.measure.remote import open_executor, request_from_spec
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config, RuntimeSettings
from trtbench.workflows.request.lacking import refuse_lacking

MISSING = "nowhere_to_be_found"


def refused(*libraries: str, config: Config | None = None) -> TrtbenchError:
    with pytest.raises(TrtbenchError) as caught:
        refuse_lacking(libraries, config or Config(store=""))
    return caught.value


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch) -> None:
    refuse_lacking(
        ["package:numpy", "runtime:onnxruntime", "format:onnx", "news:1"], Config(store="")
    )
    problem = refused("package:numpy", f"package:{MISSING}")
    assert MISSING in problem.message
    assert problem.fix == f"{sys.executable} -m pip install {MISSING}"
    monkeypatch.setattr(RUNTIMES.load("onnxruntime"), "available", lambda: "it is not installed")
    for word in ("runtime:onnxruntime", "format:onnx"):
        assert "pip install" in str(refused(word).fix)
    elsewhere = {"onnxruntime": RuntimeSettings(python=sys.executable)}
    refuse_lacking(["runtime:onnxruntime"], Config(store="", runtimes=elsewhere))
    own = Config(store="", runtimes=elsewhere)
    assert MISSING in refused(f"package:onnxruntime/{MISSING}", config=own).message
    refuse_lacking(["package:onnxruntime/numpy"], own)


def test_a_runtime_that_a_machine_does_not_know_is_told(capsys) -> None:
    assert node(["lacks", "runtime:nonesuch"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("\ntrtbench-lacks {")
    assert "nonesuch" in told
    assert node(["lacks", "package:numpy"]) == 0
    assert capsys.readouterr().out == ""


def test_a_run_says_which_libraries_it_needs(tmp_path) -> None:
    spec = RunSpec(model=ModelRef(path="torchvision:resnet18", format="torch"), runtime="torch")
    asked = request_from_spec(spec, "r", Conduct())
    assert asked.needs.libraries == ("runtime:torch", "package:torch/torchvision")
    named = request_from_spec(spec, "r", Conduct(python="/opt/bin/python"))
    assert named.needs.libraries == ()  # which is asked there
    luggage = Luggage()
    luggage.take("code", "timm.models:resnet18")
    assert luggage.libraries == ["package:torch/timm"]


def unlucky_spec(folder: Path) -> RunSpec:
    """A run in a runtime that nobody has."""
    return runs.quick_spec(folder, runtime="clocked")


def demand_refusal(executor: Executor, spec: RunSpec, folder: Path, *, name: str) -> None:
    with pytest.raises(TrtbenchError, match="clocked") as caught:
        run_bench(spec, store=Store(folder / "store"), conduct=Conduct(executor=executor))
    assert name in caught.value.facts["where"]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.xdist_group("machines")
class TestElsewhere:
    """Hosts behind a real sshd, and nodes of a real cluster."""

    def test_a_host_that_lacks_a_runtime_is_sent_nothing(self, tmp_path, sshd, clocked):
        hosts = hosts_file(tmp_path, sshd, clocked, "a", "b")
        text = hosts.read_text()
        hosts.write_text(text.replace(str(clocked), str(tmp_path / "empty"), 1))
        executor = open_executor("ssh", ExecutorSettings(hosts=hosts))
        for _ in range(3):  # whoever is asked first, the work is done by the one that can
            conduct = Conduct(executor=executor)
            run_bench(unlucky_spec(tmp_path), store=Store(tmp_path / "store"), conduct=conduct)
        assert len(runs.spans(tmp_path / "b" / "log")) == 3
        assert not (tmp_path / "a" / "kept" / "blobs").exists()
        hosts.write_text(text.replace(str(clocked), str(tmp_path / "empty")))
        executor = open_executor("ssh", ExecutorSettings(hosts=hosts))
        demand_refusal(executor, unlucky_spec(tmp_path), tmp_path, name="a")
        assert not (tmp_path / "a" / "kept" / "blobs").exists()

    def test_a_package_is_named_before_a_model_is_sent_by_ssh(self, tmp_path, sshd, clocked):
        models.tiny_model(tmp_path / "tiny.onnx")
        hosts = hosts_file(tmp_path, sshd, clocked, "a")
        (tmp_path / "hidden" / "onnxruntime").mkdir(parents=True)
        hide = "import sys\nsys.modules['onnxruntime'] = None\n"
        (tmp_path / "hidden" / "sitecustomize.py").write_text(hide)
        hosts.write_text(hosts.read_text().replace(str(clocked), f"{clocked}:{tmp_path}/hidden"))
        with pytest.raises(UnavailableError, match="onnxruntime") as caught:
            trtbench.check(
                tmp_path / "tiny.onnx", tmp_path / "tiny.onnx", executor="ssh", hosts=hosts,
                output=tmp_path / "check", store=tmp_path / "store",
            )  # fmt: skip
        assert caught.value.fix == "on a: pip install 'trtbench[onnx]'"
        assert not (tmp_path / "a" / "kept" / "blobs").exists()

    def test_a_node_that_lacks_a_runtime_is_sent_nothing(self, nodes, tmp_path):
        site, nodes.site = nodes.site, tmp_path / "empty"
        nodes.add("a")
        nodes.site = site
        executor = open_executor("ray", ExecutorSettings(address=nodes.cluster.address))
        demand_refusal(executor, unlucky_spec(tmp_path), tmp_path, name="(")
        assert not executor.fetched
        nodes.add("b")
        conduct = Conduct(executor=executor)
        run_bench(unlucky_spec(tmp_path), store=Store(tmp_path / "store"), conduct=conduct)
        assert len(nodes.spans("b")) == 1
        executor.close()
