"""Evaluations end to end with ONNX Runtime: data drawn here, networks that state their task."""

import json
import sys
from pathlib import Path

import made_data
import numpy as np
import onnx
import pytest
from PIL import Image
from sweeps import matrix

import trtbench
from command import Say
from models import save_text
from trtbench.accuracy.check import unique_names, vanilla_name
from trtbench.accuracy.evaluate import attach_scores, run_evaluation
from trtbench.analysis.pass_times import Evaluation
from trtbench.core.errors import InputError
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.report.renderers.md import markdown
from trtbench.report.sections.accuracy import document_from_evaluation
from trtbench.requests.models import EvalRequest
from trtbench.requests.settings import Config
from trtbench.store.store import Store
from trtbench.sweep.matrix import prepared_item_shapes
from trtbench.tasks._images import ImageFiles
from trtbench.workflows.report import load_runs, write_report


@pytest.fixture
def evaluate(tmp_path: Path, store: Store, config: Config):
    def call(
        task: str, models: list[Path], batch: int | None = 4, **settings: object
    ) -> Evaluation:
        request = EvalRequest(
            models=models,
            task=task,
            data=settings.pop("data"),  # type: ignore[arg-type]
            names=settings.pop("names", "file"),  # type: ignore[arg-type]
            settings=settings,  # type: ignore[arg-type]
            threads=1,
            batch=batch,
            output=tmp_path / "out",
        )
        return run_evaluation(request, store=store, config=config)

    return call


def test_images_in_folders(tmp_path: Path, evaluate) -> None:
    data = made_data.colour_folder(tmp_path / "val")
    right, wrong = (
        made_data.colour_network(tmp_path / "right.onnx"),
        made_data.colour_network(tmp_path / "wrong.onnx", swap=True),
    )
    # 12 images in batches of 5: the last, short one counts.
    found = evaluate("classification", [right, wrong], batch=5, data=str(data), normalize="none")
    first, second = found.models
    assert first.items == 12
    assert first.score("top1").value == 1.0
    assert second.score("top1").value == pytest.approx(1 / 3)
    assert second.score("agreement").value == pytest.approx(1 / 3)
    assert first.score("top5") is None, "three classes have no five best"
    [mcnemar] = [table for table in found.tables if table.id == "mcnemar"]
    assert mcnemar.rows[0][2:4] == (8, 0)
    [classes] = [table for table in found.tables if table.id == "classes"]
    assert {row[0]: row[3:] for row in classes.rows} == {
        "n01440764": (1.0, 0.0), "n01443537": (1.0, 0.0), "n01484850": (1.0, 1.0),
    }  # fmt: skip
    assert first.layers == 3
    assert first.parameters == 12
    assert set(first.split.parts) == {"load", "preprocess", "inference", "model", "postprocess"}
    assert [Path(each.path).name for each in found.pictures] == ["classification_worst_1.png"]
    text = markdown(document_from_evaluation(found))
    assert "| Top-1 |" in text
    assert "33.33 % (13.81 to 60.94 %)" in text
    assert "| right.onnx |" in text


def test_numbered_folders_and_lists_of_classes(tmp_path: Path, evaluate) -> None:
    network = made_data.colour_network(tmp_path / "net.onnx", classes=10)
    wordnet = made_data.colour_folder(tmp_path / "wordnet")
    with pytest.raises(InputError, match="3 folders cannot be matched to 10 classes"):
        evaluate("classification", [network], data=str(wordnet), normalize="none")
    order = tmp_path / "classes.txt"
    rest = "".join(f"n{number} unseen\n" for number in range(7))
    order.write_text(f"n01440764 tench\nn01443537 goldfish\nn01484850 shark\n{rest}")
    found = evaluate(
        "classification", [network], data=str(wordnet), normalize="none", classes=str(order)
    )
    assert found.models[0].score("top1").value == 1.0
    top = next(table for table in found.tables if table.id == "top")
    assert {"n0", "n6"} < {row[2] for row in top.rows}, "classes without a folder have names too"
    numbered = made_data.colour_folder(tmp_path / "numbered", names=["2", "0", "1"])
    found = evaluate("classification", [network], data=str(numbered), normalize="none")
    assert found.models[0].score("top1").value == 0.0
    assert found.models[0].score("top5").value == 1.0


