"""Run directories on shared storage through fsspec: sent whole, the record last.

A run is complete here before it is sent, and marked as not yet sent until it is. A reader takes a
remote directory for a run only when its record is there. Does not know the index.
"""

from __future__ import annotations

import contextlib
import importlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.boundary import check_name, inside
from trtbench.errors import InputError, StoreError, UnavailableError
from trtbench.store.contents import own_files
from trtbench.store.directory import RECORD, partial_directory
from trtbench.store.place import without_password

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

CHANGING = (RECORD, "scores.json")
"""Files of a finished run that are written again; the others never change."""

_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}
"""Storage where a file is there whole or not at all; elsewhere it is renamed into place."""

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs"}


class RemoteRuns:
    """The runs at one URL, and the folder here that holds copies of some of them."""

    def __init__(self, url: str, *, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._pending = folder.parent / "pending"
        """One empty file for each run that is not known to have arrived."""
        self._files, self._root = _open(url)

    def expect(self, run_id: str) -> None:
        """Note that a run is about to be made here and will have to be sent."""
        self._pending.mkdir(parents=True, exist_ok=True)
        (self._pending / run_id).touch()

    def forget(self, run_id: str) -> None:
        """Take back the note on a run that was not made."""
        (self._pending / run_id).unlink(missing_ok=True)

    def waiting(self) -> list[str]:
        """List runs that are complete here and not known to have arrived."""
        marks = sorted(self._pending.iterdir()) if self._pending.is_dir() else []
        return [mark.name for mark in marks if (self.folder / mark.name / RECORD).is_file()]

    def send(self, run_id: str) -> None:
        """Copy a complete directory, its record last."""
        here, there = self.folder / run_id, self._path(run_id)
        with self._talking(f"the run {run_id} could not be sent", here=here):
            for name in sorted(own_files(here), key=lambda name: name == RECORD):
                self._put(here / name, f"{there}/{name}")
        self.forget(run_id)

    def send_changes(self, run_id: str) -> None:
        """Copy the files that are new or may have changed, the record last."""
        here, there = self.folder / run_id, self._path(run_id)
        with self._talking(f"the change of run {run_id} could not be sent", here=here):
            known = set(self._listing(run_id)) - set(CHANGING)
            for name in sorted(own_files(here), key=lambda name: name == RECORD):
                if name not in known:
                    self._put(here / name, f"{there}/{name}")

    def fetch(self, run_id: str) -> Path:
        """Name a directory here with all that is there; only what is missing is copied."""
        here = self.folder / run_id
        if (self._pending / run_id).is_file() and here.is_dir():
            return here
        with self._talking(f"the run {run_id} could not be fetched"):
            listed = self._listing(run_id)
            if RECORD not in listed:
                return here
            if here.is_dir():
                self._fill(here, run_id, listed, only_changed=True)
                return here
            with contextlib.suppress(StoreError), partial_directory(here) as folder:
                self._fill(folder, run_id, listed)
        return here  # another process may have been quicker; a copy is a copy

    def ids(self) -> Iterator[str]:
        """List the complete runs that are there."""
        with self._talking("the runs could not be listed"):
            self._files.invalidate_cache(self._root)
            found = self._files.glob(f"{self._root}/*/{RECORD}")
        for path in sorted(found):
            name = str(path).rsplit("/", 2)[-2]
            if _is_name(name):
                yield name

    def holds(self, run_id: str) -> bool:
        """Say whether a complete run is there."""
        with self._talking("the runs could not be listed"):
            return RECORD in self._listing(run_id)

    def remove(self, run_id: str) -> None:
        """Delete a run there and its copy here; without its record it is out of sight at once."""
        there = self._path(run_id)
        with self._talking(f"the run {run_id} could not be removed"):
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(f"{there}/{RECORD}")
            with contextlib.suppress(FileNotFoundError):
                self._files.rm(there, recursive=True)
        self.forget(run_id)
        shutil.rmtree(self.folder / run_id, ignore_errors=True)

    def _fill(
        self, folder: Path, run_id: str, listed: dict[str, int], *, only_changed: bool = False
    ) -> None:
        for name, size in listed.items():
            target = inside(folder, name, what="file", where=f"the run {run_id}")
            known = target.is_file() and target.stat().st_size == size and name not in CHANGING
            if only_changed and known:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(3)}")
            try:
                self._files.get_file(f"{self._path(run_id)}/{name}", str(temporary))
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def _listing(self, run_id: str) -> dict[str, int]:
        there = self._path(run_id)
        self._files.invalidate_cache(there)
        try:
            found = self._files.find(there, detail=True)
        except FileNotFoundError:
            return {}
        prefix = self._root.strip("/") + f"/{run_id}/"
        sizes = {str(path).strip("/"): int(facts["size"]) for path, facts in found.items()}
        names = {path.removeprefix(prefix): size for path, size in sizes.items()}
        return {name: size for name, size in names.items() if _is_name(name)}

    def _put(self, source: Path, target: str) -> None:
        scheme = self.url.partition("://")[0]
        parent, _, name = target.rpartition("/")
        self._files.makedirs(parent, exist_ok=True)
        if scheme in _WHOLE:
            self._files.put_file(str(source), target)
            return
        temporary = f"{parent}/.{name}.{secrets.token_hex(3)}"
        self._files.put_file(str(source), temporary)
        self._files.mv(temporary, target)

    def _path(self, run_id: str) -> str:
        return f"{self._root}/{run_id}"

    @contextlib.contextmanager
    def _talking(self, what: str, *, here: Path | None = None) -> Iterator[None]:
        """Turn what fsspec and the libraries below it raise into an error of ours."""
        try:
            yield
        except StoreError:
            raise
        except Exception as problem:  # every storage has exceptions of its own
            kept = {"kept in": here} if here is not None else {}
            raise StoreError(
                what,
                facts={
                    "storage": without_password(self.url),
                    "reason": f"{type(problem).__name__}: {problem}",
                    **kept,
                },
                fix="trtbench runs reindex sends what waits here" if here else None,
            ) from None


def _is_name(name: str) -> bool:
    """Say whether a name given far away stays in its folder; hidden ones are not whole."""
    try:
        return not str(check_name(name)).startswith(".")
    except InputError:
        return False


def _open(url: str) -> tuple[AbstractFileSystem, str]:
    scheme = url.partition("://")[0]
    try:
        fsspec = importlib.import_module("fsspec")
        files, root = fsspec.core.url_to_fs(url)
    except ImportError as problem:
        package = _PACKAGES.get(scheme)
        raise UnavailableError(
            f"runs at {without_password(url)} need a library that is not installed",
            facts={"reason": problem},
            fix="pip install 'trtbench[remote]'" + (f" {package}" if package else ""),
        ) from None
    except Exception as problem:
        raise StoreError(
            f"runs cannot be kept at {without_password(url)}", facts={"reason": problem}
        ) from None
    return files, str(root).rstrip("/")
