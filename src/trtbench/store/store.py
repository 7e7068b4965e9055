"""A store: run directories, in a folder or on shared storage, and the index over them."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trtbench.domain.result import FailedRun, Record, Run
from trtbench.errors import StoreError, UsageError, write_error
from trtbench.store.directory import (
    partial_directory,
    read_record,
    read_run,
    remove_abandoned,
    remove_directory,
    run_directories,
    scratch_directory,
    write_record,
)
from trtbench.store.index import Cached, Entry, Index, entry_from_record
from trtbench.store.place import place_from_text

if TYPE_CHECKING:
    from trtbench.store.remote import RemoteRuns

Describe = Callable[[Run], Cached | None]
"""Computes what the index caches of a run; handed in, because a store does not know analysis."""

LAST = "last"
TAG = "tag:"


class Store:
    """Runs on disk and in the index.

    ``place`` is a folder or a URL of an index, ``runs`` a folder or an fsspec URL for the run
    directories, ``home`` the folder for what must stay on this machine.
    """

    def __init__(
        self, place: Path | str, *, runs: str | None = None, home: Path | None = None
    ) -> None:
        found = place_from_text(str(place), runs=runs, home=home)
        self.root, self.runs = found.root, found.runs
        self._is_shared = found.is_shared
        try:
            for folder in (self.runs, found.index_folder or self.runs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise write_error(self.runs, problem) from None
        self.index = Index(found.url)
        self._remote: RemoteRuns | None = None
        if found.remote is not None:
            from trtbench.store.remote import RemoteRuns

            self._remote = RemoteRuns(found.remote, folder=self.runs)
        remove_abandoned(self.runs)

    @contextlib.contextmanager
    def new_run(self, run_id: str, *, output: Path | None = None) -> Iterator[Path]:
        """Give a folder to fill; complete and visible only when the block ends well."""
        target = self.directory(run_id, output=output)
        remote = self._remote if output is None else None
        if remote is not None:
            remote.expect(run_id)
        try:
            with partial_directory(target) as folder:
                yield folder
        finally:
            if remote is not None and not target.is_dir():
                remote.forget(run_id)
        if remote is not None:
            remote.send(run_id)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a folder to work in that vanishes at the end."""
        with scratch_directory(self.runs) as folder:
            yield folder

    def directory(self, run_id: str, *, output: Path | None = None) -> Path:
        """Where a run goes: into the store, or to the folder the user named."""
        return output.absolute() if output is not None else self.runs / run_id

    def add(self, record: Record, *, path: Path, cached: Cached | None = None) -> Entry:
        """Put a complete run directory into the index."""
        entry = entry_from_record(record, path=self._stored(path), cached=cached)
        self.index.put(entry)
        return entry

    def publish(self, folder: Path) -> None:
        """Have everybody see what was changed in a run directory; nothing to do for a folder."""
        if self._remote is not None and folder.parent.resolve() == self.runs.resolve():
            self._remote.send_changes(folder.name)

    def path(self, entry: Entry) -> Path:
        """The directory of an entry, fetched if it is far; those inside the store are relative."""
        folder = self.root / entry.path
        if self._remote is not None and folder.parent == self.runs:
            return self._remote.fetch(folder.name)
        return folder

    def resolve(self, name: str) -> Path:
        """Find a run by folder, id, start of an id, ``last`` or ``tag:NAME``."""
        as_path = Path(name)
        if name != LAST and as_path.is_dir():
            return as_path.absolute()
        return self.path(self.entry(name))

    def entry(self, name: str) -> Entry:
        """Find an entry by id, start of an id, ``last`` or ``tag:NAME``."""
        if name == LAST:
            found = self.index.find(limit=1)
        elif name.startswith(TAG):
            found = self.index.find(tag=name.removeprefix(TAG), limit=1)
        else:
            found = self.index.find(id_prefix=name, limit=2)
            found = [entry for entry in found if entry.id == name] or found
        if len(found) > 1:
            raise UsageError(
                f"several runs begin with {name!r}",
                facts={"among them": ", ".join(entry.id for entry in found)},
                fix="type more of the id",
            )
        if not found:
            raise UsageError(f"there is no run {name!r}", fix="trtbench runs")
        return found[0]

    def load(self, name: str) -> Run | FailedRun:
        """Read a run by any of its names."""
        folder = self.resolve(name)
        if not folder.is_dir():
            raise self._gone(name, folder)
        return read_run(folder)

    def _gone(self, name: str, folder: Path) -> StoreError:
        host = self.entry(name).host
        if self._is_shared and self._remote is None and host != platform.node():
            return StoreError(
                "the run's directory is on another machine",
                facts={"machine": host, "path": folder},
                fix="set runs in trtbench.toml to a folder or URL that all machines reach",
            )
        return StoreError(
            "the run's directory is gone", facts={"path": folder}, fix="trtbench runs reindex"
        )

    def remove(self, name: str) -> Entry:
        """Delete a run's directory and its entry."""
        entry = self.entry(name)
        folder = self.root / entry.path
        try:
            if self._remote is not None and folder.parent == self.runs:
                self._remote.remove(folder.name)
            elif folder.exists():
                remove_directory(folder)
        except OSError as problem:
            raise StoreError(f"{folder} cannot be removed", facts={"reason": problem}) from None
        self.index.remove(entry.id)
        return entry

    def tag(self, name: str, *, add: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Entry:
        """Change the tags of a run, in its record and in the index."""

        def change(entry: Entry) -> Entry:
            folder = self.path(entry)
            record = read_record(folder)
            tags = tuple(sorted((set(record.tags) | set(add)) - set(drop)))
            write_record(folder, msgspec.structs.replace(record, tags=tags))
            self.publish(folder)
            return msgspec.structs.replace(entry, tags=tags)

        found = self.entry(name)
        return self.index.change(found.id, change) or found

    def reindex(self, describe: Describe) -> tuple[int, int, list[str]]:
        """Make the index anew from the directories: runs found, entries dropped, problems."""
        known = {entry.id: entry for entry in self.index.find()}
        places = [self.root / entry.path for entry in known.values()]
        elsewhere = [place for place in places if place.parent != self.runs]
        seen: set[str] = set()
        problems: list[str] = []
        for folder in [*self._directories(), *(f for f in elsewhere if f.is_dir())]:
            try:
                seen.add(self._index_directory(folder, describe))
            except Exception as problem:  # one damaged directory must not hide the others
                problems.append(f"{folder.name}: {problem}")
        gone = [entry for entry in known.values() if entry.id not in seen and self._is_ours(entry)]
        for entry in gone:
            self.index.remove(entry.id)
        return len(seen), len(gone), problems

    def _directories(self) -> Iterator[Path]:
        """Every complete run of the store; what waited here to be sent is sent first."""
        if self._remote is None:
            yield from run_directories(self.runs)
            return
        for run_id in self._remote.waiting():
            self._remote.send(run_id)
        for run_id in self._remote.ids():
            yield self._remote.fetch(run_id)

    def _is_ours(self, entry: Entry) -> bool:
        """Whether a directory that is not found is gone, and not just out of this one's sight."""
        inside = not Path(entry.path).is_absolute()
        sees_all = not self._is_shared or (inside and self._remote is not None)
        return sees_all or entry.host == platform.node()

    def _index_directory(self, folder: Path, describe: Describe) -> str:
        run = read_run(folder)
        record: Record = run.record if isinstance(run, Run) else run
        cached = describe(run) if isinstance(run, Run) else None
        return self.add(record, path=folder, cached=cached).id

    def _stored(self, path: Path) -> str:
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(path)
