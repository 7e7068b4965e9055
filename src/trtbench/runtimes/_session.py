"""The base class for sessions of runtimes in the worker's process, and the inputs of sessions."""

import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trtbench.core.errors import InputError, UsageError, first_line
from trtbench.core.run import Fact, Scalar, batch_that_ran, may_be_colours
from trtbench.core.samples import Arrays, LayerProfile, LayerTime
from trtbench.core.spec import RunSpec, TensorSpec, batch_from_shapes
from trtbench.core.units import text_from_shape
from trtbench.host.arrays import read_arrays
from trtbench.models.inputs import (
    NO_SUCH_ROW,
    TOKEN_LIMIT,
    batch_place,
    is_one_sequence,
    is_open,
    items_by_name,
    random_inputs,
    refuse_other_than_tensors,
    refuse_unknown_inputs,
    rows_as_value,
    with_given_shapes,
)
from trtbench.models.open_sizes import Settled, settle
from trtbench.runtimes._gpu_query import Pipeline, SerialQuery


@dataclass(frozen=True, kw_only=True)
class TurnSpec:
    """How a side is opened if it takes turns with another one: its idle threads must sleep."""

    spec: RunSpec
    like_alone: bool = True
    """Whether it is as fast as alone; if not, its time alone is measured in another session."""


Burst = Callable[[], tuple[float, float]]
"""Returns the device's seconds per query, and the host's seconds of the fastest enqueueing."""
image_readers: list[Callable[[RunSpec, tuple[TensorSpec, ...]], Arrays]] = []
"""The function that reads input images, set by the worker because runtimes know no tasks."""
at_end: list[Callable[[Any], object]] = [methodcaller("close")]
"""What is done with a session that was measured; a worker closes it after its results are kept."""


class Session(ABC):
    """A loaded model that can be run repeatedly on the inputs bound to it.

    Attributes and methods with a default are optional.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    conditions: dict[str, Fact]
    notes: tuple[str, ...] = ()
    evidence: Mapping[str, Scalar] = MappingProxyType({})
    spans: SerialQuery | Pipeline | None = None
    """Times of each query in addition to the host's time; set by ``step``."""

    index_limits: Mapping[str, int] = MappingProxyType({})
    """Upper limits of the integers of inputs, if the model file does not give them."""

    versions: Mapping[str, str] = MappingProxyType({})
    """Versions of libraries that override those of their packages."""

    @abstractmethod
    def bind(self, arrays: Arrays) -> None:
        """Set the inputs; not timed."""

    @abstractmethod
    def step(self) -> Callable[[], object]:
        """Return a function that runs one query and returns when it is complete."""

    @abstractmethod
    def fetch(self) -> dict[str, NDArray[np.generic]]:
        """Run once and return the outputs by name."""

    def first(self) -> object:
        """Run the first query, before ``step`` is called."""
        return self.step()()

    def observe(self) -> None:  # noqa: B027 - most sessions know their conditions when opened
        """Update the conditions by observing a query, after the first; not timed."""

    def fetch_with_span(self) -> tuple[dict[str, NDArray[np.generic]], float]:
        """Run once; returns the outputs and the seconds it took, on the device if known."""
        began = time.perf_counter()
        outputs = self.fetch()
        return outputs, time.perf_counter() - began

    def burst(self, *, size: int, lead: int) -> Burst | None:
        """Return a call that runs queries back to back; ``None`` if no device times them."""
        return None

    def profile_layers(self) -> LayerProfile:
        """Time the layers in separate queries."""
        raise UsageError("this runtime cannot time single layers", fix="leave out --profile")

    def observe_after(self) -> dict[str, Scalar]:
        """Return evidence that takes time and memory to find, after everything is measured."""
        return {}

    def describe(self) -> str | None:
        """Return information about the layers, in the format of trtexec's export."""
        return None

    def close(self) -> None:  # noqa: B027 - most sessions use only memory of this process
        """Free resources outside the memory of this process."""

    def close_at_exit(self) -> None:
        """Free what the end of this process does not; its results are on disk."""
        self.close()


