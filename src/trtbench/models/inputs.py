"""Inputs of a model: default sizes of dynamic dimensions, and the values that are fed."""

from __future__ import annotations

import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.core.errors import InputError, UsageError, suggest
from trtbench.core.run import may_be_colours
from trtbench.core.samples import AnyArray
from trtbench.core.spec import NO_TENSORS, TensorSpec, batch_from_shapes
from trtbench.core.units import text_from_shape
from trtbench.host.arrays import arrays_by_input, check_arrays, check_inputs_exist
from trtbench.models.onnx_outline import ModelOutline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Dim = int | str | None
BATCH, SEQUENCE, IMAGE, AUDIO = 1, 128, 224, 16_000  # audio: one second at 16 kHz
TOKEN_LIMIT = 1000  # token ids are below this: every vocabulary in use is larger
_SEQUENCE = re.compile(r"seq|token|length|\blen\b|_len\b|time|step|frame", re.IGNORECASE)
_SUM = re.compile(r"\s*[\w.]+\s*(\+\s*[\w.]+\s*){1,20}")
"""A dimension that exporters write as a sum of others: ``past_sequence_length + 1``."""
_PLACEHOLDER = re.compile(r"\W*|none|-1|unk(nown)?|dyn(amic)?", re.IGNORECASE)
"""What exporters write for a dimension without a name: two of these may differ."""
_AUDIO = re.compile(r"wave|audio|speech|pcm|^samples$", re.IGNORECASE)
_STATE = re.compile(
    r"(^|[_./])(?!.{100})([hc](_?0|_?n|_?in)?|(hidden|cell)(_?states?)?|states?|cache|past\w*"
    r"|mems?)([_./]?(in|prev|\d)|[_./](h|c|k|v|key|value|decoder|encoder))*$",
    re.IGNORECASE,
)
"""What a model carries from one query to the next: ``h0``, ``past_key_3``; no names without end."""
_HZ = dict.fromkeys(("sr", "fs", "samplerate", "samplingrate"), AUDIO)
_HZ |= {"fmin": 50, "fmax": 2000}
_LENGTH = re.compile(r"_?(len|lens|length|lengths)$", re.IGNORECASE)
_ONES, _ZEROS, _POSITIONS = ("mask", "length", "size"), ("token_type", "segment"), "position"
NO_SUCH_ROW = re.compile(
    r"out of (data )?bounds|index out of range|out of bounds for|device-side assert", re.IGNORECASE
)
"""What runtimes say of an index that is not in its table."""
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER}|(?:,{_NUMBER})*)", re.IGNORECASE)
"""Values of ``--input`` that are not a file: ``16000``, ``1,2`` or ``0..255``."""
COUNTING = "counting up"


def is_open(dim: Dim) -> bool:
    """Whether a dimension is dynamic or unknown."""
    return not isinstance(dim, int) or dim < 0


def dim_name(dim: Dim) -> str:
    """Return the name of a dynamic dimension; empty for none, and for placeholders like ``?``."""
    named = isinstance(dim, str) and not _PLACEHOLDER.fullmatch(dim)
    return str(dim) if named else ""


