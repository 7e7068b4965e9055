"""Arrays for calibration and comparison: from ``.npz``, from images, or random.

Items are divided into batches only here, so that every quantizer gets the same batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import CalibrationRef
from trtbench.core.run import Scalar
from trtbench.core.samples import Array
from trtbench.core.spec import BuildSpec, TensorSpec
from trtbench.host.arrays import read_arrays
from trtbench.models import inputs as model_inputs
from trtbench.models.identity import index_limits
from trtbench.models.onnx_outline import sides_of

FeedArrays = dict[str, Array]

RANDOM = "random"
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
    """Return the batch of a model: its fixed one, else the requested one."""
    fixed = model_inputs.fixed_batch(inputs)
    if fixed is None:
        return requested or default
    if requested is not None and requested != fixed:
        raise UsageError(
            f"the model takes batches of {fixed}, not {requested}",
            fix="leave --batch out, or export with a dynamic batch",
        )
    return fixed


def given_items(
    inputs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]]
) -> list[TensorSpec]:
    """Return inputs with the shapes given for one item; batches and other inputs are kept."""
    given = [
        each.having(
            shape=shapes[each.name]
            if model_inputs.batch_place(each)
            else (each.shape[0], *shapes[each.name][1:])
        )
        if each.name in shapes and each.shape
        else each
        for each in inputs
    ]
    return list(model_inputs.with_same_dims(inputs, given))


def resolved_items(
    inputs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]], *, model: Path | str
) -> tuple[tuple[TensorSpec, ...], str | None]:
    """Return inputs with all dimensions but the batch, and a note on those that are assumed."""
    model_inputs.refuse_other_than_tensors(inputs)
    given = given_items(inputs, shapes)
    settled = model_inputs.with_assumed_shapes(given, batch=False, sides=sides_of(model, given))
    model_inputs.refuse_open(settled, batch=False)
    return settled, model_inputs.assumption(given, settled)


def random_items(
    inputs: Sequence[TensorSpec],
    *,
    count: int,
    seed: int,
    shapes: dict[str, tuple[int, ...]],
    model: Path | str,
    limits: Mapping[str, int] | None = None,
) -> Items:
    """Return seeded random items; dynamic dimensions that were not given are assumed."""
    settled, _ = resolved_items(inputs, shapes, model=model)
    settled = tuple(
        each.having(shape=(count, *each.shape[1:])) if model_inputs.has_rows(was, inputs) else each
        for was, each in zip(inputs, settled, strict=True)
    )
    try:
        arrays = dict(model_inputs.random_inputs(settled, seed=seed, limits=limits))
    except (ValueError, TypeError) as problem:
        raise InputError(
            f"random values cannot be generated: {problem}",
            fix="give an .npz with an array for every input",
        ) from None
    return _divided(arrays, inputs)


def _divided(arrays: FeedArrays, inputs: Sequence[TensorSpec]) -> Items:
    names = {each.name for each in inputs if model_inputs.has_rows(each, inputs)}
    return Items(
        rows={name: array for name, array in arrays.items() if name in names},
        constant={name: array for name, array in arrays.items() if name not in names},
    )


def array_items(source: Path, inputs: Sequence[TensorSpec]) -> Items:
    """Read items from an ``.npz`` or ``.npy``, checked against the inputs."""
    opened = [
        each.having(shape=(None, *each.shape[1:])) if model_inputs.has_rows(each, inputs) else each
        for each in inputs
    ]
    items = _divided(dict(read_arrays(source, opened)), inputs)
    lengths = {name: len(array) for name, array in items.rows.items()}
    if len(set(lengths.values())) > 1 or not all(lengths.values()):
        raise InputError(
            "the arrays do not have the same number of items",
            facts={name: f"{length} items" for name, length in lengths.items()},
            fix="give the same number of items for every input",
        )
    return items


def item_limit(spec: BuildSpec) -> int:
    text = spec.options.get("calibration_items", str(ITEMS))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number of items", fix="--opt calibration_items=256")
    return int(text)


def calibration_items(
    spec: BuildSpec, inputs: Sequence[TensorSpec], *, shapes: Mapping[str, tuple[int, ...]]
) -> Items:
    """Read the items of ``spec.calibration``, at most as many as the options allow."""
    source, count = spec.calibration_arrays or str(spec.calibration), item_limit(spec)
    if source == RANDOM:
        limits = index_limits(spec.model, inputs)
        return random_items(
            inputs, count=count, seed=0, shapes=dict(shapes), model=spec.model.path, limits=limits
        )
    return array_items(Path(source), inputs).part(0, count)


def save_feeds(path: Path, feeds: Sequence[FeedArrays]) -> None:
    arrays = {
        f"{index}/{name}": array for index, f in enumerate(feeds) for name, array in f.items()
    }
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
    path: Path,
    items: Items,
    inputs: Sequence[TensorSpec],
    *,
    source: str,
    batch: int,
    preprocessing: Mapping[str, Scalar],
    seed: int = 0,
) -> CalibrationRef:
    feeds = items.feeds(batch=batch, fixed=model_inputs.fixed_batch(inputs) is not None)
    if not feeds:
        raise InputError(
            "there is less than one full batch of calibration data",
            facts={"items": len(items), "batch": batch},
            fix="give more items, or fewer per batch with --batch N",
        )
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