def are_finite(outputs: Mapping[str, object]) -> bool | None:
    """Return whether all floating-point outputs are finite; ``None`` if there are none."""
    arrays = [each for each in outputs.values() if isinstance(each, np.ndarray) and each.size]
    floating = [each for each in arrays if each.dtype.kind == "f"]
    return all(bool(np.isfinite(each).all()) for each in floating) if floating else None


_MEMORY_WORDS = re.compile(r"bad_alloc|bad allocation|out of memory|failed to allocate", re.I)


def raise_if_out_of_memory(problem: Exception) -> None:
    """Raise MemoryError if an exception of a runtime means that it is out of memory."""
    if isinstance(problem, MemoryError) or _MEMORY_WORDS.search(str(problem)):
        raise MemoryError(str(problem)) from None


def resolve_inputs(
    tensors: tuple[TensorSpec, ...], spec: RunSpec, *, limits: Mapping[str, int] | None = None
) -> tuple[tuple[TensorSpec, ...], Arrays, tuple[str, ...]]:
    """Return all inputs with their shapes, an array for each, and notes on what was assumed.

    Arrays of a file are cut to the batch, so that one file of items serves every batch size.
    ``limits`` are upper limits of random integers, if the session knows them.
    """
    if spec.inputs.source is None:
        settled = resolve_shapes(tensors, spec)
        rows = {name: rows_as_value(count) for name, count in (limits or {}).items()}
        settled = settled.having(values={**settled.values, **rows, **spec.inputs.values})
        arrays = random_inputs(settled.tensors, seed=spec.inputs.seed, values=settled.values)
        return settled.tensors, arrays, settled.notes
    _check_inputs(tensors, spec)
    resolved = with_given_shapes(tensors, spec.shapes, batch=spec.batch)
    if spec.inputs.task is not None:
        arrays = image_readers[0](spec, resolved)
    else:
        free = [t for t in resolved if spec.batch is not None and t.name not in spec.shapes]
        cut = {t.name for t in free if t.shape[:1] == (spec.batch,)}
        loose = [t.having(shape=(None, *t.shape[1:])) if t.name in cut else t for t in resolved]
        arrays = read_arrays(Path(spec.inputs.source), loose)
        for name in cut:
            count = len(arrays[name])
            if count < (spec.batch or 0):
                message = f"{name!r} has {count} items, fewer than one batch of {spec.batch}"
                raise InputError(message, fix=f"--batch {count}" if count else None)
            arrays[name] = arrays[name][: spec.batch]
    return tuple(each.having(shape=arrays[each.name].shape) for each in resolved), arrays, ()


def items_per_query(
    declared: tuple[TensorSpec, ...], resolved: tuple[TensorSpec, ...], *, batch: int | None
) -> dict[str, Scalar]:
    """Return the number of items of a query, if the first dimensions do not show it.

    Inputs that are one sequence each are one item, unless a batch was requested. The size alone
    does not distinguish a batch of three from three colours; a dynamic first dimension does.
    """
    items = items_by_name(declared, resolved)
    counted = batch_from_shapes(each.shape for each in resolved)
    opened = [each for each in declared if each.shape and is_open(each.shape[0])]
    if items is None and counted is None:
        # Use the common size of dynamic first dimensions, if fixed ones differ from it. A single
        # dimension may be the length of one item, unless it is as long as the batch.
        names = {each.name for each in opened if not is_one_sequence(each)}
        known = [each.shape for each in resolved if each.name in names]
        fronts = {shape[0] for shape in known if shape[1:] or shape[:1] == (batch or 1,)}
        size = fronts.pop() if len(fronts) == 1 else None
        items = size if isinstance(size, int) else None
    if batch is None and declared and all(map(is_one_sequence, declared)):
        items = 1
    colours = all(may_be_colours(each.shape) for each in resolved)
    if items is None and colours and 0 < len(opened) == len(declared):
        items = counted
    return {} if items is None else {"items_per_query": items}


