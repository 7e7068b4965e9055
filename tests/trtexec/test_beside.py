"""Files, logs and texts from other machines, where they lie beside the checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import samples
from trtbench.trtexec.conditions import (
    conditions_from_log,
    log_from_metadata,
    profile_metadata_from_log,
    reported_from_log,
)
from trtbench.trtexec.exports import (
    calibration_from_text,
    graph_from_json,
    outputs_from_json,
    profile_from_json,
    profiles_from_json,
)
from trtbench.trtexec.log import LogRun, LogText, Metric, log_from_text, read_log
from trtbench.trtexec.times import (
    TimesFile,
    read_times,
    statistics_as_printed,
    times_from_file,
)
from trtbench.trtexec.version import abilities_from_help, abilities_of_version


def read(data: bytes) -> TimesFile:
    return read_times(data, where="times.json")


def nearest_rank(column_ms: np.ndarray, percent: float) -> float:
    """trtexec's own percentile."""
    ordered = np.sort(column_ms)
    return float(ordered[max(len(ordered) - 1 - int((1 - percent / 100) * len(ordered)), 0)])


def queries_per_s(file: TimesFile) -> float:
    span_ms = file.arrays[0].columns["endD2hMs"][-1] - file.arrays[0].columns["startH2dMs"][0]
    return float(len(file) / span_ms * 1e3)


def test_alexnet_of_10_4(beside: Path) -> None:
    (path,) = beside.rglob("alexnet_fp16.timing.json")
    file = read(path.read_bytes())
    assert file.variant == "8.5"
    assert file.warmup_rows == 0
    assert np.median(file.arrays[0].columns["latencyMs"]) == pytest.approx(0.495605)
    assert nearest_rank(file.arrays[0].columns["latencyMs"], 99) == pytest.approx(0.5)
    assert queries_per_s(file) == pytest.approx(2012.22, rel=1e-4)
    assert times_from_file(file).h2d is None


def test_mobilenet_of_8_4(beside: Path) -> None:
    (path,) = beside.rglob("mobilenet.qat.onnx.engine.timing.json")
    file = read(path.read_bytes())
    assert (file.variant, file.warmup_rows, len(file)) == ("8.4", 455, 8945 - 455)
    found = [nearest_rank(file.arrays[0].columns["latencyMs"], p) for p in (90, 95, 99)]
    assert found == pytest.approx([0.352234, 0.352295, 0.376038])
    assert queries_per_s(file) == pytest.approx(2829.15, rel=1e-5)


def test_seven_exports_of_7_1_in_one_file(beside: Path) -> None:
    (path,) = beside.rglob("times_ResNet50_N2_None_int8_10.json")
    (log,) = beside.rglob("raw_ResNet50_N2_None_int8_10.txt")
    file = read(path.read_bytes())
    assert len(file.arrays) == 7
    assert all(array.swapped for array in file.arrays)
    printed = log.read_text(errors="replace").split("Enqueue Time")[1:]
    for array, text in zip(range(7), printed, strict=True):
        enqueue = times_from_file(TimesFile(arrays=(file.arrays[array],))).enqueue
        assert enqueue is not None
        median_ms = float(text.split("median: ")[1].split()[0])
        assert np.median(enqueue) * 1e3 == pytest.approx(median_ms, abs=0.011)


def test_seven_real_profiles_in_one_file(beside: Path) -> None:
    (path,) = beside.rglob("profile_ResNet50_N2_None_int8_10.json")
    profiles = profiles_from_json(path.read_bytes(), where=path.name)
    assert [profile.count for profile in profiles][:3] == [1013, 477, 282]
    assert {len(profile.layers) for profile in profiles} == {58}


def test_names_of_profile_and_graph_agree(beside: Path) -> None:
    from trtbench.trtexec.exports import graph_from_json

    folder = beside / "julianleeowl__depth-anything-win"
    profile = profile_from_json((folder / "profile.json").read_bytes(), where="profile.json")
    graph = graph_from_json((folder / "layers.json").read_bytes(), where="layers.json")
    assert [layer.name for layer in profile.layers] == [layer.name for layer in graph.layers]
    assert len(profile.layers) == 139


def test_parameters_of_resnet18(beside: Path) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    path = folder / "resnet18_fp16_b1.graph.json"
    graph = graph_from_json(path.read_bytes(), where=path.name)
    assert sum(layer.weights_count or 0 for layer in graph.layers) == 11_684_712
    assert graph.layers[-1].origin == ("/fc/Gemm",)


