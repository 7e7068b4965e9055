"""trtexec's numbers from trtexec's times, of files that lie beside the checkout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from printed import NAMES, check_enqueue, check_log, check_span, percentiles

from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.statistics import text_from_number, trace_averages, trtexec_statistics
from trtbench.trtexec.times import read_times

LOADED = ("resnet18_fp16_load", "resnet18_fp16_load_cudagraph")


@pytest.mark.parametrize("name", LOADED)
def test_8_6_log_and_times(beside: Path, name: str) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    times = read_times((folder / f"{name}.times.json").read_bytes(), where=name)
    ours = trtexec_statistics(times.columns, warmup_ms=500)
    check_log(run, ours)
    unstable = run.message("unstable")
    if unstable is not None:
        printed = re.search(r"variance = ([\d.]+)%", unstable.text)
        assert printed is not None
        cov = ours.metrics["GPU Compute Time"].cov_percent
        assert text_from_number(cov) == printed[1].rstrip(".")


@pytest.mark.parametrize("name", LOADED)
def test_8_6_trace_averages(beside: Path, name: str) -> None:
    folder = beside / "h200__trtexec-8.6.0"
    (run,) = log_from_text((folder / f"{name}.log").read_bytes(), where=name)
    times = read_times((folder / f"{name}.times.json").read_bytes(), where=name)
    ours = trace_averages(times.columns, warmup_ms=500)
    printed = [(line.gpu_ms, line.host_ms) for line in run.averages]
    assert [tuple(float(text_from_number(v)) for v in pair) for pair in ours] == printed


@pytest.mark.parametrize("index", range(7))
def test_7_1_log_and_times(beside: Path, index: int) -> None:
    folder = next(beside.glob("shafikahdarwis__jetson-trtexec/**/ResNet50_N2"))
    run = log_from_text(next(folder.glob("raw_*")).read_bytes(), where="raw")[index]
    times = read_times(next(folder.glob("times_*")).read_bytes(), where="times", warmup_ms=200)
    batch = int(run.option("Batch") or 0)
    columns = times.arrays[index].columns
    ours = trtexec_statistics(columns, percentiles=(99,), batch=batch, warmup_ms=200)
    dropped = times.arrays[index].warmup_rows + ours.warmup_rows
    assert run.warmup_queries == dropped * batch
    check_log(run, ours, batch=batch)


def _metadata_pairs(folder: Path) -> list[Path]:
    found = folder.rglob("*.profile.metadata.json")
    return sorted(p for p in found if _times_of(p).is_file())


def _times_of(metadata: Path) -> Path:
    return metadata.with_name(metadata.name.replace(".profile.metadata.", ".timing."))


def test_every_metadata_file_with_times(beside: Path) -> None:
    pairs = _metadata_pairs(beside)
    assert len(pairs) >= 8
    for path in pairs:
        document = json.loads(path.read_bytes())
        summary = document["performance_summary"]
        warmup = re.search(r"\+ (\d+)ms", document["inference_options"]["Duration"])
        assert warmup is not None
        times = read_times(_times_of(path).read_bytes(), where=path.name)
        asked = percentiles(summary)
        ours = trtexec_statistics(times.columns, percentiles=asked, warmup_ms=float(warmup[1]))
        labels = [*NAMES, *(f"{text_from_number(p)}%" for p in asked)]
        for label in ("Latency", "H2D Latency", "GPU Compute Time", "D2H Latency"):
            metric = ours.metrics[label]
            found = [getattr(metric, f"{name}_ms") for name in NAMES]
            found += metric.percentiles_ms.values()
            printed = [text_from_number(value) for value in summary[label]]
            assert [text_from_number(value) for value in found] == printed, (path.name, label)
        check_enqueue(ours, dict(zip(labels, summary["Enqueue Time"], strict=True)))
        total = text_from_number(summary["Total GPU Compute Time"])
        assert text_from_number(ours.gpu_total_s) == total
        check_span(ours, wall_s=summary["Total Host Walltime"], qps=summary["Throughput"])
