"""What is written for other tools is read back to an equal value."""

from __future__ import annotations

import io
import json

import msgspec
import numpy as np
import pytest
from made_runs import NASTY, made_profile, made_run, made_times, phased_times

import logs
from trtbench.analysis.other_definitions import COMPARED_STATISTICS
from trtbench.domain.codec import json_from_value
from trtbench.domain.samples import IterationTimes, LayerProfile, times_from_columns
from trtbench.formats.evaluation_toolkit import (
    data_files,
    engine_metadata,
    run_config,
    summary,
    torch_benchmark,
)
from trtbench.formats.toolkit_files import (
    EngineMetadata,
    RunConfig,
    ToolkitSummary,
    TorchBenchmark,
    csv_from_layers,
    csv_from_metrics,
    csv_from_series,
    csv_from_summary,
    layers_from_csv,
    metrics_from_csv,
    series_from_csv,
    summary_from_csv,
    value_from_document,
)
from trtbench.formats.trtexec_exports import profile_json, times_json
from trtbench.trtexec.log import log_from_text
from trtbench.trtexec.metadata import (
    BUILD_SECTIONS,
    PROFILE_SECTIONS,
    build_metadata_from_log,
    log_from_metadata,
    profile_metadata_from_log,
)
from trtbench.trtexec.profile import profile_from_json
from trtbench.trtexec.times import read_times, times_from_file

RUNS = {
    "phases": made_run(phased_times(), model='net, of "two".onnx'),
    "nasty": made_run(phased_times(), model=NASTY),
    "host only": made_run(made_times(300)),
    "no samples": made_run(IterationTimes()),
    "pytorch": made_run(phased_times(), runtime="torch", model="net.pt"),
}


def again(kind: type[msgspec.Struct], value: msgspec.Struct) -> msgspec.Struct:
    return value_from_document(kind, json.loads(json_from_value(value)))


@pytest.mark.parametrize("name", RUNS)
def test_documents_of_the_evaluation_toolkit(name: str) -> None:
    run = RUNS[name]
    assert again(ToolkitSummary, summary(run)) == summary(run)
    assert again(RunConfig, run_config(run)) == run_config(run)
    assert again(EngineMetadata, engine_metadata(run)) == engine_metadata(run)
    flat = summary_from_csv(csv_from_summary(summary(run)))
    if name == "nasty":  # a table holds no control characters
        assert flat.latency == summary(run).latency
    else:
        assert flat == summary(run)


def test_the_result_of_its_pytorch_benchmark() -> None:
    told = torch_benchmark(RUNS["pytorch"])
    assert told is not None
    assert set(told.metrics) == {"host", "h2d", "gpu", "d2h"}
    assert again(TorchBenchmark, told) == told
    read = metrics_from_csv(csv_from_metrics(told.metrics, COMPARED_STATISTICS))
    assert {name: pytest.approx(row, abs=1e-6) for name, row in told.metrics.items()} == read
    assert torch_benchmark(RUNS["phases"]) is None
    with pytest.raises(ValueError, match="metric"):
        metrics_from_csv("name,min\nhost,1\n")


def test_series_and_layers() -> None:
    column = phased_times(50).latency
    assert column is not None
    name, read = series_from_csv(csv_from_series(column, name="latency"))
    assert name == "latency"
    np.testing.assert_allclose(read, column, rtol=1e-15)
    profile = made_profile(7)
    layers = tuple(
        layer.having(min_s=layer.average_s / 2, max_s=2 * layer.average_s)
        for layer in profile.layers
    )
    back = layers_from_csv(csv_from_layers(LayerProfile(count=100, layers=layers)))
    assert back is not None
    assert back.count == 100
    for layer, other in zip(sorted(layers, key=lambda x: -x.average_s), back.layers, strict=True):
        told = layer.having(median_s=None)
        assert msgspec.to_builtins(other) == pytest.approx(msgspec.to_builtins(told))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"batch_size": "8", "useCudaGraph": True}, RunConfig(batch=8, use_cuda_graph=True)),
        ({"warmUp": "500", "iters": 10}, RunConfig(warmup=500, iterations=10)),
        ({"batch": [], "iterations": "many", "command": 5, "outdir": None}, RunConfig()),
        ([], RunConfig()),
    ],
)
def test_other_spellings_are_read_and_nonsense_is_unknown(
    document: object, expected: RunConfig
) -> None:
    assert value_from_document(RunConfig, document) == expected


def test_one_bad_number_does_not_cost_the_others() -> None:
    told = {"latency": {"mean_ms": "1.5", "max_ms": {}, "percentiles_ms": {"p50": 1, "p99": "x"}}}
    block = value_from_document(ToolkitSummary, told).latency
    assert block is not None
    assert (block.mean_ms, block.max_ms, block.percentiles_ms) == (1.5, None, {"p50": 1.0})


def test_times_and_profiles_of_trtexec() -> None:
    stamps = {
        f"{edge}_{part}": np.array([2.0, 2.5, 3.5]) + k * 1e-3
        for k, part in enumerate(("enqueue", "h2d", "gpu", "d2h"))
        for edge in ("start", "end")
    }
    spans = {name: np.array([1e-3, 2e-3, 3e-3]) for name in ("h2d", "gpu", "d2h", "latency")}
    times = times_from_columns({**stamps, **spans})
    read = times_from_file(read_times(io.BytesIO(times_json(times)), where="times.json"))
    for name, column in times.columns():
        np.testing.assert_allclose(dict(read.columns())[name], column, atol=1e-12, err_msg=name)
    profile = made_profile(9)
    back = profile_from_json(profile_json(profile), where="profile.json")
    for layer, other in zip(profile.layers, back.layers, strict=True):
        assert msgspec.to_builtins(other) == pytest.approx(msgspec.to_builtins(layer))


def test_metadata_in_the_layout_of_trex() -> None:
    (run,) = log_from_text(logs.log_10(), where="x.log")
    for sections, document in (
        (BUILD_SECTIONS, build_metadata_from_log(run)),
        (PROFILE_SECTIONS, profile_metadata_from_log(run)),
    ):
        read = log_from_metadata(json.loads(json_from_value(document)), where="x.log")
        assert {s.name: dict(s.entries) for s in read.sections} == {
            s.name: dict(s.entries) for s in run.sections if s.name in sections
        }
        assert (read.version, read.build, read.command) == (run.version, run.build, run.command)
        if sections == BUILD_SECTIONS:
            assert (read.facts, read.trace) == (run.facts, run.trace)
        else:
            assert read.summary == run.summary


def test_files_of_a_run_are_the_values_that_are_read() -> None:
    files = data_files(RUNS["pytorch"])
    assert {"bench_pt_result.json", "bench_pt_result.csv"} <= set(files)
    read = value_from_document(ToolkitSummary, json.loads(files["summary.json"]))
    assert read == summary_from_csv(files["summary.csv"].decode()) == summary(RUNS["pytorch"])
