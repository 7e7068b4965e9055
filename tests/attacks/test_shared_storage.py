"""Shared storage that somebody else writes to, and folders with links: nothing leaves its place."""

import asyncio
import re
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import records
from commands import files, trtbench, typed

from models import conv_model
from trtbench.store.directory import own_files
from trtbench.store.place import RemoteRuns
from trtbench.store.store import Store
from waiting import wait_for

AsyncFileSystem = pytest.importorskip("fsspec.asyn", reason="no fsspec").AsyncFileSystem
fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: trtbench[remote]")


@pytest.fixture
def bucket() -> Iterator[str]:
    name = secrets.token_hex(4)
    yield f"memory://{name}/bench"
    fsspec.filesystem("memory").rm(f"/{name}", recursive=True)


def plant(bucket: str, name: str) -> None:
    """Put a file under a name that a bucket takes as it is; a folder would not."""
    kept = fsspec.filesystem("memory").store
    root = "/" + bucket.partition("://")[2]
    kept[f"{root}/{name}"] = kept[f"{root}/r1/run.json"]


def test_a_run_whose_name_leads_out_is_not_fetched(tmp_path: Path, bucket: str) -> None:
    records.add(Store(tmp_path / "a", runs=bucket), records.record("r1"))
    plant(bucket, "../run.json")
    reader = Store(tmp_path / "b", runs=bucket)
    found = reader.reindex(lambda run: None)
    assert (found.runs, found.adopted, found.damaged) == (1, ("r1",), {})
    outside = {name for name in files(tmp_path / "b") if "/runs/r1/" not in name}
    assert outside == {"index.sqlite"}


@pytest.mark.parametrize("name", ["../../../evil", "x/../../../evil", "/etc/evil", "..\\evil"])
def test_a_file_whose_name_leads_out_is_not_fetched(tmp_path, bucket, name, monkeypatch):
    records.add(Store(tmp_path / "a", runs=bucket), records.record("r1"))
    there = RemoteRuns(bucket, folder=tmp_path / "b" / "runs")
    listed = there._files.find

    def find(path: str, **kw: object) -> object:
        """List as S3 does, which takes any name for a key."""
        found = listed(path, **kw)
        facts = next(iter(found.values()))
        return {**found, f"{path}/{name}": facts}

    monkeypatch.setattr(there._files, "find", find)
    before = files(tmp_path)
    there.fetch("r1")
    new = files(tmp_path) - before
    assert new == {f"b/runs/r1/{each}" for each in ("run.json", "samples.npz", "files.json")}


@pytest.mark.parametrize("what", ["runs without end", "files without end", "too many runs"])
def test_a_list_without_end_ends(world: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A server of a bucket says after each part of a list that there is more."""

    class Endless(AsyncFileSystem):
        async def _find(self, path: str, **kw: object) -> dict[str, object]:
            begun = path.endswith("bench") and what != "runs without end"
            await asyncio.sleep(0 if begun else 1e9)
            return {f"{path}/r1/run.json": {"size": 9, "name": "x", "type": "file"}}

    fsspec.register_implementation("endless", Endless, clobber=True)
    monkeypatch.setattr("trtbench.store.place.LIST_S", 0.5)
    monkeypatch.setattr("trtbench.store.place.MOST_RUNS", 0 if what == "too many runs" else 9)
    monkeypatch.delenv("TRTBENCH_STORE")
    Path("trtbench.toml").write_text("store = 'store'\nruns = 'endless://bench'\n")
    assert re.search("could not be|more than 0", typed("runs", "reindex", status=1).stderr)


def test_neither_links_nor_own_files_are_sent_along(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    store = Store(tmp_path / "a", runs=bucket)
    folder = records.add(store, records.record("r1"))
    (folder / "scores.json").symlink_to(tmp_path / "id_rsa")
    (folder / ".env").write_text("secret")
    (folder / "mine.txt").write_text("secret")
    store.publish(folder)
    sent = fsspec.filesystem("memory").find(bucket.partition("://")[2])
    names = sorted(each.rpartition("/")[2] for each in sent)
    assert names == own_files(folder) == ["files.json", "run.json", "samples.npz"]


BENCH = ("bench", "m.onnx", "--warmup", "1ms", "--iterations", "20")


def test_a_link_in_place_of_an_unfinished_run_is_not_followed(world: Path) -> None:
    conv_model(world / "m.onnx")
    runs, outside = world / "store" / "runs", world / "outside"
    runs.mkdir(parents=True)
    outside.mkdir()
    runs.chmod(0o777)

    def swap() -> None:
        found = wait_for(lambda: next(runs.glob(".partial-*"), None))
        found.rename(runs / ".taken")
        found.symlink_to(outside)

    thief = threading.Thread(target=swap)
    thief.start()
    ended = trtbench(*BENCH, TRTBENCH_TEST_STARTS="workers")  # which leaves it some time
    thief.join()
    # It may be swapped before it is opened, which is another error.
    assert "in its place" in ended.stderr or "cannot be written" in ended.stderr, ended.stderr
    assert list(outside.iterdir()) == []
    trtbench(*BENCH, status=0)  # undisturbed, in the same folder
    assert {path.stat().st_mode & 0o777 for path in runs.glob("2*")} == {0o755}


@pytest.mark.parametrize("there", ["index", "another program's", "nothing"])
def test_an_index_that_is_a_link_is_put_aside(world: Path, there: str) -> None:
    other = Store(world / "other").root
    mine = other / ("index.sqlite" if there == "index" else "new.sqlite")
    if there == "another program's":
        sqlite3.connect(mine).execute("CREATE TABLE visits (url TEXT)")
    before = {path: path.read_bytes() for path in other.glob("*.sqlite")}
    (world / "store").mkdir()
    (world / "store" / "index.sqlite").symlink_to(mine)
    records.add(Store(world / "store"), records.record("r1"))
    assert {path: path.read_bytes() for path in other.glob("*.sqlite")} == before
    assert [entry.id for entry in Store(world / "store").index.find()] == ["r1"]


def test_onnx_runtime_writes_nothing_through_links_among_temporary_files(world: Path) -> None:
    conv_model(world / "m.onnx")
    (world / "tmp").mkdir()
    (world / "tmp" / ".ses").symlink_to(world / "mine")
    trtbench(*BENCH, "--profile", TMPDIR=str(world / "tmp"), status=0)
    assert files(world / "tmp") == set()


def test_one_hostile_run_does_not_hide_the_others(tmp_path, bucket, monkeypatch):
    monkeypatch.setattr("trtbench.store.place.MOST_FILES", 3)
    records.add(Store(tmp_path / "a", runs=bucket), records.record("r1"))
    names = "r0/run.json r0/samples.npz/x r0/samples.npz r2/run.json r3/run.json r3/a r3/b r3/c"
    for name in (*names.split(), "r4/run.json", "r4/run.json/x"):
        plant(bucket, name)
    storage, path = fsspec.filesystem("memory"), f"/{bucket.partition('://')[2]}/r2/run.json"
    storage.store[path] = type(storage.store[path])(storage, path, b" " * (2**26 + 1))
    found = Store(tmp_path / "b", runs=bucket).reindex(lambda run: None)
    assert (found.adopted, sorted(found.damaged)) == (("r1",), ["r0", "r2", "r3", "r4"])
