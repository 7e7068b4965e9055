"""What open dimensions of inputs become when nobody says: the batch one, others by their names.

Knows names and ranks of inputs; what they do not suggest stays open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

from trtbench.domain.spec import TensorSpec
from trtbench.errors import InputError, UsageError, meant
from trtbench.units import text_from_shape

BATCH, SEQUENCE, IMAGE = 1, 128, 224

_BATCH = re.compile(r"batch|^bs$", re.IGNORECASE)
_SEQUENCE = re.compile(r"seq|token|length|\blen\b|_len\b|time|step|frame", re.IGNORECASE)
_SIDE = re.compile(r"height|width|^[hw]$|rows|cols|size", re.IGNORECASE)
_CHANNELS = (1, 3, 4)


def is_open(dim: int | str | None) -> bool:
    """Tell a dimension without a value."""
    return not isinstance(dim, int) or dim < 0


def batch_place(tensor: TensorSpec) -> int:
    """Find the dimension that counts items: the one that is called so, else the first."""
    called = (isinstance(dim, str) and bool(_BATCH.search(dim)) for dim in tensor.shape)
    return next((place for place, named in enumerate(called) if named), 0)


def items_by_name(before: Sequence[TensorSpec], after: Sequence[TensorSpec]) -> int | None:
    """Count the items of settled inputs, where a dimension that is not the first counts them."""
    places = {tensor.name: batch_place(tensor) for tensor in before}
    found = {each.shape[places[each.name]] for each in after if places.get(each.name)}
    size = found.pop() if len(found) == 1 else None
    return size if isinstance(size, int) else None


def with_assumed_shapes(
    tensors: Sequence[TensorSpec], *, batch: bool = True
) -> tuple[TensorSpec, ...]:
    """Settle open dimensions as far as rank, type and names suggest a value.

    With ``batch`` an open first dimension becomes one item. A name means the same everywhere.
    """
    named: dict[str, int] = {}
    for tensor in tensors:
        for place, dim in enumerate(tensor.shape):
            guess = _guess(tensor, place, batch=batch) if is_open(dim) else None
            if guess is not None and isinstance(dim, str):
                named.setdefault(dim, guess)
    return tuple(_settled(tensor, named, batch=batch) for tensor in tensors)


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
    """Refuse a shape that an input cannot have."""
    problem = None
    if len(given) != len(tensor.shape):
        problem = "has the wrong rank"
    else:
        fixed = [w for w, g in zip(tensor.shape, given, strict=True) if not is_open(w) and w != g]
        problem = f"does not fit: {fixed[0]} is fixed" if fixed else None
    if problem is not None:
        raise InputError(
            f"the shape of {tensor.name!r} {problem}",
            facts={"model": text_from_shape(tensor.shape), "given": "x".join(map(str, given))},
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

    Without ``batch`` the first dimension may stay open.
    """
    start = 0 if batch else 1
    found = [each for each in tensors if any(map(is_open, each.shape[start:]))]
    if not found:
        return
    facts = {}
    for each in found:
        places = range(start, len(each.shape))
        dims = [_written(each.shape[at], at) for at in places if is_open(each.shape[at])]
        facts[each.name] = f"{', '.join(dims)} of {text_from_shape(each.shape)}"
    raise UsageError(
        "dynamic dimensions need a value",
        facts=facts,
        fix=" ".join(f"{flag} {shlex.quote(with_ones(each))}" for each in found),
    )


def with_ones(tensor: TensorSpec) -> str:
    """Write an input as --shape takes it, with one for what is open."""
    dims = ("1" if is_open(dim) else str(dim) for dim in tensor.shape)
    return f"{tensor.name}:{'x'.join(dims)}"


def _written(dim: int | str | None, place: int) -> str:
    return repr(dim) if isinstance(dim, str) else f"dimension {place}"


def _settled(tensor: TensorSpec, named: dict[str, int], *, batch: bool) -> TensorSpec:
    shape = tuple(
        dim
        if not is_open(dim)
        else named.get(dim, dim)
        if isinstance(dim, str)
        else _guess(tensor, place, batch=batch) or dim
        for place, dim in enumerate(tensor.shape)
    )
    return msgspec.structs.replace(tensor, shape=shape)


def _guess(tensor: TensorSpec, place: int, *, batch: bool) -> int | None:
    dim = tensor.shape[place]
    name = dim if isinstance(dim, str) else ""
    if place == (batch_place(tensor) if batch else 0):  # rows of data are always in front
        return BATCH if batch else None
    if name and _SEQUENCE.search(name):
        return SEQUENCE
    if _is_side(tensor, place) or (name and _SIDE.search(name) and len(tensor.shape) == 4):
        return IMAGE
    tokens = len(tensor.shape) == 2 and tensor.dtype.startswith(("int", "uint"))
    return SEQUENCE if tokens else None


def _is_side(tensor: TensorSpec, place: int) -> bool:
    """Tell height and width of an image by its channels: in front of them, or behind."""
    if len(tensor.shape) != 4:
        return False
    return (tensor.shape[1] in _CHANNELS and place in (2, 3)) or (
        tensor.shape[3] in _CHANNELS and place in (1, 2)
    )


def _called(tensor: TensorSpec, place: int, dim: int | str | None) -> str:
    if place == batch_place(tensor) and not (isinstance(dim, str) and _SEQUENCE.search(dim)):
        return "batch"
    return dim if isinstance(dim, str) and dim else f"dimension {place} of {tensor.name}"
