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
from trtbench.workflows.look.lacking import refuse_lacking
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.errand import sides_need
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.measure.remote import open_executor, request_from_spec
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config, RuntimeSettings
from trtbench.workflows.request.judging import CheckRequest

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


def lacking_python(folder: Path) -> Path:
    """Make an interpreter that has all but ONNX Runtime."""
    (folder / "hidden").mkdir()
    hide = "import sys\nsys.modules['onnxruntime'] = None\n"
    (folder / "hidden" / "sitecustomize.py").write_text(hide)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/hidden exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_an_interpreter_that_is_named_is_asked_itself(tmp_path) -> None:
    python = lacking_python(tmp_path)
    refuse_lacking([f"runtime:onnxruntime@{sys.executable}"], Config(store=""))
    problem = refused(f"runtime:onnxruntime@{python}")
    assert problem.facts["interpreter"] == str(python)
    assert problem.fix == f"{python} -m pip install 'trtbench[onnx]'"
    settings = {"onnxruntime": RuntimeSettings(python=str(python))}
    assert refused("runtime:onnxruntime", config=Config(store="", runtimes=settings)).fix
    assert "no Python interpreter" in refused("format:onnx@/nowhere/python").message


def test_each_side_of_a_check_is_asked_for_in_its_own_interpreter() -> None:
    request = CheckRequest(
        reference="a.onnx", candidates=("b.onnx",), runtime="onnxruntime", python=("/p", "/q")
    )
    luggage = Luggage()
    luggage.python = request.python
    luggage.need(*sides_need(request, ("torchvision:a", "torchvision:b"))[1], "package:onnx")
    assert luggage.libraries == ["runtime:onnxruntime@/p", "runtime:onnxruntime@/q"]


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
    named = request_from_spec(spec, "r", Conduct(python="/opt/python"))
    words = ("runtime:torch@/opt/python", "package:torch/torchvision@/opt/python")
    assert named.needs.libraries == words  # which is asked there
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

    def test_an_interpreter_of_a_host_is_asked_before_a_model_is_sent(
        self, tmp_path, sshd, clocked
    ):
        asked = {"executor": "ssh", "hosts": hosts_file(tmp_path, sshd, clocked, "a"), "batch": 1}
        model = runs.quick_spec(tmp_path).model.path
        asked |= {"python": lacking_python(tmp_path), "store": tmp_path / "store"}
        for verb in (trtbench.bench, trtbench.profile):
            with pytest.raises(UnavailableError, match="lacks what onnxruntime needs") as caught:
                verb(model, **asked)
            assert caught.value.facts["where"] == "a"
        assert not (tmp_path / "a" / "kept" / "blobs").exists()

    def test_interpreters_of_this_machine_are_not_looked_for_on_others(
        self, tmp_path, sshd, clocked, monkeypatch
    ):
        """Settings name one for here; a host has settings of its own, or none."""
        (tmp_path / "laptop").mkdir()
        monkeypatch.chdir(tmp_path / "laptop")
        settings = "[runtimes.onnxruntime]\npython = '/nowhere/python'\n"
        (tmp_path / "laptop" / "trtbench.toml").write_text(settings)
        asked = {"executor": "ssh", "hosts": hosts_file(tmp_path, sshd, clocked, "a"), "batch": 1}
        model = runs.quick_spec(tmp_path).model.path
        short = {"duration": "20ms", "warmup": "10ms", "until_steady": False}
        assert trtbench.bench(model, store=tmp_path / "store", **short, **asked).id
        turns = {"launches": 2, "pairs": 10, "store": tmp_path / "store"}
        assert trtbench.compare(model, model, **turns, **asked).verdicts

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
