"""Arrays with labels: pictures in an ``.npz``, or skeleton sequences (C, T, V, M) for ST-GCN.

An item is fed as it is. Sequences that are too long or hold too many people are cut, shorter ones
filled with zeros, as such networks are trained.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.boundary import read_text
from trtbench.boundary.files import MOST_BYTES
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError
from trtbench.host.arrays import (
    DAMAGE,
    archive_names,
    one_array,
    read_archive,
    refuse_missing,
    refuse_no_archive,
)
from trtbench.tasks.contract import DataSource, Tensors

LABELS = ("labels", "label", "targets", "y")
SEQUENCE = 5
"""Dimensions of (N, C, T, V, M)."""


class LabelledArrays(DataSource):
    """The rows of an array, each with the number of its class."""

    def __init__(
        self, path: Path, tensors: Tensors, *, labels: str | None, unlabelled: bool = False
    ) -> None:
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._first = tensors[0]
        self._arrays, found = _read(path, tensors)
        self.values = self._arrays[self._first.name]
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            raise InputError("the arrays do not hold the same number of items", facts=counts)
        if labels is not None:
            found = read_labels(Path(labels))
        if found is None and not unlabelled:
            raise InputError(
                f"{path.name} has no labels",
                facts={"looked for": ", ".join(LABELS)},
                fix="np.savez(file, images=..., labels=...), or --labels labels.npy",
            )
        if found is not None and found.dtype.kind not in "iubf":
            raise InputError("labels are numbers of classes", facts={"type": found.dtype})
        if found is not None and found.size != len(self.values):
            raise InputError(
                "there are not as many labels as items",
                facts={"items": len(self.values), "labels": found.size},
            )
        self.labels = None if found is None else _whole(found.reshape(-1))
        self.names = tuple(f"{path.name}[{index}]" for index in range(len(self.values)))
        self.notes: tuple[str, ...] = ()
        for name, tensor in self._tensors.items():
            self._check(tensor, self._arrays[name].shape[1:])

    def load(self, index: int) -> LoadedItem:
        return {name: array[index] for name, array in self._arrays.items()}

    def prepare(self, loaded: LoadedItem) -> Arrays:
        return {n: _fitted(np.asarray(item), self._tensors[n]) for n, item in loaded.items()}

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """Show one item as people can look at it, where it is an image."""
        item = np.asarray(self.values[index])
        if item.ndim == 3 and item.shape[0] in (1, 3):
            item = item.transpose(1, 2, 0)
        if item.ndim == 2:
            item = item[:, :, None]
        if item.ndim != 3 or item.shape[2] not in (1, 3):
            return None
        if item.dtype != np.uint8:
            low, high = float(item.min()), float(item.max())
            item = (255 * (item - low) / ((high - low) or 1.0)).astype(np.uint8)
        return item

    def _check(self, tensor: TensorSpec, have: tuple[int, ...]) -> None:
        """Refuse items of the wrong rank; say when sequences are cut or filled."""
        wanted = tensor.shape[1:]
        if _is_images(tensor) and len(have) + 1 == len(wanted):
            have = (1, *have)
        facts = {"input": f"{tensor.name} {wanted}", "items": str(have)}
        if len(have) != len(wanted):
            raise InputError("the items do not have the rank of the input", facts=facts)
        differing = [
            axis
            for axis, (want, got) in enumerate(zip(wanted, have, strict=True))
            if isinstance(want, int) and want > 0 and want != got
        ]
        if not differing:
            return
        if len(wanted) + 1 != SEQUENCE or not set(differing) <= {1, 3}:
            raise InputError("the items do not have the shape of the input", facts=facts)
        names = {1: "frames", 3: "people"}
        for axis in differing:
            note = f"{names[axis]}: {have[axis]} in the data, {wanted[axis]} in the network"
            self.notes = (*self.notes, f"{note}; cut, or filled with zeros")


def _is_images(tensor: TensorSpec) -> bool:
    return len(tensor.shape) == 4


def _fitted(item: AnyArray, tensor: TensorSpec) -> AnyArray:
    wanted = tensor.shape[1:]
    if _is_images(tensor) and item.ndim + 1 == len(wanted):
        item = item[None]
    if item.dtype == np.uint8 and tensor.dtype.startswith(("float", "bfloat")):
        item = item.astype(np.float32) / np.float32(255)
    if len(wanted) + 1 == SEQUENCE:
        item = _sized(item, wanted)
    return np.asarray(item, np.float32) if item.dtype.kind == "f" else item


def read_labels(path: Path) -> AnyArray:
    """Read numbers of classes from ``.npy``, or from text with one per line."""
    refuse_missing(path)
    if path.suffix == ".npy":
        return one_array(path)
    try:
        lines = read_text(path, most=MOST_BYTES).split()
        return np.array([int(line) for line in lines], np.int64)
    except DAMAGE as problem:
        raise InputError(f"{path} holds no labels", facts={"reason": problem}) from None


def _read(path: Path, tensors: Tensors) -> tuple[dict[str, AnyArray], AnyArray | None]:
    """Read an array for every input, and the labels where they are in the same file."""
    refuse_missing(path)
    if path.suffix == ".npy":
        if len(tensors) > 1:
            raise InputError(
                f"{path.name} is one array, and the model has {len(tensors)} inputs",
                facts={"inputs": ", ".join(tensor.name for tensor in tensors)},
                fix="np.savez(file, labels=..., **arrays by the names of the inputs)",
            )
        return {tensors[0].name: _rows(one_array(path), path)}, None
    refuse_no_archive(path)
    names = archive_names(path)
    labels = next((name for name in LABELS if name in names), None)
    rest = [name for name in names if name not in LABELS]
    chosen = {tensor.name: _chosen(path, tensor, rest, tensors) for tensor in tensors}
    arrays = read_archive(path, wanted={*chosen.values(), *filter(None, [labels])})
    found = {name: _rows(arrays[own], path) for name, own in chosen.items()}
    return found, arrays[labels] if labels else None


def _whole(labels: AnyArray) -> NDArray[np.int64]:
    """Refuse fractions and NaN: cut to numbers, they would be other classes."""
    with np.errstate(invalid="ignore"):
        whole: NDArray[np.int64] = labels.astype(np.int64)
    odd = labels[whole != labels]
    if odd.size:
        raise InputError("labels are whole numbers of classes", facts={"one is": odd[0]})
    return whole


def _rows(array: AnyArray, path: Path) -> AnyArray:
    if array.ndim == 0:
        raise InputError(f"{path} holds a single number, not items")
    return array


def _chosen(path: Path, tensor: TensorSpec, rest: list[str], tensors: Tensors) -> str:
    """Find the array of an input: by its name, or the usual or only one for one input."""
    if tensor.name in rest:
        return tensor.name
    usual = [name for name in ("images", "data", "x") if name in rest] or rest
    if len(tensors) == 1 and (usual != rest or len(rest) == 1):
        return usual[0]
    raise InputError(
        f"{path.name} has no array for the input {tensor.name!r}",
        facts={"arrays": ", ".join(rest)},
        fix="name it images" if len(tensors) == 1 else f"name it {tensor.name}",
    )


def _sized(item: AnyArray, wanted: tuple[int | str | None, ...]) -> AnyArray:
    """Cut frames and people to the network, or fill them with zeros."""
    for axis in (1, 3):
        want = wanted[axis]
        if not isinstance(want, int) or want <= 0 or item.shape[axis] == want:
            continue
        item = item.take(range(min(want, item.shape[axis])), axis=axis)
        gap = [(0, want - item.shape[axis] if place == axis else 0) for place in range(item.ndim)]
        item = np.pad(item, gap)
    return item
