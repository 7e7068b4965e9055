"""Reads input tensors from ``.npz``, ``.npy`` or a folder of raw binaries."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Container, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from trtbench.boundary import check_archive, check_file
from trtbench.boundary.files import MOST_UNPACKED_BYTES
from trtbench.domain.arrays import AnyArray
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, InputTypeError, near_miss
from trtbench.units import text_from_shape

RAW_SUFFIXES = (".bin", ".raw", ".dat")

DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    SyntaxError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    OverflowError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise on files that are not whole."""


def read_arrays(source: Path, tensors: Sequence[TensorSpec]) -> dict[str, NDArray[np.generic]]:
    """Read one array per input, checked against its type and rank."""
    refuse_missing(source)
    if source.is_dir():
        arrays = {tensor.name: _raw(source, tensor) for tensor in tensors}
    elif source.suffix == ".npy":
        arrays = {_only(tensors, source).name: np.array(one_array(source))}
    else:
        arrays = _npz(source, tensors)
    for tensor in tensors:
        check_array(arrays[tensor.name], tensor, where=str(source))
    return arrays


def read_archive(
    source: Path, *, wanted: Container[str] | None = None, most: int = MOST_UNPACKED_BYTES
) -> dict[str, AnyArray]:
    """Read the arrays of an ``.npz``; one that says it is larger than it is is refused.

    numpy alone would set aside whatever memory the file asks for. Pickles are never loaded.
    """
    check_file(source)
    found: dict[str, AnyArray] = {}
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > most:
                raise ValueError(f"it unpacks to more than {most} bytes")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if wanted is None or name in wanted:
                    with archive.open(member) as file:
                        found[name] = _array(file, member.file_size)
    except DAMAGE as problem:
        raise InputError(f"{source} is damaged", facts={"reason": problem}) from None
    return found


def archive_names(source: Path) -> list[str]:
    """List the arrays of an ``.npz`` without reading them."""
    check_file(source)
    try:
        with zipfile.ZipFile(source) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except DAMAGE as problem:
        raise InputError(f"{source} is damaged", facts={"reason": problem}) from None


def _array(file: IO[bytes], size: int) -> AnyArray:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    shape, by_columns, dtype = (
        read(file) if version == (1, 0) else np.lib.format.read_array_header_2_0(file)
    )
    if dtype.hasobject or any(dim < 0 for dim in shape):
        raise ValueError("it holds no plain numbers")
    count = math.prod(shape)
    if count * dtype.itemsize > size:
        raise ValueError("an array says that it is larger than the file")
    data = bytearray(count * dtype.itemsize)
    if file.readinto(data) != len(data):  # type: ignore[attr-defined]
        raise ValueError("an array ends before its end")
    return np.frombuffer(data, dtype, count).reshape(shape, order="F" if by_columns else "C")


def refuse_missing(source: Path) -> None:
    """Refuse inputs that are not there, with the near miss."""
    if source.is_dir():
        return
    if source.exists():
        check_file(source)
        return
    folder = source.parent
    names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    guess = near_miss(source.name, names)
    raise InputError(
        f"there are no inputs at {source}",
        fix=f"did you mean {folder / guess}?" if guess else "give an .npz, an .npy or a folder",
    )


def check_array(array: NDArray[np.generic], tensor: TensorSpec, *, where: str) -> None:
    """Refuse an array whose type, rank or fixed dimensions are not the input's."""
    wanted = tensor.shape
    facts = {
        "input": f"{tensor.name}: {tensor.dtype} {text_from_shape(wanted)}",
        "given": f"{array.dtype} {text_from_shape(array.shape)}",
        "from": where,
    }
    is_text = tensor.dtype == "str" and array.dtype.kind == "U"
    if str(array.dtype) != tensor.dtype and not is_text:
        raise InputTypeError(
            f"the input {tensor.name!r} has the wrong type",
            facts=facts,
            fix=f"save it as {tensor.dtype}: array.astype('{tensor.dtype}')",
        )
    if len(array.shape) != len(wanted):
        raise InputError(f"the input {tensor.name!r} has the wrong rank", facts=facts)
    for have, want in zip(array.shape, wanted, strict=True):
        if isinstance(want, int) and want >= 0 and have != want:
            raise InputError(f"the input {tensor.name!r} has the wrong shape", facts=facts)


