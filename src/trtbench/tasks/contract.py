"""What the module of a task offers: ``FLAGS``, ``open_source``, ``decode`` and ``judge``.

The worker calls the middle two beside the model, the evaluation the last one when all models have
run.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from trtbench.analysis.pass_times import PictureValue, TableValue
from trtbench.core.errors import refuse_unknown
from trtbench.core.metrics import Metric
from trtbench.core.results import LoadedItem
from trtbench.core.run import Scalar, Score
from trtbench.core.samples import Arrays
from trtbench.core.spec import TensorSpec, Value
from trtbench.host.arrays import Chunks

Settings = Mapping[str, Scalar]
Tensors = Sequence[TensorSpec]
TaskTable = TableValue  # rows to show beside the scores

COMMON = ("data", "unlabelled")
"""Settings of every task: where the data is, and whether only its inputs are wanted."""


class Flag(Value, frozen=True, kw_only=True):
    """One setting of a task, as the command line offers it: ``--gt-kind depth``."""

    name: str
    help: str
    default: Scalar = None
    choices: tuple[str, ...] = ()
    kind: Literal["text", "whole", "number", "switch"] = "text"
    preprocessing: bool = False
    """Whether it matters for the inputs alone, and so for ``check --images`` too."""
    to_calibrate: Scalar = None  # its default for items to calibrate with

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


def completed(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Return settings with the defaults of those left out; unknown ones are refused."""
    known = {flag.key: flag for flag in flags}
    for key in settings:
        if key not in COMMON:
            refuse_unknown(key, known, f"the task has no setting {key!r}")
    return {**{key: flag.default for key, flag in known.items()}, **settings}


def calibrating(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Complete settings for items to calibrate with, which are not those judged on."""
    own = {flag.key: flag.to_calibrate for flag in flags if flag.to_calibrate is not None}
    given = {key: value for key, value in settings.items() if value is not None}
    return completed(flags, {**own, **given})


def number(settings: Settings, key: str) -> float:
    """Return a setting that is a number."""
    value = settings[key]
    assert value is not None
    return float(value)


class DataSource(ABC):
    """Items in order: decoded by ``load``, made ready for the network by ``prepare``."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    drawn: bool = False  # at random, not read
    scores_only: bool = False  # without pictures and intervals: a search judges dozens of models
    labels: NDArray[np.int64] | None = None  # the right class of every item, where items have one
    class_names: Mapping[int, str] = MappingProxyType({})
    preparation: Mapping[str, Scalar] = MappingProxyType({})
    """What is done to an item before the network sees it, with every size and default filled in."""
    _places: Sequence[int] | None = None

    @abstractmethod
    def load(self, index: int) -> object:
        """Read one item."""

    @abstractmethod
    def prepare(self, loaded: LoadedItem) -> Arrays:
        """Make the item ready for the inputs, in float32, without the batch."""

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """Return one item as an image, where it is one."""
        return None

    def part(self, places: Sequence[int]) -> DataSource:
        """Return a source of these items only, numbered anew."""
        chosen = copy.copy(self)
        chosen.names = tuple(self.names[place] for place in places)
        chosen.labels = None if self.labels is None else self.labels[list(places)]
        chosen._places = [self._place(place) for place in places]
        return chosen

    def _place(self, index: int) -> int:
        """Return the number of an item in the whole data."""
        return index if self._places is None else self._places[index]


def preparation_from_source(task: str, source: DataSource) -> dict[str, Scalar]:
    """Return how a task prepares its items; nothing for arrays, which are fed as they are."""
    return {"task": task, **source.preparation} if source.preparation else {}


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What one model predicted for every item."""

    label: str
    chunks: Chunks
    latency_s: float | None = None  # mean per item, warm, for the titles of pictures


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How right every model is."""

    scores: tuple[tuple[Score, ...], ...]  # one row per model, in the order they were given
    method: str  # how the numbers were computed, in a sentence
    tables: tuple[TaskTable, ...] = ()
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


class Task(Protocol):
    """The module of a task."""

    FLAGS: tuple[Flag, ...]
    METRICS: tuple[Metric, ...] = ()
    """Metrics of its scores that ``trtbench.core.metrics`` does not declare."""
    DRAWS_LATENCY: bool = False
    """Whether its pictures show latencies: they belong to the runs that measured them."""
    read_beside: Callable[[Settings], Sequence[Path]] | None = None
    """Lists files and folders that are read beside those which settings name."""

    def open_source(self, settings: Settings, tensors: Tensors) -> DataSource:
        """Open the data at ``settings["data"]``."""

    def decode(self, outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
        """Make predictions of the outputs of one batch, one row per item."""

    def judge(
        self, source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
    ) -> Judgement:
        """Score all models against the truth and draw pictures into the folder."""
