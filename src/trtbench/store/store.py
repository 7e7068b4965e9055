"""The store: run directories, in a folder or on shared storage, and the index over them."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core import errors
from trtbench.core.run import AnyRecord, FailedRun, Run, Scores, lowest_type, precision_of
from trtbench.core.safety import check_id, check_name, check_tag, mask, why_untrusted
from trtbench.core.spec import Value
from trtbench.core.units import counted
from trtbench.host import files as host_files
from trtbench.host.cache import cache_folder
from trtbench.models.identity import kept_value
from trtbench.store import directory as directories
from trtbench.store.place import RemoteRuns, address_from_text, place_from_text

if TYPE_CHECKING:
    from trtbench.store.index import Index

Describe = Callable[[Run], directories.Cached | None]
"""Computes the numbers of a run that the index caches; the store itself knows no analysis."""

LAST = "last"
TAG = "tag:"
JUDGED = "judged"


class Checkup(Value, frozen=True, kw_only=True):
    """What ``reindex`` found and changed."""

    runs: int  # the number of readable runs in the index
    adopted: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()  # entries whose directory is gone, or belongs to another run
    damaged: dict[str, str] = {}
    """Runs that cannot be read, and why; their directories are not changed."""
    unfinished: tuple[str, ...] = ()


class Store:
    """Run directories and the index over them.

    ``place`` is a folder or a URL of an index, ``runs`` a folder or an fsspec URL for the run
    directories, ``home`` the folder for files that stay on this machine. Runs that the index lacks
    are added when the store is opened; ``describe`` computes the numbers for their entries, and
    ``notify`` gets a line for each repair. Unless ``at_once``, the index is opened on first use.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        runs: str | None = None,
        home: Path | None = None,
        describe: Describe | None = None,
        notify: Callable[[str], None] | None = None,
        at_once: bool = True,
    ) -> None:
        self._place = place_from_text(str(place), runs=runs, home=home)
        self.root, self.runs = self._place.root, self._place.runs
        self.address = address_from_text(str(place))
        self.runs_address = address_from_text(runs) if runs is not None else None
        self.repairs: list[str] = []
        self._describe, self._notify = describe, notify
        self._index: Index | None = None
        self._opening = threading.Lock()
        self._waiting: list[directories.Entry] | None = None
        self._trusted: bool | None = None
        try:
            for folder in (self.runs, self._place.index_folder or self.runs):
                host_files.make_folder(folder)
        except OSError as problem:
            if not self.root.is_dir():
                raise errors.write_error(self.runs, problem) from None
        remote = self._place.remote
        self._remote = RemoteRuns(remote, folder=self.runs) if remote is not None else None
        host_files.remove_abandoned(self.runs)
        host_files.remove_temporary()
        if at_once:
            self.open()

    @property
    def repair(self) -> str:
        """The command that makes the index of this store again."""
        # Where run directories are set apart, the store is set there, too.
        own = "" if self.runs_address else f" --store {shlex.quote(mask(self.address))}"
        return f"trtbench runs reindex{own}"

    @property
    def index(self) -> Index:
        return self._index or self.open()

    def open(self, *, adopt: bool = True) -> Index:
        """Open the index, if it is not open, and add the runs that it lacks."""
        with self._opening:
            if self._index is None:
                from trtbench.store.index import open_index  # imports SQLAlchemy

                index, replaced = open_index(self._place)
                self.repairs += [replaced] if replaced is not None else []
                # Listing shared storage is slow, and left to reindex.
                if adopt and self._remote is None:
                    self.repairs += self._add_missing(index, again=replaced is not None)
                self._index = index
                for line in self.repairs if self._notify else ():
                    self._notify(line)  # type: ignore[misc]
            return self._index

    def _add_missing(self, index: Index, *, again: bool) -> list[str]:
        """Add run directories that the index lacks, or all; returns lines on what was added."""
        try:
            names = {each.name for each in os.scandir(self.runs) if not each.name.startswith(".")}
        except OSError:
            return []
        known = index.ids()
        missing = [self.runs / each for each in sorted(names if again else names - known)]
        folders = [each for each in missing if os.access(each / directories.RECORD, os.F_OK)]
        if not folders:
            return []
        found, damaged = self._read_entries(folders, self._describe)
        try:
            index.put_all(found.values())
        except directories.ReadOnlyIndexError:
            return [f"{counted(len(folders), 'run')} not in the index, which is read-only"]
        added = len(found.keys() - damaged.keys() - known)
        lines = [f"{counted(added, 'missing run')} added to the index"] if added else []
        return lines + [f"{each} cannot be read: {reason}" for each, reason in damaged.items()]

    def _read_entries(
        self,
        folders: Iterable[Path],
        describe: Describe | None,
        known: Mapping[str, directories.Entry] | None = None,
    ) -> tuple[dict[str, directories.Entry], dict[str, str]]:
        """Return the entries of run directories by id, oldest first, and why some are damaged."""
        before = {entry.path: entry for entry in (known or {}).values()}
        found: list[directories.Entry] = []
        marked: list[directories.Entry] = []
        damaged: dict[str, str] = {}
        for folder in folders:
            path = self._entry_path(folder)
            try:
                run = directories.read_headline(folder)
                record: AnyRecord = run.record if isinstance(run, Run) else run
                cached = describe(run) if isinstance(run, Run) and describe is not None else None
                found.append(directories.entry_from_record(record, path=path, cached=cached))
                continue
            except errors.TrtbenchError as problem:
                reason = problem.message
            entry = before.get(path)
            if entry is None and _is_id(folder.name):
                entry = directories.Entry(
                    id=folder.name, kind=directories.DAMAGED, created="", model="cannot be read",
                    runtime="", path=path,
                )  # fmt: skip
            damaged[entry.id if entry else folder.name] = reason
            files = (folder / name for name in (directories.RECORD, directories.SAMPLES))
            # What cannot be opened, another user may be able to read.
            if entry and all(os.access(each, os.R_OK) for each in files if each.exists()):
                entry = entry.having(kind=directories.DAMAGED)
            marked += [entry] if entry else []
        # The order of creation is taken from the recorded times.
        found.sort(key=lambda entry: (entry.created, entry.id))
        return {entry.id: entry for entry in (*found, *marked)}, damaged

    @contextlib.contextmanager
    def new_run(self, run_id: str, *, output: Path | None = None) -> Iterator[Path]:
        """Yield a folder that becomes the directory of a run when the block ends without error."""
        target = self.directory(run_id, output=output)
        remote, known = (self._remote, self._trusted) if output is None else (None, None)
        if remote is not None:
            remote.mark_pending(run_id)
        try:
            with directories.partial_directory(target, trusted=known) as folder:
                yield folder
        finally:
            if remote is not None and not target.is_dir():
                remote.unmark_pending(run_id)
        if remote is not None:
            remote.send(run_id)

    def code_folder(self, name: str) -> Path:
        """Return the folder for models with code: this user's own, where others can write."""
        folder = self.root / name
        mine = why_untrusted(folder if folder.exists() else self.root) is None
        return folder if mine else cache_folder() / "store" / name

    def scratch(self) -> contextlib.AbstractContextManager[Path]:
        """Return a context manager that makes a temporary folder in the store."""
        return host_files.scratch_directory(self.runs)

    def directory(self, run_id: str, *, output: Path | None = None) -> Path:
        """Return the directory of a new run: in the store, or the folder that the user named."""
        return output.absolute() if output is not None else self.runs / run_id

    def add(
        self, record: AnyRecord, *, path: Path, cached: directories.Cached | None = None
    ) -> directories.Entry:
        """Add a complete run directory to the index."""
        entry = directories.entry_from_record(record, path=self._entry_path(path), cached=cached)
        if self._waiting is None:
            self.index.put_all([entry])
            return entry
        self._waiting.append(entry)
        # How many runs are added to the index together, in `adding_many`.
        if len(self._waiting) >= 100:
            self.index.put_all(self._waiting)
            self._waiting.clear()
        return entry

    @contextlib.contextmanager
    def adding_many(self) -> Iterator[None]:
        """Write runs that are added during the block to the index many at a time.

        Each is complete on disk before that, so if this process is killed, the next one to open the
        store adds them. Runs on shared storage are always added one by one.
        """
        if self._remote is None:
            self._waiting, self._trusted = [], why_untrusted(self.runs) is None
        try:
            yield
        finally:
            waiting, self._waiting, self._trusted = self._waiting, None, None
            if waiting:
                self.index.put_all(waiting)

    def publish(self, folder: Path) -> None:
        """Send changes in a run directory to shared storage, if the store has one."""
        if self._remote is not None and folder.parent.resolve() == self.runs.resolve():
            self._remote.send(folder.name, changes_only=True)

    def path(self, entry: directories.Entry) -> Path:
        """Return the directory of an entry, fetched from shared storage if necessary."""
        folder = self._folder(entry)
        if self._remote is not None and folder.parent == self.runs:
            return self._remote.fetch(folder.name)
        return folder

    def _folder(self, entry: directories.Entry) -> Path:
        """Return the directory that an entry names; raises if a relative path leaves the store."""
        if Path(entry.path).is_absolute():
            return host_files.original_path(Path(entry.path))
        try:
            return self.root / check_name(entry.path, what="folder of a run")
        except errors.InputError as problem:
            facts = {"run": entry.id}
            raise errors.StoreError(problem.message, facts=facts, fix=self.repair) from None

    def resolve(self, name: str) -> Path:
        """Return the directory of a run: by path, id, start of an id, ``last`` or ``tag:NAME``."""
        if name != LAST and Path(name).is_dir():
            return Path(name).absolute()
        return self.path(self.entry(name))

    def entry(self, name: str) -> directories.Entry:
        """Return an entry by id, start of an id, ``last`` or ``tag:NAME``."""
        if name == LAST:
            found = self.index.find(limit=1, by_creation=True)
        elif name.startswith(TAG):
            found = self.index.find(tag=name.removeprefix(TAG), limit=1, by_creation=True)
        else:
            found = self.index.find(id_prefix=name, limit=2)
            found = [entry for entry in found if entry.id == name] or found
        if len(found) > 1:
            facts = {"for example": ", ".join(entry.id for entry in found)}
            fix = "type more of the id"
            raise errors.UsageError(f"several runs begin with {name!r}", facts=facts, fix=fix)
        if not found:
            raise errors.UsageError(f"there is no run {name!r}", fix="trtbench runs")
        return found[0]

    def load(self, name: str) -> Run | FailedRun:
        """Read a run: by path, id, start of an id, ``last`` or ``tag:NAME``."""
        if name != LAST and Path(name).is_dir():
            return directories.read_run(Path(name).absolute())
        entry = self.entry(name)
        folder = self.path(entry)
        if folder.is_dir():
            run = directories.read_run(folder)
            self._check_same_run(entry, run.id, folder)
            return run
        if self._place.is_shared and self._remote is None and entry.host != platform.node():
            message = "the run's directory is on another machine"
            fix = "set runs in trtbench.toml to a folder or URL that all machines reach"
            raise errors.StoreError(message, facts={"machine": entry.host, "path": folder}, fix=fix)
        facts = {"path": folder}
        raise errors.StoreError("the run's directory is gone", facts=facts, fix=self.repair)

    def holds(self, run_id: str) -> bool:
        """Return whether a run is in the store and can be read."""
        try:
            entry = self.entry(run_id)
            return entry.id == run_id and directories.read_headline(self.path(entry)).id == run_id
        except errors.TrtbenchError:
            return False

    def remove(self, name: str) -> tuple[Path, tuple[str, ...]]:
        """Delete a run; returns its folder, and the files in it that are not part of the run."""
        entry = self.entry(name)
        folder = self._folder(entry)
        left: tuple[str, ...] = ()
        try:
            if self._remote is not None and folder.parent == self.runs:
                self._remote.remove(check_id(folder.name))
            elif os.path.lexists(folder):
                try:
                    found = directories.read_record(folder).id
                except errors.InputError:  # damaged: its path identifies it
                    found = folder.name if folder == self.runs / entry.id else "no run"
                self._check_same_run(entry, found, folder)
                left = directories.remove_contents(folder)
        except OSError as problem:
            facts = {"reason": problem}
            raise errors.StoreError(f"{folder} cannot be removed", facts=facts) from None
        self.index.remove(entry.id)
        return folder, left

    def tag(
        self, name: str, *, add: tuple[str, ...] = (), drop: tuple[str, ...] = ()
    ) -> directories.Entry:
        """Change the tags of a run, in its record and in the index."""
        for each in add:
            check_tag(each)

        def change(entry: directories.Entry) -> directories.Entry:
            folder = self.path(entry)
            record = directories.read_record(folder)
            tags = tuple(sorted((set(record.tags) | set(add)) - set(drop)))
            directories.write_record(folder, record.having(tags=tags))
            self.publish(folder)
            return entry.having(tags=tags)

        found = self.entry(name)
        return self.index.change(found.id, change) or found

    def reindex(self, describe: Describe) -> Checkup:
        """Rebuild the index from the directories; unreadable runs are listed as damaged."""
        known = {entry.id: entry for entry in self.open(adopt=False).find()}
        refused: dict[str, str] = {}
        if self._remote is None:
            folders = list(directories.run_directories(self.runs))
        else:
            for run_id in self._remote.pending():
                self._remote.send(run_id)
            folders = []
            for run_id in self._remote.ids():
                try:
                    folders.append(self._remote.fetch(run_id))
                except errors.InputError as problem:  # of this run alone; the others are read
                    refused[run_id] = problem.message
        for entry in known.values():  # run directories outside the store
            with contextlib.suppress(errors.StoreError):
                folder = self._folder(entry)
                if folder.parent != self.runs and (folder / directories.RECORD).is_file():
                    folders.append(folder)
        found, damaged = self._read_entries(folders, describe, known)
        damaged |= refused
        lost = known.keys() - found.keys() - refused.keys()
        gone = [id_ for id_, entry in known.items() if id_ in lost and self._is_gone(entry)]
        self.index.put_all(found.values())
        self.index.remove(*gone)
        unfinished = host_files.old_unfinished(self.runs)
        for folder in unfinished:
            shutil.rmtree(folder, ignore_errors=True)
        return Checkup(
            runs=len(found.keys() - damaged.keys()),
            adopted=tuple(id_ for id_ in found if id_ not in known and id_ not in damaged),
            dropped=tuple(gone),
            damaged=damaged,
            unfinished=tuple(folder.name for folder in unfinished),
        )

    def _is_gone(self, entry: directories.Entry) -> bool:
        """Return whether the run of an entry no longer exists; unreadable runs still exist."""
        try:
            folder = self._folder(entry)
        except errors.StoreError:  # the path leads out of the store
            return True
        try:
            may_be = folder.is_dir() and (
                folder.name == entry.id or (folder / directories.RECORD).exists()
            )
            if may_be and directories.read_record(folder).id == entry.id:
                return False
        except (errors.TrtbenchError, PermissionError):
            return False
        # A folder that is missing here may be on another machine.
        inside = not Path(entry.path).is_absolute()
        sees_all = not self._place.is_shared or (inside and self._remote is not None)
        return sees_all or entry.host == platform.node()

    def _check_same_run(self, entry: directories.Entry, found: str, folder: Path) -> None:
        if found != entry.id:
            message = "the index points to the folder of another run"
            facts = {"run": entry.id, "folder": folder, "run in it": found}
            raise errors.StoreError(message, facts=facts, fix=self.repair)

    def _entry_path(self, path: Path) -> str:
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(host_files.utf8_path(path))


