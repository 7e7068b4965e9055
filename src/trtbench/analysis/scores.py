"""Accuracy of outputs: tensors against a reference, class scores, and depth maps."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.distributions import binomial_cdf
from trtbench.core.results import TensorDiff
from trtbench.core.run import Interval, Score
from trtbench.core.samples import AnyArray, Floats
from trtbench.core.spec import Value

TOLERANCES: Mapping[str, tuple[float, float]] = {
    "fp32": (1e-4, 1e-5),
    "tf32": (1e-3, 1e-4),
    "fp16": (1e-2, 1e-3),
    "bf16": (5e-2, 5e-3),
    "int8": (1e-1, 1e-2),
    "fp8": (1e-1, 1e-2),
    "best": (1e-1, 1e-2),
}  # rtol and atol by precision: a few units in the last place, accumulated over a network

USUAL_SQNR_DB: Mapping[str, float] = {
    "fp32": 80.0, "tf32": 50.0, "fp16": 40.0, "bf16": 35.0, "int8": 20.0, "fp8": 20.0,
}  # fmt: skip
"""Least signal-to-noise ratio that conversions to a precision usually reach."""


def is_unusual(diff: TensorDiff, *, precision: str) -> bool:
    """Return whether a conversion to this precision is less accurate than usual."""
    if diff.nonfinite or (diff.rel_l2 is None and diff.elements > 0):
        return True
    limit = USUAL_SQNR_DB.get(precision)
    return limit is not None and diff.sqnr_db is not None and diff.sqnr_db < limit


def sqnr_from_rel_l2(rel_l2: float) -> float | None:
    """Return the signal-to-quantization-noise ratio in dB; ``None`` without noise or signal."""
    return -20.0 * math.log10(rel_l2) if 0.0 < rel_l2 < math.inf else None


LEVEL = 0.95
_Z = 1.959963984540054  # two-sided 95 % of the normal distribution


def rank_of_label(scores: AnyArray, labels: AnyArray) -> NDArray[np.int64]:
    """Return the rank of each label's score, 1 for the best; of equal scores, the lower class."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    earlier = (scores == own) & (np.arange(scores.shape[1]) < labels[:, None])
    return np.asarray(1 + ((scores > own) | earlier).sum(axis=1), np.int64)


def top_k(ranks: AnyArray, *, k: int = 1) -> Score:
    """Return the share of examples whose label is among the k best, with Wilson's interval."""
    return _share(f"top{k}", ranks <= k)


def agreement(first: AnyArray, second: AnyArray) -> Score:
    """Return the share of examples for which two models predict the same class."""
    return _share("agreement", first == second)


def _share(metric: str, hits: AnyArray) -> Score:
    count, right = len(hits), int(hits.sum())
    return Score(metric=metric, value=right / count, interval=wilson(right, count), count=count)


class McNemar(Value, frozen=True, kw_only=True):
    """McNemar's test of two models on the same examples: how often only one is correct."""

    only_first: int
    only_second: int
    p: float
    difference: float
    interval: Interval


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """Test whether two models are equally accurate on the same examples."""
    lost = int((first & ~second).sum())
    won = int((~first & second).sum())
    apart, count = lost + won, len(first)
    p = min(1.0, 2.0 * binomial_cdf(min(lost, won), n=apart, p=0.5)) if apart else 1.0
    difference = (won - lost) / count
    half = _Z * math.sqrt(max(0.0, apart - (won - lost) ** 2 / count)) / count
    low, high = difference - half, difference + half
    meaning = "95 % of the difference for other examples of the same kind"
    interval = Interval(low=low, high=high, level=LEVEL, meaning=meaning)
    return McNemar(only_first=lost, only_second=won, p=p, difference=difference, interval=interval)


def wilson(hits: int, count: int) -> Interval:
    """Return Wilson's interval of a proportion, which is also valid near 0 and 1."""
    share, spread = hits / count, _Z**2 / count
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / count + spread / (4 * count)) / (1 + spread)
    # Exact at the ends, where rounding would leave 7e-16.
    low = centre - half if hits else 0.0
    high = centre + half if hits < count else 1.0
    meaning = "95 % for other examples of the same kind"
    return Interval(low=low, high=high, level=LEVEL, meaning=meaning)


# A depth map holds depth, inverse depth (1 / depth) or disparity (baseline times focal length /
# depth). Predictions are aligned in their own kind; metrics are computed in the requested kind.
DepthKind = Literal["depth", "inverse", "disparity"]
Align = Literal["median", "least-squares", "none"]

NEGATIVE_SCALE = "the best fit has a negative scale"  # why an image is excluded
DEPTH_METRICS = ("abs_rel", "sq_rel", "rmse", "rmse_log", "log10", "silog", "d1", "d2", "d3")


class DepthRules(Value, frozen=True, kw_only=True):
    """How a prediction is compared with the ground truth."""

    truth_kind: DepthKind = "depth"
    output_kind: DepthKind = "inverse"
    align: Align = "median"
    space: Literal["depth", "inverse"] = "depth"
    min_depth: float = 1e-3
    max_depth: float = 1e5
    silog_lambda: float = 0.5
    disparity_scale: float = 1.0

    @property
    def description(self) -> str:
        return (
            f"predictions are {self.output_kind}, ground truth is {self.truth_kind}; aligned by "
            f"{self.align} as {self.output_kind}, compared as {self.space}, valid from "
            f"{self.min_depth:g} to {self.max_depth:g}, silog with lambda {self.silog_lambda:g}; "
            "per image, then averaged"
        )


