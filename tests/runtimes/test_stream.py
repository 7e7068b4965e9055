"""A pass over many items: batches, the last short one, times apart, and what the GPU computed."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import models
from gpu_standin import GPU_S, Trt, plan_bytes
from trtbench.core.errors import InputError
from trtbench.core.jobs import Stage
from trtbench.core.results import Feed, InferOutcome
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.host.arrays import Chunks
from trtbench.models.inputs import fixed_batch, has_rows
from trtbench.runtimes import onnxruntime, tensorrt
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


def test_every_item_is_run_and_the_gpu_is_timed_alone(gpu: Trt, spec: RunSpec, tmp_path: Path):
    outcome = run(spec, tmp_path / "a", count=10)
    assert (outcome.items, outcome.batch) == (10, 4)
    rows = Chunks(tmp_path / "a").rows(0, 1 << 30)
    assert rows["y"].shape[0] == 10
    with np.load(tmp_path / "a" / TIMES) as times:
        assert times["items"].tolist() == [4, 4, 2]
        assert times["model"] == pytest.approx([GPU_S] * 3, rel=0.5)
        assert (times["inference"] > times["model"]).all(), "a caller also waits for copies"
    assert gpu.cuda.live == {}


def test_batches_change_neither_inputs_nor_outputs(gpu: Trt, spec: RunSpec, tmp_path: Path) -> None:
    one = run(spec, tmp_path / "a", count=7)
    other = run(spec.having(batch=2), tmp_path / "b", count=7)
    assert one.inputs_sha256 == other.inputs_sha256
    first, second = (Chunks(tmp_path / name).rows(0, 1 << 30)["y"] for name in ("a", "b"))
    np.testing.assert_array_equal(first, second)


class Items:
    """Items that a test has at hand; of those that are ``None`` only the name is there."""

    notes = ("made by a test",)
    drawn = False

    def __init__(self, *items: object) -> None:
        self._items = items
        self.names = tuple(f"item {number}" for number in range(len(items)))

    def load(self, index: int) -> object:
        if self._items[index] is None:
            raise InputError("it cannot be read", facts={"reason": "cut short"})
        return self._items[index]

    def prepare(self, loaded: object) -> object:
        return loaded


def over(path: Path, folder: Path, *items: object, **changes: object) -> InferOutcome:
    """Run items through a model on ONNX Runtime."""
    folder.mkdir()
    reference = ModelRef(path=str(path), format="onnx")
    asked = RunSpec(model=reference, runtime="onnxruntime", **changes)  # type: ignore[arg-type]
    return stream(
        onnxruntime.open_session, asked, open_source=lambda tensors: Items(*items),  # type: ignore[arg-type,return-value]
        decode=None, folder=folder, stage=Stage(),
    )  # fmt: skip


def row(value: float = 1.0, size: int = 16) -> dict[str, np.ndarray]:
    return {"x": np.full(size, value, np.float32)}


def test_a_model_of_fixed_batch_gets_the_last_one_filled_up(tmp_path: Path) -> None:
    fixed = models.tiny_model(tmp_path / "fixed.onnx", batch=4)
    items = [row(value) for value in range(6)]
    found = over(fixed, tmp_path / "a", *items)
    assert (found.items, found.batch) == (6, 4)
    over(models.tiny_model(tmp_path / "open.onnx"), tmp_path / "b", *items)
    first, second = (Chunks(tmp_path / name).rows(0, 1 << 30)["y"] for name in ("a", "b"))
    np.testing.assert_allclose(first, second, rtol=1e-5)
    with pytest.raises(InputError, match="batch of the model is fixed at 4") as caught:
        over(fixed, tmp_path / "c", *items, batch=2)
    assert "leave out --batch" in (caught.value.fix or "")
    with pytest.raises(InputError, match="the batch of --shape is fixed at 4"):
        over(fixed, tmp_path / "d", *items, batch=2, shapes={"x": (4, 16)})


@pytest.mark.parametrize(
    ("shapes", "batch", "rows"),
    [
        ([("batch", 3, 8, 8)], None, [True]), ([(1, 4), ("batch", 16)], None, [False, True]),
        ([(1, 4), (8, 16)], 8, [False, True]), ([(8, 16), (1, 4)], 8, [True, False]),
        ([(4,), (8, 16)], 8, [False, True]), ([(), (2, 16), (2,)], 2, [False, True, True]),
        ([(1, 4), (1, 16)], 1, [True, True]), ([("seq", "batch", 16)], None, [False]),
        ([(10, "batch", 16), ("batch", 4)], None, [False, True]), ([(3, 224, 224)], None, [False]),
        ([(3, 64, 2)], 3, [True]),
    ],
)  # fmt: skip
def test_a_fixed_batch_is_told_by_all_inputs(
    shapes: list[tuple[int | str, ...]], batch: int | None, rows: list[bool]
) -> None:
    tensors = [
        TensorSpec(name=f"x{place}", dtype="float32", shape=shape)
        for place, shape in enumerate(shapes)
    ]
    assert fixed_batch(tensors) == batch
    assert [has_rows(each, tensors) for each in tensors] == rows


def test_items_that_are_counted_further_back_run_one_by_one(tmp_path: Path) -> None:
    float32 = TensorProto.FLOAT
    model = models.identity(tmp_path / "m.onnx", ("x", float32, ["seq", "batch", 4]))
    items = [{"x": np.full((6, 1, 4), value, np.float32)} for value in range(3)]
    found = over(model, tmp_path / "a", *items)
    assert (found.items, found.batch) == (3, 1)
    outputs = Chunks(tmp_path / "a").rows(0, 1 << 30)["x_out"]
    assert outputs.shape == (3, 6, 1, 4)
    assert outputs[:, 0, 0, 0].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="no input has a batch as its first dimension"):
        over(model, tmp_path / "b", *items, batch=2)


def test_outputs_that_are_no_rows_of_numbers_are_left_out(tmp_path: Path) -> None:
    text, kinds = ("s", TensorProto.STRING, ["batch"]), ("x", TensorProto.FLOAT, ["batch", 16])
    both = models.identity(tmp_path / "both.onnx", kinds, text)
    item = {**row(), "s": np.array("word", dtype=object)}
    found = over(both, tmp_path / "a", item, item, batch=2)
    assert set(Chunks(tmp_path / "a").rows(0, 1 << 30)) == {"x_out"}
    assert [each.name for each in found.outputs] == ["x_out"]
    assert "the output s_out was left out: it contains text" in found.notes
    with pytest.raises(InputError, match="no output has one row of numbers"):
        over(models.identity(tmp_path / "s.onnx", text), tmp_path / "b", {"s": item["s"]})
