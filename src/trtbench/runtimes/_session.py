"""The session of a runtime in the worker's process, and the inputs that are bound to it."""

from __future__ import annotations

import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, UsageError, first_line, suggest
from trtbench.core.run import Fact, Scalar, batch_that_ran, may_be_colours
from trtbench.core.samples import Arrays, Column, LayerProfile, LayerTime
from trtbench.core.spec import RunSpec, TensorSpec, batch_from_shapes
from trtbench.core.units import text_from_shape
from trtbench.host.arrays import read_arrays
from trtbench.models.identity import index_limits
from trtbench.models.inputs import (
    TOKEN_LIMIT,
    assumption,
    batch_place,
    fitted,
    is_one_sequence,
    is_open,
    items_by_name,
    random_inputs,
    refuse_open,
    refuse_other_than_tensors,
    with_assumed_shapes,
    with_ones,
    with_same_dims,
)
from trtbench.models.onnx_outline import sides_of


@dataclass(frozen=True, kw_only=True)
class TurnSpec:
    """How a side is opened when it takes turns with another: its idle threads must rest."""

    spec: RunSpec
    like_alone: bool = True
    """It runs as it would alone; else its time alone needs a session of its own."""


Burst = Callable[[], tuple[float, float]]
"""Returns the device's seconds per query, and the host's seconds of the quickest enqueueing."""
image_readers: list[Callable[[RunSpec, tuple[TensorSpec, ...]], Arrays]] = []
"""What reads images that are inputs, set by the worker: runtimes know no tasks."""


class Spans(Protocol):
    """Times of queries that a session measures beside the time its caller sees."""

    overlapping: bool
    """Several queries are in flight: a call of ``step`` is not one query."""

    def take(self) -> None:
        """Keep the spans of the query just completed; called outside the clock."""

    def drain(self) -> None:
        """Wait for every query in flight."""

    def clear(self) -> None:
        """Forget all queries so far."""

    def columns(self) -> dict[str, Column]:
        """Return what was kept, in seconds, one row per query."""


class Session(ABC):
    """A loaded model that can be run again and again on the inputs bound to it.

    What has a value here is an ability that a session may leave out.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    conditions: dict[str, Fact]
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Scalar] = MappingProxyType({})
    spans: Spans | None = None
    """What is known of each query beside the host's time; set by ``step``."""

    index_limits: Mapping[str, int] = MappingProxyType({})
    """Numbers that integers of an input stay below, where no file says."""

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

    def fetch_with_span(self) -> tuple[dict[str, NDArray[np.generic]], float]:
        """Do what ``fetch`` does; beside it the seconds it took, the device's where known."""
        began = time.perf_counter()
        outputs = self.fetch()
        return outputs, time.perf_counter() - began

    def burst(self, *, size: int, lead: int) -> Burst | None:
        """Make a call that runs queries back to back; ``None`` where no device measures them."""
        return None

    def profile_layers(self) -> tuple[LayerProfile, float | None]:
        """Time the layers in a pass of their own; beside them the GPU time of that pass."""
        raise UsageError("this runtime cannot time single layers", fix="leave --profile out")

    def look_back(self) -> dict[str, Scalar]:
        """Return what can be found out at the price of time and memory, once all is measured."""
        return {}

    def describe(self) -> str | None:
        """Return what is known of the layers, as trtexec exports it."""
        return None

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
    """Settle every input's shape and make arrays for it, from a file or at random.

    Arrays of a file are cut to the batch, so that one file of items serves every batch size.
    ``limits`` are numbers that random integers stay below, where the session knows them.
    """
    _check_inputs(tensors, spec)
    if spec.inputs.source is None:
        settled = _assumed(tensors, spec)
        return settled, _random(settled, spec, limits or index_limits(spec.model, settled))
    settled = given_shapes(tensors, spec)
    if spec.inputs.task is not None:
        arrays = image_readers[0](spec, settled)
    else:
        cut = {
            t.name
            for t in settled
            if spec.batch is not None and t.shape[:1] == (spec.batch,) and t.name not in spec.shapes
        }
        loose = [t.having(shape=(None, *t.shape[1:])) if t.name in cut else t for t in settled]
        arrays = read_arrays(Path(spec.inputs.source), loose)
        for name in cut:
            count = len(arrays[name])
            if count < (spec.batch or 0):
                raise InputError(
                    f"{name!r} holds {count} items, fewer than one batch of {spec.batch}",
                    fix=f"--batch {count}" if count else None,
                )
            arrays[name] = arrays[name][: spec.batch]
    return tuple(each.having(shape=arrays[each.name].shape) for each in settled), arrays


