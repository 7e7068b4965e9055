"""Arrays for calibration and comparison: from ``.npz``, from images, or random.

Items are divided into batches only here, so that every quantizer gets the same batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtbench.analysis.onnx_graph import RANDOM as RANDOM
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import CalibrationRef, Feed
from trtbench.core.run import Scalar
from trtbench.core.samples import Array
from trtbench.core.spec import BuildSpec, InputSpec, ModelRef, RunSpec, TensorSpec
from trtbench.models import inputs as model_inputs
from trtbench.models.identity import index_limits
from trtbench.models.open_sizes import Settled, settle
from trtbench.tasks import TASKS
from trtbench.tasks._feed import open_feed
from trtbench.tasks.contract import calibration_settings, preparation_from_source

FeedArrays = dict[str, Array]

ITEMS = 256
"""More calibration data hardly changes the scales, and every item costs a run of the network."""
HELD_OUT_SEED = 1_000_003
"""Added to the seed of the random inputs for a comparison: they differ from the calibration's."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """Arrays by input: those with one row per item, and those that are the same for all."""

    rows: FeedArrays
    constant: FeedArrays

    def __len__(self) -> int:
        return min((len(array) for array in self.rows.values()), default=1)

    def part(self, start: int, stop: int) -> Items:
        rows = {name: array[start:stop] for name, array in self.rows.items()}
        return Items(rows=rows, constant=self.constant)

    def feeds(self, *, batch: int, fixed: bool) -> list[FeedArrays]:
        """Return the items in batches; with a fixed batch, an incomplete last one is dropped."""
        if not self.rows:
            return [dict(self.constant)]
        stop = len(self) - len(self) % batch if fixed else len(self)
        return [
            {**{name: a[at : at + batch] for name, a in self.rows.items()}, **self.constant}
            for at in range(0, stop, batch)
        ]


def batch_of(inputs: Sequence[TensorSpec], *, requested: int | None, default: int = 8) -> int:
    """Return the batch of a model: its fixed one, else the requested one.

    It is 1 where an input has its items further back, such as the state of an LSTM.
    """
    further_back = any(map(model_inputs.batch_place, inputs))
    fixed = 1 if further_back else model_inputs.fixed_batch(inputs)
    if fixed is None:
        return requested or default
    if requested is not None and requested != fixed:
        message = f"the model takes batches of {fixed}, not {requested}"
        raise UsageError(message, fix="leave --batch out, or export with a dynamic batch")
    return fixed


def resolved_items(
    inputs: Sequence[TensorSpec],
    shapes: Mapping[str, Sequence[int]],
    *,
    model: Path | str,
    values: Mapping[str, str] | None = None,
) -> Settled:
    """Return inputs with all dimensions but the batch, and a note on those that are assumed."""
    model_inputs.refuse_other_than_tensors(inputs)
    given = model_inputs.with_given_shapes(inputs, shapes, items=True)
    return settle(given, ModelRef(path=str(model), format="onnx"), batch=False, values=values)


