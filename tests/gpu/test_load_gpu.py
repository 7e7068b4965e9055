"""Load on a real GPU: the sender is on time, a search ends with a curve, a trace is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

import trtbench

QUICK = {"runtime": "tensorrt", "warmup": "50ms", "until_steady": False, "protocol": "server"}


def test_queries_of_an_open_loop_are_counted_from_when_they_were_due(
    engine: Path, tmp_path: Path
) -> None:
    run = trtbench.bench(engine, rate="1000/s", duration="1s", store=tmp_path / "s", **QUICK)
    late = run.record.facts["late_share"]
    print(f"sent late at 1000/s: {100 * late:.2f} %")  # for who reads the log: -s shows it
    assert 0 <= late <= 1
    assert run.record.facts["achieved_hz"] == pytest.approx(1000, rel=0.2)
