"""Images with their ground truth of depth, and sheets that show both beside predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.depth import DepthResult, DepthRules, to_depth
from trtbench.domain.arrays import Arrays
from trtbench.errors import InputError, UsageError
from trtbench.host.images import find_images, read_image, scaled
from trtbench.host.maps import READERS, read_map
from trtbench.tasks._drawing import grid, save, show
from trtbench.tasks._images import ImageFiles, Loaded, names_below, normalized, noted, sized_input
from trtbench.tasks.contract import DataSource, Predicted, Settings, TaskPicture, Tensors
from trtbench.units import text_from_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 518
WORST = 3
SHOWN = ("abs_rel", "rmse", "d1")
"""Metrics in the titles of pictures."""

DepthResults = Mapping[int, DepthResult]
"""Of one model, by image."""


class DepthImages(ImageFiles):
    """Images with the file of their ground truth, where there is one."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        path = Path(str(settings["data"]))
        if not path.exists():
            raise InputError(f"there is no image or folder at {path}")
        takes = sized_input(tensors, asked=settings.get("size"), default=SIZE)
        self.settings = settings
        assert takes.size is not None
        self._how: Literal["bilinear", "bicubic"] = (
            "bilinear" if settings.get("interpolation") == "bilinear" else "bicubic"
        )
        self.settle(
            takes, str(settings.get("normalize") or "imagenet"), fit="stretch",
            size="x".join(map(str, takes.size)), interpolation=self._how,
        )  # fmt: skip
        self.paths = find_images(path) if path.is_dir() else [path]
        self.names = names_below(path, self.paths)
        truth = settings.get("gt")
        matched = self._match(Path(str(truth))) if truth else {}
        self.truths = {self.paths[index]: file for index, file in matched.items()}

    def prepare(self, loaded: Loaded) -> Arrays:
        assert self._takes.size is not None
        pixels = scaled(loaded.pixels, self._takes.size, how=self._how)
        return {self._takes.name: normalized(pixels, self._normalize, self._takes)}

    def truth(self, index: int) -> NDArray[np.float64] | None:
        """Read the ground truth of one image."""
        path = self.truths.get(self.paths[index])
        if path is None:
            return None
        values = read_map(path) / float(self.settings.get("gt_scale") or 1.0)
        return np.asarray(values, np.float64)

    def truth_or_reason(self, index: int) -> tuple[NDArray[np.float64] | None, str | None]:
        """Read a ground truth, or say why it cannot be."""
        try:
            return self.truth(index), None
        except InputError as problem:
            return None, f"ground truth: {problem.facts.get('reason') or problem.message}"

    def _match(self, path: Path) -> dict[int, Path]:
        """Pair images and truths by their names without endings; the rest is named.

        Names are ways below the two folders, so that a/1.png gets a/1.npy; where no way fits, the
        last part alone has to, and must say which.
        """
        if path.is_file():
            if len(self.paths) != 1:
                raise UsageError("one ground truth, and several images", fix="--gt FOLDER")
            return {0: path}
        if not path.is_dir():
            raise InputError(f"there is no ground truth at {path}")
        files = truth_files(path)
        names = [str(Path(name).with_suffix("")) for name in self.names]
        found = {index: files[name] for index, name in enumerate(names) if name in files}
        if not found:
            found = self._match_last_parts(files)
        used = set(found.values())
        without = [name for index, name in enumerate(self.names) if index not in found]
        unused = [name for name, file in files.items() if file not in used]
        for what, rest in (("images without ground truth", without),
                           ("ground truths without image", unused)):  # fmt: skip
            if rest:
                self.notes = (*self.notes, noted(what, rest))
        if not found:
            raise InputError(
                "no ground truth belongs to any image: names do not match",
                facts={"images": self.names[0], "ground truth": next(iter(files), "none")},
            )
        return found

    def _match_last_parts(self, files: Mapping[str, Path]) -> dict[int, Path]:
        """Pair by the last part of the names, for folders that are arranged differently."""
        last = [Path(name).name for name in files]
        own = [path.stem for path in self.paths]
        for names in (last, own):
            double = next((name for name in names if names.count(name) > 1), None)
            if double is not None and double in {*last} & {*own}:
                raise InputError(
                    "images and ground truth are in different folders, and a name is there twice",
                    facts={"name": double},
                    fix="arrange the ground truth in the folders of the images",
                )
        by_name = {Path(name).name: file for name, file in files.items()}
        return {index: by_name[stem] for index, stem in enumerate(own) if stem in by_name}


