"""A store: run directories, in a folder or on shared storage, and the index over them."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench import boundary
from trtbench.domain.result import AnyRecord, FailedRun, Run
from trtbench.errors import InputError, StoreError, TrtbenchError, UsageError, write_error
from trtbench.host.files import path_behind, utf8_path
from trtbench.host.unfinished import remove_abandoned, remove_temporary, scratch_directory
from trtbench.store.contents import remove_contents
from trtbench.store.directory import (
    partial_directory,
    read_headline,
    read_record,
    read_run,
    run_directories,
    write_record,
)
from trtbench.store.entries import DAMAGED, Cached, Entry, entry_from_record
from trtbench.store.health import (
    Checkup,
    Describe,
    adopt,
    marked,
    read_entries,
    remove_forgotten,
    sort_out,
)
from trtbench.store.place import address_from_text, place_from_text

if TYPE_CHECKING:
    from trtbench.store.index import Index
    from trtbench.store.remote import RemoteRuns

LAST = "last"
TAG = "tag:"
MOST_WAITING = 100
"""Runs on disk that may wait for the index; where one is killed, so many are adopted."""


class Store:
    """Runs on disk and in the index.

    ``place`` is a folder or a URL of an index, ``runs`` a folder or an fsspec URL for the run
    directories, ``home`` the folder for what must stay on this machine. Runs on disk that the index
    lacks are taken in when a store is opened; ``describe`` computes what is listed of them, and
    ``tell`` hears what was mended. Unless ``at_once``, the index is opened when it is first used.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        runs: str | None = None,
        home: Path | None = None,
        describe: Describe | None = None,
        tell: Callable[[str], None] | None = None,
        at_once: bool = True,
    ) -> None:
        found = place_from_text(str(place), runs=runs, home=home)
        self.root, self.runs = found.root, found.runs
        self.address = address_from_text(str(place))
        """Where the store is, whatever folder one is in."""
        self.runs_address = address_from_text(runs) if runs is not None else None
        self.news: list[str] = []
        """What was found and mended when the store was opened."""
        self._place, self._describe = found, describe
        self._tell = tell or (lambda line: None)
        self._index: Index | None = None
        self._opening = threading.Lock()
        self._is_shared = found.is_shared
        self._waiting: list[Entry] | None = None
        try:
            for folder in (self.runs, found.index_folder or self.runs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            if not self.root.is_dir():
                raise write_error(self.runs, problem) from None
        self._remote: RemoteRuns | None = None
        if found.remote is not None:
            from trtbench.store.remote import RemoteRuns

            self._remote = RemoteRuns(found.remote, folder=self.runs)
        remove_abandoned(self.runs)
        remove_temporary()
        if at_once:
            self.open()

    @property
    def index(self) -> Index:
        """The index over the runs."""
        return self._index or self.open()

    def open(self, *, adopting: bool = True) -> Index:
        """Open the index, once, and take in what it lacks, unless all is read anyway."""
        with self._opening:
            if self._index is None:
                # The database library takes a while to import.
                from trtbench.store.opening import open_index

                index, lost = open_index(self._place)
                self.news += [lost] if lost is not None else []
                # To list far storage takes long; reindex and fsck do.
                if adopting and self._remote is None:
                    self.news += adopt(index, self.runs, describe=self._describe, name=self._stored)
                self._index = index
                for line in self.news:
                    self._tell(line)
            return self._index

    @contextlib.contextmanager
    def new_run(self, run_id: str, *, output: Path | None = None) -> Iterator[Path]:
        """List a folder to fill; complete and visible only when the block ends well."""
        target = self.directory(run_id, output=output)
        remote = self._remote if output is None else None
        if remote is not None:
            remote.expect(run_id)
        try:
            with partial_directory(target, tidy=self._waiting is None) as folder:
                yield folder
        finally:
            if remote is not None and not target.is_dir():
                remote.forget(run_id)
        if remote is not None:
            remote.send(run_id)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """List a folder to work in that vanishes at the end."""
        with scratch_directory(self.runs) as folder:
            yield folder

    def directory(self, run_id: str, *, output: Path | None = None) -> Path:
        """Tell where a run goes: into the store, or to the folder the user named."""
        return output.absolute() if output is not None else self.runs / run_id

    def add(self, record: AnyRecord, *, path: Path, cached: Cached | None = None) -> Entry:
        """Put a complete run directory into the index."""
        entry = entry_from_record(record, path=self._stored(path), cached=cached)
        if self._waiting is None:
            self.index.put(entry)
            return entry
        self._waiting.append(entry)
        if len(self._waiting) >= MOST_WAITING:
            self._put_waiting()
        return entry

    @contextlib.contextmanager
    def adding_many(self) -> Iterator[None]:
        """Let the runs that are added meanwhile enter the index many at a time.

        Each is complete on disk before it waits, so that the next one to open the store adopts
        what a killed process left. Far storage is not looked through on opening: nothing waits.
        """
        self._waiting = [] if self._remote is None else None
        try:
            yield
        finally:
            self._put_waiting()
            self._waiting = None

    def _put_waiting(self) -> None:
        if self._waiting:
            self.index.put_all(self._waiting)
            self._waiting.clear()

    def publish(self, folder: Path) -> None:
        """Have everybody see what was changed in a run directory; nothing to do for a folder."""
        if self._remote is not None and folder.parent.resolve() == self.runs.resolve():
            self._remote.send_changes(folder.name)

    def path(self, entry: Entry) -> Path:
        """Find the folder of an entry, fetched if it is far; inside the store it is relative."""
        folder = self._folder(entry)
        if self._remote is not None and folder.parent == self.runs:
            return self._remote.fetch(folder.name)
        return folder

    def _folder(self, entry: Entry) -> Path:
        """Find where an entry says its directory is; a relative path stays within the store."""
        if Path(entry.path).is_absolute():
            return path_behind(Path(entry.path))
        try:
            return self.root / boundary.check_name(entry.path, what="folder of a run")
        except InputError as problem:
            fix = "trtbench runs fsck"
            raise StoreError(problem.message, facts={"run": entry.id}, fix=fix) from None

    def resolve(self, name: str) -> Path:
        """Find a run by folder, id, start of an id, ``last`` or ``tag:NAME``."""
        as_path = Path(name)
        if name != LAST and as_path.is_dir():
            return as_path.absolute()
        return self.path(self.entry(name))

    def entry(self, name: str) -> Entry:
        """Find an entry by id, start of an id, ``last`` or ``tag:NAME``."""
        if name == LAST:
            found = self.index.find(limit=1, as_made=True)
        elif name.startswith(TAG):
            found = self.index.find(tag=name.removeprefix(TAG), limit=1, as_made=True)
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
        as_path = Path(name)
        if name != LAST and as_path.is_dir():
            return read_run(as_path.absolute())
        entry = self.entry(name)
        folder = self.path(entry)
        if not folder.is_dir():
            raise self._gone(entry, folder)
        run = read_run(folder)
        self._demand_same(entry, run.id, folder)
        return run

    def holds(self, run_id: str) -> bool:
        """Say whether a run is there and can be read."""
        try:
            entry = self.entry(run_id)
            return entry.id == run_id and read_headline(self.path(entry)).id == run_id
        except TrtbenchError:
            return False

    def _demand_same(self, entry: Entry, found: str, folder: Path) -> None:
        if found != entry.id:
            raise StoreError(
                "the index names the folder of another run",
                facts={"run": entry.id, "folder": folder, "which holds": found},
                fix="trtbench runs fsck",
            )

    def _gone(self, entry: Entry, folder: Path) -> StoreError:
        if self._is_shared and self._remote is None and entry.host != platform.node():
            return StoreError(
                "the run's directory is on another machine",
                facts={"machine": entry.host, "path": folder},
                fix="set runs in trtbench.toml to a folder or URL that all machines reach",
            )
        return StoreError(
            "the run's directory is gone", facts={"path": folder}, fix="trtbench runs reindex"
        )

    def remove(self, name: str) -> tuple[Path, tuple[str, ...]]:
        """Delete a run's files and its entry; gives its folder, and what else is in it and stays.

        Only a folder that is provably this run's is touched, whatever the index says.
        """
        entry = self.entry(name)
        folder = self._folder(entry)
        left: tuple[str, ...] = ()
        try:
            if self._remote is not None and folder.parent == self.runs:
                self._remote.remove(boundary.check_id(folder.name))
            elif os.path.lexists(folder):
                self._demand_own(entry, folder)
                left = remove_contents(folder)
        except OSError as problem:
            raise StoreError(f"{folder} cannot be removed", facts={"reason": problem}) from None
        self.index.remove(entry.id)
        return folder, left

    def _demand_own(self, entry: Entry, folder: Path) -> None:
        """Refuse a folder that is not this run's; a damaged record is known by its place."""
        try:
            found = read_record(folder).id
        except InputError:
            found = folder.name if folder == self.runs / entry.id else "no run"
        self._demand_same(entry, found, folder)

    def tag(self, name: str, *, add: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> Entry:
        """Change the tags of a run, in its record and in the index."""
        for each in add:
            boundary.check_tag(each)

        def change(entry: Entry) -> Entry:
            folder = self.path(entry)
            record = read_record(folder)
            tags = tuple(sorted((set(record.tags) | set(add)) - set(drop)))
            write_record(folder, record.having(tags=tags))
            self.publish(folder)
            return entry.having(tags=tags)

        found = self.entry(name)
        return self.index.change(found.id, change) or found

    def reindex(self, describe: Describe) -> Checkup:
        """Make the index anew from the directories, and tell what was found.

        A run that cannot be read, by this version or at all, stays in the index as damaged.
        """
        known = {entry.id: entry for entry in self.open(adopting=False).find()}
        folders = [*self._directories(), *self._outside(known.values())]
        found, damaged = read_entries(folders, describe=describe, name=self._stored, known=known)
        gone, _ = sort_out(
            {id_: entry for id_, entry in known.items() if id_ not in found},
            self._folder,
            self._is_ours,
        )
        self.index.put_all(found.values())
        self.index.remove(*gone)
        return Checkup(
            runs=len(found.keys() - damaged.keys()),
            adopted=tuple(id_ for id_ in found if id_ not in known and id_ not in damaged),
            dropped=tuple(gone),
            damaged=damaged,
        )

    def check(self, describe: Describe, *, mend: bool = True) -> Checkup:
        """Look for what does not fit between the directories and the index, and mend it."""
        known = {entry.id: entry for entry in self.index.find()}
        gone, damaged = sort_out(known, self._folder, self._is_ours)
        again = {id_ for id_, each in known.items() if each.kind == DAMAGED and id_ not in damaged}
        missing = [f for f in self._directories() if f.name not in known or f.name in again]
        found, unreadable = read_entries(missing, describe=describe, name=self._stored)
        if mend:
            changed = [marked(known[id_]) for id_ in damaged if known[id_].kind != DAMAGED]
            self.index.put_all([*found.values(), *changed])
            self.index.remove(*gone)
        return Checkup(
            runs=len(known.keys() | found.keys()) - len(gone),
            adopted=tuple(id_ for id_ in found if id_ not in unreadable),
            dropped=tuple(gone),
            damaged={**damaged, **unreadable},
            unfinished=remove_forgotten(self.runs, mend=mend),
        )

    def _outside(self, entries: Iterable[Entry]) -> Iterator[Path]:
        """Find the directories that users put elsewhere."""
        for entry in entries:
            with contextlib.suppress(StoreError):
                folder = self._folder(entry)
                if folder.parent != self.runs and folder.is_dir():
                    yield folder

    def _directories(self) -> Iterator[Path]:
        """List every complete run of the store; what waited here to be sent is sent first."""
        if self._remote is None:
            yield from run_directories(self.runs)
            return
        for run_id in self._remote.waiting():
            self._remote.send(run_id)
        for run_id in self._remote.ids():
            yield self._remote.fetch(run_id)

    def _is_ours(self, entry: Entry) -> bool:
        """Say whether a folder that is not found is gone, not just out of this one's sight."""
        inside = not Path(entry.path).is_absolute()
        sees_all = not self._is_shared or (inside and self._remote is not None)
        return sees_all or entry.host == platform.node()

    def _stored(self, path: Path) -> str:
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(utf8_path(path))