def batch_place(tensor: TensorSpec) -> int:
    """Return the index of the batch dimension: the one with such a name, else the first."""
    for place, dim in enumerate(tensor.shape):
        if isinstance(dim, str) and re.search(r"batch|^bs$", dim, re.IGNORECASE):
            return place
    opened = [is_open(dim) for dim in tensor.shape[:2]]  # states have their layers in front
    one = not any(opened) and len(tensor.shape) == 3 and tensor.shape[1] == 1
    return int((one or opened == [False, True]) and _STATE.search(tensor.name) is not None)


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
    fixed: Mapping[str, Mapping[int, int]] | None = None,
) -> tuple[TensorSpec, ...]:
    """Return inputs whose dynamic dimensions have sizes that fit rank, type and names.

    The same name gets the same size everywhere. ``sides`` and ``length`` are those of images and
    sequences, if known; ``fixed`` are the sizes by input and dimension that operators require.
    """

    def guess(tensor: TensorSpec, place: int) -> int:
        shape, dim = tensor.shape, tensor.shape[place]
        if isinstance(dim, int) and dim >= 0:
            return dim
        if tensor.usual:
            return tensor.usual[place]
        name = dim_name(dim)
        audio = _AUDIO.search(tensor.name) or _AUDIO.search(name)
        is_sound = audio and place == len(shape) - 1
        longest = length or (AUDIO if is_sound else SEQUENCE)
        if place == batch_place(tensor):
            return longest if is_one_sequence(tensor) else BATCH
        required = (fixed or {}).get(tensor.name, {})
        if known := required.get(place, required.get(place - len(shape))):
            return known
        if audio or _STATE.search(tensor.name):  # a sound has one channel, and a state one item
            other = SEQUENCE if name else 1
            return longest if is_sound else other
        if len(shape) == 4 and not (name and _SEQUENCE.search(name)):
            # An image: channels are before the height, or after the width.
            first = 1 if shape[3] in (1, 3, 4) else 2
            return (sides or (IMAGE, IMAGE))[place - first] if place - first in (0, 1) else 3
        return longest

    sizes = [[(dim, guess(each, at)) for at, dim in enumerate(each.shape)] for each in tensors]
    texts = [(dim_name(dim), size) for row in sizes for dim, size in row if dim_name(dim)]
    named: dict[Dim, int] = {  # of a state with its items further back, also in other inputs
        dim_name(each.shape[at]): BATCH for each in tensors if not each.usual
        and (at := batch_place(each)) and dim_name(each.shape[at])
    }  # fmt: skip
    for dim, size in sorted(texts, key=lambda pair: len(_parts(pair[0]))):  # sums after their parts
        named[dim] = _value(dim, named) or size
    return tuple(
        tensor.having(shape=tuple(named.get(dim, size) for dim, size in row), usual=())
        for tensor, row in zip(tensors, sizes, strict=True)
    )


def with_given_shapes(
    tensors: Sequence[TensorSpec],
    shapes: Mapping[str, Sequence[int]],
    *,
    batch: int | None = None,
    items: bool = False,
) -> tuple[TensorSpec, ...]:
    """Return tensors with the requested sizes, also for other dimensions of the same name.

    Shapes of ``items`` are those of one item: a leading batch stays as it is.
    """
    given = []
    for each in tensors:
        place = batch_place(each)
        lead = each.shape[: items and not place]
        if each.name in shapes:
            opened = each.having(shape=(*(None for _ in lead), *each.shape[len(lead) :]))
            rest = checked_shape(opened, shapes[each.name])[len(lead) :]
            each = each.having(shape=(*lead, *rest))
        elif batch is not None and each.shape and is_open(each.shape[place]):
            each = each.having(shape=(*each.shape[:place], batch, *each.shape[place + 1 :]))
        given.append(each)
    known: dict[Dim, int] = {
        dim: size
        for was, now in zip(tensors, given, strict=True)
        for dim, size in zip(was.shape, now.shape, strict=False)
        if dim_name(dim) and isinstance(size, int)
    }

    def filled(dim: Dim) -> Dim:  # a sum of which only some parts are known stays a sum
        if not isinstance(dim, str) or not dim_name(dim):
            return dim
        return _value(dim, known) or " + ".join(str(known.get(part, part)) for part in _parts(dim))

    return tuple(each.having(shape=tuple(map(filled, each.shape))) for each in given)


