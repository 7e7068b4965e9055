"""The index, as a file and in PostgreSQL: writers, versions, damage, and being made anew."""

import json
import os
import shutil
import signal
import time

import pytest
import records
import sqlalchemy as sa
from writers import CLEAN, put_many, tag_many

from trtbench.core.errors import StoreError, UsageError
from trtbench.store.directory import Cached, entry_from_record
from trtbench.store.index import Index
from trtbench.store.store import Store


def ask(url: str, query: str) -> list[tuple[object, ...]]:
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def tell(url: str, statement: str) -> None:
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.text(statement))


def run_all(*jobs):
    writers = [CLEAN.Process(target=target, args=arguments) for target, *arguments in jobs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * len(writers)


@pytest.mark.process
@pytest.mark.parametrize(("writers", "each"), [(2, 100), (8, 2)])
def test_several_processes_write_to_a_new_index_at_once_and_nothing_is_lost(world, writers, each):
    run_all(*((put_many, world.url, f"w{n}", each) for n in range(writers)))
    found = Index(world.url).find()
    assert len(found) == writers * each
    assert len(Index(world.url).find(tag="w1")) == each
    assert {entry.tags for entry in found} == {("all", f"w{n}") for n in range(writers)}


@pytest.mark.process
def test_a_writer_killed_in_the_middle_harms_nobody(world):
    url = world.url
    Index(url)
    doomed = [CLEAN.Process(target=put_many, args=(url, f"doomed{n}", 5000)) for n in range(2)]
    survivor = CLEAN.Process(target=put_many, args=(url, "survivor", 60))
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
    if world.is_sqlite:
        assert ask(world.url, "PRAGMA integrity_check") == [("ok",)]
    found = Index(url)
    assert len(found.find(tag="survivor")) == 60
    for number in range(2):  # an entry is there with both its tags, or not at all
        left = found.find(id_prefix=f"doomed{number}")
        assert left
        assert {entry.tags for entry in left} == {("all", f"doomed{number}")}


def test_a_newer_index_is_refused(world):
    world.open()
    tell(world.url, "UPDATE trtbench_schema SET version = 99")
    with pytest.raises(StoreError, match="newer trtbench") as caught:
        world.open()
    assert caught.value.facts["its version"] == "99"


def open_and_list(text, home):
    assert {entry.id for entry in Store(text, home=home).index.find()} == {"r1", "r2", "elsewhere"}


@pytest.mark.process
def test_an_index_of_an_earlier_version_is_brought_forward_by_one_of_several_processes(world):
    store = world.open()
    for name in ("r1", "r2"):
        records.add(store, records.record(name, tags=("kept",)))
    store.add(records.record("elsewhere"), path=world.folder / "on-another-machine")
    tell(world.url, "UPDATE trtbench_schema SET version = 1")
    tell(world.url, "UPDATE runs SET batch = NULL")
    tell(world.url, "ALTER TABLE runs DROP COLUMN dated_by")
    tell(world.url, "ALTER TABLE runs ADD COLUMN former INTEGER NOT NULL DEFAULT 1")
    run_all(*[(open_and_list, world.text, world.folder)] * 4)
    assert world.open().repairs == []
    assert [entry.batch for entry in world.open().index.find(tag="kept")] == [1, 1]
    with pytest.raises(sa.exc.DBAPIError, match="former"):
        ask(world.url, "SELECT former FROM runs")


def test_filters(world):
    store = world.open()
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


def test_names(world, monkeypatch):
    store = world.open()
    one = records.add(store, records.record("20261115-120000-aaaaaa", tags=("best",)))
    records.add(store, records.failed("20261115-130000-bbbbbb"))
    assert store.resolve("20261115-120000-aaaaaa") == one
    assert store.resolve("20261115-12") == one
    assert store.resolve("tag:best") == one
    assert store.resolve(str(one)) == one
    assert store.entry("last").id == "20261115-130000-bbbbbb"
    monkeypatch.chdir(world.folder)
    (world.folder / "last").mkdir()
    assert store.resolve("last").name == "20261115-130000-bbbbbb"
    with pytest.raises(UsageError, match="several runs"):
        store.entry("20261115")
    for unknown in ("zzz", "tag:none", "%"):
        with pytest.raises(UsageError, match="there is no run"):
            store.entry(unknown)


def test_tags_go_into_the_record_and_come_back_from_it(world):
    store = world.open()
    folder = records.add(store, records.record("r1", tags=("old",)))
    assert store.tag("r1", add=("new", "ünï", "new"), drop=("old",)).tags == ("new", "ünï")
    assert json.loads((folder / "run.json").read_bytes())["tags"] == ["new", "ünï"]
    tell(world.url, "DELETE FROM tags")
    tell(world.url, "DELETE FROM runs")
    again = world.open()
    again.reindex(lambda run: None)
    assert again.entry("tag:ünï").tags == ("new", "ünï")


def test_a_run_outside_the_store_is_found_and_its_loss_noticed(world):
    store, folder = world.open(), world.folder / "results"
    outside = records.add(store, records.record("r1"), output=folder / "mine")
    assert store.load("r1").path == outside == folder / "mine"
    assert records.counts(store.reindex(lambda run: None)) == (1, 0, [])
    outside.rename(folder / "moved")
    with pytest.raises(StoreError, match="gone") as caught:
        store.load("r1")
    assert "reindex" in caught.value.fix
    assert records.counts(store.reindex(lambda run: None)) == (0, 1, [])


@pytest.mark.process
def test_several_processes_tag_one_run_and_no_tag_is_lost(world):
    folder = records.add(world.open(), records.record("shared"))
    names = ("a", "b", "c")
    run_all(*((tag_many, world.text, world.folder, name, 10) for name in names))
    wanted = {f"{name}-{number}" for name in names for number in range(10)}
    assert set(json.loads((folder / "run.json").read_bytes())["tags"]) == wanted
    assert set(world.open().entry("shared").tags) == wanted


def test_runs_of_several_time_zones_are_listed_by_when_they_were(world):
    store = world.open()
    records.add(store, records.record("tokyo", created="2026-11-16T06:00:00.000+09:00"))
    records.add(store, records.record("berlin", created="2026-11-15T23:00:00.000+01:00"))
    records.add(store, records.record("new-york", created="2026-11-15T18:00:00.000-05:00"))
    assert [entry.id for entry in store.index.find()] == ["new-york", "berlin", "tokyo"]
    assert store.entry("last").id == "new-york"


def test_ids_and_times_are_sorted_by_their_bytes(world):
    store = world.open()
    for name in ("a-b", "aB", "a_b", "ab"):
        records.add(store, records.record(name))
    assert [entry.id for entry in store.index.find()] == ["ab", "a_b", "aB", "a-b"]


def test_an_entry_that_is_put_twice_is_there_once_with_the_newer_tags(world):
    store = world.open()
    for tags in (("x", "y"), ("y", "z"), ()):
        store.index.put_all([entry_from_record(records.record("r", tags=tags), path="runs/r")])
        assert [entry.tags for entry in store.index.find()] == [tags]


@pytest.mark.parametrize(
    "data", [b"not a database at all, " * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_damaged_index_is_put_aside_and_made_anew(tmp_path, data):
    store = Store(tmp_path)
    records.add(store, records.record("20261115-120000-aaaaaa"))
    (tmp_path / "index.sqlite").write_bytes(data)
    again = Store(tmp_path)
    assert [entry.id for entry in again.index.find()] == ["20261115-120000-aaaaaa"]
    assert "the index was damaged" in again.repairs[0]
    assert again.repairs[1] == "1 missing run added to the index"
    (aside,) = tmp_path.glob("index.sqlite.damaged-*")
    assert aside.read_bytes() == data
    assert Store(tmp_path).repairs == []


def test_a_store_can_be_moved_and_copied(tmp_path):
    store = Store(tmp_path / "old")
    records.add(store, records.record("r1"))
    shutil.copytree(tmp_path / "old", tmp_path / "copy")
    shutil.move(tmp_path / "old", tmp_path / "new")
    for place in ("copy", "new"):
        there = Store(tmp_path / place)
        assert there.load("r1").path == tmp_path / place / "runs" / "r1"
        found = there.reindex(lambda run: Cached(samples=50, median_s=1e-3))
        assert records.counts(found) == (1, 0, [])
        assert there.entry("r1").median_s == 1e-3


def test_a_store_named_by_a_relative_path_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store(type(tmp_path)("store"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    records.add(store, records.record("r1"))
    assert store.load("r1").path == tmp_path / "store" / "runs" / "r1"
