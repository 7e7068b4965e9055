"""Shared storage that somebody else writes to, and folders with links: nothing leaves its place."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import records

from trtbench.store.directory import own_files
from trtbench.store.place import RemoteRuns
from trtbench.store.store import Store

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


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_a_run_whose_name_leads_out_is_not_fetched(tmp_path: Path, bucket: str) -> None:
    records.add(Store(tmp_path / "a", runs=bucket), records.record("r1"))
    plant(bucket, "../run.json")
    reader = Store(tmp_path / "b", runs=bucket)
    found = reader.reindex(lambda run: None)
    assert (found.runs, found.adopted, found.damaged) == (1, ("r1",), {})
    outside = {name for name in files(tmp_path / "b") if "/runs/r1/" not in name}
    assert outside == {"index.sqlite"}


@pytest.mark.parametrize("name", ["../../../evil", "x/../../../evil", "/etc/evil", "..\\evil"])
def test_a_file_whose_name_leads_out_is_not_fetched(
    tmp_path: Path, bucket: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_neither_links_nor_own_files_are_sent_along(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    store = Store(tmp_path / "a", runs=bucket)
    folder = records.add(store, records.record("r1"))
    (folder / "scores.json").symlink_to(tmp_path / "id_rsa")
    (folder / ".env").write_text("secret")
    (folder / "mine.txt").write_text("secret")
    store.publish(folder)
    sent = fsspec.filesystem("memory").find(bucket.partition("://")[2])
    assert sorted(each.rpartition("/")[2] for each in sent) == [
        "files.json",
        "run.json",
        "samples.npz",
    ]
    assert own_files(folder) == ["files.json", "run.json", "samples.npz"]
