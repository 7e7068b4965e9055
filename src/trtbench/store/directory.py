"""Run directories: appear when they are complete, and are read as a whole."""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from trtbench.boundary import clean_line, read_bytes
from trtbench.domain.codec import json_from_value, record_from_json, value_from_json
from trtbench.domain.load import LoadSearch
from trtbench.domain.result import (
    AnyRecord,
    Environment,
    FailedRun,
    Run,
    RunRecord,
    Scores,
    without_secrets,
)
from trtbench.domain.samples import (
    DURATIONS,
    EngineGraph,
    IterationTimes,
    LayerProfile,
    TelemetrySample,
    times_from_columns,
)
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import InputError, StoreError, writing
from trtbench.host.arrays import archive_names, read_archive
from trtbench.host.files import write_bytes, write_whole
from trtbench.host.unfinished import refuse_occupied, remove_abandoned, scratch_directory
from trtbench.store.contents import list_contents
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.profile import profiles_from_json

T = TypeVar("T")

RECORD = "run.json"
SAMPLES = "samples.npz"
PROFILE = "profile.json"
GRAPH = "graph.json"
SCORES = "scores.json"
TELEMETRY = "telemetry.json"
LOAD = "load.json"

_NO_SAMPLES = b"PK\5\6" + bytes(18)
"""An archive without members, as numpy writes it in twenty times the time."""


def now() -> str:
    """Tell the local time with its offset, as records carry it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def new_id() -> str:
    """Make an id that sorts by time and does not collide between machines."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


@contextlib.contextmanager
def partial_directory(target: Path, *, tidy: bool = True) -> Iterator[Path]:
    """List a folder to fill; it becomes ``target`` at the end, or vanishes on any error.

    A folder that holds a record when something breaks is kept: what was measured is in it.
    Unless ``tidy``, somebody has just removed what dead processes left beside it.
    """
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        refuse_occupied(target)
        if tidy:
            remove_abandoned(target.parent)
    with scratch_directory(target.parent) as folder:
        try:
            yield folder
        except Exception:
            if (folder / RECORD).is_file():
                _complete(folder, target)
            raise
        _complete(folder, target)


def _complete(folder: Path, target: Path) -> None:
    with writing(target):
        list_contents(folder)
        _sync(folder)
        folder.rename(target)


def write_record(folder: Path, record: AnyRecord) -> None:
    """Write run.json whole or not at all."""
    path = folder / RECORD
    with writing(path):
        write_whole(path, json_from_value(without_secrets(record)))


def write_samples(folder: Path, times: IterationTimes) -> None:
    """Write the raw columns, in seconds."""
    columns = dict(times.columns())
    with writing(folder / SAMPLES):
        if columns:
            np.savez(folder / SAMPLES, **columns)  # type: ignore[arg-type]
        else:
            write_bytes(folder / SAMPLES, _NO_SAMPLES)


def read_record(folder: Path) -> AnyRecord:
    """Read run.json of one directory."""
    path = folder / RECORD
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder} is not a run directory", facts={"missing": RECORD}, fix="trtbench runs"
        ) from None
    except OSError as problem:
        raise StoreError(f"{path} cannot be read", facts={"reason": problem}) from None
    return record_from_json(data, where=str(path))


def demand_finished(found: T | FailedRun) -> T:
    """Refuse a run that did not finish where one with times is needed."""
    if isinstance(found, FailedRun):
        raise InputError(
            f"the run {found.id} did not finish",
            facts={"stage": found.stage, "reason": found.reason},
            fix=f"trtbench runs show {found.id} says more",
        )
    return found


def read_samples(folder: Path, *, headline: bool = False) -> IterationTimes:
    """Read the raw columns of one directory; of a headline only the column that stands for it."""
    path = folder / SAMPLES
    if not path.exists():
        raise InputError(f"{folder} has no samples", facts={"missing": SAMPLES})
    wanted = None
    if headline:
        names = archive_names(path)
        wanted = next(([name] for name in DURATIONS if name in names), [])
    try:
        return times_from_columns(read_archive(path, wanted=wanted))
    except (ValueError, TypeError) as problem:
        raise InputError(f"{path} is damaged", facts={"reason": problem}) from None


