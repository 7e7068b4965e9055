"""Files, logs and texts from other machines, where they lie beside the checkout."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from trtbench.trtexec import conditions
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import LogText
from trtbench.trtexec.times import read_times, statistics_as_printed
from trtbench.trtexec.version import abilities_from_help, abilities_of_version


def test_abilities_of_real_help_texts(beside: Path) -> None:
    ten = abilities_from_help(next(beside.glob("NVIDIA__trt-*/**/Help.txt")).read_bytes())
    seven = abilities_from_help(next(beside.glob("Khairul*/**/trtexec-help.txt")).read_bytes())
    assert ten.version == "10.16.1"
    assert len(ten.flags) > 100
    assert not ten.has_inverted_defaults
    known = abilities_of_version("10.16.1").flags
    assert known - ten.flags <= {"--streams", "--plugins"}, "the table and the tool agree"
    assert abilities_of_version("7.2").flags <= seven.flags | {"--plugins"}


def read_pasted(pasted: Path, name: str) -> LogText:
    return read_log((pasted / name).read_bytes(), where=name)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("orin_notes_cut_8x.txt", [128.765, 242.706]),
        ("two_summaries_GTX1070.md", [797.639, 1253.1]),
        ("two_passed_no_running_861.txt", [97.4735, 44.7524]),
    ],
)
def test_two_summaries_are_two_runs(pasted: Path, name: str, rates: list[float]) -> None:
    found = read_pasted(pasted, name)
    assert [run.summary and run.summary.throughput_qps for run in found.runs] == rates
    assert {run.outcome for run in found.runs} <= {"cut", "passed"}


def test_a_command_above_the_first_is_not_the_second_ones(pasted: Path) -> None:
    first, second = read_pasted(pasted, "orin_notes_cut_8x.txt").runs
    assert conditions.conditions_from_log(first)["streams"].value == 2
    assert conditions.conditions_from_log(second)["streams"].value is None


def test_nine_cells_are_nine_runs(pasted: Path) -> None:
    found = read_pasted(pasted, "notebook_nine_summaries.ipynb")
    assert len(found.runs) == 9
    assert {run.version for run in found.runs} == {"10.1.0"}


def test_an_indented_log_without_a_summary_has_its_averages(pasted: Path) -> None:
    (run,) = read_pasted(pasted, "tx2_trt71_indented_cut.md").runs
    assert (run.outcome, run.major, len(run.average_lines)) == ("cut", 7, 4)
    assert run.summary.derived


def test_old_wordings_keep_their_percentile(pasted: Path) -> None:
    (xavier,) = read_pasted(pasted, "issue118_trt6_xavier.log").runs
    assert conditions.reported_from_log(xavier)["gpu_compute_time_p99_ms"] == 59.9569
    (google,) = read_pasted(pasted, "googlenet_bvlc_32_int8.txt").runs
    assert conditions.reported_from_log(google)["gpu_compute_time_p99_ms"] == 6.28486
    (plain,) = read_pasted(pasted, "plain_average_trt3.txt").runs
    assert set(conditions.reported_from_log(plain)) == {"gpu_compute_time_mean_ms"}
    assert conditions.conditions_from_log(plain)["transfers"].value is False


def check_times(columns: Any, metrics: dict[str, dict[str, float]], *, warmup_ms: float) -> None:
    """What is computed from times must be what trtexec printed."""
    ours = statistics_as_printed(columns, warmup_ms=warmup_ms)
    assert ours
    for label, statistics in ours.items():
        for name, value in statistics.items():
            assert value == pytest.approx(metrics[label][name], rel=2e-5), label


@pytest.mark.parametrize("name", ["resnet18_fp16_load", "resnet18_fp16_load_cudagraph"])
def test_8_6_log_and_times(beside: Path, name: str) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    (run,) = read_log((folder / f"{name}.log").read_bytes(), where=name).runs
    (array,) = read_times((folder / f"{name}.times.json").read_bytes(), where=name)
    assert run.queries == len(array)
    check_times(array.columns, run.summary.metrics, warmup_ms=500)


@pytest.mark.parametrize("index", range(7))
def test_7_1_log_and_times(beside: Path, index: int) -> None:
    folder = next(beside.glob("shafikahdarwis__jetson-trtexec/**/ResNet50_N2"))
    run = read_log(next(folder.glob("raw_*")).read_bytes(), where="raw").runs[index]
    times = read_times(next(folder.glob("times_*")).read_bytes(), where="times", warmup_ms=200)
    array, batch = times[index], int(run.option("Batch") or 0)
    assert run.warmup_queries == array.warmup_rows * batch
    check_times(array.columns, run.summary.metrics, warmup_ms=200)


def test_every_metadata_file_with_times(beside: Path) -> None:
    pairs = [
        (path, times)
        for path in sorted(beside.rglob("*.profile.metadata.json"))
        if (times := path.with_name(path.name.replace(".profile.metadata.", ".timing."))).is_file()
    ]
    assert len(pairs) >= 8
    for path, times in pairs:
        run = conditions.log_from_metadata(json.loads(path.read_bytes()), where=path.name)
        warmup = re.search(r"\+ (\d+)ms", run.option("Duration") or "")
        (array,) = read_times(times.read_bytes(), where=path.name)
        check_times(array.columns, run.summary.metrics, warmup_ms=float(warmup[1]))
