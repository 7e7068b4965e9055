"""A detector with TensorRT's NMS plug-in inside, built, loaded and judged on a real GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tasks"))

from made_detectors import square_lists, squares, squares_as_coco

from trtbench.cli import run


def test_a_plug_in_drops_the_doubles_as_ours_does(
    built: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The head as it is through ONNX Runtime and our NMS, and with EfficientNMS in an engine."""
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    squares(tmp_path / "set")
    truth = squares_as_coco(tmp_path / "set")
    head = square_lists(tmp_path / "head.onnx", plug_in=False)
    inside = square_lists(tmp_path / "inside.onnx", plug_in=True)
    # A plug-in is handed cuBLAS and cuDNN, which need not be installed, unless they are left out.
    words = ("--precision", "fp32", "--opt", "tactic_sources=none")
    engine = built(inside, tmp_path / "net.engine", *words, item="images:3x64x64")
    asked = ["eval", str(head), engine, "-r", "onnxruntime", "-r", "tensorrt", "--iou", "0.6"]
    asked += ["--task", "detection", "--data", "set/images/val", "--annotations", str(truth)]
    capsys.readouterr()
    assert run([*asked, "--batch", "5", "--json"]) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    assert "net.engine: decoded as nms-lists" in found["method"]
    ours, theirs = ({s["metric"]: s["value"] for s in m["scores"]} for m in found["models"])
    for own in (ours, theirs):
        assert own["mAP50"] == own["mAP75"] == pytest.approx(1.0)
        # Red boxes hold at every overlap, green ones at the six up to 0.75.
        assert own["mAP"] == pytest.approx((1.0 + 0.6) / 2, abs=1e-6)
    assert theirs["iou_to_first"] == pytest.approx(1.0, abs=1e-6)
    [images] = [each for each in found["tables"] if each["id"] == "images"]
    assert len(images["rows"]) == 24
    assert all(row[2:] == [4, 4, 0, 0] for row in images["rows"]), "no double was counted"
