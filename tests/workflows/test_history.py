"""History: series, changes with what changed around them, baselines, and the drift of a machine."""

import datetime
from pathlib import Path

import numpy as np
import pytest

from many_runs import START, add_series, record
from models import tiny_model
from trtbench.analysis.history import change_points, level_cuts, segments
from trtbench.cli import run as cli
from trtbench.compare.compare import comparison_from_runs, drift_from_store
from trtbench.core.errors import UsageError
from trtbench.core.run import Run, RunRecord
from trtbench.core.samples import Column
from trtbench.requests.measure import GateRequest
from trtbench.requests.settings import Config
from trtbench.requests.stored import HistoryRequest
from trtbench.store.store import Store
from trtbench.workflows.runs import baseline_run, read_history


@pytest.fixture
def store(place: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return Store(place / "store")


def steps(*levels: tuple[int, float], noise: float = 0.01, seed: int = 0) -> Column:
    rng = np.random.default_rng(seed)
    means = np.concatenate([np.full(count, level) for count, level in levels])
    return np.asarray(means * np.exp(rng.normal(0, noise, len(means))))


# The detector.


def test_a_step_is_found_where_it_is() -> None:
    (found,) = change_points(steps((30, 1.0), (20, 1.08)))
    assert abs(found.index - 30) <= 1
    assert found.change == pytest.approx(0.08, abs=0.01)
    assert found.confirmed
    assert found.p < 1e-3
    (late,) = change_points(steps((400, 1.0), (8, 1.06)))
    assert abs(late.index - 400) <= 1, "a long quiet past hides no recent change"
    (clean,) = change_points([1.0] * 20 + [2.0] * 20)
    assert (clean.index, clean.change, clean.p) == (20, 1.0, 0.0)


def test_several_changes_up_and_down_in_a_long_series() -> None:
    found = change_points(steps((60, 1.0), (25, 1.1), (80, 0.95), (30, 1.0)))
    assert [abs(a.index - b) <= 2 for a, b in zip(found, (60, 85, 165), strict=True)] == [True] * 3
    assert [np.sign(each.change) for each in found] == [1, -1, 1]


def test_quiet_series_small_changes_and_single_outliers_raise_no_alarm() -> None:
    alarms = sum(bool(change_points(steps((60, 1.0), seed=seed))) for seed in range(100))
    assert alarms <= 1
    assert not change_points(steps((30, 1.0), (30, 1.012), noise=0.002))  # sure, but below 2 %
    spiky = steps((50, 1.0))
    spiky[[7, 21, 38]] *= 3
    assert not change_points(spiky)
    assert not change_points([1.0] * 9)
    assert not change_points([])
    assert not change_points([2.0] * 40)
    assert level_cuts(np.arange(9.0), least=5, resolution=0.0) == ([], 0.0)
    assert segments(10, [4]) == [(0, 4), (4, 10)]


def test_a_change_needs_five_points_and_two_more_to_be_confirmed() -> None:
    series = steps((30, 1.0), (12, 1.1), noise=0.005)
    seen = {}
    for length in range(31, 43):
        found = change_points(series[:length])
        seen[length - 30] = found[0].confirmed if found else None
    assert [seen[k] for k in (1, 2, 3, 4)] == [None] * 4
    assert seen[5] is False
    assert seen[7] is True
    assert all(seen[k] for k in range(7, 13))


def remembering(count: int, *, seed: int) -> Column:
    """Runs that remember one another: 0.6 from run to run, 2 % scatter."""
    rng = np.random.default_rng(seed)
    logs = [rng.normal(0, 0.02)]
    for noise in rng.normal(0, 0.016, count - 1):
        logs.append(0.6 * logs[-1] + noise)
    return np.exp(logs)


def test_runs_that_remember_one_another_seldom_raise_an_alarm() -> None:
    alarms = sum(bool(change_points(remembering(100, seed=seed))) for seed in range(60))
    assert alarms <= 12  # 36 when a cut cost the same however runs were correlated


# Series from a store.


def fill(store: Store, *, host: str = "lab-1") -> list[str]:
    """Forty runs, slower from the 25th on, when ONNX Runtime was another; tagged at the tenth."""
    medians = list(steps((25, 1e-3), (15, 1.1e-3)))
    records = [
        record(
            k,
            host=host,
            versions={"onnxruntime": "1.20.0" if k < 25 else "1.21.0", "numpy": "2.0"},
            tags=("release",) if k == 10 else (),
        )
        for k in range(40)
    ]
    return add_series(store, medians, records)


def test_a_change_names_what_changed_with_it(store: Store) -> None:
    ids = fill(store)
    (series,) = read_history(HistoryRequest(least=1), store=store).series
    assert len(series.points) == 40
    (change,) = series.changes
    assert change.run in ids[24:27]
    causes = {each.name: (each.before, each.after) for each in change.causes}
    assert causes["onnxruntime"] == ("1.20.0", "1.21.0")
    assert "numpy" not in causes


def test_what_may_not_be_compared_makes_series_of_its_own(store: Store) -> None:
    variants = [
        record(1), record(2, machine="lab-2"), record(3, batch=8), record(4, runtime="other"),
        record(5, model="b.onnx"), record(6, precision="fp16"), record(7),
    ]  # fmt: skip
    add_series(store, [1e-3] * len(variants), variants)
    found = read_history(HistoryRequest(least=1), store=store).series
    assert sorted(len(each.points) for each in found) == [1, 1, 1, 1, 1, 2]
    assert len(read_history(HistoryRequest(least=2), store=store).series) == 1
    assert len(read_history(HistoryRequest(least=1, model="b.onnx"), store=store).series) == 1


def test_baselines_of_a_stored_run_come_from_its_own_series(store: Store, config: Config) -> None:
    ids = fill(store)
    add_series(store, [1e-9], [record(50, batch=2)])  # faster, and something else

    def found(baseline: str, candidate: str = ids[-1]) -> str:
        request = GateRequest(baseline=baseline, candidate=candidate)
        return baseline_run(request, store=store, config=config)

    assert (found("last"), found("tag:release")) == (ids[-2], ids[10])
    lucky = min(ids[:25], key=lambda each: store.entry(each).median_s or 1)
    assert found("best") in {*ids[:25]} - {lucky}  # of the fast level, and not its luckiest run
    few = add_series(store, [3e-3, 1e-3, 2e-3, 2e-3], [record(60 + k, model="b") for k in range(4)])
    assert found("best", few[-1]) == few[1]  # few runs have no levels
    for baseline, candidate, said in (
        ("tag:none", ids[-1], "tag 'none'"),
        ("last", ids[0], "no run"),
        ("newest", ids[-1], "is not valid"),
    ):
        with pytest.raises(UsageError, match=said):
            found(baseline, candidate)


def test_the_baseline_of_a_file_is_sought_by_what_it_would_be(store, config, tmp_path):
    model = tiny_model(tmp_path / "net.onnx")
    here = [record(k, host=f"runner-{k}", machine="lab") for k in range(3)]
    ids = add_series(store, [1e-3] * 3, here)
    add_series(store, [1e-3], [record(9, machine="elsewhere")])
    config = config.having(machine="lab")
    asked = {"baseline": "last", "candidate": str(model)}
    found = baseline_run(GateRequest(**asked, threads=2), store=store, config=config)
    assert found == ids[-1]
    for other in ({"threads": 2, "batch": 7}, {"threads": 4}, {"threads": 2, "gap": "5ms"}):
        with pytest.raises(UsageError, match="no run"):
            baseline_run(GateRequest(**asked, **other), store=store, config=config)


# The command line.


def test_a_gate_is_held_against_the_best_run_of_its_series(store, tmp_path, monkeypatch):
    ids, summary = fill(store), tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    gate = ["gate", ids[-1], "--max-slowdown", "3%", "-o", str(tmp_path / "gate")]
    # The new level is 10 % slower, or at the least not shown to be within 3 %.
    assert cli([*gate, "--baseline", "best"]) == 3
    assert summary.read_text().startswith("before\n## FAIL: ")
    assert (tmp_path / "gate" / "gate.junit.xml").is_file()


MEDIANS = (1.0, 1.002, 0.998, 1.001, 0.999, 1.0)


def other(number: int, **changes: str) -> RunRecord:
    """A run of a newer model, on the last day."""
    return record(number, created=START + datetime.timedelta(days=9), sha256="cd" * 32, **changes)


def loaded(store: Store, name: str) -> Run:
    run = store.load(name)
    assert isinstance(run, Run)
    return run


def test_sessions_on_record_replace_the_guess(store: Store) -> None:
    names = add_series(store, MEDIANS, [record(number) for number in range(6)])
    assert drift_from_store(store, record(50)) is not None
    only = ({"host": "lab-2"}, {"sha256": "ee" * 32}, {"runtime": "torch"}, {"precision": "fp16"})
    for changes in only:  # the same thing on the same machine counts
        assert drift_from_store(store, record(50, **changes)) is None  # type: ignore[arg-type]
    (later,) = add_series(store, [1.08], [other(77)])
    sides = loaded(store, names[-1]), loaded(store, later)
    guessed = comparison_from_runs(*sides).verdict("host")
    assert guessed.kind == "unclear"
    known = comparison_from_runs(*sides, store=store).verdict("host")
    assert known.kind == "slower"
    assert "6 recorded sessions" in str(known.interval)


def test_runs_of_one_hour_are_one_session(store: Store) -> None:
    records = [
        record(number, created=START + datetime.timedelta(minutes=5 * number))
        for number in range(6)
    ]
    add_series(store, MEDIANS, records)
    assert drift_from_store(store, records[0]) is None


def test_times_of_others_are_read_or_left_out(store: Store) -> None:
    """Another program may write ``Z``, no zone, or no time at all."""
    written = ["2026-01-0{}T08:00:00Z", "2026-01-0{}T08:00:00", "not a time {}"]
    records = [
        record(number).having(created=written[number % 3].format(number + 1)) for number in range(9)
    ]
    add_series(store, [*MEDIANS, 1.0, 1.001, 0.999], records)
    drift = drift_from_store(store, records[0])
    assert "6 recorded sessions" in drift.source
