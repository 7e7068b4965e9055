"""Runs for other people's tools: read back with those tools."""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import records

from command import Say
from trtbench.store.store import Store
from trtbench.workflows.export import export_runs


@pytest.fixture
def store(tmp_path) -> Store:
    made = Store(tmp_path / "store")
    records.add(made, records.record("r1", model="a.onnx", tags=("nightly", "x y")))
    records.add(made, records.record("r2", model="b.onnx", runtime="torch", tags=("a//b/../c/",)))
    records.add(made, records.failed("f1"))
    return made


@pytest.mark.real("pyarrow")
def test_parquet_holds_every_run_and_every_sample(tmp_path, store):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    done = export_runs(store.index.find(), store=store, to="parquet", output=str(tmp_path / "out"))
    assert (done.runs, done.problems) == (3, ())
    runs = parquet.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    by_id = {row["id"]: row for row in runs}
    assert set(by_id) == {"r1", "r2", "f1"}
    assert by_id["r1"]["host_median_s"] == pytest.approx(np.median(records.TIMES.host), rel=0.02)
    assert by_id["r1"]["tags"] == "nightly,x y"
    assert by_id["r1"]["instant_s"] == 1794744000.0
    assert (by_id["f1"]["kind"], by_id["f1"]["reason"]) == ("failed", "ended by SIGKILL")
    assert by_id["f1"]["host_median_s"] is None  # unknown is not zero
    samples = parquet.read_table(tmp_path / "out" / "samples.parquet")
    assert samples.num_rows == 100
    rows = [row for row in samples.to_pylist() if row["run"] == "r2"]
    assert [row["host"] for row in rows] == list(records.TIMES.host)
    assert {row["gpu"] for row in rows} == {None}
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"runs.parquet", "samples.parquet"}


@pytest.mark.real("pyarrow")
def test_a_damaged_run_is_told_and_the_others_go_out(tmp_path, store, say: Say):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (store.runs / "r2" / "samples.npz").write_bytes(b"not a zip")
    printed = say("runs", "export", "--to", "parquet", "-o", "out", "--json", status=1)
    assert json.loads(printed.out)["runs"] == 2
    assert "not exported: r2" in printed.err


def test_a_tracking_server_gets_what_it_does_not_have(store, monkeypatch, say: Say):
    names = ("tracking", "entities", "exceptions")
    mlflow = {name: MagicMock() for name in ("mlflow", *(f"mlflow.{each}" for each in names))}
    for name, module in mlflow.items():
        monkeypatch.setitem(sys.modules, name, module)
    mlflow["mlflow.exceptions"].MlflowException = LookupError
    client = mlflow["mlflow.tracking"].MlflowClient.return_value
    known = MagicMock(data=MagicMock(tags={"trtbench.id": "r2"}))
    pages = [MagicMock(token="more"), MagicMock(token=None)]
    pages[0].__iter__.return_value, pages[1].__iter__.return_value = [], [known]
    client.search_runs.side_effect = pages
    words = ["runs", "export", "--to", "mlflow", "-o", "http://host"]
    told = say(*words, "--json").json
    assert (told["runs"], told["skipped"]) == (2, 1)
    tags = [call.args[1:] for call in client.set_tag.call_args_list]
    assert tags[0:2] == [("tag.nightly", "true"), ("tag.x y", "true")]
    assert {value for name, value in tags if name == "trtbench.id"} == {"r1", "f1"}
    ends = [call.kwargs["status"] for call in client.set_terminated.call_args_list]
    assert sorted(ends) == ["FAILED", "FINISHED"]
    files = {Path(call.args[1]).name for call in client.log_artifact.call_args_list}
    assert {"run.json", "samples.npz"} <= files
    problems = ((OSError("no route"), "cannot write to MLflow"), (KeyError(), "MLflow refused a"))
    for problem, message in problems:
        client.search_runs.side_effect = problem
        assert message in say(*words, status=1).err
    monkeypatch.setattr("trtbench.workflows.export.MOST_PAGES", 3)
    client.search_runs.side_effect = [pages[0]] * 4  # and so on, without end
    assert "more than 3 pages" in say(*words, status=1).err


@pytest.mark.slow
@pytest.mark.real("MLflow")
def test_mlflow_gets_each_run_once(tmp_path, store, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # Newer versions refuse folders unless told, and databases need more than the small package.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path / 'mlruns'}"
    done = export_runs(store.index.find(), store=store, to="mlflow", output=uri)
    assert (done.runs, done.skipped) == (3, 0)
    records.add(store, records.record("r3"))
    done = export_runs(store.index.find(), store=store, to="mlflow", output=uri)
    assert (done.runs, done.skipped) == (1, 3)
    client = tracking.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("trtbench")
    found = {
        run.data.tags["trtbench.id"]: run for run in client.search_runs([experiment.experiment_id])
    }
    assert set(found) == {"r1", "r2", "r3", "f1"}
    first = found["r1"]
    assert first.data.params["model"] == "a.onnx"
    assert first.data.metrics["host_median_s"] == pytest.approx(1.5e-3, rel=0.02)
    assert first.data.tags["tag.nightly"] == "true"
    assert (first.info.status, found["f1"].info.status) == ("FINISHED", "FAILED")
    assert "run.json" in {each.path for each in client.list_artifacts(first.info.run_id)}
