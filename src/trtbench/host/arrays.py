"""Reads and writes files of arrays: input tensors, and outputs with one row per item.

Inputs are read from ``.npz`` or ``.npy``. Outputs go to several files of bounded size, which are
read by rows; if items have different shapes, as after NonZero, the rows are an array of arrays.
"""

import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, InputTypeError, near_miss, writing
from trtbench.core.safety import MAX_UNPACKED_BYTES, check_file
from trtbench.core.samples import AnyArray, Array, Arrays
from trtbench.core.spec import TensorSpec
from trtbench.core.units import text_from_shape

DAMAGE = (
    ValueError, OSError, EOFError, SyntaxError, KeyError, NotImplementedError, RuntimeError,
    MemoryError, OverflowError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Exceptions of numpy and zipfile on damaged files."""


LABELS = ("labels", "label", "targets", "y")  # arrays of true classes beside the inputs


def arrays_by_input(
    source: Path, tensors: Sequence[TensorSpec]
) -> tuple[dict[str, AnyArray], AnyArray | None]:
    """Return an array for every input by its name, and the labels if the file has some.

    A single input takes the only array that is not the labels, or the one with a usual name.
    """
    check_inputs_exist(source)
    only = len(tensors) == 1
    if source.suffix == ".npy" and only:
        return {tensors[0].name: read_npy(source)}, None
    names = archive_names(source) if source.suffix != ".npy" else []
    rest = [name for name in names if name not in LABELS]
    usual = [name for name in ("images", "data", "x") if name in rest] or rest
    stored = {}
    for name in (tensor.name for tensor in tensors):
        if name not in names and not (only and (usual != rest or len(rest) == 1)):
            raise InputError(
                f"{source.name} has no array for the input {name!r}",
                facts={"inputs": ", ".join(t.name for t in tensors), "arrays": ", ".join(names)},
                fix="np.savez('inputs.npz', **arrays), with arrays by input name",
            )
        stored[name] = name if name in names else usual[0]
    labels = next((name for name in LABELS if name in names), None)
    found = read_archive(source, wanted={*stored.values(), labels or ""})
    return {name: found[own] for name, own in stored.items()}, found[labels] if labels else None


def read_arrays(source: Path, tensors: Sequence[TensorSpec]) -> dict[str, NDArray[np.generic]]:
    """Return one array per input, checked against its type and rank."""
    stored, _ = arrays_by_input(source, tensors)
    arrays = {n: np.array(x) if isinstance(x, np.memmap) else x for n, x in stored.items()}
    check_arrays(arrays, tensors, source)
    return arrays


def check_arrays(arrays: Arrays, tensors: Sequence[TensorSpec], source: Path) -> None:
    """Raise if an array does not have the type and shape of its input."""
    for tensor in tensors:
        array, wanted, what = arrays[tensor.name], tensor.shape, f"the input {tensor.name!r} has"
        facts = {
            "input": f"{tensor.name}: {tensor.dtype} {text_from_shape(wanted)}",
            "given": f"{array.dtype} {text_from_shape(array.shape)}",
            "from": str(source),
        }
        is_text = tensor.dtype == "str" and array.dtype.kind == "U"
        if str(array.dtype) != tensor.dtype and not is_text:
            fix = f"save it as {tensor.dtype}: array.astype('{tensor.dtype}')"
            raise InputTypeError(f"{what} the wrong type", facts=facts, fix=fix)
        fix = f"give arrays of shape {text_from_shape(wanted)}, or let --task prepare images"
        if len(array.shape) != len(wanted):
            raise InputError(f"{what} the wrong rank", facts=facts, fix=fix)
        for have, want in zip(array.shape, wanted, strict=True):
            if isinstance(want, int) and want >= 0 and have != want:
                raise InputError(f"{what} the wrong shape", facts=facts, fix=fix)


def read_archive(
    source: Path, *, wanted: Container[str] | None = None, most: int = MAX_UNPACKED_BYTES
) -> dict[str, AnyArray]:
    """Return the arrays of an ``.npz``; raises if a header claims more data than the file has.

    numpy itself would allocate whatever memory a header claims. Pickles are never loaded.
    """
    found: dict[str, AnyArray] = {}
    with _opened(source) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > most:
            raise ValueError(f"it unpacks to more than {most} bytes")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if wanted is None or name in wanted:
                with archive.open(member) as file:
                    found[name] = _read_array(file, member.file_size)
    return found


def archive_names(source: Path) -> list[str]:
    with _opened(source) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _opened(source: Path) -> Iterator[zipfile.ZipFile]:
    check_file(source)
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    except zipfile.BadZipFile:
        fix = "np.savez('inputs.npz', name=array)"
        raise InputError(f"{source} is damaged, or not an .npz file", fix=fix) from None
    except DAMAGE as problem:
        raise InputError(f"{source} is damaged", facts={"reason": problem}) from None


def _read_array(file: IO[bytes], size: int) -> AnyArray:
    known = {1: np.lib.format.read_array_header_1_0}
    major = np.lib.format.read_magic(file)[0]
    shape, by_columns, dtype = known.get(major, np.lib.format.read_array_header_2_0)(file)
    if dtype.hasobject or any(dim < 0 for dim in shape):
        raise ValueError("it does not contain plain numbers")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise ValueError("an array claims to be larger than the file")
    data = bytearray(count * dtype.itemsize)
    if file.readinto(data) != len(data):  # type: ignore[attr-defined]
        raise ValueError("an array is cut short")
    return np.frombuffer(data, dtype, count).reshape(shape, order="F" if by_columns else "C")


def check_inputs_exist(source: Path, *, folders: bool = False) -> None:
    """Raise if the inputs file does not exist, and suggest a similar name."""
    if source.is_dir() and folders:
        return
    if source.is_dir():
        raise InputError(f"{source} is a folder", fix="give an .npz or .npy file of arrays")
    if source.exists():
        check_file(source)
        return
    folder = source.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    guess = near_miss(source.name, names)
    fix = f"did you mean {folder / guess}?" if guess else "give an .npz or .npy file"
    raise InputError(f"there are no inputs at {source}", fix=fix)


def read_npy(source: Path) -> NDArray[np.generic]:
    """Return the array of an ``.npy``, mapped into memory."""
    check_file(source)
    try:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
    except DAMAGE as problem:
        raise InputError(f"{source} cannot be read", facts={"reason": problem}) from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{source} does not contain one array", fix="name it .npz")
    return array


CHUNK_BYTES = 2**26  # about the size of a file, and thus of what a reader has in memory

_MARK = "a/"  # prefix of every name, because numpy reserves some names
_FLAT, _SHAPES = "f/", "s/"
"""Prefixes for items of different shapes: one array of all values, one of the shapes."""


class ChunkWriter:
    """Collects rows and writes a file whenever there are enough."""

    def __init__(self, folder: Path, *, limit: int = CHUNK_BYTES) -> None:
        self._folder, self._limit = folder, limit
        self._parts: list[Arrays] = []
        self._start = self._stop = self._bytes = 0

    def add(self, arrays: Arrays, *, items: int) -> None:
        self._parts.append(arrays)
        self._stop += items
        self._bytes += sum(array.nbytes for array in arrays.values())
        if self._bytes >= self._limit:
            self.flush()

    def flush(self) -> None:
        if not self._parts:
            return
        path = self._folder / f"outputs-{self._start:09d}-{self._stop:09d}.npz"
        joined: dict[str, Array] = {}
        for name in self._parts[0]:
            if all(name in part for part in self._parts):
                joined |= _savable(name, concatenate_rows([part[name] for part in self._parts]))
        with writing(path):
            np.savez(path, **joined)  # type: ignore[arg-type]
        self._parts, self._start, self._bytes = [], self._stop, 0


class Chunks:
    """Reads the files of a ``ChunkWriter``, one in memory at a time."""

    def __init__(self, folder: Path) -> None:
        paths = folder.glob("outputs-*.npz")
        matches = ((re.fullmatch(r"outputs-(\d+)-(\d+)\.npz", path.name), path) for path in paths)
        self._files = sorted((int(m[1]), int(m[2]), path) for m, path in matches if m)
        self._at: Path | None = None
        self._held: dict[str, Array] = {}

    def __len__(self) -> int:
        return self._files[-1][1] if self._files else 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield the number of the first item and the arrays of every file."""
        for start, _, path in self._files:
            yield start, self._load(path)

    def rows(self, start: int, stop: int) -> dict[str, Array]:
        parts = []
        for low, high, path in self._files:
            if high > start and low < stop:
                held = self._load(path)
                cut = slice(max(start, low) - low, min(stop, high) - low)
                parts.append({name: array[cut] for name, array in held.items()})
        names = [name for name in (parts[0] if parts else ()) if all(name in p for p in parts)]
        return {name: concatenate_rows([part[name] for part in parts]) for name in names}

    def whole(self) -> dict[str, Array]:
        """Return the rows of all items; for arrays known to be small."""
        return self.rows(0, len(self))

    def _load(self, path: Path) -> dict[str, Array]:
        if path != self._at:
            with np.load(path, allow_pickle=False) as archive:
                stored = {name: archive[name] for name in archive.files}
            self._at, self._held = path, {}
            for mark, array in stored.items():
                name = mark[len(_MARK) :]
                if mark.startswith(_MARK):
                    self._held[name] = array
                elif mark.startswith(_FLAT):
                    shapes = [tuple(row[1 : 1 + row[0]]) for row in stored[_SHAPES + name]]
                    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
                    values = zip(np.split(array, ends[:-1]), shapes, strict=True)
                    self._held[name] = _array_of_arrays([v.reshape(s) for v, s in values])
        return self._held


def concatenate_rows(parts: Sequence[Array]) -> Array:
    """Concatenate rows; returns an array of arrays if the items have different shapes."""
    if len({(part.shape[1:], part.dtype == object) for part in parts}) == 1:
        return np.concatenate(parts)
    return _array_of_arrays([row for part in parts for row in part])


def _savable(name: str, rows: Array) -> dict[str, Array]:
    """Return the arrays to save for rows: the rows, or all values and the shapes of the items."""
    if rows.dtype != object:
        return {_MARK + name: rows}
    items = [np.asarray(row) for row in rows]
    most = max(item.ndim for item in items)
    shapes = [(item.ndim, *item.shape, *[0] * (most - item.ndim)) for item in items]
    flat = np.concatenate([item.reshape(-1) for item in items])
    return {_FLAT + name: flat, _SHAPES + name: np.array(shapes, np.int64)}


def _array_of_arrays(rows: Sequence[Array]) -> Array:
    # Assigned one by one: numpy would join rows that happen to have equal shapes.
    result = np.empty(len(rows), object)
    for index, row in enumerate(rows):
        result[index] = row
    return result
