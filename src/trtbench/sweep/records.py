"""Files of a sweep, in its folder: its outline, and the journal of its measurements."""

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from trtbench.core import safety
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import InputError, UnavailableError, UsageError, writing
from trtbench.core.spec import Value
from trtbench.host.files import NoLocksError, make_folder, no_links, try_lock, write_whole
from trtbench.requests.settings import Config
from trtbench.store.directory import now
from trtbench.store.place import address_from_text, is_url
from trtbench.store.store import Store
from trtbench.sweep.matrix import Matrix, check_matrix

SWEEP = "sweep.json"
JOURNAL = "journal.jsonl"


class SweepOutline(Value, frozen=True, kw_only=True):
    """The content of ``sweep.json``: all that is needed to resume."""

    name: str
    tag: str  # of every run of the sweep
    created: str
    store: str  # address as for ``--store``, without password
    runs: str | None = None  # address of run directories, if given separately
    matrix: Matrix
    lenient: bool = False


def start_sweep(
    matrix: Matrix, folder: Path, *, store: Store, lenient: bool = False
) -> SweepOutline:
    """Create the folder of a sweep with its outline; an existing sweep there is an error."""
    folder = folder.absolute()
    if (folder / SWEEP).exists():
        fix = f"trtbench sweep --resume {folder}, or choose another folder with -o"
        raise UsageError(f"{folder} already contains a sweep", fix=fix)
    outline = SweepOutline(
        name=folder.name,
        tag=f"sweep:{safety.file_name_from_text(folder.name)}-{secrets.token_hex(3)}",
        created=now(),
        store=safety.mask(store.address),
        runs=safety.mask(store.runs_address) if store.runs_address else None,
        matrix=matrix,
        lenient=lenient,
    )
    with writing(folder):
        make_folder(folder)
        write_whole(folder / SWEEP, json_from_value(outline))
    return outline


def read_outline(folder: Path) -> SweepOutline:
    path = folder / SWEEP
    try:
        data = safety.read_bytes(path)
    except OSError:
        raise UsageError(
            f"{folder} contains no sweep", facts={"missing": SWEEP}, fix="trtbench sweep --help"
        ) from None
    outline = value_from_json(data, SweepOutline, where=str(path))
    safety.check_tag(outline.tag, where=path)
    check_matrix(outline.matrix, where=str(path))
    return outline


def config_of_sweep(folder: Path, config: Config, *, given: str | None) -> Config:
    """Return the settings with the store of the sweep; another store is an error."""
    outline = read_outline(folder.absolute())
    if safety.SECRET in outline.store:
        if safety.mask(config.store) == outline.store:
            return config
        facts = {"store": outline.store}
        fix = "give it with --store URL, or TRTBENCH_STORE in the environment"
        raise UsageError("the sweep's store needs its password", facts=facts, fix=fix)
    if given is None:
        return config.having(store=outline.store, runs=outline.runs)
    same = address_from_text(given) == outline.store
    if not same and not is_url(outline.store) and Path(outline.store).is_dir():
        facts = {"its store": outline.store, "given": given}
        fix = f"trtbench sweep --resume {folder}"
        raise UsageError("the runs of this sweep are in another store", facts=facts, fix=fix)
    return config


class JournalLine(Value, frozen=True, kw_only=True, omit_defaults=True):
    what: Literal["begin", "done", "failed"]
    case: str  # the key of the case
    round: int
    at: str
    run: str | None = None
    reason: str | None = None


class Journal:
    """An append-only log; each line is on disk before work continues."""

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
            try:
                reason, fix = "the sweep is being run by another process", "wait for it, or choose"
                taken = try_lock(file.fileno())
            except NoLocksError:  # as on some network file systems
                taken, reason, fix = False, "the folder of a sweep needs file locks", "choose"
            if not taken:
                where = {"folder": self.folder}
                raise UnavailableError(reason, facts=where, fix=f"{fix} another folder with -o")
            yield

    def add(
        self, what: Literal["begin", "done", "failed"], case: str, number: int, **more: object
    ) -> None:
        line = JournalLine(what=what, case=case, round=number, at=now()).having(**more)
        with writing(self._path), self._adding, open(self._path, "ab", opener=no_links) as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def finished(self) -> dict[tuple[str, int], JournalLine]:
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

    def _read(self) -> list[JournalLine]:
        try:
            data = safety.read_bytes(self._path)
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
                    safety.check_id(line.run, where=f"line {number}")
                lines.append(line)
            except InputError as problem:
                if text:
                    self.notes.append(f"{self._path.name}: {problem.message.splitlines()[0]}")
        return lines
