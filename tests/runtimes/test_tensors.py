"""Tensors as engines hold them, what two runs of one tell, and times of layers from rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from trtbench.core.errors import InputError
from trtbench.core.spec import ShapeProfile, TensorSpec
from trtbench.runtimes._session import profile_from_rows, repeat_profiled, unfit_inputs
from trtbench.runtimes._trt_engine import (
    Port,
    array_from_bytes,
    bytes_of,
    judged,
    same,
)


def port(dtype: str = "float32", bits: int = 32, **more: object) -> Port:
    return Port(name="x", is_input=True, dtype=dtype, bits=bits, shape=(-1, 3), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "shape", "size"),
    [
        (port(), (2, 3), 24),
        (port("float16", 16), (2, 3), 12),
        (port("int4", 4), (1, 3), 2),  # half bytes are filled up
        (port("int8", 8, packed_dim=1, packed=32), (2, 3), 64),  # 3 channels in a place for 32
        (port(), (0, 3), 1),
        (port(), (), 4),
    ],
)
def test_bytes_that_a_tensor_takes(given: Port, shape: tuple[int, ...], size: int) -> None:
    assert given.size_bytes(shape) == size


def test_outputs_come_as_numpy_can_hold_them() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = np.concatenate([values.reshape(-1).view(np.uint8), np.zeros(8, np.uint8)])  # more room
    assert np.array_equal(array_from_bytes(raw, port(), (2, 3)), values)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    wide = array_from_bytes(bits.reshape(-1).view(np.uint8), port("bfloat16", 16), (2, 3))
    assert (wide.dtype, wide.tolist()) == (np.float32, values.tolist())
    for small in (port("float8_e4m3fn", 8), port("int4", 4), port("int8", 8, packed=4)):
        assert np.array_equal(array_from_bytes(raw, small, (2, 3)), raw)


def test_an_output_whose_shape_depends_on_data_is_all_there_is_room_for() -> None:
    raw = np.arange(6, dtype=np.float32).view(np.uint8)
    for shape in ((-1,), (-1, -1), (2, -1)):
        assert array_from_bytes(raw, port(), shape).tolist() == [0, 1, 2, 3, 4, 5]


def test_inputs_of_the_wrong_size_are_refused_unless_the_layout_has_room() -> None:
    array = np.ones((2, 3), np.float32)
    with pytest.raises(InputError, match="'x' has the wrong size") as caught:
        bytes_of(array, port(), 12)
    assert caught.value.facts == {"bytes": "24", "expected": "12"}
    filled = bytes_of(array, port(packed=32), 32)
    assert filled.nbytes == 32
    assert np.array_equal(filled[:24].view(np.float32), array.reshape(-1))
    assert not filled[24:].any()


ONE = np.array([1.0, 2.0, 100.0], np.float32)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (ONE.copy(), True),
        (ONE + np.float32(0.9), True),  # below 1 % of the largest
        (ONE + np.float32(1.1), False),
        (ONE[:2], False),
        (np.array([1.0, np.nan, 100.0], np.float32), False),
    ],
)
def test_whether_two_runs_gave_the_same(other: np.ndarray, expected: bool) -> None:
    assert same(ONE, other) is expected


def test_whether_numbers_without_an_end_and_whole_numbers_are_the_same() -> None:
    endless = np.array([np.inf, np.nan, 1.0], np.float32)
    assert same(endless, endless + np.float32(1e-3))
    assert not same(np.array([1, 2]), np.array([1, 3]))  # no tolerance for an index
    assert same(np.zeros(3, np.float32), np.zeros(3, np.float32) * -1)


def test_what_two_inputs_tell_of_the_outputs() -> None:
    whole = {"ids": np.arange(3)}
    assert judged(whole, whole) == {}
    before, after = {"y": ONE, **whole}, {"y": ONE * 2, **whole}
    assert judged(before, after) == {"outputs_finite": True, "outputs_vary": True}
    assert judged(before, before) == {"outputs_finite": True, "outputs_vary": False}
    odd = {"y": np.array([np.nan], np.float32)}
    assert judged(odd, odd) == {"outputs_finite": False, "outputs_vary": False}


def test_layers_of_most_iterations_count_and_names_may_repeat() -> None:
    """An iteration that took another branch is left out."""
    usual = [[("a", 1.0), ("b", 2.0), ("a", 3.0)], [("a", 3.0), ("b", 2.0), ("a", 5.0)]]
    found = profile_from_rows([usual[0], [("c", 9.0)], usual[1]])
    assert found.count == 2
    assert [each.name for each in found.layers] == ["a", "b", "a"]
    assert [each.average_s for each in found.layers] == [2.0, 2.0, 4.0]
    assert [each.share for each in found.layers] == [4 / 16, 4 / 16, 8 / 16]
    assert (found.layers[0].min_s, found.layers[0].max_s) == (1.0, 3.0)


def test_layers_that_were_not_timed_have_no_share() -> None:
    assert profile_from_rows([]).count == 0
    assert profile_from_rows([[], []]).layers == ()
    (only,) = profile_from_rows([[("a", 0.0)]]).layers
    assert only.share is None


def test_a_profiling_pass_ends_after_so_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    repeat_profiled(lambda: calls.append(1), most=25)
    assert len(calls) == 35  # ten thrown away; two seconds are not over
    calls.clear()
    monkeypatch.setattr("trtbench.runtimes._session.ENOUGH_S", 0.0)
    repeat_profiled(lambda: calls.append(1))
    assert len(calls) == 30, "the fewest, once the time is over"


IDS = TensorSpec(name="ids", dtype="int64", shape=(1, 8))
IMAGE = TensorSpec(name="my x", dtype="float32", shape=(1, 3))


@pytest.mark.parametrize(
    ("said", "inputs", "how", "fix"),
    [
        ("indices out of data bounds", (IDS,), {"drawn": True}, "rows for"),
        ("index out of range in self", (IDS,), {"drawn": True, "ranged": True}, "--range 0:99"),
        ("index out of range", (IMAGE,), {"drawn": True}, "--inputs FILE"),
        ("sizes differ", (IDS,), {"drawn": True}, "--shape ids:1x8"),
        ("sizes differ", (IMAGE,), {"drawn": False}, "--shape 'my x:1x3'"),
        ("", (IMAGE,), {"drawn": False}, "data that the model takes"),
    ],
)
def test_what_helps_when_a_model_does_not_run_on_its_inputs(
    said: str, inputs: tuple[TensorSpec, ...], how: dict[str, bool], fix: str
) -> None:
    problem = unfit_inputs(RuntimeError(said), inputs, **how)
    assert problem.facts["reason"] == (said or "RuntimeError")
    assert fix in (problem.fix or "")
    assert ("at random" in problem.facts["inputs"]) is how["drawn"]
    assert ("integers" in problem.facts) is ("rows for" in (problem.fix or ""))


def test_an_engine_tells_its_ports() -> None:
    from trtbench.runtimes._trt_engine import ports_of

    answers = {
        "num_io_tensors": 2, "get_tensor_name": lambda index: "xy"[index],
        "get_tensor_dtype": lambda name: "DataType.HALF", "get_tensor_shape": lambda name: (-1, 3),
        "get_tensor_mode": lambda name: name, "get_tensor_location": lambda name: name == "y",
        "get_tensor_vectorized_dim": lambda name: 1 if name == "y" else -1,
        "get_tensor_components_per_element": lambda name: 8 if name == "y" else -1,
        "get_tensor_profile_shape": lambda name, profile: ((1, 3), (2, 3), (3 + profile, 3)),
    }  # fmt: skip
    trt = SimpleNamespace(
        TensorIOMode=SimpleNamespace(INPUT="x"), TensorLocation=SimpleNamespace(HOST=True)
    )
    x, y = ports_of(SimpleNamespace(**answers), trt, profile=1)  # type: ignore[arg-type]
    assert (x.is_input, x.on_host, x.packed_dim, x.packed) == (True, False, None, 1)
    assert x.range == ShapeProfile(min=(1, 3), opt=(2, 3), max=(4, 3))
    assert (y.is_input, y.on_host, y.packed_dim, y.packed, y.range) == (False, True, 1, 8, None)
    assert (x.spec.shape, x.moves) == ((None, 3), True)
    answers["get_tensor_dtype"] = lambda name: "DataType.FP2"
    with pytest.raises(InputError, match="'x' has an unknown type"):
        ports_of(SimpleNamespace(**answers), trt, profile=1)  # type: ignore[arg-type]
