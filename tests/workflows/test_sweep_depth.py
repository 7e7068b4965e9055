"""Depth in one command: speed, telemetry, metrics, one table and pictures of several engines."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from made_data import depth_data, depth_network
from PIL import Image
from test_watched_runs import NVML

from gpu_standin import plan_bytes
from trtbench.cli import run as cli
from trtbench.store.directory import read_record
from trtbench.tasks import _images
from waiting import printed

TESTS = Path(__file__).resolve().parents[1]
FALLING = (
    NVML
    + """
LOOKS = []
def nvmlDeviceGetClockInfo(handle, kind):
    LOOKS.append(kind)
    return 2600 if kind == 2 else 1500 if LOOKS.count(1) % 2 else 900
"""
)
"""A GPU whose clock is lower at every second look."""
SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--axis", "until_steady=false"]


def test_one_table_and_the_pictures_of_all_models(place: Path, capsys) -> None:
    depth_data(place / "depth", count=3)
    for name, power in (("fp16", 1.0), ("int8", 0.5), ("mixed", 0.8)):
        depth_network(place / f"{name}.onnx", power=power)
    words = ["fp16.onnx", "int8.onnx", "mixed.onnx", "--task", "depth", "--data", "depth/images",
             "--gt", "depth/truth", "--normalize", "none", "--show", "2", "-o", "out"]  # fmt: skip
    assert cli(["sweep", *words, *SHORT]) == 0
    tables = [line for line in capsys.readouterr().out.splitlines() if "abs_rel" in line]
    assert len(tables) == 1, "one table for all models"
    rows = json.loads((place / "out" / "results.json").read_text())["rows"]
    errors = [row["abs_rel"] for row in rows]
    assert errors[0] < errors[2] < errors[1]
    assert "mae_to_first" not in rows[0]["scores"], "the first is what others are held against"
    assert rows[1]["mae_to_first"] > rows[2]["mae_to_first"] > 0
    pictures = {path.name for path in (place / "out" / "report").glob("*.png")}
    assert {"depth_comparison.png", "speed_benchmark.png"} <= pictures
    told = json.loads((place / "out" / "accuracy" / "eval.json").read_text())
    assert [each["label"] for each in told["models"]] == ["fp16", "int8", "mixed"]
    assert told["pictures"][0]["title"] == "Depth: 2.png"
    report = place / "out" / "report" / "report.html"
    report.write_text("of fewer runs")
    assert cli(["sweep", "--resume", "out", "--format", "none"]) == 0
    assert rows[0]["runs"][0] in report.read_text(), "no report of earlier results stays"
    again = json.loads((place / "out" / "results.json").read_text())["rows"]
    assert [row["runs"] for row in again] == [row["runs"] for row in rows]


def test_pictures_and_findings_are_of_all_rounds(place: Path, monkeypatch) -> None:
    depth_data(place / "depth", count=2)
    for name in ("fp16", "int8"):
        depth_network(place / f"{name}.onnx", power=0.5 if name == "int8" else 1.0)
    titles: list[str] = []
    draw = _images.draw_image

    def spy(*given: Any, **more: Any) -> None:
        titles.append(given[2])
        draw(*given, **more)

    monkeypatch.setattr(_images, "draw_image", spy)
    words = ["fp16.onnx", "int8.onnx", "--task", "depth", "--data", "depth/images", "--gt",
             "depth/truth", "--normalize", "none", "--rounds", "3", "--format", "none"]  # fmt: skip
    assert cli(["sweep", *words, *SHORT, "-o", "out"]) == 0
    rows = json.loads((place / "out" / "results.json").read_text())["rows"]
    shown = [text.splitlines()[1] for text in titles if "FPS" in text]
    fps = [text.split(", ")[1].removesuffix(" (mean)") for text in shown]
    assert fps == [f"{row['items']:.4g} FPS" for row in rows]
    assert not [each for row in rows for each in row["findings"] if each.startswith("H14")]


def test_one_image_is_what_speed_is_measured_on(place: Path) -> None:
    """A picture of one colour makes an input of one value: it is the picture that was fed."""
    model = depth_network(place / "net.onnx")
    Image.new("RGB", (40, 20), (51, 51, 51)).save(place / "grey.png")
    words = ["--inputs", "grey.png", "--task", "depth", "--normalize", "none", "--batch", "2"]
    short = ["--duration", "20ms", "--warmup", "5ms", "--no-until-steady"]
    assert cli(["bench", str(model), *words, *short, "-o", "run"]) == 0
    record = read_record(place / "run")
    assert record.facts["inputs_constant"] is True
    assert record.spec.inputs.task == "depth"
    assert record.inputs[0].shape == (2, 3, 32, 32)
    assert cli(["bench", str(model), "--inputs", "grey.png", *short]) == 2, "prepared, but how?"
    assert cli(["bench", str(model), "--task", "depth", *short]) == 2
    sweep = ["--inputs", "grey.png", "--task", "depth", "--normalize", "none", "-o", "out"]
    assert cli(["sweep", str(model), *sweep, *SHORT, "--format", "none"]) == 0
    (row,) = json.loads((place / "out" / "results.json").read_text())["rows"]
    run = read_record(place / "store" / "runs" / row["runs"][0])
    assert run.facts["inputs_constant"] is True


def test_engines_on_a_gpu_are_looked_at_and_their_clocks_told(tmp_path: Path) -> None:
    """The whole command on a GPU made of Python, whose clock falls while it measures."""
    (tmp_path / "images").mkdir()
    (tmp_path / "truth").mkdir()
    rng = np.random.default_rng(0)
    for number in range(2):
        pixels = rng.integers(40, 200, (16, 16)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number}.png")
        np.save(tmp_path / "truth" / f"{number}.npy", 1 / (2 * (pixels / 255.0) + 1))
    for number, name in enumerate(("fp16", "int8", "mixed")):
        (tmp_path / f"{name}.engine").write_bytes(plan_bytes() + bytes([number]))
    (tmp_path / "doors").mkdir()
    (tmp_path / "doors" / "pynvml.py").write_text(FALLING)
    path = os.pathsep.join((str(tmp_path / "doors"), str(TESTS / "standin_gpu")))
    words = ["fp16.engine", "int8.engine", "mixed.engine", "-r", "tensorrt", "--task", "depth",
             "--data", "images", "--gt", "truth", "--normalize", "none", "-o", "out",
             "--duration", "300ms", "--axis", "until_steady=false"]  # fmt: skip
    said = printed(
        [sys.executable, "-m", "trtbench", "sweep", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path),
             "NVML_NOTES": str(tmp_path / "notes.txt"), "STANDIN_GPU_SHAPE": "-1,1,16,16",
             "TRTBENCH_STORE": str(tmp_path / "store")},
    )  # fmt: skip
    pictures = {each.name for each in (tmp_path / "out" / "report").glob("*.png")}
    assert {"depth_comparison.png", "speed_benchmark.png", "gpu_utilization.png"} <= pictures
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["reason"] for row in rows] == [None] * 3
    assert all(row["abs_rel"] < 1e-5 for row in rows)
    assert all(any("clock" in said for said in row["findings"]) for row in rows)
    assert "clock" in said
