"""bench, profile and build with trtexec from the command line: files, failures, kills, Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest
from command import Say

from trtbench.core.run import FailedRun, Run
from trtbench.store.directory import read_run
from trtbench.store.store import Store
from waiting import wait_for, with_patience

R = TypeVar("R", Run, FailedRun)
QUICK = ("--warmup", "50ms", "--duration", "50ms")
FILES_OF_EVALUATION_TOOLKIT = {
    "times.json", "profile.json", "trtexec_stdout.log", "engine_metadata.json", "run_config.json",
    "summary.json", "summary.csv", "latency_series.csv", "latency_percentiles.csv",
    "enqueue_series.csv", "compute_series.csv", "per_layer_times.csv",
}  # fmt: skip


def only_run(kind: type[R] = Run) -> R:  # type: ignore[assignment]
    (folder,) = Path("store/runs").absolute().iterdir()
    found = read_run(folder)
    assert isinstance(found, kind)
    return found


def test_bench_leaves_a_complete_run(trtexec: Any, say: Say) -> None:
    words = ("bench", trtexec.engine(), *QUICK, "--batch", "4", "--opt", "avg_runs=20")
    said = say(*words, "--", "--useManagedMemory")
    assert "protocol pipeline" in said.out
    assert "\nGPU " in said.out
    assert "batch 4 was not passed on" in said.err
    run = only_run()
    assert run.path is not None
    assert {path.name for path in run.path.iterdir()} >= FILES_OF_EVALUATION_TOOLKIT
    config = json.loads((run.path / "run_config.json").read_bytes())
    command = shlex.split(config["command"])
    assert f"--exportTimes={run.path / 'times.json'}" in command
    assert command[-1] == "--useManagedMemory"
    expected = {
        "batch": 1, "avg_runs": 20, "warmup": 50.0, "use_cuda_graph": False,
        "profile_enabled": True, "separate_profile_run": True,
        "trtexec_binary": str(trtexec.binary), "outdir": str(run.path),
    }  # fmt: skip
    assert {key: config[key] for key in expected} == expected
    assert run.record.reported["command"] == config["command"]
    assert run.record.environment.versions["tensorrt"] == "10.9.0"
    assert run.layers is not None
    with open(run.path / "per_layer_times.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["percent_of_total"]) for row in rows] == pytest.approx([42, 33, 20, 5, 0])


def test_several_launches_keep_their_files_apart(trtexec: Any, say: Say) -> None:
    assert say("bench", trtexec.engine(), *QUICK, "--launches", "2", "--json").status == 0
    run = only_run()
    assert run.path is not None
    names = {path.name for path in run.path.iterdir()}
    assert {"times.0.json", "times.1.json", "profile.json", "profile.1.json"} < names
    assert {"trtexec_stdout.log", "trtexec_stdout.1.log"} < names
    assert len(run.times.by_launch("latency")) == 2
    assert len(json.loads((run.path / "times.json").read_bytes())) == len(run.times)


def test_a_graph_that_fell_back_is_a_finding(trtexec: Any, say: Say) -> None:
    trtexec.behave("no-graph")
    say("bench", trtexec.engine(), *QUICK, "--cuda-graph", "on", "--no-profile")
    assert "H24" in {finding.code for finding in only_run().findings}


def test_the_protocol_gpu_says_what_it_means(trtexec: Any, say: Say) -> None:
    trtexec.version("11.1.0")
    say("bench", trtexec.engine(), *QUICK, "--protocol", "gpu")
    record = only_run().record
    assert (record.spec.cuda_graph, record.spec.transfers) == ("on", False)
    assert record.conditions["protocol"].value == "gpu"


@pytest.mark.parametrize(
    ("behaviour", "status"), [("fail", 1), ("crash", -11), ("silent", 0), ("late", 1)]
)
def test_a_failure_is_on_record_with_its_own_status(
    behaviour: str, status: int, trtexec: Any, say: Say
) -> None:
    trtexec.behave(behaviour)
    said = say("bench", trtexec.engine(), *QUICK)
    failed = only_run(FailedRun)
    assert (said.status, failed.program_status, failed.exit_status) == (1, status, 3)
    assert 0 < len(failed.log_tail) <= 20
    assert all(line in said.err for line in failed.log_tail)
    assert "trtexec_stdout.log" in said.err.splitlines()[-1]
    assert Path(said.err.split()[-1]).is_file()


@pytest.mark.process
@pytest.mark.parametrize("words", [("hang",), ("hang", "deaf")])
def test_a_timeout_ends_trtexec(words: tuple[str, ...], trtexec: Any, say: Say) -> None:
    trtexec.behave(*words)
    store = Store("store")

    def attempt(seconds: float) -> FailedRun:
        for entry in store.index.find():
            store.remove(entry.id)
        assert say("bench", trtexec.engine(), *QUICK, "--timeout", f"{seconds}s").status == 1
        return only_run(FailedRun)

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


def test_bench_dry_run_prints_a_command_to_paste(trtexec: Any, say: Say) -> None:
    engine = trtexec.engine().rename(trtexec.folder / "a b.engine")
    shown = say("bench", engine, "--dry-run", "--streams", "2", "--gap", "5ms").out
    words = shlex.split(shown.splitlines()[-1])
    assert words[:2] == [str(trtexec.binary), f"--loadEngine={engine}"]
    assert {"--infStreams=2", "--idleTime=5"} < set(words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--protocol serve", "cannot measure with the protocol"),
        ("--protocol gpu --cuda-graph off", "with a CUDA graph"),
        ("--warmup-iterations 50", "warms up for a time"),
        ("--opt avgruns=3", "no option"),
        ("--streams 0", "at least 1"),
        ("--profile-index 1 --opt version=8.6", "TensorRT 10.0 or later"),
        ("--no-separate-profile-run", "reports no times"),
    ],
)
def test_what_cannot_be_asked_is_refused(flags: str, words: str, trtexec: Any, say: Say) -> None:
    said = say("bench", trtexec.engine(), *flags.split(), "--dry-run")
    assert (said.status, words in said.err) == (2, True)
