"""Opens the items that a model is run on: random ones, those of a file, or those of a task."""

import math
import re
import shutil
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from trtbench.analysis.onnx_graph import PREFIX, PREPARATION, RANDOM, preparation_from_text
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import Feed, InferOutcome, LoadedItem
from trtbench.core.run import Scalar
from trtbench.core.samples import Array, Arrays
from trtbench.core.spec import ModelRef, RunSpec, TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host.arrays import Chunks, ChunkWriter, arrays_by_input, check_arrays
from trtbench.host.images import SUFFIXES
from trtbench.models import inputs as model_inputs
from trtbench.models.identity import known_outline, record_of_engine
from trtbench.models.open_sizes import settle
from trtbench.tasks import TASKS
from trtbench.tasks.contract import DataSource, Predicted, Settings, Tensors, settings_with_defaults

_SEED_STRIDE = 2**32
"""Every item has its own seed, so that items do not depend on the batch size.

Inputs without a batch dimension use the seed of the first item."""

ULTRALYTICS = {
    "detect": "detection", "segment": "detection", "obb": "detection", "pose": "pose",
    "classify": "classification",
}  # fmt: skip
"""Tasks that prepare images as Ultralytics does, by its names."""

SIZE = re.compile(r"[1-9]\d{0,3}x[1-9]\d{0,3}")  # of images


def preparation_of_model(model: ModelRef) -> dict[str, Scalar]:
    """Return how the calibration images of a model were prepared; empty if unknown."""
    record, outline = record_of_engine(model), known_outline(model)
    if record is not None:
        return preparation_from_text(record.facts.get(PREPARATION))
    return preparation_from_text(outline.metadata.get(PREFIX + PREPARATION) if outline else None)


def stated_settings(model: ModelRef) -> dict[str, Scalar]:
    """Return the task and settings that a model's metadata or record states; empty if none.

    How its calibration images were prepared comes first, then what Ultralytics stores.
    """
    outline, found = known_outline(model), dict[str, Scalar]()
    metadata = outline.metadata if outline else {}
    if task := ULTRALYTICS.get(metadata.get("task", "")):
        found = {"task": task, "normalize": "none"}
        if outline and (sides := outline.sides):
            found |= {"usual_size": text_from_shape(sides), "resize": min(sides)}
        if metadata.get("names"):
            found["names"] = metadata["names"]
    if (known := preparation_of_model(model)).get("task") in TASKS.names():
        size = str(known.get("size") or known.get("crop"))
        found |= {**known, **({"usual_size": size} if SIZE.fullmatch(size) else {})}
    return found


def settled_task(
    task: str | None, given: Settings, models: Iterable[ModelRef]
) -> tuple[str | None, dict[str, Scalar]]:
    """Return the task and the settings that were given or that the first model to do so states.

    Another task than the stated one takes only the size of its images.
    """
    stated = next(filter(None, map(stated_settings, models)), {})
    chosen = task or stated.get("task")
    if chosen is None:
        return None, dict(given)
    known: dict[str, Scalar] = {"usual_size": stated.get("usual_size")}
    if chosen == stated.get("task"):
        known["names"] = stated.get("names")
        for flag in (each for each in TASKS.load(str(chosen)).FLAGS if each.preprocessing):
            value, kind = stated.get(flag.key), int if flag.kind == "whole" else str
            if value in flag.choices if flag.choices else isinstance(value, kind):
                known[flag.key] = value
    for key in ("size", "crop", *(["resize"] if given.get("crop") else [])):
        known.pop(key, None)  # usual_size has it
    known |= {key: value for key, value in given.items() if value is not None}
    return str(chosen), {key: value for key, value in known.items() if value is not None}


def are_images(data: object) -> bool:
    """Whether data are images: one, a folder of them, or those listed in a data.yaml."""
    path = Path(str(data))
    return data != RANDOM and (path.is_dir() or path.suffix.lower() in (".yaml", ".yml", *SUFFIXES))


def task_of_data(
    data: object, task: str | None, given: Settings, models: Iterable[ModelRef], usual: str = ""
) -> tuple[str | None, dict[str, Scalar]]:
    """Return the task that prepares data, ``None`` for arrays and random items, and its settings.

    Images whose task neither a flag nor a model says, nor the ``usual`` one, are an error.
    """
    if task is not None and data in (None, RANDOM):
        raise UsageError("--task needs images to prepare", fix="--data FOLDER")
    if data is None or (task is None and not are_images(data)):
        return None, {}
    chosen, settings = settled_task(task, given, models)
    if not (chosen or usual):
        fix = f"--task {' or --task '.join(TASKS.names())}: it is prepared as for eval"
        raise UsageError(f"{Path(str(data)).name} needs --task to become an input", fix=fix)
    return chosen or usual, settings


