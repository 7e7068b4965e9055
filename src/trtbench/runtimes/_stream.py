"""Runs a model over every item of a source, batch by batch, and times it.

Load, preprocess, inference and postprocess are timed separately, in the same pass; outputs go to
disk in chunks, so that memory is bounded. The last batch may be shorter.
"""

import hashlib
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.pass_times import PARTS
from trtbench.core.errors import InputError
from trtbench.core.jobs import Stage
from trtbench.core.results import InferOutcome, LoadedItem, Unreadable
from trtbench.core.samples import Arrays
from trtbench.core.spec import RunSpec, TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host.arrays import ChunkWriter
from trtbench.models.inputs import fixed_batch, has_rows
from trtbench.runtimes._session import Session, at_end, inputs_error, raise_if_out_of_memory

TIMES = "times.npz"

Outputs = dict[str, NDArray[np.generic]]
Decode = Callable[[Arrays, Sequence[LoadedItem]], Arrays]


class ItemSource(Protocol):
    names: tuple[str, ...]
    notes: tuple[str, ...]
    drawn: bool  # whether the items are random, and not read from files

    def load(self, index: int) -> LoadedItem: ...

    def prepare(self, loaded: LoadedItem) -> Arrays: ...


def stream(
    open_session: Callable[[RunSpec], Session],
    spec: RunSpec,
    *,
    open_source: Callable[[tuple[TensorSpec, ...]], ItemSource],
    decode: Decode | None,
    folder: Path,
    stage: Stage,
    open_batch: int | None = None,
) -> InferOutcome:
    """Run all items; writes chunks of outputs, decoded or raw, and the times to the folder."""
    stage("load")
    began = time.perf_counter()
    session = open_session(spec)
    load_s = time.perf_counter() - began
    try:
        source = open_source(session.inputs)
        if not source.names:
            raise InputError("the data contain no items", fix="give data with at least one item")
        stage("measure")
        size = _batch_size(session.inputs, spec, open_batch)
        work = _Pass(session, source, decode, size=size)
        work.run(folder, stage.progress)
        session.observe()
        left_out = (f"the output {name} was left out: {why}" for name, why in work.left_out.items())
        return InferOutcome(
            items=len(source.names) - len(work.unreadable),
            unreadable=tuple(work.unreadable),
            batch=size,
            load_s=load_s,
            inputs=session.inputs,
            outputs=tuple(each for each in session.outputs if each.name not in work.left_out),
            inputs_sha256=work.digest.hexdigest(),
            conditions=session.conditions,
            facts={**session.evidence, **session.observe_after()},
            notes=(*session.notes, *source.notes, *left_out),
        )
    finally:
        at_end[0](session)