def _is_id(name: str) -> bool:
    try:
        return bool(check_id(name))
    except errors.InputError:
        return False


def output_folder(store: Store, given: str | Path | None, verb: str) -> Path:
    """Return the folder for the files of a result: the given one, or a new one in the store."""
    return Path(given) if given else store.root / "results" / f"{verb}-{directories.new_id()}"


def results_folder(store: Store, sha256: str, *, precision: str | None = None) -> Path:
    """Create and return the folder for scores and checks of a model with this hash."""
    lowest, name = lowest_type(precision), check_id(sha256, what="hash of a model")
    folder = store.root / JUDGED / (f"{name}-{lowest}" if lowest else name)
    with errors.writing(folder):
        return host_files.make_folder(folder)


def results_folders(run: Run, store: Store, *, beside: bool = True) -> Sequence[Path]:
    """Return folders with scores and checks of a run's model: the run's own, then by hash."""
    sha256, lowest = run.record.spec.model.sha256, lowest_type(precision_of(run.record))
    root, folders = store.root / JUDGED, [run.path] if run.path is not None and beside else []
    if sha256 is not None and _is_id(sha256) and lowest is not None:
        folders += [root / f"{sha256}-{lowest}", root / sha256]
    elif sha256 is not None and _is_id(sha256):
        found = [each for each in (root / sha256, *root.glob(f"{sha256}-*")) if each.is_dir()]
        folders += found if len(found) == 1 else []
    return [each for each in folders if each.is_dir()]


def stored_scores(run: Run, store: Store) -> Scores | None:
    """Return scores of a run's model, in the same precision, from before the run; or ``None``."""
    for folder in results_folders(run, store, beside=False):
        kept = kept_value(folder / directories.SCORES, Scores)
        sha256 = run.record.spec.model.sha256
        if kept is not None and kept.sha256 == sha256 and kept.why_not_for(run.record) is None:
            return kept
    return None