def task_feed(
    task: str, settings: Settings, *, count: int | None = None, open_batch: int | None = None,
    seed: int = 0,
) -> Feed:  # fmt: skip
    """Return the items of a task, with the defaults of its settings."""
    known = settings_with_defaults(TASKS.load(task).FLAGS, settings)
    own = Feed(kind="task", task=task, settings=known, count=count, open_batch=open_batch)
    return own.having(seed=seed)


def open_feed(feed: Feed, tensors: Tensors, *, spec: RunSpec) -> DataSource:
    """Return the items as inputs for a model with these tensors."""
    model_inputs.refuse_other_than_tensors(tensors)
    names = dict.fromkeys((*(tensor.name for tensor in tensors), *(feed.names or ())))
    model_inputs.refuse_unknown_inputs({**spec.inputs.values, **spec.shapes}, [*names])
    settled = model_inputs.with_given_shapes(tensors, spec.shapes, items=True)
    if feed.kind == "task":
        assert feed.task is not None
        source: DataSource = TASKS.load(feed.task).open_source(feed.settings, settled)
        return source.part(range(min(feed.count, len(source.names)))) if feed.count else source
    # Maps the model's input names to those of the items: by name, else by position.
    own, theirs = [tensor.name for tensor in settled], feed.names or ()
    if theirs and len(own) != len(theirs):
        facts = {"reference": ", ".join(theirs), "this model": ", ".join(own)}
        fix = "compare a model with one that was converted from it"
        raise UsageError("the models do not have the same inputs", facts=facts, fix=fix)
    same = not theirs or set(own) == set(theirs)
    known = dict(zip(own, own if same else theirs, strict=True))
    rows = {each.name for each in tensors if model_inputs.has_rows(each, tensors)}
    if feed.kind == "random":
        return RandomItems(feed, settled, known, rows, spec)
    return ArrayItems(feed, settled, known, rows)


def items_of_pass(source: DataSource, outcome: InferOutcome) -> DataSource:
    """Return the items that a model was run on, without those that could not be read."""
    lost = {each.place for each in outcome.unreadable}
    left = [place for place in range(len(source.names)) if place not in lost]
    return source.part(left) if lost else source


def image_inputs(spec: RunSpec, tensors: Tensors) -> dict[str, Array]:
    """Return the inputs of a run on images: the first ones, repeated to fill the batch."""
    settings = {**spec.inputs.settings, "data": spec.inputs.source, "unlabelled": True}
    images = open_feed(task_feed(str(spec.inputs.task), settings), tensors, spec=spec)
    items: list[Arrays] = []
    found = {}
    for tensor in tensors:
        lead = tensor.shape[0]
        count = lead if isinstance(lead, int) and lead > 0 else spec.batch or 1
        try:
            while len(items) < min(count, len(images.names)):
                items.append(images.prepare(images.load(len(items))))
            typed = np.stack([item[tensor.name] for item in items]).astype(tensor.dtype)
        except TypeError:
            raise InputError(
                f"an image cannot be converted to {tensor.dtype}, the type of input {tensor.name!r}"
            ) from None
        found[tensor.name] = np.resize(typed, (count, *typed.shape[1:]))
    return found


