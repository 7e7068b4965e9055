"""Runs of logs alone: the printed numbers are numbers everywhere, and known as what they are."""

import csv
import datetime
import json
import os
from pathlib import Path

import pytest
from imports import bring, only, record, stored, toolkit_files

from trtbench.analysis.gate import evaluate, rules_from_text, slowdown_rule
from trtbench.analysis.stored_comparison import compare_apart
from trtbench.analysis.summary import summary_from_run
from trtbench.compare.compare import comparison_from_runs
from trtbench.core.errors import UsageError
from trtbench.core.run import Fact
from trtbench.report.compose import document_from_runs
from trtbench.requests.fields import FilterFields
from trtbench.requests.stored import HistoryRequest
from trtbench.store.store import Store
from trtbench.workflows.export import metrics_from_run
from trtbench.workflows.runs import list_runs, read_history

AVERAGE = "Average over 10 runs is {} ms (host walltime is {} ms, 99% percentile time is {}).\n"


def log(
    median_ms: float = 5.5,
    *,
    day: str = "03/04/2025",
    version: str = "8601",
    gpu: str = "Test GPU",
    warning: str = "",
    command: str = "trtexec --loadEngine=net.engine --useSpinWait",
) -> str:
    """Write a log as trtexec 8.6 does, of our own making."""
    stamp = f"[{day}-05:06:07]"
    pairs = (
        f"min = {median_ms - 0.5:g} ms, max = {median_ms + 2:g} ms, mean = {median_ms + 0.1:g} ms, "
        f"median = {median_ms:g} ms, percentile(90%) = {median_ms + 0.5:g} ms, "
        f"percentile(99%) = {median_ms + 1:g} ms"
    )
    lines = [
        "=== Device Information ===",
        f"Selected Device: {gpu}",
        "",
        "Timing trace has 500 queries over 3 s",
        "=== Performance summary ===",
        "Throughput: 166.5 qps",
        f"Latency: {pairs}",
        f"GPU Compute Time: {pairs}",
        "Total Host Walltime: 3.003 s",
    ]
    body = [f"{stamp} [I] {line}" for line in lines]
    if warning:
        body.append(f"{stamp} [W] {warning}")
    banner = f"TensorRT.trtexec [TensorRT v{version}] # {command}"
    return "\n".join([f"&&&& RUNNING {banner}", *body, f"&&&& PASSED {banner}"]) + "\n"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "net.log"
    path.write_text(log())
    return path


def test_files_of_a_run_and_gates_hold_the_printed_numbers(written: Path, store: Store) -> None:
    found = only(bring(written, store=store))
    run, folder = stored(found, store), toolkit_files(found, store)
    kept = {"files.json", "import.json", "run.json", "samples.npz", "trtexec_stdout.log"}
    assert {path.name for path in run.path.iterdir()} == kept  # the others are made when asked for
    assert not (folder / "times.json").exists()  # there are no samples
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["reported"] is True
    assert summary["latency"]["median_ms"] == pytest.approx(5.5)
    assert summary["latency"]["percentiles_ms"]["p99"] == pytest.approx(6.5)
    assert summary["compute"]["mean_ms"] == pytest.approx(5.6)
    (row,) = csv.DictReader((folder / "summary.csv").read_text().splitlines())
    assert float(row["latency.median_ms"]) == pytest.approx(5.5)
    metrics = metrics_from_run(run)
    assert metrics["latency_median_s"] == pytest.approx(5.5e-3)
    assert metrics["queries_per_s"] == 166.5
    assert "items_per_s" not in metrics  # the log does not say how many items a query has
    for rule, outcome in (
        ("median<6ms", "pass"), ("median<5ms", "fail"), ("gpu.p99<6ms", "fail"),
        ("throughput>=100/s", "pass"), ("p99.9<9ms", "fail"), ("h2d.median<1ms", "fail"),
    ):  # fmt: skip
        (result,) = evaluate([rules_from_text(rule)[0]], summary=summary_from_run(run))
        assert result.outcome == outcome, rule
        if result.value is not None and "throughput" not in rule:
            assert "reported" in result.message


def test_nightly_logs_become_a_history_by_one_import(tmp_path: Path, store: Store) -> None:
    begin = datetime.date(2023, 5, 1)
    for night in range(24):
        day = begin + datetime.timedelta(days=night)
        level = 5.5 if night < 12 else 6.5
        text = log(level + 0.01 * (night % 3), day=day.strftime("%m/%d/%Y"))
        (tmp_path / f"nightly-{day}.log").write_text(text)
    bring(tmp_path, store=store)
    (series,) = read_history(HistoryRequest(least=1), store=store).series
    assert len(series.points) == 24
    assert series.points[0].created.startswith("2023-05-01T05:06:07")
    (change,) = series.changes
    assert change.created.startswith("2023-05-13")
    assert len(list_runs(store, FilterFields(since="2023-05-20", until="2023-05-22"))) == 3


@pytest.mark.parametrize("which", ["log", "file", "stated"])
def test_when_a_run_was_and_how_that_is_known(which: str, written: Path, store: Store) -> None:
    if which == "file":
        written.write_text(log().replace("[03/04/2025-05:06:07] ", ""))
    os.utime(written, (1.5e9, 1.5e9))
    date = "2021-02-03" if which == "stated" else None
    made = record(only(bring(written, store=store, date=date)))
    assert made.facts["created_from"] == which
    day = {"log": "2025-03-04", "file": "2017-07-1", "stated": "2021-02-03"}[which]
    assert made.created.startswith(day)


