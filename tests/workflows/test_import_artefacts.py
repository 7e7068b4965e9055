"""Files that trtexec left behind become runs: what belongs together, and what is known of it."""

import json
import os
import random
import re
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from imports import bring, only, reasons, record, stored, toolkit_files
from test_log import FINAL, TUNING_10

import leftovers
import logs
from command import Say
from trtbench.core.errors import UsageError
from trtbench.core.run import Fact, FailedRun, precision_of
from trtbench.report.compose import document_from_runs
from trtbench.store.store import Store
from trtbench.trtexec.conditions import build_metadata_from_log
from trtbench.trtexec.log import read_log
from trtbench.trtexec.times import read_times
from trtbench.workflows.inspect import inspect
from trtbench.workflows.report import with_known_files


def test_a_set_of_files_is_one_run_with_its_conditions_and_numbers(
    tmp_path: Path, store: Store
) -> None:
    folder = leftovers.run_set(tmp_path / "set")
    found = only(bring(folder, store=store))
    made = record(found)
    assert found.parts == ("log", "times", "graph", "profile")
    assert made.provenance == "imported"
    assert made.spec.model.path == "net.engine"
    assert made.spec.runtime == "trtexec"
    assert made.environment.versions == {"tensorrt": "8.6.1"}
    assert made.environment.host == "unknown"
    gpu = made.environment.gpus[0]
    assert (gpu.name, gpu.sm_count, gpu.ecc) == ("Test GPU", 132, True)
    assert (gpu.sm_clock_default_hz, gpu.sm_clock_hz) == (1.98e9, None)
    assert made.conditions["transfers"] == Fact(value=True, source="stated")
    assert made.conditions["protocol"] == Fact(value="pipeline", source="implied")
    assert made.conditions["tf32"].source == "unknown"
    assert made.conditions["batch"] == Fact(value=4, source="implied")
    assert made.notes[0] == "the times reproduce the numbers that were printed"
    assert sorted(Path(each).name for each in made.sources) == sorted(
        path.name for path in folder.iterdir()
    )
    run = stored(found, store)
    times = read_times((folder / "net.times.json").read_bytes(), where="t")[0].columns
    assert len(run.times) == 80
    assert run.times.latency is not None
    assert np.allclose(run.times.latency * 1e3, times["latencyMs"])
    printed = run.record.reported
    assert printed["latency_median_ms"] == pytest.approx(np.median(times["latencyMs"]), rel=1e-5)
    (entry,) = store.index.find()
    assert entry.samples == 80
    rate = printed["throughput_qps"]
    assert isinstance(rate, float)
    assert entry.items_per_s == pytest.approx(4 * rate, rel=1e-4)
    assert entry.provenance == "imported"


def test_the_users_engine_is_hashed(tmp_path: Path, store: Store) -> None:
    engine = tmp_path / "mine.engine"
    engine.write_bytes(b"ftrt" + bytes(100))
    found = only(bring(leftovers.folder_000(tmp_path / "run"), store=store, engine=engine))
    assert found.record.spec.model.sha256 is not None
    assert found.record.spec.model.size_bytes == 104
    leftovers.run_set(tmp_path / "run", "other", seed=5)
    with pytest.raises(UsageError, match="applies to one run"):
        bring(tmp_path / "run", store=store, engine=engine)


def test_times_go_to_the_run_whose_numbers_they_reproduce(tmp_path: Path, store: Store) -> None:
    first, second = (leftovers.times_text(seed=s, gpu_ms=g) for s, g in ((1, 2.0), (2, 3.0)))
    (tmp_path / "sweep.log").write_text(
        leftovers.log_text(first, engine="a.engine") + leftovers.log_text(second, engine="b.engine")
    )
    (tmp_path / "one.json").write_text(second)
    (tmp_path / "two.json").write_text(first)
    result = bring(*tmp_path.glob("*.*"), store=store)
    names = {each.record.spec.model.name: {p.name for p in each.files} for each in result.runs}
    assert names == {"a.engine": {"sweep.log", "two.json"}, "b.engine": {"sweep.log", "one.json"}}
    logs = [stored(each, store).path for each in result.runs]
    texts = [(path / "trtexec_stdout.log").read_text() for path in logs if path]
    assert sorted(text.count("RUNNING") for text in texts) == [1, 1]
    assert texts[0] + texts[1] == (tmp_path / "sweep.log").read_text()


