"""The runtime ``tensorrt`` on a real GPU: identities that must hold whatever the numbers are."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import save_graph
from trtbench.core.errors import InputError, UnavailableError
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.cuda import open_cuda
from trtbench.runtimes import tensorrt


def worker(engine: Path, folder: Path, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure in a fresh process: what runs beside another engine is not what it would be alone."""
    spec = {
        "model": {"path": str(engine), "format": "engine"},
        "runtime": "tensorrt",
        "batch": 2,
        "warmup": {"floor": {"seconds": 0.3}, "until_steady": False},
        "stop": {"seconds": 0.3, "iterations": 200},
        **changes,
    }
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps({"job": "bench", "spec": spec}))
    command = [sys.executable, "-m", "trtbench.worker", str(folder / "job.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if (folder / "error.json").is_file():
        return json.loads((folder / "error.json").read_text()), {}
    assert (folder / "outcome.json").is_file(), f"status {done.returncode}: {done.stderr[-2000:]}"
    with np.load(folder / "samples.npz") as archive:
        return json.loads((folder / "outcome.json").read_text()), dict(archive)


def test_one_launch_tells_phases_and_layers(engine: Path, tmp_path: Path) -> None:
    outcome, times = worker(engine, tmp_path / "a", profile=True)
    spans = times["h2d"] + times["gpu"] + times["d2h"]
    assert np.median(times["host"]) >= np.median(spans) - 2e-6
    assert outcome["evidence"]["outputs_finite"]
    assert outcome["evidence"]["outputs_vary"]
    layers = outcome["layers"]["layers"]
    assert len(layers) >= 3
    total = sum(layer["median_s"] for layer in layers)
    assert total == pytest.approx(np.median(times["gpu"]), rel=1.0)
    assert (tmp_path / "a" / "graph.json").is_file()


def test_a_graph_agrees_over_protocols_and_launches(engine: Path, tmp_path: Path) -> None:
    asked = {"cuda_graph": "on"}
    first = worker(engine, tmp_path / "a", protocol="pipeline", **asked)[1]["gpu"]
    again = worker(engine, tmp_path / "b", protocol="pipeline", **asked)[1]["gpu"]
    bare = worker(engine, tmp_path / "c", protocol="gpu", transfers=False, **asked)[1]["gpu"]
    assert np.median(again) == pytest.approx(np.median(first), rel=0.1)
    assert np.median(bare) == pytest.approx(np.median(first), rel=0.1)


def test_enqueuing_costs_little_over_the_bare_call(engine: Path) -> None:
    tool = Path(__file__).resolve().parents[2] / "tools" / "gpu_agreement.py"
    command = [sys.executable, str(tool), "--queries", "1000", "--child", "overhead", str(engine)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers = json.loads(told.stdout.splitlines()[-1])
    for each in numbers.values():
        assert each["ours_us"] - each["bare_us"] <= 5.0, numbers


def spec_of(engine: Path | str, **more: Any) -> RunSpec:
    return RunSpec(model=ModelRef(path=str(engine), format="engine"), runtime="tensorrt", **more)


def test_a_graph_follows_its_inputs(engine: Path) -> None:
    generator = np.random.default_rng(3)
    inputs = [generator.normal(size=(1, 64, 112, 112)).astype(np.float32) for _ in range(2)]
    found = {}
    for graph in ("on", "off"):
        session = tensorrt.open_session(spec_of(engine, batch=1, cuda_graph=graph))
        session.bind({"x": inputs[0]})
        session.first()
        session.step()  # captures, and checks the replay on inputs that came later
        assert session.conditions["cuda_graph"].value is (graph == "on")
        assert "graph_outputs_differ" not in session.evidence
        found[graph] = []
        for each in (*inputs, inputs[0]):
            session.bind({"x": each})
            found[graph].append(session.fetch()["y"].copy())
        session.close()
    for replayed, plain in zip(found["on"], found["off"], strict=True):
        assert np.abs(replayed - plain).max() <= 1e-2 * np.abs(plain).max()
    assert np.abs(found["on"][0] - found["on"][1]).max() > 1e-2 * np.abs(found["on"][0]).max()


def test_every_phase_of_a_pipeline_is_there(engine: Path, tmp_path: Path) -> None:
    outcome, times = worker(engine, tmp_path / "a", protocol="pipeline", streams=2)
    assert {"latency", "enqueue", "h2d", "gpu", "d2h"} <= set(times)
    assert outcome["conditions"]["overlapping"]["value"] is True


def test_memory_is_given_back(engine: Path) -> None:
    free = []
    with closing(open_cuda()) as cuda:
        for _ in range(7):
            session = tensorrt.open_session(spec_of(engine, batch=2))
            session.bind({"x": np.zeros((2, 64, 112, 112), np.float32)})
            session.fetch()
            session.close()
            free.append(cuda.memory()[0])
    assert free[1] - free[-1] < 8 << 20


def test_what_goes_wrong_is_told(engine: Path, tmp_path: Path) -> None:
    session = tensorrt.open_session(spec_of(engine))
    with pytest.raises(InputError, match="outside the range of the engine"):
        session.bind({"x": np.zeros((9, 64, 112, 112), np.float32)})
    session.close()
    cut = tmp_path / "cut.engine"
    cut.write_bytes(engine.read_bytes()[: engine.stat().st_size // 2])
    with pytest.raises((InputError, UnavailableError)):
        tensorrt.open_session(spec_of(cut))


def test_outputs_have_the_shape_that_their_data_give_them(
    built: Callable[..., str], tmp_path: Path
) -> None:
    """Where numbers are found is known when they are: TensorRT tells the shape after each query."""

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy")
    where = helper.make_tensor_value_info("where", TensorProto.INT64, [2, None])
    nodes = [
        helper.make_node("Greater", ["x", "half"], ["great"]),
        helper.make_node("NonZero", ["great"], ["where"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    half = numpy_helper.from_array(np.float32(0.5), "half")
    model = save_graph(helper.make_graph(nodes, "g", [x], [where, y], [half]), tmp_path / "m.onnx")
    engine = built(model, tmp_path / "where.engine")
    session = tensorrt.open_session(spec_of(engine, cuda_graph="auto"))
    drawn = np.random.default_rng(5).random((4, 64), dtype=np.float32)
    session.bind({"x": drawn})
    session.first()
    session.step()
    assert session.conditions["cuda_graph"].value is False
    for each in (drawn, drawn[::-1] * 0.7, drawn * 0):
        session.bind({"x": np.ascontiguousarray(each)})
        np.testing.assert_array_equal(session.fetch()["where"], np.array(np.nonzero(each > 0.5)))
    session.close()
