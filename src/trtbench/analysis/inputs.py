"""Input tensors drawn at random, seeded, with values their type and name suggest."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.open_shapes import batch_place, is_open
from trtbench.domain.labels import may_be_colours
from trtbench.domain.spec import NO_TENSORS, TensorSpec, batch_from_shapes
from trtbench.errors import InputError

TOKEN_LIMIT = 1000
"""Token ids stay below this: every vocabulary in use is larger."""

_ONES, _ZEROS, _POSITIONS = ("mask", "length", "size"), ("token_type", "segment"), "position"

FP8_ONE = 0x38
"""Bits of 1.0 in E4M3; all patterns below stand for numbers from 0 to 1."""


def random_inputs(
    tensors: tuple[TensorSpec, ...], *, seed: int = 0, limits: Mapping[str, int] | None = None
) -> Mapping[str, NDArray[np.generic]]:
    """Draw one array per tensor; the same name, shape, type and seed give the same values.

    ``limits`` are numbers that integers of an input stay below, where the model tells.
    """
    known = limits or {}
    return {
        tensor.name: _below(_draw(tensor, seed=seed), known.get(tensor.name)) for tensor in tensors
    }


def refuse_other_than_tensors(tensors: Sequence[TensorSpec]) -> None:
    """Refuse inputs that are sequences, maps and the like: nothing here feeds them."""
    found = {each.name: each.dtype for each in tensors if each.dtype in NO_TENSORS}
    if found:
        raise InputError(
            "the model takes inputs that are no tensors",
            facts=found,
            fix="export it with a tensor for each of them",
        )


def has_meaning(name: str) -> bool:
    """Tell by its name whether whole numbers of an input mean more than one of many."""
    return any(word in name.lower() for word in (*_ONES, *_ZEROS, _POSITIONS))


def fixed_batch(tensors: Sequence[TensorSpec]) -> int | None:
    """Tell the items that every query holds, by all inputs; ``None`` where one leaves them open.

    What has one row beside inputs of several (a prior, a size) has it for all of them. Colours of a
    single image are no items.
    """
    fronts = [each.shape for each in tensors if each.shape and not batch_place(each)]
    if any(is_open(shape[0]) for shape in fronts) or all(map(may_be_colours, fronts)):
        return None
    several = [shape for shape in fronts if shape[0] != 1]
    found = batch_from_shapes(fronts) or batch_from_shapes(several)
    first = fronts[0][0] if fronts else None
    return found or (first if isinstance(first, int) and first > 0 else None)


def has_rows(tensor: TensorSpec, tensors: Sequence[TensorSpec]) -> bool:
    """Say whether an input has one row per item: an open leading dimension, or the fixed batch.

    One whose items are counted further back holds a single item, as a whole.
    """
    if not tensor.shape or batch_place(tensor):
        return False
    return is_open(tensor.shape[0]) or tensor.shape[0] == fixed_batch(tensors)


def _below(values: NDArray[np.generic], limit: int | None) -> NDArray[np.generic]:
    if limit is None or values.dtype.kind not in "iu":
        return values
    return (values % max(limit, 1)).astype(values.dtype)


def _draw(tensor: TensorSpec, *, seed: int) -> NDArray[np.generic]:
    shape = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype == "bfloat16":  # the upper half of a float32, as raw bits
        bits = generator.random(shape, np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16)
    if tensor.dtype.startswith("float8_e4m3"):
        return generator.integers(0, FP8_ONE, size=shape).astype(np.uint8)
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        raise ValueError(f"no random values for inputs of type {tensor.dtype}") from None
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return _integers(tensor.name.lower(), shape, dtype, generator)
    if dtype.kind == "c":
        values = generator.random(shape) + 1j * generator.random(shape)
        return values.astype(dtype)
    if dtype.kind not in "f":
        raise ValueError(f"no random values for inputs of type {tensor.dtype}")
    return generator.random(shape, np.float32).astype(dtype)


def _integers(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], generator: np.random.Generator
) -> NDArray[np.generic]:
    """Make ones for masks, zeros for types, counts for positions, bytes for pixels, else ids."""
    if any(word in name for word in _ONES):
        return np.ones(shape, dtype)
    if any(word in name for word in _ZEROS):
        return np.zeros(shape, dtype)
    if _POSITIONS in name and shape:
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(dtype)
    top = min(int(np.iinfo(dtype).max), 255 if dtype.itemsize == 1 else TOKEN_LIMIT - 1)
    return generator.integers(0, top, size=shape, endpoint=True).astype(dtype)
