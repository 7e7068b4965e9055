"""What the analysis says of times files from real machines."""

from pathlib import Path

import numpy as np

from analysis_values import run
from trtbench.analysis.findings import findings_from_run
from trtbench.analysis.history import segment
from trtbench.analysis.summary import summarize
from trtbench.core.run import Run
from trtbench.trtexec.times import read_times, times_from_arrays

H200 = "h200__trtexec-8.6.0"


def real(folder: Path, name: str) -> Run:
    path = folder / name
    times = times_from_arrays(read_times(path.read_bytes(), where=path.name))
    return run(times, provenance="imported")


def found(measured: Run) -> set[str]:
    return {finding.code for finding in findings_from_run(measured)}


def test_without_a_graph_the_host_decides_and_the_level_wanders(beside: Path) -> None:
    plain = real(beside, f"{H200}/resnet18_fp16_load.times.json")
    graph = real(beside, f"{H200}/resnet18_fp16_load_cudagraph.times.json")
    assert "H20" in found(plain)
    assert "H20" not in found(graph)
    wandered = segment(plain.times.durations()["gpu"])
    assert wandered.kind != "flat"
    assert wandered.largest_change > 0.05


def test_seventeen_thousand_samples_may_be_worth_very_few(beside: Path) -> None:
    graph = real(beside, f"{H200}/resnet18_fp16_load_cudagraph.times.json")
    summary = summarize(graph.times).column("latency")
    assert summary.count > 17_000
    assert summary.effective < 100


def test_every_file_is_judged_without_failing(beside: Path) -> None:
    files = sorted(beside.rglob("*.timing.json"))
    assert files
    for path in files:
        measured = real(path.parent, path.name)
        assert "H14" in found(measured)
        for column in summarize(measured.times).columns:
            shown = [q.value for q in column.quantiles if q.value is not None]
            assert shown == sorted(shown)
            assert np.isfinite([column.median, column.mad, column.effective]).all()