def test_exports_in_one_file_are_runs_of_their_own(tmp_path: Path, store: Store) -> None:
    texts = [leftovers.times_text(seed=s, gpu_ms=g, rows=50) for s, g in ((1, 2.0), (2, 3.0))]
    (tmp_path / "times_net.json").write_text("".join(texts))
    (tmp_path / "raw_net.txt").write_text("".join(leftovers.log_text(t) for t in reversed(texts)))
    (tmp_path / "profile_net.json").write_text(
        leftovers.profile_text(count=7) + leftovers.profile_text(count=9)
    )
    result = bring(tmp_path, store=store)
    runs = [stored(each, store) for each in result.runs]
    assert [
        round(float(np.median(r.times.gpu)) * 1e3) for r in runs if r.times.gpu is not None
    ] == [3, 2]
    assert [run.layers.count for run in runs if run.layers] == [7, 9]
    for run in runs:
        assert run.path is not None
        (again,) = read_times((run.path / "times.json").read_bytes(), where="t")
        assert len(again) == len(run.times) == 50


def test_times_of_another_run_do_not_join_a_log_of_their_name(tmp_path: Path, store: Store) -> None:
    (tmp_path / "net.log").write_text(leftovers.log_text(leftovers.times_text(seed=1)))
    (tmp_path / "net.times.json").write_text(leftovers.times_text(seed=2, gpu_ms=2.5))
    result = bring(tmp_path, store=store)
    assert sorted(each.parts for each in result.runs) == [("log",), ("times",)]


def test_a_command_that_names_files_claims_them(tmp_path: Path, store: Store) -> None:
    times = leftovers.times_text()
    flags = "--exportTimes=out/a.json --exportProfile=b.json --exportLayerInfo=c.json"
    (tmp_path / "out").mkdir()
    text = leftovers.log_text(times, flags=flags, engine="out/net.engine")
    (tmp_path / "night.log").write_text(text)
    (tmp_path / "out" / "a.json").write_text(times)
    (tmp_path / "out" / "net.engine").write_bytes(b"ftrt" + bytes(60))
    (tmp_path / "b.json").write_text(leftovers.profile_text())
    (tmp_path / "c.json").write_text(leftovers.graph_text())
    result = bring(tmp_path, store=store)
    assert set(only(result).parts) == {"log", "times", "profile", "graph", "plan"}
    assert only(result).record.spec.model.sha256 is not None
    assert result.unused == ()


def test_layer_information_of_another_engine_stays_out(tmp_path: Path, store: Store) -> None:
    (tmp_path / "profile.json").write_text(leftovers.profile_text())
    (tmp_path / "layers.json").write_text(leftovers.graph_text())
    (tmp_path / "other.graph.json").write_text(leftovers.graph_text(names=("a", "b")))
    result = bring(tmp_path, store=store)
    assert {path.name for path in only(result).files} == {"profile.json", "layers.json"}
    assert list(reasons(result)) == ["other.graph.json"]
    assert record(only(result)).inputs[0].shape == (4, 8)


