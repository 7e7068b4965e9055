"""Builds without a measurement, and layouts of other tools."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from imports import bring, only, record, stored, toolkit_files
from test_log_build import FINAL, TUNING_10

import logs
from command import Say
from trtbench.report.compose import document_from_runs
from trtbench.store.store import Store
from trtbench.trtexec.conditions import build_metadata_from_log
from trtbench.trtexec.log import read_log
from trtbench.workflows.inspect import inspect
from trtbench.workflows.report import with_known_files


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