def _only(tensors: Sequence[TensorSpec], source: Path) -> TensorSpec:
    if len(tensors) != 1:
        raise InputError(
            "an .npy file holds one array, and the model has several inputs",
            facts={"inputs": ", ".join(tensor.name for tensor in tensors), "file": source},
            fix="np.savez('inputs.npz', **{name: array, ...})",
        )
    return tensors[0]


def one_array(source: Path) -> NDArray[np.generic]:
    """Read an ``.npy`` as far as it is used; never more than the file has."""
    check_file(source)
    try:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
    except DAMAGE as problem:
        raise InputError(f"{source} cannot be read", facts={"reason": problem}) from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{source} does not hold one array", fix="name it .npz")
    return array


def _npz(source: Path, tensors: Sequence[TensorSpec]) -> dict[str, NDArray[np.generic]]:
    refuse_no_archive(source)
    try:
        names = archive_names(source)
        for tensor in tensors:
            if tensor.name not in names:
                raise _missing(tensor.name, names, source)
        return read_archive(source, wanted={tensor.name for tensor in tensors})
    except DAMAGE as problem:
        raise InputError(f"{source} cannot be read", facts={"reason": problem}) from None


def refuse_no_archive(source: Path) -> None:
    """Say that an .npz is none: what numpy says then is about pickles."""
    packed = source.is_file() and zipfile.is_zipfile(source)
    if source.suffix == ".npz" and not packed:
        raise InputError(
            f"{source} is not an .npz file, or cut short", fix="np.savez('inputs.npz', name=array)"
        )
    if packed:  # numpy goes by the content, whatever the name
        check_archive(source)


def _missing(name: str, names: list[str], source: Path) -> InputError:
    guess = near_miss(name, names)
    return InputError(
        f"there is no array for the input {name!r}",
        facts={"file": source, "arrays": ", ".join(names) or "none"},
        fix=f"rename {guess!r} to {name!r}" if guess else f"add an array called {name!r}",
    )


def _raw(folder: Path, tensor: TensorSpec) -> NDArray[np.generic]:
    candidates = [folder / f"{tensor.name}{suffix}" for suffix in RAW_SUFFIXES]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        raise InputError(
            f"there is no file for the input {tensor.name!r}",
            facts={"folder": folder, "looked for": " ".join(each.name for each in candidates)},
        )
    item, dtype = tensor.shape[1:], _dtype(tensor)
    if not all(isinstance(dim, int) and dim >= 0 for dim in item):
        raise InputError(
            f"the shape of the input {tensor.name!r} must be known to read raw bytes",
            fix=f"--shape {tensor.name}:{text_from_shape(tensor.shape)} with numbers",
        )
    fixed = tuple(int(dim) for dim in item if isinstance(dim, int))
    have, size = path.stat().st_size, dtype.itemsize * math.prod(fixed)
    lead = tensor.shape[0] if tensor.shape else 1
    whole = isinstance(lead, int) and lead >= 0
    count = lead if isinstance(lead, int) and whole else have // size if size else 0
    if have != size * count:
        wanted = f"{size * count} ({tensor.dtype} {text_from_shape(tensor.shape)})"
        raise InputError(
            f"{path.name} has the wrong size",
            facts={"bytes": have, "expected": wanted if whole else f"a multiple of {size}"},
        )
    return np.fromfile(path, dtype).reshape((count, *fixed) if tensor.shape else ())


def _dtype(tensor: TensorSpec) -> np.dtype[np.generic]:
    """Find numpy's type of an input; some types of ONNX have none."""
    try:
        found = np.dtype(tensor.dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind in "OU":
        raise InputError(
            f"the input {tensor.name!r} cannot be read from raw bytes",
            facts={"type": tensor.dtype},
            fix="give it as .npz",
        )
    return found
