"""Real engines against their reference where their layers meet, built again with outputs there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

import trtbench
from planted_faults import WIDTH, overflowing
from trtbench.cli import run
from trtbench.core.results import Localization
from trtbench.data import demo_file

BATCH = 8
Built = Callable[..., str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))


def looked_at(
    reference: Path, engine: str, *, distribution: Literal["uniform", "normal"] = "normal"
) -> Localization:
    return trtbench.localize(
        reference, engine, random=32, batch=BATCH, distribution=distribution,
        runtime=("onnxruntime", "tensorrt"),
    )  # fmt: skip


def test_marks_do_not_change_an_int8_engine_and_the_drift_grows_along_it(
    built: Built, tmp_path: Path
) -> None:
    shape = ("--shape", f"image:{BATCH}x1x32x32")
    engine = built(demo_file("digits.int8.onnx"), tmp_path / "int8.engine", *shape)
    # Pixels as it was quantized for: others are clipped, by ONNX Runtime too.
    found = looked_at(demo_file("digits.onnx"), engine, distribution="uniform").found
    assert len(found.groups) >= 2, found.notes  # its INT8 layers are one stretch
    assert not found.marks_changed_outputs, found.notes
    assert all(group.rel_l2 is not None and group.rel_l2 < 1 for group in found.groups)
    assert 10 < found.candidate["sqnr_db"] < 60
    assert "INT8" in {group.type for group in found.groups} or found.groups[0].added > 0


def test_an_overflow_in_an_fp16_engine_is_named_first(built: Built, tmp_path: Path) -> None:
    """TensorRT 8.6 may compute single layers in FP32: then nothing overflows there."""
    reference = overflowing(tmp_path / "model.onnx", layer=2, seed=4, layers=5)
    assert run(["quantize", str(reference), "--precision", "fp16", "--keep-io"]) == 0
    words = ("--shape", f"x:{BATCH}x{WIDTH}", "--precision", "fp16")
    engine = built(tmp_path / "model.fp16.onnx", tmp_path / "fp16.engine", *words)
    found = looked_at(reference, engine).found
    # 8.6 fuses all of it and computes in FP32 unless a tensor inside is marked: that is told.
    if found.candidate["nonfinite"] or found.marks_changed_outputs:
        assert found.groups[0].node == "fc2"
        assert found.groups[0].first_nonfinite or not found.candidate["nonfinite"]
    else:
        assert found.candidate["sqnr_db"] > 30
