"""bench, profile and build with trtexec from the command line: files, failures, kills, Ctrl-C."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trtbench.cli import run as trtbench
from trtbench.data import demo_file
from trtbench.domain.result import FailedRun, Run
from trtbench.store.directory import read_run
from trtbench.store.store import Store
from waiting import wait_for, with_patience

QUICK = ("--warmup", "50ms", "--duration", "50ms")
FILES_OF_EVALUATION_TOOLKIT = {
    "times.json",
    "profile.json",
    "trtexec_stdout.log",
    "engine_metadata.json",
    "run_config.json",
    "summary.json",
    "summary.csv",
    "latency_series.csv",
    "latency_percentiles.csv",
    "enqueue_series.csv",
    "compute_series.csv",
    "per_layer_times.csv",
}


def only_run(tmp_path: Path) -> Run | FailedRun:
    (folder,) = (tmp_path / "store" / "runs").iterdir()
    return read_run(folder)


def test_bench_leaves_a_complete_run(
    trtexec: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", str(trtexec.engine()), *QUICK, "--batch", "4", "--opt", "avg_runs=20"]
    assert trtbench([*arguments, "--", "--useManagedMemory"]) == 0
    shown = capsys.readouterr()
    assert "protocol pipeline" in shown.out
    assert "\nGPU " in shown.out
    assert "batch 4 was not passed on" in shown.err
    run = only_run(tmp_path)
    assert isinstance(run, Run)
    assert run.path is not None
    assert {path.name for path in run.path.iterdir()} >= FILES_OF_EVALUATION_TOOLKIT
    config = json.loads((run.path / "run_config.json").read_bytes())
    words = shlex.split(config["command"])
    assert f"--exportTimes={run.path / 'times.json'}" in words
    assert words[-1] == "--useManagedMemory"
    expected = {"batch": 1, "avg_runs": 20, "warmup": 50.0, "use_cuda_graph": False}
    expected |= {"profile_enabled": True, "separate_profile_run": True}
    expected |= {"trtexec_binary": str(trtexec.binary), "outdir": str(run.path)}
    assert {key: config[key] for key in expected} == expected
    assert run.record.reported["command"] == config["command"]
    assert run.record.environment.versions["tensorrt"] == "10.9.0"
    assert run.layers is not None
    with open(run.path / "per_layer_times.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["percent_of_total"]) for row in rows] == pytest.approx([42, 33, 20, 5, 0])


def test_several_launches_keep_their_files_apart(trtexec: Any, tmp_path: Path) -> None:
    arguments = ["bench", str(trtexec.engine()), *QUICK, "--launches", "2", "--json"]
    assert trtbench(arguments) == 0
    run = only_run(tmp_path)
    assert isinstance(run, Run)
    assert run.path is not None
    names = {path.name for path in run.path.iterdir()}
    assert {"times.0.json", "times.1.json", "profile.json", "profile.1.json"} < names
    assert {"trtexec_stdout.log", "trtexec_stdout.1.log"} < names
    assert len(run.times.by_launch("latency")) == 2
    assert len(json.loads((run.path / "times.json").read_bytes())) == len(run.times)


def test_a_graph_that_fell_back_is_a_finding(trtexec: Any, tmp_path: Path) -> None:
    trtexec.behave("no-graph")
    flags = ("--cuda-graph", "on", "--no-profile")
    assert trtbench(["bench", str(trtexec.engine()), *QUICK, *flags]) == 0
    run = only_run(tmp_path)
    assert isinstance(run, Run)
    assert "H24" in {finding.code for finding in run.findings}


def test_the_protocol_gpu_says_what_it_means(trtexec: Any, tmp_path: Path) -> None:
    trtexec.version("11.1.0")
    assert trtbench(["bench", str(trtexec.engine()), *QUICK, "--protocol", "gpu"]) == 0
    run = only_run(tmp_path)
    assert isinstance(run, Run)
    assert run.record.spec.cuda_graph == "on"
    assert run.record.spec.transfers is False
    assert run.record.conditions["protocol"].value == "gpu"


@pytest.mark.parametrize(
    ("behaviour", "status"), [("fail", 1), ("crash", -11), ("silent", 0), ("late", 1)]
)
def test_a_failure_is_on_record_with_its_own_status(
    behaviour: str, status: int, trtexec: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trtexec.behave(behaviour)
    assert trtbench(["bench", str(trtexec.engine()), *QUICK]) == 1
    shown = capsys.readouterr().err
    failed = only_run(tmp_path)
    assert isinstance(failed, FailedRun)
    assert failed.program_status == status
    assert failed.exit_status == 3
    assert 0 < len(failed.log_tail) <= 20
    assert all(line in shown for line in failed.log_tail)
    assert "trtexec_stdout.log" in shown.splitlines()[-1]
    assert Path(shown.split()[-1]).is_file()


@pytest.mark.process
@pytest.mark.parametrize("words", [("hang",), ("hang", "deaf")])
def test_a_timeout_ends_trtexec(words: tuple[str, ...], trtexec: Any, tmp_path: Path) -> None:
    trtexec.behave(*words)
    store = Store(tmp_path / "store")

    def attempt(seconds: float) -> FailedRun:
        for entry in store.index.find():
            store.remove(entry.id)
        words = ["bench", str(trtexec.engine()), *QUICK, "--timeout", f"{seconds}s"]
        assert trtbench(words) == 1
        failed = only_run(tmp_path)
        assert isinstance(failed, FailedRun)
        return failed

    failed = with_patience(
        attempt, far_enough=lambda run: any("Starting inference" in x for x in run.log_tail)
    )
    assert "no end after" in failed.reason
    assert failed.stage in ("warm-up", "measure")
    assert any("Starting inference" in line for line in failed.log_tail)
    assert trtexec.gone()


@pytest.mark.process
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.real("minutes")),
        signal.SIGKILL,
    ],
)
@pytest.mark.parametrize("verb", ["bench", "build"])
def test_an_interrupt_leaves_no_orphan(
    verb: str, number: int, trtexec: Any, tmp_path: Path
) -> None:
    trtexec.behave("hang", "deaf")
    model = trtexec.engine() if verb == "bench" else trtexec.onnx()
    command = [sys.executable, "-m", "trtbench", verb, str(model)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for(lambda: trtexec.alive() and _is_working(trtexec.folder, tmp_path))
        os.kill(process.pid, number)
        _, said = process.communicate()
    assert trtexec.gone()
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert b"Traceback" not in said
        assert not (tmp_path / "standin" / "net.engine").exists()
    assert Store(tmp_path / "store").index.find() == []


def _is_working(home: Path, tmp_path: Path) -> bool:
    logs = [*tmp_path.glob("store/runs/.partial-*/launch-0/*.log"), *home.glob(".partial-*/*.log")]
    signs = (b"Starting inference", b"timing cache in use")
    return any(sign in log.read_bytes() for log in logs for sign in signs)


def test_profile_shows_layers_of_a_model_and_of_a_stored_run(
    trtexec: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["profile", str(trtexec.engine()), *QUICK, "--top", "2"]) == 0
    shown = capsys.readouterr().out
    assert "42.0 %" in shown
    assert "{ForeignNode[/attn/MatMul.../attn/Softmax]}" in shown
    assert "/fc/Gemm" not in shown
    assert "2 of 5 layers" in shown
    assert trtbench(["profile", "last", "--json", "--top", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [layer["kind"] for layer in document["layers"]] == ["Convolution"]
    assert document["count"] == only_run(tmp_path).layers.count  # type: ignore[union-attr]
    assert trtbench(["profile", "last", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 5
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)


def test_a_run_without_layers_says_how_to_get_them(
    trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["bench", str(trtexec.engine()), *QUICK, "--no-profile"]) == 0
    assert trtbench(["profile", "last"]) == 2
    assert "fix: trtbench profile" in capsys.readouterr().err
    assert trtbench(["profile", "gone.engine"]) == 1
    assert trtbench(["profile", "nobody"]) == 2


def test_build_and_its_dry_run(trtexec: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(trtexec.onnx())
    flags = ["--precision", "fp16", "--workspace", "1GiB", "--shape-opt", "input:4x3x8x8"]
    assert trtbench(["build", model, *flags, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["job"]["spec"]["workspace_bytes"] == 1 << 30
    assert trtbench(["build", model, *flags, "--json"]) == 0
    artefact = json.loads(capsys.readouterr().out)
    assert [artefact["command"]] == plan["commands"]
    assert Path(artefact["path"]).name == "net.engine"
    assert trtbench(["build", model, "--dry-run", "--opt", "version=11.1"]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == "# for TensorRT 11.1"


def test_bench_dry_run_prints_a_command_to_paste(
    trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = trtexec.engine().rename(trtexec.folder / "a b.engine")
    assert trtbench(["bench", str(engine), "--dry-run", "--streams", "2", "--gap", "5ms"]) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[:2] == [str(trtexec.binary), f"--loadEngine={engine}"]
    assert {"--infStreams=2", "--idleTime=5"} < set(words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--protocol", "serve"), "cannot measure with the protocol"),
        (("--protocol", "gpu", "--cuda-graph", "off"), "with a CUDA graph"),
        (("--warmup-iterations", "50"), "warms up for a time"),
        (("--opt", "avgruns=3"), "no option"),
        (("--streams", "0"), "at least 1"),
        (("--profile-index", "1", "--opt", "version=8.6"), "TensorRT 10.0 or later"),
        (("--no-separate-profile-run",), "reports no times"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    flags: tuple[str, ...], words: str, trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trtbench(["bench", str(trtexec.engine()), *flags, "--dry-run"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [("--protocol", "pipeline"), ("--cuda-graph", "on"), ("--no-transfers",)],
)
def test_onnx_runtime_refuses_what_it_cannot_do(
    flags: tuple[str, ...], trtexec: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(demo_file("digits.onnx"))
    assert trtbench(["bench", model, "-r", "onnxruntime", "--batch", "1", *flags]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_gate_holds_layers_to_expectations(
    trtexec: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, output = str(trtexec.engine()), ["-o", str(tmp_path / "gate")]
    good = ["--metric", "count(Convolution)>=1", "--metric", "share(kind=Convolution)>10%"]
    quick = [*QUICK, "--launches", "1"]
    assert trtbench(["gate", engine, *quick, *good, *output]) == 0, capsys.readouterr().err
    assert trtbench(["gate", engine, *quick, "--metric", "count(Einsum)>=1", *output]) == 3
    assert "count(Einsum) is 0" in (tmp_path / "gate" / "gate.junit.xml").read_text()
    rules = tmp_path / "rules.toml"
    rules.write_text('expect = ["count(Einsum)==0", "layers==5"]\n')
    assert trtbench(["gate", engine, *quick, "--rules", str(rules), *output]) == 0
