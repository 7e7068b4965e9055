"""Files of other tools, written and read back."""

import csv
import io
import json
from io import StringIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from made_runs import NASTY, made_profile, made_run, made_times, phased_times
from PIL import Image

import logs
from trtbench.core.codec import json_from_value
from trtbench.core.run import Run
from trtbench.core.samples import IterationTimes, LayerProfile, times_from_columns
from trtbench.formats import toolkit
from trtbench.report.run_facts import summary_of
from trtbench.trtexec import conditions
from trtbench.trtexec.exports import profile_json, profiles_from_json
from trtbench.trtexec.log import read_log
from trtbench.trtexec.times import read_times, times_from_arrays, times_json

LISTED = {
    "summary.json", "summary.csv", "latency_series.csv", "latency_percentiles.csv",
    "enqueue_series.csv", "compute_series.csv", "per_layer_times.csv", "per_layer_time.png",
    "engine_metadata.json", "run_config.json", "latency_hist.png", "percentiles.png",
    "report.json", "report.md",
}  # fmt: skip


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(data.decode(), newline="")))


def test_all_listed_files_are_written_and_no_others(tmp_path: Path) -> None:
    run = made_run(phased_times(), layers=made_profile(40), model=NASTY)
    paths = toolkit.write_toolkit_files(run, tmp_path / "artifacts")
    assert {path.name for path in paths} == LISTED
    for path in paths:
        if path.suffix == ".png":
            Image.open(path).verify()
    text = (tmp_path / "artifacts" / "report.md").read_text("utf-8")
    assert text.count("![") == 3


def test_numbers_are_those_of_numpy() -> None:
    run = made_run(phased_times())
    made = toolkit.summary(run)
    ms = run.times.latency * 1e3
    block, ours = made.latency, summary_of(run).column("latency")
    assert block.mean_ms == pytest.approx(ms.mean())
    assert block.std_ms == pytest.approx(ms.std(ddof=0)) == pytest.approx(ours.std * 1e3)
    assert block.percentiles_ms["p99_5"] == pytest.approx(np.percentile(ms, 99.5))
    assert list(block.percentiles_ms) == [
        "p0", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p97", "p99", "p99_5",
        "p99_9", "p100",
    ]  # fmt: skip
    assert made.throughput_qps == pytest.approx(4 * 1000 / ms.mean())
    assert made.queries_per_s == pytest.approx(1 / run.times.host.mean())
    assert made.items_per_s == pytest.approx(4 / run.times.host.mean())
    assert "interpolation" in made.definitions["percentiles_ms"]


def test_an_engine_faster_than_a_tenth_of_a_millisecond_is_not_taken_for_seconds() -> None:
    fast = np.full(50, 2e-5)
    files = toolkit.data_files(made_run(times_from_columns({"latency": fast, "gpu": fast})))
    assert json.loads(files["summary.json"])["latency"]["mean_ms"] == pytest.approx(0.02)
    assert float(rows(files["compute_series.csv"])[0]["compute_ms"]) == pytest.approx(0.02)


def test_without_device_spans_latency_is_host_time_and_the_file_says_so() -> None:
    run = made_run(made_times(100))
    files = toolkit.data_files(run)
    made = json.loads(files["summary.json"])
    assert made["latency"]["median_ms"] == pytest.approx(np.median(run.times.host) * 1e3)
    assert "host" in made["definitions"]["latency"]
    assert made["enqueue"] is made["compute"] is made["end_to_end"] is None
    assert not {"enqueue_series.csv", "compute_series.csv", "end_to_end_series.csv"} & set(files)


def test_layer_times_are_averages_per_inference_and_twins_stay_two() -> None:
    run = made_run(phased_times(), layers=made_profile(5))
    made = rows(toolkit.data_files(run)["per_layer_times.csv"])
    assert list(made[0]) == [
        "name", "avg_time_ms", "min_time_ms", "max_time_ms", "calls", "percent_of_total",
    ]  # fmt: skip
    assert [row["name"] for row in made] == ["conv3", "conv3", "conv2", "conv1", "conv0"]
    assert float(made[0]["avg_time_ms"]) == pytest.approx(4e-3)
    assert made[0]["calls"] == "100"
    assert sum(float(row["percent_of_total"]) for row in made) == pytest.approx(100)


