"""Times of a pass over data: load, preprocess, inference and postprocess, after a warm-up."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trtbench.core.results import Failed, ShortView, Unreadable
from trtbench.core.run import Finding, Scalar, Score
from trtbench.core.samples import AnyArray
from trtbench.core.spec import ModelRef, Value

PARTS = ("load", "preprocess", "inference", "model", "postprocess")
"""Columns of ``times.npz`` besides ``items``: seconds, one row per batch."""


class PassPart(Value, frozen=True, kw_only=True):
    """The time of one part of the work per batch."""

    mean_s: float
    median_s: float
    max_s: float


class Split(Value, frozen=True, kw_only=True):
    """The time of a pass by parts, without the batches of the warm-up.

    ``inference`` is the caller's waiting time, transfers included (ArtTRT's Latency-all);
    ``model`` the network alone, synchronised (Latency-model).
    """

    batches: int
    warmup_batches: int
    parts: dict[str, PassPart]
    item_parts_s: dict[str, float] = {}  # median per item, over the largest batches
    item_batches: int = 0
    item_batch: int = 0
    items_per_s: float | None  # items over the time of inference alone
    items_per_s_all: float | None  # items over the time of all parts in sequence


def split_from_columns(columns: Mapping[str, AnyArray], *, warmup: float = 0.1) -> Split:
    """Summarise ``times.npz``: one row per batch."""
    count = len(columns["items"])
    skipped = warmup_batches(count, warmup)
    kept = {name: np.asarray(column[skipped:], np.float64) for name, column in columns.items()}
    items = kept["items"]
    full = items == items.max(initial=0)
    parts = {name: float(np.median(kept[name][full] / items[full])) for name in PARTS if full.any()}
    whole = np.asarray(sum(kept[name] for name in PARTS if name != "model"))

    def rate(seconds: NDArray[np.float64]) -> float | None:
        total = float(seconds.sum())
        return float(items.sum()) / total if total > 0 else None

    return Split(
        batches=count - skipped,
        warmup_batches=skipped,
        parts={
            name: PassPart(
                mean_s=float(kept[name].mean()),
                median_s=float(np.median(kept[name])),
                max_s=float(kept[name].max()),
            )
            for name in PARTS
        },
        item_parts_s=parts,
        item_batches=int(full.sum()),
        item_batch=int(items.max(initial=0)),
        items_per_s=rate(kept["inference"]),
        items_per_s_all=rate(whole),
    )


def describe_times(split: Split) -> str:
    return (
        f"median per item over {split.item_batches} batch{'es' * (split.item_batches != 1)} of "
        f"{split.item_batch}, after {split.warmup_batches} of warm-up, in the pass that "
        "took the scores, one after another"
    )


def warmup_batches(count: int, part: float) -> int:
    """Return how many batches at the start are warm-up: a fraction, at least one, never all."""
    return max(0, min(max(int(count * part), 1), count - 1))


class Evaluated(Value, frozen=True, kw_only=True):
    """The accuracy, times and size of one model."""

    label: str
    place: int = 0
    model: ModelRef
    runtime: str
    scores: tuple[Score, ...]
    split: Split
    items: int
    batch: int
    load_s: float
    timed: str
    size_bytes: int | None = None
    layers: int | None = None
    parameters: int | None = None
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    preparation: dict[str, Scalar] = {}
    precision: str | None = None

    def score(self, metric: str) -> Score | None:
        return next((each for each in self.scores if each.metric == metric), None)


class TableValue(Value, frozen=True, kw_only=True):
    """A table from a task."""

    id: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]


class PictureValue(Value, frozen=True, kw_only=True):
    """A picture of predictions; ``model`` is the index of the model shown, ``None`` for all."""

    path: str
    title: str
    model: int | None = None


class Evaluation(ShortView, Value, frozen=True, kw_only=True):
    """The result of an evaluation."""

    task: str
    data: str
    method: str
    models: tuple[Evaluated, ...]
    inputs_sha256: str
    tables: tuple[TableValue, ...] = ()
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()
    joined: dict[str, tuple[str, ...]] = {}  # by model: stored runs that the scores were added to
    failed: tuple[Failed, ...] = ()
    preparation: dict[str, Scalar] = {}  # how images were prepared, if the same for all models
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """All findings and notes without repetitions: of the data, then of single models."""
        own = [
            note if note in self.notes or len(self.models) == 1 else f"{model.label}: {note}"
            for model in self.models
            for note in model.notes
        ]
        found = [f"{each.severity} {each.code}: {each.message}" for each in self.findings]
        return tuple(dict.fromkeys([*found, *self.notes, *own]))