def test_names_as_arttrt_has_them() -> None:
    assert vanilla_name("torch", "fp32") == "Vanilla"
    assert vanilla_name("torch", "fp16") == "Vanilla fp16"
    assert vanilla_name("tensorrt", "int8", engine="dynamic") == "TRT int8-dynamic"
    specs = [
        RunSpec(model=ModelRef(path=f"{name}.engine", format="engine"), runtime="tensorrt")
        for name in ("a", "b")
    ]
    assert unique_names(["TRT fp16"] * 2, specs) == ["a.engine TRT fp16", "b.engine TRT fp16"]
    assert unique_names(["a.onnx"] * 2, [specs[0]] * 2)[1] == "a.onnx (tensorrt) 2"


def test_skeleton_sequences_are_classified_too(tmp_path: Path, evaluate) -> None:
    """(N, C, T, V, M): shorter and longer sequences are filled and cut."""
    ends = "(float[batch, 3, 20, 5, 2] images) => (float[batch, 3] output)"
    mean = "ReduceMean <axes = [2, 3, 4], keepdims = 0> (images)"
    model = save_text(tmp_path / "stgcn.onnx", f"net {ends} {{output = {mean}}}")
    labels = np.array([0, 2, 1, 1, 0])
    data = np.random.default_rng(0).random((5, 3, 12, 5, 3)).astype(np.float32) * 0.1
    data[np.arange(5), labels] += 1.0
    np.savez(tmp_path / "skeletons.npz", data=data, labels=labels)
    found = evaluate("classification", [model], batch=2, data=str(tmp_path / "skeletons.npz"))
    assert found.models[0].score("top1").value == 1.0
    assert any("frames: 12 in the data, 20 in the network" in note for note in found.notes)
    np.save(tmp_path / "x.npy", data)
    np.save(tmp_path / "y.npy", labels)
    found = evaluate(
        "classification", [model], batch=2, data=str(tmp_path / "x.npy"),
        labels=str(tmp_path / "y.npy"),
    )  # fmt: skip
    assert found.models[0].score("top1").value == 1.0


def test_depth_that_is_right_and_depth_that_is_not(tmp_path: Path, evaluate, monkeypatch) -> None:
    root = made_data.depth_data(tmp_path / "depth")
    exact = made_data.depth_network(tmp_path / "exact.onnx")
    triple = made_data.depth_network(tmp_path / "triple.onnx", gain=3.0)
    bent = made_data.depth_network(tmp_path / "bent.onnx", power=0.5)
    np.save(root / "truth" / "lonely.npy", np.ones((2, 2)))
    settings = {"data": str(root / "images"), "gt": str(root / "truth"), "normalize": "none"}
    found = evaluate("depth", [exact, triple, bent], batch=2, **settings, interpolation="bilinear")
    for model in found.models[:2]:
        assert model.score("abs_rel").value == pytest.approx(0.0, abs=1e-5)
        assert model.score("d1").value == 1.0
        assert model.score("d1").count == 3
    assert found.models[2].score("abs_rel").value > 0.1
    assert found.models[1].score("mae_to_first").value > 0.3, "a wrong scale is not hidden"
    maps = markdown(document_from_evaluation(found)).partition("Maps against")[2]
    assert "%" not in maps.partition("##")[0], "parts of a range are no shares"
    assert "1 ground truth without image: lonely" in found.notes
    assert (tmp_path / "out" / "depth_comparison.png").is_file()
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    plain = evaluate("depth", [triple], batch=1, **settings, align="none")
    assert not plain.pictures
    assert "matplotlib" in plain.notes[-1]
    assert plain.models[0].score("abs_rel").value == pytest.approx(2 / 3, rel=1e-3)


