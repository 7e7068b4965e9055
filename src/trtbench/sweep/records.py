"""What a sweep keeps on disk: its outline, the journal of its measurements, results of its steps.

The outline and the journal are in the folder of the sweep. Results of steps are in the store, by
the hash of everything that went into them, and are shared by all sweeps of the store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec

from trtbench.analysis.pass_times import PictureValue
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import InputError, UnavailableError, UsageError, writing
from trtbench.core.run import Scores
from trtbench.core.safety import SECRET, check_id, check_tag, inside, mask, read_bytes
from trtbench.core.spec import Value
from trtbench.host.files import NoLocksError, pid_file, try_lock, write_whole
from trtbench.models.identity import identity_of, kept_value
from trtbench.requests.settings import Config
from trtbench.store.directory import now
from trtbench.store.place import address_from_text, is_url
from trtbench.store.store import Store
from trtbench.sweep.matrix import Matrix, check_matrix

SWEEP = "sweep.json"
JOURNAL = "journal.jsonl"
SIGNED = "journal.lock"
MADE = "made.json"  # written last: a step whose folder lacks it was interrupted and is done again

StepKind = Literal["export", "quantize", "build", "eval"]


class SweepStep(Value, frozen=True, kw_only=True):
    """Work that is shared by cases: what it makes depends on nothing but what is in here."""

    key: str
    kind: StepKind
    title: str
    source: str  # the key of the step whose result it takes, or a model as the user gave it
    network: str
    settings: dict[str, Any] = {}


class Made(Value, frozen=True, kw_only=True):
    """The result of a step."""

    kind: str
    key: str
    network: str
    title: str
    created: str
    seconds: float = 0.0
    precision: str | None = None
    file: str | None = None  # the model, in the same folder; ``None`` for an accuracy
    sha256: str | None = None
    scores: tuple[Scores | None, ...] = ()  # of every side; ``None`` where judging failed
    problems: tuple[str | None, ...] = ()  # why a side has no scores
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


def made_from_step(step: SweepStep, **more: object) -> Made:
    """The record of a step, with what it made."""
    base = Made(kind=step.kind, key=step.key, network=step.network, title=step.title, created=now())
    return base.having(**more)


class Cache:
    """Results of steps in a store."""

    def __init__(self, store: Store) -> None:
        self._root = store.root / "steps"

    def folder(self, step: SweepStep) -> Path:
        return self._root / f"{step.kind}-{step.key[:20]}"

    def find(self, step: SweepStep) -> Made | None:
        """The result of a step, if it is complete and its file unchanged."""
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
        """Record that a step is done; its file is in its folder already."""
        folder = self.folder(step)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / MADE, json_from_value(made))
        return made

    def history(self) -> list[Made]:
        """Everything that was ever made in this store, for estimates of time."""
        paths = sorted(self._root.glob(f"*/{MADE}")) if self._root.is_dir() else []
        return [made for path in paths if (made := kept_value(path, Made)) is not None]


class SweepOutline(Value, frozen=True, kw_only=True):
    """The content of ``sweep.json``: all that is needed to go on."""

    name: str
    tag: str  # every run of the sweep carries it
    created: str
    store: str  # where its runs are, as ``--store`` takes it; a password in it is not kept
    runs: str | None = None  # where run directories are, when that was given separately
    matrix: Matrix
    lenient: bool = False


def write_outline(folder: Path, outline: SweepOutline) -> None:
    """Begin a sweep's folder; one that holds a sweep already is refused."""
    if (folder / SWEEP).exists():
        raise UsageError(
            f"{folder} holds a sweep already",
            fix=f"trtbench sweep --resume {folder}, or give another folder with -o",
        )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SWEEP, json_from_value(outline))


def read_outline(folder: Path) -> SweepOutline:
    """Read what a sweep was asked for."""
    path = folder / SWEEP
    try:
        data = read_bytes(path)
    except OSError:
        raise UsageError(
            f"{folder} holds no sweep", facts={"missing": SWEEP}, fix="trtbench sweep --help"
        ) from None
    outline = value_from_json(data, SweepOutline, where=str(path))
    check_tag(outline.tag, where=path)
    check_matrix(outline.matrix, where=str(path))
    return outline


