"""Run directories: written under a temporary name, renamed when complete, read as a whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trtbench.domain.codec import json_from_value, record_from_json
from trtbench.domain.result import FailedRun, Record, Run, RunRecord
from trtbench.domain.samples import IterationTimes, times_from_columns
from trtbench.errors import InputError, StoreError

RECORD = "run.json"
SAMPLES = "samples.npz"
PARTIAL = ".partial-"
"""Prefix of a directory that is not complete; no reader looks at it."""


def new_id() -> str:
    """Make an id that sorts by time and does not collide between machines."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


@contextlib.contextmanager
def partial_directory(target: Path) -> Iterator[Path]:
    """Give a folder to fill; it becomes ``target`` at the end, or vanishes on any error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _refuse_occupied(target)
        stamp = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        folder = target.parent / f"{PARTIAL}{stamp}"
        folder.mkdir()
    except OSError as problem:
        raise write_error(target, problem) from None
    try:
        yield folder
        try:
            _sync(folder)
            folder.rename(target)
        except OSError as problem:
            raise write_error(target, problem) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_record(folder: Path, record: Record) -> None:
    """Write run.json whole or not at all."""
    path = folder / RECORD
    temporary = folder / f".{RECORD}.{secrets.token_hex(3)}"
    try:
        temporary.write_bytes(json_from_value(record))
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise write_error(path, problem) from None


def write_samples(folder: Path, times: IterationTimes) -> None:
    """Write the raw columns, in seconds."""
    try:
        np.savez(folder / SAMPLES, **dict(times.columns()))  # type: ignore[arg-type]
    except OSError as problem:
        raise write_error(folder / SAMPLES, problem) from None


def read_record(folder: Path) -> Record:
    """Read run.json of one directory."""
    path = folder / RECORD
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{folder} is not a run directory", facts={"missing": RECORD}, fix="trtbench runs"
        ) from None
    except OSError as problem:
        raise StoreError(f"{path} cannot be read", facts={"reason": problem}) from None
    return record_from_json(data, where=str(path))


def read_samples(folder: Path) -> IterationTimes:
    """Read the raw columns of one directory."""
    path = folder / SAMPLES
    try:
        with np.load(path, allow_pickle=False) as archive:
            return times_from_columns({name: archive[name] for name in archive.files})
    except FileNotFoundError:
        raise InputError(f"{folder} has no samples", facts={"missing": SAMPLES}) from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise InputError(f"{path} is damaged", facts={"reason": problem}) from None


def read_run(folder: Path) -> Run | FailedRun:
    """Read a run with its samples; a failed run has none."""
    record = read_record(folder)
    if isinstance(record, RunRecord):
        return Run(record=record, times=read_samples(folder), path=folder)
    return record


def run_directories(root: Path) -> Iterator[Path]:
    """Find complete run directories below a folder, oldest name first."""
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        if not folder.name.startswith(".") and (folder / RECORD).is_file():
            yield folder


def remove_abandoned(root: Path) -> int:
    """Remove what dead processes of this machine left unfinished; gives how many."""
    removed = 0
    prefix = f"{PARTIAL}{socket.gethostname()}-"
    for folder in root.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def write_error(path: Path, problem: OSError) -> StoreError:
    """Say what keeps a file from being written."""
    if problem.errno == errno.ENOSPC:
        return StoreError(
            "the disk is full",
            facts={"writing": path},
            fix="free some space, or give another place with --store or -o",
        )
    return StoreError(
        f"{path} cannot be written",
        facts={"reason": problem.strerror or problem},
        fix="give another place with --store or -o",
    )


def _refuse_occupied(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not empty", fix="give a new folder with -o, or remove it"
        )
    target.rmdir()


def _sync(folder: Path) -> None:
    """Have the record on the disk before the name tells that it is complete."""
    path = folder / RECORD
    if path.is_file():
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
