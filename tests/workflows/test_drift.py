"""What a store remembers of a machine makes runs measured apart comparable more sharply."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from many_runs import START, add_series, record
from trtbench.compare.compare import comparison_from_runs, drift_remembered
from trtbench.core.run import Run, RunRecord
from trtbench.store.store import Store

MEDIANS = (1.0, 1.002, 0.998, 1.001, 0.999, 1.0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def other(number: int, **changes: str) -> RunRecord:
    """A run of a newer model, on the last day."""
    return record(number, created=START + datetime.timedelta(days=9), sha256="cd" * 32, **changes)


def loaded(store: Store, name: str) -> Run:
    run = store.load(name)
    assert isinstance(run, Run)
    return run


def test_sessions_on_record_replace_the_guess(store: Store) -> None:
    names = add_series(store, MEDIANS, [record(number) for number in range(6)])
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
    assert drift_remembered(store, records[0]) is None


@pytest.mark.parametrize(
    "changes",
    [{"host": "lab-2"}, {"sha256": "ee" * 32}, {"runtime": "torch"}, {"precision": "fp16"}],
)
def test_only_the_same_thing_on_the_same_machine_counts(
    store: Store, changes: dict[str, str]
) -> None:
    add_series(store, MEDIANS, [record(number) for number in range(6)])
    assert drift_remembered(store, record(50)) is not None
    assert drift_remembered(store, record(50, **changes)) is None  # type: ignore[arg-type]


def test_times_of_others_are_read_or_left_out(store: Store) -> None:
    """Another program may write ``Z``, no zone, or no time at all."""
    written = ["2026-01-0{}T08:00:00Z", "2026-01-0{}T08:00:00", "not a time {}"]
    records = [
        record(number).having(created=written[number % 3].format(number + 1)) for number in range(9)
    ]
    add_series(store, [*MEDIANS, 1.0, 1.001, 0.999], records)
    drift = drift_remembered(store, records[0])
    assert drift is not None
    assert "6 recorded sessions" in drift.source
