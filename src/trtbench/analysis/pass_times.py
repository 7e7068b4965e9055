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
    item_parts_s: dict[str, float] = {}
    """Median time per item of every part, over the largest batches: published numbers differ by
    which of them they count."""
    item_batches: int = 0
    """So many of them there are."""
    item_batch: int = 0
    """Items in each."""
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
    full = items == items.max(initial=0)
    parts = {name: float(np.median(kept[name][full] / items[full])) for name in PARTS if full.any()}
    whole = sum(kept[name] for name in PARTS if name != "model")
    return Split(
        batches=count - skipped,
        warmup_batches=skipped,
        parts={name: _part(kept[name]) for name in PARTS},
        item_parts_s=parts,
        item_batches=int(full.sum()),
        item_batch=int(items.max(initial=0)),
        items_per_s=_rate(items, kept["inference"]),
        items_per_s_all=_rate(items, np.asarray(whole)),
    )


def times_in_words(split: Split) -> str:
    """Say how times per item were taken."""
    return (
        f"median per item over {split.item_batches} batch{'es' * (split.item_batches != 1)} of "
        f"{split.item_batch}, after {split.warmup_batches} of warm-up, in the pass that "
        "took the scores, one after another"
    )


def warmup_batches(count: int, part: float) -> int:
    """Tell how many batches at the start do not count: this part, one at least, never all."""
    return max(0, min(max(int(count * part), 1), count - 1))


def _part(seconds: NDArray[np.float64]) -> PassPart:
    return PassPart(
        mean_s=float(seconds.mean()), median_s=float(np.median(seconds)), max_s=float(seconds.max())
    )


def _rate(items: NDArray[np.float64], seconds: NDArray[np.float64]) -> float | None:
    total = float(seconds.sum())
    return float(items.sum()) / total if total > 0 else None