class RandomItems(DataSource):
    """Random items, each drawn from its own seed."""

    drawn = True

    def __init__(
        self, feed: Feed, tensors: Tensors, known: dict[str, str], rows: Collection[str],
        spec: RunSpec,
    ) -> None:  # fmt: skip
        self._feed, self._known, self._rows = feed, known, rows
        settled = settle(tensors, spec.model, batch=False, values=spec.inputs.values)
        if feed.bounds is not None:  # they replace ranges that were only guessed
            own = {k: v for k, v in settled.values.items() if ".." not in v}
            settled = settled.having(values={**own, **spec.inputs.values})
        whole = settled.tensors
        self._items = [t.having(shape=t.shape[1:]) if t.name in rows else t for t in whole]
        self._values = {known.get(name, name): value for name, value in settled.values.items()}
        self._given = {known.get(name, name) for name in spec.inputs.values}
        self.names = tuple(f"random {i}" for i in range(feed.count or 1))
        self.notes = settled.notes

    def load(self, index: int) -> LoadedItem:
        return self._feed.seed * _SEED_STRIDE + self._place(index)

    def prepare(self, loaded: LoadedItem) -> Arrays:
        shared = self._feed.seed * _SEED_STRIDE if self._rows else loaded
        return {
            item.name: self._draw(item, seed=loaded if item.name in self._rows else shared)
            for item in self._items
        }

    def _draw(self, item: TensorSpec, *, seed: int) -> Array:
        name, ends = self._known[item.name], self._feed.bounds
        value, limit = self._values.get(name), self._feed.limits.get(name)
        if limit is not None and name not in self._given:  # of the smallest table of all models
            value = model_inputs.rows_as_value(limit)
        is_float = item.dtype in ("bfloat16", "float16", "float32", "float64")
        # A network in FP16 must get the same values as the one in FP32, rounded.
        wanted = item.having(name=name, dtype="float32" if is_float else item.dtype)
        if is_float and self._feed.distribution == "normal" and value is None:
            low, high = ends or (-3.0, 3.0)
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            shape = tuple(int(dim) for dim in wanted.shape if isinstance(dim, int))
            middle, deviation = (low + high) / 2, (high - low) / 6
            return (middle + deviation * rng.standard_normal(shape)).astype(np.float32)
        if ends is not None and name not in self._given and (value is None or limit is not None):
            low, high = ends
            if not is_float:  # both ends are included
                kind = np.iinfo(item.dtype)
                low = max(math.ceil(low), 0 if limit is not None else kind.min)
                high = min(math.floor(high), kind.max if limit is None else limit - 1)
            if low > high:
                raise UsageError(
                    f"there is no whole number from {ends[0]:g} to {ends[1]:g} "
                    f"for the input {name!r}",
                    facts={} if limit is None else {"allowed": f"0 to {limit - 1}"},
                    fix="--range 0:1",
                )
            value = f"{low}..{high}"
        known = {} if value is None else {name: value}
        return model_inputs.random_inputs((wanted,), seed=seed, values=known)[name]


class ArrayItems(DataSource):
    """The rows of an ``.npz`` or an ``.npy``."""

    def __init__(
        self, feed: Feed, tensors: Tensors, known: dict[str, str], rows: Collection[str]
    ) -> None:
        path = Path(str(feed.settings["data"]))
        wanted = [
            tensor.having(
                name=known[tensor.name],
                shape=(None, *tensor.shape[1:]) if tensor.name in rows else tensor.shape,
            )
            for tensor in tensors
        ]
        arrays, _ = arrays_by_input(path, wanted)
        for place, each in enumerate(wanted):  # the file may have floats of another type
            stored = str(arrays[each.name].dtype)
            if each.dtype.startswith("float") and stored.startswith("float"):
                wanted[place] = each.having(dtype=stored)
        check_arrays(arrays, wanted, path)
        self._arrays = {own: arrays[name] for own, name in known.items()}
        self._rows = rows
        counts = {name: len(self._arrays[name]) for name in self._rows}
        if len(set(counts.values())) > 1 or not all(counts.values()):
            raise InputError(
                "the inputs do not hold the same number of items",
                facts={name: f"{count} items" for name, count in counts.items()},
                fix="store the same number of items for every input",
            )
        count = next(iter(counts.values()), 1)
        self.names = tuple(f"item {index}" for index in range(min(count, feed.count or count)))

    def load(self, index: int) -> LoadedItem:
        return self._place(index)

    def prepare(self, loaded: LoadedItem) -> Arrays:
        return {
            name: array[loaded] if name in self._rows else array
            for name, array in self._arrays.items()
        }


class TaskJudge:
    """Collects the outputs of one model batch by batch, then computes its scores."""

    def __init__(
        self, feed: Feed, source: DataSource, folder: Path, *, intervals: bool = False
    ) -> None:
        assert feed.task is not None
        self._task, self._settings = TASKS.load(feed.task), feed.settings
        self._source, self._folder = source, folder
        source.scores_only, self._intervals = not intervals, intervals
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._writer = ChunkWriter(folder)

    def add(self, outputs: Arrays, loaded: Sequence[object]) -> None:
        decoded = self._task.decode(outputs, loaded, settings=self._settings)
        self._writer.add(decoded, items=len(loaded))

    def scores(self) -> dict[str, float]:
        """Return the score for every metric of the task, and its interval as ``top1_low``."""
        self._writer.flush()
        model = Predicted(label="model", chunks=Chunks(self._folder))
        judgement = self._task.judge(self._source, [model], self._settings, folder=self._folder)
        found = {score.metric: score.value for score in judgement.scores[0]}
        for metric, ends in ((score.metric, score.interval) for score in judgement.scores[0]):
            if ends is not None and self._intervals:
                found |= {f"{metric}_low": ends.low, f"{metric}_high": ends.high}
        return found