def test_data_is_opened_once_for_all_models_and_scaled_as_asked(
    tmp_path: Path, evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made_data.depth_data(tmp_path / "depth", size=48)
    models = [made_data.depth_network(tmp_path / f"{x}.onnx", gain=x) for x in (1.0, 2.0, 3.0)]
    find, opened = ImageFiles.find_files, []
    count = lambda self, settings: opened.append(self) or find(self, settings)  # noqa: E731
    monkeypatch.setattr(ImageFiles, "find_files", count)
    settings = {"data": str(root / "images"), "gt": str(root / "truth"), "batch": 1,
                "align": "least-squares", "output_kind": "depth"}  # fmt: skip
    found = {
        how: evaluate("depth", models, **settings, interpolation=how)
        for how in ("bicubic", "cv2-bicubic")
    }
    assert len(opened) == 2, "once for each evaluation"
    assert "check that --output-kind matches the network's output" in found["bicubic"].notes
    assert [each.preparation["interpolation"] for each in found.values()] == [*found]
    assert len({each.inputs_sha256 for each in found.values()}) == 2


POINTS = [(12.0, 20.0), (30.0, 22.0), (24.0, 40.0)]  # in a 64x64 input


@pytest.mark.parametrize("channels", [1, 3])
def test_key_points_through_the_letterbox(tmp_path: Path, evaluate, channels: int) -> None:
    """One image is twice as wide, one is square: the same output means other places in each."""
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (128, 64), (9, 90, 200)).save(images / "wide.png")
    Image.new("RGB", (32, 32), (90, 9, 20)).save(images / "small.png")
    Image.new("RGB", (32, 32)).save(images / "stray.png")
    rows = [
        made_data.pose_row((21, 30), (20, 24), 0.9, POINTS),
        made_data.pose_row((22, 30), (20, 24), 0.6, POINTS),  # a double, to be dropped
    ]
    model = made_data.pose_network(tmp_path / "pose.onnx", rows, channels=channels)
    # wide: scale 1/2, 16 rows of grey above; small: scale 2.
    wide = [(2 * x, 2 * (y - 16)) for x, y in POINTS]
    small = [(x / 2, y / 2) for x, y in POINTS]
    told = made_data.annotations(
        tmp_path / "people.json",
        {"wide.png": 1, "small.png": 2, "missing.png": 3},
        [
            made_data.person(wide, [22, 4, 40, 48], image=1, id=0),
            made_data.person(small, [5.5, 9, 10, 12], image=2, id=1),
        ],
    )
    found = evaluate("pose", [model], batch=2, data=str(images), annotations=str(told))
    [result] = found.models
    assert result.items == 2
    assert result.score("AP").value == pytest.approx(1.0)
    assert result.score("AR").value == pytest.approx(1.0)
    [table] = found.tables
    assert {row[0]: row[2:5] for row in table.rows} == {
        "wide.png": (1, 1, 1), "small.png": (1, 1, 1),
    }  # fmt: skip
    assert "1 image without annotation: stray.png" in found.notes
    assert "1 annotated image not found: missing.png" in found.notes


def test_key_points_that_are_off(tmp_path: Path, evaluate) -> None:
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (64, 64)).save(images / "a.png")
    moved = [(x + 4, y) for x, y in POINTS]
    models = [
        made_data.pose_network(
            tmp_path / f"{name}.onnx", [made_data.pose_row((21, 30), (20, 24), 0.9, points)]
        )
        for name, points in (("right", POINTS), ("moved", moved))
    ]
    told = made_data.annotations(
        tmp_path / "people.json",
        {"a.png": 7},
        [made_data.person(POINTS, [11, 18, 20, 24], image=7, id=1)],
    )
    found = evaluate("pose", models, data=str(images), annotations=str(told), sigmas="0.1,0.1,0.1")
    # 4 pixels: OKS = exp(-16 / (2 * 480 * 0.04)) = 0.659, right at 0.5 to 0.65 of ten thresholds.
    assert found.models[1].score("AP").value == pytest.approx(0.4)
    assert found.models[1].score("AP50").value == pytest.approx(1.0)
    assert found.models[1].score("AP75").value == 0.0
    assert found.models[1].score("oks_to_first").value == pytest.approx(0.659, abs=1e-3)


