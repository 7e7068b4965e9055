"""What was measured is kept, whatever breaks afterwards in the parent."""

from __future__ import annotations

import pytest

import models
from trtbench.domain.result import Run
from trtbench.errors import StoreError
from trtbench.store.directory import read_run, run_directories
from trtbench.store.store import Store
from trtbench.workflows.measure import bench
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec


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
    assert len(run.times) > 10
    found = store.reindex(cached_from_run)
    assert (found.runs, found.dropped, found.damaged) == (1, (), {})
    assert store.load("last").id == run.id


def test_an_index_that_cannot_be_written_does_not_cost_the_measurement(asked, monkeypatch):
    def refuse(*_, **__):
        raise StoreError("the index is on strike", facts={"reason": "pay"})

    spec, store = asked
    with monkeypatch.context() as patched:
        patched.setattr(store.index, "put", refuse)
        with pytest.raises(StoreError, match="the run is on disk") as caught:
            run_bench(spec, store=store)
    assert caught.value.fix == "trtbench runs reindex"
    found = store.reindex(cached_from_run)
    assert (found.runs, found.dropped, found.damaged) == (1, (), {})


def test_derived_files_that_cannot_be_written_do_not_cost_the_measurement(asked, monkeypatch):
    def full(run, folder):
        raise StoreError("the disk is full")

    spec, store = asked
    monkeypatch.setattr(bench, "write_run_files", full)
    with pytest.raises(StoreError, match="the disk is full"):
        run_bench(spec, store=store)
    assert isinstance(store.load("last"), Run), "the run is in the index all the same"