def config_of_sweep(folder: Path, config: Config, *, given: str | None) -> Config:
    """The settings with the store that a sweep was begun in; another store is refused."""
    outline = read_outline(folder.absolute())
    if SECRET in outline.store:
        if mask(config.store) == outline.store:
            return config
        raise UsageError(
            "the sweep's store needs its password",
            facts={"store": outline.store},
            fix="give it with --store URL, or TRTBENCH_STORE in the environment",
        )
    if given is None:
        return config.having(store=outline.store, runs=outline.runs)
    same = address_from_text(given) == outline.store
    if not same and not is_url(outline.store) and Path(outline.store).is_dir():
        raise UsageError(
            "the runs of this sweep are in another store",
            facts={"its store": outline.store, "given": given},
            fix=f"trtbench sweep --resume {folder}",
        )
    return config


class JournalLine(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to a case in a round."""

    what: Literal["begin", "done", "failed"]
    case: str  # the key of the case, by content
    round: int
    at: str
    run: str | None = None
    reason: str | None = None
    seconds: float | None = None


class Journal:
    """Lines that are only ever added, each on the disk before work goes on.

    What a crash cut off at the end does not count.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / JOURNAL
        self._adding = threading.Lock()
        self.notes: list[str] = []  # what was lost, and is measured again
        self.lines: list[JournalLine] = self._read()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a second process from going on with the same sweep."""
        self._path.touch()
        with open(self._path, "rb") as file:
            other: AbstractContextManager[None] = nullcontext()
            try:
                taken = try_lock(file.fileno())
            except NoLocksError:  # as on some network file systems
                taken, other = True, pid_file(self.folder / SIGNED, what="the sweep")
            if not taken:
                raise UnavailableError(
                    "the sweep is being carried out by another process",
                    facts={"folder": self.folder},
                    fix="wait for it, or give another folder with -o",
                )
            with other:
                yield

    def add(
        self, what: Literal["begin", "done", "failed"], case: str, number: int, **more: object
    ) -> None:
        """Write a line and have it on the disk."""
        line = JournalLine(what=what, case=case, round=number, at=now()).having(**more)
        with writing(self._path), self._adding, open(self._path, "ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def ends(self) -> dict[tuple[str, int], JournalLine]:
        """The last line of every case and round that came to an end."""
        return {(line.case, line.round): line for line in self.lines if line.what != "begin"}

    def unfinished(self) -> list[JournalLine]:
        """The measurements that were begun, with the id of their run, and never ended."""
        ends = self.ends()
        begun = {(line.case, line.round): line for line in self.lines if line.what == "begin"}
        return [line for key, line in begun.items() if key not in ends and line.run is not None]

    def forget_lost(self, is_lost: Callable[[str], bool]) -> None:
        """Have runs that are no longer there measured again."""
        done = {line.run for line in self.lines if line.what == "done" and line.run}
        lost = sorted(run for run in done if is_lost(run))
        self.notes += [f"the run {run} is gone or damaged, and is measured again" for run in lost]
        self.lines = [line for line in self.lines if line.run not in lost]

    def forget_failures(self) -> None:
        """Have what failed tried again; the old lines stay in the file."""
        self.lines = [line for line in self.lines if line.what != "failed"]

    def _read(self) -> list[JournalLine]:
        try:
            data = read_bytes(self._path)
        except FileNotFoundError:
            return []
        whole, _, torn = data.rpartition(b"\n")
        if torn:  # the next line must not be glued to what a crash left of this one
            with open(self._path, "r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        lines = []
        for number, text in enumerate(whole.split(b"\n"), 1):
            try:
                line = value_from_json(text, JournalLine, where=f"line {number}")
                if line.run is not None:
                    check_id(line.run, where=f"line {number}")
                lines.append(line)
            except InputError as problem:
                if text:
                    self.notes.append(f"{self._path.name}: {problem.message.splitlines()[0]}")
        return lines
