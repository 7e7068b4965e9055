"""Times of a pass over data: load, preprocess, inference and postprocess, after a warm-up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import AnyArray
from trtbench.domain.spec import Value

PARTS = ("load", "preprocess", "inference", "model", "postprocess")
"""Columns of ``times.npz`` beside ``items``: seconds, one row per batch.

inference  inputs handed over, transfers, the network, outputs back: what a caller waits for
model      the network alone, synchronised: GPU time where a session tells it, else the call
"""


class PassPart(Value, frozen=True, kw_only=True):
    """What one part of the work took per batch, in seconds."""

    mean_s: float
    median_s: float
    max_s: float


class Split(Value, frozen=True, kw_only=True):
    """Where the time of a pass went; batches of the warm-up are left out.

    ``inference`` is what a caller waits for, transfers included (ArtTRT's Latency-all);
    ``model`` the network alone, synchronised (Latency-model).
    """

    batches: int
    """Counted, without the warm-up."""
    warmup_batches: int
    parts: dict[str, PassPart]
    item_s: float | None
    """Median inference time per item of full batches."""
    items_per_s: float | None
    """Items over the time of inference alone."""
    items_per_s_all: float | None
    """Items over the time of everything, one after another."""


def split_from_columns(columns: Mapping[str, AnyArray], *, warmup: float = 0.1) -> Split:
    """Summarise ``times.npz``: one row per batch."""
    count = len(columns["items"])
    skipped = warmup_batches(count, warmup)
    kept = {name: np.asarray(column[skipped:], np.float64) for name, column in columns.items()}
    items = kept["items"]
    full = items == columns["items"].max(initial=0)
    each = kept["inference"][full] / items[full]
    whole = sum(kept[name] for name in PARTS if name != "model")
    return Split(
        batches=count - skipped,
        warmup_batches=skipped,
        parts={name: _part(kept[name]) for name in PARTS},
        item_s=float(np.median(each)) if len(each) else None,
        items_per_s=_rate(items, kept["inference"]),
        items_per_s_all=_rate(items, np.asarray(whole)),
    )


def warmup_batches(count: int, part: float) -> int:
    """How many batches at the start do not count: this part, one at least, never all."""
    return max(0, min(max(int(count * part), 1), count - 1))


def _part(seconds: NDArray[np.float64]) -> PassPart:
    return PassPart(
        mean_s=float(seconds.mean()),
        median_s=float(np.median(seconds)),
        max_s=float(seconds.max()),
    )


def _rate(items: NDArray[np.float64], seconds: NDArray[np.float64]) -> float | None:
    total = float(seconds.sum())
    return float(items.sum()) / total if total > 0 else None