def unreadable_run(folder: Path, reason: str) -> FailedRun:
    """Stand in for a run that cannot be read, so that it is a row among others with its reason."""
    return FailedRun(
        id=clean_line(folder.name),
        created="",
        spec=RunSpec(model=ModelRef(path=folder.name, format="unknown"), runtime="unknown"),
        environment=Environment(host="", os=""),
        stage="read",
        reason=reason,
    )


def read_headline(folder: Path) -> Run | FailedRun:
    """Read as much of a run as the index keeps of it, which takes a moment only."""
    record = read_record(folder)
    if not isinstance(record, RunRecord):
        return record
    return Run(record=record, times=read_samples(folder, headline=True), path=folder)


def read_run(folder: Path) -> Run | FailedRun:
    """Read a run with its samples and layers; a failed run has none."""
    record = read_record(folder)
    if isinstance(record, RunRecord):
        scores = read_scores(folder, record)
        extra = scores.as_extra() if scores is not None else {}
        layers, graph = read_layers(folder)
        return Run(
            record=record,
            times=read_samples(folder),
            path=folder,
            layers=layers,
            graph=graph,
            telemetry=read_telemetry(folder),
            load=read_load(folder),
            extra=extra,
        )
    return record


def write_telemetry(folder: Path, samples: tuple[TelemetrySample, ...]) -> None:
    """Write what was seen of the GPU over time."""
    with writing(folder / TELEMETRY):
        (folder / TELEMETRY).write_bytes(json_from_value(samples))


def read_telemetry(folder: Path) -> tuple[TelemetrySample, ...]:
    """Read what was seen of the GPU over time; nothing where nobody looked."""
    path = folder / TELEMETRY
    if not path.exists():
        return ()
    return value_from_json(read_bytes(path), tuple[TelemetrySample, ...], where=str(path))


def write_load(folder: Path, search: LoadSearch) -> None:
    """Keep a search for a rate beside the run that it ended with."""
    with writing(folder / LOAD):
        write_whole(folder / LOAD, json_from_value(search))


def read_load(folder: Path) -> LoadSearch | None:
    """Read the search that ended with a run, where one did."""
    path = folder / LOAD
    return value_from_json(read_bytes(path), LoadSearch, where=str(path)) if path.exists() else None


def read_layers(folder: Path) -> tuple[LayerProfile | None, EngineGraph | None]:
    """Read layer times and layer information where a run has them; damaged ones are left out."""
    profiles = _parsed(folder / PROFILE, profiles_from_json)
    return profiles[0] if profiles else None, _parsed(folder / GRAPH, graph_from_json)


def _parsed(path: Path, parse: Callable[..., T]) -> T | None:
    try:
        return parse(read_bytes(path), where=str(path))
    except (OSError, InputError):
        return None


def read_scores(folder: Path, record: RunRecord) -> Scores | None:
    """Read the scores kept beside a run; those of other bytes than it measured are refused."""
    path = folder / SCORES
    if not path.exists():
        return None
    kept = value_from_json(read_bytes(path), Scores, where=str(path))
    if kept.sha256 != record.spec.model.sha256:
        raise InputError(
            "the scores beside a run belong to another artefact",
            facts={"run": record.spec.model.sha256, "scores": kept.sha256, "file": path},
            fix="remove the file, or evaluate the model that was measured",
        )
    return kept


def run_directories(root: Path) -> Iterator[Path]:
    """Find complete run directories below a folder, oldest name first."""
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        if not folder.name.startswith(".") and (folder / RECORD).is_file():
            yield folder


def _sync(folder: Path) -> None:
    """Have the truth on the disk before the name tells that it is complete."""
    for path in (folder / RECORD, folder / SAMPLES):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