def shapes_of_batch(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> dict[str, tuple[int, ...]]:
    """Settle the shapes of open inputs for a batch, and refuse one that none can take."""
    _check_inputs(tensors, spec)
    return {
        after.name: tuple(dim for dim in after.shape if isinstance(dim, int))
        for before, after in zip(tensors, _assumed(tensors, spec), strict=True)
        if not before.is_static
    }


def assumed_of(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> str | None:
    """Return which dimensions were given no value, and what they become."""
    shapes = shapes_of_batch(tensors, spec)
    given = given_shapes(tensors, spec)
    settled = [each.having(shape=shapes.get(each.name, each.shape)) for each in given]
    return assumption(given, settled)


def items_counted(
    declared: tuple[TensorSpec, ...], settled: tuple[TensorSpec, ...], *, batch: int | None
) -> dict[str, Scalar]:
    """Return the items of a query where a dimension that is not the first is called a batch.

    Inputs that are one sequence each are one item, unless a batch was requested. Sizes alone do
    not distinguish a batch of three from three colours; what is open at its front does.
    """
    items = items_by_name(declared, settled)
    counted = batch_from_shapes(each.shape for each in settled)
    if items is None and counted is None:
        # Take the size that all open fronts were given, where fixed ones beside them hide it. A
        # single dimension may be the length of one item, unless it is as long as the batch.
        opened = {
            each.name
            for each in declared
            if each.shape and is_open(each.shape[0]) and not is_one_sequence(each)
        }
        fronts = {
            each.shape[0]
            for each in settled
            if each.name in opened and (each.shape[1:] or each.shape[:1] == (batch or 1,))
        }
        size = fronts.pop() if len(fronts) == 1 else None
        items = size if isinstance(size, int) else None
    if batch is None and declared and all(map(is_one_sequence, declared)):
        items = 1
    if items is None and settled and all(may_be_colours(each.shape) for each in settled):
        open_fronts = [bool(each.shape) and is_open(each.shape[0]) for each in declared]
        return {"items_per_query": counted} if open_fronts and all(open_fronts) else {}
    return {} if items is None else {"items_per_query": items}


def refuse_undrawn(tensors: Sequence[TensorSpec], spec: RunSpec) -> None:
    """Refuse what a run would refuse to draw, without drawing it."""
    _random(tuple(t.having(shape=(0,) * len(t.shape)) for t in tensors), spec, {})


def _check_inputs(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> None:
    refuse_other_than_tensors(tensors)
    known = [tensor.name for tensor in tensors]
    for name in (name for name in spec.shapes if name not in known):
        shape = "x".join(map(str, spec.shapes[name]))
        near = known[0] if len(known) == 1 else name
        raise InputError(
            f"the model has no input called {name!r}",
            facts={"inputs": ", ".join(known)},
            fix=suggest(near, known, write=lambda word: f"--shape {word}:{shape}"),  # noqa: B023
        )
    free = [t for t in tensors if t.shape and t.name not in spec.shapes]
    if free:
        demand_room_for_batch(free, batch=spec.batch)
    elif spec.batch is not None:
        # Items would be counted wrongly where shapes imply another batch for every input.
        shaped = [t.having(shape=spec.shapes[t.name]) for t in tensors if t.shape]
        items = items_by_name(tensors, shaped) or batch_that_ran(
            spec.shapes.values(), asked=spec.batch
        )
        if items not in (None, spec.batch):
            raise UsageError(
                f"--batch {spec.batch} does not agree with the shapes, which hold {items} items",
                facts={name: text_from_shape(shape) for name, shape in spec.shapes.items()},
                fix="leave --batch out",
            )


def given_shapes(
    tensors: Sequence[TensorSpec], spec: RunSpec, *, fronts: Sequence[TensorSpec] | None = None
) -> tuple[TensorSpec, ...]:
    """Fill in what was requested, also where only a dimension of the same name was.

    ``fronts`` are the same tensors with dimensions settled that are before the batch.
    """
    settled = []
    for tensor in fronts or tensors:
        given = spec.shapes.get(tensor.name)
        settled.append(
            with_batch(tensor, spec.batch)
            if given is None
            else tensor.having(shape=fitted(tensor, given))
        )
    return with_same_dims(tensors, settled)


def with_batch(tensor: TensorSpec, batch: int | None) -> TensorSpec:
    """Settle the dimension that counts items, where it is open."""
    place = batch_place(tensor)
    if batch is None or not tensor.shape or not is_open(tensor.shape[place]):
        return tensor
    return tensor.having(shape=(*tensor.shape[:place], batch, *tensor.shape[place + 1 :]))


def _assumed(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> tuple[TensorSpec, ...]:
    """Settle all shapes by what was given, else by what names suggest.

    Where the batch is not in front, the front is settled first: by its name it is no batch.
    """
    fronts = []
    for tensor in tensors:
        if tensor.name not in spec.shapes:
            place = batch_place(tensor)
            front = with_assumed_shapes([tensor])[0].shape[:place]
            tensor = tensor.having(shape=(*front, *tensor.shape[place:]))
        fronts.append(tensor)
    given = given_shapes(tensors, spec, fronts=fronts)
    settled = with_assumed_shapes(given, sides=sides_of(spec.model.path, given))
    refuse_open(settled)
    return settled


def demand_room_for_batch(tensors: Sequence[TensorSpec], *, batch: int | None) -> None:
    """Refuse a batch where all leading dimensions are fixed at another value."""
    leading = [(t, t.shape[batch_place(t)]) for t in tensors if t.shape]
    if batch is None or not leading or any(is_open(dim) or dim == batch for _, dim in leading):
        return
    tensor, fixed = leading[0]
    raise InputError(
        f"the batch of the input {tensor.name!r} is fixed at {fixed}",
        facts={"requested": f"--batch {batch}", "shape": text_from_shape(tensor.shape)},
        fix=f"--batch {fixed}, or export the model with a dynamic batch",
    )


def _random(tensors: tuple[TensorSpec, ...], spec: RunSpec, limits: Mapping[str, int]) -> Arrays:
    try:
        return random_inputs(tensors, seed=spec.inputs.seed, limits=limits)
    except (ValueError, TypeError) as problem:
        raise InputError(
            f"random inputs cannot be drawn: {problem}", fix="--inputs data.npz"
        ) from None


_NO_SUCH_ROW = re.compile(
    r"out of (data )?bounds|index out of range|out of bounds for|device-side assert", re.IGNORECASE
)


def unfit_inputs(
    problem: Exception, inputs: Sequence[TensorSpec], *, drawn: bool, ranged: bool = False
) -> InputError:
    """Make the error for a model that does not run on its inputs, with what would help.

    ``drawn`` at random, and not read from a file; ``ranged`` where --range limits them.
    """
    reason = first_line(problem)
    shown = ", ".join(f"{each.name} {text_from_shape(each.shape)} {each.dtype}" for each in inputs)
    facts = {"reason": reason, "inputs": f"{shown}{', drawn at random' if drawn else ''}"}
    integers = any(each.dtype.startswith(("int", "uint")) for each in inputs)
    if drawn and integers and _NO_SUCH_ROW.search(reason):
        facts["integers"] = f"0 to {TOKEN_LIMIT - 1}, because the number of rows is not known"
        fix = "--range 0:99 (the last row), or " if ranged else ""
        fix += "--inputs FILE (.npz) with numbers that the model has rows for"
    else:
        flags = " ".join(f"--shape {shlex.quote(with_ones(each))}" for each in inputs)
        data = "--inputs FILE (.npz) with what" if drawn else "data that"
        fix = f"{data} the model takes, or other shapes: {flags}"
    return InputError("the model does not run on these inputs", facts=facts, fix=fix)


WARMUP = 10
LEAST, MOST = 20, 500
ENOUGH_S = 2.0
"""Iterations thrown away, then kept: as many as fit into two seconds, within these bounds."""

Row = tuple[str, float]


def profile_from_rows(iterations: Sequence[Sequence[Row]]) -> LayerProfile:
    """Put iterations together, layer by layer in execution order; names may repeat.

    An iteration that reports other layers than most (a conditional branch) is left out.
    """
    if not iterations or not any(iterations):
        return LayerProfile(count=0, layers=())
    orders = [tuple(name for name, _ in each) for each in iterations]
    usual = max(set(orders), key=orders.count)
    kept = [each for each, order in zip(iterations, orders, strict=True) if order == usual]
    table = np.array([[seconds for _, seconds in each] for each in kept], np.float64)
    total = float(table.sum())
    layers = tuple(
        LayerTime(
            name=name,
            total_s=float(column.sum()),
            average_s=float(column.mean()),
            median_s=float(np.median(column)),
            min_s=float(column.min()),
            max_s=float(column.max()),
            share=float(column.sum() / total) if total > 0 else None,
        )
        for name, column in zip(usual, table.T, strict=True)
    )
    return LayerProfile(count=len(kept), layers=layers)
