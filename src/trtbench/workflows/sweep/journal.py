"""The journal of a sweep: one line for everything that is done, on the disk before work goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import msgspec

from trtbench.boundary import check_id, check_tag, read_bytes
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.spec import Value
from trtbench.errors import InputError, UnavailableError, UsageError, writing
from trtbench.host.files import write_whole
from trtbench.host.locks import NoLocksError, try_lock
from trtbench.host.unfinished import signed
from trtbench.workflows.sweep.matrix import Matrix, check_matrix

SWEEP = "sweep.json"
JOURNAL = "journal.jsonl"
SIGNED = "journal.lock"


class SweepOutline(Value, frozen=True, kw_only=True):
    """The content of ``sweep.json``: all that is needed to go on."""

    name: str
    tag: str
    """Every run of the sweep carries it."""
    created: str
    store: str
    """Where its runs are, as ``--store`` takes it; a password in it is not kept."""
    runs: str | None = None
    """Where run directories are, when that was said too."""
    matrix: Matrix
    lenient: bool = False


class JournalLine(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to a case in a round."""

    what: Literal["begin", "done", "failed"]
    case: str
    """The key of the case, by content."""
    round: int
    at: str
    run: str | None = None
    reason: str | None = None
    seconds: float | None = None


class Journal:
    """Lines that are only ever added; what a crash cut off at the end does not count."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / JOURNAL
        self._adding = threading.Lock()
        self.notes: list[str] = []
        """What was lost, and is measured again."""
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
                taken, other = True, signed(self.folder / SIGNED, what="the sweep")
            if not taken:
                raise UnavailableError(
                    "the sweep is being carried out by another process",
                    facts={"folder": self.folder},
                    fix="wait for it, or give another folder with -o",
                )
            with other:
                yield

    def add(self, line: JournalLine) -> None:
        """Write a line and have it on the disk."""
        with writing(self._path), self._adding, open(self._path, "ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def ends(self) -> dict[tuple[str, int], JournalLine]:
        """Collect the last word on every case and round that came to an end."""
        return {(line.case, line.round): line for line in self.lines if line.what != "begin"}

    def unfinished(self) -> list[JournalLine]:
        """List the measurements that were begun, with the id of their run, and never ended."""
        ends = self.ends()
        begun = {(line.case, line.round): line for line in self.lines if line.what == "begin"}
        return [line for key, line in begun.items() if key not in ends and line.run is not None]

    def interrupted(self) -> JournalLine | None:
        """Find the last measurement, if it never ended and nobody noted the id of its run."""
        last = self.lines[-1] if self.lines else None
        is_open = last is not None and last.what == "begin" and last.run is None
        return last if is_open else None

    def forget_lost(self, is_lost: Callable[[str], bool]) -> None:
        """Have what was measured and is no longer there measured again."""
        lost = {line.run for line in self.lines if line.what == "done" and line.run}
        lost = {run for run in lost if is_lost(run)}
        self.notes += [
            f"the run {run} is gone or damaged, and is measured again" for run in sorted(lost)
        ]
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
