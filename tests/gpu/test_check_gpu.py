"""Engines of three precisions and a detector through check, eval and the report, on a real GPU."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_detectors import square_lists, squares, squares_as_coco

import trtbench
from trtbench.cli import run
from trtbench.core.run import precision_of
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.data import demo_file
from trtbench.runtimes import tensorrt

Built = Callable[..., str]


def side(*runtimes: str) -> list[str]:
    return [word for name in runtimes for word in ("-r", name)]


@pytest.fixture(scope="module")
def engines(built: Built, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The digits in FP32, FP16 and INT8, the last from a quantized model."""
    folder = tmp_path_factory.mktemp("digits")
    made = {"fp32": "digits.onnx", "fp16": "digits.onnx", "int8": "digits.int8.onnx"}
    asked = {name: () if name == "int8" else ("--precision", name) for name in made}
    return [
        built(demo_file(model), folder / f"{name}.engine", *asked[name], item="image:1x32x32")
        for name, model in made.items()
    ]


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Run a command in a folder and a store of its own; gives the document it prints."""
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def command(*words: str, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*words, "--json"]) == status, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return command


def test_each_precision_is_as_near_as_it_can_be(engines: list[str], told: Any) -> None:
    words = ["check", str(demo_file("digits.onnx")), *engines, "--random", "200", "--batch", "8"]
    words += side("onnxruntime", "tensorrt", "tensorrt", "tensorrt")
    found = told(*words, "--expect", "argmax_match>=90%")["check"]
    drift = [each["checks"][0]["rel_l2"] for each in found["candidates"]]
    assert drift[0] < 1e-5, drift
    assert drift[1] < 1e-2, drift  # FP16 is allowed, not demanded: small layers may stay in FP32
    assert max(drift[:2]) < drift[2] < 0.3, drift
    assert all(each["checks"][0]["items"] == 200 for each in found["candidates"])


def test_layers_confirm_or_deny_the_record_beside_an_engine(engines: list[str], tmp_path: Path):
    """The inspector is asked once inputs are bound, without a profile; it decides the label."""
    model = ModelRef(path=engines[0], format="engine")
    session = tensorrt.open_session(RunSpec(model=model, runtime="tensorrt", batch=8))
    session.bind({"image": np.zeros((8, 1, 32, 32), np.float32)})
    told, evidence = session.conditions["precision"], session.evidence
    session.close()
    assert (told.value, told.source) == ("fp32", "stated")
    assert "claimed_precision" not in evidence
    engine = tmp_path / "net.engine"
    shutil.copy(engines[0], engine)
    record = json.loads(Path(f"{engines[0]}.json").read_text())
    record["conditions"]["precision"]["value"] = "int8"
    Path(f"{engine}.json").write_text(json.dumps(record))
    found = trtbench.bench(
        engine, runtime="tensorrt", batch=8, iterations=20, warmup="20ms", until_steady=False,
        store=tmp_path / "store",
    )  # fmt: skip
    assert precision_of(found.record) == "fp32"
    assert found.record.conditions["precision"].source == "implied"
    [finding] = [each for each in found.findings if each.code == "H26"]
    assert finding.evidence == {"claimed": "int8", "ran": "fp32"}


def test_accuracy_and_latency_of_the_same_bytes(engines: list[str], told: Any, tmp_path: Path):
    with np.load(demo_file("digits.npz")) as held:
        images, labels = (held["images"] / 255).astype(np.float32), held["labels"]
    np.savez(tmp_path / "digits.npz", image=images, labels=labels)
    quick = ("-r", "tensorrt", "--duration", "300ms", "--launches", "1", "--no-until-steady")
    assert run(["bench", engines[1], "--batch", "8", *quick]) == 0
    words = ["eval", str(demo_file("digits.onnx")), *engines, "--task", "classification"]
    words += ["--data", "digits.npz", "--batch", "8"]
    words += side("onnxruntime", "tensorrt", "tensorrt", "tensorrt")
    models = told(*words)["models"]
    tops = [{s["metric"]: s["value"] for s in each["scores"]} for each in models]
    assert tops[0]["top1"] == tops[1]["top1"]
    assert all(each["top1"] > 0.97 for each in tops)
    assert all(each["layers"] and each["parameters"] for each in models[:3])
    assert run(["report", "last", "-o", "report", "--format", "md"]) == 0
    text = next(Path("report").glob("*.md")).read_text()
    assert "Top-1" in text


def test_a_plug_in_drops_the_doubles(built: Built, told: Any, tmp_path: Path) -> None:
    """EfficientNMS in an engine leaves one box for every object."""
    squares(tmp_path / "set")
    truth = squares_as_coco(tmp_path / "set")
    inside = square_lists(tmp_path / "inside.onnx")
    # A plug-in is handed cuBLAS and cuDNN, which need not be installed, unless they are left out.
    words = ("--precision", "fp32", "--opt", "tactic_sources=none")
    engine = built(inside, tmp_path / "net.engine", *words, item="images:3x64x64")
    asked = ["eval", engine, "-r", "tensorrt", "--iou", "0.6"]
    asked += ["--task", "detection", "--data", "set/images/val", "--annotations", str(truth)]
    found = told(*asked, "--batch", "5")
    assert "decoded as nms-lists" in found["method"]
    [own] = ({s["metric"]: s["value"] for s in m["scores"]} for m in found["models"])
    assert own["mAP50"] == own["mAP75"] == pytest.approx(1.0)
    # Red boxes hold at every overlap, green ones at the six up to 0.75.
    assert own["mAP"] == pytest.approx((1.0 + 0.6) / 2, abs=1e-6)
    [images] = [each for each in found["tables"] if each["id"] == "images"]
    assert len(images["rows"]) == 12
    assert all(row[2] == 4 for row in images["rows"]), "no double was counted"
