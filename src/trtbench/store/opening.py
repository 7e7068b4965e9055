"""Opens the index of a store whatever state it is in: damaged, missing, or not to be written."""

from __future__ import annotations

import os
import time
from pathlib import Path

from trtbench.errors import writing
from trtbench.host.locks import NoLocksError, try_lock
from trtbench.store.database import IN_MEMORY
from trtbench.store.entries import DamagedIndexError, ReadOnlyIndexError
from trtbench.store.index import Index
from trtbench.store.place import Place


def open_index(place: Place) -> tuple[Index, str | None]:
    """Open an index; says what happened to one that had to be replaced.

    A damaged file is put aside, never deleted. A store that cannot be written and has no index
    gets one in memory, so that it can be read.
    """
    try:
        return _opened(place), None
    except DamagedIndexError:
        return _replaced(place)
    except ReadOnlyIndexError:
        if place.index_folder is None or _file(place).exists():
            raise
        return Index(IN_MEMORY), "the store cannot be written; its runs are listed from its folders"


def _opened(place: Place) -> Index:
    file = None if place.index_folder is None else _file(place)
    if file is not None and file.exists() and not (file.is_file() or file.is_dir()):
        raise DamagedIndexError(f"{file} is no file")
    index = Index(place.url)
    index.demand_sound()
    return index


def _replaced(place: Place) -> tuple[Index, str | None]:
    """Put a damaged file aside, one process at a time, and begin a new index."""
    file = _file(place)
    with writing(file):
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            _wait(descriptor)
            try:
                return _opened(place), None  # another process has replaced it meanwhile
            except DamagedIndexError:
                aside = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
                file.rename(aside)
            return _opened(place), f"the index was damaged; it is kept as {aside.name}"
        finally:
            os.close(descriptor)


def _wait(descriptor: int) -> None:
    try:
        try_lock(descriptor, block=True)
    except NoLocksError:
        return


def _file(place: Place) -> Path:
    return Path(place.url.removeprefix("sqlite:///"))
