"""Images that cannot be read: a row with its reason, in every task, and never the end of it all."""

import json
from pathlib import Path

import pytest
from made_data import colour_folder, colour_network, depth_data, depth_network
from made_detectors import network, yolo_data, yolov8

from command import Say
from trtbench.sweep.matrix import Matrix, prepared_item_shapes


def cut(path: Path) -> Path:
    """Leave a part of a file, as a download that broke off does."""
    path.write_bytes(path.read_bytes()[:45])
    return path


@pytest.fixture
def evaluate(say: Say):
    return lambda *words: say("eval", *words, "--threads", "1", "--json").json


def lost(found: dict) -> list[str]:
    assert all(each["reason"] for each in found["unreadable"])
    return [each["name"] for each in found["unreadable"]]


def test_classification_goes_on(tmp_path: Path, evaluate, say: Say) -> None:
    data = colour_folder(tmp_path / "val")
    cut(data / "n01443537" / "n01443537_0.png")
    cut(data / "n01484850" / "n01484850_3.png")
    models = [colour_network(tmp_path / "a.onnx"), colour_network(tmp_path / "b.onnx", swap=True)]
    words = [*models, "--task", "classification", "--data", data, "--normalize", "none"]
    found = evaluate(*words, "--batch", 5)
    assert lost(found) == ["n01443537/n01443537_0.png", "n01484850/n01484850_3.png"]
    first, second = found["models"]
    assert first["items"] == 10
    scores = {each["metric"]: each for each in first["scores"]}
    assert scores["top1"]["value"] == 1.0, "labels stay beside their own images"
    assert scores["top1"]["count"] == 10
    assert {each["metric"]: each["value"] for each in second["scores"]}["top1"] == 0.3
    assert [each["code"] for each in found["findings"]] == ["H50", "H50"]
    told = say("eval", *words, "--threads", "1", "-v", status=0).words
    assert "2 of 12 items could not be read" in told
    assert "Items that could not be read" in told


def test_depth_goes_on_without_an_image_and_without_a_truth(tmp_path: Path, evaluate) -> None:
    root = depth_data(tmp_path / "depth", count=4)
    cut(root / "images" / "1.png")
    (root / "truth" / "2.npy").write_bytes(b"no array")
    network = depth_network(tmp_path / "net.onnx")
    found = evaluate(
        network, "--task", "depth", "--data", root / "images", "--gt", root / "truth",
        "--normalize", "none", "--interpolation", "bilinear",
    )  # fmt: skip
    assert lost(found) == ["1.png"]
    [abs_rel] = [s for s in found["models"][0]["scores"] if s["metric"] == "abs_rel"]
    assert abs_rel["count"] == 2, "of four images, one has no pixels and one no truth"
    assert abs_rel["value"] == pytest.approx(0.0, abs=1e-5), "truths stay beside their images"
    [table] = [each for each in found["tables"] if each["id"] == "images"]
    [reason] = [row[-1] for row in table["rows"] if row[0] == "2.png"]
    assert reason.startswith("ground truth:")
    far = evaluate(network, "--task", "depth", "--data", root / "images" / "0.png",
                   "--gt", root / "truth" / "0.npy", "--gt-scale", "1e-9")  # fmt: skip
    assert any("check --gt-scale (a divisor)" in note for note in far["notes"])


def test_a_check_on_images_goes_on(tmp_path: Path, say: Say) -> None:
    data = colour_folder(tmp_path / "val", per_class=2)
    cut(data / "n01440764" / "n01440764_0.png")
    models = [colour_network(tmp_path / "a.onnx"), colour_network(tmp_path / "b.onnx", swap=True)]
    differing = say("check", *models, "--images", data, "--threads", "1", "--json", status=3)
    found = json.loads(differing.out)["check"]
    assert found["items"] == 5
    [candidate] = found["candidates"]
    assert any("1 of 6 items could not be read" in note for note in candidate["notes"])
    worst = candidate["checks"][0]["worst"][0]["name"]
    assert worst != "n01440764/n01440764_0.png"


def test_a_sweep_finds_the_size_it_judges_behind_an_image_that_is_damaged(tmp_path: Path) -> None:
    data = yolo_data(tmp_path / "set")
    cut(tmp_path / "set" / "images" / "val" / "square.png")
    model = network(tmp_path / "open.onnx", {"output0": yolov8()}, size="side")
    asked = Matrix(data=str(data), task="detection", task_settings={"size": 64})
    assert prepared_item_shapes(asked, model) == {"images": (0, 3, 64, 64)}
