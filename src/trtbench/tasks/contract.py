"""What the file of a task offers, and the values it hands over.

A task is a module with ``FLAGS``, ``open_source``, ``decode`` and ``judge``; the worker calls the
middle two beside the model, the workflow the last one when all models have run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.arrays import Arrays
from trtbench.domain.feed import LoadedItem
from trtbench.domain.result import Scalar, Score
from trtbench.domain.spec import TensorSpec, Value
from trtbench.errors import UsageError, refuse_unknown
from trtbench.host.chunks import Chunks

Settings = Mapping[str, Scalar]
Tensors = Sequence[TensorSpec]

COMMON = ("data", "unlabelled")
"""Settings of every task: where the data is, and whether inputs are all that is wanted of it."""


class Flag(Value, frozen=True, kw_only=True):
    """One setting of a task, as the command line offers it: ``--gt-kind depth``."""

    name: str
    help: str
    default: Scalar = None
    choices: tuple[str, ...] = ()
    kind: Literal["text", "whole", "number", "switch"] = "text"
    preprocessing: bool = False
    """Whether it matters for the inputs alone, and so for ``check --images`` too."""
    to_calibrate: Scalar = None
    """Its value for items to calibrate with, unless another is told."""

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


def completed(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Find settings with the defaults of those that were left out; unknown ones are refused."""
    known = {flag.key: flag for flag in flags}
    for key in settings:
        if key not in COMMON:
            refuse_unknown(key, known, f"the task has no setting {key!r}")
    return {**{key: flag.default for key, flag in known.items()}, **settings}


def calibrating(flags: Sequence[Flag], settings: Settings) -> dict[str, Scalar]:
    """Complete settings for items to calibrate with: others than those that are judged on."""
    own = {flag.key: flag.to_calibrate for flag in flags if flag.to_calibrate is not None}
    told = {key: value for key, value in settings.items() if value is not None}
    return completed(flags, {**own, **told})


def settings_from_text(flags: Sequence[Flag], told: Mapping[str, str]) -> dict[str, Scalar]:
    """Read settings that came as text as their flags do."""
    kinds = {flag.key: flag.kind for flag in flags}
    found: dict[str, Scalar] = {}
    for name, text in told.items():
        key = name.replace("-", "_")
        try:
            found[key] = _READ[kinds.get(key, "text")](text)
        except (ValueError, KeyError):
            raise UsageError(f"{name}={text} is not a {kinds[key]}") from None
    return found


_READ: dict[str, Callable[[str], Scalar]] = {
    "text": str,
    "whole": int,
    "number": float,
    "switch": lambda text: {"true": True, "on": True, "false": False, "off": False}[text.lower()],
}


def number(settings: Settings, key: str) -> float:
    """Read a setting that is a number."""
    value = settings[key]
    assert value is not None
    return float(value)


class DataSource(ABC):
    """Items in order: decoded by ``load``, made ready for the network by ``prepare``.

    What has a value here may be left out.
    """

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    drawn: bool = False
    """At random, and not read."""
    scores_only: bool = False
    """Whether nobody looks at pictures and intervals: dozens of models are judged in a search."""
    labels: NDArray[np.int64] | None = None
    """The right class of every item, where items have one."""
    class_names: Mapping[int, str] = MappingProxyType({})

    preparation: Mapping[str, Scalar] = MappingProxyType({})
    """What is done to an item before the network sees it, with every size and default filled in."""

    @abstractmethod
    def load(self, index: int) -> object:
        """Read one item."""

    @abstractmethod
    def prepare(self, loaded: LoadedItem) -> Arrays:
        """Make the item ready for the inputs, in float32, without the batch."""

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """Draw one item, where it is something to look at."""
        return None

    def part(self, places: Sequence[int]) -> DataSource:
        """Leave these items only, numbered anew."""
        return _Part(self, places)


class _Part(DataSource):
    """Some items of another source, whose own members stay in sight."""

    def __init__(self, source: DataSource, places: Sequence[int]) -> None:
        self._source, self._places = source, list(places)
        self.names = tuple(source.names[place] for place in self._places)
        self.labels = None if source.labels is None else source.labels[self._places]
        self.notes, self.class_names = source.notes, source.class_names
        self.preparation, self.drawn = source.preparation, source.drawn
        self.scores_only = source.scores_only

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_source"], name)

    def load(self, index: int) -> object:
        return self._source.load(self._places[index])

    def prepare(self, loaded: LoadedItem) -> Arrays:
        return self._source.prepare(loaded)

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        return self._source.picture(self._places[index])


def preparation_from_source(task: str, source: DataSource) -> dict[str, Scalar]:
    """Write down how a task prepares its items; arrays come as they are, and tell nothing."""
    told = source.preparation
    return {"task": task, **told} if told else {}


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What one model said about every item."""

    label: str
    chunks: Chunks
    latency_s: float | None = None
    """Mean per item, warm, for the titles of pictures."""


@dataclass(frozen=True, kw_only=True)
class TaskTable:
    """Rows to show beside the scores."""

    id: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    in_json_only: bool = False
    """Too long to be read: for other programs."""


@dataclass(frozen=True, kw_only=True)
class TaskPicture:
    """A picture that was drawn, and which model it is about; ``None`` is all of them."""

    path: Path
    title: str
    model: int | None = None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How right every model is."""

    scores: tuple[tuple[Score, ...], ...]
    """One row per model, in the order they were given."""
    method: str
    """How the numbers were taken, in a sentence."""
    tables: tuple[TaskTable, ...] = ()
    pictures: tuple[TaskPicture, ...] = ()
    notes: tuple[str, ...] = ()
    facts: dict[str, Scalar] = field(default_factory=dict)


class Task(Protocol):
    """The module of a task."""

    FLAGS: tuple[Flag, ...]
    DRAWS_LATENCY: bool = False
    """Whether its pictures tell latencies: they belong to the runs that measured them."""
    read_beside: Callable[[Settings], Sequence[Path]] | None = None
    """Tells files and folders that are read beside those which settings name."""

    def open_source(self, settings: Settings, tensors: Tensors) -> DataSource:
        """Find the data; ``settings["data"]`` says where."""

    def decode(self, outputs: Arrays, loaded: Sequence[LoadedItem], settings: Settings) -> Arrays:
        """Make predictions of the outputs of one batch, one row per item."""

    def judge(
        self, source: DataSource, models: Sequence[Predicted], settings: Settings, *, folder: Path
    ) -> Judgement:
        """Score all models against the truth and draw the worst cases into the folder."""
