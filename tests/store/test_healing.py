"""A store takes in what its index lost, lists what it cannot read, and never needs its index."""

import json
import os
import shutil
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import records

import many_runs
from trtbench.core.errors import StoreError
from trtbench.core.samples import IterationTimes
from trtbench.requests.settings import cached_from_run
from trtbench.store.directory import partial_directory, write_record, write_samples
from trtbench.store.store import Store


def put_on_disk(store: Store, run_id: str) -> Path:
    """What a writer leaves that is killed between the renaming and the index."""
    with partial_directory(store.runs / run_id) as folder:
        write_samples(folder, records.TIMES)
        write_record(folder, records.record(run_id))
    return store.runs / run_id


def test_runs_that_the_index_lacks_are_taken_in_and_said(tmp_path):
    store = Store(tmp_path)
    for name in ("r1", "r2"):
        put_on_disk(store, name)
    again = Store(tmp_path, describe=cached_from_run)
    assert again.repairs == ["2 missing runs added to the index"]
    assert {entry.id for entry in again.index.find()} == {"r1", "r2"}
    assert again.entry("r1").median_s is not None
    assert Store(tmp_path).repairs == []


def test_an_index_may_be_opened_when_it_is_first_used_and_is_then_by_one_alone(tmp_path):
    put_on_disk(Store(tmp_path / "s"), "r1")
    (tmp_path / "s" / "index.sqlite").unlink()
    heard: list[str] = []
    store = Store(tmp_path / "s", notify=heard.append, at_once=False)
    assert not (tmp_path / "s" / "index.sqlite").exists()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: store.index, range(8)))
    assert all(each is store.index for each in found)
    assert heard == ["1 missing run added to the index"]


MADE = {
    "deleted": [],
    "empty": [],
    "no tables": ["CREATE TABLE trtbench_schema (version INTEGER)",
                  "INSERT INTO trtbench_schema VALUES (3)"],
    "another table": ["CREATE TABLE runs (id TEXT)"],
}  # fmt: skip


@pytest.mark.parametrize("how", MADE)
def test_an_index_that_is_no_more_comes_back(tmp_path, how):
    store = Store(tmp_path)
    records.add(store, records.record("r1", tags=("x",)))
    file = tmp_path / "index.sqlite"
    file.unlink()
    if how != "deleted":
        with sqlite3.connect(file) as index:
            for statement in MADE[how]:
                index.execute(statement)
    assert Store(tmp_path).load("tag:x").record.id == "r1"


def test_a_run_that_cannot_be_read_is_listed_and_never_dropped(tmp_path):
    store = Store(tmp_path)
    for name in ("good", "torn", "newer", "samples"):
        records.add(store, records.record(name))
    (store.runs / "torn" / "run.json").write_bytes(b"{")
    record = json.loads((store.runs / "newer" / "run.json").read_text())
    (store.runs / "newer" / "run.json").write_text(json.dumps({**record, "schema": 99}))
    (store.runs / "samples" / "samples.npz").write_bytes(b"PK")
    for found in (store.reindex(cached_from_run), store.reindex(cached_from_run)):
        assert found.runs == 1
        assert found.dropped == ()
        assert set(found.damaged) == {"torn", "newer", "samples"}
        assert "newer trtbench" in found.damaged["newer"]
    kinds = {entry.id: entry.kind for entry in store.index.find()}
    assert kinds == {"good": "run", "torn": "damaged", "newer": "damaged", "samples": "damaged"}
    (tmp_path / "index.sqlite").unlink()
    again = Store(tmp_path)
    assert {entry.id for entry in again.index.find()} == {"good", "torn", "newer", "samples"}
    assert any("torn cannot be read" in line for line in again.repairs)
    (store.runs / "newer" / "run.json").write_text(json.dumps(record))
    again.reindex(cached_from_run)
    assert again.entry("newer").kind == "run"


