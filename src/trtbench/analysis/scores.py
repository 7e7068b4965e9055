"""Of which scores less is better, by their names."""

from __future__ import annotations

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
