"""Verbs as Python functions: the same workflows, the same files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import trtbench
from models import conv_model, tiny_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tasks"))

from made_data import colour_folder, colour_network


def test_check(tmp_path: Path) -> None:
    model = conv_model(tmp_path / "a.onnx")
    other = conv_model(tmp_path / "b.onnx", layers=3)
    places = {"output": tmp_path / "out", "store": tmp_path / "store", "threads": 1}
    found = trtbench.check(model, model, other, random=6, batch=4, **places)
    same, apart = (candidate.checks[0] for candidate in found.candidates)
    assert same.identical
    assert apart.rel_l2 is not None
    assert apart.rel_l2 > 0.1
    assert same.items == 6
    assert (tmp_path / "out" / "check.json").is_file()
    rows = np.random.default_rng(0).random((3, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", image=rows)
    assert trtbench.check(model, model, inputs=tmp_path / "x.npz", **places).items == 3
    with pytest.raises(trtbench.TrtbenchError, match="needs a candidate"):
        trtbench.check(model, **places)


def test_images_are_checked_with_the_preprocessing_of_a_task(tmp_path: Path) -> None:
    model = colour_network(tmp_path / "a.onnx")
    images = colour_folder(tmp_path / "images", per_class=1)
    found = trtbench.check(
        model, model, images=images, settings={"normalize": "none"}, output=tmp_path / "out",
        store=tmp_path / "store",
    )  # fmt: skip
    assert found.items == 3


def test_evaluate(tmp_path: Path) -> None:
    data = colour_folder(tmp_path / "val", per_class=2)
    model = colour_network(tmp_path / "a.onnx")
    places = {"output": tmp_path / "out", "store": tmp_path / "store"}
    run = trtbench.bench(model, batch=1, duration=0.02, warmup=0.01, store=tmp_path / "store")
    found = trtbench.evaluate(
        model, task="classification", data=data, settings={"normalize": "none"}, batch=4, **places
    )
    top = found.models[0].score("top1")
    assert top is not None
    assert top.value == 1.0
    assert found.joined == {"a.onnx": (run.id,)}
    assert (tmp_path / "out" / "eval.md").is_file()
    with pytest.raises(trtbench.TrtbenchError, match="no setting 'normalise'"):
        trtbench.evaluate(
            model, task="classification", data=data, settings={"normalise": "none"}, **places
        )


def test_sweep(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "net.onnx")
    matrix = {"models": [str(model)], "batch": [1, 2], "options": {"duration": "20ms"}}
    asked = {"output": tmp_path / "sweep", "store": tmp_path / "store"}
    found = trtbench.sweep(matrix, **asked)
    assert [row.batch for row in found.rows] == [1, 2]
    again = trtbench.sweep(matrix, **asked)
    assert [row.runs for row in again.rows] == [row.runs for row in found.rows], "it is done"


def test_verbs_about_models_and_stored_runs(tmp_path: Path) -> None:
    model, store = tiny_model(tmp_path / "net.onnx"), tmp_path / "store"
    assert trtbench.inspect(model, batch=2).kind == "onnx"
    made = trtbench.quantize(model, precision="fp16", output=tmp_path / "half.onnx", keep_io=True)
    assert made.precision == "fp16"
    quick = {"batch": 1, "threads": 1, "duration": 0.02, "warmup": 0.01, "store": store}
    runs = [trtbench.bench(model, tags=["nightly"], **quick) for _ in range(2)]
    assert [entry.id for entry in trtbench.runs(tag="nightly", store=store)] == [
        run.id for run in reversed(runs)
    ]
    paths = trtbench.report("last", output=tmp_path / "report", format=["md"], store=store)
    assert paths[0].name == "report.md"
    assert not any(path.suffix == ".html" for path in paths)
    (series,) = trtbench.history(store=store).series
    assert len(series.points) == 2
    assert trtbench.site(output=tmp_path / "site", store=store).runs == 2
    held = trtbench.gate(runs[0].id, metrics=["median<10s"], store=store)
    assert held.open
    chosen = trtbench.gate(
        runs[1].id, baseline="last", max_slowdown="90%", on_unclear="pass", store=store
    )
    assert chosen.compared is not None
    assert chosen.compared.baseline.id == runs[0].id
    with pytest.raises(trtbench.TrtbenchError, match="no layer times"):
        trtbench.profile(runs[0].id, store=store)


def test_files_of_trtexec_become_runs(tmp_path: Path) -> None:
    times = [
        {"startInMs": 2.0 * k, "endInMs": 2.0 * k + 1.5, "inMs": 0.1, "computeMs": 1.2,
         "outMs": 0.1, "latencyMs": 1.4, "startEnqMs": 2.0 * k, "endEnqMs": 2.0 * k + 0.2,
         "enqueueMs": 0.2}
        for k in range(30)
    ]  # fmt: skip
    path = tmp_path / "times.json"
    path.write_text(json.dumps(times))
    found = trtbench.import_runs(path, gpu="Tesla T4", batch=8, store=tmp_path / "store")
    assert [each.samples for each in found.runs] == [30]
    assert trtbench.load(found.runs[0].record.id, store=tmp_path / "store").record.batch == 8
