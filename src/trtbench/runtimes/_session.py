"""What a runtime that lives in the worker's process offers: a session with inputs bound once."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.inputs import random_inputs, refuse_other_than_tensors
from trtbench.analysis.open_shapes import (
    assumption,
    batch_place,
    fitted,
    is_one_sequence,
    is_open,
    items_by_name,
    refuse_open,
    with_assumed_shapes,
    with_same_dims,
)
from trtbench.domain.arrays import Arrays
from trtbench.domain.labels import batch_that_ran, may_be_colours
from trtbench.domain.result import Fact, Scalar
from trtbench.domain.samples import Column, LayerProfile
from trtbench.domain.spec import InputSpec, RunSpec, TensorSpec, batch_from_shapes
from trtbench.errors import InputError, UsageError, meant
from trtbench.host.arrays import read_arrays
from trtbench.models.index_limits import index_limits
from trtbench.models.onnx_outline import sides_of
from trtbench.units import text_from_shape


@dataclass(frozen=True, kw_only=True)
class TurnSpec:
    """How a side is opened when it takes turns with another: its idle threads must rest."""

    spec: RunSpec
    like_alone: bool = True
    """It runs as it would alone; else its time alone needs a session of its own."""


Burst = Callable[[], tuple[float, float]]
"""Tells the device's seconds per query, and the host's seconds of the quickest enqueueing."""


class Spans(Protocol):
    """What a session can tell of its queries beside the time its caller sees."""

    overlapping: bool
    """Several queries are in flight: a call of ``step`` is not one query."""

    def take(self) -> None:
        """Keep the spans of the query just completed; called outside the clock."""

    def drain(self) -> None:
        """Wait for every query in flight."""

    def clear(self) -> None:
        """Forget all queries so far."""

    def columns(self) -> dict[str, Column]:
        """Tell what was kept, in seconds, one row per query."""


class Session(ABC):
    """A loaded model that can be run again and again on the inputs bound to it.

    What has a value here is an ability that a session may leave out.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    conditions: dict[str, Fact]
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Scalar] = MappingProxyType({})
    """Facts for the findings."""
    spans: Spans | None = None
    """What is known of each query beside the host's time; set by ``step``."""

    index_limits: Mapping[str, int] = MappingProxyType({})
    """Numbers that integers of an input stay below, where no file tells."""
    free_shapes: bool = False
    """Whether it takes any shape, and ``inputs`` only tell what it was asked for."""
    has_profiles: bool = False
    """Whether what it runs has optimization profiles to change between."""

    versions: Mapping[str, str] = MappingProxyType({})
    """Of libraries that know better than their packages."""

    @abstractmethod
    def bind(self, arrays: Arrays) -> None:
        """Take inputs; nothing of this is timed."""

    @abstractmethod
    def step(self) -> Callable[[], object]:
        """Make the function that runs one query and returns when it is complete."""

    @abstractmethod
    def fetch(self) -> dict[str, NDArray[np.generic]]:
        """Run once and return the outputs by name."""

    def first(self) -> object:
        """Run the very first query; what ``step`` makes may need one before it."""
        return self.step()()

    def look(self) -> None:  # noqa: B027 - most sessions know all of it when they are opened
        """Look at what ran, once something has, for the conditions; nothing of this is timed."""

    def look_back(self) -> dict[str, Scalar]:
        """Tell what can be found out at the price of time and memory, once all is measured."""
        return {}

    def fetch_with_span(self) -> tuple[dict[str, NDArray[np.generic]], float]:
        """Do what ``fetch`` does, and tell the seconds it took: the device's, where it tells."""
        began = time.perf_counter()
        outputs = self.fetch()
        return outputs, time.perf_counter() - began

    def burst(self, *, size: int, lead: int) -> Burst | None:
        """Make a call that runs so many queries back to back; ``None`` where no device tells."""
        return None

    def query(self, arrays: Arrays, *, profile: int = 0) -> Callable[[], object]:
        """Make a call that runs one whole query on these inputs, whatever shape came before."""
        raise UsageError(
            "this runtime cannot change shapes between queries", fix="leave --switch-shape out"
        )

    def profile_layers(self) -> tuple[LayerProfile, float | None]:
        """Time the layers in a pass of their own; beside them the GPU time of that pass."""
        raise UsageError("this runtime cannot time single layers", fix="leave --profile out")

    def close(self) -> None:  # noqa: B027 - most sessions hold nothing outside this process
        """Free what is held outside of this process's own memory."""


_MEMORY_WORDS = re.compile(r"bad_alloc|bad allocation|out of memory|failed to allocate", re.I)


def refuse_if_out_of_memory(problem: Exception) -> None:
    """Raise MemoryError for the many ways in which runtimes word a lack of memory."""
    if isinstance(problem, MemoryError) or _MEMORY_WORDS.search(str(problem)):
        raise MemoryError(str(problem)) from None


