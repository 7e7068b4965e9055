"""Classification of images in folders, of arrays, or of skeleton sequences."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.check import RANKS, ClassTally, RankRow, are_probabilities, ranking
from trtbench.analysis.pass_times import PictureValue, TableValue
from trtbench.analysis.scores import agreement, mcnemar, rank_of_label, top_k
from trtbench.core.errors import InputError, UsageError, reading, refuse_unknown
from trtbench.core.results import LoadedItem
from trtbench.core.run import Scalar, Score
from trtbench.core.safety import MAX_BYTES, read_text
from trtbench.core.samples import AnyArray, Arrays
from trtbench.core.spec import TensorSpec
from trtbench.core.units import text_from_shape
from trtbench.host import arrays as array_files
from trtbench.host.images import scaled
from trtbench.tasks import _images
from trtbench.tasks.contract import DataSource, Flag, Judgement, Predicted, Settings, Tensors

FLAGS = (
    Flag(name="labels", help="Class numbers of array items: an .npy or a text file."),
    Flag(name="classes", help="Class list in the network's order: one per line, or JSON."),
    Flag(name="resize", kind="whole", preprocessing=True,
         help="Length the shorter side is scaled to (default: 256 for a crop of 224)."),
    Flag(name="crop", kind="whole", preprocessing=True,
         help="Size of the centre crop (default: the size of the input, else 224)."),
    _images.interpolation_flag("bilinear"),
    _images.normalize_flag("imagenet"),
    Flag(name="show", help="Name of the item whose ten best classes are listed (default: first)."),
    Flag(name="output-name", help="Output with the class scores, if there are several outputs."),
)  # fmt: skip

SIZE = 224
MARGIN = 256 / 224  # default size before the crop, relative to the crop
SEQUENCE = 5  # dimensions of (N, C, T, V, M), the skeleton sequences of ST-GCN
WORST = 8
MOST_CLASSES = 10**9
NO_CLASS = -1  # the predicted class if scores contain NaN or Inf
TOP = 5


class ImageFolder(_images.ImageFiles):
    """Images in one folder per class, like torchvision's ImageFolder."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        self.set_input(tensors, settings, default=SIZE, fit="crop")
        self._crop = self._input.size
        usual = round(min(self._crop) * MARGIN)
        self._resize = int(settings["resize"] or usual)
        if self._resize < min(self._crop):
            message = f"--resize {self._resize} is smaller than the crop of {min(self._crop)}"
            raise UsageError(message, fix=f"--resize {usual}")
        self.preparation = {"fit": "crop", "resize": self._resize, **self.preparation}
        self._classes = settings.get("classes")
        self._stated = {name: n for n, name in _images.stated_classes(settings).items()}
        self.folders: tuple[str, ...] = ()
        root = self.find_files(settings)
        self.labels = None if settings.get("unlabelled") else self._labels(root)

    def prepare(self, loaded: _images.Loaded) -> Arrays:
        # Scale the shorter side, then cut out the centre: torchvision's Resize and CenterCrop.
        high, wide = loaded.pixels.shape[:2]
        short = min(high, wide)
        size = (int(self._resize * high / short), int(self._resize * wide / short))
        size = (self._resize, size[1]) if high <= wide else (size[0], self._resize)
        moved = scaled(loaded.pixels, size, how=self._how)
        missing = [max(0, want - have) for want, have in zip(self._crop, size, strict=True)]
        if any(missing):
            pad = [(gap // 2, gap - gap // 2) for gap in missing]
            moved = np.pad(moved, (*pad, (0, 0)))
        pairs = zip(moved.shape[:2], self._crop, strict=True)
        top, left = (round((have - want) / 2) for have, want in pairs)
        part = moved[top : top + self._crop[0], left : left + self._crop[1]]
        return {self._input.name: _images.normalized(part, self._normalize, self._input)}

    def _labels(self, root: Path) -> NDArray[np.int64]:
        """Return the class of every image: by --classes, the folder's number, or folder order."""
        own = [Path(name).parts[0] if len(Path(name).parts) > 1 else None for name in self.names]
        if None in own:
            facts = {"for example": self.names[own.index(None)]}
            fix = "sort the images into folders; tools/arrange_imagenet.py does it for ImageNet"
            raise InputError("the images are not in one folder per class", facts=facts, fix=fix)
        # An empty folder counts as a class, so that later classes keep their numbers.
        inside = (e.name for e in root.iterdir() if e.is_dir() and not e.name.startswith("."))
        self.folders = tuple(sorted(inside))
        empty = [folder for folder in self.folders if folder not in own]
        self.notes += tuple(_images.missing_notes({"classes without an image": empty}))
        numbers = {folder: index for index, folder in enumerate(self.folders)}
        if self._classes:
            numbers = read_classes(Path(str(self._classes)))
            missing = [folder for folder in self.folders if folder not in numbers]
            if missing:
                facts = {"missing": ", ".join(missing[:5])}
                raise InputError(f"{self._classes} does not list all folders", facts=facts)
        elif {*self.folders} <= {*self._stated}:
            numbers = self._stated
        elif all(folder.isdecimal() for folder in self.folders):
            numbers = {folder: int(folder) for folder in self.folders}
        named = {numbers[folder]: folder for folder in self.folders}
        self.class_names = {number: name for name, number in numbers.items()} | named
        return np.array([numbers[folder] for folder in own if folder], np.int64)

    def check_classes(self, scores: int, model: str = "the network") -> None:
        """Raise an error if the labels do not match the network's number of classes."""
        assert self.labels is not None
        if self.labels.max(initial=0) >= scores:
            message = f"the labels go up to {self.labels.max()}, {model} has {scores} classes"
            raise InputError(message, fix="--classes FILE, with the classes in the network's order")
        by_order = not self._classes and not self.folders[0].isdecimal()
        if by_order and len(self.folders) != scores:
            raise InputError(
                f"{len(self.folders)} folders cannot be matched to {scores} classes by their order",
                facts={"model": model, "folders": ", ".join(self.folders[:3]) + " ..."},
                fix="--classes FILE in the network's order, or folders named by number",
            )


def read_classes(path: Path) -> dict[str, int]:
    """Return class numbers by class name, from JSON or a text file with one class per line.

    JSON is a list, ``{"0": ["n01440764", "tench"]}``, or ``{"n01440764": 0}``.
    """
    with reading(path):
        text = read_text(path, most=MAX_BYTES)
    if path.suffix != ".json":
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        whole = {line: number for number, line in enumerate(lines)}  # "great white shark"
        first = {line.split()[0]: number for line, number in whole.items()}  # "n01440764 tench"
        return whole | first if len(first) == len(whole) else whole
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path} is not JSON", facts={"reason": problem}) from None
    try:
        if isinstance(raw, dict) and raw and all(type(value) is int for value in raw.values()):
            order = {str(name): number for name, number in raw.items()}
        else:
            pairs = enumerate(raw) if isinstance(raw, list) else raw.items()
            order = {str(v[0] if isinstance(v, list) else v): int(number) for number, v in pairs}
        if min(order.values(), default=0) < 0:
            raise ValueError
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        fix = 'write a list, {"0": ["n01440764", "tench"]}, or {"n01440764": 0}'
        raise InputError(f"{path} does not list classes", fix=fix) from None
    return order


class LabelledArrays(DataSource):
    """The rows of an array, each with its class number.

    Items are used unchanged, except skeleton sequences (C, T, V, M): frames and people are cut or
    padded with zeros to the size of the input.
    """

    def __init__(
        self, path: Path, tensors: Tensors, *, labels: str | None, unlabelled: bool = False
    ) -> None:
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._arrays, found = array_files.arrays_by_input(path, tensors)
        if any(array.ndim == 0 for array in self._arrays.values()):
            raise InputError(f"{path} contains a single number, not items")
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            raise InputError("the arrays do not hold the same number of items", facts=counts)
        if labels is not None:
            array_files.check_inputs_exist(Path(labels))
            try:
                if labels.endswith(".npy"):
                    found = array_files.read_npy(Path(labels))
                else:
                    found = np.array(read_text(Path(labels), most=MAX_BYTES).split(), np.int64)
            except array_files.DAMAGE as problem:
                raise InputError(f"{labels} has no labels", facts={"reason": problem}) from None
        count = next(iter(counts.values()))
        if found is not None:
            given = found.reshape(-1)
            if given.size != count:
                message = "the number of labels differs from the number of items"
                raise InputError(message, facts={"items": count, "labels": given.size})
            usable = given.dtype.kind in "iubf" and (np.abs(given) < MOST_CLASSES).all()
            if not usable or (given % 1 != 0).any():
                raise InputError("labels must be integers", facts={"labels": str(given[:5])})
            self.labels = given.astype(np.int64)
        elif not unlabelled:
            facts = {"looked for": ", ".join(array_files.LABELS)}
            fix = "np.savez(file, images=..., labels=...), or --labels labels.npy"
            raise InputError(f"{path.name} has no labels", facts=facts, fix=fix)
        self.names = tuple(f"{path.name}[{index}]" for index in range(count))
        for tensor in tensors:  # only sequences may differ from the input's shape
            wanted, have = tensor.shape[1:], self._arrays[tensor.name].shape[1:]
            if len(wanted) == 3 and len(have) == 2:
                have = (1, *have)
            facts = {"input": f"{tensor.name} {wanted}", "items": str(have)}
            if len(have) != len(wanted):
                raise InputError("the items do not have the rank of the input", facts=facts)
            cut = {1: "frames", 3: "people"} if len(wanted) + 1 == SEQUENCE else {}
            for axis, (want, got) in enumerate(zip(wanted, have, strict=True)):
                if not isinstance(want, int) or want <= 0 or want == got:
                    continue
                if axis not in cut:
                    raise InputError("the items do not have the shape of the input", facts=facts)
                note = f"{cut[axis]}: {got} in the data, {want} in the network; cut or zero-padded"
                self.notes = (*self.notes, note)

    def load(self, index: int) -> LoadedItem:
        return {name: array[self._place(index)] for name, array in self._arrays.items()}

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        item = next(iter(self._arrays.values()))[self._place(index)]
        if item.ndim == 3 and item.shape[0] in (1, 3):
            item = item.transpose(1, 2, 0)
        if item.ndim == 2:
            item = item[:, :, None]
        if item.ndim != 3 or item.shape[2] not in (1, 3):
            return None
        low, high = float(item.min()), float(item.max())
        shown: NDArray[np.uint8] = (255 * (item - low) / ((high - low) or 1.0)).astype(np.uint8)
        return shown

    def prepare(self, loaded: LoadedItem) -> Arrays:
        arrays = {}
        for name, loaded_item in loaded.items():
            item, tensor = np.asarray(loaded_item), self._tensors[name]
            wanted = tensor.shape[1:]
            if len(wanted) == 3 and item.ndim == 2:
                item = item[None]
            if item.dtype == np.uint8 and tensor.dtype.startswith(("float", "bfloat")):
                item = item.astype(np.float32) / np.float32(255)
            frames_and_people = (1, 3) if len(wanted) + 1 == SEQUENCE else ()
            for axis in frames_and_people:
                want = wanted[axis]
                if isinstance(want, int) and want > 0 and item.shape[axis] != want:
                    item = item.take(range(min(want, item.shape[axis])), axis=axis)
                    gap = [(0, 0)] * item.ndim
                    gap[axis] = (0, want - item.shape[axis])
                    item = np.pad(item, gap)
            arrays[name] = np.asarray(item, np.float32) if item.dtype.kind == "f" else item
        return arrays


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open images in folders, or arrays with labels."""
    path = Path(str(settings["data"]))
    if path.is_dir() or path.suffix not in (".npz", ".npy"):
        if not path.exists():
            raise InputError(
                f"no data found at {path}", fix="--data FOLDER with images, or --data FILE.npz"
            )
        images = ImageFolder(settings, tensors)
        _images.find_item(images.names, settings.get("show"))  # raises before any model is run
        return images
    labels = str(settings["labels"]) if settings.get("labels") else None
    return LabelledArrays(path, tensors, labels=labels, unlabelled=bool(settings.get("unlabelled")))


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Return the output with the class scores, one row per item."""
    wanted = settings.get("output_name")
    if wanted:
        said = f"the model has no output {wanted!r}"
        refuse_unknown(str(wanted), outputs, said, listed="outputs", kind=InputError)
    shapes = {name: text_from_shape(outputs[name].shape) for name in outputs}
    # Scores are one vector per item; dimensions of size 1 do not matter.
    dims = {name: [dim for dim in array.shape[1:] if dim != 1] for name, array in outputs.items()}
    chosen = [str(wanted)] if wanted else [
        name for name, array in outputs.items()
        if array.dtype.kind == "f" and len(dims[name]) == 1 and dims[name][0] > 1
    ]  # fmt: skip
    if len(chosen) > 1:
        message = "several outputs could be the class scores"
        raise InputError(message, facts=shapes, fix=f"--output-name {chosen[-1]}")
    rows = np.asarray(outputs[chosen[0]]).reshape(len(loaded), -1) if chosen else np.zeros((1, 1))
    if rows.shape[1] < 2:
        raise InputError("no output contains class scores", facts=shapes)
    return {"scores": rows.astype(np.float32)}


def check_outputs(source: DataSource, outputs: Tensors, settings: Settings, model: str) -> None:
    """Raise an error if no output holds class scores, or not those of all labels."""
    blank, labels = dict[str, AnyArray](), source.labels
    for name, dims, dtype in ((each.name, each.shape[1:], each.dtype) for each in outputs):
        if not dims or not all(isinstance(dim, int) and dim > 0 for dim in dims):
            return  # known once it has run
        blank[name] = np.zeros((1, *map(int, dims)), "f4" if "float" in dtype else "i8")  # type: ignore[arg-type]
    classes = decode(blank, [None], settings)["scores"].shape[1]
    if isinstance(source, ImageFolder):
        source.check_classes(classes, model)
    elif labels is not None and (labels.max(initial=0) >= classes or labels.min(initial=0) < 0):
        ends = f"the labels go from {labels.min()} to {labels.max()}"
        raise InputError(f"{ends}, {model} has {classes} classes")


@dataclass(frozen=True, kw_only=True)
class _Tally:
    ranks: NDArray[np.int64]  # rank of the true class; classes + 1 if scores contain NaN or Inf
    best: NDArray[np.int64]
    confidence: NDArray[np.float64]
    classes: int


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute top-1 and top-5 of every model and its agreement with the first; draw mistakes."""
    labels = source.labels
    assert labels is not None
    tallies = [_tally(model, labels, source) for model in models]
    first = tallies[0]
    scores: list[tuple[Score, ...]] = []
    pairs: list[tuple[Scalar, ...]] = []
    pictures: list[PictureValue] = []
    can_draw = _images.can_draw(source)
    item, notes = _images.item_to_show(source.names, settings)
    notes = (*source.notes, *notes)
    for number, (model, tally) in enumerate(zip(models, tallies, strict=True)):
        own = [top_k(tally.ranks), *([top_k(tally.ranks, k=TOP)] if tally.classes > TOP else [])]
        if number:  # two models without a predicted class do not agree
            same = agreement(first.best, np.where(tally.best == NO_CLASS, -2, tally.best))
            own.append(same)
            test = mcnemar(first.ranks <= 1, tally.ranks <= 1)
            pairs.append((model.label, same.value, test.only_first, test.only_second, test.p,
                          test.difference, test.interval.low, test.interval.high))  # fmt: skip
        scores.append(tuple(own))
        if count := int((tally.best == NO_CLASS).sum()):
            notes = (*notes, f"{model.label}: {count} items with NaN or Inf scores count as wrong")
        # The mistakes with the highest confidence.
        wrong = np.flatnonzero(tally.ranks > 1)
        worst = wrong[np.argsort(-tally.confidence[wrong], kind="stable")][:WORST]
        if not (can_draw and len(worst)) or source.picture(int(worst[0])) is None:
            continue
        title = f"Most confident mistakes of {model.label}"
        figure, axes = _images.make_grid(-(-len(worst) // 4), min(len(worst), 4), title=title)
        for axis, place in zip(axes, worst, strict=False):
            best, sure = tally.best[place], tally.confidence[place]
            said = "no class" if best == NO_CLASS else f"{best} ({sure:.0%})"
            words = f"{Path(source.names[place]).name}\n{said}, is {labels[place]}"
            _images.draw_image(axis, source.picture(int(place)), words)
        path = _images.save_figure(figure, folder / f"classification_worst_{number}.png")
        pictures.append(PictureValue(path=str(path), title=title, model=number))
    tables = [_top_table(models, source, item), _class_table(models, tallies, labels, source)]
    if len(models) > 1:
        heads = ("model", "agreement", "only first right", "only this right", "p", "difference",
                 "low", "high")  # fmt: skip
        title = f"Against {models[0].label}: McNemar's exact test on top-1"
        compared = TableValue(id="mcnemar", title=title, headings=heads, rows=tuple(pairs))
        tables = [compared, *_rank_tables(models), *tables]
    return Judgement(
        scores=tuple(scores),
        method="top-k over all examples, ties to the lower class; Wilson's 95 % intervals",
        tables=tuple(tables), pictures=tuple(pictures), notes=notes,
    )  # fmt: skip


def _tally(model: Predicted, labels: NDArray[np.int64], source: DataSource) -> _Tally:
    parts, classes = [], 0
    for start, arrays in model.chunks:
        scores = arrays["scores"].astype(np.float64)
        classes = scores.shape[1]
        if start == 0:
            scored = TensorSpec(name="scores", dtype="float32", shape=scores.shape)
            check_outputs(source, (scored,), {}, model.label)
        own = labels[start : start + len(scores)]
        lost = (np.isnan(scores) | np.isposinf(scores)).any(axis=1)
        scores[lost] = 0.0
        highest = scores.max(axis=1)
        if not are_probabilities(scores):
            highest = 1.0 / np.exp(scores - highest[:, None]).sum(axis=1)
        ranks = np.where(lost, classes + 1, rank_of_label(scores, own))
        best = np.where(lost, NO_CLASS, scores.argmax(axis=1))
        parts.append((ranks, best, np.where(lost, 0.0, highest)))
    ranks, best, confidence = map(np.concatenate, zip(*parts, strict=True))
    return _Tally(ranks=ranks, best=best, confidence=confidence, classes=classes)


def _class_table(
    models: Sequence[Predicted],
    tallies: Sequence[_Tally],
    labels: NDArray[np.int64],
    source: DataSource,
) -> TableValue:
    rows: list[tuple[Scalar, ...]] = []
    for label in np.unique(labels).tolist():
        own = labels == label
        shares = (float((tally.ranks[own] <= 1).mean()) for tally in tallies)
        rows.append((source.class_names.get(label, str(label)), label, int(own.sum()), *shares))
    return TableValue(
        id="classes",
        title="Top-1 by class, the worst first",
        headings=("class", "label", "examples", *(model.label for model in models)),
        rows=tuple(sorted(rows, key=itemgetter(3))),
    )


def _top_table(models: Sequence[Predicted], source: DataSource, item: int) -> TableValue:
    """List the top classes of one item with their scores, two columns for every model."""
    columns: list[list[Scalar]] = []
    for model in models:
        scores = model.chunks.rows(item, item + 1)["scores"].astype(np.float64)
        best = ranking(scores, min(RANKS, scores.shape[1]))[0]
        columns.append([float(scores[0, each]) for each in best])
        columns.append([source.class_names.get(int(each), int(each)) for each in best])
    heads = [f"{model.label} {what}" for model in models for what in ("score", "class")]
    rows = [(rank, *row) for rank, row in enumerate(zip(*columns, strict=False), start=1)]
    title = f"Best classes of {source.names[item]}"
    return TableValue(id="top", title=title, headings=("rank", *heads), rows=tuple(rows))


def _rank_tables(models: Sequence[Predicted]) -> list[TableValue]:
    """Compare scores and classes by rank with the first model's, of models with as many classes."""
    first, heads, found = models[0], list[str](), list[Sequence[RankRow]]()
    for other in models[1:]:
        tally = ClassTally()
        for start, arrays in first.chunks:
            own = arrays["scores"].astype(np.float64)
            theirs = other.chunks.rows(start, start + len(own))["scores"].astype(np.float64)
            if own.shape != theirs.shape:
                break
            tally.add(own, theirs)
        else:
            found.append(tally.result().ranks)
            heads += [f"{other.label} MAE", f"{other.label} disagree"]
    rows: list[tuple[Scalar, ...]] = []
    for place, row in enumerate(zip(*found, strict=False), start=1):
        cells = (cell for each in row for cell in (each.mae, f"{100 * each.disagree:.2f} %"))
        rows.append((place, *cells))
    title = f"By rank, compared with {first.label}: score error, share of other classes"
    table = TableValue(id="ranks", title=title, headings=("rank", *heads), rows=tuple(rows))
    return [table] if found else []
