"""Arrays with one row per item, in files of bounded size: written as they come, read by rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.errors import InputError, write_error

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]

CHUNK_BYTES = 2**26
"""A file ends at about this size: what a reader holds of each side at a time."""

_MARK = "a/"
"""Before every name: numpy keeps some names for itself."""
_NAME = re.compile(r"(?P<stem>.+)-(?P<start>\d+)-(?P<stop>\d+)\.npz")


class ChunkWriter:
    """Collects rows and writes them out when there are enough."""

    def __init__(self, folder: Path, *, stem: str = "outputs", limit: int = CHUNK_BYTES) -> None:
        self._folder, self._stem, self._limit = folder, stem, limit
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
        path = self._folder / f"{self._stem}-{self._start:09d}-{self._stop:09d}.npz"
        joined = {_MARK + name: self._join(name) for name in self._parts[0]}
        try:
            np.savez(path, **joined)  # type: ignore[arg-type]
        except OSError as problem:
            raise write_error(path, problem) from None
        self._parts, self._start, self._bytes = [], self._stop, 0

    def _join(self, name: str) -> Array:
        parts = [part[name] for part in self._parts]
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1:
            raise InputError(
                f"the output {name!r} has another shape for every input",
                facts={"shapes": ", ".join("x".join(map(str, s)) for s in sorted(shapes))},
                fix="compare a model without the part whose output depends on the data (NMS)",
            )
        return np.concatenate(parts)


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
        """How many items there are rows of."""
        return self._files[-1][1] if self._files else 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Give every file's arrays with the number of its first item."""
        for start, _, path in self._files:
            yield start, self._load(path)

    def rows(self, start: int, stop: int) -> dict[str, Array]:
        """Give the rows of items ``start`` to ``stop``."""
        parts = []
        for low, high, path in self._files:
            if high > start and low < stop:
                held = self._load(path)
                cut = slice(max(start, low) - low, min(stop, high) - low)
                parts.append({name: array[cut] for name, array in held.items()})
        if not parts:
            return {}
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def whole(self) -> dict[str, Array]:
        """Give everything at once; for arrays known to be small."""
        parts = [arrays for _, arrays in self]
        if not parts:
            return {}
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _load(self, path: Path) -> dict[str, Array]:
        if path != self._at:
            with np.load(path, allow_pickle=False) as archive:
                self._held = {n.removeprefix(_MARK): archive[n] for n in archive.files}
            self._at = path
        return self._held
