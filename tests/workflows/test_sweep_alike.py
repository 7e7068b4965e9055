"""Axes mean what they say, presets give way to files and runtimes, like is compared with like."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from made_data import colour_folder, colour_network
from onnx import helper
from sweeps import rows_of

import analysis_values as values
from command import Say
from models import conv_model, tiny_model
from trtbench.analysis.summary import summary_from_run
from trtbench.analysis.sweep import SweepRow, mark_best
from trtbench.store.directory import read_record

SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--format", "none"]


def test_switches_are_switches(trtexec: Any, place: Path, say: Say) -> None:
    conv_model(place / "net.onnx")
    words = ["net.onnx", "-r", "trtexec", "--axis", "transfers=on,off", "--axis", "spin_wait=on"]
    say("sweep", *words, "--axis", "telemetry=off", *SHORT, "-o", "out", status=0)
    specs = [read_record(place / "store" / "runs" / row["runs"][0]).spec
             for row in rows_of(place / "out")]  # fmt: skip
    assert [(each.transfers, each.spin_wait) for each in specs] == [(True, True), (False, True)]
    assert [row["transfers"] for row in rows_of(place / "out")] == ["on", "off"]


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("transfers=on,maybe", "neither on nor off"),
        ("threads=1,two", "not an integer"),
        ("streams=0", "--axis streams=1"),
        ("warmup=5parsecs", "5parsecs"),
        ("protocol=serv", "--axis protocol=serve"),
    ],
)
def test_a_value_that_its_field_does_not_take_is_refused_first(axis, said, place, say):
    tiny_model(place / "net.onnx")
    words = ("sweep", "net.onnx", "--precision", "int8", "--axis", axis, "-o", "out")
    assert said in say(*words, status=2).err
    assert not (place / "store" / "steps").exists()


def test_booleans_of_yaml_are_words_where_words_are_meant(place: Path, say: Say) -> None:
    tiny_model(place / "net.onnx")
    (place / "sweep.yaml").write_text(
        "models: net.onnx\noptions: {cuda_graph: [off], until_steady: [off], duration: 20ms}\n"
        "exclude: [{until_steady: on}]\n"
    )
    say("sweep", "sweep.yaml", "--format", "none", "-o", "out", status=0)
    spec = read_record(place / "store" / "runs" / rows_of(place / "out")[0]["runs"][0]).spec
    assert (spec.cuda_graph, spec.warmup.until_steady) == ("off", False)


def test_cases_that_measure_the_same_are_named(place: Path, say: Say) -> None:
    tiny_model(place / "net.onnx")
    words = ["sweep", "net.onnx", "--precision", "as-is,fp32"]
    said = "2 cases have the same settings: net · onnxruntime; net · onnxruntime · fp32"
    assert said in say(*words, "--dry-run", status=0).words
    assert said in say(*words, *SHORT, "-o", "out", status=0).err
    assert [row["remark"] for row in rows_of(place / "out")] == [said, said]


def test_a_preset_gives_way_to_files_and_to_trtexec(trtexec: Any, place: Path, say: Say) -> None:
    (place / "one.engine").write_bytes(trtexec.engine().read_bytes())
    words = ["sweep", "--preset", "depth", "one.engine", "-r", "trtexec"]
    short = ["--rounds", "1", "--axis", "iterations=20", "--format", "none"]
    say(*words, *short, "-o", "a", status=0)
    (row,) = rows_of(place / "a")
    assert "its own precision instead of fp32, fp16, int8 of the preset" in row["remark"]
    assert "without protocol=serve, warmup_iterations=50 of the preset" in row["remark"]
    record = read_record(place / "store" / "runs" / row["runs"][0])
    assert (record.spec.stop.iterations, record.spec.telemetry_s) == (20, 0.1), "the rest holds"
    assert say(*words, "--precision", "fp32").status == 2, "what is asked for does not give way"
    tiny_model(place / "two.onnx", batch=2)
    cases = say("sweep", "two.onnx", "--preset", "pose", "--dry-run", "--json").json["cases"]
    assert [each["case"]["batch"] for each in cases] == [2, 2, 2]
    assert "its own batch instead of 1, 2, 4, 8 of the preset" in cases[0]["notes"][0]


def test_what_cannot_be_is_refused_before_building(trtexec: Any, place: Path, say: Say) -> None:
    tiny_model(place / "net.onnx", batch=2)
    (place / "one.engine").write_bytes(trtexec.engine().read_bytes())
    words = ["sweep", "net.onnx", "-r", "trtexec"]
    say(*words, *SHORT, "--batch", "2,3", "-o", "a", status=0)
    assert [row["reason"] is None for row in rows_of(place / "a")] == [True, False]
    assert len(list((place / "store" / "steps").glob("build-*"))) == 1
    plan = say(*words, "--axis", "protocol=serve,pipeline", "--dry-run", status=0)
    assert "build 1 0 1" in plan.words, "no step of a refused case"
    words = ["sweep", "net.onnx", "one.engine", "--dry-run", "-r"]
    assert "-r onnxruntime,tensorrt" in say(*words, "onnxruntime", status=2).err
    cases = say(*words, "onnxruntime,trtexec", "--json").json["cases"]
    names = [each["name"] for each in cases]
    assert names == ["net · onnxruntime", "net · trtexec · static", "one · trtexec"]


def row(runtime: str, people: int, ms: float | None) -> SweepRow:
    times = None if ms is None else values.launches_of([np.full(20, ms / 1e3)])
    return SweepRow(model="net", runtime=runtime, batch=1, options={"shape.M": people},
                    summary=times and summary_from_run(values.run(times)))  # fmt: skip


def test_baselines_stars_and_speedups_are_of_equal_shapes() -> None:
    rows = [row("torch", 1, 4), row("torch", 2, 6), row("torch", 5, None),
            row("tensorrt", 1, 1), row("tensorrt", 2, 3), row("tensorrt", 5, 8)]  # fmt: skip
    found = mark_best(rows)
    assert [each.speedup for each in found] == [1, 4, 1, 2, None, None]
    assert [each.on_front for each in found] == [False, True, False, True, False, False]


def test_where_and_gate_know_the_speedup(place: Path, say: Say) -> None:
    conv_model(place / "net.onnx", size="side")
    words = ["net.onnx", "--axis", "shape.side=16,64", "--axis", "threads=1,2"]
    asked = ["--where", "speedup==1", "--best", "speedup"]
    chosen = say("sweep", *words, *SHORT, *asked, "--json", "-o", "out").json["chosen"]
    assert len(chosen) == 2, "a baseline for each shape"
    assert "| Speed-up |" in (place / "out" / "results.md").read_text()
    refused = say("gate", "net.onnx", "--metric", "speedup>=2", status=2)
    assert "speedup>=2 needs something to compare with" in refused.err
    turns = ["net.onnx", "--against", "net.onnx", "--launches", "2", "--time-limit", "1s"]
    for rule, status in (("speedup>=50", 3), ("speedup>=0.01", 0), ("speedup<=2", 2)):
        noisy = "fail" if status else "pass"  # two launches beside other work may be unclear
        more = ["--pairs", "10", "--on-unclear", noisy, "--metric", rule]
        say("gate", *turns, *more, status=status)


def test_every_model_is_prepared_in_its_own_way(place: Path, say: Say) -> None:
    """Ultralytics does not normalize; the metadata of the file or its name says what it is."""
    colour_folder(place / "val", per_class=2)
    names = ("resnet", "own", "yolov8n-cls")
    for name in names:
        model = onnx.load(colour_network(place / f"{name}.onnx"))
        said = {"imgsz": "[16, 16]", "task": "classify"} if name == "own" else {}
        helper.set_model_props(model, said)
        onnx.save(model, place / f"{name}.onnx")
    words = [f"{name}.onnx" for name in names] + ["--precision", "fp32,int8", *SHORT]
    words += ["--data", "val", "--calibration", "val", "--task", "classification"]
    for more, others in (([], "none"), (["--normalize", "imagenet"], "imagenet")):
        say("sweep", *words, *more, "-o", f"out-{others}", status=0)
        for name, how in zip(names, ("imagenet", others, others), strict=True):
            folder = place / f"out-{others}" / f"accuracy-{name}"
            judged = json.loads((folder / "eval.json").read_text())
            assert judged["preparation"]["normalize"] == how
            assert not judged["findings"], "calibrated in the same way"