def test_times_have_the_twelve_keys_and_null_for_what_was_not_seen() -> None:
    data = times_json(made_times(3))
    made = json.loads(data)
    assert list(made[0]) == [
        "startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs",
        "startD2hMs", "endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs",
    ]  # fmt: skip
    assert set(made[0].values()) == {None}
    assert data.decode().splitlines()[1].startswith("  {")


def test_times_carry_spans_in_milliseconds_and_enqueue_as_a_difference() -> None:
    times = phased_times(20)
    made = json.loads(times_json(times))
    assert [row["computeMs"] for row in made] == pytest.approx(times.gpu * 1e3)
    enqueue = [row["endEnqMs"] - row["startEnqMs"] for row in made]
    assert enqueue == pytest.approx(times.enqueue * 1e3)
    assert made[5]["startH2dMs"] is None


def test_stamps_that_were_imported_are_written_back() -> None:
    stamps = {"start_h2d": np.array([0.5, 0.6]), "end_enqueue": np.array([0.1, 0.2])}
    made = json.loads(times_json(times_from_columns({"gpu": np.array([1e-3, np.nan]), **stamps})))
    assert made[1]["startH2dMs"] == 600.0
    assert made[0]["endEnqMs"] == 100.0
    assert made[1]["computeMs"] is None


def test_enqueue_times_in_coarse_steps_are_left_out_or_as_printed() -> None:
    steps = np.repeat([1e-5, 2e-5], 50)
    times = IterationTimes(latency=np.full(100, 1e-3), enqueue=steps)
    exact = made_run(times)
    assert "enqueue_series.csv" in toolkit.data_files(exact)
    known = {**exact.record.facts, "enqueue_resolution_s": 1e-5}
    record = exact.record.having(facts=known)
    coarse = Run(record=record, times=times)
    assert "enqueue_series.csv" not in toolkit.data_files(coarse)
    assert toolkit.summary(coarse).enqueue is None
    assert "steps of 10 µs" in toolkit.summary(coarse).definitions["enqueue"]
    printed = {"enqueue_time_median_ms": 0.0134, "enqueue_time_mean_ms": 0.0139}
    told = Run(record=record.having(reported=printed), times=times)
    block = toolkit.summary(told).enqueue
    assert block.median_ms == pytest.approx(0.0134)
    assert toolkit.summary(exact).enqueue is not None
    assert "enqueue" not in toolkit.summary(exact).definitions


RUNS = {
    "phases": made_run(phased_times(), model='net, of "two".onnx'),
    "nasty": made_run(phased_times(), model=NASTY),
    "host only": made_run(made_times(300)),
    "no samples": made_run(IterationTimes()),
    "pytorch": made_run(phased_times(), runtime="torch", model="net.pt"),
}


def again(kind: type[msgspec.Struct], value: msgspec.Struct) -> msgspec.Struct:
    return toolkit.value_from_document(kind, json.loads(json_from_value(value)))


@pytest.mark.parametrize("name", RUNS)
def test_documents_of_the_evaluation_toolkit(name: str) -> None:
    run = RUNS[name]
    assert again(toolkit.ToolkitSummary, toolkit.summary(run)) == toolkit.summary(run)
    assert again(toolkit.RunConfig, toolkit.run_config(run)) == toolkit.run_config(run)
    assert again(toolkit.EngineMetadata, toolkit.engine_metadata(run)) == toolkit.engine_metadata(
        run
    )
    (row,) = rows(toolkit.data_files(run)["summary.csv"])
    latency = toolkit.summary(run).latency
    assert latency is None or float(row["latency.median_ms"]) == latency.median_ms


def test_the_result_of_its_pytorch_benchmark() -> None:
    told = toolkit.torch_benchmark(RUNS["pytorch"])
    assert set(told.metrics) == {"host", "h2d", "gpu", "d2h"}
    assert again(toolkit.TorchBenchmark, told) == told
    for row in rows(toolkit.data_files(RUNS["pytorch"])["bench_pt_result.csv"]):
        numbers = {name: float(value) for name, value in row.items() if name != "metric"}
        assert numbers == pytest.approx(told.metrics[row["metric"]], abs=1e-6)
    assert toolkit.torch_benchmark(RUNS["phases"]) is None