def test_months_from_zero_and_lost_clocks(written: Path, store: Store) -> None:
    written.write_text("[00/22/2020-18:26:35] [I] " + AVERAGE.format(55.5, 56, 60))
    assert record(only(bring(written, store=store))).created.startswith("2020-01-22")
    written.write_text(log(day="01/01/1970"))
    assert record(only(bring(written, store=store))).facts["created_from"] == "file"


def test_what_the_user_states_is_kept_and_wins(written: Path, store: Store) -> None:
    found = bring(
        written, store=store, gpu="NVIDIA Orin", tensorrt="10.3", precision="FP16", tags=["orin"]
    )
    made = record(only(found))
    assert [gpu.name for gpu in made.environment.gpus] == ["NVIDIA Orin"]
    assert made.environment.versions["tensorrt"] == "10.3"
    assert made.conditions["precision"] == Fact(value="fp16", source="stated")
    assert made.spec.precision == "fp16"
    assert made.tags == ("orin",)
    assert any(note.startswith("given on import: GPU NVIDIA Orin") for note in made.notes)
    assert len(found.warnings) == 2
    for wrong in ({"date": "yesterday-ish"}, {"date": "0001-01-01"}, {"tensorrt": "eight"}):
        with pytest.raises(UsageError):
            bring(written, store=store, **wrong)


@pytest.mark.parametrize(
    ("warning", "kind"),
    [
        ("* GPU compute time is unstable, with coefficient of variance = 47.3%.", "unstable"),
        ("* Throughput may be bound by Enqueue Time rather than GPU Compute.", "enqueue-bound"),
        ("* Throughput may be bound by host-to-device transfers.", "h2d-bound"),
        ("CUDA graph capture on the stream has failed.", "graph-capture-failed"),
        ("Weakly-typed networks have been deprecated in TensorRT.", "weak-typing"),
        ("The GPU clocks were throttled during the run.", "throttled"),
    ],
)
def test_warnings_become_findings(warning: str, kind: str, tmp_path: Path, store: Store) -> None:
    (tmp_path / "net.log").write_text(log(warning=warning))
    made = record(only(bring(tmp_path, store=store)))
    (finding,) = (each for each in made.findings if each.code == "H47")
    assert finding.evidence["kind"] == kind
    assert str(finding.evidence["said"]) in warning
    assert len(finding.message) > 40


def test_precision_is_read_off_layers_where_the_log_is_silent(tmp_path: Path, store: Store) -> None:
    layer = "Name: c, LayerType: C, Outputs: [ { Name: y, Dimensions: [1], Format/Datatype: Half }]"
    text = log().replace("&&&& PASSED", f"Layers:\n{layer}\n&&&& PASSED")
    (tmp_path / "net.log").write_text(text)
    made = record(only(bring(tmp_path, store=store)))
    assert made.conditions["precision"] == Fact(value="fp16", source="implied")


def test_means_are_compared_where_no_more_was_printed(tmp_path: Path, store: Store) -> None:
    for name, mean in (("a", 4.0), ("b", 8.0)):
        (tmp_path / f"{name}.log").write_text("[I] " + AVERAGE.format(mean, mean + 1, mean + 2))
    first, second = (stored(each, store) for each in bring(tmp_path, store=store).runs)
    verdict = compare_apart(first, second).verdict("gpu")
    assert verdict.ratio == pytest.approx(2.0)
    assert "means" in verdict.reason


def test_a_mean_is_not_shown_as_a_median(tmp_path: Path, store: Store) -> None:
    (tmp_path / "old.txt").write_text("Average over 10 runs is 49.2 ms.\n" * 2)
    run = stored(only(bring(tmp_path, store=store)), store)
    table = document_from_runs([run]).tables()[0]
    median = table.rows[0][[heading.key for heading in table.headings].index("median_s")]
    assert median.shown == "49.2 ms (mean)"


DEVICES = {"Tesla T4": 7.5, "NVIDIA A100": 2.5, "Jetson Orin": 11.5}


def test_two_logs_of_two_gpus_have_a_ratio_that_says_so_and_no_gate_judges(
    tmp_path: Path, store: Store
) -> None:
    for name, median in DEVICES.items():
        version = "8503" if name == "Tesla T4" else "8601"
        text = log(median, gpu=name, version=version, command="trtexec --loadEngine=net.engine")
        (tmp_path / f"{name}.log").write_text(text)
    found = [stored(each, store) for each in bring(tmp_path, store=store).runs]
    runs = {run.record.environment.gpus[0].name: run for run in found}
    comparison = comparison_from_runs(runs["NVIDIA A100"], runs["Tesla T4"])
    verdict = comparison.verdict("latency")
    assert verdict.ratio == pytest.approx(3.0)
    assert (verdict.kind, verdict.interval) == ("unclear", None), "one launch each"
    assert verdict.across_devices == "NVIDIA A100 against Tesla T4"
    assert verdict.reason.startswith("across devices")
    told = {(each.code, each.severity): each.message for each in comparison.findings}
    assert "across devices" in told["H28", "warning"]
    assert any("8.6.1 against 8.5.3" in each.message for each in comparison.findings)
    assert not any(each.severity == "error" for each in comparison.findings)
    verdicts = {each.metric: each for each in comparison.verdicts}
    summary = summary_from_run(runs["Tesla T4"])
    (result,) = evaluate([slowdown_rule(0.03)], summary=summary, verdicts=verdicts)
    assert result.outcome == "fail"
    assert "two devices" in result.message
