"""Of which scores less is better, by their names; and whether scores are of what a run measured."""

from __future__ import annotations

from trtbench.domain.labels import may_be_alike
from trtbench.domain.result import RunRecord, Scores, precision_of
from trtbench.units import text_from_shape

LESS_IS_BETTER = ("abs_rel", "sq_rel", "rmse", "mae", "log10", "silog", "error", "loss", "max_abs")
"""How names of metrics begin or end for which a small number is a good one."""


SHARES = ("top", "agreement", "cov", "pck", "ap", "ar", "map", "oks", "iou", "delta")
"""How names of metrics begin that are parts of a whole, from 0 to 1."""


def is_share(metric: str) -> bool:
    """Tell whether a metric is a part of a whole, which people read in per cent."""
    return metric.lower().startswith(SHARES)


def less_is_better(metric: str) -> bool:
    """Tell whether a small number is a good one."""
    name = metric.lower().removesuffix("_to_first")
    return any(name.startswith(word) or name.endswith(word) for word in LESS_IS_BETTER)


def judged_otherwise(record: RunRecord, scores: Scores) -> str | None:
    """Say why scores are not of what a run measured: the same bytes may be run in several ways.

    ``None`` where nothing is known against it.
    """
    ran = precision_of(record)
    if not may_be_alike(ran, scores.precision):
        return f"{scores.precision} was judged, and {ran} was measured"
    size = scores.preparation.get("size") or scores.preparation.get("crop")
    images = [each.shape for each in record.inputs if len(each.shape) == 4]
    sizes = [text_from_shape(part) for shape in images for part in (shape[2:], shape[1:3])]
    varies = scores.preparation.get("fit") == "rect"  # every image has its own
    if size and images and size not in sizes and not varies:
        return f"images of {size} were judged, and {text_from_shape(images[0])} was measured"
    return None
