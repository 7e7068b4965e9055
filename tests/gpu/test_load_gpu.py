"""Load on a real GPU: the sender is on time, a search ends with a curve, a trace is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

import trtbench
from trtbench.analysis import load as analysis
from trtbench.measure.load import measured
from trtbench.requests.execution import Execution
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import load_config
from trtbench.store.store import Store

QUICK = {"runtime": "tensorrt", "warmup": "50ms", "until_steady": False, "protocol": "server"}


def test_queries_of_an_open_loop_are_counted_from_when_they_were_due(
    engine: Path, tmp_path: Path
) -> None:
    run = trtbench.bench(engine, rate="1000/s", duration="1s", store=tmp_path / "s", **QUICK)
    late = run.record.facts["late_share"]
    print(f"sent late at 1000/s: {100 * late:.2f} %")  # for who reads the log: -s shows it
    assert 0 <= late <= 1
    assert run.record.facts["achieved_hz"] == pytest.approx(1000, rel=0.2)


def test_a_search_finds_a_rate_that_it_has_seen_kept(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "CURVE", ())  # each of its rates takes two launches or more
    request = BenchRequest(model=engine, slo="p90<50ms", rate="500/s", duration="100ms", **QUICK)
    spec = run_spec(request, load_config())
    run = measured(spec, store=Store(tmp_path / "s"), execution=Execution(), slo=request.slo)
    load = run.load
    assert load is not None
    assert load.points
    if load.highest_hz is not None:
        kept = next(each for each in load.points if each.rate_hz == load.highest_hz)
        assert kept.interval is not None
        assert kept.interval.high < load.slo.limit_s
        assert run.id in {each.run for each in kept.windows}
