"""Runs for other people's tools: read back with those tools."""

import json

import numpy as np
import pytest
import records

from command import Say
from trtbench.store.store import Store
from trtbench.workflows.export import export_runs


@pytest.mark.real("pyarrow")
def test_parquet_holds_every_run_and_sample_and_a_damaged_run_is_told(tmp_path, say: Say) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    store = Store(tmp_path / "store")
    records.add(store, records.record("r1", model="a.onnx", tags=("nightly", "x y")))
    records.add(store, records.record("r2", model="b.onnx", runtime="torch", tags=("a//b/../c/",)))
    records.add(store, records.failed("f1"))
    done = export_runs(store.index.find(), store=store, folder=tmp_path / "out")
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
    (store.runs / "r2" / "samples.npz").write_bytes(b"not a zip")
    printed = say("runs", "export", "-o", "rest", "--json", status=1)
    assert json.loads(printed.out)["runs"] == 2
    assert "not exported: r2" in printed.err
