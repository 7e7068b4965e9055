"""bench, profile and build with trtexec from the command line: files, failures, kills, Ctrl-C."""

import csv
import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

import pytest

from command import Say
from models import save_text
from trtbench.core.run import FailedRun, Run
from trtbench.requests.fields import fields_of
from trtbench.requests.measure import BenchRequest
from trtbench.store.directory import read_run
from trtbench.store.store import Store
from waiting import ended, wait_for

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
    names = {path.name for path in run.path.iterdir()}
    assert {"times.0.json", "times.1.json", "profile.json", "profile.1.json"} < names
    assert {"trtexec_stdout.log", "trtexec_stdout.1.log"} < names
    assert len(run.times.by_launch("latency")) == 2
    assert len(json.loads((run.path / "times.json").read_bytes())) == len(run.times)
    walls = [each.wall_s or 0.0 for each in run.record.launches]
    assert run.record.reported["total_host_walltime_s"] == pytest.approx(sum(walls) / 2)
    # A run that cannot be compared with it: values of both, their difference and ratio.
    save_text(Path("m.onnx"), "net (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }")
    say("bench", "m.onnx", "--iterations", "40", "--tag", "host")
    said = say("compare", "tag:host", run.id, status=3)
    assert re.search(r"\n *host_median( +[\d.]+ .?s){3} +[\d.e+-]+x", said.out), said.out


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
def test_an_interrupt_leaves_no_orphan(verb: str, number: int, trtexec: Any, tmp_path: Path):
    trtexec.behave("hang", "deaf")
    model = trtexec.engine() if verb == "bench" else trtexec.onnx()
    command = [sys.executable, "-m", "trtbench", verb, str(model)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with ended(subprocess.Popen(command, **pipes)) as process:
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


COUNTERPARTS = {
    "--onnx": "MODEL, without a flag", "--loadEngine": "MODEL, without a flag",
    "--saveEngine": "trtbench build MODEL --output PATH", "--fp16": "--precision fp16",
    "--int8": "--precision int8", "--best": "--precision best", "--avgRuns": "--opt avg_runs=10",
    "--minShapes": "--build shapes_min=NAME:1x3x224x224, or", "--shapes": "--shape NAME:",
    "--warmUp": "--warmup 200ms", "--useCudaGraph": "--cuda-graph on", "--infStreams": "--streams",
    "--noDataTransfers": "--no-transfers", "--exportTimes": "--out", "--dumpProfile": "--profile",
    "--exportLayerInfo": "--profile", "--useSpinWait": "--spin-wait", "--workspace": "--build work",
    "--memPoolSize": "--build workspace=SIZE, or trtbench build MODEL --workspace SIZE",
    "--timingCacheFile": "--build timing_cache=FILE", "--verbose": "--build verbose=on",
    "--plugins": "--build plugins=FILE, or trtbench build MODEL --plugin FILE",
}  # fmt: skip
NO_COUNTERPART = {
    "--uff", "--model", "--deploy", "--output", "--profilingVerbosity", "--tacticSources",
    "--preview", "--inputIOFormats", "--outputIOFormats", "--minTiming", "--nvtxMode",
    "--explicitBatch", "--heuristic", "--layerPrecisions", "--precisionConstraints", "--exposeDMA",
    "--useManagedMemory", "--exportOutput", "--dumpOutput",
}  # fmt: skip


def test_flags_of_trtexec_meet_what_trtbench_calls_them(say: Say) -> None:
    options = runpy.run_path(str(Path(__file__).parents[1] / "standin" / "standin_options.py"))
    ours = {each.flag for each in fields_of(BenchRequest)}
    for flag in {*options["FLAGS"], *COUNTERPARTS} - ours - {"--help", "--verbose"}:
        said = say("bench", "m.onnx", flag, status=2)
        assert f"{flag} is a flag of trtexec" in said.err
        assert ("has no counterpart" in said.err) is (flag in NO_COUNTERPART), flag
        assert f"fix: {COUNTERPARTS.get(flag, '')}" in said.err
    assert "trtbench bench MODEL --precision fp16" in say("--fp16").err
    for words, fix in {
        "build --saveEngine=m.engine": "--output m.engine",
        "build --iterations=10": "trtbench bench MODEL --iterations 10",
        "build --exportTimes=t.json": "trtbench bench MODEL --output PATH",
        "build --avgRuns=100": "trtbench bench MODEL --opt avg_runs=100",
        "build --calibProfile=1": "trtbench build MODEL -r trtexec -- --calibProfile=1",
        "compare --onnx=m.onnx": "m.onnx, without a flag",
        "compare --tacticSources=-CUDNN": "--args=--tacticSources",
        "profile --dumpProfile": "leave it out: trtbench profile does that",
        "profile --saveEngine=m.engine": "trtbench build MODEL --output m.engine",
        "sweep --fp16": "--precision fp16",
        "sweep --noDataTransfers": "--axis transfers=off",
        "sweep --builderOptimizationLevel=5": "--axis build.optimization_level=5",
        "sweep --loadEngine=m.engine": "m.engine, without a flag",
        "bench --warmUp=500": "--warmup 500ms",
        "check --shapes=x:1x3x8x8,y:2x4": "--shape x:1x3x8x8 --shape y:2x4",
        "gate --expect=p99<5ms": "--metric 'p99<5ms'",
    }.items():
        verb, flag = words.split()
        assert f"fix: {fix}" in say(verb, "m.onnx", flag, status=2).err
    assert "did you mean" in say("bench", "m.onnx", "--launchez").err.lower()
