"""Inputs drawn at random with sense, or read from files, cut to the batch, and refused in words."""

import numpy as np
import pytest

from trtbench.core.errors import InputError
from trtbench.core.spec import InputSpec, ModelRef, RunSpec, TensorSpec
from trtbench.models.inputs import random_inputs
from trtbench.runtimes._session import resolve_inputs

IMAGE = TensorSpec(name="image", dtype="float32", shape=("batch", 3, 4, 4))
IDS = TensorSpec(name="input_ids", dtype="int64", shape=("batch", "sequence"))
MASK = TensorSpec(name="attention_mask", dtype="int64", shape=("batch", "sequence"))
SWITCH = TensorSpec(name="use_scale", dtype="bool", shape=(1,))


def spec(**kw) -> RunSpec:
    source, seed = kw.pop("source", None), kw.pop("seed", 0)
    inputs = InputSpec(source=str(source) if source else None, seed=seed)
    model = ModelRef(path="/m.onnx", format="onnx")
    return RunSpec(model=model, runtime="onnxruntime", inputs=inputs, **kw)


def resolve(*tensors: TensorSpec, **kw):
    return resolve_inputs(tensors, spec(**kw))[:2]


def draw(name: str, dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return random_inputs((TensorSpec(name=name, dtype=dtype, shape=shape),), seed=seed)[name]


# --- drawn at random -------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_values_and_another_others():
    _, first = resolve(IMAGE, IDS, batch=2, shapes={"input_ids": (2, 8)})
    _, again = resolve(IMAGE, IDS, batch=2, shapes={"input_ids": (2, 8)})
    _, other = resolve(IMAGE, IDS, batch=2, shapes={"input_ids": (2, 8)}, seed=1)
    for name in ("image", "input_ids"):
        assert (first[name] == again[name]).all()
        assert (first[name] != other[name]).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_vary_and_are_not_zeros(dtype):
    values = draw("x", dtype, 1000)
    assert values.dtype == dtype
    assert np.isfinite(values).all()
    assert 0 <= values.min() < 0.1 < 0.9 < values.max() <= 1
    assert (values == 0).mean() < 0.01
    assert isinstance(draw("x", dtype), np.ndarray), "ONNX Runtime takes no numbers of numpy"


def test_integers_and_booleans_get_what_their_names_suggest():
    assert (draw("attention_mask", "int64", 4, 8) == 1).all()
    assert (draw("token_type_ids", "int64", 4, 8) == 0).all()
    assert draw("position_ids", "int64", 2, 5).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert draw("flag", "bool", 3).all()
    ids = draw("input_ids", "int64", 10_000)
    assert 0 <= ids.min() < 50
    assert 900 < ids.max() < 1000
    pixels = draw("pixels", "uint8", 10_000)
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert draw("x", "int8", 10_000).max() == 127
    assert (draw("lengths", "int32", 2) == 1).all()


# --- shapes ----------------------------------------------------------------------------------


def test_dynamic_dimensions_get_what_their_names_suggest():
    settled, arrays = resolve(IDS, MASK, SWITCH)
    assert [tensor.shape for tensor in settled[:2]] == [(1, 128), (1, 128)]
    assert arrays["input_ids"].shape == (1, 128)
    assert resolve(IMAGE)[0][0].shape == (1, 3, 4, 4)


def test_a_batch_goes_to_every_dynamic_leading_dimension_and_leaves_the_others():
    settled, _ = resolve(IMAGE, SWITCH, batch=5)
    assert [tensor.shape for tensor in settled] == [(5, 3, 4, 4), (1,)]
    fixed = TensorSpec(name="boxes", dtype="float32", shape=(1, 4))
    assert resolve(IMAGE, fixed, batch=5)[0][1].shape == (1, 4)
    with pytest.raises(InputError, match="fixed at 1") as caught:
        resolve(fixed, batch=5)
    assert "--batch 1" in caught.value.fix


# --- from files ------------------------------------------------------------------------------

IMAGES = np.arange(10 * 48, dtype=np.float32).reshape(10, 3, 4, 4)


def write(folder, kind: str, array: np.ndarray, name: str = "image"):
    if kind == "npz":
        np.savez(folder / "data.npz", **{name: array})
    else:
        np.save(folder / "data.npy", array)
    return folder / f"data.{kind}"


@pytest.mark.parametrize(("kind", "name"), [("npz", "image"), ("npz", "arr_0"), ("npy", "")])
def test_every_kind_of_file_is_read_and_cut_to_the_batch(tmp_path, kind, name):
    source = write(tmp_path, kind, IMAGES, name)
    for batch in (1, 4, 10):
        settled, arrays = resolve(IMAGE, source=source, batch=batch)
        assert (arrays["image"] == IMAGES[:batch]).all()
        assert settled[0].shape == (batch, 3, 4, 4)
    settled, arrays = resolve(IMAGE, source=source)
    assert settled[0].shape == (10, 3, 4, 4)
    with pytest.raises(InputError, match="has 10 items, fewer than one batch of 11") as caught:
        resolve(IMAGE, source=source, batch=11)
    assert caught.value.fix == "--batch 10"


def test_inputs_that_do_not_take_the_batch_are_not_cut(tmp_path):
    np.savez(tmp_path / "d.npz", image=IMAGES, use_scale=np.array([True]))
    _, arrays = resolve(IMAGE, SWITCH, source=tmp_path / "d.npz", batch=3)
    assert (len(arrays["image"]), len(arrays["use_scale"])) == (3, 1)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (IMAGES.astype(np.float64), "wrong type"),
        (IMAGES.astype(">f4"), "wrong type"),
        (IMAGES.reshape(10, -1), "wrong rank"),
        (IMAGES.reshape(10, 3, 2, 8), "wrong shape"),
    ],
)
def test_wrong_type_rank_and_shape(tmp_path, array, words):
    with pytest.raises(InputError, match=words) as caught:
        resolve(IMAGE, source=write(tmp_path, "npz", array))
    assert caught.value.facts["input"] == "image: float32 batchx3x4x4"
    assert str(array.dtype) in caught.value.facts["given"]


@pytest.mark.parametrize("name", ["data.npz", "data.npy", "data.txt", "data"])
@pytest.mark.parametrize("data", [b"", b"hello\n", b"PK\x03\x04", b"\x93NUMPY", b"\x80\x04N."])
def test_files_that_are_something_else(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError):
        resolve(IMAGE, source=tmp_path / name)


def test_objects_that_would_have_to_be_unpickled_are_refused(tmp_path):
    np.savez(tmp_path / "d.npz", image=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="is damaged"):
        resolve(IMAGE, source=tmp_path / "d.npz")
