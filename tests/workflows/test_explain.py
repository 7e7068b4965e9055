"""Ladders between two numbers of one model, and engines named by runs, folders and files."""

import numpy as np
import pytest

from analysis_values import environment, run, stated
from trtbench.analysis.stored_comparison import ladder_from_runs
from trtbench.core.run import Gpu, Run
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec, Warmup

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
    enqueue_us: float = 30.0,
    rate: float | None = None,
) -> Run:
    """A run with constant times; copies only where transfers are on."""
    copies = h2d_us if transfers else 0.0
    columns = {
        "latency": np.full(50, (copies + gpu_us) * 1e-6),
        "gpu": np.full(50, gpu_us * 1e-6),
        "enqueue": np.full(50, enqueue_us * 1e-6),
    }
    if transfers:
        columns |= {"h2d": np.full(50, h2d_us * 1e-6), "d2h": np.zeros(50)}
    if host_us is not None:
        columns["host"] = np.full(50, host_us * 1e-6)
    gpu = Gpu(name="G", sm_clock_hz=clock_hz, clocks_locked=clock_hz is not None)
    return run(
        IterationTimes(**columns),
        spec=RunSpec(model=MODEL, runtime="tensorrt"),
        environment=environment(gpus=(gpu,), versions={"tensorrt": version}),
        conditions=stated(transfers=transfers, cuda_graph=graph),
        reported={} if rate is None else {"throughput_qps": rate},
    )


@pytest.mark.parametrize(
    ("a", "b", "key", "seconds", "told", "rest"),
    [
        (made(), made(transfers=False), "transfers", -20e-6, "measured", 0),
        (made(host_us=150), made(), "metric", -30e-6, ("host", "latency"), 0),
        (made(clock_hz=2e9), made(gpu_us=150, clock_hz=1e9), "clock", 100e-6, "at most", 50e-6),
    ],
    ids=["copies that one side leaves out", "numbers of different things", "clocks bound"],
)
def test_every_difference_is_a_rung(
    a: Run, b: Run, key: str, seconds: float, told: object, rest: float
) -> None:
    ladder = ladder_from_runs(a, b)
    (rung,) = [each for each in ladder.rungs if each.key == key]
    assert rung.seconds == pytest.approx(seconds)
    assert told in (rung.evidence, (rung.a, rung.b))
    assert ladder.unexplained_s == pytest.approx(rest, abs=1e-12)


def test_the_only_difference_gets_what_is_left_and_says_so() -> None:
    ladder = ladder_from_runs(made(gpu_us=100), made(gpu_us=70, graph=True))
    (rung,) = ladder.rungs
    assert (rung.key, rung.evidence) == ("cuda_graph", "by exclusion")
    assert rung.seconds == pytest.approx(-30e-6)


@pytest.mark.parametrize(
    ("enqueue_us", "rate", "words"),
    [
        (61, 9960, "99.6 % of the time: it does not wait for launches"),
        (61, 8000, "80.0 % of the time: it may wait for launches"),
        (95, 8000, "80.0 % of the time: it waits for launches"),
        (30, None, "it does not wait for launches"),
    ],
)
def test_launching_is_blamed_only_if_the_gpu_is_idle(
    enqueue_us: float, rate: float | None, words: str
) -> None:
    before = made(enqueue_us=enqueue_us, rate=rate)
    (rung,) = ladder_from_runs(before, made(gpu_us=70, graph=True)).rungs
    assert words in rung.because


def test_two_differences_of_unknown_size_leave_the_rest_unexplained() -> None:
    ladder = ladder_from_runs(made(gpu_us=100), made(gpu_us=70, graph=True, version="11.0.0"))
    assert {each.key for each in ladder.rungs} == {"cuda_graph", "versions"}
    assert all(each.seconds is None for each in ladder.rungs)
    assert ladder.unexplained_s == pytest.approx(-30e-6)
    versions = next(each for each in ladder.rungs if each.key == "versions")
    assert "TensorRT 11" in versions.because


def test_warm_ups_that_differ_are_a_rung() -> None:
    a = made()
    spec = a.record.spec.having(warmup=Warmup(until_steady=False))
    b = Run(record=a.record.having(spec=spec), times=a.times)
    assert [each.key for each in ladder_from_runs(a, b).rungs] == ["warmup"]