def test_scores_are_joined_to_runs_of_the_same_bytes_only(
    tmp_path: Path, store: Store, evaluate, measured
) -> None:
    """To those that are there, and to those that are measured later."""
    data = made_data.colour_folder(tmp_path / "val", per_class=2)
    wrong = made_data.colour_network(tmp_path / "wrong.onnx", swap=True)
    other = made_data.colour_network(tmp_path / "other.onnx")
    runs = [measured(path) for path in (wrong, other)]
    found = evaluate("classification", [wrong], data=str(data), normalize="none")
    assert attach_scores(found, store).joined == {"wrong.onnx": (runs[0].id,)}
    runs += [measured(path) for path in (wrong, other)]
    loaded, _ = load_runs([run.id for run in runs], store=store)
    for each in loaded[::2]:
        assert each.extra["scores"]["top1"].value == pytest.approx(1 / 3)  # type: ignore[index]
        assert Path(each.path or "", each.extra["pictures"][0]).is_file()  # type: ignore[index]
    assert not any("scores" in each.extra for each in loaded[1::2]), "other bytes"
    write_report(loaded, tmp_path / "report", formats=("md",))
    assert "Top-1" in (tmp_path / "report" / "report.md").read_text()


def test_a_model_that_fails_does_not_take_the_others_along(tmp_path: Path, say: Say) -> None:
    data = made_data.colour_folder(tmp_path / "val")
    right = made_data.colour_network(tmp_path / "right.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x08 no model")
    asked = ["--task", "classification", "--data", data, "-o", "out"]
    told = say("eval", "broken.onnx", right, *asked, status=1)
    assert "right.onnx" in told.out
    assert "not all models could be evaluated" in told.err
    kept = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert [each["model"] for each in kept["failed"]] == ["broken.onnx"]


@pytest.mark.parametrize(
    ("shape", "known", "reason"),
    [
        (8, ", 5", "the labels go from 0 to 7, odd.onnx has 5 classes"),
        (9, ", 5", "the items do not have the shape of the input"),
        (8, ", C", "the labels go from 0 to 7, odd.onnx has 5 classes"),
    ],
)
def test_what_a_file_tells_is_refused_before_any_model_runs(
    tmp_path: Path, say: Say, shape: int, known: str, reason: str
) -> None:
    data, out = tmp_path / "rows.npz", tmp_path / "out"
    np.savez(data, images=np.eye(8, dtype=np.float32), labels=np.arange(8))
    text = "g (float[N, {}] x) => (float[N{}] y) {{ y = MatMul(x, W) }}"
    whole = save_text(tmp_path / "whole.onnx", text.format(8, ", 8"), W=np.eye(8))
    odd = save_text(tmp_path / "odd.onnx", text.format(shape, known), W=np.eye(shape, 5))
    asked = ["--task", "classification", "--data", data, "-o", out]
    told = say("eval", whole, odd, *asked, status=1)
    assert reason in told.err
    is_known = known == ", 5"
    assert ("whole.onnx: " in told.err, (out / "eval.json").exists()) == (not is_known,) * 2


NAMES = "{0: 'left', 1: 'right'}"


