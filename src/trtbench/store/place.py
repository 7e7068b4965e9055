"""The location of a store, and run directories on shared storage through fsspec."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import re
import secrets
import shutil
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from trtbench.core.errors import InputError, StoreError, UnavailableError, UsageError
from trtbench.core.safety import check_name, expand_home, inside, is_planted, mask, remember_secrets
from trtbench.store.directory import MOST_RECORD_BYTES, RECORD, own_files, partial_directory

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

DRIVER = "postgresql+psycopg"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
CHANGING = (RECORD, "scores.json")
"""Files of a finished run that may be written again; the others never change."""
MOST_BYTES, MOST_FILES = 1 << 33, 10_000  # of a run
MOST_RUNS = 1_000_000
LIST_S = 600.0  # how long a list of runs or files may take
_ATOMIC = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}
"""Storage that writes a file whole or not at all; elsewhere a file is written, then renamed."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The location of a store: its index, the local folder of its runs, and shared storage."""

    url: str
    root: Path  # paths of runs in the index are relative to this folder
    remote: str | None = None

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def is_shared(self) -> bool:
        """Whether machines that cannot see this folder use the same index."""
        return not self.url.startswith("sqlite")

    @property
    def index_folder(self) -> Path | None:
        """The folder of an index that is a file."""
        return None if self.is_shared else Path(self.url.removeprefix("sqlite:///")).parent


def is_url(text: str) -> bool:
    return _scheme(text) is not None


def _scheme(text: str) -> str | None:
    found = _SCHEME.match(text)
    return found[1].lower() if found else None


def place_from_text(store: str, *, runs: str | None = None, home: Path | None = None) -> Place:
    """Parse ``--store`` and the setting ``runs``; ``home`` is the folder for local files.

    A store is a folder, ``file:///folder``, ``sqlite:///file`` or ``postgresql://user@host/db``.
    Runs are next to the index, or in the folder or at the fsspec URL that ``runs`` names.
    """
    for url in filter(None, (store, runs)):
        remember_secrets(url)
    index_folder: Path | None = None
    if _scheme(store) in ("postgresql", "postgres", DRIVER):
        url = f"{DRIVER}://{store.partition('://')[2]}"
    else:
        file = _sqlite_path(store) if _scheme(store) == "sqlite" else _folder(store)
        if file is None:
            facts = {"possible": "DIR, sqlite:///FILE, postgresql://USER@HOST/DATABASE"}
            fix = "put the index there; run directories can be elsewhere: runs = 's3://bucket/path'"
            raise UsageError(f"{mask(store)} cannot be used as a store", facts=facts, fix=fix)
        if _scheme(store) != "sqlite" or not (file.suffix or file.is_file()):
            file = file / "index.sqlite"
        url, index_folder = f"sqlite:///{file.absolute()}", file.absolute().parent
    folder = _folder(runs) if runs is not None else index_folder
    if folder is not None:
        return Place(url=url, root=folder.absolute())
    local = index_folder if home is None else home
    if local is None:
        message = "this store needs a folder for run directories"
        raise UsageError(message, fix="set runs in trtbench.toml")
    if runs is None:
        return Place(url=url, root=local.absolute())
    remote = runs.rstrip("/")
    name = hashlib.sha256(remote.encode()).hexdigest()[:16]
    return Place(url=url, root=local.absolute() / "remote" / name, remote=remote)


def address_from_text(text: str) -> str:
    """Return the address of a store with an absolute path, valid from every folder."""
    if _scheme(text) == "sqlite":
        return f"sqlite:///{_sqlite_path(text).absolute()}"
    return text if is_url(text) else str(expand_home(text).absolute())


def _sqlite_path(store: str) -> Path:
    path = store.partition("://")[2].partition("?")[0]
    if not path.startswith("/") or len(path) < 2:
        fix = "sqlite:///relative/file or sqlite:////absolute/file"
        raise UsageError(f"{store} has no file name", fix=fix)
    file = Path(unquote(path[1:]))
    return file.resolve() if file.is_symlink() and not is_planted(file) else file


def _folder(text: str) -> Path | None:
    """Return the folder of a path or a ``file://`` URL; ``None`` for other URLs."""
    if not is_url(text):
        return expand_home(text)
    if _scheme(text) not in ("file", "local"):
        return None
    rest = text.partition("://")[2]
    user, _, behind = rest.rpartition("@")
    if ":" in user and not rest.startswith("/"):  # a user's password may hold any character
        rest = behind
    return Path(unquote(f"/{rest.partition('/')[2]}"))