def _check_inputs(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> None:
    refuse_other_than_tensors(tensors)
    refuse_unknown_inputs({**spec.inputs.values, **spec.shapes}, [each.name for each in tensors])
    free = [t for t in tensors if t.shape and t.name not in spec.shapes]
    if free:
        check_batch_possible(free, batch=spec.batch)
    elif spec.batch is not None:
        # Items would be counted wrongly if the shapes of all inputs imply another batch.
        shaped = [t.having(shape=spec.shapes[t.name]) for t in tensors if t.shape]
        shapes = spec.shapes.values()
        items = items_by_name(tensors, shaped) or batch_that_ran(shapes, asked=spec.batch)
        if items not in (None, spec.batch):
            message = f"--batch {spec.batch} contradicts the shapes, which have {items} items"
            facts = {name: text_from_shape(shape) for name, shape in spec.shapes.items()}
            raise UsageError(message, facts=facts, fix="leave out --batch")


def resolve_shapes(tensors: tuple[TensorSpec, ...], spec: RunSpec) -> Settled:
    """Return tensors with all shapes known: as given, else such that the model runs on them.

    Raises if the model has no such inputs, or if no input can have the batch.
    """
    _check_inputs(tensors, spec)
    given = with_given_shapes(tensors, spec.shapes, batch=spec.batch)
    return settle(given, spec.model, values=spec.inputs.values)


def check_batch_possible(tensors: Sequence[TensorSpec], *, batch: int | None) -> None:
    """Raise if all batch dimensions are fixed at another value."""
    leading = [(t, t.shape[batch_place(t)]) for t in tensors if t.shape]
    if batch is None or not leading or any(is_open(dim) or dim == batch for _, dim in leading):
        return
    tensor, fixed = leading[0]
    raise InputError(
        f"the batch of the input {tensor.name!r} is fixed at {fixed}",
        facts={"requested": f"--batch {batch}", "shape": text_from_shape(tensor.shape)},
        fix=f"--batch {fixed}, or export the model with a dynamic batch",
    )


def inputs_error(
    problem: Exception, inputs: Sequence[TensorSpec], *, is_random: bool, ranged: bool = False
) -> InputError:
    """Return the error for a model that does not run on its inputs, with a fix.

    ``ranged`` says whether --range can limit random inputs.
    """
    reason = first_line(problem)
    shown = ", ".join(f"{each.name} {text_from_shape(each.shape)} {each.dtype}" for each in inputs)
    facts = {"reason": reason, "inputs": f"{shown}{', random values' if is_random else ''}"}
    integers = any(each.dtype.startswith(("int", "uint")) for each in inputs)
    if is_random and integers and NO_SUCH_ROW.search(reason):
        facts["integers"] = f"0 to {TOKEN_LIMIT - 1}, because the number of rows is not known"
        fix = "--range 0:99 (the last row), or " if ranged else ""
        fix += "--data FILE (.npz) with indices of rows that exist"
    else:
        likely = sorted(inputs, key=lambda each: not each.dtype.startswith(("int", "uint")))
        name = shlex.quote(likely[0].name) if likely else "NAME"
        fix = "other shapes (--shape), or data that the model accepts"
        if is_random:
            sizes = "x".join(["SIZE"] * (len(likely[0].shape) if likely else 0) or ["SIZE"] * 2)
            fix = f"--input {name}=VALUE, --shape {name}:{sizes}, or --data FILE (.npz)"
    return InputError("the model does not run on these inputs", facts=facts, fix=fix)


WARMUP = 10
LEAST, MOST = 20, 500
ENOUGH_S = 2.0
"""Iterations of a layer profile: discarded first, then kept for two seconds, within limits."""

Row = tuple[str, float]


def profile_from_rows(iterations: Sequence[Sequence[Row]]) -> LayerProfile:
    """Return the statistics of each layer, in execution order; names may repeat.

    Iterations that report other layers than most of them (a conditional branch) are left out.
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
