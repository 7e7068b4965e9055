"""What verbs print on real terminals of 60 to 200 columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models import conv_model
from terminal import WHOLE, WIDTHS, assert_honest, screens
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


VERBS = {
    "run": ["runs", "show", "last", "--store", "runs"],
    "runs": ["runs", "--store", "runs"],
    "compare": ["compare", "last", "last", "--store", "runs"],
    "inspect": ["inspect", LONG, "--layers"],
    "inspect run": ["inspect", "last", "--store", "runs"],
    "doctor": ["doctor"],
}


@pytest.fixture(scope="module")
def drawn(measured: Path) -> dict[str, dict[int, list[str]]]:
    pages = screens(list(VERBS.values()), cwd=measured)
    return dict(zip(VERBS, pages, strict=True))


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("verb", VERBS)
def test_no_screen_is_too_wide_or_cuts_a_number(
    drawn: dict[str, dict[int, list[str]]], verb: str, columns: int
) -> None:
    assert len(drawn[verb][columns]) >= 2
    assert_honest(drawn[verb][columns], drawn[verb][WHOLE], columns=columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_the_list_of_runs_keeps_id_model_and_median(
    drawn: dict[str, dict[int, list[str]]], columns: int
) -> None:
    head, first, *_ = drawn["runs"][columns]
    assert {"Run", "Model", "Median"} <= set(head.split())
    assert re.match(r"\d{8}-\d{6}-\w{6} .* +a_network.+\.onnx +.*[\d.]+ [µm]s", first), first


@pytest.mark.parametrize("columns", WIDTHS)
def test_columns_of_a_run_are_shown_or_named(
    drawn: dict[str, dict[int, list[str]]], columns: int
) -> None:
    lines = drawn["run"][columns]
    assert re.search(r"Host +[\d.]+ [µm]s", "\n".join(lines))
    head = next(line for line in lines if line.startswith("Time"))
    left_out = "".join(line for line in lines if line.startswith("too narrow for:"))
    for title in ("Median", "Mean", "Std", "Min", "p90", "p95", "p99", "Max", "Samples"):
        assert (title in head.split()) != (title in left_out), title
    assert left_out or columns > 60
    assert not left_out or columns < 200