class RemoteRuns:
    """The run directories at one URL, and a local folder with copies of some of them."""

    def __init__(self, url: str, *, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._pending = folder.parent / "pending"
        """Has one empty file for each run that may not have been sent completely."""
        self._scheme = url.partition("://")[0]
        try:
            files, root = importlib.import_module("fsspec").core.url_to_fs(url)
        except ImportError as problem:
            message = f"runs at {mask(url)} need a library that is not installed"
            facts = {"reason": problem}  # fsspec names the one for this kind of URL
            raise UnavailableError(
                message, facts=facts, fix="pip install 'trtbench[remote]'"
            ) from None
        except Exception as problem:
            message = f"runs cannot be kept at {mask(url)}"
            raise StoreError(message, facts={"reason": problem}) from None
        self._files: AbstractFileSystem = files
        self._root = str(root).rstrip("/")
        # Servers send lists in parts, and one could go on for ever; local storage cannot.
        self._patience = {"timeout": LIST_S} if files.async_impl else {}

    def mark_pending(self, run_id: str) -> None:
        """Note that a run will have to be sent once it is complete."""
        self._pending.mkdir(parents=True, exist_ok=True)
        (self._pending / run_id).touch()

    def unmark_pending(self, run_id: str) -> None:
        (self._pending / run_id).unlink(missing_ok=True)

    def pending(self) -> list[str]:
        """Return the complete local runs that may not have been sent completely."""
        marks = sorted(self._pending.iterdir()) if self._pending.is_dir() else []
        return [mark.name for mark in marks if (self.folder / mark.name / RECORD).is_file()]

    def send(self, run_id: str, *, changes_only: bool = False) -> None:
        """Send a complete run, or only files that are new or may have changed; the record last."""
        here, what = self.folder / run_id, f"change of run {run_id}" if changes_only else None
        with self._storage_errors(f"the {what or f'run {run_id}'} could not be sent", here=here):
            known = set(self._listing(run_id)) - set(CHANGING) if changes_only else set()
            for name in sorted(own_files(here), key=lambda name: name == RECORD):
                if name not in known:
                    self._put(here / name, f"{self._root}/{run_id}/{name}")
        if not changes_only:
            self.unmark_pending(run_id)

    def fetch(self, run_id: str) -> Path:
        """Copy the files of a run that are missing here; returns its local directory."""
        here = self.folder / run_id
        if (self._pending / run_id).is_file() and here.is_dir():
            return here
        with self._storage_errors(f"the run {run_id} could not be fetched"):
            listed = self._listing(run_id)
            if RECORD in listed and here.is_dir():
                self._fill(here, run_id, listed)
            elif RECORD in listed:
                # If another process creates the directory first, its copy is as good.
                with contextlib.suppress(StoreError), partial_directory(here) as folder:
                    self._fill(folder, run_id, listed)
        return here

    def ids(self) -> Iterator[str]:
        """Yield the ids of the complete runs on the storage."""
        with self._storage_errors("the runs could not be listed"):
            self._files.invalidate_cache(self._root)
            found = self._files.glob(f"{self._root}/*/{RECORD}", **self._patience)
            self._check_count(found, MOST_RUNS)
        yield from filter(_is_name, (str(path).rsplit("/", 2)[-2] for path in sorted(found)))

    def remove(self, run_id: str) -> None:
        """Delete a run and its local copy; its record first, which hides the run at once."""
        there = f"{self._root}/{run_id}"
        with self._storage_errors(f"the run {run_id} could not be removed"):
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(f"{there}/{RECORD}")
            with contextlib.suppress(FileNotFoundError):
                self._files.rm(there, recursive=True)
        self.unmark_pending(run_id)
        shutil.rmtree(self.folder / run_id, ignore_errors=True)

    def _fill(self, folder: Path, run_id: str, listed: dict[str, int]) -> None:
        if listed[RECORD] > MOST_RECORD_BYTES or sum(listed.values()) > MOST_BYTES:
            raise InputError(f"the run {run_id} is larger than a run can be")
        for name, size in listed.items():
            target = inside(folder, name, what="file", where=f"the run {run_id}")
            if target.is_file() and target.stat().st_size == size and name not in CHANGING:
                continue
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(3)}")
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(f"{self._root}/{run_id}/{name}", str(temporary))
                temporary.replace(target)
            except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
                raise InputError(f"files of the run {run_id} cannot be fetched") from None
            finally:
                with contextlib.suppress(OSError):  # not there, or below another file
                    temporary.unlink()

    def _listing(self, run_id: str) -> dict[str, int]:
        there = f"{self._root}/{run_id}"
        self._files.invalidate_cache(there)
        try:
            found = self._files.find(there, detail=True, **self._patience)
        except FileNotFoundError:
            return {}
        self._check_count(found, MOST_FILES)
        prefix = there.strip("/") + "/"
        names = {str(path).strip("/").removeprefix(prefix): each for path, each in found.items()}
        return {name: int(each["size"]) for name, each in names.items() if _is_name(name)}

    def _check_count(self, found: Sized, most: int) -> None:
        if len(found) > most:
            raise InputError(f"{mask(self.url)} lists more than {most} names")

    def _put(self, source: Path, target: str) -> None:
        parent, _, name = target.rpartition("/")
        self._files.makedirs(parent, exist_ok=True)
        if self._scheme in _ATOMIC:
            self._files.put_file(str(source), target)
            return
        temporary = f"{parent}/.{name}.{secrets.token_hex(3)}"
        self._files.put_file(str(source), temporary)
        self._files.mv(temporary, target)

    @contextlib.contextmanager
    def _storage_errors(self, what: str, *, here: Path | None = None) -> Iterator[None]:
        """Raise errors of fsspec and the libraries below it as ``StoreError``."""
        try:
            yield
        except (StoreError, InputError):
            raise
        except Exception as problem:  # each storage has its own exceptions
            reason = f"{type(problem).__name__}: {str(problem) or 'no end of the answer in sight'}"
            facts = {"storage": mask(self.url), "reason": reason}
            if here is not None:
                facts["kept in"] = str(here)
            fix = "to send it later: trtbench runs reindex" if here else None
            raise StoreError(what, facts=facts, fix=fix) from None


def _is_name(name: str) -> bool:
    """Return whether a name from the storage stays in its folder, and is not a hidden file."""
    try:
        return not str(check_name(name)).startswith(".")
    except InputError:
        return False
