"""A pass over many items: batches, the last short one, times apart, and what the GPU computed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from gpu_standin import GPU_S, Trt, plan_bytes
from trtbench.domain.feed import Feed, InferOutcome
from trtbench.domain.job import Stage
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.host.chunks import Chunks
from trtbench.runtimes import tensorrt
from trtbench.runtimes._stream import TIMES, stream
from trtbench.tasks._feed import open_feed


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    path = tmp_path / "model.engine"
    path.write_bytes(plan_bytes())
    reference = ModelRef(path=str(path), format="engine")
    return RunSpec(model=reference, runtime="tensorrt", batch=4)


def run(spec: RunSpec, folder: Path, *, count: int, decode: object = None) -> InferOutcome:
    folder.mkdir(exist_ok=True)
    feed = Feed(kind="random", count=count, seed=5)
    return stream(
        tensorrt.open_session,
        spec,
        open_source=lambda tensors: open_feed(feed, tensors, spec=spec),
        decode=decode,  # type: ignore[arg-type]
        folder=folder,
        stage=Stage(),
    )


def test_every_item_is_run_and_the_gpu_is_timed_alone(
    gpu: Trt, spec: RunSpec, tmp_path: Path
) -> None:
    outcome = run(spec, tmp_path / "a", count=10)
    assert (outcome.items, outcome.batch) == (10, 4)
    rows = Chunks(tmp_path / "a").whole()
    assert rows["y"].shape[0] == 10
    with np.load(tmp_path / "a" / TIMES) as times:
        assert times["items"].tolist() == [4, 4, 2]
        assert times["model"] == pytest.approx([GPU_S] * 3, rel=0.5)
        assert (times["inference"] > times["model"]).all(), "a caller also waits for copies"
    assert gpu.cuda.live == {}


def test_batches_change_neither_inputs_nor_outputs(gpu: Trt, spec: RunSpec, tmp_path: Path) -> None:
    one = run(spec, tmp_path / "a", count=7)
    other = run(msgspec.structs.replace(spec, batch=2), tmp_path / "b", count=7)
    assert one.inputs_sha256 == other.inputs_sha256
    first, second = (Chunks(tmp_path / name).whole()["y"] for name in ("a", "b"))
    np.testing.assert_array_equal(first, second)


def test_what_a_task_makes_of_outputs_is_kept_instead(
    gpu: Trt, spec: RunSpec, tmp_path: Path
) -> None:
    seen = []

    def decode(outputs: dict, loaded: list) -> dict:
        seen.append(len(loaded))
        return {"sum": outputs["y"].reshape(len(loaded), -1).sum(axis=1)}

    run(spec, tmp_path / "a", count=6, decode=decode)
    assert seen == [4, 2]
    assert set(Chunks(tmp_path / "a").whole()) == {"sum"}