def test_reindex_mends_and_reports(tmp_path):
    store = Store(tmp_path)
    for name in ("r1", "r2"):
        records.add(store, records.record(name))
    shutil.rmtree(store.runs / "r1")
    put_on_disk(store, "r3")
    old = store.runs / ".partial-1-another.machine-abc123"
    young = store.runs / ".partial-2-another.machine-abc123"
    for folder in (old, young):
        folder.mkdir()
    long_ago = time.time() - 30 * 86400
    os.utime(old, (long_ago, long_ago))
    seen = store.reindex(cached_from_run)
    assert (seen.adopted, seen.dropped, seen.unfinished) == (("r3",), ("r1",), (old.name,))
    assert {entry.id for entry in store.index.find()} == {"r2", "r3"}
    assert not old.exists()
    assert young.exists()


def test_last_is_the_run_that_was_made_last_whatever_the_clock_says(tmp_path):
    store = Store(tmp_path)
    records.add(store, records.record("clock-ahead", created="2031-01-01T00:00:00.000+00:00"))
    records.add(store, records.record("made-last"))
    assert store.entry("last").id == "made-last"
    store.tag("clock-ahead", add=("x",))
    store.reindex(cached_from_run)
    assert store.entry("last").id == "made-last"
    assert [entry.id for entry in store.index.find()] == ["clock-ahead", "made-last"]


@pytest.fixture
def seal(tmp_path):
    """Show a folder in another place where nobody can write to it, not even root."""
    sealed = tmp_path / "sealed"

    def show(folder):
        sealed.mkdir()
        for how in (["--bind", str(folder)], ["-o", "remount,bind,ro"]):
            command = ["mount", *how, str(sealed)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("nothing can be mounted here")
        return sealed

    yield show
    if sealed.is_dir():
        subprocess.run(["umount", "-l", str(sealed)], capture_output=True, check=False)


def test_a_read_only_store_can_be_read_and_a_tag_is_refused_in_words(tmp_path, seal):
    records.add(Store(tmp_path / "store"), records.record("r1"))
    sealed = Store(seal(tmp_path / "store"))
    assert sealed.load("r1").record.id == "r1"
    assert sealed.load("last").record.id == "r1"
    for work in (
        lambda: sealed.tag("r1", add=("x",)),
        lambda: sealed.remove("r1"),
        lambda: sealed.reindex(cached_from_run),
    ):
        with pytest.raises(StoreError):
            work()
    assert sealed.load("r1").record.tags == ()


@pytest.mark.parametrize("left", ["nothing", "half"])
def test_a_read_only_store_without_a_whole_index_is_read_from_its_folders(tmp_path, seal, left):
    store = Store(tmp_path / "store")
    records.add(store, records.record("r1"))
    if left == "nothing":
        (store.root / "index.sqlite").unlink()
    put_on_disk(store, "r2")
    sealed = Store(seal(store.root))
    if left == "nothing":
        assert {entry.id for entry in sealed.index.find()} == {"r1", "r2"}
    assert "read-only" in " ".join(sealed.repairs)


def test_one_damaged_run_stops_neither_a_report_nor_a_site(tmp_path):
    from trtbench.workflows.report import load_runs, write_report, write_site

    many_runs.fill_store(tmp_path / "store", count=6)
    store = Store(tmp_path / "store")
    broken, nan, *_ = [entry.id for entry in store.index.find()]
    (store.runs / broken / "samples.npz").write_bytes(b"not an archive")
    write_samples(store.runs / nan, IterationTimes(host=np.full(20, np.nan)))
    made = write_site(store, tmp_path / "site")
    assert made.runs >= 4
    assert any(broken in problem for problem in made.problems)
    assert "samples.npz" in (tmp_path / "site" / "runs" / f"{broken}.html").read_text()
    runs, failed = load_runs([str(store.runs)], store=store)
    assert {run.id for run in failed} == {broken, nan}
    assert write_report(runs, tmp_path / "report", failed=failed, formats=("md",))
