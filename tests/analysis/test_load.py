"""The search for the highest rate: what decides a rate, and where the search goes."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

from trtbench.analysis.load import PROBES, point_from_queries, slo_from_text
from trtbench.analysis.summary import summarize_column
from trtbench.core.errors import UsageError
from trtbench.core.jobs import Stage
from trtbench.core.run import LoadSearch
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.runtimes import _loop
from trtbench.runtimes._session import Session
from trtbench.runtimes.contract import bench_session

SLO = slo_from_text("p99<10ms")


def windows(count: int, *, served: float = 1.0, grows: bool = False) -> list[dict]:
    return [{"offered_hz": 100.0, "achieved_hz": 100.0 * served, "queue_grows": grows}] * count


def latencies(p99: float, count: int = 2, seed: int = 0) -> list[np.ndarray]:
    """Exponential times with this 99th percentile."""
    rng = np.random.default_rng(seed)
    return [rng.exponential(p99 / np.log(100), 2000) for _ in range(count)]


def test_a_bound_is_a_percentile_of_what_a_caller_waits() -> None:
    assert (SLO.statistic, SLO.q, SLO.limit_s) == ("p99", 0.99, pytest.approx(0.01))
    assert slo_from_text("median<=2ms").statistic == "p50"
    for each, q in {"P99 < 10 ms": 0.99, "host.p99≤10ms": 0.99, "p98<1e-2s": 0.98,
                    "p99.99<10000us": 0.9999, "p99.0<10ms": 0.99}.items():  # fmt: skip
        found = slo_from_text(each)
        assert (found.q, found.limit_s) == (q, pytest.approx(0.01))
    wrong = (
        "p99>10ms", "throughput>=5/s", "gpu.p99<1ms", "mean<1ms", "fast", "", "p99<0ms", "p99<-1ms",
        "p99<inf ms", "p99<10ms and p50<1ms", "count(Einsum)>=1", "p99=10ms", "p99<10ms,p50<2ms",
        "10ms", "p0<1ms", "p100<1ms", "p99.999<1ms", "p99<1ms<2ms",
    )  # fmt: skip
    for each in wrong:
        with pytest.raises(UsageError) as caught:
            slo_from_text(each)
        assert "gate" not in f"{caught.value.message} {caught.value.fix}"
    with pytest.raises(UsageError, match="10 has no unit"):
        slo_from_text("p99<10")


@pytest.mark.parametrize(
    ("seen", "p99", "decision"),
    [
        (windows(2), 0.005, "accepted"),
        (windows(2), 0.01, "unclear"),
        (windows(2), 0.02, "refused"),
        (windows(2, grows=True), 0.001, "refused"),  # overload, however short the latencies
        (windows(2, served=0.9), 0.001, "accepted"),  # a last query that took long is none
        (windows(1, served=0.9, grows=True) + windows(1, served=0.9), 0.001, "refused"),
    ],
)
def test_a_rate_is_decided_by_the_whole_interval(seen: list[dict], p99: float, decision: str):
    columns = latencies(p99, len(seen))
    point = point_from_queries(1.0, seen, columns, SLO)
    assert point.decision == decision
    assert point.percentile_s == summarize_column("host", [np.concatenate(columns)]).statistic(
        "p99"
    )
    assert point.overloaded == any(each["queue_grows"] for each in seen)


class Clock:
    """A clock that only moves when somebody works, waits or reads it."""

    def __init__(self) -> None:
        self.now = 10**9

    def perf_counter_ns(self) -> int:
        self.now += 50
        return self.now

    def perf_counter(self) -> float:
        return self.perf_counter_ns() * 1e-9

    monotonic = perf_counter

    def wait(self, target_ns: int) -> None:
        self.now = max(self.now, target_ns)


class Served(Session):
    """A server on such a clock: every query takes the same time, or with stalls now and then."""

    inputs, outputs, conditions = (), (), {}

    def __init__(self, clock: Clock, seconds: float, stalls: float, seed: int) -> None:
        self.clock, self.seconds, self.stalls = clock, seconds, stalls
        self.random = np.random.default_rng(seed)

    def bind(self, arrays: object) -> None: ...

    def fetch(self) -> dict:
        return {}

    def step(self) -> Callable[[], object]:
        def query() -> None:
            stalled = self.random.random() < self.stalls
            longer = self.random.exponential(0.03) if stalled else 0.0
            self.clock.now += int(1e9 * (self.seconds + longer))

        return query


def searched(
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    seconds: float,
    stalls: float = 0.0,
    seed: int = 5,
    **asked: object,
) -> tuple[LoadSearch, float]:
    """Search for a rate as a worker does; gives what was found and how long it took."""
    clock, kept = Clock(), []
    monkeypatch.setattr(_loop, "time", clock)
    monkeypatch.setattr(_loop, "waiter", lambda: clock.wait)
    monkeypatch.setattr(_loop, "exact_timers", nullcontext)
    spec = RunSpec(
        model=ModelRef(path="m.onnx", sha256="0", format="onnx"), runtime="onnxruntime",
        protocol="server", rate_hz=1.0,
    )  # fmt: skip
    search = LoadSearch(slo=slo_from_text(bound), **asked)
    began = clock.monotonic()
    _, times = bench_session(
        lambda spec: Served(clock, seconds, stalls, seed), spec, stage=Stage(), search=search,
        keep=lambda search, result: kept.append(search),
    )  # fmt: skip
    assert len(times) >= 10
    assert len(kept) == len(kept[-1].points) - len(search.points) + 1, "every probe is kept"
    return kept[-1], clock.monotonic() - began


def share_above(limit_s: float, rate_hz: float, seconds: float, stalls: float) -> float:
    """Share of a million queries that take longer than a limit in such a queue."""
    random, count = np.random.default_rng(1), 1_000_000
    longer = random.exponential(0.03, count) * (random.random(count) < stalls)
    due, busy = np.cumsum(random.exponential(1 / max(rate_hz, 1e-9), count)), seconds + longer
    worked = np.cumsum(busy)
    return float(((worked + np.maximum.accumulate(due - worked + busy) - due) > limit_s).mean())


@pytest.mark.parametrize(
    ("bound", "seconds", "stalls", "most_doubt"),
    [
        ("p99<10ms", 0.003, 0.0, 0.1),
        ("p99<2ms", 1 / 2754, 0.0, 0.1),  # had no answer after a minute
        ("p90<1s", 0.2, 0.0, 0.25),  # about a hundred queries fit into the time
        ("p99<40ms", 0.006, 0.01, 3.0),  # a noisy machine
    ],
)
def test_the_answer_of_a_search_is_right_within_its_doubt_and_its_time(
    bound: str, seconds: float, stalls: float, most_doubt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, took_s = searched(monkeypatch, bound, seconds, stalls)
    likely, low, high = found.likely_hz or 0.0, found.highest_hz or 0.0, found.broken_hz or 0.0
    allowed = 1 - found.slo.q
    assert share_above(found.slo.limit_s, low, seconds, stalls) < 1.1 * allowed
    assert share_above(found.slo.limit_s, high, seconds, stalls) > 0.9 * allowed
    assert (high - low) / 2 <= most_doubt * likely
    assert took_s < 1.2 * found.budget_s
    assert len(found.points) <= PROBES
    if not stalls:  # within 10 % of what a scan by hand finds
        assert share_above(found.slo.limit_s, 0.9 * likely, seconds, 0.0) < allowed
        assert share_above(found.slo.limit_s, 1.1 * likely, seconds, 0.0) > allowed
    more, _ = searched(
        monkeypatch, bound, seconds, stalls, budget_s=10.0, points=found.points,
        capacity_hz=found.capacity_hz, likely_hz=found.likely_hz,
    )  # fmt: skip
    assert len(more.points) > len(found.points), "it was not continued"
    assert low <= (more.likely_hz or 0.0) <= high


@pytest.mark.parametrize("seed", [5, 6, 7, 9])
def test_rare_stalls_leave_a_doubt_that_holds_the_truth(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Each of 0.3 % of queries takes 30 ms longer: so few in 30 s that chance decides."""
    found, took_s = searched(monkeypatch, "p99<10ms", 0.003, 0.003, seed)
    assert share_above(0.01, found.highest_hz or 0.0, 0.003, 0.003) < 0.011
    assert share_above(0.01, found.broken_hz or 0.0, 0.003, 0.003) > 0.009
    assert took_s < found.budget_s


def test_where_no_rate_meets_the_bound_the_search_ends_soon(monkeypatch: pytest.MonkeyPatch):
    found, took_s = searched(monkeypatch, "p99<1ms", 0.003)
    assert (found.likely_hz, found.highest_hz, len(found.points)) == (None, None, 3)
    assert took_s < found.budget_s
    assert found.points[0].rate_hz < found.capacity_hz / 10


def test_a_rate_that_was_asked_about_ends_the_search_if_it_meets_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, _ = searched(monkeypatch, "p99<50ms", 0.001, most_hz=500.0)
    assert (found.likely_hz, found.at_least) == (500.0, True)
    assert max(each.rate_hz for each in found.points) == 500.0
    assert len(found.points) <= 4
