"""Arrays with one row per item, in files of bounded size: written as they come, read by rows.

Where items have shapes of their own, as behind NonZero or NMS, rows are an array of arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from trtbench.domain.arrays import Array, Arrays
from trtbench.errors import writing

CHUNK_BYTES = 2**26
"""A file ends at about this size: what a reader holds of each side at a time."""

_MARK = "a/"
"""Before every name: numpy keeps some names for itself."""
_FLAT, _SHAPES = "f/", "s/"
"""Before the names of items with shapes of their own: all values in a row, and the shapes."""
_NAME = re.compile(r"(?P<stem>.+)-(?P<start>\d+)-(?P<stop>\d+)\.npz")


class ChunkWriter:
    """Collects rows and writes them out when there are enough."""

    def __init__(self, folder: Path, *, limit: int = CHUNK_BYTES) -> None:
        self._folder, self._limit = folder, limit
        self._parts: list[Arrays] = []
        self._start = self._stop = self._bytes = 0

    def add(self, arrays: Arrays, *, items: int) -> None:
        """Take the rows of so many items."""
        self._parts.append(arrays)
        self._stop += items
        self._bytes += sum(array.nbytes for array in arrays.values())
        if self._bytes >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Write what has been collected."""
        if not self._parts:
            return
        path = self._folder / f"outputs-{self._start:09d}-{self._stop:09d}.npz"
        joined: dict[str, Array] = {}
        for name in self._parts[0]:
            if all(name in part for part in self._parts):
                joined |= _stored(name, joined_rows([part[name] for part in self._parts]))
        with writing(path):
            np.savez(path, **joined)  # type: ignore[arg-type]
        self._parts, self._start, self._bytes = [], self._stop, 0


class Chunks:
    """The files of one writer; a few are in memory at a time."""

    def __init__(self, folder: Path, *, stem: str = "outputs") -> None:
        found = [
            (int(match["start"]), int(match["stop"]), path)
            for path in folder.glob(f"{stem}-*.npz")
            if (match := _NAME.fullmatch(path.name)) and match["stem"] == stem
        ]
        self._files = sorted(found)
        self._at: Path | None = None
        self._held: dict[str, Array] = {}

    def __len__(self) -> int:
        """Tell how many items there are rows of."""
        return self._files[-1][1] if self._files else 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Read every file's arrays with the number of its first item."""
        for start, _, path in self._files:
            yield start, self._load(path)

    def rows(self, start: int, stop: int) -> dict[str, Array]:
        """Collect the rows of items ``start`` to ``stop``."""
        parts = []
        for low, high, path in self._files:
            if high > start and low < stop:
                held = self._load(path)
                cut = slice(max(start, low) - low, min(stop, high) - low)
                parts.append({name: array[cut] for name, array in held.items()})
        return _joined(parts)

    def whole(self) -> dict[str, Array]:
        """Read everything at once; for arrays known to be small."""
        return _joined([arrays for _, arrays in self])

    def _load(self, path: Path) -> dict[str, Array]:
        if path != self._at:
            with np.load(path, allow_pickle=False) as archive:
                self._held = _restored({name: archive[name] for name in archive.files})
            self._at = path
        return self._held


def joined_rows(parts: Sequence[Array]) -> Array:
    """Put rows below each other; an array of arrays when items have shapes of their own."""
    if len({(part.shape[1:], part.dtype == object) for part in parts}) == 1:
        return np.concatenate(parts)
    return _array_of_arrays([row for part in parts for row in part])


def _joined(parts: Sequence[Arrays]) -> dict[str, Array]:
    names = [name for name in (parts[0] if parts else ()) if all(name in part for part in parts)]
    return {name: joined_rows([part[name] for part in parts]) for name in names}


def _stored(name: str, rows: Array) -> dict[str, Array]:
    """Tell what is written of rows: themselves, or the values and the shapes of every item."""
    if rows.dtype != object:
        return {_MARK + name: rows}
    items = [np.asarray(row) for row in rows]
    most = max(item.ndim for item in items)
    shapes = [(item.ndim, *item.shape, *[0] * (most - item.ndim)) for item in items]
    flat = np.concatenate([item.reshape(-1) for item in items])
    return {_FLAT + name: flat, _SHAPES + name: np.array(shapes, np.int64)}


def _restored(stored: Mapping[str, Array]) -> dict[str, Array]:
    found = {}
    for mark, array in stored.items():
        name = mark[len(_MARK) :]
        if mark.startswith(_MARK):
            found[name] = array
        elif mark.startswith(_FLAT):
            shapes = [tuple(row[1 : 1 + row[0]]) for row in stored[_SHAPES + name]]
            ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
            values = np.split(array, ends[:-1])
            rows = [v.reshape(shape) for v, shape in zip(values, shapes, strict=True)]
            found[name] = _array_of_arrays(rows)
    return found


def _array_of_arrays(rows: Sequence[Array]) -> Array:
    # numpy would make one array of those that happen to be of equal shapes.
    made = np.empty(len(rows), object)
    for place, row in enumerate(rows):
        made[place] = row
    return made