def test_warm_up_rows_are_left_out_by_rule_or_as_told(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "times.json"
    path.write_text(leftovers.times_text(first_ms=2.0, rows=200))
    starts = read_times(path.read_bytes(), where="t", warmup_ms=0)[0].columns["startComputeMs"]
    by_rule = only(bring(path, store=store))
    assert by_rule.samples == int((starts >= 200).sum())
    assert "left out as warm-up" in " ".join(record(by_rule).notes)
    told = only(bring(path, store=store, warmup=0.3, again=True))
    assert told.samples == int((starts >= 300).sum())
    assert told.record.spec.warmup.floor.seconds == 0.3
    path.write_text(leftovers.times_text(first_ms=200.0, rows=200))  # as of TensorRT 8.5
    assert only(bring(path, store=store, again=True)).samples == 200
    starts = read_times(path.read_bytes(), where="t", warmup_ms=0)[0].columns["startComputeMs"]
    late = only(bring(path, store=store, warmup=0.25, again=True))
    assert late.samples == int((starts >= 250).sum()) < 200
    assert (
        "cannot be left out" in reasons(bring(path, store=store, warmup=9, again=True))[path.name]
    )


def test_times_alone_tell_transfers_and_little_else(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "t.json"
    path.write_text(leftovers.times_text(transfers=False))
    made = record(only(bring(path, store=store)))
    assert made.conditions["transfers"] == Fact(value=False, source="implied")
    assert made.conditions["protocol"] == Fact(value="gpu", source="implied")
    assert made.conditions["cuda_graph"].source == "unknown"
    assert made.environment.versions == {}
    assert "H44" in {finding.code for finding in made.findings}


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [("Myelin", "{ForeignNode[a...b]}", None), ("CaskConvolution", "conv", "fp32")],
)
def test_what_hides_its_layers_is_not_called_by_its_edges(
    tmp_path: Path, store: Store, kind: str, name: str, told: str | None
) -> None:
    (tmp_path / "net.times.json").write_text(leftovers.times_text())
    edge = {"Name": "x", "Dimensions": [1, 8], "Format/Datatype": "Row major linear FP32"}
    layer = {"Name": name, "LayerType": kind, "Inputs": [edge], "Outputs": [{**edge, "Name": "y"}]}
    graph = {"Layers": [layer], "Bindings": ["x", "y"]}
    (tmp_path / "net.graph.json").write_text(json.dumps(graph))
    assert precision_of(record(only(bring(tmp_path, store=store)))) == told


def test_files_are_known_again_by_content(tmp_path: Path, store: Store) -> None:
    folder = leftovers.run_set(tmp_path / "set")
    first = only(bring(folder, store=store))
    shutil.copytree(folder, tmp_path / "copy")
    second = only(bring(tmp_path / "copy", store=store))
    assert second.known_as == first.record.id
    assert len(store.index.find()) == 1
    both = bring(folder, tmp_path / "copy", store=store, again=True)
    assert [each.known_as for each in both.runs] == [None, both.runs[0].record.id]
    assert len(store.index.find()) == 2


def test_a_damaged_file_stops_nothing(tmp_path: Path, store: Store) -> None:
    folder = leftovers.run_set(tmp_path / "set")
    cut = leftovers.times_text()[:2000]
    (folder / "cut.times.json").write_text(cut)
    (folder / "empty.json").write_text("")
    (folder / "notes.md").write_text("# nothing of interest\n")
    result = bring(folder, store=store)
    only(result)
    said = reasons(result)
    assert said["cut.times.json"].startswith("is cut off")
    assert said["empty.json"] == "empty"
    assert "not recognised" in said["notes.md"]
    assert result.complete  # nobody named those files
    assert not bring(folder / "cut.times.json", store=store).complete


def test_failed_runs_and_help_are_told_apart(tmp_path: Path, store: Store) -> None:
    failed = leftovers.log_text(None, end="FAILED").replace(
        "&&&& FAILED", "[03/04/2025-05:06:07] [E] Unknown option: --bogus 1\n&&&& FAILED"
    )
    (tmp_path / "bad.log").write_text(failed)
    (tmp_path / "build.log").write_text(leftovers.log_text(None))
    result = bring(tmp_path, store=store)
    assert isinstance(only(result).record, FailedRun)
    assert "--bogus" in only(result).record.reason  # type: ignore[union-attr]
    assert "nothing was measured" in reasons(result)["build.log"]
    assert store.index.find()[0].kind == "failed"
    assert only(bring(tmp_path, store=store)).known_as == only(result).record.id


def test_odd_names_links_and_pipes_are_taken_or_told(tmp_path: Path, store: Store) -> None:
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/\xff [1].times.json"))
    odd.write_text(leftovers.times_text())
    (tmp_path / "lost.log").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.json")
    result = bring(tmp_path, store=store)
    assert stored(only(result), store).record.spec.model.name == "\ufffd [1]"
    assert reasons(result) == {"lost.log": "a broken link", "pipe.json": "not a regular file"}
    assert not bring(tmp_path / "pipe.json", store=store).complete


@pytest.mark.parametrize("seed", range(6))
def test_every_file_is_accounted_for(tmp_path: Path, store: Store, seed: int) -> None:
    draw = random.Random(seed)
    for name in ("a", "b"):
        leftovers.run_set(tmp_path / "x", name, seed=draw.randrange(3))
    leftovers.folder_000(tmp_path / "x" / "deep")
    (tmp_path / "x" / "net.engine").write_bytes(b"ftrt" + bytes(60))
    (tmp_path / "x" / "c.cache").write_text("TRT-8601-EntropyCalibration2\nx: 3c010a14\n")
    (tmp_path / "x" / "photo.png").write_bytes(bytes(range(256)))
    for path in sorted((tmp_path / "x").rglob("*")):
        if path.is_file() and draw.random() < 0.35:
            action = draw.choice(["remove", "rename", "cut"])
            if action == "remove":
                path.unlink()
            elif action == "rename":
                path.rename(path.with_name(f"z{draw.randrange(99)}-{path.name}"))
            else:
                path.write_bytes(path.read_bytes()[: draw.randrange(1, 3000)])
    result = bring(tmp_path / "x", store=store)
    used = {path for each in result.runs for path in each.files}
    named = {Path(each.path.split(" (")[0]) for each in result.unused}
    assert used | named == {path for path in (tmp_path / "x").rglob("*") if path.is_file()}


def whole_log(lines: list[str], **banner: str) -> str:
    begin, end = (logs.banner(kind, **banner) for kind in ("RUNNING", "PASSED"))
    return logs.text([begin, *lines, end])


def build_log() -> str:
    command = "trtexec --onnx=a/net.onnx --saveEngine=out/net.engine --skipInference --verbose"
    facts = logs.lines("Created engine with size: 12.5 MiB", "Engine built in 8.25 sec.")
    lines = [*logs.options(), *TUNING_10, *FINAL, *facts]
    return whole_log(lines, version="100300 b26", command=command)


def test_the_log_of_a_build_alone_is_a_build(tmp_path: Path, store: Store) -> None:
    (tmp_path / "build.log").write_text(build_log())
    found = only(bring(tmp_path, store=store))
    made = record(found)
    assert made.facts["built_only"] is True
    assert made.facts["build_s"] == 8.25
    assert {each.code for each in made.findings} <= {"H47"}
    run = stored(found, store)
    assert run.path is not None
    document = json.loads((run.path / "build.metadata.json").read_text())
    assert document["build_trace"]["layers"][0]["chosen"]["name"] == "kernel_a"
    assert document["build_options"]["Precision"] == "FP32+FP16"
    tactics = (run.path / "tactics.csv").read_text().splitlines()
    assert tactics[0] == "layer,runner,tactic,name,time_ms,chosen"
    assert len(tactics) == 3
    assert "kernel_b,0.25,False" in tactics[1]
    engine = json.loads((toolkit_files(found, store) / "engine_metadata.json").read_text())
    assert engine["path"] == "out/net.engine"
    assert engine["built_from"] == "a/net.onnx"
    report = document_from_runs([with_known_files(run, store=store)], title="A build")
    assert "build_tactics" in {each.id for each in report.tables()}


def test_a_build_beside_its_run_is_part_of_that_run(tmp_path: Path, store: Store) -> None:
    (tmp_path / "net.build.log").write_text(build_log())
    (tmp_path / "net.log").write_text(logs.log_10())
    found = only(bring(tmp_path, store=store))
    assert set(found.parts) == {"log", "build_log"}


def test_inspect_shows_a_build(tmp_path: Path, say: Say) -> None:
    """Its options and tactics, from the log and from what a build keeps of it."""
    path = tmp_path / "x.txt"
    path.write_text(build_log())
    found = inspect(path)
    assert found.kind == "log of a build"
    assert found.facts["tactics_tried"] == 2
    assert found.facts["device"] == "Test GPU"
    assert found.layers.rows[0][0] == "conv1 + relu1"
    assert ("Input build shape", "b:0=1+2+4") in found.options.rows
    kept = tmp_path / "x.build.metadata.json"
    with path.open("rb") as stream:
        [built] = read_log(stream, where="x").runs
    kept.write_bytes(msgspec.json.encode(build_metadata_from_log(built)))
    for each in (path, kept):
        told = say("inspect", each, status=0).out
        assert re.search(r"^Precision +FP32\+FP16$", told, re.MULTILINE)
        assert re.search(r"^conv1 \+ relu1 +kernel_a +", told, re.MULTILINE)
        assert "Load engine" not in told, "an option without a value"


@pytest.mark.parametrize(
    "document",
    [
        [{"latencyUs": 1500.0, "computeUs": 1200.0}] * 4,
        [{"latency_s": 0.0015, "gpu_compute_s": 0.0012}] * 4,
        {"perIteration": {"latency_us": [1500] * 4, "compute_us": [1200] * 4}},
        {"results": {"latency_ms": [1.5] * 4, "gpu_ms": [1.2] * 4}},
    ],
)
def test_other_units_and_nestings_of_times(document: object, tmp_path: Path, store: Store) -> None:
    (tmp_path / "times.json").write_text(json.dumps(document))
    run = stored(only(bring(tmp_path, store=store)), store)
    assert run.times.latency.tolist() == pytest.approx([1.5e-3] * 4)
    assert run.times.gpu.tolist() == pytest.approx([1.2e-3] * 4)


@pytest.mark.parametrize("name", ["name", "layerName", "layer"])
def test_profiles_with_averages_and_extremes(name: str, tmp_path: Path, store: Store) -> None:
    rows = [{name: "conv", "avgMs": 0.5, "minMs": 0.4, "maxMs": 0.9}]
    (tmp_path / "profile.json").write_text(json.dumps(rows))
    run = stored(only(bring(tmp_path, store=store)), store)
    (layer,) = run.layers.layers
    assert (layer.average_s, layer.min_s, layer.max_s) == pytest.approx((5e-4, 4e-4, 9e-4))


def test_differences_of_outputs_stay_with_their_run(tmp_path: Path, store: Store) -> None:
    (tmp_path / "trtexec_stdout.log").write_text(logs.log_10())
    (tmp_path / "output_diff.json").write_text('{"max_abs": 0.5}')
    run = with_known_files(stored(only(bring(tmp_path, store=store)), store), store=store)
    assert run.extra["output_comparison"] == {"max_abs": 0.5}


@pytest.mark.parametrize(
    ("built", "loaded", "version", "known"),
    [
        ("out/a.engine", "./out/a.engine", "8601", True),
        ("out/a.engine", "a.engine", "8601", False),
        ("out/a.engine", "out/a.engine", "8502", False),
    ],
    ids=["one path", "another path", "another version"],
)
def test_the_log_that_saved_an_engine_says_its_precision_to_the_runs_that_load_it(
    built: str, loaded: str, version: str, known: bool, tmp_path: Path, store: Store
) -> None:
    numbers = logs.lines("Throughput: 100 qps", "Latency: min = 4 ms, max = 6 ms, median = 5 ms")
    made = f"trtexec --onnx=a.onnx --saveEngine={built} --fp16"
    first = [*logs.lines("Engine built in 8 sec."), *numbers]
    (tmp_path / "first.log").write_text(whole_log(first, version="8601", command=made))
    second = whole_log(numbers, version=version, command=f"trtexec --loadEngine={loaded}")
    (tmp_path / "second.log").write_text(second)
    result = bring(tmp_path, store=store)
    run = next(each for each in result.runs if each.files[0].name == "second.log")
    assert record(run).conditions["precision"].value == ("fp32+fp16" if known else None)
    assert len(result.runs) == 2
