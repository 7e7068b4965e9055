"""Depth: one map per image, with or without ground truth, and maps of several models compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from trtbench.analysis.depth import (
    METRICS,
    DepthResult,
    DepthRules,
    judge_map,
    map_differences,
    resize_map,
)
from trtbench.analysis.resample import mean_interval
from trtbench.domain.arrays import AnyArray, Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.domain.result import Scalar, Score
from trtbench.errors import InputError, UsageError
from trtbench.tasks._depth_images import SIZE, DepthImages, draw_depth
from trtbench.tasks._images import chosen_item, normalize_flag, shown_item
from trtbench.tasks.contract import (
    DataSource,
    Flag,
    Judgement,
    Predicted,
    Settings,
    TaskTable,
    Tensors,
)
from trtbench.units import counted, text_from_shape

DRAWS_LATENCY = True
KINDS = ("depth", "inverse", "disparity")
CALLED = ("depth", "disp")
"""What networks call their map, where they hand out a confidence or intrinsics too."""

FLAGS = (
    Flag(name="gt",
         help="Ground truth: .npy .npz .pfm .exr .tiff .png, or a folder named as the images."),
    Flag(name="gt-kind", default="depth", choices=KINDS, help="What the ground truth holds."),
    Flag(name="output-kind", default="inverse", choices=KINDS, help="What the network predicts."),
    Flag(name="align", default="median", choices=("median", "least-squares", "none"),
         help="How predictions are brought to the scale of the truth."),
    Flag(name="space", default="depth", choices=("depth", "inverse"),
         help="What metrics are computed on."),
    Flag(name="min-depth", kind="number", default=1e-3, help="Nearest valid depth."),
    Flag(name="max-depth", kind="number", default=1e5, help="Farthest valid depth."),
    Flag(name="silog-lambda", kind="number", default=0.5, help="Of silog; KITTI has 1."),
    Flag(name="disparity-scale", kind="number", default=1.0, help="Baseline times focal length."),
    Flag(name="gt-scale", kind="number", default=1.0,
         help="What values of the ground truth are divided by (256 for KITTI's PNG)."),
    Flag(name="size", kind="whole", preprocessing=True,
         help=f"Size of the input, where the network leaves it open (default {SIZE})."),
    Flag(name="interpolation", default="bicubic", choices=("bilinear", "bicubic"),
         preprocessing=True, help="How images are scaled."),
    normalize_flag("imagenet"),
    Flag(name="show", help="Name of the image in depth_comparison.png (default: the first)."),
)  # fmt: skip


def open_source(settings: Settings, tensors: Tensors) -> DataSource:
    """Open one image or a folder of them."""
    rules_from_settings(settings)  # what has no meaning is refused before anything is run
    images = DepthImages(settings, tensors)
    chosen_item(images.names, settings.get("show"))
    return images


def decode(outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
    """Find the map among the outputs: one that is called so, else the largest."""
    found: dict[str, AnyArray] = {}
    for name, output in outputs.items():
        rows = np.asarray(output)
        if rows.ndim == 4 and 1 in (rows.shape[1], rows.shape[3]):
            rows = rows[:, 0] if rows.shape[1] == 1 else rows[..., 0]
        if rows.ndim == 3 and rows.dtype.kind == "f":
            found[name] = rows
    if found:
        name = max(found, key=lambda n: (any(w in n.lower() for w in CALLED), found[n].size))
        return {"depth": found[name].astype(np.float32)}
    raise InputError(
        "no output is a depth map",
        facts={name: text_from_shape(each.shape) for name, each in outputs.items()},
    )


def rules_from_settings(settings: Settings) -> DepthRules:
    """Settle how predictions are judged."""
    told = {**settings, "truth_kind": settings.get("gt_kind")}
    names = (each for each in DepthRules.__struct_fields__ if told.get(each) is not None)
    found = msgspec.convert({name: told[name] for name in names}, DepthRules)
    if not 0 < found.min_depth < found.max_depth:
        raise UsageError(
            f"no depth lies between {found.min_depth:g} and {found.max_depth:g}",
            fix="--min-depth 0.001 --max-depth 80",
        )
    return found


@dataclass
class _Tally:
    """What one model got on every image."""

    results: dict[int, DepthResult] = field(default_factory=dict)
    differences: list[dict[str, float]] = field(default_factory=list)


def judge(
    source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
) -> Judgement:
    """Compute metrics of every image, then averaged; differences from the first model; pictures."""
    images = _images(source)
    rules = rules_from_settings(settings)
    tallies = [_Tally() for _ in models]
    for index in range(len(source.names)):
        maps = [model.chunks.rows(index, index + 1)["depth"][0] for model in models]
        truth, reason = images.truth_or_reason(index)
        for tally, own in zip(tallies, maps, strict=True):
            if truth is not None:
                shape = (truth.shape[0], truth.shape[1])
                tally.results[index] = judge_map(resize_map(own, shape), truth, rules)
            elif reason is not None:
                tally.results[index] = DepthResult(metrics=None, reason=reason)
            if tally is not tallies[0]:
                shape = (own.shape[0], own.shape[1])
                if difference := map_differences(resize_map(maps[0], shape), own):
                    tally.differences.append(difference)
    shown, notes = shown_item(source.names, settings.get("show"))
    return Judgement(
        scores=tuple(_scores(tally) for tally in tallies),
        method=rules.words if images.truths else "no ground truth: maps are compared only",
        tables=tuple(_tables(models, tallies, source)),
        pictures=tuple(
            draw_depth(
                images, source, models, [t.results for t in tallies], rules, folder, shown=shown
            )
        ),
        notes=(*source.notes, *notes, *_notes(models, tallies)),
    )


def _images(source: DataSource) -> DepthImages:
    assert isinstance(source, DepthImages)
    return source


def _scores(tally: _Tally) -> tuple[Score, ...]:
    good = [each.metrics for each in tally.results.values() if each.metrics is not None]
    scores = [_score(name, np.array([each[name] for each in good])) for name in METRICS if good]
    for name in ("mae", "rmse", "max_error"):
        values = np.array([each[name] for each in tally.differences])
        if len(values):
            scores.append(_score(f"{name}_to_first", values))
    return tuple(scores)


def _score(metric: str, values: AnyArray) -> Score:
    return Score(
        metric=metric, value=float(values.mean()), interval=mean_interval(values), count=len(values)
    )


def _tables(
    models: Sequence[Predicted], tallies: Sequence[_Tally], source: DataSource
) -> list[TaskTable]:
    tables = []
    rows: tuple[tuple[Scalar, ...], ...]
    if len(models) > 1:
        names = next((list(t.differences[0]) for t in tallies if t.differences), [])
        rows = tuple(
            (model.label, *(float(np.mean([each[n] for each in tally.differences])) for n in names))
            for model, tally in zip(models[1:], tallies[1:], strict=True)
            if tally.differences
        )
        tables.append(
            TaskTable(
                id="to_first",
                title=f"Maps against {models[0].label}, in parts of its range",
                headings=("model", *names),
                rows=rows,
            )
        )
    rows = tuple(
        (source.names[index], model.label, each.valid, each.nonfinite,
         *((each.metrics or {}).get(name) for name in METRICS), each.reason)
        for model, tally in zip(models, tallies, strict=True)
        for index, each in tally.results.items()
    )  # fmt: skip
    if rows:
        heads = ("image", "model", "valid", "not finite", *METRICS, "excluded")
        tables.append(TaskTable(id="images", title="Every image", headings=heads, rows=rows))
    return tables


def _notes(models: Sequence[Predicted], tallies: Sequence[_Tally]) -> list[str]:
    notes = []
    for model, tally in zip(models, tallies, strict=True):
        left_out = [each.reason for each in tally.results.values() if each.metrics is None]
        for reason in sorted({reason for reason in left_out if reason}):
            count = left_out.count(reason)
            notes.append(f"{model.label}: {counted(count, 'image')} excluded: {reason}")
        lost = sum(each.nonfinite for each in tally.results.values())
        if lost:
            notes.append(f"{model.label}: {lost} valid pixels are not finite and were left out")
        if left_out.count("the best fit is upside down"):
            notes.append("does the network predict what --output-kind says?")
    return notes
