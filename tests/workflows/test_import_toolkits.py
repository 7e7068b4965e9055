"""Folders of toolkits 000 and 004, and records of our own, as runs."""

import json
import shutil
from pathlib import Path

import pytest
from imports import bring, only, record, toolkit_files

import leftovers
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError
from trtbench.core.run import Fact
from trtbench.importing.run import LOG
from trtbench.store.store import Store
from trtbench.trtexec.conditions import build_metadata_from_log, profile_metadata_from_log
from trtbench.trtexec.log import read_log
from trtbench.workflows.report import load_runs


def test_a_folder_of_evaluation_toolkit_is_one_run(tmp_path: Path, store: Store) -> None:
    found = only(bring(leftovers.folder_000(tmp_path / "run"), store=store))
    made = record(found)
    assert len(found.files) == 7
    assert made.spec.model.path == "/models/pose.engine"
    assert made.spec.model.size_bytes == 1048576
    assert made.facts["measured_at"] == "2025-09-18T10:11:12+08:00"
    config = json.loads((toolkit_files(found, store) / "run_config.json").read_text())
    assert config["timestamp_iso"] == "2025-09-18T10:11:12+08:00"
    assert (config["batch"], config["warmup"], config["avg_runs"]) == (4, 200, 10)
    assert config["profile_enabled"] is True
    assert config["separate_profile_run"] is True


def test_our_own_metadata_speaks_for_its_log(tmp_path: Path, store: Store) -> None:
    first = only(bring(leftovers.run_set(tmp_path / "set"), store=store))
    assert first.path is not None
    for name in ("times.json", "graph.json"):
        shutil.copy(first.path / name, tmp_path / f"net.{name}")
    (log,) = read_log((first.path / LOG).read_bytes(), where=LOG).runs
    for name, make in (("build", build_metadata_from_log), ("profile", profile_metadata_from_log)):
        (tmp_path / f"net.{name}.metadata.json").write_bytes(json_from_value(make(log)))
    found = only(bring(*tmp_path.glob("net.*"), store=store))
    made = record(found)
    assert made.conditions == record(first).conditions
    assert made.environment.versions == {"tensorrt": "8.6.1"}
    assert made.environment.gpus == record(first).environment.gpus
    assert made.reported["latency_p99_ms"] == record(first).reported["latency_p99_ms"]
    assert found.samples == 80


def test_a_folder_of_trtexec_pipeline_is_one_run(tmp_path: Path, store: Store) -> None:
    times = leftovers.times_text()
    measured = leftovers.log_text(times, engine="x.engine")
    built = leftovers.log_text(None, flags="--onnx=x.onnx --saveEngine=x.engine", options=False)
    texts = {
        "x.timing.json": times,
        "x.graph.json": leftovers.graph_text(),
        "x.profile.json": leftovers.profile_text(),
        "x.profile.log": measured,
        "x.build.log": built.replace("--loadEngine=net.engine ", ""),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "x.engine").write_bytes(b"ftrt" + bytes(60))
    result = bring(tmp_path, store=store)
    made = record(only(result))
    assert result.unused == ()
    assert made.spec.model.name == "x.engine"
    assert made.spec.model.sha256 is not None
    assert made.conditions["typing"] == Fact(value="weak", source="implied")
    path = only(result).path
    assert path is not None
    assert (path / "build.log").read_text() == (tmp_path / "x.build.log").read_text()


def test_results_of_evaluation_toolkit_alone(tmp_path: Path, store: Store) -> None:
    values = [2.0, 2.5, 3.0, 0.05]
    (tmp_path / "b").mkdir()
    (tmp_path / "summary.json").write_text(json.dumps(leftovers.summary_000(values)))
    (tmp_path / "b" / "latency_series.csv").write_text(leftovers.series_text(values))
    result = bring(tmp_path, store=store)
    by_parts = {each.parts: each for each in result.runs}
    summary, series = by_parts[("summary",)], by_parts[("latency_series",)]
    assert record(summary).reported["latency_p99.9_ms"] == 9.0
    assert (summary.samples, summary.median_s) == (0, pytest.approx(2.25e-3))
    assert (series.samples, series.median_s) == (4, pytest.approx(2.25e-3))
    assert record(summary).spec.batch == 4


def test_a_pytorch_result_of_evaluation_toolkit(tmp_path: Path, store: Store) -> None:
    (tmp_path / "bench_pt_result.json").write_text(json.dumps(leftovers.torch_result()))
    (tmp_path / "bench_pt_result.csv").write_text(leftovers.torch_csv())
    found = only(bring(tmp_path, store=store))
    made = record(found)
    spec = made.spec
    assert (spec.runtime, spec.model.name, spec.protocol) == ("torch", "yolo.pt", "serve")
    assert made.conditions["tf32"] == Fact(value=False, source="stated")
    assert found.median_s == pytest.approx(4.5e-3)
    assert made.facts["items_per_s"] == 400.0


def test_toolkit_files_go_where_they_are_asked_for(tmp_path: Path, store: Store) -> None:
    folder = leftovers.folder_000(tmp_path / "run")
    (folder / "output_diff.json").write_text('{"heatmap": {"max_abs": 0.0125}}')
    with pytest.raises(InputError) as refused:
        load_runs([str(folder)], store=store)
    assert refused.value.fix == f"trtbench import {folder}"
    bring(folder, store=store, output=tmp_path / "out", again=True)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    copy = json.loads((tmp_path / "out" / "output_diff.json").read_text())
    assert report["output_comparison"] == copy == {"heatmap": {"max_abs": 0.0125}}
    assert "0.0125" in (tmp_path / "out" / "report.md").read_text()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    result = bring(folder, store=store, output=folder)
    names = {path.name for path in result.written}
    assert {"summary.csv", "enqueue_series.csv", "per_layer_times.csv", "latency_hist.png"} <= names
    assert {path: path.read_bytes() for path in before} == before
    assert only(result).known_as == only(bring(folder, store=store)).known_as is not None


def test_run_directories_of_our_own_are_left_alone(tmp_path: Path, store: Store) -> None:
    bring(leftovers.run_set(tmp_path / "set"), store=store)
    result = bring(store.root, store=store)
    assert result.runs == ()
    assert any("reindex" in each.reason for each in result.unused)