class DepthResult(Value, frozen=True, kw_only=True):
    """The result of one image; without ``metrics``, ``reason`` says why."""

    metrics: dict[str, float] | None
    reason: str | None = None
    valid: int = 0
    nonfinite: int = 0  # valid pixels that are left out because the prediction is not finite


def judge_depth_map(prediction: AnyArray, truth: AnyArray, rules: DepthRules) -> DepthResult:
    """Compare a predicted depth map with a ground truth of the same size."""
    depth = to_depth(truth.astype(np.float64), rules.truth_kind, rules.disparity_scale)
    mask = np.isfinite(depth) & (depth > rules.min_depth) & (depth < rules.max_depth)
    finite = np.isfinite(prediction)
    lost = int((mask & ~finite).sum())
    mask &= finite
    valid = int(mask.sum())
    if not valid:
        reason = "the prediction is not finite" if lost else "no valid ground truth"
        return DepthResult(metrics=None, reason=reason, nonfinite=lost)
    own, wanted = prediction[mask].astype(np.float64), depth[mask]
    # Converting from depth to another kind uses the same formula as the reverse.
    in_own_kind = to_depth(wanted, rules.output_kind, rules.disparity_scale)
    aligned, problem = align(own, in_own_kind, how=rules.align)
    if aligned is None:
        return DepthResult(metrics=None, reason=problem, valid=valid, nonfinite=lost)
    if rules.output_kind != "depth":
        scale = rules.disparity_scale if rules.output_kind == "disparity" else 1.0
        aligned = scale / np.maximum(aligned, scale / rules.max_depth)
    found = np.asarray(np.clip(aligned, rules.min_depth, rules.max_depth), np.float64)
    if rules.space == "inverse":
        found, wanted = 1.0 / found, 1.0 / wanted
    metrics = depth_metrics(found, wanted, silog_lambda=rules.silog_lambda)
    return DepthResult(metrics=metrics, valid=valid, nonfinite=lost)


def depth_metrics(found: Floats, wanted: Floats, *, silog_lambda: float = 0.5) -> dict[str, float]:
    """Return all depth metrics; values must be positive."""
    error = found - wanted
    logs = np.log(found) - np.log(wanted)
    ratio = np.maximum(found / wanted, wanted / found)
    return {
        "abs_rel": float((np.abs(error) / wanted).mean()),
        "sq_rel": float((error**2 / wanted).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "rmse_log": float(np.sqrt((logs**2).mean())),
        "log10": float((np.abs(logs) / np.log(10.0)).mean()),
        "silog": float(np.sqrt(max(0.0, (logs**2).mean() - silog_lambda * logs.mean() ** 2))),
        **{f"d{k}": float((ratio < 1.25**k).mean()) for k in (1, 2, 3)},
    }


def align(own: Floats, wanted: Floats, *, how: Align) -> tuple[Floats | None, str | None]:
    """Scale, or scale and shift, a prediction to the truth; ``None`` and the reason on failure."""
    if how == "none":
        return own, None
    if how == "median":
        middle = float(np.median(own))
        if middle <= 0:
            return None, "the median of the prediction is not positive"
        return own * (float(np.median(wanted)) / middle), None
    count = len(own)
    spread = count * float((own**2).sum()) - float(own.sum()) ** 2
    if count < 2 or spread <= 1e-12 * count * float((own**2).sum()):
        return None, "the prediction is constant"
    scale = (count * float((own * wanted).sum()) - float(own.sum()) * float(wanted.sum())) / spread
    if scale <= 0:
        return None, NEGATIVE_SCALE
    return scale * own + (float(wanted.sum()) - scale * float(own.sum())) / count, None


def to_depth(values: AnyArray, kind: DepthKind, scale: float = 1.0) -> Floats:
    """Convert a map of any kind to depth; zero inverse depth is infinitely far."""
    if kind == "depth":
        return np.asarray(values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((scale if kind == "disparity" else 1.0) / values, np.float64)


def map_differences(reference: AnyArray, candidate: AnyArray) -> dict[str, float] | None:
    """Return differences between two maps, as fractions of the reference's range.

    ``own_*``: each map by its own range, as in depth-anything-win, which hides a wrong scale.
    """
    a, b = reference.astype(np.float64), candidate.astype(np.float64)
    usable = np.isfinite(a) & np.isfinite(b)
    if not usable.any():
        return None
    a, b = a[usable], b[usable]
    error = (b - a) / (float(np.ptp(a)) or 1.0)
    first, second = ((each - each.min()) / (float(np.ptp(each)) + 1e-8) for each in (a, b))
    own = second - first
    norm = float(np.linalg.norm(a))
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "max_error": float(np.abs(error).max()),
        "rel_l2": float(np.linalg.norm(b - a)) / norm if norm else 0.0,
        "own_mae": float(np.abs(own).mean()),
        "own_rmse": float(np.sqrt((own**2).mean())),
        "own_max_error": float(np.abs(own).max()),
    }


def resize_map(values: AnyArray, shape: tuple[int, int]) -> Floats:
    """Resize bilinearly with half-pixel centres."""
    found = np.asarray(values, np.float64)
    if found.shape == shape:
        return found
    for axis, size in enumerate(shape):
        have = found.shape[axis]
        places = np.clip((np.arange(size) + 0.5) * have / size - 0.5, 0, have - 1)
        low = np.floor(places).astype(np.int64)
        high, part = np.minimum(low + 1, have - 1), places - low
        weights = part[:, None] if axis == 0 else part[None, :]
        found = (1 - weights) * found.take(low, axis) + weights * found.take(high, axis)
    return np.asarray(found, np.float64)