def truth_files(folder: Path) -> dict[str, Path]:
    """List truths by their way below a folder, without ending; arrays come before pictures."""
    found: dict[str, Path] = {}
    for suffix in reversed(READERS):
        paths = (each for each in sorted(folder.rglob("*")) if each.suffix.lower() == suffix)
        found |= {str(each.relative_to(folder).with_suffix("")): each for each in paths}
    return dict(sorted(found.items()))


def draw_depth(
    images: DepthImages,
    source: DataSource,
    models: Sequence[Predicted],
    results: Sequence[DepthResults],
    rules: DepthRules,
    folder: Path,
    *,
    shown: int,
) -> list[TaskPicture]:
    """Draw the image that was chosen, and those that the last model is worst on; none twice."""
    if source.scores_only:
        return []
    good = {i: each.metrics for i, each in results[-1].items() if each.metrics}
    worst = sorted((i for i in good if i != shown), key=lambda index: -good[index]["abs_rel"])
    chosen = {"depth_comparison.png": shown}
    chosen |= {f"depth_worst_{place}.png": item for place, item in enumerate(worst[:WORST])}
    pictures = []
    for name, index in chosen.items():
        figure = _sheet(images, index, models, results, rules, name=source.names[index])
        title = "Depth" if index == shown else f"Worst image of {models[-1].label}"
        path = save(figure, folder / name)
        pictures.append(TaskPicture(path=path, title=f"{title}: {source.names[index]}"))
    return pictures


def _sheet(
    images: DepthImages,
    index: int,
    models: Sequence[Predicted],
    results: Sequence[DepthResults],
    rules: DepthRules,
    *,
    name: str,
) -> Figure:
    truth, _ = images.truth_or_reason(index)
    picture = read_image(images.paths[index], channels=3)
    shape = (picture.shape[0], picture.shape[1])
    columns = 1 + (truth is not None) + len(models)
    figure, axes = grid(1, columns, title=name, shape=shape, lines=5)
    places = iter(axes[0])
    show(next(places), picture, "image")
    if truth is not None:
        depth = to_depth(truth, rules.truth_kind, rules.disparity_scale)
        valid = np.isfinite(depth) & (depth > rules.min_depth) & (depth < rules.max_depth)
        with np.errstate(divide="ignore"):
            shown = np.where(valid, 1.0 / depth, np.nan)
        show(next(places), shown, "ground truth (near is bright)", kind="map", shape=shape)
    for model, own_results in zip(models, results, strict=True):
        own = model.chunks.rows(index, index + 1)["depth"][0].astype(np.float64)
        if rules.output_kind == "depth":
            with np.errstate(divide="ignore"):
                own = 1.0 / own
        show(next(places), own, _title(model, own_results, index), kind="map", shape=shape)
    return figure


def _title(model: Predicted, results: DepthResults, index: int) -> str:
    """Name a model, how fast it is, and how right: over all images, then on this one."""
    lines = [model.label]
    if model.latency_s:
        lines.append(f"{text_from_seconds(model.latency_s)}, {1 / model.latency_s:.4g} FPS (mean)")
    good = [each.metrics for each in results.values() if each.metrics is not None]
    if good:
        mean = {name: float(np.mean([each[name] for each in good])) for name in SHOWN}
        lines.append(f"{_metrics(mean)}, {_count(len(good))}")
    own = results.get(index)
    if own is not None and own.metrics is not None and len(good) > 1:
        lines.append(f"this one: {_metrics(own.metrics)}")
    return "\n".join(lines)


def _metrics(metrics: Mapping[str, float]) -> str:
    return f"abs_rel {metrics['abs_rel']:.3f}, rmse {metrics['rmse']:.3g}, d1 {metrics['d1']:.1%}"


def _count(images: int) -> str:
    return "1 image" if images == 1 else f"mean of {images}"
