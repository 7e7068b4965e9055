"""Inputs of a model: default sizes of dynamic dimensions, and random values."""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from trtbench.core.errors import InputError, suggest
from trtbench.core.run import may_be_colours
from trtbench.core.spec import NO_TENSORS, TensorSpec, batch_from_shapes
from trtbench.core.units import text_from_shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dim = int | str | None
BATCH, SEQUENCE, IMAGE, AUDIO = 1, 128, 224, 16_000  # audio: one second at 16 kHz
TOKEN_LIMIT = 1000  # token ids are below this: every vocabulary in use is larger
_SEQUENCE = re.compile(r"seq|token|length|\blen\b|_len\b|time|step|frame", re.IGNORECASE)
_SUM = re.compile(r"\s*[\w.]+\s*(\+\s*[\w.]+\s*)+")
"""A dimension that exporters write as a sum of others: ``past_sequence_length + 1``."""
_AUDIO = re.compile(r"wave|audio|speech|pcm|^samples$", re.IGNORECASE)
_STATE = re.compile(r"(^|[_./])([hc](_?0|_?n)?|state|cache|past\w*)(_?in|_?\d+)?$", re.IGNORECASE)
"""Names of what a model carries from one query to the next: ``h0``, ``state``, ``past_key_3``."""
_RATE = re.compile(r"^(sr|fs|sampl(e|ing)_?rate)$", re.IGNORECASE)
_ONES, _ZEROS, _POSITIONS = ("mask", "length", "size"), ("token_type", "segment"), "position"


def is_open(dim: Dim) -> bool:
    """Whether a dimension is dynamic or unknown."""
    return not isinstance(dim, int) or dim < 0


def batch_place(tensor: TensorSpec) -> int:
    """Return the index of the batch dimension: the one with such a name, else the first."""
    for place, dim in enumerate(tensor.shape):
        if isinstance(dim, str) and re.search(r"batch|^bs$", dim, re.IGNORECASE):
            return place
    opened = [is_open(dim) for dim in tensor.shape[:2]]  # states have their layers in front
    return int(opened == [False, True] and _STATE.search(tensor.name) is not None)


def is_one_sequence(tensor: TensorSpec) -> bool:
    """Whether the leading dimension is named as the length of a single sequence."""
    front = tensor.shape[0] if tensor.shape else None
    words = r"seq|token|frames|_len|length"  # steps and times may be those of a batch
    named = isinstance(front, str) and re.search(words, front, re.IGNORECASE)
    return batch_place(tensor) == 0 and bool(named)


def items_by_name(before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> int | None:
    """Return the number of items if the batch is not the first dimension of an input."""
    places = {tensor.name: batch_place(tensor) for tensor in before}
    found = {each.shape[places[each.name]] for each in after if places.get(each.name)}
    size = found.pop() if len(found) == 1 else None
    return size if isinstance(size, int) else None


def fixed_batch(tensors: Sequence[TensorSpec]) -> int | None:
    """Return the fixed number of items per query, by all inputs; ``None`` if it is dynamic.

    An input with one row next to inputs with several (a prior, a size) is shared by all items.
    The colours of a single image are not items.
    """
    fronts = [each.shape for each in tensors if each.shape and not batch_place(each)]
    if any(is_open(shape[0]) for shape in fronts) or all(map(may_be_colours, fronts)):
        return None
    several = [shape for shape in fronts if shape[0] != 1]
    found = batch_from_shapes(fronts) or batch_from_shapes(several)
    first = fronts[0][0] if fronts else None
    return found or (first if isinstance(first, int) and first > 0 else None)


def has_rows(tensor: TensorSpec, tensors: Sequence[TensorSpec]) -> bool:
    """Whether an input has one row per item."""
    if not tensor.shape or batch_place(tensor):
        return False
    return is_open(tensor.shape[0]) or tensor.shape[0] == fixed_batch(tensors)


def with_assumed_shapes(
    tensors: Sequence[TensorSpec],
    sides: tuple[int, int] | None = None,
    length: int | None = None,
) -> tuple[TensorSpec, ...]:
    """Return inputs whose dynamic dimensions have sizes that fit rank, type and names.

    The same name gets the same size everywhere. ``sides`` and ``length`` are those of images and
    sequences, if known.
    """
    known = (sides or (IMAGE, IMAGE), length)
    guesses = [[_guess(each, at, *known) for at in range(len(each.shape))] for each in tensors]
    named: dict[str, int] = {}
    for summed in (False, True):  # a sum comes after its parts
        for tensor, row in zip(tensors, guesses, strict=True):
            for dim, guess in zip(tensor.shape, row, strict=True):
                if isinstance(dim, str) and bool(_SUM.fullmatch(dim)) == summed:
                    size = _value(dim, named) or guess
                    named |= {} if size is None else {dim: size}
    return tuple(
        tensor.having(
            shape=tuple(
                (_value(dim, named) if isinstance(dim, str) else guess) or dim
                for dim, guess in zip(tensor.shape, row, strict=True)
            )
        )
        for tensor, row in zip(tensors, guesses, strict=True)
    )


def with_same_dims(
    declared: Sequence[TensorSpec], given: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    """Return inputs whose dynamic dimensions have the sizes given for equal names."""
    known = {
        dim: size
        for was, now in zip(declared, given, strict=True)
        for dim, size in zip(was.shape, now.shape, strict=False)
        if isinstance(dim, str) and isinstance(size, int)
    }

    def filled(dim: Dim) -> Dim:  # a sum of which only some parts are known stays a sum
        if not isinstance(dim, str):
            return dim
        return _value(dim, known) or " + ".join(str(known.get(part, part)) for part in _parts(dim))

    return tuple(each.having(shape=tuple(map(filled, each.shape))) for each in given)


def with_given_shapes(
    tensors: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int]], *, batch: int | None = None
) -> tuple[TensorSpec, ...]:
    """Return tensors with the requested sizes, also for other dimensions of the same name."""
    given = []
    for each in tensors:
        place = batch_place(each)
        if each.name in shapes:
            each = each.having(shape=checked_shape(each, shapes[each.name]))
        elif batch is not None and each.shape and is_open(each.shape[place]):
            each = each.having(shape=(*each.shape[:place], batch, *each.shape[place + 1 :]))
        given.append(each)
    return with_same_dims(tensors, given)


