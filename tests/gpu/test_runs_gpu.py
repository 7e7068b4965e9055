"""Runs on a real GPU: memory, an open loop, and comparisons in bursts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trtbench
from trtbench.store.directory import read_record

QUICK = {"runtime": "tensorrt", "iterations": 20, "warmup": "20ms", "until_steady": False}


def test_a_run_reports_the_gpu_memory_it_took(engine: Path, tmp_path: Path) -> None:
    run = trtbench.bench(engine, store=tmp_path / "s", **QUICK)
    assert run.record.facts["gpu_memory_bytes"] > 50 * 2**20


def test_queries_of_an_open_loop_are_counted_from_when_they_were_due(engine: Path, tmp_path: Path):
    run = trtbench.bench(
        engine, runtime="tensorrt", protocol="server", rate="1000/s", duration="1s",
        warmup="50ms", until_steady=False, store=tmp_path / "s",
    )  # fmt: skip
    late = run.record.facts["late_share"]
    print(f"sent late at 1000/s: {100 * late:.2f} %")  # for who reads the log: -s shows it
    assert 0 <= late <= 1
    assert run.record.facts["achieved_hz"] == pytest.approx(1000, rel=0.2)


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
