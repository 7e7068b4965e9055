"""Reads and writes run directories, and makes the entry of a run for the index.

``files.json`` lists the files that a run had when it was complete. Only these, and files that are
known to be written later, are ever removed.
"""

import contextlib
import datetime
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from trtbench.core import run as core
from trtbench.core import samples as core_samples
from trtbench.core.codec import json_from_value, record_from_json, value_from_json
from trtbench.core.errors import InputError, StoreError, reading, writing
from trtbench.core.properties import protocol_of
from trtbench.core.safety import check_name, clean_line, read_bytes
from trtbench.core.spec import ModelRef, RunSpec, Value
from trtbench.host import files as host_files
from trtbench.host.arrays import archive_names, read_archive
from trtbench.trtexec.exports import graph_from_json, profiles_from_json

T = TypeVar("T")

LIST = "files.json"
RECORD = "run.json"
SAMPLES = "samples.npz"
PROFILE = "profile.json"
GRAPH = "graph.json"
SCORES = "scores.json"
TELEMETRY = "telemetry.json"
LOAD = "load.json"

_LATER = re.compile(
    r"files\.json|run\.json|(scores|load)\.json|checks?[\w.-]*\.(json|md)|pictures/[^/]+"
    r"|per_layer_time\.png"
)
"""Files written after a run is complete: its record with new tags, scores, checks, searches."""
_PARTIAL = re.compile(rf"(?:[^/]+/)?\.(?:{_LATER.pattern})\.[0-9a-f]{{6}}")
_UNLISTED = re.compile(
    r"samples\.npz|telemetry\.json|log\.txt|times\.json|profile\.json|graph\.json|report\.json"
    r"|run_config\.json|summary\.(json|csv)|\w*percentiles\.csv|latency_\w+\.csv|import\.json"
    r"|[\w.]*metadata\.json|trtexec_stdout\.log|build\.log|output\.json|launch-\d+/[\w.-]+"
)
_NO_SAMPLES = b"PK\5\6" + bytes(18)
"""An archive without members; numpy takes twenty times longer to write the same bytes."""
DAMAGED = "damaged"
MOST_RECORD_BYTES = 1 << 26  # the values of a record take thirty times as much memory


class DamagedIndexError(StoreError):
    """The file of an index is damaged, or not an index."""


class ReadOnlyIndexError(StoreError):
    """An index can be read, but not written."""


def now() -> str:
    """Return the local time with its offset, as records store it."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def new_id() -> str:
    """Return an id that sorts by time and is unique across machines."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


@contextlib.contextmanager
def partial_directory(target: Path, *, trusted: bool | None = None) -> Iterator[Path]:
    """Create a folder that becomes ``target`` when the block ends, and is removed on an error.

    On an error, a folder that has a record is published all the same, to keep the measurement.
    Unless ``trusted`` says whether others can write to the folders above, this is looked up, and
    folders that killed processes left next to it are removed.
    """
    with writing(target):
        if trusted is None:
            host_files.remove_abandoned(host_files.make_folder(target.parent))
        host_files.remove_if_empty(target)
    name = host_files.partial_name(target.parent)
    with host_files.new_directory(name, trusted=trusted) as folder:
        try:
            yield folder
        except Exception:
            if (folder / RECORD).is_file():
                _complete(folder, name, target)
            raise
        _complete(folder, name, target)


def _complete(folder: Path, name: Path, target: Path) -> None:
    with writing(target):
        with contextlib.suppress(OSError):  # on a full disk, the run matters more than its list
            names = msgspec.json.encode(sorted(_all_files(folder)))
            host_files.write_bytes(f"{folder}/{LIST}", names)
        for path in (folder / RECORD, folder / SAMPLES):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        host_files.publish(folder, name=name, target=target)


def own_files(folder: Path) -> list[str]:
    """Return the names of files that belong to the run, without links."""
    known = _listed_files(folder)
    names = sorted(each for each in _all_files(folder) if each in known or _LATER.fullmatch(each))
    paths = ((name, folder / name) for name in names)
    return [name for name, path in paths if path.is_file() and not path.is_symlink()]


