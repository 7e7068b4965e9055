"""An index that somebody tampered with, and users' own files beside a run: nothing else goes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import records
from commands import typed

import models
from trtbench.core.errors import InputError, StoreError
from trtbench.store.store import Store


def point_at(store: Store, run_id: str, path: object) -> None:
    with sqlite3.connect(store.root / "index.sqlite") as index:
        index.execute("UPDATE runs SET path = ? WHERE id = ?", (str(path), run_id))


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    return folder


@pytest.mark.parametrize("how", ["absolute", "upwards", "link", "another run"])
def test_a_folder_that_the_index_names_and_is_not_the_runs_stays(
    tmp_path: Path, precious: Path, how: str
) -> None:
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
    found = store.check(lambda run: None)
    assert found.dropped == ("r1",)
    assert store.check(lambda run: None).adopted == ("r1",)
    assert store.load("r1").record.id == "r1"
    assert (precious / "thesis.tex").is_file()


def test_own_files_in_the_folder_of_a_run_stay(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    folder = records.add(store, records.record("r1"), output=tmp_path / "out")
    (folder / "notes.md").write_text("mine")
    (folder / "more").mkdir()
    (folder / "more" / "figure.png").write_bytes(b"mine")
    (folder / "elsewhere").symlink_to(tmp_path)
    said = typed("runs", "--store", store.root, "rm", "-y", "r1")
    assert said.returncode == 0, said.stderr
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
    made = typed("site", "--store", store.root, "-o", tmp_path / "site")
    assert made.returncode != 0
    outside = [p for p in tmp_path.rglob("*evil*") if p.is_file()]
    assert outside == []


def test_a_title_of_a_sweep_is_one_folder(world: Path) -> None:
    tmp_path = world
    models.tiny_model(tmp_path / "m.onnx")
    (tmp_path / "s.toml").write_text(
        "models = ['m.onnx']\nbatch = 1\ntitle = '../../../escaped/now'\n"
        "[options]\nduration = '10ms'\nwarmup = '1ms'\nuntil_steady = false\n"
    )
    done = typed("sweep", "s.toml", "--store", tmp_path / "store", "--format", "none")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "sweeps").iterdir()
    assert folder.name.startswith("escaped-now-")
    assert list(tmp_path.parent.glob("escaped*")) == []
