"""Files of a sweep: its outline, the journal of its measurements, and results of its steps.

The outline and the journal are in the folder of the sweep. Results of steps are in the store, by
the hash of all their inputs, and are shared by all sweeps of the store.
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
from trtbench.host.files import NoLocksError, make_folder, no_links, pid_file, try_lock, write_whole
from trtbench.models.identity import identity_of, kept_value
from trtbench.requests.settings import Config
from trtbench.store.directory import now
from trtbench.store.place import address_from_text, is_url
from trtbench.store.store import Store
from trtbench.sweep.matrix import Matrix, check_matrix

SWEEP = "sweep.json"
JOURNAL = "journal.jsonl"
LOCK_FILE = "journal.lock"
RESULT_FILE = "made.json"  # written last: without it, the step was interrupted and is repeated

StepKind = Literal["export", "quantize", "build", "eval"]


class SweepStep(Value, frozen=True, kw_only=True):
    """Work that cases share; its result depends only on these fields."""

    key: str
    kind: StepKind
    title: str
    source: str  # the key of the previous step, or the given model
    network: str
    settings: dict[str, Any] = {}


class StepResult(Value, frozen=True, kw_only=True):
    """The result of a step."""

    kind: str
    key: str
    network: str
    title: str
    created: str
    seconds: float = 0.0
    precision: str | None = None
    file: str | None = None  # the model, in the same folder; ``None`` for an evaluation
    sha256: str | None = None
    scores: tuple[Scores | None, ...] = ()  # of each evaluated model; ``None`` if it failed
    problems: tuple[str | None, ...] = ()  # why a model has no scores
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()


def step_result(step: SweepStep, **more: object) -> StepResult:
    same = {name: getattr(step, name) for name in ("kind", "key", "network", "title")}
    return StepResult(**same, created=now()).having(**more)


class Cache:
    """Results of steps that are kept in a store."""

    def __init__(self, store: Store) -> None:
        self._root = store.root / "steps"

    def folder(self, step: SweepStep) -> Path:
        return self._root / f"{step.kind}-{step.key[:20]}"

    def find(self, step: SweepStep) -> StepResult | None:
        """Return the result of a step if it is complete and its file is unchanged."""
        made = kept_value(self.folder(step) / RESULT_FILE, StepResult)
        if made is None or made.key != step.key:
            return None
        if made.file is None:
            return made
        try:
            file = inside(self.folder(step), made.file, what="file of a step")
        except InputError:
            return None
        return made if file.is_file() and identity_of(file) == made.sha256 else None

    def keep(self, step: SweepStep, made: StepResult) -> StepResult:
        """Record the result of a step; its file must already be in its folder."""
        folder = self.folder(step)
        with writing(folder):
            make_folder(folder)
            write_whole(folder / RESULT_FILE, json_from_value(made))
        return made

    def history(self) -> list[StepResult]:
        paths = sorted(self._root.glob(f"*/{RESULT_FILE}")) if self._root.is_dir() else []
        return [made for path in paths if (made := kept_value(path, StepResult)) is not None]


class SweepOutline(Value, frozen=True, kw_only=True):
    """The content of ``sweep.json``: all that is needed to resume."""

    name: str
    tag: str  # of every run of the sweep
    created: str
    store: str  # address as for ``--store``, without password
    runs: str | None = None  # address of run directories, if given separately
    matrix: Matrix
    lenient: bool = False


def write_outline(folder: Path, outline: SweepOutline) -> None:
    """Create the folder of a sweep; an existing sweep there is an error."""
    if (folder / SWEEP).exists():
        raise UsageError(
            f"{folder} already contains a sweep",
            fix=f"trtbench sweep --resume {folder}, or choose another folder with -o",
        )
    with writing(folder):
        make_folder(folder)
        write_whole(folder / SWEEP, json_from_value(outline))


def read_outline(folder: Path) -> SweepOutline:
    path = folder / SWEEP
    try:
        data = read_bytes(path)
    except OSError:
        raise UsageError(
            f"{folder} contains no sweep", facts={"missing": SWEEP}, fix="trtbench sweep --help"
        ) from None
    outline = value_from_json(data, SweepOutline, where=str(path))
    check_tag(outline.tag, where=path)
    check_matrix(outline.matrix, where=str(path))
    return outline


def config_of_sweep(folder: Path, config: Config, *, given: str | None) -> Config:
    """Return the settings with the store of the sweep; another store is an error."""
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
    """One event of a case in a round."""

    what: Literal["begin", "done", "failed"]
    case: str  # the key of the case
    round: int
    at: str
    run: str | None = None
    reason: str | None = None
    seconds: float | None = None


class Journal:
    """An append-only log; each line is on disk before work continues.

    An incomplete last line, as after a crash, is ignored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / JOURNAL
        self._adding = threading.Lock()
        self.notes: list[str] = []  # on lost runs that are measured again
        self.lines: list[JournalLine] = self._read()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the sweep, so that no other process runs it."""
        with open(self._path, "ab", opener=no_links) as file:
            other: AbstractContextManager[None] = nullcontext()
            try:
                taken = try_lock(file.fileno())
            except NoLocksError:  # as on some network file systems
                taken, other = True, pid_file(self.folder / LOCK_FILE, what="the sweep")
            if not taken:
                raise UnavailableError(
                    "the sweep is being run by another process",
                    facts={"folder": self.folder},
                    fix="wait for it, or choose another folder with -o",
                )
            with other:
                yield

    def add(
        self, what: Literal["begin", "done", "failed"], case: str, number: int, **more: object
    ) -> None:
        """Append a line and flush it to disk."""
        line = JournalLine(what=what, case=case, round=number, at=now()).having(**more)
        with writing(self._path), self._adding, open(self._path, "ab", opener=no_links) as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def finished(self) -> dict[tuple[str, int], JournalLine]:
        """Return the last line of every finished case and round."""
        return {(line.case, line.round): line for line in self.lines if line.what != "begin"}

    def unfinished(self) -> list[JournalLine]:
        """Return the first lines of measurements that did not finish."""
        ends = self.finished()
        begun = {(line.case, line.round): line for line in self.lines if line.what == "begin"}
        return [line for key, line in begun.items() if key not in ends and line.run is not None]

    def forget_lost(self, is_lost: Callable[[str], bool]) -> None:
        """Remove runs that no longer exist, so that they are measured again."""
        done = {line.run for line in self.lines if line.what == "done" and line.run}
        lost = sorted(run for run in done if is_lost(run))
        self.notes += [f"the run {run} is missing or damaged and is measured again" for run in lost]
        self.lines = [line for line in self.lines if line.run not in lost]

    def forget_failures(self) -> None:
        """Remove failures, so that they are tried again; the file is not changed."""
        self.lines = [line for line in self.lines if line.what != "failed"]

    def _read(self) -> list[JournalLine]:
        try:
            data = read_bytes(self._path)
        except FileNotFoundError:
            return []
        whole, _, torn = data.rpartition(b"\n")
        if torn:  # remove an incomplete line that a crash left
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