def assumption(before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> str | None:
    """Return a note on what was assumed and how to change it; ``None`` if nothing was."""
    assumed: dict[str, Dim] = {}
    shapes = []
    for tensor, settled in zip(before, after, strict=True):
        pairs = enumerate(zip(tensor.shape, settled.shape, strict=True))
        changed = [(at, dim, now) for at, (dim, now) in pairs if is_open(dim) and not is_open(now)]
        if changed:
            shapes.append(f"--shape {shlex.quote(with_ones(settled))}")
        for place, dim, now in changed:
            sequence = isinstance(dim, str) and _SEQUENCE.search(dim)
            name = dim if isinstance(dim, str) and dim else f"dimension {place} of {tensor.name}"
            counts = place == batch_place(tensor) and not sequence
            assumed.setdefault("batch" if counts else name, now)
    if not assumed:
        return None
    values = ", ".join(f"{name} {value}" for name, value in assumed.items())
    flag = "--batch N" if list(assumed) == ["batch"] else shapes[0]
    return f"dynamic dimensions: {values} (change with {flag})"


def checked_shape(tensor: TensorSpec, given: Sequence[int]) -> tuple[int, ...]:
    """Return the given shape; raises an error if the input cannot have it."""
    if not tensor.shape:
        return tuple(given)
    if len(given) != len(tensor.shape):
        problem = "has the wrong rank"
    else:
        fixed = [w for w, g in zip(tensor.shape, given, strict=True) if not is_open(w) and w != g]
        if not fixed:
            return tuple(given)
        problem = f"does not fit: {fixed[0]} is fixed"
    raise InputError(
        f"the shape of {tensor.name!r} {problem}",
        facts={"model": text_from_shape(tensor.shape), "given": text_from_shape(given)},
        fix=f"--shape {shlex.quote(with_ones(tensor, given))}",
    )


def refuse_unknown_inputs(shapes: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise if a shape is given for an input that a model with these names does not have."""
    for name, given in shapes.items():
        if name not in names:
            near = names[0] if len(names) == 1 else name
            shape = f":{text_from_shape(given)}" if isinstance(given, tuple) else ""
            raise InputError(
                f"the model has no input called {name!r}",
                facts={"inputs": ", ".join(names)},
                fix=suggest(near, names, write=lambda word: f"--shape {word}{shape}"),  # noqa: B023
            )


def refuse_other_than_tensors(tensors: Sequence[TensorSpec]) -> None:
    """Raise an error for inputs that are sequences, maps or other values than tensors."""
    found = {each.name: each.dtype for each in tensors if each.dtype in NO_TENSORS}
    if found:
        raise InputError(
            "the model has inputs that are not tensors",
            facts=found,
            fix="export it with a tensor for each of them",
        )


def with_ones(tensor: TensorSpec, given: Sequence[int] = ()) -> str:
    """Return the value of ``--shape``: dynamic dimensions are as given, or else 1."""
    shape = tensor.shape or (None,)
    sizes = (*given, *(1 for _ in shape))
    dims = (str(size if is_open(dim) else dim) for dim, size in zip(shape, sizes, strict=False))
    return f"{tensor.name}:{'x'.join(dims)}"


def _value(dim: Dim, known: Mapping[str, int]) -> int | None:
    """Return the size of a named dimension, or of a sum if all its parts are known."""
    if not isinstance(dim, str):
        return dim
    parts = [int(part) if part.isdecimal() else known.get(part) for part in _parts(dim)]
    found = [part for part in parts if part is not None]
    return known.get(dim, sum(found) if len(found) == len(parts) else None)


def _parts(dim: str) -> list[str]:
    return [part.strip() for part in dim.split("+")] if _SUM.fullmatch(dim) else [dim]


def _guess(
    tensor: TensorSpec, place: int, sides: tuple[int, int], length: int | None
) -> int | None:
    shape, dim = tensor.shape, tensor.shape[place]
    if not is_open(dim):
        return None
    name = dim if isinstance(dim, str) else ""
    if place == batch_place(tensor):
        return length or SEQUENCE if is_one_sequence(tensor) else BATCH
    audio = _AUDIO.search(tensor.name) or _AUDIO.search(name)
    if audio or _STATE.search(tensor.name):  # a sound has one channel, and a state one item
        return length or AUDIO if audio and place == len(shape) - 1 else SEQUENCE if name else 1
    if name and _SEQUENCE.search(name):
        return length or SEQUENCE
    if len(shape) == 4:  # an image: channels are before the height, or after the width
        first = 1 if shape[3] in (1, 3, 4) else 2
        return sides[place - first] if place - first in (0, 1) else 3
    return length or SEQUENCE


def is_not_index(name: str) -> bool:
    """Whether the name of an integer input shows that its values are not row indices."""
    return any(word in name.lower() for word in (*_ONES, *_ZEROS, _POSITIONS))


def random_inputs(
    tensors: tuple[TensorSpec, ...], *, seed: int = 0, limits: Mapping[str, int] | None = None
) -> Mapping[str, NDArray[np.generic]]:
    """Return one array per tensor; the same name, shape, type and seed give the same values."""
    arrays = {tensor.name: _draw(tensor, seed=seed) for tensor in tensors}
    for name, limit in (limits or {}).items():
        if name in arrays and arrays[name].dtype.kind in "iu":
            arrays[name] = (arrays[name] % max(limit, 1)).astype(arrays[name].dtype)
    return arrays


def _draw(tensor: TensorSpec, *, seed: int) -> NDArray[np.generic]:
    """Return floats from 0 to 1, or integers: 1 for masks, 0 for token types, positions, ids.

    A sampling rate is 16 kHz, and what a model carries from one query to the next is zero.
    """
    import numpy as np

    shape = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype == "bfloat16":  # the upper half of a float32, as raw bits
        bits = generator.random(shape, np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint16)
    if tensor.dtype.startswith("float8_e4m3"):
        # Patterns below that of 1.0 in E4M3 stand for numbers from 0 to 1.
        return generator.integers(0, 0x38, size=shape).astype(np.uint8)
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biucf":
        raise ValueError(f"no random values for inputs of type {tensor.dtype}")
    name = tensor.name.lower()
    if dtype.kind == "b" or (dtype.kind in "iu" and any(word in name for word in _ONES)):
        return np.ones(shape, dtype)
    if _RATE.search(name):
        return np.full(shape, AUDIO, dtype)
    if dtype.kind == "f" and len(shape) > 2 and _STATE.search(name):
        return np.zeros(shape, dtype)
    if dtype.kind == "c":
        return (generator.random(shape) + 1j * generator.random(shape)).astype(dtype)
    if dtype.kind == "f":
        return generator.random(shape, np.float32).astype(dtype)
    if any(word in name for word in _ZEROS):
        return np.zeros(shape, dtype)
    if _POSITIONS in name and shape:
        return np.broadcast_to(np.arange(shape[-1]), shape).astype(dtype)
    top = min(int(np.iinfo(dtype).max), 255 if dtype.itemsize == 1 else TOKEN_LIMIT - 1)
    return generator.integers(0, top, size=shape, endpoint=True).astype(dtype)
