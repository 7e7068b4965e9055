"""Layers, differences and causes from Python: data frames and values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from layer_files import write_engine

import trtbench


@pytest.fixture
def sides(tmp_path: Path) -> list[Path]:
    return [write_engine(tmp_path, name) for name in ("fp16", "int8")]


def test_layers_are_a_data_frame(sides: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = trtbench.layers(sides[1], sort="order", store=tmp_path / "store")
    assert list(frame["index"]) == list(range(6))
    assert frame["average_s"].sum() == pytest.approx(43e-6)
    assert frame.set_index("name").loc["/b/Conv", "precision"] == "int8"
    groups = trtbench.layers(sides[1], by="role", store=tmp_path / "store")
    assert dict(zip(groups["role"], groups["layers"], strict=True)) == {"compute": 4, "quantize": 2}


def test_a_diff_is_a_data_frame(sides: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    frame = trtbench.diff(*sides, store=tmp_path / "store")
    assert frame["delta_s"].sum() == pytest.approx(-11e-6)


def test_why_is_a_value(sides: list[Path], tmp_path: Path) -> None:
    found = trtbench.why(*sides, store=tmp_path / "store")
    assert found.causes[0].cause.layers[0] == "/act/Gelu"