def detector(path: Path, **metadata: str) -> Path:
    """Write a small network with open sides and the metadata of Ultralytics."""
    text = """net (float[batch, 3, height, width] images) => (float[batch, 6, places] output0) {
        seen = Conv <strides = [8, 8], kernel_shape = [8, 8]> (images, kernel)
        output0 = Reshape(seen, flat)
    }"""
    kernel = np.random.default_rng(0).uniform(0, 0.1, (6, 3, 8, 8))
    model = onnx.load(save_text(path, text, kernel=kernel, flat=[0, 6, -1]))
    stored = {"task": "detect", "imgsz": "[48, 64]", "names": NAMES, "stride": "8", **metadata}
    onnx.helper.set_model_props(model, stored)
    onnx.save(model, path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Photos with one object each, sorted into folders by class."""
    rng = np.random.default_rng(1)
    for number in range(6):
        folder = tmp_path / "photos" / ("left", "right")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        (folder / f"{number}.txt").write_text(f"{number % 2} 0.5 0.5 0.5 0.5\n")
    return tmp_path / "photos"


def test_every_verb_prepares_images_as_the_metadata_says(tmp_path: Path, photos: Path) -> None:
    path, low = detector(tmp_path / "net.onnx"), tmp_path / "low.onnx"
    photo, size = next(photos.rglob("*.png")), (1, 3, 48, 64)
    run = trtbench.bench(path, inputs=photo, iterations=3, warmup=0, until_steady=False)
    assert [each.shape for each in run.record.inputs] == [size]
    made = trtbench.quantize(path, precision="int8", calibration=photos, output=low)
    prepared = {"task": "detection", "fit": "letterbox", "size": "48x64", "normalize": "none"}
    assert prepared.items() <= made.calibration.preprocessing.items()
    checked = trtbench.check(path, low, images=photos)
    assert prepared.items() <= checked.preparation.items()
    assert not any("H48" in note for note in checked.candidates[0].notes)
    found = trtbench.localize(path, low, images=photos)
    assert "task detection" in found.inputs
    judged = trtbench.evaluate(path, data=photos)
    assert prepared.items() <= judged.preparation.items()
    assert "left" in str(judged.tables), "classes are named as the model names them"
    planned = matrix([path], data=str(photos), task="detection")
    assert prepared_item_shapes(planned, path) == {"images": (0, *size[1:])}


def test_flags_say_otherwise(tmp_path: Path, photos: Path) -> None:
    path, low = detector(tmp_path / "net.onnx"), tmp_path / "low.onnx"
    settings = {"size": 32, "fit": "stretch"}
    made = trtbench.quantize(
        path, precision="int8", calibration=photos, task="detection", settings=settings, output=low
    )
    assert made.calibration.preprocessing.items() >= {"size": "32x32", "fit": "stretch"}.items()
    # The record of the candidate counts where the reference says nothing.
    onnx.helper.set_model_props(model := onnx.load(path), {})
    onnx.save(model, tmp_path / "silent.onnx")
    checked = trtbench.check(tmp_path / "silent.onnx", low, images=photos)
    assert checked.preparation.items() >= {"size": "32x32", "fit": "stretch"}.items()
    other = trtbench.check(path, low, images=photos, task="classification")
    assert other.preparation["crop"] == "48x64", "the size is the model's for every task"


def test_metadata_that_makes_no_sense_is_ignored(tmp_path: Path, photos: Path) -> None:
    stamp = '{"task": "detection", "size": "axb", "fit": 7, "normalize": 3}'
    odd = {"names": "{'a': __import__('os')}", "imgsz": "[0]", "trtbench.preparation": stamp}
    judged = trtbench.evaluate(detector(tmp_path / "net.onnx", **odd), data=photos)
    assert judged.preparation["fit"] == "letterbox"


def test_a_classifier_of_ultralytics_is_cropped_without_margin(
    tmp_path: Path, photos: Path
) -> None:
    text = """net (float[batch, 3, height, width] images) => (float[batch, 2] output0) {
        seen = GlobalAveragePool(images)
        flat = Flatten(seen)
        output0 = MatMul(flat, weight)
    }"""
    model = onnx.load(save_text(tmp_path / "net.onnx", text, weight=np.ones((3, 2))))
    stored = {"task": "classify", "imgsz": "[32, 32]", "names": "{0: 'right', 1: 'left'}"}
    onnx.helper.set_model_props(model, stored)
    onnx.save(model, path := tmp_path / "cls.onnx")
    judged = trtbench.evaluate(path, data=photos)
    prepared = {"resize": 32, "crop": "32x32", "normalize": "none"}
    assert prepared.items() <= judged.preparation.items()
