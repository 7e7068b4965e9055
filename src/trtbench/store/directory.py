"""Run directories: written under a temporary name, renamed when complete, read as a whole."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from trtbench.domain.codec import json_from_value, record_from_json, value_from_json
from trtbench.domain.result import FailedRun, Record, Run, RunRecord, Scores, without_secrets
from trtbench.domain.samples import (
    EngineGraph,
    IterationTimes,
    LayerProfile,
    TelemetrySample,
    times_from_columns,
)
from trtbench.errors import InputError, StoreError, write_error
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.profile import profiles_from_json

T = TypeVar("T")

RECORD = "run.json"
SAMPLES = "samples.npz"
PROFILE = "profile.json"
GRAPH = "graph.json"
SCORES = "scores.json"
TELEMETRY = "telemetry.json"
PARTIAL = ".partial-"
"""Prefix of a directory that is not complete; no reader looks at it.

After it come the process that fills it, its host, and a random part. The process also holds a lock
on the directory, so that another container with the same host name does not take it for dead.
"""


def now() -> str:
    """The local time with its offset, as records carry it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def new_id() -> str:
    """Make an id that sorts by time and does not collide between machines."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


@contextlib.contextmanager
def partial_directory(target: Path) -> Iterator[Path]:
    """Give a folder to fill; it becomes ``target`` at the end, or vanishes on any error.

    A folder that holds a record when something breaks is kept: what was measured is in it.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _refuse_occupied(target)
        remove_abandoned(target.parent)
    except OSError as problem:
        raise write_error(target, problem) from None
    with scratch_directory(target.parent) as folder:
        try:
            yield folder
        except Exception:
            if (folder / RECORD).is_file():
                _complete(folder, target)
            raise
        _complete(folder, target)


@contextlib.contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Give a folder that no reader looks at and that vanishes at the end."""
    folder = _partial_name(parent)
    try:
        folder.mkdir()
        lock = _lock(folder)
    except OSError as problem:
        raise write_error(folder, problem) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_directory(folder: Path) -> None:
    """Delete a run directory; it vanishes from sight at once, and from the disk thereafter."""
    doomed = _partial_name(folder.parent)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def _complete(folder: Path, target: Path) -> None:
    try:
        _sync(folder)
        folder.rename(target)
    except OSError as problem:
        raise write_error(target, problem) from None


def _partial_name(parent: Path) -> Path:
    return parent / f"{PARTIAL}{os.getpid()}-{socket.gethostname()}-{secrets.token_hex(3)}"


def write_record(folder: Path, record: Record) -> None:
    """Write run.json whole or not at all."""
    path = folder / RECORD
    temporary = folder / f".{RECORD}.{secrets.token_hex(3)}"
    try:
        temporary.write_bytes(json_from_value(without_secrets(record)))
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
    except Exception as problem:  # numpy and zipfile meet damage with a dozen kinds of exception
        raise InputError(f"{path} is damaged", facts={"reason": problem}) from None


def read_run(folder: Path) -> Run | FailedRun:
    """Read a run with its samples and layers; a failed run has none."""
    record = read_record(folder)
    if isinstance(record, RunRecord):
        scores = read_scores(folder, record)
        extra: dict[str, object] = {"scores": scores} if scores else {}
        layers, graph = read_layers(folder)
        return Run(
            record=record,
            times=read_samples(folder),
            path=folder,
            layers=layers,
            graph=graph,
            telemetry=read_telemetry(folder),
            extra=extra,
        )
    return record


def write_telemetry(folder: Path, samples: tuple[TelemetrySample, ...]) -> None:
    """Write what was seen of the GPU over time."""
    try:
        (folder / TELEMETRY).write_bytes(json_from_value(samples))
    except OSError as problem:
        raise write_error(folder / TELEMETRY, problem) from None


def read_telemetry(folder: Path) -> tuple[TelemetrySample, ...]:
    """Read what was seen of the GPU over time; nothing where nobody looked."""
    path = folder / TELEMETRY
    if not path.is_file():
        return ()
    return value_from_json(path.read_bytes(), tuple[TelemetrySample, ...], where=str(path))


def read_layers(folder: Path) -> tuple[LayerProfile | None, EngineGraph | None]:
    """Read layer times and layer information where a run has them; damaged ones are left out."""
    profiles = _parsed(folder / PROFILE, profiles_from_json)
    return profiles[0] if profiles else None, _parsed(folder / GRAPH, graph_from_json)


def _parsed(path: Path, parse: Callable[..., T]) -> T | None:
    try:
        return parse(path.read_bytes(), where=str(path))
    except (OSError, InputError):
        return None


def read_scores(folder: Path, record: RunRecord) -> dict[str, object]:
    """Read the scores kept beside a run; those of other bytes than it measured are refused."""
    path = folder / SCORES
    if not path.is_file():
        return {}
    kept = value_from_json(path.read_bytes(), Scores, where=str(path))
    if kept.sha256 != record.spec.model.sha256:
        raise InputError(
            "the scores beside a run belong to another artefact",
            facts={"run": record.spec.model.sha256, "scores": kept.sha256, "file": path},
            fix="remove the file, or evaluate the model that was measured",
        )
    return {score.metric: score for score in kept.scores}


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
    for folder in root.glob(f"{PARTIAL}*"):
        pid, _, rest = folder.name.removeprefix(PARTIAL).partition("-")
        mine = rest.rpartition("-")[0] == socket.gethostname()
        if mine and pid.isdigit() and not _alive(int(pid)) and not _is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _refuse_occupied(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir() or any(target.iterdir()):
        raise StoreError(
            f"{target} exists and is not empty", fix="give a new folder with -o, or remove it"
        )
    target.rmdir()


def _sync(folder: Path) -> None:
    """Have the truth on the disk before the name tells that it is complete."""
    for path in (folder / RECORD, folder / SAMPLES):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())


def _lock(folder: Path) -> int | None:
    """Hold a directory as long as this process lives; ``None`` where the file system cannot."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks on this file system
        return False
    finally:
        os.close(descriptor)
    return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
