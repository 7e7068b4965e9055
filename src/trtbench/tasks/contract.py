"""What the module of a task provides: ``FLAGS``, ``open_source``, ``decode`` and ``judge``.

The worker that runs the model calls ``open_source`` and ``decode``; the evaluation calls ``judge``
after all models have run.
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

COMMON = ("data", "unlabelled", "usual_size", "names")
"""Settings of every task: the path of the data, whether labels are not needed, and, as the model
states them, the size of its images (``640x480``) and its classes (``{0: 'person'}``)."""


class Flag(Value, frozen=True, kw_only=True):
    """One setting of a task, as the command line offers it: ``--gt-kind depth``."""

    name: str
    help: str
    default: Scalar = None
    choices: tuple[str, ...] = ()
    kind: Literal["text", "whole", "number", "switch"] = "text"
    preprocessing: bool = False
    """Whether it changes the inputs, so that ``check --data`` needs it too."""
    to_calibrate: Scalar = None  # the default when data is read for calibration

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


def settings_with_defaults(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Return the settings with defaults filled in; unknown names and choices raise an error."""
    known = {flag.key: flag for flag in flags}
    given = {key: value for key, value in settings.items() if value is not None}
    for key, value in given.items():
        if key not in COMMON:
            refuse_unknown(key, known, f"the task has no setting {key!r}")
            if choices := known[key].choices:
                refuse_unknown(str(value), choices, f"{key} cannot be {value!r}")
    return {**{key: flag.default for key, flag in known.items()}, **given}


def calibration_settings(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Return the settings, with defaults, to read calibration data instead of evaluation data."""
    own = {flag.key: flag.to_calibrate for flag in flags if flag.to_calibrate is not None}
    return settings_with_defaults(
        flags, {**own, **{key: value for key, value in settings.items() if value is not None}}
    )


class DataSource(ABC):
    """An ordered set of items: ``load`` reads one, ``prepare`` converts it to model inputs."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    drawn: bool = False  # random values, not read from files
    scores_only: bool = False  # skip pictures and intervals, for a search over many models
    labels: NDArray[np.int64] | None = None  # the true class of every item, if known
    has_truth: bool = False  # whether other truths are known
    class_names: Mapping[int, str] = MappingProxyType({})
    preparation: Mapping[str, Scalar] = MappingProxyType({})
    """The preprocessing of an item, with all sizes and defaults filled in."""
    _places: Sequence[int] | None = None

    @abstractmethod
    def load(self, index: int) -> object:
        """Read one item."""

    @abstractmethod
    def prepare(self, loaded: LoadedItem) -> Arrays:
        """Return the model inputs for the item, in float32, without the batch dimension."""

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """Return one item as an image, or ``None`` if it is not one."""
        return None

    def part(self, places: Sequence[int]) -> DataSource:
        """Return a source with only the items at these indices."""
        chosen = copy.copy(self)
        chosen.names = tuple(self.names[place] for place in places)
        chosen.labels = None if self.labels is None else self.labels[list(places)]
        chosen._places = [self._place(place) for place in places]
        return chosen

    def _place(self, index: int) -> int:
        """Return the index of an item in the full data set."""
        return index if self._places is None else self._places[index]


def preparation_from_source(task: str, source: DataSource) -> dict[str, Scalar]:
    """Return the preprocessing of a task's items; empty for arrays, which are used unchanged."""
    return {"task": task, **source.preparation} if source.preparation else {}


@dataclass(frozen=True, kw_only=True)
class Predicted:
    label: str
    chunks: Chunks
    latency_s: float | None = None  # mean per item after warm-up, shown in titles of pictures


@dataclass(frozen=True, kw_only=True)
class Judgement:
    scores: tuple[tuple[Score, ...], ...]  # one row per model, in the order they were given
    method: str  # a sentence on how the scores were computed
    tables: tuple[TableValue, ...] = ()
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


class Task(Protocol):
    """The interface of a task module."""

    FLAGS: tuple[Flag, ...]
    METRICS: tuple[Metric, ...] = ()  # metrics that are not declared in `trtbench.core.metrics`
    DRAWS_LATENCY: bool = False
    """Whether its pictures show latencies, so that they are specific to the measured runs."""
    read_beside: Callable[[Settings], Sequence[Path]] | None = None
    """Returns files and folders that the task reads but that no setting names."""
    check_outputs: Callable[[DataSource, Tensors, Settings, str], None] | None = None
    """Raises an error if a model with these outputs, and this name, cannot be judged."""

    def open_source(self, settings: Settings, tensors: Tensors) -> DataSource:
        """Open the data at ``settings["data"]``."""

    def decode(self, outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
        """Convert the outputs of one batch to predictions, one row per item."""

    def judge(
        self, source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
    ) -> Judgement:
        """Score all models against the ground truth and write pictures to the folder."""
