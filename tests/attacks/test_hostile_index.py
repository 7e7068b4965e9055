"""An index that computes or that somebody tampered with, and users' own files beside a run."""

import contextlib
import json
import os
import sqlite3
from pathlib import Path

import pytest
import records
from commands import typed

import models
from trtbench.core.errors import InputError, StoreError
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


def test_a_database_of_another_program_is_neither_changed_nor_moved(tmp_path: Path) -> None:
    own = tmp_path / "history.sqlite"
    with sqlite3.connect(own) as database:
        database.execute("CREATE TABLE visits (url TEXT)")
    before = own.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(f"sqlite:///{own}").open()
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


def point_at(store: Store, run_id: str, path: object) -> None:
    with sqlite3.connect(store.root / "index.sqlite") as index:
        index.execute("UPDATE runs SET path = ? WHERE id = ?", (str(path), run_id))


@pytest.mark.parametrize("how", ["absolute", "upwards", "link", "another run"])
def test_a_folder_that_the_index_names_and_is_not_the_runs_stays(tmp_path, precious, how):
    store = Store(tmp_path / "store")
    records.add(store, records.record("r1"))
    other = records.add(store, records.record("r2"))
    (store.root / "runs" / "door").symlink_to(precious)
    places = {"absolute": precious, "upwards": "../precious", "link": "runs/door"}
    point_at(store, "r1", places.get(how, "runs/r2"))
    with pytest.raises(StoreError):
        store.remove("r1")
    assert (precious / "thesis.tex").read_text() == "years of work"
    assert (other / "run.json").is_file()
    with pytest.raises((StoreError, InputError)):
        store.load("r1")


def test_the_entry_is_mended_and_the_run_found_again(tmp_path: Path, precious: Path) -> None:
    store = Store(tmp_path / "store")
    records.add(store, records.record("r1"))
    point_at(store, "r1", precious)
    store.reindex(lambda run: None)
    assert store.load("r1").record.id == "r1"
    assert (precious / "thesis.tex").is_file()


def test_own_files_in_the_folder_of_a_run_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    folder = records.add(store, records.record("r1"), output=tmp_path / "out")
    (folder / "notes.md").write_text("mine")
    (folder / "more").mkdir()
    (folder / "more" / "figure.png").write_bytes(b"mine")
    (folder / "elsewhere").symlink_to(tmp_path)
    said = typed("runs", "--store", store.root, "rm", "-y", "r1", status=0)
    assert str(folder) in said.stderr
    assert "notes.md" in said.stderr
    left = sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))
    assert left == ["elsewhere", "more", "more/figure.png", "notes.md"]
    assert tmp_path.is_dir()
    assert store.index.find() == []


@pytest.mark.parametrize("run_id", ["../../evil", "/tmp/evil", "a/b", "..", "\x1b[2J"])
def test_a_record_whose_id_is_a_path_is_no_run(tmp_path: Path, run_id: str) -> None:
    store = Store(tmp_path / "store")
    folder = records.add(store, records.record("r1"))
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"r1"', json.dumps(run_id)))
    with pytest.raises(InputError, match="run id"):
        store.load(str(folder))
    assert typed("site", "--store", store.root, "-o", tmp_path / "site").returncode != 0
    outside = [p for p in tmp_path.rglob("*evil*") if p.is_file()]
    assert outside == []


def test_a_title_of_a_sweep_is_one_folder(world: Path) -> None:
    tmp_path = world
    models.tiny_model(tmp_path / "m.onnx")
    (tmp_path / "s.toml").write_text(
        "models = ['m.onnx']\nbatch = 1\ntitle = '../../../escaped/now'\n"
        "[options]\nduration = '10ms'\nwarmup = '1ms'\nuntil_steady = false\n"
    )
    typed("sweep", "s.toml", "--store", tmp_path / "store", "--format", "none", status=0)
    (folder,) = (tmp_path / "store" / "sweeps").iterdir()
    assert folder.name.startswith("escaped-now-")
    assert list(tmp_path.parent.glob("escaped*")) == []
