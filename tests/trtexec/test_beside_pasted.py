"""Texts that people kept of trtexec: how many runs come of each, and what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.trtexec.log import LogText, conditions_from_log, read_log
from trtbench.trtexec.reported import reported_from_log


def read(pasted: Path, name: str) -> LogText:
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
    found = read(pasted, name)
    assert [run.summary and run.summary.throughput_qps for run in found.runs] == rates
    assert found.summaries == 2
    assert {run.outcome for run in found.runs} <= {"cut", "passed"}


def test_a_command_above_the_first_is_not_the_second_ones(pasted: Path) -> None:
    first, second = read(pasted, "orin_notes_cut_8x.txt").runs
    assert conditions_from_log(first)["streams"].value == 2
    assert conditions_from_log(second)["streams"].value is None


def test_nine_cells_are_nine_runs(pasted: Path) -> None:
    found = read(pasted, "notebook_nine_summaries.ipynb")
    assert len(found.runs) == found.summaries == 9
    assert {run.version for run in found.runs} == {"10.1.0"}


def test_an_indented_log_without_a_summary_has_its_averages(pasted: Path) -> None:
    (run,) = read(pasted, "tx2_trt71_indented_cut.md").runs
    assert (run.outcome, run.major, len(run.averages)) == ("cut", 7, 4)
    assert run.summary is not None
    assert run.summary.derived


def test_old_wordings_keep_their_percentile(pasted: Path) -> None:
    (xavier,) = read(pasted, "issue118_trt6_xavier.log").runs
    assert reported_from_log(xavier)["gpu_compute_time_p99_ms"] == 59.9569
    (google,) = read(pasted, "googlenet_bvlc_32_int8.txt").runs
    assert reported_from_log(google)["gpu_compute_time_p99_ms"] == 6.28486
    (plain,) = read(pasted, "plain_average_trt3.txt").runs
    assert set(reported_from_log(plain)) == {"gpu_compute_time_mean_ms"}
    assert conditions_from_log(plain)["transfers"].value is False
