"""Where a store is, read from what the user wrote: a folder or a URL, and a place for runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trtbench.boundary import at_home, mask
from trtbench.errors import UsageError

INDEX = "index.sqlite"
DRIVER = "postgresql+psycopg"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_POSTGRES = ("postgresql", "postgres", DRIVER)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The parts of a store: its index, the folder of its runs here, and their place far away."""

    url: str
    """Of the index, as SQLAlchemy takes it."""
    root: Path
    """Paths of runs in the index are relative to this folder."""
    remote: str | None = None
    """Where run directories are shared, as fsspec takes it; ``None`` keeps them in the folder."""

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def index_folder(self) -> Path | None:
        """The folder of an index that is a file."""
        return None if self.is_shared else Path(self.url.removeprefix("sqlite:///")).parent

    @property
    def is_shared(self) -> bool:
        """Whether machines that do not see this folder write to the same index."""
        return not self.url.startswith("sqlite")


def is_url(text: str) -> bool:
    """Say whether a text is a URL and not the name of a folder."""
    return _SCHEME.match(text) is not None


def place_from_text(store: str, *, runs: str | None = None, home: Path | None = None) -> Place:
    """Read ``--store`` and the setting ``runs``; ``home`` is the folder for what stays here.

    A store is a folder, ``file:///folder``, ``sqlite:///file`` or ``postgresql://user@host/db``.
    Runs are beside the index, or in the folder or at the fsspec URL that ``runs`` names.
    """
    url, beside = _index(store)
    if runs is None:
        root = beside if beside is not None else _home(home)
        return Place(url=url, root=root)
    folder = _folder(runs)
    if folder is not None:
        return Place(url=url, root=folder.absolute())
    remote = runs.rstrip("/")
    local = hashlib.sha256(remote.encode()).hexdigest()[:16]
    own = beside if beside is not None and home is None else _home(home)
    return Place(url=url, root=own / "remote" / local, remote=remote)


def address_from_text(text: str) -> str:
    """Write a place so that it means the same from every folder."""
    if not is_url(text):
        return str(at_home(text).absolute())
    if _scheme(text) == "sqlite":
        return f"sqlite:///{_sqlite_path(text).absolute()}"
    return text


def without_password(url: str) -> str:
    """Write a URL so that it can be shown."""
    return mask(url)


def _index(store: str) -> tuple[str, Path | None]:
    """Find the URL of the index and, where it is a file, the folder around it."""
    scheme = _scheme(store)
    if scheme in _POSTGRES:
        return f"{DRIVER}://{store.partition('://')[2]}", None
    folder = _folder(store)
    if folder is None and scheme == "sqlite":
        folder = _sqlite_path(store)
        if folder.suffix or folder.is_file():
            return f"sqlite:///{folder.absolute()}", folder.parent.absolute()
    if folder is None:
        raise UsageError(
            f"{without_password(store)} is no place for a store",
            facts={"places": "DIR, sqlite:///FILE, postgresql://USER@HOST/DATABASE"},
            fix="keep the index in one of these; runs can be elsewhere: runs = 's3://bucket/path'",
        )
    folder = folder.absolute()
    return f"sqlite:///{folder / INDEX}", folder


def _sqlite_path(store: str) -> Path:
    path = store.partition("://")[2].partition("?")[0]
    if not path.startswith("/") or len(path) < 2:
        raise UsageError(
            f"{store} names no file", fix="sqlite:///relative/file or sqlite:////absolute/file"
        )
    return Path(unquote(path[1:]))


def _folder(text: str) -> Path | None:
    """Find the folder that a plain name or a ``file://`` URL stands for."""
    scheme = _scheme(text)
    if scheme is None:
        return at_home(text)
    if scheme in ("file", "local"):
        return Path(unquote(urlsplit(text).path))
    return None


def _scheme(text: str) -> str | None:
    found = _SCHEME.match(text)
    return found[1].lower() if found else None


def _home(home: Path | None) -> Path:
    if home is None:
        raise UsageError(
            "this store needs a place for run directories", fix="set runs in trtbench.toml"
        )
    return home.absolute()
