"""Tensors as engines hold them, what two runs of one tell, and times of layers from rows."""

import numpy as np
import pytest

from trtbench.runtimes._gpu_query import is_close
from trtbench.runtimes._session import profile_from_rows
from trtbench.runtimes._trt_session import Port, array_from_bytes, output_evidence


def port(dtype: str = "float32", bits: int = 32, **more: object) -> Port:
    return Port(name="x", is_input=True, dtype=dtype, bits=bits, shape=(-1, 3), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "shape", "size"),
    [
        (port(), (2, 3), 24),
        (port("float16", 16), (2, 3), 12),
        (port("int4", 4), (1, 3), 2),  # half bytes are filled up
        (port("int8", 8, packed_dim=1, packed=32), (2, 3), 64),  # 3 channels in a place for 32
        (port(), (0, 3), 0),
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
    assert is_close(ONE, other) is expected


def test_whether_numbers_without_an_end_and_whole_numbers_are_the_same() -> None:
    endless = np.array([np.inf, np.nan, 1.0], np.float32)
    assert is_close(endless, endless + np.float32(1e-3))
    assert not is_close(np.array([1, 2]), np.array([1, 3]))  # no tolerance for an index
    assert is_close(np.zeros(3, np.float32), np.zeros(3, np.float32) * -1)


def test_what_two_inputs_tell_of_the_outputs() -> None:
    whole = {"ids": np.arange(3)}
    assert output_evidence(whole, whole) == {}
    before, after = {"y": ONE, **whole}, {"y": ONE * 2, **whole}
    assert output_evidence(before, after) == {"outputs_finite": True, "outputs_vary": True}
    assert output_evidence(before, before) == {"outputs_finite": True, "outputs_vary": False}
    odd = {"y": np.array([np.nan], np.float32)}
    assert output_evidence(odd, odd) == {"outputs_finite": False, "outputs_vary": False}


def test_layers_of_most_iterations_count_and_names_may_repeat() -> None:
    """An iteration that took another branch is left out."""
    usual = [[("a", 1.0), ("b", 2.0), ("a", 3.0)], [("a", 3.0), ("b", 2.0), ("a", 5.0)]]
    found = profile_from_rows([usual[0], [("c", 9.0)], usual[1]])
    assert found.count == 2
    assert [each.name for each in found.layers] == ["a", "b", "a"]
    assert [each.average_s for each in found.layers] == [2.0, 2.0, 4.0]
    assert [each.share for each in found.layers] == [4 / 16, 4 / 16, 8 / 16]
    assert (found.layers[0].min_s, found.layers[0].max_s) == (1.0, 3.0)