def assumption(
    before: Sequence[TensorSpec], after: Sequence[TensorSpec], why: str, *, batch: bool = True
) -> str | None:
    """Return a note on what was assumed, why, and how to change it; ``None`` if nothing was."""
    assumed: dict[str, Dim] = {}
    shapes = []
    for tensor, settled in zip(before, after, strict=True):
        pairs = enumerate(zip(tensor.shape, settled.shape, strict=True))
        kept = not batch and not batch_place(tensor)
        changed = [(at, dim, now) for at, (dim, now) in pairs if is_open(dim) and at >= kept]
        if changed:
            shapes.append(f"--shape {shlex.quote(with_sizes(settled))}")
        for place, dim, now in changed:
            sequence = isinstance(dim, str) and _SEQUENCE.search(dim)
            name = dim_name(dim) or f"dimension {place} of {tensor.name}"
            counts = place == batch_place(tensor) and not sequence
            assumed.setdefault("batch" if counts else name, now)
    if not assumed:
        return None
    values = ", ".join(f"{name} {value}" for name, value in assumed.items())
    flag = (
        "change with --batch N" if list(assumed) == ["batch"] else f"{why}; change with {shapes[0]}"
    )
    return f"dynamic dimensions: {values} ({flag})"


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
    message = f"the shape of {tensor.name!r} {problem}"
    facts = {"model": text_from_shape(tensor.shape), "given": text_from_shape(given)}
    raise InputError(message, facts=facts, fix=f"--shape {shlex.quote(with_sizes(tensor, given))}")


