"""Depth estimation: maps compared with ground truth, and between models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from trtbench.analysis import scores as scoring
from trtbench.analysis.pass_times import PictureValue, TableValue
from trtbench.analysis.summary import mean_interval
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import LoadedItem
from trtbench.core.run import Scalar, Score
from trtbench.core.samples import AnyArray, Arrays
from trtbench.core.units import counted, text_from_seconds, text_from_shape
from trtbench.host.images import READERS, read_image, read_map, scaled
from trtbench.tasks import _images
from trtbench.tasks.contract import DataSource, Flag, Judgement, Predicted, Settings, Tensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 518
DRAWS_LATENCY = True
KINDS = ("depth", "inverse", "disparity")
MAP_NAMES = ("depth", "disp")  # words in the name of the depth output, if there are several outputs

FLAGS = (
    Flag(name="gt",
         help="Ground truth: .npy .npz .pfm .tiff .png, or a folder with the names of the images."),
    Flag(name="gt-kind", default="depth", choices=KINDS, help="Unit of the ground truth."),
    Flag(name="output-kind", default="inverse", choices=KINDS, help="Unit of the predictions."),
    Flag(name="align", default="median", choices=("median", "least-squares", "none"),
         help="How predictions are scaled to the ground truth."),
    Flag(name="space", default="depth", choices=("depth", "inverse"),
         help="Compute metrics on depth or on inverse depth."),
    Flag(name="min-depth", kind="number", default=1e-3, help="Nearest valid depth."),
    Flag(name="max-depth", kind="number", default=1e5, help="Farthest valid depth."),
    Flag(name="silog-lambda", kind="number", default=0.5, help="Lambda of silog (KITTI uses 1)."),
    Flag(name="disparity-scale", kind="number", default=1.0, help="Baseline times focal length."),
    Flag(name="gt-scale", kind="number", default=1.0,
         help="Divisor for ground-truth values (256 for KITTI's PNG)."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Input size, if it is dynamic in the network (default {SIZE})."),
    _images.interpolation_flag("bicubic"),
    _images.normalize_flag("imagenet"),
    Flag(name="show", help="Name of the image in depth_comparison.png (default: the first)."),
)  # fmt: skip


class DepthImages(_images.ImageFiles):
    """Images, with files of ground truth for some or all of them."""

    def __init__(self, settings: Settings, tensors: Tensors) -> None:
        self.find_files(settings)
        self.settings = settings
        self.set_input(tensors, settings, default=SIZE, fit="stretch")
        truth = settings.get("gt")
        matched = self._match(Path(str(truth))) if truth else {}
        self.truths = {self.paths[index]: file for index, file in matched.items()}
        self.has_truth = bool(self.truths)

    def prepare(self, loaded: _images.Loaded) -> Arrays:
        pixels = scaled(loaded.pixels, self._input.size, how=self._how)
        return {self._input.name: _images.normalized(pixels, self._normalize, self._input)}

    def truth(self, index: int) -> tuple[NDArray[np.float64] | None, str | None]:
        """Return the ground truth of one image, if any, and the reason if it cannot be read."""
        path = self.truths.get(self.paths[index])
        if path is None:
            return None, None
        try:
            values = read_map(path) / float(self.settings.get("gt_scale") or 1.0)
        except InputError as problem:
            return None, f"ground truth: {problem.facts.get('reason') or problem.message}"
        return np.asarray(values, np.float64), None

    def _match(self, path: Path) -> dict[int, Path]:
        """Match images to ground truth by relative path, without file extension."""
        if path.is_file():
            if len(self.paths) != 1:
                raise UsageError("several images need a folder of ground truth", fix="--gt FOLDER")
            return {0: path}
        if not path.is_dir():
            raise InputError(f"no ground truth found at {path}")
        files: dict[str, Path] = {}
        for suffix in reversed(READERS):  # arrays are preferred to pictures
            paths = (each for each in sorted(path.rglob("*")) if each.suffix.lower() == suffix)
            files |= {str(each.relative_to(path).with_suffix("")): each for each in paths}
        files = dict(sorted(files.items()))
        names = [str(Path(name).with_suffix("")) for name in self.names]
        found = {index: files[name] for index, name in enumerate(names) if name in files}
        if not found:
            facts = {"images": self.names[0], "ground truth": next(iter(files), "none")}
            raise InputError("no image has ground truth: the file names do not match", facts=facts)
        used = set(found.values())
        without = [name for index, name in enumerate(self.names) if index not in found]
        unused = [name for name, file in files.items() if file not in used]
        kinds = {"images without ground truth": without, "ground truths without image": unused}
        self.notes = (*self.notes, *_images.missing_notes(kinds))
        return found


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open one image or a folder of them."""
    rules_from_settings(settings)  # raises errors before any model is run
    images = DepthImages(settings, tensors)
    _images.find_item(images.names, settings.get("show"))
    return images


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Return the depth map among the outputs: chosen by name, else the largest."""
    found: dict[str, AnyArray] = {}
    for name, output in outputs.items():
        rows = np.asarray(output)
        if rows.ndim == 4 and 1 in (rows.shape[1], rows.shape[3]):
            rows = rows[:, 0] if rows.shape[1] == 1 else rows[..., 0]
        if rows.ndim == 3 and rows.dtype.kind == "f":
            found[name] = rows
    if found:
        name = max(found, key=lambda n: (any(w in n.lower() for w in MAP_NAMES), found[n].size))
        return {"depth": found[name].astype(np.float32)}
    facts = {name: text_from_shape(each.shape) for name, each in outputs.items()}
    raise InputError("no output is a depth map", facts=facts)


def rules_from_settings(settings: Settings) -> scoring.DepthRules:
    given = {**settings, "truth_kind": settings.get("gt_kind")}
    names = (each for each in scoring.DepthRules.__struct_fields__ if given.get(each) is not None)
    found = msgspec.convert({name: given[name] for name in names}, scoring.DepthRules)
    if not 0 < found.min_depth < found.max_depth:
        message = f"no depth is between {found.min_depth:g} and {found.max_depth:g}"
        raise UsageError(message, fix="--min-depth 0.001 --max-depth 80")
    return found


@dataclass
class _Tally:
    model: Predicted
    results: dict[int, scoring.DepthResult] = field(default_factory=dict)
    differences: list[dict[str, float]] = field(default_factory=list)

    @property
    def metrics(self) -> list[dict[str, float]]:
        return [each.metrics for each in self.results.values() if each.metrics is not None]


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute metrics averaged over images and differences from the first model; draw pictures."""
    assert isinstance(source, DepthImages)
    rules = rules_from_settings(settings)
    tallies = [_Tally(model) for model in models]
    for index in range(len(source.names)):
        maps = [model.chunks.rows(index, index + 1)["depth"][0] for model in models]
        truth, reason = source.truth(index)
        for tally, own in zip(tallies, maps, strict=True):
            if truth is not None:
                shape = (truth.shape[0], truth.shape[1])
                resized = scoring.resize_map(own, shape)
                tally.results[index] = scoring.judge_depth_map(resized, truth, rules)
            elif reason is not None:
                tally.results[index] = scoring.DepthResult(metrics=None, reason=reason)
            if tally is not tallies[0]:
                shape = (own.shape[0], own.shape[1])
                if difference := scoring.map_differences(scoring.resize_map(maps[0], shape), own):
                    tally.differences.append(difference)
    shown, notes = _images.item_to_show(source.names, settings)
    notes = (*source.notes, *notes)
    scores: list[tuple[Score, ...]] = []
    rows: list[tuple[Scalar, ...]] = []
    apart: list[tuple[Scalar, ...]] = []
    for tally in tallies:
        label, apart_by = tally.model.label, tally.differences
        columns = {name: [each[name] for each in tally.metrics] for name in scoring.DEPTH_METRICS}
        for name in ("mae", "rmse", "max_error"):
            columns[f"{name}_to_first"] = [each[name] for each in apart_by]
        scores.append(tuple(
            Score(metric=name, value=float(np.mean(values)),
                  interval=mean_interval(np.array(values)), count=len(values))
            for name, values in columns.items() if values
        ))  # fmt: skip
        if apart_by:
            means = (float(np.mean([each[name] for each in apart_by])) for name in apart_by[0])
            apart.append((label, *means))
        for index, each in tally.results.items():
            values = ((each.metrics or {}).get(name) for name in scoring.DEPTH_METRICS)
            name = source.names[index]
            rows.append((name, label, each.valid, each.nonfinite, *values, each.reason))
        excluded = [each.reason for each in tally.results.values() if each.metrics is None]
        for reason in sorted({reason for reason in excluded if reason}):
            count = counted(excluded.count(reason), "image")
            notes = (*notes, f"{label}: {count} excluded: {reason}")
        if lost := sum(each.nonfinite for each in tally.results.values()):
            notes = (*notes, f"{label}: {lost} valid pixels with NaN or Inf were left out")
        if scoring.NEGATIVE_SCALE in excluded:
            notes = (*notes, "check that --output-kind matches the network's output")
        truth, _ = source.truth(next(iter(tally.results), 0))
        if truth is not None and not any(x.valid or x.nonfinite for x in tally.results.values()):
            ends = f"goes from {np.nanmin(truth):g} to {np.nanmax(truth):g}"
            valid = f"depth is valid from {rules.min_depth:g} to {rules.max_depth:g}"
            check = "check --gt-scale (a divisor) and --gt-kind"
            notes = (*notes, f"the ground truth {ends}, {valid}: {check}")
    tables = []
    if len(tallies) > 1:
        title = f"Difference from {tallies[0].model.label}, as a fraction of its range"
        names = next((list(t.differences[0]) for t in tallies if t.differences), [])
        heads: tuple[str, ...] = ("model", *names)
        tables.append(TableValue(id="to_first", title=title, headings=heads, rows=tuple(apart)))
    if rows:
        heads = ("image", "model", "valid", "not finite", *scoring.DEPTH_METRICS, "excluded")
        tables.append(TableValue(id="images", title="By image", headings=heads, rows=tuple(rows)))
    pictures: tuple[PictureValue, ...] = ()
    if _images.can_draw(source):
        figure = _draw_comparison(source, shown, tallies, rules)
        path = _images.save_figure(figure, folder / "depth_comparison.png")
        pictures = (PictureValue(path=str(path), title=f"Depth: {source.names[shown]}"),)
    method = rules.description if source.truths else "no ground truth: only models are compared"
    return Judgement(
        scores=tuple(scores), method=method, tables=tuple(tables), pictures=pictures, notes=notes
    )


