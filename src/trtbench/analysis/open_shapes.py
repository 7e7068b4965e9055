"""What open dimensions of inputs become when nobody says: the batch one, others by their names.

Knows names and ranks of inputs; what they do not suggest stays open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError, meant
from trtbench.units import text_from_shape

BATCH, SEQUENCE, IMAGE = 1, 128, 224

HeightWidth = tuple[int, int]
"""Height and width of an image."""

_BATCH = re.compile(r"batch|^bs$", re.IGNORECASE)
_SEQUENCE = re.compile(r"seq|token|length|\blen\b|_len\b|time|step|frame", re.IGNORECASE)
_FRONT = re.compile(r"seq|token|frames|_len|length", re.IGNORECASE)
"""In front, where others count items: steps and times may be those of a batch."""
_SIDE = re.compile(r"height|width|^[hw]$|rows|cols|size", re.IGNORECASE)
_WIDTH = re.compile(r"^w$|width|cols", re.IGNORECASE)
_CHANNELS = (1, 3, 4)
_SUM = re.compile(r"\s*[\w.]+\s*(\+\s*[\w.]+\s*)+")
"""As exporters write a length that others make up: ``past_sequence_length + 1``."""


def is_open(dim: int | str | None) -> bool:
    """Tell a dimension without a value."""
    return not isinstance(dim, int) or dim < 0


def batch_place(tensor: TensorSpec) -> int:
    """Find the dimension that counts items: the one that is called so, else the first."""
    called = (isinstance(dim, str) and bool(_BATCH.search(dim)) for dim in tensor.shape)
    return next((place for place, named in enumerate(called) if named), 0)


def is_one_sequence(tensor: TensorSpec) -> bool:
    """Tell by the name of its front that an input holds one sequence, and no batch of them."""
    front = tensor.shape[0] if tensor.shape else None
    return batch_place(tensor) == 0 and isinstance(front, str) and bool(_FRONT.search(front))


def items_by_name(before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> int | None:
    """Count the items of settled inputs, where a dimension that is not the first counts them."""
    places = {tensor.name: batch_place(tensor) for tensor in before}
    found = {each.shape[places[each.name]] for each in after if places.get(each.name)}
    size = found.pop() if len(found) == 1 else None
    return size if isinstance(size, int) else None


def with_assumed_shapes(
    tensors: Sequence[TensorSpec], *, batch: bool = True, sides: HeightWidth | None = None
) -> tuple[TensorSpec, ...]:
    """Settle open dimensions as far as rank, type and names suggest a value.

    Without ``batch`` a first dimension that counts items stays open. A name means the same
    everywhere. ``sides`` are those of the images that a model was exported for, where it tells.
    """
    shown = sides or (IMAGE, IMAGE)
    guesses = [
        [_guess(tensor, place, batch=batch, sides=shown) for place in range(len(tensor.shape))]
        for tensor in tensors
    ]
    pairs = [
        pair
        for t, row in zip(tensors, guesses, strict=True)
        for pair in zip(t.shape, row, strict=True)
    ]
    named: dict[str, int] = {}
    for summed in (False, True):  # a sum comes after its parts
        for dim, guess in pairs:
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
    """Let dimensions nobody gave follow one of the same name that somebody gave."""
    known = {
        dim: size
        for was, now in zip(declared, given, strict=True)
        for dim, size in zip(was.shape, now.shape, strict=False)
        if isinstance(dim, str) and isinstance(size, int)
    }
    return tuple(
        each.having(shape=tuple(_filled(dim, known) for dim in each.shape)) for each in given
    )


def assumption(before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> str | None:
    """Say in one line what was assumed, and how to say otherwise; ``None`` if nothing was."""
    said: dict[str, int] = {}
    shapes = []
    for tensor, settled in zip(before, after, strict=True):
        changed = [
            (place, dim)
            for place, dim in enumerate(tensor.shape)
            if is_open(dim) and not is_open(settled.shape[place])
        ]
        if changed:
            shapes.append(f"--shape {shlex.quote(with_ones(settled))}")
        for place, dim in changed:
            value = settled.shape[place]
            assert isinstance(value, int)
            said.setdefault(_called(tensor, place, dim), value)
    if not said:
        return None
    values = ", ".join(f"{name} {value}" for name, value in said.items())
    only = list(said) == ["batch"]
    return f"open dimensions: {values} (say otherwise with {'--batch N' if only else shapes[0]})"


def fitted(tensor: TensorSpec, given: Sequence[int]) -> tuple[int, ...]:
    """Refuse a shape that an input cannot have; a file that tells no rank leaves it to the run."""
    problem = None
    if not tensor.shape:
        return tuple(given)
    if len(given) != len(tensor.shape):
        problem = "has the wrong rank"
    else:
        fixed = [w for w, g in zip(tensor.shape, given, strict=True) if not is_open(w) and w != g]
        problem = f"does not fit: {fixed[0]} is fixed" if fixed else None
    if problem is not None:
        raise InputError(
            f"the shape of {tensor.name!r} {problem}",
            facts={"model": text_from_shape(tensor.shape), "given": text_from_shape(given)},
            fix=f"--shape {shlex.quote(with_ones(tensor))}",
        )
    return tuple(given)


def unknown_input(name: str, inputs: Sequence[TensorSpec]) -> UsageError:
    """Say that a model has no input of a name, and which it has."""
    names = [each.name for each in inputs]
    return UsageError(
        f"the model has no input called {name!r}",
        facts={"inputs": ", ".join(names)},
        fix=meant(name, names),
    )


def refuse_open(
    tensors: Sequence[TensorSpec], *, batch: bool = True, flag: str = "--shape"
) -> None:
    """Refuse what nothing suggests a value for, all of it at once, with the flags that settle it.

    Without ``batch`` the first dimension may stay open, where it counts items.
    """
    starts = {each.name: 0 if batch or batch_place(each) else 1 for each in tensors}
    found = [each for each in tensors if any(map(is_open, each.shape[starts[each.name] :]))]
    if not found:
        return
    facts = {}
    for each in found:
        places = range(starts[each.name], len(each.shape))
        dims = [_written(each.shape[at], at) for at in places if is_open(each.shape[at])]
        facts[each.name] = f"{', '.join(dims)} of {text_from_shape(each.shape)}"
    raise UsageError(
        "dynamic dimensions need a value",
        facts=facts,
        fix=" ".join(f"{flag} {shlex.quote(with_ones(each))}" for each in found),
    )


def with_ones(tensor: TensorSpec) -> str:
    """Write an input as --shape takes it, with one for what is open, or for all there is."""
    dims = ("1" if is_open(dim) else str(dim) for dim in tensor.shape or (None,))
    return f"{tensor.name}:{'x'.join(dims)}"


def _value(dim: int | str | None, known: Mapping[str, int]) -> int | None:
    """Look a name up; a sum of names and numbers has a value when all of them do."""
    if not isinstance(dim, str):
        return dim
    parts = [int(part) if part.isdecimal() else known.get(part) for part in _parts(dim)]
    found = [part for part in parts if part is not None]
    return known.get(dim, sum(found) if len(found) == len(parts) else None)


def _filled(dim: int | str | None, known: Mapping[str, int]) -> int | str | None:
    """Put known values into a dimension; a sum of which only some are known stays a sum."""
    if not isinstance(dim, str):
        return dim
    return _value(dim, known) or " + ".join(str(known.get(part, part)) for part in _parts(dim))


def _parts(dim: str) -> list[str]:
    return [part.strip() for part in dim.split("+")] if _SUM.fullmatch(dim) else [dim]


def _written(dim: int | str | None, place: int) -> str:
    return repr(dim) if isinstance(dim, str) else f"dimension {place}"


def _guess(tensor: TensorSpec, place: int, *, batch: bool, sides: HeightWidth) -> int | None:
    dim = tensor.shape[place]
    if not is_open(dim):
        return None
    name = dim if isinstance(dim, str) else ""
    if place == batch_place(tensor):
        if place == 0 and not batch:  # as many as there are rows of data
            return None
        return SEQUENCE if is_one_sequence(tensor) else BATCH
    if name and _SEQUENCE.search(name):
        return SEQUENCE
    first = _first_side(tensor)
    if first is not None and place - first in (0, 1):
        return sides[place - first]
    if name and _SIDE.search(name) and len(tensor.shape) == 4:
        return sides[bool(_WIDTH.search(name))]
    tokens = len(tensor.shape) == 2 and tensor.dtype.startswith(("int", "uint"))
    return SEQUENCE if tokens else None


def _first_side(tensor: TensorSpec) -> int | None:
    """Find the height of an image by its channels: in front of it, or behind the width."""
    if len(tensor.shape) != 4:
        return None
    if tensor.shape[1] in _CHANNELS:
        return 2
    return 1 if tensor.shape[3] in _CHANNELS else None


def _called(tensor: TensorSpec, place: int, dim: int | str | None) -> str:
    if place == batch_place(tensor) and not (isinstance(dim, str) and _SEQUENCE.search(dim)):
        return "batch"
    return dim if isinstance(dim, str) and dim else f"dimension {place} of {tensor.name}"