def test_seven_real_outputs_in_one_file(beside: Path) -> None:
    (path,) = samples.artefact_files(beside, "output")
    sets = outputs_from_json(path.read_bytes(), where=path.name)
    assert [tensors[0].values.size // 1000 for tensors in sets] == [1, 4, 8, 16, 32, 64, 128]
    assert all(np.isfinite(tensors[0].values).all() for tensors in sets)


def test_every_real_calibration_cache_is_read(beside: Path) -> None:
    caches = {
        path.name: calibration_from_text(path.read_bytes(), where=path.name)
        for path in samples.artefact_files(beside, "calibration")
    }
    assert len(caches) >= 9
    assert all(cache.algorithm == "EntropyCalibration2" for cache in caches.values())
    assert sum(not each.usable for each in caches["int8.cache"].scales) == 87
    assert len(caches["googlenet_calibration"].duplicates) == 76
    traffic = caches["resnet18_trafficcamnet_pruned_int8.txt"]
    assert traffic.version == "10.3.0"
    assert sum(":0" in each.name for each in traffic.scales) == 142


def test_abilities_of_real_help_texts(beside: Path) -> None:
    ten = abilities_from_help(next(beside.glob("NVIDIA__trt-*/**/Help.txt")).read_bytes())
    seven = abilities_from_help(next(beside.glob("Khairul*/**/trtexec-help.txt")).read_bytes())
    assert ten.version == "10.16.1"
    assert len(ten.flags) > 100
    assert not ten.inverted
    known = abilities_of_version("10.16.1").flags
    assert known - ten.flags <= {"--streams", "--plugins"}, "the table and the tool agree"
    assert abilities_of_version("7.2").flags <= seven.flags | {"--plugins"}


BATCH_SWEEP = "shafikahdarwis__jetson-trtexec/**/raw_*.txt"


def _runs(folder: Path, pattern: str) -> tuple[LogRun, ...]:
    path = next(folder.glob(pattern))
    return log_from_text(path.read_bytes(), where=path.name)


@pytest.mark.parametrize(
    ("pattern", "count", "version", "outcome"),
    [
        ("h200__*/resnet18_fp16_b1.log", 1, "8.6.0", "passed"),
        ("h200__*/fail_shape.log", 1, "8.6.0", "failed"),
        ("h200__*/fail_flag.log", 1, "8.6.0", "failed"),
        ("lix19937__*/qat/resnet18.log", 1, "8.5.10", "passed"),
        ("lix19937__*/trtexec/orin_build_from_shqi.log", 1, "8.4.10", "crashed"),
        ("NVIDIA__trt-samples*/cookbook/07-Tool/trtexec/result-02.log", 1, "10.16.1", "passed"),
        ("NVIDIA__trt-samples*/cookbook/07-Tool/trtexec/Help.txt", 1, "10.16.1", "help"),
        ("_textindex/id41319842216*", 1, "10.0.1", "failed"),
        ("_textindex/id59067542034*", 1, "8.0.1", "passed"),
        ("_textindex/id14991181718*", 1, None, "crashed"),
        ("tku411770448__*/**/*.log", 1, "10.1.0", "failed"),
        ("KhairulIzwan__*/files/int8_batch1.txt", 4, None, "passed"),
        ("haanjack__*/**/*.log", 2, None, "passed"),
        (BATCH_SWEEP, 7, None, "passed"),
    ],
)
def test_runs_versions_and_outcomes(
    beside: Path, pattern: str, count: int, version: str | None, outcome: str
) -> None:
    runs = _runs(beside, pattern)
    assert len(runs) == count
    assert {run.version for run in runs} == {version}
    assert {run.outcome for run in runs} == {outcome}


def test_8_6_loaded_engine(beside: Path) -> None:
    (run,) = _runs(beside, "h200__*/resnet18_fp16_load.log")
    assert run.summary is not None
    assert run.summary.throughput_qps == 3495.52
    assert run.summary.metrics["Enqueue Time"].percentiles_ms["95%"] == 0.299316
    assert run.facts.load_s == 0.0409327
    assert run.facts.deserialize_s == 0.0271163
    assert (run.warmup_queries, run.queries) == (2044, 10489)
    assert {message.code for message in run.messages} == {"enqueue-bound", "unstable"}
    conditions = conditions_from_log(run)
    assert conditions["spin_wait"].value is True
    assert conditions["batch"].value == 1


def test_8_6_build_with_a_name_first_table(beside: Path) -> None:
    (run,) = _runs(beside, "h200__*/vit_b_16_fp16_b1.log")
    assert run.profile is not None
    assert run.profile.count == 1491
    assert [layer.name for layer in run.profile.layers][1:] == [
        "/conv_proj/Conv",
        "{ForeignNode[encoder.layers.encoder_layer_0.ln_1.weight...(Unnamed Layer* 2406) "
        "[ElementWise]]}",
    ]
    assert run.facts.build_s == 93.2246
    assert run.facts.timing_cache_loaded_bytes == 292339
    assert run.facts.timing_cache_refused
    assert run.facts.onnx["Producer version"] == "2.11.0"


def test_10_16_profile_without_timing(beside: Path) -> None:
    (run,) = _runs(beside, "NVIDIA__trt-samples*/cookbook/07-Tool/trtexec/result-05.log")
    assert run.timing_withheld
    assert run.summary is None
    assert run.profile is not None
    assert len(run.profile.layers) == 15
    assert run.build == 11


def test_batch_sweep_of_7_1(beside: Path) -> None:
    runs = _runs(beside, BATCH_SWEEP)
    assert [conditions_from_log(run)["batch"].value for run in runs] == [1, 4, 8, 16, 32, 64, 128]
    last = runs[-1].summary
    assert last is not None
    assert last.throughput_qps == 508.664
    assert last.metrics["End-to-End Host Latency"].percentiles_ms == {"99%": 274.088}


def test_failures_are_named(beside: Path) -> None:
    (run,) = _runs(beside, "_textindex/id41319842216*")
    assert run.messages[0].code == "version-mismatch"
    (run,) = _runs(beside, "h200__*/fail_trunc.log")
    assert run.messages[0].code == "engine-damaged"
    (run,) = _runs(beside, "h200__*/fail_shape.log")
    assert run.messages[0].code == "shape-mismatch"
    (run,) = _runs(beside, "_textindex/id34224763039*")
    assert any("scaleAllPositive" in line for each in run.messages for line in each.detail)


def test_metadata_equals_what_the_original_parsed_where_it_was_right(beside: Path) -> None:
    """Of logs and metadata there is no pair; the layout is compared with the original's."""
    import json

    path = next(beside.glob("fuzzylabs__*/**/alexnet_fp16.profile.metadata.json"))
    theirs = json.loads(path.read_bytes())
    (run,) = _runs(beside, "NVIDIA__trt-samples*/cookbook/07-Tool/trtexec/result-01.log")
    ours = profile_metadata_from_log(run)
    assert set(theirs) <= set(ours)
    assert list(theirs["performance_summary"]) == list(ours["performance_summary"])
    assert set(theirs["inference_options"]) <= set(ours["inference_options"])
    assert list(theirs["device_information"]) == list(ours["device_information"])


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
    assert found.summaries == 2
    assert {run.outcome for run in found.runs} <= {"cut", "passed"}


def test_a_command_above_the_first_is_not_the_second_ones(pasted: Path) -> None:
    first, second = read_pasted(pasted, "orin_notes_cut_8x.txt").runs
    assert conditions_from_log(first)["streams"].value == 2
    assert conditions_from_log(second)["streams"].value is None


def test_nine_cells_are_nine_runs(pasted: Path) -> None:
    found = read_pasted(pasted, "notebook_nine_summaries.ipynb")
    assert len(found.runs) == found.summaries == 9
    assert {run.version for run in found.runs} == {"10.1.0"}


def test_an_indented_log_without_a_summary_has_its_averages(pasted: Path) -> None:
    (run,) = read_pasted(pasted, "tx2_trt71_indented_cut.md").runs
    assert (run.outcome, run.major, len(run.averages)) == ("cut", 7, 4)
    assert run.summary is not None
    assert run.summary.derived


def test_old_wordings_keep_their_percentile(pasted: Path) -> None:
    (xavier,) = read_pasted(pasted, "issue118_trt6_xavier.log").runs
    assert reported_from_log(xavier)["gpu_compute_time_p99_ms"] == 59.9569
    (google,) = read_pasted(pasted, "googlenet_bvlc_32_int8.txt").runs
    assert reported_from_log(google)["gpu_compute_time_p99_ms"] == 6.28486
    (plain,) = read_pasted(pasted, "plain_average_trt3.txt").runs
    assert set(reported_from_log(plain)) == {"gpu_compute_time_mean_ms"}
    assert conditions_from_log(plain)["transfers"].value is False


def check_times(columns: Any, metrics: dict[str, Metric], *, warmup_ms: float) -> None:
    """What is computed from times must be what trtexec printed."""
    ours = statistics_as_printed(columns, warmup_ms=warmup_ms)
    assert ours
    for label, statistics in ours.items():
        for name, value in statistics.items():
            assert value == pytest.approx(getattr(metrics[label], name), rel=2e-5), label


@pytest.mark.parametrize("name", ["resnet18_fp16_load", "resnet18_fp16_load_cudagraph"])
def test_8_6_log_and_times(beside: Path, name: str) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    (array,) = read_times((folder / f"{name}.times.json").read_bytes(), where=name).arrays
    assert run.summary is not None
    assert run.queries == len(array)
    check_times(array.columns, run.summary.metrics, warmup_ms=500)


@pytest.mark.parametrize("index", range(7))
def test_7_1_log_and_times(beside: Path, index: int) -> None:
    folder = next(beside.glob("shafikahdarwis__jetson-trtexec/**/ResNet50_N2"))
    run = log_from_text(next(folder.glob("raw_*")).read_bytes(), where="raw")[index]
    times = read_times(next(folder.glob("times_*")).read_bytes(), where="times", warmup_ms=200)
    array, batch = times.arrays[index], int(run.option("Batch") or 0)
    assert run.summary is not None
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
        run = log_from_metadata(json.loads(path.read_bytes()), where=path.name)
        warmup = re.search(r"\+ (\d+)ms", run.option("Duration") or "")
        assert warmup is not None
        assert run.summary is not None
        (array,) = read_times(times.read_bytes(), where=path.name).arrays
        check_times(array.columns, run.summary.metrics, warmup_ms=float(warmup[1]))
