"""The index: several processes at once, versions, damage, and being made anew."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import time

import pytest
import records

from trtbench.errors import InputError, StoreError, UsageError
from trtbench.store import index
from trtbench.store.index import Cached, Index, entry_from_record
from trtbench.store.store import Store

FORK = multiprocessing.get_context("fork")


def put_many(url: str, name: str, count: int) -> None:
    mine = Index(url)
    for number in range(count):
        run_id = f"{name}-{number:04d}"
        made = records.record(run_id, tags=(name, "all"))
        mine.put(entry_from_record(made, path=f"runs/{run_id}"))


def url_of(folder) -> str:
    return f"sqlite:///{folder / 'index.sqlite'}"


@pytest.mark.process
def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path):
    writers = [
        FORK.Process(target=put_many, args=(url_of(tmp_path), name, 100)) for name in ("a", "b")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    found = Index(url_of(tmp_path)).find()
    assert len(found) == 200
    assert len(Index(url_of(tmp_path)).find(tag="a")) == 100
    assert {entry.tags for entry in found} == {("a", "all"), ("all", "b")}


@pytest.mark.process
def test_many_processes_make_a_new_index_at_once(tmp_path):
    writers = [FORK.Process(target=put_many, args=(url_of(tmp_path), f"w{n}", 2)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert len(Index(url_of(tmp_path)).find()) == 16


@pytest.mark.process
def test_a_writer_killed_in_the_middle_harms_nobody(tmp_path):
    url = url_of(tmp_path)
    Index(url)
    doomed = [FORK.Process(target=put_many, args=(url, f"doomed{n}", 5000)) for n in range(2)]
    survivor = FORK.Process(target=put_many, args=(url, "survivor", 60))
    for writer in (*doomed, survivor):
        writer.start()
    for number, writer in enumerate(doomed):
        while not Index(url).find(id_prefix=f"doomed{number}"):
            assert writer.is_alive()
        time.sleep(0.1)
        os.kill(writer.pid, signal.SIGKILL)
    for writer in (*doomed, survivor):
        writer.join()
    assert survivor.exitcode == 0
    with sqlite3.connect(tmp_path / "index.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = Index(url)
    assert len(found.find(tag="survivor")) == 60
    for number in range(2):  # an entry is there with both its tags, or not at all
        left = found.find(id_prefix=f"doomed{number}")
        assert left
        assert {entry.tags for entry in left} == {("all", f"doomed{number}")}


@pytest.mark.process
def test_a_reader_is_not_kept_waiting_by_a_writer_between_its_writes(tmp_path):
    url = url_of(tmp_path)
    Index(url)
    writer = FORK.Process(target=put_many, args=(url, "w", 100))
    writer.start()
    counts = []
    while writer.is_alive():
        counts.append(len(Index(url).find()))
    writer.join()
    assert writer.exitcode == 0
    assert counts == sorted(counts)


def test_an_empty_file_is_an_index_of_version_zero(tmp_path):
    (tmp_path / "index.sqlite").touch()
    Index(url_of(tmp_path)).put(entry_from_record(records.record("r"), path="runs/r"))
    with sqlite3.connect(tmp_path / "index.sqlite") as connection:
        version = connection.execute("SELECT version FROM trtbench_schema").fetchall()
    assert version == [(len(index.MIGRATIONS),)]


def test_an_older_index_is_brought_up_to_date(tmp_path, monkeypatch):
    Index(url_of(tmp_path)).put(entry_from_record(records.record("r"), path="runs/r"))

    def add_column(connection):
        connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT DEFAULT 'blue'")

    monkeypatch.setattr(index, "MIGRATIONS", (*index.MIGRATIONS, add_column))
    Index(url_of(tmp_path))
    Index(url_of(tmp_path))
    with sqlite3.connect(tmp_path / "index.sqlite") as connection:
        assert connection.execute("SELECT id, colour FROM runs").fetchall() == [("r", "blue")]
        versions = connection.execute("SELECT version FROM trtbench_schema").fetchall()
    assert versions == [(len(index.MIGRATIONS),)]


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    Index(url_of(tmp_path)).put(entry_from_record(records.record("r"), path="runs/r"))

    def break_down(connection):
        connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT")
        connection.exec_driver_sql("SELECT no_such_function()")

    before = len(index.MIGRATIONS)
    with monkeypatch.context() as patched:
        patched.setattr(index, "MIGRATIONS", (*index.MIGRATIONS, break_down))
        with pytest.raises(StoreError):
            Index(url_of(tmp_path))
    with sqlite3.connect(tmp_path / "index.sqlite") as connection:
        assert connection.execute("SELECT version FROM trtbench_schema").fetchall() == [(before,)]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
    assert "colour" not in columns
    assert [entry.id for entry in Index(url_of(tmp_path)).find()] == ["r"]


def test_a_newer_index_is_refused(tmp_path):
    Store(tmp_path)
    with sqlite3.connect(tmp_path / "index.sqlite") as connection:
        connection.execute("UPDATE trtbench_schema SET version = 99")
    with pytest.raises(StoreError, match="newer trtbench") as caught:
        Store(tmp_path)
    assert caught.value.facts["its version"] == "99"


@pytest.mark.parametrize(
    "data", [b"not a database at all, " * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_index_says_how_to_make_it_anew(tmp_path, data):
    store = Store(tmp_path)
    records.add(store, records.record("20261115-120000-aaaaaa"))
    (tmp_path / "index.sqlite").write_bytes(data)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path)
    assert "reindex" in caught.value.fix
    (tmp_path / "index.sqlite").unlink()
    again = Store(tmp_path)
    assert again.reindex(lambda run: None) == (1, 0, [])


def look_through(folder) -> int:
    damaged = Store(folder)
    return len(damaged.index.find()) + len(damaged.index.find(tag="t"))


def test_an_index_cut_in_the_middle_is_an_error_in_words(tmp_path):
    store = Store(tmp_path)
    put_many(url_of(tmp_path), "t", 60)
    del store
    whole = (tmp_path / "index.sqlite").read_bytes()
    refused = 0
    for keep in range(1, len(whole), 4096 + 17):
        (tmp_path / "index.sqlite").write_bytes(whole[:keep])
        try:
            assert look_through(tmp_path) <= 120
        except StoreError as problem:
            assert "reindex" in (problem.fix or ""), problem  # noqa: PT017
            refused += 1
    assert refused > 3


def test_a_store_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", "/proc/trtbench-store"):
        with pytest.raises(StoreError, match="cannot be written") as caught:
            Store(type(tmp_path)(place))
        assert "--store" in caught.value.fix


def test_the_index_of_a_folder_that_is_one_is_in_the_way(tmp_path):
    (tmp_path / "index.sqlite").mkdir()
    with pytest.raises(StoreError, match="index of the store"):
        Store(tmp_path)


def test_filters(tmp_path):
    store = Store(tmp_path)
    records.add(store, records.record("r1", model="ResNet50.onnx", tags=("x", "y")))
    records.add(store, records.record("r2", model="bert.onnx", created="2026-11-16T08:00:00+00:00"))
    records.add(store, records.record("r3", model="100%_net.onnx", runtime="torch"))
    records.add(store, records.failed("f1"))

    def ids(**filters):
        return [entry.id for entry in store.index.find(**filters)]

    assert ids() == ["r2", "f1", "r3", "r1"]
    assert ids(model="resnet") == ["r1"]
    assert ids(model="%") == ["r3"]
    assert ids(runtime="torch") == ["r3"]
    assert ids(tag="y") == ["r1"]
    assert ids(since="2026-11-16") == ["r2"]
    assert ids(until="2026-11-16", kind="run") == ["r3", "r1"]
    assert ids(kind="failed") == ["f1"]
    assert ids(limit=2) == ["r2", "f1"]


def test_names(tmp_path, monkeypatch):
    store = Store(tmp_path)
    one = records.add(store, records.record("20261115-120000-aaaaaa", tags=("best",)))
    records.add(store, records.failed("20261115-130000-bbbbbb"))
    assert store.resolve("20261115-120000-aaaaaa") == one
    assert store.resolve("20261115-12") == one
    assert store.resolve("tag:best") == one
    assert store.resolve(str(one)) == one
    assert store.entry("last").id == "20261115-130000-bbbbbb"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "last").mkdir()
    assert store.resolve("last").name == "20261115-130000-bbbbbb"
    with pytest.raises(UsageError, match="several runs"):
        store.entry("20261115")
    for unknown in ("zzz", "tag:none", "%"):
        with pytest.raises(UsageError, match="there is no run"):
            store.entry(unknown)


def test_tags_go_into_the_record_and_come_back_from_it(tmp_path):
    store = Store(tmp_path)
    folder = records.add(store, records.record("r1", tags=("old",)))
    assert store.tag("r1", add=("new", "ünï", "new"), drop=("old",)).tags == ("new", "ünï")
    assert json.loads((folder / "run.json").read_bytes())["tags"] == ["new", "ünï"]
    (tmp_path / "index.sqlite").unlink()
    again = Store(tmp_path)
    again.reindex(lambda run: None)
    assert again.entry("tag:ünï").tags == ("new", "ünï")


def test_a_store_can_be_moved_and_copied(tmp_path):
    store = Store(tmp_path / "old")
    records.add(store, records.record("r1"))
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    shutil.move(tmp_path / "old", tmp_path / "new")
    for place in ("copy", "new"):
        there = Store(tmp_path / place)
        assert there.load("r1").path == tmp_path / place / "runs" / "r1"
        assert there.reindex(lambda run: Cached(samples=50, median_s=1e-3)) == (1, 0, [])
        assert there.entry("r1").median_s == 1e-3


def test_a_directory_brought_from_elsewhere_is_found_by_reindex(tmp_path):
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    folder = records.add(there, records.record("r1", tags=("far",)))
    shutil.copytree(folder, here.runs / "r1")
    assert here.reindex(lambda run: None) == (1, 0, [])
    assert here.entry("tag:far").id == "r1"


def test_a_run_outside_the_store_is_found_and_its_loss_noticed(tmp_path):
    store = Store(tmp_path / "store")
    outside = records.add(store, records.record("r1"), output=tmp_path / "results" / "mine")
    assert store.load("r1").path == outside == tmp_path / "results" / "mine"
    assert store.reindex(lambda run: None) == (1, 0, [])
    outside.rename(tmp_path / "results" / "moved")
    with pytest.raises(StoreError, match="gone") as caught:
        store.load("r1")
    assert "reindex" in caught.value.fix
    assert store.reindex(lambda run: None) == (0, 1, [])


def test_one_damaged_directory_does_not_hide_the_others(tmp_path):
    store = Store(tmp_path)
    records.add(store, records.record("r1"))
    broken = records.add(store, records.record("r2"))
    (broken / "run.json").write_bytes(b"{")
    found, dropped, problems = store.reindex(lambda run: None)
    assert (found, dropped) == (1, 1)
    assert len(problems) == 1
    assert "r2" in problems[0]
    with pytest.raises(InputError):
        store.load(str(broken))


def test_removal_takes_directory_and_entry(tmp_path):
    store = Store(tmp_path)
    folder = records.add(store, records.record("r1", tags=("x",)))
    records.add(store, records.record("r2"))
    assert store.remove("tag:x").id == "r1"
    assert not folder.exists()
    assert [entry.id for entry in store.index.find()] == ["r2"]
    assert [each.name for each in store.runs.iterdir()] == ["r2"]


def test_a_store_named_by_a_relative_path_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(type(tmp_path)("store"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    records.add(store, records.record("r1"))
    assert store.load("r1").path == tmp_path / "store" / "runs" / "r1"
