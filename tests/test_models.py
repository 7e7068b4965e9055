"""The models that other tests are made of do run, or fail in the way they are meant to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import models


def session_on(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def best_time_s(path: Path, feeds: dict[str, np.ndarray], *, repeats: int) -> float:
    session = session_on(path)
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        session.run(None, feeds)
        durations.append(time.perf_counter() - start)
    return min(durations)


@pytest.mark.parametrize(
    "make",
    [
        models.conv_model,
        models.slow_model,
        models.tiny_model,
        models.multi_input_model,
        models.external_data_model,
        models.unsupported_operator_model,
    ],
)
def test_every_model_is_opset_17_ir_8_and_repeatable(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    first = make(tmp_path / "model.onnx").read_bytes()
    assert make(tmp_path / "model.onnx").read_bytes() == first
    loaded = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(loaded)
    assert {entry.domain: entry.version for entry in loaded.opset_import}[""] == 17
    assert loaded.ir_version == 8


def test_conv_model_takes_any_batch(tmp_path: Path) -> None:
    path = models.conv_model(tmp_path / "conv.onnx", channels=4, size=12, layers=3)
    session = session_on(path)
    for batch in (1, 5):
        (logits,) = session.run(None, {"image": np.ones((batch, 3, 12, 12), np.float32)})
        assert logits.shape == (batch, 10)
        assert np.isfinite(logits).all()
        assert logits.any()


def test_conv_model_takes_a_fixed_batch(tmp_path: Path) -> None:
    session = session_on(models.conv_model(tmp_path / "conv.onnx", batch=2))
    assert session.get_inputs()[0].shape == [2, 3, 16, 16]


def test_slow_model_costs_what_is_asked(tmp_path: Path) -> None:
    feeds = {"x": np.ones((64, 256), np.float32)}
    short = models.slow_model(tmp_path / "short.onnx", width=256, layers=2, passes=1)
    long = models.slow_model(tmp_path / "long.onnx", width=256, layers=2, passes=20)
    (result,) = session_on(long).run(None, feeds)
    assert np.isfinite(result).all()
    assert long.stat().st_size < 1.2 * short.stat().st_size
    ratio = best_time_s(long, feeds, repeats=10) / best_time_s(short, feeds, repeats=10)
    assert ratio > 5


def test_tiny_model_is_tiny(tmp_path: Path) -> None:
    path = models.tiny_model(tmp_path / "tiny.onnx")
    other = models.slow_model(tmp_path / "slow.onnx", width=256, layers=2, passes=1)
    best_s = best_time_s(path, {"x": np.ones((1, 16), np.float32)}, repeats=500)
    assert best_s < best_time_s(other, {"x": np.ones((64, 256), np.float32)}, repeats=20) / 3


def test_multi_input_model_uses_every_input(tmp_path: Path) -> None:
    session = session_on(models.multi_input_model(tmp_path / "text.onnx"))
    types = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    assert types == {
        "input_ids": ("tensor(int64)", ["batch", "sequence"]),
        "attention_mask": ("tensor(int64)", ["batch", "sequence"]),
        "use_scale": ("tensor(bool)", [1]),
        "scale": ("tensor(float)", ["batch", 1]),
    }
    feeds = {
        "input_ids": np.arange(6).reshape(2, 3),
        "attention_mask": np.array([[1, 1, 1], [1, 0, 0]]),
        "use_scale": np.array([False]),
        "scale": np.full((2, 1), 2, np.float32),
    }
    (plain,) = session.run(None, feeds)
    (scaled,) = session.run(None, {**feeds, "use_scale": np.array([True])})
    (unmasked,) = session.run(None, {**feeds, "attention_mask": np.ones((2, 3), np.int64)})
    assert plain.shape == (2, 8)
    np.testing.assert_allclose(scaled, 2 * plain)
    assert not np.allclose(unmasked[1], plain[1])


def test_multi_input_model_refuses_an_id_outside_its_vocabulary(tmp_path: Path) -> None:
    session = session_on(models.multi_input_model(tmp_path / "text.onnx", vocabulary=10))
    feeds = {
        "input_ids": np.array([[10]]),
        "attention_mask": np.array([[1]]),
        "use_scale": np.array([False]),
        "scale": np.ones((1, 1), np.float32),
    }
    with pytest.raises(Exception, match="out of data bounds"):
        session.run(None, feeds)


def test_external_data_model_needs_its_data(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "large.onnx")
    feeds = {"image": np.ones((1, 3, 16, 16), np.float32)}
    (logits,) = session_on(path).run(None, feeds)
    assert logits.shape == (1, 10)
    data = models.external_data_path(path)
    assert data.stat().st_size > path.stat().st_size
    data.unlink()
    with pytest.raises(Exception, match=r"large\.onnx\.data"):
        session_on(path)


def test_unsupported_operator_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="Unheard"):
        session_on(models.unsupported_operator_model(tmp_path / "strange.onnx"))


def test_truncate_leaves_a_file_that_does_not_load(tmp_path: Path) -> None:
    path = models.truncate(models.conv_model(tmp_path / "cut.onnx"))
    assert path.stat().st_size > 0
    with pytest.raises(Exception, match=r"(?i)protobuf"):
        session_on(path)
