"""The protocols on sessions made of sleep: schedules, overload, gaps, the first query."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpu_standin import Clock
from trtbench.analysis.findings import findings_from_run
from trtbench.core.errors import InputError, UsageError
from trtbench.core.jobs import BenchOutcome, Stage
from trtbench.core.run import Environment, Run, RunRecord
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import Length, ModelRef, RunSpec, TensorSpec, Warmup
from trtbench.measure.bench import merge_evidence, merge_reported
from trtbench.runtimes._loop import (
    arrivals,
    bench_session,
    is_queue_growing,
    load_evidence,
    open_loop,
    waiter,
)
from trtbench.runtimes._session import Session

SERVICE_S = 2e-3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only where the tests let it."""
    Clock().install(monkeypatch)


class Sleeper(Session):
    """A model that takes two milliseconds, and ten times as long at first."""

    inputs = (TensorSpec(name="x", dtype="float32", shape=(1,)),)
    outputs = ()
    conditions: dict[str, Any] = {}
    notes = ()

    def __init__(self, spec: RunSpec, *, service_s: float = SERVICE_S) -> None:
        self.calls = 0
        self.closed = False
        self._service_s = service_s

    def bind(self, arrays: Any) -> None:
        self.bound = dict(arrays)

    def step(self) -> Callable[[], object]:
        return self._once

    def _once(self) -> None:
        self.calls += 1
        time.sleep(self._service_s * (10 if self.calls == 1 else 1))

    def fetch(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed = True


def spec(**changes: Any) -> RunSpec:
    given = {
        "model": ModelRef(path="m.onnx", format="onnx"),
        "runtime": "sleeper",
        "warmup": Warmup(floor=Length(iterations=2), until_steady=False),
        "stop": Length(iterations=30),
    }
    return RunSpec(**{**given, **changes})


def run(**changes: Any) -> tuple[BenchOutcome, IterationTimes]:
    return bench_session(Sleeper, spec(**changes), stage=Stage())


def test_serve_has_a_row_per_query_and_leaves_the_first_out() -> None:
    outcome, times = run()
    assert set(times.durations()) == {"host"}
    assert len(times) == 30
    assert outcome.facts.first_s >= 10 * SERVICE_S
    assert times.host.min() >= SERVICE_S


def test_a_gap_is_outside_the_times_and_random() -> None:
    _, times = run(gap_s=2e-3)
    rest = np.diff(times.start) - times.host[:-1]
    assert np.median(times.host) < 1.5 * SERVICE_S
    assert 1e-3 < np.mean(rest) < 4e-3
    assert np.std(rest) > 0.3e-3


def test_latency_of_a_server_counts_from_the_schedule() -> None:
    """Two queries due at once: the second waits for the first, and says so."""
    due = np.array([0, 0, 50_000_000], np.int64)
    session = Sleeper(spec())
    session.calls = 1
    origin = time.perf_counter_ns() + 1_000_000
    starts, ends = open_loop(session.step(), due + origin, wait=waiter())
    evidence, columns = load_evidence(
        scheduled=due + origin, starts=starts, ends=ends, rate_hz=50.0
    )
    first, second, third = columns["host"]
    assert second >= 2 * SERVICE_S
    assert third < second
    assert first >= SERVICE_S
    assert evidence["offered_hz"] == pytest.approx(3 / 0.07)


def test_a_server_that_keeps_up_is_not_called_overloaded() -> None:
    outcome, times = run(protocol="server", rate_hz=100.0, arrivals="constant")
    assert outcome.evidence["achieved_hz"] == pytest.approx(100.0, rel=1e-3)
    assert outcome.evidence["late_share"] == 0.0
    assert not outcome.evidence["queue_grows"]
    assert set(times.stamps) == {"dispatch"}
    assert outcome.conditions["arrivals"].value == "constant"


def test_a_server_that_cannot_keep_up_is_found_out() -> None:
    outcome, times = run(protocol="server", rate_hz=2000.0, stop=Length(iterations=100))
    assert outcome.evidence["achieved_hz"] < 0.5 * outcome.evidence["offered_hz"]
    assert outcome.evidence["queue_grows"] is True
    assert times.host[-1] > 10 * times.host[0]
    record = RunRecord(
        id="r",
        created="2026-01-01T00:00:00+00:00",
        spec=spec(protocol="server", rate_hz=2000.0),
        environment=Environment(host="h", os="o"),
        launches=(outcome.facts,),
        facts=merge_evidence([outcome.evidence]),
    )
    found = findings_from_run(Run(record=record, times=times))
    assert "H37" in {each.code for each in found}


def test_an_overloaded_run_is_given_up() -> None:
    """Ten seconds of work in a schedule of one: the rest would tell nothing new."""
    began = time.perf_counter()  # of the clock of these tests
    outcome, times = run(protocol="server", rate_hz=5000.0, stop=Length(seconds=1.0))
    assert time.perf_counter() - began < 0.5 * 5000 * SERVICE_S
    assert len(times) + outcome.evidence["abandoned"] == 5000
    assert outcome.evidence["abandoned"] > 1000
    assert outcome.evidence["achieved_hz"] < 0.5 * outcome.evidence["offered_hz"]


def test_a_sender_that_oversleeps_is_late_and_a_queue_is_not() -> None:
    ms = 1_000_000
    due = np.arange(100, dtype=np.int64) * 10 * ms
    on_time = due + 1000
    queued, ends = on_time.copy(), on_time + 2 * ms
    queued[1] = ends[0]
    evidence, _ = load_evidence(scheduled=due, starts=on_time, ends=ends, rate_hz=100.0)
    assert evidence["late_share"] == 0.0
    late = on_time + np.where(np.arange(100) % 10 == 0, ms, 0)
    evidence, _ = load_evidence(scheduled=due, starts=late, ends=late + 2 * ms, rate_hz=100.0)
    assert evidence["late_share"] == pytest.approx(0.1)
    busy = np.arange(100, dtype=np.int64) * ms
    starts = np.arange(100, dtype=np.int64) * 2 * ms
    evidence, _ = load_evidence(scheduled=busy, starts=starts, ends=starts + 2 * ms, rate_hz=1000.0)
    assert evidence["late_share"] == 0.0
    assert evidence["achieved_hz"] == pytest.approx(500.0)


def test_schedules_repeat_with_the_seed_and_have_the_rate() -> None:
    stop = Length(seconds=20.0, iterations=10)
    one, again = (arrivals(500.0, stop, seed=3) for _ in range(2))
    other = arrivals(500.0, stop, seed=4)
    assert len(one) == 10_000
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    gaps = np.diff(one) * 1e-9
    assert np.mean(gaps) == pytest.approx(1 / 500, rel=0.05)
    assert np.std(gaps) == pytest.approx(1 / 500, rel=0.05)
    even = np.diff(arrivals(500.0, stop, kind="constant"))
    assert even.max() - even.min() <= 2


def test_a_queue_that_only_fluctuates_does_not_grow() -> None:
    generator = np.random.default_rng(0)
    calm = [is_queue_growing(generator.exponential(1e-3, 2000), service=1e-3) for _ in range(50)]
    assert not any(calm)
    rising = generator.exponential(1e-3, 2000) + np.linspace(0, 50e-3, 2000)
    assert is_queue_growing(rising, service=1e-3) is True
    assert is_queue_growing(rising[:10], service=1e-3) is None


@pytest.mark.parametrize(("load", "grows"), [(0.7, 0), (2.0, 20)])
def test_few_slow_queries_are_not_called_overload_where_the_server_rests(load: float, grows: int):
    """Of 50 queries the last may wait long; who is busy 7 tenths of the time keeps up."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        due = np.cumsum(rng.exponential(0.05 / load, 50))
        ends = 0.05 * np.arange(1, 51) + np.maximum.accumulate(due - 0.05 * np.arange(50))
        stamps = {"scheduled": due, "starts": ends - 0.05, "ends": ends}
        told = {name: (1e9 * each).astype(np.int64) for name, each in stamps.items()}
        found.append(load_evidence(**told, rate_hz=load / 0.05)[0]["queue_grows"])
    assert sum(map(bool, found)) == grows


def test_first_tells_everything_from_the_first_query_on() -> None:
    outcome, times = run(protocol="first", warmup=Warmup(floor=Length(seconds=0.01), cap_s=0.6))
    assert times.host[0] == outcome.facts.first_s >= 10 * SERVICE_S
    assert outcome.facts.warmup_iterations == len(times)
    assert outcome.evidence["time_to_steady_s"] >= times.host.sum()


@pytest.mark.parametrize(
    ("problem", "kind", "words"),
    [
        (ValueError("wrong rank\nand more"), InputError, "does not run on these inputs"),
        (RuntimeError("CUDA out of memory. Tried"), MemoryError, "out of memory"),
        (RuntimeError("Failed to allocate memory"), MemoryError, "allocate"),
        (MemoryError("no room"), MemoryError, "no room"),
        (UsageError("its own words"), UsageError, "its own words"),
    ],
)
def test_a_first_query_that_fails_says_why_and_closes_the_session(
    problem: Exception, kind: type[Exception], words: str
) -> None:
    opened: list[Sleeper] = []

    class Refuses(Sleeper):
        def _once(self) -> None:
            opened.append(self)
            raise problem

    with pytest.raises(kind, match=words):
        bench_session(Refuses, spec(), stage=Stage())
    assert [each.closed for each in opened] == [True]


def test_of_several_launches_the_worst_evidence_counts() -> None:
    merged = merge_evidence(
        [
            {"achieved_hz": 99.0, "late_share": 0.0, "queue_grows": False, "sensor": "a"},
            {"achieved_hz": 50.0, "late_share": 0.2, "queue_grows": True, "more": 1},
        ]
    )
    assert merged == {
        "achieved_hz": 50.0,
        "late_share": 0.2,
        "queue_grows": True,
        "sensor": "a",
        "more": 1,
    }


def test_a_switch_that_differs_between_launches_is_unknown() -> None:
    launches = ((True, 1.0), (False, 3.0))
    printed = [{"graph": on, "gpu_min_ms": low, "mean": low, "text": "a"} for on, low in launches]
    assert merge_reported(printed) == {"graph": None, "gpu_min_ms": 1.0, "mean": 2.0, "text": "a"}
    assert merge_reported(printed[:1] * 2) == printed[0]