class _Pass:
    def __init__(
        self, session: Session, source: ItemSource, decode: Decode | None, *, size: int
    ) -> None:
        self.session, self.source, self.decode, self.size = session, source, decode, size
        self.digest = hashlib.sha256()
        self.left_out: dict[str, str] = {}
        self.unreadable: list[Unreadable] = []
        self._rows = {tensor.name for tensor in session.inputs if has_rows(tensor, session.inputs)}
        self._columns = {name: array("d") for name in ("items", *PARTS)}

    def run(self, folder: Path, progress: Callable[[float, str], None]) -> None:
        writer = ChunkWriter(folder)
        count = len(self.source.names)
        for start in range(0, count, self.size):
            stop = min(start + self.size, count)
            begun = time.perf_counter()
            loaded = []
            for place in range(start, stop):
                try:
                    loaded.append(self.source.load(place))
                except InputError as problem:  # unreadable items are listed and left out
                    reason = str(problem.facts.get("reason") or problem.message)
                    name = self.source.names[place]
                    self.unreadable.append(Unreadable(place=place, name=name, reason=reason))
            if loaded:
                decoded = self._run_batch(loaded, time.perf_counter() - begun)
                writer.add(decoded, items=len(loaded))
            progress(stop / count, f"{stop} of {count} items")
        writer.flush()
        if len(self.unreadable) == count:
            first = self.unreadable[0]
            facts = {"items": count, first.name: first.reason}
            raise InputError("no item can be read", facts=facts)
        columns = {name: np.array(column) for name, column in self._columns.items()}
        np.savez(folder / TIMES, **columns)  # type: ignore[arg-type]

    def _run_batch(self, loaded: list[LoadedItem], load: float) -> Arrays:
        count, begun = len(loaded), time.perf_counter()
        items = [self.source.prepare(each) for each in loaded]
        feed = {tensor.name: self._stack(tensor, items) for tensor in self.session.inputs}
        preprocess = time.perf_counter() - begun
        for each in (values for item in items for values in item.values()):
            self.digest.update(np.ascontiguousarray(each).tobytes())
        begun = time.perf_counter()
        outputs, padded, model_s = self._infer(feed, count)
        inference = time.perf_counter() - begun
        rows = self._rows_of(outputs, count, padded)
        begun = time.perf_counter()
        decoded = self.decode(rows, loaded) if self.decode else rows
        row = (count, load, preprocess, inference, model_s, time.perf_counter() - begun)
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        return decoded

    def _stack(self, tensor: TensorSpec, items: Sequence[Arrays]) -> NDArray[np.generic]:
        if tensor.name not in items[0]:
            message = f"there is no array for the input {tensor.name!r}"
            fix = f"name an array {tensor.name}, like the input"
            raise InputError(message, facts={"arrays": ", ".join(items[0])}, fix=fix)
        if tensor.name not in self._rows:
            values = np.asarray(items[0][tensor.name])
        else:
            shapes = {np.shape(item[tensor.name]) for item in items}
            if len(shapes) > 1:
                raise InputError(
                    f"the items of a batch differ in size, for the input {tensor.name!r}",
                    facts={"sizes": ", ".join("x".join(map(str, each)) for each in sorted(shapes))},
                    fix="--batch 1, or a preparation that gives all items the same size",
                )
            values = np.stack([item[tensor.name] for item in items])
        if tensor.dtype == "bfloat16" and values.dtype.kind == "f":
            # numpy has no bfloat16: its bits are passed as uint16.
            bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
            rounded = bits + 0x7FFF + ((bits >> 16) & 1)
            return (rounded >> 16).astype(np.uint16)
        if tensor.dtype.startswith(("str", "float8", "bfloat16")):
            return np.ascontiguousarray(values)
        return np.ascontiguousarray(values, dtype=tensor.dtype)

    def _infer(self, feed: Outputs, length: int) -> tuple[Outputs, int, float]:
        """Run one batch; if the model does not accept a short one, its last item is repeated."""

        def run(feed: Outputs, length: int) -> tuple[Outputs, int, float]:
            self.session.bind(feed)
            outputs, span = self.session.fetch_with_span()
            return outputs, length, span

        try:
            if length == self.size or not fixed_batch(self.session.inputs):
                try:
                    return run(feed, length)
                except InputError:
                    if length == self.size:
                        raise
            # The smallest batch of an engine's profile may be larger than the last batch.
            full = {
                name: np.concatenate([each, np.repeat(each[-1:], self.size - length, axis=0)])
                if name in self._rows
                else each
                for name, each in feed.items()
            }
            return run(full, self.size)
        except InputError:
            raise
        except Exception as problem:
            raise_if_out_of_memory(problem)
            shown = tuple(
                TensorSpec(name=name, dtype=str(array.dtype), shape=array.shape)
                for name, array in feed.items()
            )
            drawn = self.source.drawn
            raise inputs_error(problem, shown, is_random=drawn, ranged=drawn) from None

    def _rows_of(self, outputs: Outputs, length: int, padded: int) -> Outputs:
        """Return outputs with one row per item; raises if no output has that."""
        found = {}
        for name, each in outputs.items():
            rows = _per_item(each, length, padded)
            if rows is None:
                shape = text_from_shape(each.shape)
                self.left_out.setdefault(
                    name,
                    "it contains text"
                    if each.dtype.kind not in "biufc"
                    else f"{shape} is not one row per item of a batch of {padded}; "
                    "--batch 1 keeps it",
                )
            elif name not in self.left_out:
                found[name] = rows
        if not found:
            message = "no output has one row of numbers per item"
            raise InputError(message, facts=self.left_out, fix="--batch 1" if padded > 1 else None)
        return found


def _batch_size(tensors: tuple[TensorSpec, ...], spec: RunSpec, open_batch: int | None) -> int:
    """Return the number of items of a query; 1 if no input has one row per item."""
    rows = [each for each in tensors if has_rows(each, tensors)]
    given = next((spec.shapes[each.name] for each in rows if each.name in spec.shapes), ())
    fixed = fixed_batch(tensors) if rows else 1
    if fixed is not None and spec.batch not in (None, fixed):
        message = "no input has a batch as its first dimension, so items run one by one"
        if rows:
            whose = "--shape" if given[:1] == (fixed,) else "the model"
            message = f"the batch of {whose} is fixed at {fixed}"
        fix = "leave out --batch, or export the model with a dynamic first dimension"
        raise InputError(message, facts={"requested": f"--batch {spec.batch}"}, fix=fix)
    return fixed or spec.batch or (given[0] if given else None) or open_batch or 1


def _per_item(output: NDArray[np.generic], length: int, padded: int) -> NDArray[np.generic] | None:
    """Return an output with one row per item; ``None`` if its shape does not allow that."""
    if output.dtype.kind not in "biufc":
        return None
    if output.ndim and output.shape[0] == padded:
        return output[:length]
    if padded == 1:
        return output[None]
    if output.ndim and output.shape[0] % padded == 0:
        return output.reshape(padded, output.shape[0] // padded, *output.shape[1:])[:length]
    return None
