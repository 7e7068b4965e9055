"""A detector that is quantized, swept, built and checked: images are prepared as eval does it."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from made_detectors import SIZE, square_finder, squares
from PIL import Image, ImageDraw

from command import Say
from gpu_standin import plan_bytes
from trtbench.convert.build import build_spec, with_arrays
from trtbench.models.identity import read_sidecar
from trtbench.requests.models import BuildRequest
from trtbench.requests.settings import Config
from waiting import printed

TESTS = Path(__file__).resolve().parents[1]
SHORT = ["--duration", "20ms", "--axis", "warmup=5ms", "--axis", "until_steady=false"]


@pytest.fixture
def place(place: Path) -> Path:
    squares(place / "set")
    square_finder(place / "net.onnx")
    return place


def test_quantized_checked_and_judged_with_one_preparation(
    place: Path, config: Config, say: Say
) -> None:
    words = ["--precision", "int8", "--calibration", "set/data.yaml", "--task", "detection"]
    say("quantize", "net.onnx", *words, "-o", "int8.onnx", status=0)
    sidecar = read_sidecar(place / "int8.onnx")
    assert sidecar.calibration.kind == "images"
    judge = ["net.onnx", "int8.onnx", "--task", "detection", "--threads", "1", "--json"]
    found = say("eval", *judge, "--data", "set/data.yaml", "--batch", "4").json
    assert found["preparation"] == sidecar.calibration.preprocessing
    assert found["preparation"]["fit"] == "letterbox"
    assert found["findings"] == [], "calibrated as it is judged"
    whole, small = ({s["metric"]: s["value"] for s in m["scores"]} for m in found["models"])
    assert whole["mAP"] == pytest.approx(1.0)
    assert small["mAP50"] > 0.9
    [finding] = say("eval", *judge, "--data", "set", "--fit", "corner").json["findings"]
    assert (finding["code"], finding["concerns"]) == ("H48", "int8.onnx")
    checked = say("check", *judge, "--images", "set/data.yaml").json["check"]
    assert checked["preparation"] == found["preparation"]
    assert checked["items"] == 12
    shape = {"images": (4, 3, SIZE, SIZE)}
    request = BuildRequest(
        model="net.onnx", runtime="tensorrt", precision="int8", data="set/data.yaml",
        task="detection", shapes_opt=shape, shapes_min=shape, shapes_max=shape,
    )  # fmt: skip
    ready = with_arrays(build_spec(request, config), place)
    assert dict(ready.prepared) == found["preparation"]
    assert ready.calibration_arrays is not None
    with np.load(ready.calibration_arrays) as arrays:
        assert arrays["images"].shape == (12, 3, SIZE, SIZE)
        assert 0.5 < arrays["images"].max() <= 1.0


def test_a_sweep_of_precisions_with_its_accuracies(place: Path, say: Say) -> None:
    words = ["net.onnx", "--precision", "fp32,int8", "--batch", "4", "--task", "detection",
             "--data", "set/data.yaml", "--calibration", "set/data.yaml", "-o", "out"]  # fmt: skip
    say("sweep", *words, *SHORT, status=0)
    rows = json.loads((place / "out" / "results.json").read_text())["rows"]
    assert [row["reason"] for row in rows] == [None, None]
    assert rows[0]["mAP"] == pytest.approx(1.0)
    assert rows[1]["mAP50"] > 0.9
    assert not any("H48" in str(row.get("findings")) for row in rows)
    # The labels are not in data.yaml itself: when they change, accuracies are taken again.
    for label in (place / "set/labels/val").iterdir():
        label.write_text("")
        break
    say("sweep", *words[:-1], "again", *SHORT, status=0)
    again = json.loads((place / "again" / "results.json").read_text())["rows"]
    assert again[0]["mAP"] < 1.0


def test_the_train_part_is_calibrated_with(place: Path, say: Say) -> None:
    """What is judged on is not what scales were found on, unless somebody says so."""
    part = place / "set/images/train"
    part.mkdir()
    for number in range(5):
        (place / f"set/images/val/{number}.png").rename(part / f"{number}.png")
    yaml = place / "set/data.yaml"
    yaml.write_text("train: images/train\nval: images/val\nnames: [red, green]\n")
    words = ["quantize", "net.onnx", "--precision", "int8", "--calibration", "set/data.yaml"]
    counts = {}
    for split in ((), ("--split", "val")):
        say(*words, "--task", "detection", *split, "-o", "low.onnx", status=0)
        sidecar = read_sidecar(place / "low.onnx")
        counts[split] = sidecar.calibration.items
    assert list(counts.values()) == [4, 6], "a fifth is held out of 5, and of 7"
    yaml.write_text("val: images/val\nnames: [red, green]\n")
    assert say(*words, "--task", "detection").status == 2, "val is to be asked for"


HOOK = """
import numpy as np

def bright(outputs, images):
    [maps] = outputs.values()
    found = []
    for each in maps[:, 0]:
        rows, columns = np.nonzero(each > 2.0)  # the engine says 2 x + 1
        box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        found.append([(*box, 0.9, 0)])
    return found
"""


def test_engines_are_judged_on_a_gpu(tmp_path: Path) -> None:
    """On a GPU made of Python: an engine, its outputs, a decoder of one's own, and the times."""
    (tmp_path / "images").mkdir()
    for number in range(3):
        image = Image.new("L", (16, 16), 10)
        ImageDraw.Draw(image).rectangle((2 + number, 3, 9, 12), fill=250)
        image.save(tmp_path / "images" / f"{number}.png")
        x0, x1 = (2 + number) / 16, 10 / 16
        label = f"0 {(x0 + x1) / 2} {8 / 16} {x1 - x0} {10 / 16}\n"
        (tmp_path / "images" / f"{number}.txt").write_text(label)
    (tmp_path / "model.engine").write_bytes(plan_bytes())
    (tmp_path / "mine.py").write_text(HOOK)
    words = ["eval", "model.engine", "-r", "tensorrt", "--task", "detection", "--data", "images",
             "--decoder", "mine.py:bright", "--json", "--store", "store"]  # fmt: skip
    said = printed(
        [sys.executable, "-m", "trtbench", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS / "standin_gpu"), "TMPDIR": str(tmp_path),
             "STANDIN_GPU_SHAPE": "-1,1,16,16"},
    )  # fmt: skip
    [model] = json.loads(said)["models"]
    assert {s["metric"]: s["value"] for s in model["scores"]}["mAP"] == pytest.approx(1.0)
    parts = model["split"]["item_parts_s"]
    assert 0 < parts["model"] <= parts["inference"], "the network alone, by GPU events"
