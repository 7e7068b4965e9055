"""A store: a folder of run directories and the index over it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

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

Describe = Callable[[Run], Cached | None]
"""Computes what the index caches of a run; handed in, because a store does not know analysis."""

LAST = "last"
TAG = "tag:"


class Store:
    """Runs on disk and in the index."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.runs = self.root / "runs"
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise write_error(self.runs, problem) from None
        self.index = Index(f"sqlite:///{self.root / 'index.sqlite'}")
        remove_abandoned(self.runs)

    @contextlib.contextmanager
    def new_run(self, run_id: str, *, output: Path | None = None) -> Iterator[Path]:
        """Give a folder to fill; complete and visible only when the block ends well."""
        with partial_directory(self.directory(run_id, output=output)) as folder:
            yield folder

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

    def path(self, entry: Entry) -> Path:
        """The directory of an entry; paths inside the store are kept relative to it."""
        return self.root / entry.path

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
            raise StoreError(
                "the run's directory is gone", facts={"path": folder}, fix="trtbench runs reindex"
            )
        return read_run(folder)

    def remove(self, name: str) -> Entry:
        """Delete a run's directory and its entry."""
        entry = self.entry(name)
        folder = self.path(entry)
        try:
            if folder.exists():
                remove_directory(folder)
        except OSError as problem:
            raise StoreError(f"{folder} cannot be removed", facts={"reason": problem}) from None
        self.index.remove(entry.id)
        return entry

    def tag(self, name: str, *, add: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Entry:
        """Change the tags of a run, in its record and in the index."""
        entry = self.entry(name)
        folder = self.path(entry)
        record = read_record(folder)
        tags = tuple(sorted((set(record.tags) | set(add)) - set(drop)))
        write_record(folder, msgspec.structs.replace(record, tags=tags))
        entry = msgspec.structs.replace(entry, tags=tags)
        self.index.put(entry)
        return entry

    def reindex(self, describe: Describe) -> tuple[int, int, list[str]]:
        """Make the index anew from the directories: runs found, entries dropped, problems."""
        known = {entry.id: entry for entry in self.index.find()}
        elsewhere = [self.path(e) for e in known.values() if Path(e.path).is_absolute()]
        seen: set[str] = set()
        problems: list[str] = []
        for folder in [*run_directories(self.runs), *(f for f in elsewhere if f.is_dir())]:
            try:
                seen.add(self._index_directory(folder, describe))
            except Exception as problem:  # one damaged directory must not hide the others
                problems.append(f"{folder.name}: {problem}")
        gone = [run_id for run_id in known if run_id not in seen]
        for run_id in gone:
            self.index.remove(run_id)
        return len(seen), len(gone), problems

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
