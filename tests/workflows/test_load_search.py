"""The highest rate under a bound on ONNX Runtime, and arrivals from files."""

from __future__ import annotations

from pathlib import Path

import pytest

import models
from models import tiny_model
from trtbench.core.errors import JobError
from trtbench.core.run import Run
from trtbench.measure import bench
from trtbench.measure import bench as load_workflow
from trtbench.measure.bench import bench_or_search, run_bench
from trtbench.report.sections.sweep import document_from_load
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config, cached_from_run, load_config
from trtbench.store.directory import read_run, run_directories
from trtbench.store.store import Store

QUICK = {"duration": "50ms", "warmup": "10ms", "until_steady": False, "threads": 1}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny.onnx")


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), JobError("the worker crashed")])
def test_a_search_that_cannot_go_on_keeps_what_it_found(
    problem: BaseException, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_workflow, "MIN_QUERIES", 6)
    store, heard = Store(tmp_path / "s"), []

    def listen(event: Event) -> None:
        heard.append(event.text)
        if event.text and event.text.startswith("80.0/s"):
            raise problem

    request = BenchRequest(model=model, protocol="server", rate="800/s", slo="median<5s", **QUICK)
    spec = run_spec(request, load_config())
    with pytest.raises(type(problem)):
        bench_or_search(spec, store=store, execution=Execution(listen=listen), slo=request.slo)
    kept = store.load(heard[-1].rpartition(" ")[2])
    assert kept.load is not None
    assert not kept.load.complete
    assert kept.load.points
    assert "ended early" in str(document_from_load(kept.load, kept).sections[0].blocks[0])


def test_a_search_that_takes_too_long_ends_with_what_it_found(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_workflow, "MIN_QUERIES", 80)
    monkeypatch.setattr(load_workflow, "LONGEST_S", 0.0)
    request = BenchRequest(
        model=model, protocol="server", rate="800/s", slo="median<5s", profile=True,
        **QUICK,
    )  # fmt: skip
    spec, store, heard = run_spec(request, load_config()), Store(tmp_path / "s"), list[Event]()
    execution = Execution(listen=heard.append)
    run = bench_or_search(spec, store=store, execution=execution, slo=request.slo)
    assert run.load is not None
    assert len(run.load.points) == 1
    assert len(run.load.points[0].windows) == 2
    assert not run.load.complete
    assert document_from_load(run.load.having(capacity_hz=0.0), run)  # what somebody else wrote
    assert "ignores --profile and --telemetry" in str(heard[0].text)
    assert not run.record.spec.profile
    for each in heard:  # 80 queries at 800/s, though 50 ms were asked for
        assert each.seconds in (None, 0.1) or "one after the other" in str(each.text)


def test_a_bound_below_a_lone_query_needs_no_search(model: Path, tmp_path: Path) -> None:
    request = BenchRequest(model=model, protocol="server", slo="p99<1ns", **QUICK)
    spec = run_spec(request, load_config())
    run = bench_or_search(spec, store=Store(tmp_path / "s"), execution=Execution(), slo=request.slo)
    load = run.load
    assert load is not None
    assert not load.points
    assert load.highest_hz is None
    facts = document_from_load(load, run).sections[0].blocks[0]
    assert "no rate meets" in str(facts)


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
    assert isinstance(run, Run)
    assert len(run.times) >= 10
    found = store.reindex(cached_from_run)
    assert (found.runs, found.dropped, found.damaged) == (1, (), {})
    assert store.load("last").id == run.id
