"""The highest rate under a bound on ONNX Runtime, and arrivals from files."""

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

import models
import trtbench
from models import tiny_model
from trtbench.measure import bench
from trtbench.measure.bench import run_bench
from trtbench.report.sections.sweep import document_from_load
from trtbench.requests.execution import Event
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config, cached_from_run
from trtbench.store.directory import read_run, run_directories
from trtbench.store.store import Store
from trtbench.verbs._verb import Caller
from trtbench.verbs.bench import run


def test_a_search_that_is_interrupted_keeps_what_it_found(tmp_path: Path) -> None:
    store, tried = Store(tmp_path / "s"), list[str]()
    asked = {"slo": "median<5s", "protocol": "server", "threads": 1, "until_steady": False}
    asked |= {"warmup": "10ms", "duration": "300ms", "time_limit": "1h"}
    request = BenchRequest(model=tiny_model(tmp_path / "tiny.onnx"), store=store.root, **asked)

    def listen(event: Event) -> None:
        tried.append(event.text)
        if sum("trying" in text for text in tried) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as ended:
        run(request, Caller(progress=lambda title: nullcontext(listen)))
    kept = store.load(str(ended.value).rpartition(" ")[2])
    assert (kept.load.complete, len(kept.load.points)) == (False, 2)
    assert "ended early" in str(document_from_load(kept.load, kept))
    assert len(trtbench.runs(store=store.root)) == 1
    assert document_from_load(kept.load.having(capacity_hz=0.0), kept)  # what somebody else wrote


ONE_STEP = """
import trtbench, gpu_standin, types
from pathlib import Path
from trtbench.convert import steps

def build(spec, execution):  # this machine has no GPU to build with
    Path(spec.output).parent.mkdir(parents=True)
    Path(spec.output).write_bytes(gpu_standin.plan_bytes() + (spec.precision or "").encode())
    return types.SimpleNamespace(notes=())

steps.run_build = build
asked = {"runtime": "tensorrt", "batch": 4, "protocol": "server", "slo": "p99<1s",
         "time_limit": "2s", "duration": "100ms", "warmup": "1ms", "until_steady": False}
first = trtbench.bench("net.onnx", **asked)
print(first.load.complete, first.record.spec.model.name, len([*Path("store/steps").iterdir()]))
"""


def test_a_search_on_an_engine_that_is_built_first(tmp_path: Path) -> None:
    models.tiny_model(tmp_path / "net.onnx")
    tests = Path(models.__file__).parent
    own = {"PYTHONPATH": str(tests / "standin_gpu"), "TRTBENCH_STORE": "store"}
    program, env = [sys.executable, "-c", f"import tensorrt; {ONE_STEP.strip()}"], os.environ | own
    done = subprocess.run(program, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "True net.as-is.4x16.engine 1\n", done.stderr


@pytest.fixture
def asked(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    spec = run_spec(
        BenchRequest(
            model=models.tiny_model(tmp_path / "tiny.onnx"),
            batch=1,
            warmup="1ms",
            until_steady=False,
            duration="10ms",
            threads=1,
        ),
        Config(store=str(tmp_path)),
    )
    return spec, Store(tmp_path / "store")


def test_a_bug_in_the_analysis_does_not_cost_the_measurement(asked, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug in a rule")

    spec, store = asked
    monkeypatch.setattr(bench, "findings_from_run", broken)
    with pytest.raises(ZeroDivisionError):
        run_bench(spec, store=store)
    (folder,) = run_directories(store.runs)
    run = read_run(folder)
    assert len(run.times) >= 10
    found = store.reindex(cached_from_run)
    assert (found.runs, found.dropped, found.damaged) == (1, (), {})
    assert store.load("last").id == run.id
