"""What verbs print on real terminals of 60 to 200 columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models import conv_model
from terminal import WIDTHS, assert_honest, screen
from trtbench.cli import run as run_command

LONG = "a_network_with_quite_a_long_name-and-more.onnx"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a store in which it was measured twice."""
    folder = tmp_path_factory.mktemp("screens")
    conv_model(folder / LONG)
    for _ in range(2):
        status = run_command(
            ["bench", str(folder / LONG), "--batch", "2", "--iterations", "40", "--warmup", "20ms",
             "--launches", "2", "--store", str(folder / "runs")]
        )  # fmt: skip
        assert status == 0
    return folder


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_run_on_a_terminal(measured: Path, columns: int) -> None:
    shown = ["runs", "show", "last", "--store", "runs"]
    lines = screen(shown, columns=columns, cwd=measured)
    whole = screen(shown, columns=400, cwd=measured)
    assert_honest(lines, whole, columns=columns)
    text = "\n".join(lines)
    assert re.search(r"Host +[\d.]+ [µm]s", text)
    head = next(line for line in lines if line.startswith("Time"))
    left_out = "".join(line for line in lines if line.startswith("too narrow for:"))
    for title in ("Median", "Mean", "Std", "Min", "p90", "p95", "p99", "Max", "Samples"):
        assert (title in head.split()) != (title in left_out), title
    assert left_out or columns > 60
    assert not left_out or columns < 200
