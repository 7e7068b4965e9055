"""Numbers of logs from other machines, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from trtbench.trtexec.log import LogRun, conditions_from_log, log_from_text
from trtbench.trtexec.metadata import profile_metadata_from_log

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


def test_10_16_weak_typing(beside: Path) -> None:
    (run,) = _runs(beside, "NVIDIA__trt-samples*/cookbook/07-Tool/trtexec/result-02.log")
    assert run.facts.weak_typing_deprecated
    assert conditions_from_log(run)["typing"].value == "weak"
    assert conditions_from_log(run)["typing"].source == "stated"


def test_batch_sweep_of_7_1(beside: Path) -> None:
    runs = _runs(beside, BATCH_SWEEP)
    assert [conditions_from_log(run)["batch"].value for run in runs] == [1, 4, 8, 16, 32, 64, 128]
    last = runs[-1].summary
    assert last is not None
    assert last.throughput_qps == 508.664
    assert last.metrics["End-to-End Host Latency"].percentiles_ms == {"99%": 274.088}


def test_text_before_and_after(beside: Path) -> None:
    (run,) = _runs(beside, "_textindex/id59067542034*")
    assert run.preamble[0].startswith("root@")
    assert "MemUsageChange" in run.trailer[0]
    assert run.bindings[0].shape == (1, 3, 640, 640)


def test_crash_shows_its_last_words(beside: Path) -> None:
    (run,) = _runs(beside, "lix19937__*/trtexec/orin_build_from_shqi.log")
    assert "Assertion" in run.last_lines[-1]


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
