"""Ladders between two numbers of one model: from what runs state, and measured step by step."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from models import tiny_model
from trtbench.analysis.ladder import ladder_from_runs, steps_between
from trtbench.domain.result import Environment, Fact, Gpu, LaunchFacts, Run, RunRecord
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import ModelRef, RunSpec, Warmup
from trtbench.errors import UsageError
from trtbench.store.store import Store
from trtbench.workflows.explain.ladder import explain_measured, explain_stated
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec

MODEL = ModelRef(path="/models/net.engine", format="engine")


def made(
    *,
    transfers: bool = True,
    graph: bool = False,
    version: str = "10.9.0",
    h2d_us: float = 20.0,
    gpu_us: float = 100.0,
    host_us: float | None = None,
    clock_hz: float | None = None,
) -> Run:
    """A run with constant times; copies only where transfers are on."""
    copies = h2d_us if transfers else 0.0
    columns = {
        "latency": np.full(50, (copies + gpu_us) * 1e-6),
        "gpu": np.full(50, gpu_us * 1e-6),
        "enqueue": np.full(50, 30e-6),
    }
    if transfers:
        columns |= {"h2d": np.full(50, h2d_us * 1e-6), "d2h": np.zeros(50)}
    if host_us is not None:
        columns["host"] = np.full(50, host_us * 1e-6)
    gpu = Gpu(name="G", sm_clock_hz=clock_hz, clocks_locked=clock_hz is not None)
    record = RunRecord(
        id="run",
        created="2026-03-01T10:00:00+01:00",
        spec=RunSpec(model=MODEL, runtime="tensorrt"),
        environment=Environment(
            host="box", os="Linux", gpus=(gpu,), versions={"tensorrt": version}
        ),
        launches=(LaunchFacts(),),
        conditions={"transfers": Fact(value=transfers), "cuda_graph": Fact(value=graph)},
    )
    return Run(record=record, times=IterationTimes(**columns))


def test_copies_that_one_side_leaves_out_are_counted_exactly() -> None:
    ladder = ladder_from_runs(made(), made(transfers=False))
    (rung,) = [each for each in ladder.rungs if each.key == "transfers"]
    assert (rung.seconds, rung.evidence) == (pytest.approx(-20e-6), "measured")
    assert ladder.unexplained_s == pytest.approx(0, abs=1e-12)


def test_numbers_that_count_different_things_are_told_apart() -> None:
    ladder = ladder_from_runs(made(host_us=150), made())
    (rung,) = [each for each in ladder.rungs if each.key == "metric"]
    assert (rung.a, rung.b) == ("host", "latency")
    assert rung.seconds == pytest.approx(-30e-6)
    assert ladder.unexplained_s == pytest.approx(0, abs=1e-12)


def test_the_only_difference_gets_what_is_left_and_says_so() -> None:
    ladder = ladder_from_runs(made(gpu_us=100), made(gpu_us=70, graph=True))
    (rung,) = ladder.rungs
    assert (rung.key, rung.evidence) == ("cuda_graph", "by exclusion")
    assert rung.seconds == pytest.approx(-30e-6)


def test_two_differences_of_unknown_size_leave_the_rest_unexplained() -> None:
    ladder = ladder_from_runs(made(gpu_us=100), made(gpu_us=70, graph=True, version="11.0.0"))
    assert {each.key for each in ladder.rungs} == {"cuda_graph", "versions"}
    assert all(each.seconds is None for each in ladder.rungs)
    assert ladder.unexplained_s == pytest.approx(-30e-6)
    versions = next(each for each in ladder.rungs if each.key == "versions")
    assert "TensorRT 11" in versions.because


def test_clocks_bound_what_they_can_do() -> None:
    ladder = ladder_from_runs(made(clock_hz=2e9), made(gpu_us=150, clock_hz=1e9))
    (rung,) = [each for each in ladder.rungs if each.key == "clock"]
    assert (rung.seconds, rung.evidence) == (pytest.approx(100e-6), "at most")
    assert ladder.unexplained_s == pytest.approx(50e-6)


def test_steps_change_one_thing_at_a_time_and_end_at_the_other() -> None:
    serve = RunSpec(model=MODEL, runtime="tensorrt")
    gpu = RunSpec(
        model=MODEL, runtime="tensorrt", protocol="gpu", transfers=False, cuda_graph="on",
        spin_wait=True,
    )  # fmt: skip
    there, back = steps_between(serve, gpu), steps_between(gpu, serve)
    assert [key for key, _ in there] == ["transfers", "cuda_graph", "spin_wait", "protocol"]
    assert [key for key, _ in back] == ["protocol", "transfers", "cuda_graph", "spin_wait"]
    assert (there[-1][1], back[-1][1]) == (gpu, serve)


def test_a_ladder_is_measured_step_by_step(store: Store, config: Config, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny.onnx")
    quick = {"batch": 1, "warmup": 0.01, "until_steady": False, "duration": 0.05, "iterations": 20}
    a, b = (
        run_bench(
            run_spec(BenchRequest(model=model, threads=1, gap=gap, **quick), config), store=store
        )
        for gap in (None, "1ms")
    )
    found = explain_measured(a, b, store=store, conduct=Conduct(), launches=1)
    assert [each.key for each in found.steps] == ["again", "gap_s"]
    assert [each.run.record.spec.gap_s for each in found.steps] == [0.0, 0.001]
    ladder = found.ladder
    assert ladder.a_s is not None
    assert ladder.b_s is not None
    reached = ladder.a_s + math.fsum(each.seconds or 0.0 for each in ladder.rungs)
    assert reached + (ladder.unexplained_s or 0.0) == pytest.approx(ladder.b_s)
    stated = explain_stated(a, b).ladder
    assert "gap_s" in {each.key for each in stated.rungs}
    model.write_bytes(model.read_bytes() + b"\0")
    with pytest.raises(UsageError, match="changed since"):
        explain_measured(a, b, store=store, conduct=Conduct())
    model.unlink()
    with pytest.raises(UsageError, match="not there"):
        explain_measured(a, b, store=store, conduct=Conduct())


def test_warm_ups_that_differ_are_a_rung() -> None:

    a = made()
    spec = a.record.spec.having(warmup=Warmup(until_steady=False))
    b = Run(record=a.record.having(spec=spec), times=a.times)
    assert [each.key for each in ladder_from_runs(a, b).rungs] == ["warmup"]


def test_a_run_without_layers_says_how_to_get_them(
    store: Store, config: Config, tmp_path: Path
) -> None:
    from trtbench.workflows.explain.source import engine_from_words

    model = tiny_model(tmp_path / "tiny.onnx")
    quick = {"batch": 1, "warmup": 0.01, "until_steady": False, "duration": 0.02, "iterations": 5}
    run = run_bench(run_spec(BenchRequest(model=model, **quick), config), store=store)
    with pytest.raises(UsageError, match="neither layer times") as problem:
        engine_from_words([run.id], store=store)
    assert "trtbench profile" in str(problem.value)
