"""Arrays with labels: pictures in an ``.npz``, or skeleton sequences (C, T, V, M) for ST-GCN.

An item is fed as it is. Sequences that are too long or hold too many people are cut, shorter ones
filled with zeros, as such networks are trained.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError
from trtbench.host.arrays import refuse_missing
from trtbench.tasks._contract import Arrays, Tensors

LABELS = ("labels", "label", "targets", "y")
SEQUENCE = 5
"""Dimensions of (N, C, T, V, M)."""


class LabelledArrays:
    """The rows of an array, each with the number of its class."""

    def __init__(
        self, path: Path, tensors: Tensors, *, labels: str | None, unlabelled: bool = False
    ) -> None:
        self._tensor = _only(tensors)
        self.values, found = _read(path, self._tensor)
        if labels is not None:
            found = read_labels(Path(labels))
        if found is None and not unlabelled:
            raise InputError(
                f"{path.name} has no labels",
                facts={"looked for": ", ".join(LABELS)},
                fix="np.savez(file, images=..., labels=...), or --labels labels.npy",
            )
        if found is not None and len(found) != len(self.values):
            raise InputError(
                "there are not as many labels as items",
                facts={"items": len(self.values), "labels": len(found)},
            )
        self.labels = None if found is None else found.reshape(-1).astype(np.int64)
        self.names = tuple(f"{path.name}[{index}]" for index in range(len(self.values)))
        self.notes: tuple[str, ...] = ()
        self._check()

    def load(self, index: int) -> Any:
        return self.values[index]

    def prepare(self, loaded: Any) -> Arrays:
        return {self._tensor.name: self._fitted(np.asarray(loaded))}

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """One item as people can look at it, where it is an image."""
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

    def _check(self) -> None:
        """Refuse items of the wrong rank; say when sequences are cut or filled."""
        wanted, have = self._tensor.shape[1:], self.values.shape[1:]
        if self._is_images() and len(have) + 1 == len(wanted):
            have = (1, *have)
        facts = {"input": f"{self._tensor.name} {wanted}", "items": str(have)}
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

    def _is_images(self) -> bool:
        return len(self._tensor.shape) == 4

    def _fitted(self, item: NDArray[Any]) -> NDArray[Any]:
        wanted = self._tensor.shape[1:]
        if self._is_images() and item.ndim + 1 == len(wanted):
            item = item[None]
        if item.dtype == np.uint8 and self._tensor.dtype != "uint8":
            item = item.astype(np.float32) / np.float32(255)
        if len(wanted) + 1 == SEQUENCE:
            item = _sized(item, wanted)
        return np.asarray(item, np.float32) if item.dtype.kind == "f" else item


def read_labels(path: Path) -> NDArray[Any]:
    """Numbers of classes from ``.npy``, or from text with one per line."""
    refuse_missing(path)
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        lines = path.read_text("utf-8").split()
        return np.array([int(line) for line in lines], np.int64)
    except (ValueError, OSError) as problem:
        raise InputError(f"{path} holds no labels", facts={"reason": problem}) from None


def _read(path: Path, tensor: TensorSpec) -> tuple[NDArray[Any], NDArray[Any] | None]:
    refuse_missing(path)
    try:
        loaded = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
    except (ValueError, OSError, EOFError) as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem}) from None
    if isinstance(loaded, np.ndarray):
        return loaded, None
    with loaded as archive:
        names = list(archive.files)
        labels = next((archive[name] for name in LABELS if name in names), None)
        rest = [name for name in names if name not in LABELS]
        chosen = tensor.name if tensor.name in rest else None
        if chosen is None:
            usual = [name for name in ("images", "data", "x") if name in rest]
            chosen = usual[0] if usual else (rest[0] if len(rest) == 1 else None)
        if chosen is None:
            raise InputError(
                f"{path.name} has no array for the input {tensor.name!r}",
                facts={"arrays": ", ".join(names)},
                fix="name it images",
            )
        return archive[chosen], labels


def _only(tensors: Tensors) -> TensorSpec:
    if len(tensors) != 1:
        raise UsageError(
            "classification needs a model with one input",
            facts={"inputs": ", ".join(tensor.name for tensor in tensors)},
        )
    return tensors[0]


def _sized(item: NDArray[Any], wanted: tuple[Any, ...]) -> NDArray[Any]:
    """Cut frames and people to the network, or fill them with zeros."""
    for axis in (1, 3):
        want = wanted[axis]
        if not isinstance(want, int) or want <= 0 or item.shape[axis] == want:
            continue
        item = item.take(range(min(want, item.shape[axis])), axis=axis)
        gap = [(0, want - item.shape[axis] if place == axis else 0) for place in range(item.ndim)]
        item = np.pad(item, gap)
    return item