def refuse_unknown_inputs(given: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise if a shape or value is for an input that a model with these names does not have."""
    for name, each in given.items():
        if name not in names:
            near = names[0] if len(names) == 1 else name
            flag, value = "--shape", f":{text_from_shape(each)}" if isinstance(each, tuple) else ""
            if isinstance(each, str):
                flag, value = "--input", f"={each}"
            raise InputError(
                f"the model has no input called {name!r}",
                facts={"inputs": ", ".join(names)},
                fix=suggest(near, names, write=lambda word: f"{flag} {word}{value}"),  # noqa: B023
            )


def refuse_other_than_tensors(tensors: Sequence[TensorSpec]) -> None:
    """Raise an error for inputs that are sequences, maps or other values than tensors."""
    found = {each.name: each.dtype for each in tensors if each.dtype in NO_TENSORS}
    if found:
        fix = "export it with a tensor for each of them"
        raise InputError("the model has inputs that are not tensors", facts=found, fix=fix)


def with_sizes(tensor: TensorSpec, given: Sequence[int] = ()) -> str:
    """Return the value of ``--shape``: dynamic dimensions are as given, or 1 and letters."""
    shape = tensor.shape or (None,)
    letters: list[int | str] = list("NCHW" if len(shape) == len("NCHW") else "LMNPQRST")
    letters[batch_place(tensor)] = BATCH
    sizes = (*given, *letters[len(given) :])
    dims = (str(size if is_open(dim) else dim) for dim, size in zip(shape, sizes, strict=False))
    return f"{tensor.name}:{'x'.join(dims)}"


def _value(dim: str, known: Mapping[Dim, int]) -> int | None:
    """Return the size of a named dimension, or of a sum if all its parts are known."""
    parts = [int(part) if part.isdecimal() else known.get(part) for part in _parts(dim)]
    found = [part for part in parts if part is not None]
    return known.get(dim, sum(found) if len(found) == len(parts) else None)


def _parts(dim: str) -> list[str]:
    return [part.strip() for part in dim.split("+")] if _SUM.fullmatch(dim) else [dim]


def is_not_index(name: str) -> bool:
    """Whether the name of an integer input shows that its values are not row indices."""
    return any(word in name.lower() for word in (*_ONES, *_ZEROS, _POSITIONS))


def given_values(given: Mapping[str, object], *, data: object = None) -> dict[str, str]:
    """Return values of ``--input`` as text, paths whole; raises if one is not valid."""
    if given and data not in (None, "random"):
        raise UsageError("--input and --data cannot be combined", fix="leave one of them out")
    values: dict[str, str] = {}
    for name, each in given.items():
        text = ",".join(map(str, each)) if isinstance(each, list | tuple) else str(each)
        text = {"true": "1", "false": "0"}.get(text.lower(), text)
        low, dots, high = text.partition("..")
        if Path(text).suffix in (".npy", ".npz"):
            text = str(Path(text).absolute())
            check_inputs_exist(Path(text))
        elif not _NUMBERS.fullmatch(text) or (dots and float(low) > float(high)):
            fix = f"--input {name}=1, --input {name}=0..255 or --input {name}=@file.npy"
            raise UsageError(f"{text!r} is not a value for the input {name!r}", fix=fix)
        values[name] = text
    return values


def shape_of_value(tensor: TensorSpec, value: str | None) -> TensorSpec:
    """Return an input with the shape of the file that holds its values, if one does."""
    if value is None or _NUMBERS.fullmatch(value):
        return tensor
    pairs = zip(tensor.shape, _stored(tensor, value).shape, strict=True)
    return tensor.having(shape=tuple(have if is_open(dim) else dim for dim, have in pairs))


def _stored(tensor: TensorSpec, value: str, seed: int | None = None) -> AnyArray:
    """Return the numbers of a file for an input, or one item of them; raises if they do not fit."""
    array = arrays_by_input(Path(value), [tensor])[0][tensor.name]
    if not array.size:
        raise InputError(f"{Path(value).name} has no numbers for the input {tensor.name!r}")
    if seed is not None and array.ndim == len(tensor.shape) + 1:
        array = array[seed % len(array)]
    dtype = str(array.dtype) if array.dtype.kind in "biuf" else tensor.dtype
    loose = tensor.having(dtype=dtype, shape=tensor.shape and (None, *tensor.shape[1:]))
    check_arrays({tensor.name: array}, [loose], Path(value))
    return array


def usual_values(
    settled: Sequence[TensorSpec], outline: ModelOutline | None = None
) -> dict[str, str]:
    """Return the values of inputs whose name or use in the model suggests them, as ``--input``.

    States are zeros, masks ones, a length is the size of the dimension it measures, and an index
    stays inside its table.
    """
    rows = outline.index_limits if outline else {}
    declared = outline.inputs if outline else ()
    found: dict[str, str] = {}
    for tensor in settled:
        name, is_int = tensor.name.lower(), tensor.dtype.startswith(("int", "uint"))
        value: object = None
        if name.replace("_", "") in _HZ:
            value = _HZ[name.replace("_", "")]
        elif "mask" in name or tensor.dtype == "bool":
            value = 1
        elif tensor.name in rows:
            value = rows_as_value(rows[tensor.name])
        elif not is_int:
            known = outline is not None and tensor.name in outline.states
            if known or (len(tensor.shape) > 2 and _STATE.search(name)):
                value = 0
        elif _LENGTH.search(name) and len(tensor.shape) < 3:
            value = _measured(tensor, declared, settled)
        elif any(word in name for word in _ZEROS):
            value = 0
        elif _POSITIONS in name:
            value = COUNTING
        if value is None and tensor.shape[-1:] == (2,) and re.search(r"size|shape", name):
            sides = (each.shape for each in settled if len(each.shape) == len("NCHW"))
            value = next(
                (f"{h},{w}" if w not in (1, 3, 4) else f"{c},{h}" for _, c, h, w in sides), None
            )
        if value is None and is_int and any(word in name for word in _ONES):
            value = 1
        if value is not None:
            found[tensor.name] = str(value)
    return found


def _measured(
    length: TensorSpec, declared: Sequence[TensorSpec], settled: Sequence[TensorSpec]
) -> Dim:
    """Return the size that a length measures: of the dynamic dimension of the input it names."""
    stem = _LENGTH.split(length.name.lower())[0]
    others = [each for each in settled if len(each.shape) > 1 and each.name != length.name]
    others.sort(key=lambda each: not (stem and each.name.lower().startswith(stem)))
    for now in others:
        shape = next((each.shape for each in declared if each.name == now.name), now.shape)
        return now.shape[
            max((at for at, dim in enumerate(shape) if at and is_open(dim)), default=1)
        ]
    return 1


def rows_as_value(rows: int) -> str:
    """Return the value of an input that indexes a table with so many rows."""
    return f"0..{max(1, min(rows, TOKEN_LIMIT)) - 1}"


def random_inputs(
    tensors: Sequence[TensorSpec], *, seed: int = 0, values: Mapping[str, str] | None = None
) -> Mapping[str, NDArray[np.generic]]:
    """Return one array per tensor; the same name, shape, type and seed give the same values.

    ``values`` are the values of single inputs, as in ``--input``; others are random.
    """
    known = {**usual_values(tensors), **(values or {})}
    try:
        return {each.name: _draw(each, known.get(each.name), seed=seed) for each in tensors}
    except (ValueError, TypeError) as problem:
        message = f"random inputs cannot be made: {problem}"
        raise InputError(message, fix="--data data.npz") from None


def _draw(tensor: TensorSpec, value: str | None, *, seed: int) -> NDArray[np.generic]:
    """Return an input with a value of ``--input``; without one, floats from 0 to 1, or indices."""
    import numpy as np

    shape = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    generator = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if tensor.dtype == "str" and value is None:
        return np.full(shape, "text")
    if tensor.dtype.startswith("float8_e4m3") and value is None:
        # Patterns below that of 1.0 in E4M3 stand for numbers from 0 to 1.
        return generator.integers(0, 0x38, size=shape).astype(np.uint8)
    try:
        dtype = np.dtype("float32" if tensor.dtype == "bfloat16" else tensor.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biucf":
        raise ValueError(f"no random values for inputs of type {tensor.dtype}")
    if value is None:
        most = 255 if dtype.itemsize == 1 else TOKEN_LIMIT - 1
        value = f"0..{min(most, np.iinfo(tensor.dtype).max)}" if dtype.kind in "iu" else "0..1"
    numbers: AnyArray
    if value == COUNTING:
        numbers = np.broadcast_to(np.arange(shape[-1]) if shape else np.int64(0), shape)
    elif not _NUMBERS.fullmatch(value):
        stored = _stored(tensor, value, seed)
        numbers = np.resize(_fitting(stored, tensor, dtype, value), shape)
    else:
        words = re.split(r"\.\.|,", value)
        given = [int(each) if re.fullmatch(r"-?\d{1,18}", each) else float(each) for each in words]
        ends = _fitting(np.array(given), tensor, dtype, value)
        if ".." not in value:
            if len(ends) not in (1, *shape[-1:]):
                raise ValueError(f"{len(ends)} numbers for {tensor.name} {text_from_shape(shape)}")
            numbers = np.broadcast_to(ends, shape or (1,))
        elif dtype.kind in "iu":
            numbers = generator.integers(int(ends[0]), int(ends[1]), size=shape, endpoint=True)
        else:
            drawn: AnyArray = generator.random(shape, np.float32)
            if dtype.kind == "c":
                drawn = drawn + 1j * generator.random(shape)
            numbers = ends[0] + drawn * (ends[1] - ends[0])
    array = np.asarray(numbers, dtype).reshape(shape)  # also of a scalar
    # The upper half of a float32 is a bfloat16, as raw bits.
    return array if tensor.dtype != "bfloat16" else (array.view(np.uint32) >> 16).astype(np.uint16)


def _fitting(
    numbers: AnyArray, tensor: TensorSpec, dtype: np.dtype[np.generic], value: str
) -> AnyArray:
    """Return numbers as the type of an input; raises if it cannot hold them."""
    import numpy as np

    with np.errstate(all="ignore"):
        typed = numbers.astype(dtype)
    kept = np.isfinite(typed) | ~np.isfinite(numbers) if dtype.kind in "fc" else typed == numbers
    if not kept.all():
        facts = {"input": f"{tensor.name} {tensor.dtype} {text_from_shape(tensor.shape)}"}
        if dtype.kind in "iu":
            facts["allowed"] = "{0.min} to {0.max}".format(np.iinfo(tensor.dtype))
        raise InputError(f"the input {tensor.name!r} cannot have the value {value}", facts=facts)
    return typed