def resolve_inputs(
    tensors: tuple[TensorSpec, ...], spec: RunSpec, *, limits: Mapping[str, int] | None = None
) -> tuple[tuple[TensorSpec, ...], Arrays]:
    """Settle every input's shape and give arrays for it, from a file or at random.

    ``limits`` are numbers that random integers stay below, where the session knows them.
    """
    _check_inputs(tensors, spec)
    settled = given_shapes(tensors, spec)
    if spec.inputs.source is not None:
        arrays = _items_from_file(settled, spec)
        filled = tuple(
            TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=arrays[tensor.name].shape)
            for tensor in settled
        )
        return filled, arrays
    settled = _assumed(tensors, spec)
    refuse_open(settled)
    return settled, _random(settled, spec.inputs, limits or index_limits(spec.model, settled))


def shapes_of_batch(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> dict[str, tuple[int, ...]]:
    """Settle the shapes of open inputs for a batch, and refuse one that none can take."""
    _check_inputs(tensors, spec)
    settled = _assumed(tensors, spec)
    refuse_open(settled)
    return {
        after.name: tuple(dim for dim in after.shape if isinstance(dim, int))
        for before, after in zip(tensors, settled, strict=True)
        if not before.is_static
    }


def assumed_of(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> str | None:
    """Say which dimensions nobody gave a value, and what they become."""
    shapes = shapes_of_batch(tensors, spec)
    given = given_shapes(tensors, spec)
    settled = [each.having(shape=shapes.get(each.name, each.shape)) for each in given]
    return assumption(given, settled)


def items_counted(
    declared: tuple[TensorSpec, ...], settled: tuple[TensorSpec, ...], *, batch: int | None
) -> dict[str, Scalar]:
    """Tell the items of a query where a dimension that is not the first is called a batch.

    Inputs that are one sequence each are one item, unless somebody asked for a batch. Sizes alone
    do not tell a batch of three from three colours; what is open at its front does.
    """
    items = items_by_name(declared, settled)
    if items is None and batch_from_shapes(each.shape for each in settled) is None:
        items = _items_in_front(declared, settled, batch=batch or 1)
    if batch is None and declared and all(map(is_one_sequence, declared)):
        items = 1
    if items is None and settled and all(may_be_colours(each.shape) for each in settled):
        fronts = [each.shape[0] if each.shape else 0 for each in declared]
        opened = bool(fronts) and all(map(is_open, fronts))
        return (
            {"items_per_query": batch_from_shapes(each.shape for each in settled)} if opened else {}
        )
    return {} if items is None else {"items_per_query": items}


def _items_in_front(
    declared: Sequence[TensorSpec], settled: Sequence[TensorSpec], *, batch: int
) -> int | None:
    """Take the size that all open fronts were given, where fixed ones beside them hide it.

    A single dimension may be the length of one item, unless it is as long as the batch.
    """
    opened = {
        each.name
        for each in declared
        if each.shape and is_open(each.shape[0]) and not is_one_sequence(each)
    }
    fronts = {
        each.shape[0]
        for each in settled
        if each.name in opened and (each.shape[1:] or each.shape[:1] == (batch,))
    }
    size = fronts.pop() if len(fronts) == 1 else None
    return size if isinstance(size, int) else None


def refuse_undrawn(tensors: Sequence[TensorSpec], spec: RunSpec) -> None:
    """Refuse what a run would refuse to draw, without drawing it."""
    none = tuple(t.having(shape=(0,) * len(t.shape)) for t in tensors)
    _random(none, spec.inputs, {})


def _check_inputs(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> None:
    refuse_other_than_tensors(tensors)
    _check_names(tensors, spec)
    _demand_room_for_batch(tensors, spec)


def _check_names(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> None:
    known = [tensor.name for tensor in tensors]
    for name in spec.shapes:
        if name in known:
            continue
        shape = "x".join(str(dim) for dim in spec.shapes[name])
        raise InputError(
            f"the model has no input called {name!r}",
            facts={"inputs": ", ".join(known)},
            fix=f"--shape {known[0]}:{shape}"
            if len(known) == 1
            else meant(name, known, write=lambda word: f"--shape {word}:{shape}"),  # noqa: B023
        )


def given_shapes(tensors: Sequence[TensorSpec], spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Fill in what was asked for, also where only a dimension of the same name was."""
    return with_same_dims(tensors, [with_given_shape(tensor, spec) for tensor in tensors])


def with_given_shape(tensor: TensorSpec, spec: RunSpec) -> TensorSpec:
    """Fill in the shape, or the batch, that was asked for."""
    given = spec.shapes.get(tensor.name)
    if given is not None:
        return TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=fitted(tensor, given))
    return with_batch(tensor, spec.batch)


def with_batch(tensor: TensorSpec, batch: int | None) -> TensorSpec:
    """Settle the dimension that counts items, where it is open."""
    place = batch_place(tensor)
    if batch is None or not tensor.shape or not is_open(tensor.shape[place]):
        return tensor
    shape = (*tensor.shape[:place], batch, *tensor.shape[place + 1 :])
    return TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=shape)


def _assumed(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Settle shapes by what was given, else by what names suggest.

    Where the batch is not in front, the front is settled first: by its name it is no batch.
    """
    fronts = [_with_front(t) if t.name not in spec.shapes else t for t in tensors]
    given = with_same_dims(tensors, [with_given_shape(tensor, spec) for tensor in fronts])
    return with_assumed_shapes(given, sides=sides_of(spec.model.path, given))


def _with_front(tensor: TensorSpec) -> TensorSpec:
    place = batch_place(tensor)
    front = with_assumed_shapes([tensor])[0].shape[:place]
    return tensor.having(shape=(*front, *tensor.shape[place:]))


def _demand_room_for_batch(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> None:
    """Refuse a batch that no input can take, or that shapes which were given do not hold."""
    free = [t for t in tensors if t.shape and t.name not in spec.shapes]
    if free:
        demand_room_for_batch(free, batch=spec.batch)
    elif spec.batch is not None:
        _demand_agreement(tensors, spec, spec.batch)


def demand_room_for_batch(tensors: Sequence[TensorSpec], *, batch: int | None) -> None:
    """Refuse a batch where all leading dimensions are fixed at another value."""
    leading = {t.name: t.shape[batch_place(t)] for t in tensors if t.shape}
    if batch is None or not leading:
        return
    if any(is_open(dim) or dim == batch for dim in leading.values()):
        return
    name, fixed = next(iter(leading.items()))
    raise InputError(
        f"the batch of the input {name!r} is fixed at {fixed}",
        facts={"asked for": f"--batch {batch}", "shape": _text_by(tensors, name)},
        fix=f"--batch {fixed}, or export the model with a dynamic batch",
    )


def _demand_agreement(tensors: tuple[TensorSpec, ...], spec: RunSpec, batch: int) -> None:
    """Refuse a batch when shapes tell another for every input: items would be counted wrongly."""
    given = [t.having(shape=spec.shapes[t.name]) for t in tensors if t.shape]
    told = items_by_name(tensors, given) or batch_that_ran(
        spec.shapes.values(), asked=batch, told=None
    )
    if told not in (None, batch):
        raise UsageError(
            f"--batch {batch} does not agree with the shapes, which hold {told} items",
            facts={name: text_from_shape(shape) for name, shape in spec.shapes.items()},
            fix="leave --batch out",
        )


def _text_by(tensors: Sequence[TensorSpec], name: str) -> str:
    return next(text_from_shape(tensor.shape) for tensor in tensors if tensor.name == name)


ImageReader = Callable[[RunSpec, tuple[TensorSpec, ...]], Arrays]
_image_readers: list[ImageReader] = []


def prepare_images_with(reader: ImageReader) -> None:
    """Let whoever knows tasks read images that are inputs; runtimes know none."""
    _image_readers[:] = [reader]


def _items_from_file(settled: tuple[TensorSpec, ...], spec: RunSpec) -> Arrays:
    """Read arrays and cut them to the batch, so that one file of items serves every batch size."""
    assert spec.inputs.source is not None
    if spec.inputs.task is not None:
        return _image_readers[0](spec, settled)
    cut = {t.name for t in settled if _takes_batch(t, spec)}
    loose = [
        TensorSpec(name=t.name, dtype=t.dtype, shape=(None, *t.shape[1:])) if t.name in cut else t
        for t in settled
    ]
    arrays = read_arrays(Path(spec.inputs.source), loose)
    for name in cut:
        if len(arrays[name]) < (spec.batch or 0):
            raise InputError(
                f"{name!r} holds {len(arrays[name])} items, fewer than one batch of {spec.batch}",
                fix=f"--batch {len(arrays[name])}" if len(arrays[name]) else None,
            )
    return {name: array[: spec.batch] if name in cut else array for name, array in arrays.items()}


def _takes_batch(tensor: TensorSpec, spec: RunSpec) -> bool:
    if spec.batch is None or not tensor.shape or tensor.name in spec.shapes:
        return False
    return tensor.shape[0] == spec.batch


def _random(
    tensors: tuple[TensorSpec, ...], inputs: InputSpec, limits: Mapping[str, int]
) -> Arrays:
    try:
        return random_inputs(tensors, seed=inputs.seed, limits=limits)
    except (ValueError, TypeError) as problem:
        raise InputError(
            f"random inputs cannot be drawn: {problem}", fix="--inputs data.npz"
        ) from None