def open_items(
    data: object, inputs: Sequence[TensorSpec], *, model: ModelRef, limit: int,
    shapes: Mapping[str, tuple[int, ...]] | None = None, task: str | None = None,
    settings: Mapping[str, Scalar] | None = None, seed: int = 0,
    values: Mapping[str, str] | None = None,
) -> tuple[Items, dict[str, Scalar]]:  # fmt: skip
    """Return items of data, at most as many as the limit, and how their task prepared them.

    Those of a task are in random order, which mixes classes; without data they are random.
    """
    drawn = data in (None, RANDOM)
    limit = max(limit, (drawn and model_inputs.fixed_batch(inputs)) or 0)
    given: dict[str, Scalar] = {**(settings or {}), "data": str(data)}
    feed = Feed(kind="random" if drawn else "arrays", count=limit, seed=seed, settings=given)
    if task is not None:
        known = calibration_settings(TASKS.load(task).FLAGS, {**given, "unlabelled": True})
        feed = Feed(kind="task", task=task, settings=known)
    elif drawn:
        feed = feed.having(limits=dict(index_limits(model)))
    fed = InputSpec(settings={**(values or {})})
    run = RunSpec(model=model, runtime="", shapes=dict(shapes or {}), inputs=fed)
    source = open_feed(feed, inputs, spec=run)
    order = np.arange(len(source.names))
    if task is not None:
        order = np.random.default_rng(seed).permutation(order)
    prepared = [source.prepare(source.load(int(index))) for index in order[:limit]]
    if not prepared:
        fix = "give a folder of images, or an .npz"
        raise InputError(f"there is no calibration data in {data}", fix=fix)
    items = Items(rows={}, constant={})
    for tensor in inputs:
        has_rows = model_inputs.has_rows(tensor, inputs)
        if tensor.name not in prepared[0] or (task is not None and not has_rows):
            message = f"the task {task} has no data for the input {tensor.name!r}"
            raise InputError(message, fix="give an .npz with an array for every input")
        if len({np.shape(each[tensor.name]) for each in prepared}) > 1:
            raise InputError(
                "calibration needs images of one size, but these are prepared to several sizes",
                fix="--fit letterbox",
            )
        own = [each[tensor.name] for each in prepared]
        array = np.stack(own) if has_rows else np.asarray(own[0])
        kept = items.rows if has_rows else items.constant
        kept[tensor.name] = array.astype(tensor.dtype, copy=False)
    return items, preparation_from_source(task or "", source)


def item_limit(spec: BuildSpec) -> int:
    text = spec.options.get("calibration_items", str(ITEMS))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number of items", fix="--opt calibration_items=256")
    return int(text)


def calibration_items(
    spec: BuildSpec, inputs: Sequence[TensorSpec], *, shapes: Mapping[str, tuple[int, ...]]
) -> Items:
    """Read the items of ``spec.calibration``, at most as many as the options allow."""
    source, limit = spec.calibration_arrays or spec.calibration, item_limit(spec)
    return open_items(source, inputs, model=spec.model, limit=limit, shapes=shapes)[0]


def save_feeds(path: Path, feeds: Sequence[FeedArrays]) -> None:
    arrays = {f"{n}/{name}": array for n, feed in enumerate(feeds) for name, array in feed.items()}
    np.savez(path, **arrays)  # type: ignore[arg-type]


class FeedFile:
    """The batches of a file, read one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[int, list[str]] = {}
        with np.load(path, allow_pickle=False) as file:
            for key in file.files:
                index, _, name = key.partition("/")
                self._names.setdefault(int(index), []).append(name)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> FeedArrays:
        with np.load(self._path, allow_pickle=False) as file:
            return {name: file[f"{index}/{name}"] for name in self._names[index]}

    def __iter__(self) -> Iterator[FeedArrays]:
        return (self[index] for index in range(len(self)))


def save_calibration(
    path: Path, items: Items, inputs: Sequence[TensorSpec], *, source: str, batch: int,
    preprocessing: Mapping[str, Scalar], seed: int = 0,
) -> CalibrationRef:  # fmt: skip
    feeds = items.feeds(batch=batch, fixed=model_inputs.fixed_batch(inputs) is not None)
    if not feeds:
        message = "there is less than one full batch of calibration data"
        fix = "give more items, or fewer per batch with --batch N"
        raise InputError(message, facts={"items": len(items), "batch": batch}, fix=fix)
    save_feeds(path, feeds)
    return CalibrationRef(
        source=source,
        kind="random" if source == RANDOM else "images" if preprocessing else "arrays",
        items=len(items),
        batch=batch,
        sha256=feeds_sha256(feeds),
        seed=seed,
        preprocessing=dict(preprocessing),
        file=str(path),
    )


def feeds_sha256(feeds: Sequence[FeedArrays]) -> str:
    """Return a hash of the inputs: names, types, shapes and values, not the file format."""
    digest = hashlib.sha256()
    for feed in feeds:
        for name, array in sorted(feed.items()):
            digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
