"""The index as a file: damage, copies, and places where none can be."""

import shutil

import pytest
import records

from trtbench.store.directory import Cached
from trtbench.store.store import Store


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