def _draw_comparison(
    images: DepthImages, index: int, tallies: Sequence[_Tally], rules: scoring.DepthRules
) -> Figure:
    truth, _ = images.truth(index)
    picture = read_image(images.paths[index], channels=3)
    shape = (picture.shape[0], picture.shape[1])
    columns = 1 + (truth is not None) + len(tallies)
    figure, axes = _images.make_grid(1, columns, title=images.names[index], shape=shape, lines=5)
    places = iter(axes)
    _images.draw_image(next(places), picture, "image")
    if truth is not None:
        depth = scoring.to_depth(truth, rules.truth_kind, rules.disparity_scale)
        valid = np.isfinite(depth) & (depth > rules.min_depth) & (depth < rules.max_depth)
        with np.errstate(divide="ignore"):
            near = np.where(valid, 1.0 / depth, np.nan)
        _images.draw_image(next(places), near, "ground truth (near is bright)", stretch_to=shape)
    for tally in tallies:
        own = tally.model.chunks.rows(index, index + 1)["depth"][0].astype(np.float64)
        if rules.output_kind == "depth":
            with np.errstate(divide="ignore"):
                own = 1.0 / own
        # Title: the model, its latency, its metrics over all images, and those of this image.
        lines, latency_s = [tally.model.label], tally.model.latency_s
        if latency_s:
            lines.append(f"{text_from_seconds(latency_s)}, {1 / latency_s:.4g} FPS (mean)")
        good, result = tally.metrics, tally.results.get(index)
        if good:
            mean = {name: float(np.mean([each[name] for each in good])) for name in good[0]}
            count = "1 image" if len(good) == 1 else f"mean of {len(good)}"
            lines.append(f"{_format_metrics(mean)}, {count}")
        if result is not None and result.metrics is not None and len(good) > 1:
            lines.append(f"this image: {_format_metrics(result.metrics)}")
        _images.draw_image(next(places), own, "\n".join(lines), stretch_to=shape)
    return figure


def _format_metrics(metrics: Mapping[str, float]) -> str:
    return f"abs_rel {metrics['abs_rel']:.3f}, rmse {metrics['rmse']:.3g}, d1 {metrics['d1']:.1%}"
