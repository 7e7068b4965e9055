"""What the steps of sweeps made, kept in the store by the hash of all that went into it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trtbench.boundary import inside
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Scalar, Scores
from trtbench.domain.spec import Value
from trtbench.errors import InputError, writing
from trtbench.host.files import write_whole
from trtbench.models.identity import identity_of
from trtbench.models.sidecar import kept_value
from trtbench.store.directory import now
from trtbench.store.store import Store
from trtbench.workflows.check.evaluate import PictureValue
from trtbench.workflows.sweep.graph import SweepStep

FOLDER = "steps"
MADE = "made.json"
"""Written last: a step whose folder lacks it was interrupted and is done again."""


class Made(Value, frozen=True, kw_only=True):
    """What a step left behind."""

    kind: str
    key: str
    network: str
    title: str
    created: str
    seconds: float
    precision: str | None = None
    file: str | None = None
    """The model, in the same folder; ``None`` for an accuracy."""
    sha256: str | None = None
    scores: tuple[Scores | None, ...] = ()
    """Of every side that was judged; ``None`` where that did not work."""
    checks: tuple[tuple[dict[str, Scalar], ...] | None, ...] = ()
    """What the outputs of every side differ by from those of the model as given."""
    problems: tuple[str | None, ...] = ()
    """Why a side has no scores, or no check."""
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


class Cache:
    """Results of steps in a store, shared by all its sweeps."""

    def __init__(self, store: Store) -> None:
        self._root = store.root / FOLDER

    def folder(self, step: SweepStep) -> Path:
        return self._root / f"{step.kind}-{step.key[:20]}"

    def find(self, step: SweepStep) -> Made | None:
        """Tell what a step made, if it is whole and still the same bytes."""
        made = kept_value(self.folder(step) / MADE, Made)
        if made is None or made.key != step.key:
            return None
        if made.file is None:
            return made
        try:
            file = inside(self.folder(step), made.file, what="file of a step")
        except InputError:
            return None
        return made if file.is_file() and identity_of(file) == made.sha256 else None

    def keep(self, step: SweepStep, made: Made) -> Made:
        """Say that a step is done; what it made is in its folder by now."""
        folder = self.folder(step)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / MADE, json_from_value(made))
        return made

    def history(self) -> Iterator[Made]:
        """List all that was ever made here, for estimates of time."""
        if self._root.is_dir():
            for path in sorted(self._root.glob(f"*/{MADE}")):
                if (made := kept_value(path, Made)) is not None:
                    yield made


def made_from_file(
    step: SweepStep, file: Path, *, seconds: float, notes: tuple[str, ...] = ()
) -> Made:
    """Describe a step that made a model."""
    return made_from_step(step).having(
        seconds=seconds,
        precision=step.settings.get("precision"),
        file=file.name,
        sha256=identity_of(file),
        notes=notes,
    )


def made_from_step(step: SweepStep) -> Made:
    """Describe a step that has nothing to show yet."""
    return Made(
        kind=step.kind,
        key=step.key,
        network=step.network,
        title=step.title,
        created=now(),
        seconds=0.0,
    )
