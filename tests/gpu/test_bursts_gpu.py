"""A comparison in bursts on a real GPU: an engine and itself, and one with a layer more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trtbench.store.directory import read_record


def compared(folder: Path, *engines: Path) -> dict[str, Any]:
    """Compare by the command; gives the verdicts by metric, and the record of the baseline.

    GPU time is known after four launches: each place in memory is had by both sides. Host time may
    stay unclear.
    """
    command = [sys.executable, "-m", "trtbench", "compare", *map(str, engines)]
    command += ["--store", "store", "--json", "--launches", "4", "--max-launches", "4"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 3), ended.stderr
    told = json.loads(ended.stdout)["comparison"]
    verdicts = {each["metric"]: each for each in told["verdicts"]}
    [run] = (folder / "store").glob(f"**/{told['baseline']}/run.json")
    return {"record": read_record(run.parent), "design": told["design"], **verdicts}


def test_an_engine_and_itself_are_the_same(stacks: tuple[Path, Path], tmp_path: Path) -> None:
    found = compared(tmp_path, stacks[0], stacks[0])
    assert found["design"] == "bursts"
    assert found["gpu"]["kind"] == "same", found["gpu"]
    assert found["host"]["kind"] in ("same", "unclear"), found["host"]
    assert found["gpu"]["ratio"] == pytest.approx(1, abs=0.01)
    record = found["record"]
    assert record.conditions["cuda_graph"].value is True
    assert record.launches[0].burst_size > 1


def test_one_layer_more_is_found(stacks: tuple[Path, Path], tmp_path: Path) -> None:
    found = compared(tmp_path, *stacks)
    assert found["gpu"]["kind"] == "slower", found["gpu"]
    assert 1.02 < found["gpu"]["ratio"] < 1.12, "one of 17 layers, and what does not grow with them"
    assert found["host"]["kind"] in ("slower", "same", "unclear"), found["host"]
