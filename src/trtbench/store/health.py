"""Looks whether the index and the directories of a store fit together, and makes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.boundary import check_id
from trtbench.domain.result import AnyRecord, Run
from trtbench.domain.spec import Value
from trtbench.errors import InputError, StoreError, TrtbenchError
from trtbench.host.unfinished import forgotten
from trtbench.store.directory import RECORD, read_headline, read_record
from trtbench.store.entries import DAMAGED, Cached, Entry, ReadOnlyIndexError, entry_from_record

if TYPE_CHECKING:
    from trtbench.store.index import Index

Describe = Callable[[Run], Cached | None]
"""Computes what the index caches of a run; handed in, because a store does not know analysis."""

NameFile = Callable[[Path], str]
"""Writes the path of a directory as the index keeps it."""


class Checkup(Value, frozen=True, kw_only=True):
    """What was found between the index and the directories of a store."""

    runs: int
    """Entries of the index now, or once it is mended."""
    adopted: tuple[str, ...] = ()
    """Runs on disk that the index lacked."""
    dropped: tuple[str, ...] = ()
    """Entries whose directory is gone, or is not that of a run with their id."""
    damaged: dict[str, str] = {}
    """Runs that cannot be read, and why; their directories are left alone."""
    unfinished: tuple[str, ...] = ()
    """Folders that somebody began to fill long ago and never finished."""

    @property
    def is_sound(self) -> bool:
        return not (self.adopted or self.dropped or self.damaged or self.unfinished)


def adopt(index: Index, runs: Path, *, describe: Describe | None, name: NameFile) -> list[str]:
    """Take in runs on disk that an index lacks: its writer was killed, or it is a new one.

    Says what was taken in, and what could not be.
    """
    missing = sorted(_folders_in(runs) - index.ids())
    folders = [runs / each for each in missing if (runs / each / RECORD).exists()]
    if not folders:
        return []
    found, damaged = read_entries(folders, describe=describe, name=name)
    try:
        index.put_all(found.values())
    except ReadOnlyIndexError:
        return [f"{len(folders)} runs are not in the index, which cannot be written"]
    count = len(found.keys() - damaged.keys())
    runs_were = "run that the index lacked was" if count == 1 else "runs that the index lacked were"
    told = [f"{count} {runs_were} taken in"] if count else []
    return [*told, *(f"{each} cannot be read: {reason}" for each, reason in damaged.items())]


def read_entries(
    folders: Iterable[Path],
    *,
    describe: Describe | None,
    name: NameFile,
    known: Mapping[str, Entry] | None = None,
) -> tuple[dict[str, Entry], dict[str, str]]:
    """Read directories for the index; those that cannot be read are listed as damaged, with why."""
    found, unreadable = _entries_from_folders(folders, describe=describe, name=name)
    by_path = {entry.path: entry for entry in (known or {}).values()}
    damaged: dict[str, str] = {}
    for folder, reason in unreadable.items():
        path = name(folder)
        before = by_path.get(path)
        entry = marked(before) if before else _damaged_entry(folder, path=path)
        damaged[entry.id if entry else folder.name] = reason
        if entry is not None:
            found[entry.id] = entry
    return found, damaged


def _folders_in(root: Path) -> set[str]:
    try:
        return {each.name for each in os.scandir(root) if not each.name.startswith(".")}
    except OSError:
        return set()


def _entries_from_folders(
    folders: Iterable[Path], *, describe: Describe | None, name: NameFile
) -> tuple[dict[str, Entry], dict[Path, str]]:
    """Read directories, oldest first; those that cannot be read are told with why."""
    found: list[Entry] = []
    damaged: dict[Path, str] = {}
    for folder in folders:
        try:
            found.append(_entry(folder, describe, name(folder)))
        except TrtbenchError as problem:
            damaged[folder] = problem.message
    # The order in which runs count as made: clocks are all there is on the disk.
    found.sort(key=lambda entry: (entry.created, entry.id))
    return {entry.id: entry for entry in found}, damaged


def _damaged_entry(folder: Path, *, path: str) -> Entry | None:
    """Describe a directory that cannot be read, so that it is listed; ``None`` for odd names."""
    try:
        check_id(folder.name)
    except InputError:
        return None
    return Entry(
        id=folder.name, kind=DAMAGED, created="", model="cannot be read", runtime="", path=path
    )


def marked(entry: Entry) -> Entry:
    """Say of an entry that its directory cannot be read any more."""
    return entry.having(kind=DAMAGED)


def state_of(entry: Entry, folder: Path) -> str | None:
    """Say why the directory of an entry is not that of a run with its id; ``None`` when it is.

    A directory that is damaged, or of a newer version, raises what is wrong with it.
    """
    if not folder.is_dir():
        return "its directory is gone"
    if folder.name != entry.id and not (folder / RECORD).exists():
        return "its directory is no run's"
    found = read_record(folder).id
    return None if found == entry.id else f"its directory holds the run {found}"


def remove_forgotten(root: Path, *, mend: bool) -> tuple[str, ...]:
    """List, and remove, what was begun long ago and never finished."""
    found = forgotten(root)
    if mend:
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
    return tuple(folder.name for folder in found)


def sort_out(
    entries: Mapping[str, Entry], folder_of: Callable[[Entry], Path], ours: Callable[[Entry], bool]
) -> tuple[list[str], dict[str, str]]:
    """Tell the entries that mean no run, and the runs that cannot be read."""
    gone: list[str] = []
    damaged: dict[str, str] = {}
    for entry in entries.values():
        try:
            reason = state_of(entry, folder_of(entry))
        except StoreError:  # the path leads out of the store
            gone.append(entry.id)
            continue
        except TrtbenchError as problem:
            damaged[entry.id] = problem.message
            continue
        if reason is not None and ours(entry):
            gone.append(entry.id)
    return gone, damaged


def _entry(folder: Path, describe: Describe | None, path: str) -> Entry:
    run = read_headline(folder)
    record: AnyRecord = run.record if isinstance(run, Run) else run
    cached = describe(run) if isinstance(run, Run) and describe is not None else None
    return entry_from_record(record, path=path, cached=cached)