def test_series_and_layers() -> None:
    column = phased_times(50).latency
    assert column is not None
    name, read = toolkit.series_from_csv(toolkit.csv_from_series(column, name="latency"))
    assert name == "latency"
    np.testing.assert_allclose(read, column, rtol=1e-15)
    profile = made_profile(7)
    times = ((layer, layer.average_s) for layer in profile.layers)
    layers = tuple(layer.having(min_s=s / 2, max_s=2 * s) for layer, s in times)
    run = made_run(phased_times(), layers=LayerProfile(count=100, layers=layers))
    back = toolkit.layers_from_csv(toolkit.data_files(run)["per_layer_times.csv"].decode())
    assert back.count == 100
    for layer, other in zip(sorted(layers, key=lambda x: -x.average_s), back.layers, strict=True):
        told = layer.having(median_s=None)
        assert msgspec.to_builtins(other) == pytest.approx(msgspec.to_builtins(told))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"batch_size": "8", "useCudaGraph": True},
            toolkit.RunConfig(batch=8, use_cuda_graph=True),
        ),
        ({"warmUp": "500", "iters": 10}, toolkit.RunConfig(warmup=500, iterations=10)),
        ({"batch": [], "iterations": "many", "command": 5, "outdir": None}, toolkit.RunConfig()),
        ([], toolkit.RunConfig()),
    ],
)
def test_other_spellings_are_read_and_nonsense_is_unknown(
    document: object, expected: toolkit.RunConfig
) -> None:
    assert toolkit.value_from_document(toolkit.RunConfig, document) == expected


def test_one_bad_number_does_not_cost_the_others() -> None:
    told = {"latency": {"mean_ms": "1.5", "max_ms": {}, "percentiles_ms": {"p50": 1, "p99": "x"}}}
    block = toolkit.value_from_document(toolkit.ToolkitSummary, told).latency
    assert (block.mean_ms, block.max_ms, block.percentiles_ms) == (1.5, None, {"p50": 1.0})


def test_times_and_profiles_of_trtexec() -> None:
    stamps = {
        f"{edge}_{part}": np.array([2.0, 2.5, 3.5]) + k * 1e-3
        for k, part in enumerate(("enqueue", "h2d", "gpu", "d2h"))
        for edge in ("start", "end")
    }
    spans = {name: np.array([1e-3, 2e-3, 3e-3]) for name in ("h2d", "gpu", "d2h", "latency")}
    times = times_from_columns({**stamps, **spans})
    read = times_from_arrays(read_times(io.BytesIO(times_json(times)), where="times.json"))
    for name, column in times.columns():
        np.testing.assert_allclose(dict(read.columns())[name], column, atol=1e-12, err_msg=name)
    profile = made_profile(9)
    [back] = profiles_from_json(profile_json(profile), where="profile.json")
    for layer, other in zip(profile.layers, back.layers, strict=True):
        assert msgspec.to_builtins(other) == pytest.approx(msgspec.to_builtins(layer))


def test_metadata_in_the_layout_of_trex() -> None:
    (run,) = read_log(logs.log_10(), where="x.log").runs
    for sections, document in (
        (conditions.BUILD_SECTIONS, conditions.build_metadata_from_log(run)),
        (conditions.PROFILE_SECTIONS, conditions.profile_metadata_from_log(run)),
    ):
        read = conditions.log_from_metadata(json.loads(json_from_value(document)), where="x.log")
        assert {s.name: dict(s.entries) for s in read.sections} == {
            s.name: dict(s.entries) for s in run.sections if s.name in sections
        }
        assert (read.version, read.build, read.command) == (run.version, run.build, run.command)
        if sections == conditions.BUILD_SECTIONS:
            assert (read.facts, read.trace) == (run.facts, run.trace)
        else:
            assert read.summary == run.summary
