"""Indexes that compute, or that are no index of ours: nothing of them is carried out."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
import records

from trtbench.core.errors import StoreError
from trtbench.store.store import Store

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x"
COLUMNS = """id, kind, created, model, sha256, runtime, precision, batch, protocol, host, gpu,
    provenance, samples, median_s, items_per_s, warnings, path, instant_s, number"""
PLANTED = {
    "a view without end for runs": f"""ALTER TABLE runs RENAME TO old;
        CREATE VIEW runs AS {ENDLESS} AS id,
        {", ".join(f"'x' AS {name.strip()}" for name in COLUMNS.split(",")[1:])} FROM c""",
    "a view without end or row for the version": f"""DROP TABLE trtbench_schema;
        CREATE VIEW trtbench_schema AS {ENDLESS} AS version FROM c WHERE x < 0""",
    "a trigger that forgets": """CREATE TRIGGER gone AFTER INSERT ON runs
        BEGIN DELETE FROM runs; END""",
    "a trigger that names another folder": """CREATE TRIGGER away AFTER INSERT ON tags
        BEGIN UPDATE runs SET path = '/etc'; END""",
    "a column that fills the memory": """ALTER TABLE tags ADD COLUMN
        huge TEXT AS (hex(zeroblob(400000000))) VIRTUAL""",
    "a table of another kind": "CREATE VIRTUAL TABLE found USING fts5(x)",
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_an_index_that_computes_is_put_aside(tmp_path: Path, planted: str) -> None:
    records.add(Store(tmp_path), records.record("r1"))
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        index.executescript(planted)
    store = Store(tmp_path)
    records.add(store, records.record("r2"))
    assert {entry.id for entry in Store(tmp_path).index.find()} == {"r1", "r2"}
    assert all(entry.path.startswith("runs/") for entry in store.index.find())
    assert len(list(tmp_path.glob("index.sqlite.damaged-*"))) == 1


@pytest.mark.parametrize("link", [True, False])
def test_a_database_of_another_program_is_neither_changed_nor_moved(
    tmp_path: Path, link: bool
) -> None:
    own = tmp_path / "history.sqlite"
    with sqlite3.connect(own) as database:
        database.execute("CREATE TABLE visits (url TEXT)")
    before = own.read_bytes()
    if link:
        (tmp_path / "store").mkdir()
        (tmp_path / "store" / "index.sqlite").symlink_to(own)
    with pytest.raises(StoreError, match="another program"):
        Store(tmp_path / "store" if link else f"sqlite:///{own}").open()
    assert own.read_bytes() == before


@pytest.mark.parametrize("what", ["pipe", "device", "journal"])
def test_what_is_no_file_in_place_of_an_index_is_not_waited_for(tmp_path: Path, what: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n" * 500)
    records.add(Store(tmp_path / "store"), records.record("r1"))
    index = tmp_path / "store" / "index.sqlite"
    if what == "journal":
        (tmp_path / "store" / "index.sqlite-journal").symlink_to(precious)
        with contextlib.suppress(StoreError):  # SQLite refuses to follow it
            records.add(Store(tmp_path / "store"), records.record("r2"))
    else:
        index.unlink()
        os.mkfifo(index) if what == "pipe" else index.symlink_to("/dev/zero")
        store = Store(tmp_path / "store")
        assert [entry.id for entry in store.index.find()] == ["r1"]
    assert precious.read_text() == "mine\n" * 500