def remove_contents(folder: Path) -> tuple[str, ...]:
    """Remove the files of a run, and the folder if it is then empty; returns the other files."""
    if folder.is_symlink() or not folder.is_dir():
        raise StoreError(f"{folder} is not a run directory, and was not removed")
    names = _all_files(folder)
    ours = {name for name in names if _LATER.fullmatch(name) or _PARTIAL.fullmatch(name)}
    left = tuple(sorted(names - _listed_files(folder) - ours))
    if not left:
        doomed = host_files.partial_name(folder.parent)
        folder.rename(doomed)  # hides the run at once
        shutil.rmtree(doomed)
        return ()
    for name in names - set(left):
        (folder / name).unlink()
    for path, folders, files in os.walk(folder, topdown=False):
        if not folders and not files and Path(path) != folder:
            with contextlib.suppress(OSError):
                Path(path).rmdir()
    return left


def _listed_files(folder: Path) -> set[str]:
    """Return the files that the run had when it was complete; without a list, known names."""
    try:
        listed = msgspec.json.decode(read_bytes(folder / LIST), type=list[str])
        return {str(check_name(name)) for name in listed}
    except (OSError, InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {name for name in _all_files(folder) if _UNLISTED.fullmatch(name)}


def _all_files(folder: Path) -> set[str]:
    found = set()
    begin = len(str(folder)) + 1
    for path, folders, files in os.walk(str(folder)):
        links = [name for name in folders if Path(path, name).is_symlink()]
        before = f"{path[begin:]}/" if len(path) > begin else ""
        found |= {before + name for name in (*files, *links)}
    return found


def run_directories(root: Path) -> Iterator[Path]:
    """Yield the complete run directories in a folder, sorted by name."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        opened = os.access(folder / RECORD, os.F_OK)  # is_file raises where it cannot be known
        if not folder.name.startswith(".") and opened and (folder / RECORD).is_file():
            yield folder


def write_record(folder: Path, record: core.AnyRecord) -> None:
    """Write run.json, whole or not at all, without secrets."""
    write_json(folder / RECORD, core.without_secrets(record))


def write_json(path: Path, value: object) -> None:
    """Write a value as a file of a run directory, whole or not at all."""
    with writing(path):
        host_files.write_whole(path, json_from_value(value))


def write_samples(folder: Path, times: core_samples.IterationTimes) -> None:
    """Write the raw columns, in seconds."""
    columns = dict(times.columns())
    with writing(folder / SAMPLES):
        if columns:
            np.savez(folder / SAMPLES, **columns)  # type: ignore[arg-type]
        else:
            host_files.write_bytes(folder / SAMPLES, _NO_SAMPLES)


def read_record(folder: Path) -> core.AnyRecord:
    """Read run.json of a run directory."""
    path = folder / RECORD
    try:
        data = read_bytes(path, most=MOST_RECORD_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        fix = f"trtbench import {shlex.quote(str(folder))}" if folder.is_dir() else "trtbench runs"
        facts = {"missing": RECORD}
        raise InputError(f"{folder} is not a run directory", facts=facts, fix=fix) from None
    except OSError as problem:
        reason = problem.strerror or problem
        raise StoreError(f"{path} cannot be read", facts={"reason": reason}) from None
    return record_from_json(data, where=str(path))


def read_samples(folder: Path, *, headline: bool = False) -> core_samples.IterationTimes:
    """Read the raw columns of a run, or only the headline column."""
    path = folder / SAMPLES
    if not path.exists():
        raise InputError(f"{folder} has no samples", facts={"missing": SAMPLES})
    wanted = None
    if headline:
        names = archive_names(path)
        wanted = next(([name] for name in core_samples.DURATIONS if name in names), [])
    try:
        times = core_samples.times_from_columns(read_archive(path, wanted=wanted))
        for name, column in times.durations().items():
            size = np.abs(np.asarray(column, float))
            if not np.all((size == 0) | ((size > 1e-30) & (size < 1e9))):
                raise ValueError(f"{name} holds what is no duration in seconds")
        return times
    except (ValueError, TypeError) as problem:
        raise InputError(f"{path} is damaged", facts={"reason": problem}) from None


def read_headline(folder: Path) -> core.Run | core.FailedRun:
    """Read only the parts of a run that its entry in the index needs."""
    record = read_record(folder)
    if not isinstance(record, core.RunRecord):
        return record
    return core.Run(record=record, times=read_samples(folder, headline=True), path=folder)


def read_run(folder: Path) -> core.Run | core.FailedRun:
    record = read_record(folder)
    if not isinstance(record, core.RunRecord):
        return record
    scores = _read(folder / SCORES, core.Scores)
    if scores is not None and scores.sha256 != record.spec.model.sha256:
        raise InputError(
            "the scores of a run belong to another artefact",
            facts={
                "run": record.spec.model.sha256, "scores": scores.sha256, "file": folder / SCORES,
            },
            fix="remove the scores file, or evaluate the model that was measured",
        )  # fmt: skip
    layers, graph = read_layers(folder)
    return core.Run(
        record=record, times=read_samples(folder), path=folder, layers=layers, graph=graph,
        telemetry=_read(folder / TELEMETRY, tuple[core_samples.TelemetrySample, ...]) or (),
        load=_read(folder / LOAD, core.LoadSearch),
        extra=scores.as_extra() if scores is not None else {},
    )  # fmt: skip


def _read(path: Path, kind: type[T]) -> T | None:
    if not path.exists():
        return None
    with reading(path):
        return value_from_json(read_bytes(path), kind, where=str(path))


def read_layers(
    folder: Path,
) -> tuple[core_samples.LayerProfile | None, core_samples.EngineGraph | None]:
    """Read layer times and layer information of a run; ``None`` if missing or damaged."""
    profiles = _parsed(folder / PROFILE, profiles_from_json)
    return profiles[0] if profiles else None, _parsed(folder / GRAPH, graph_from_json)


def _parsed(path: Path, parse: Callable[..., T]) -> T | None:
    try:
        return parse(read_bytes(path), where=str(path))
    except (OSError, InputError):
        return None


def demand_finished(found: T | core.FailedRun) -> T:
    """Return a run, or raise if it did not finish."""
    if isinstance(found, core.FailedRun):
        facts = {"stage": found.stage, "reason": found.reason}
        fix = f"for details: trtbench runs show {found.id}"
        raise InputError(f"the run {found.id} did not finish", facts=facts, fix=fix)
    return found


def unreadable_run(folder: Path, reason: str) -> core.FailedRun:
    """Return a failed run in place of one that cannot be read, so that lists can show it."""
    return core.FailedRun(
        id=clean_line(folder.name), created="",
        spec=RunSpec(model=ModelRef(path=folder.name, format="unknown"), runtime="unknown"),
        environment=core.Environment(host="", os=""), stage="read", reason=reason,
    )  # fmt: skip


class Cached(Value, frozen=True, kw_only=True):
    """Numbers of a run that the index stores for listings; copies of what is in the run."""

    samples: int
    median_s: float
    """Without samples, the value that another tool printed: a mean if it printed no median."""
    items_per_s: float | None = None


class Entry(Value, frozen=True, kw_only=True):
    """The row of a run in the index, known without opening its directory."""

    id: str
    kind: str
    created: str
    model: str
    runtime: str
    path: str
    sha256: str | None = None
    precision: str | None = None
    batch: int | None = None
    protocol: str | None = None
    host: str | None = None
    gpu: str | None = None
    provenance: str | None = None
    samples: int | None = None
    median_s: float | None = None
    items_per_s: float | None = None
    warnings: int | None = None
    dated_by: str | None = None  # of an imported run, such as `log` or `file`
    tags: tuple[str, ...] = ()


def entry_from_record(record: core.AnyRecord, *, path: str, cached: Cached | None = None) -> Entry:
    spec, gpu = record.spec, core.gpu_of(record)
    finished = record if isinstance(record, core.RunRecord) else None
    return Entry(
        id=record.id, kind="run" if finished else "failed", created=record.created,
        model=spec.model.name, runtime=spec.runtime, path=path, sha256=spec.model.sha256,
        precision=core.precision_of(record), batch=finished.known_items if finished else spec.batch,
        protocol=protocol_of(record), host=record.environment.label, gpu=gpu.name if gpu else None,
        provenance=finished.provenance if finished else None,
        dated_by=str(finished.facts.get("created_from") or "") or None if finished else None,
        warnings=sum(e.severity != "note" for e in finished.findings) if finished else None,
        tags=record.tags, **(msgspec.structs.asdict(cached) if cached else {}),
    )  # fmt: skip
