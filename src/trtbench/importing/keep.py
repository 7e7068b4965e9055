"""Imported runs on disk: the originals byte for byte, and beside them what is derived."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, writing
from trtbench.core.run import FailedRun, Run
from trtbench.core.safety import mask, read_bytes
from trtbench.formats.toolkit import SERIES_ROWS, data_files, write_toolkit_files
from trtbench.host.files import write_bytes
from trtbench.importing.files import FilePart
from trtbench.importing.match import Draft
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.run_facts import remember_summary, summary_of
from trtbench.requests.settings import cached_from_run
from trtbench.store.directory import new_id, write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.conditions import (
    TACTICS,
    build_metadata_from_log,
    profile_metadata_from_log,
    tactics_from_trace,
)
from trtbench.trtexec.exports import profile_json
from trtbench.trtexec.log_text import HARD_BREAK, encoding_of, text_lines
from trtbench.trtexec.log_values import LogRun
from trtbench.trtexec.sniff import HEAD_BYTES
from trtbench.trtexec.times import times_json

ORIGIN = "import.json"
"""Where a run came from: its files with their hashes, by which it is known again."""

LOG = "trtexec_stdout.log"

_IDENTITY = ("times", "log", "failed_log", "profile", "torch", "torch_csv")
"""What makes a run the same run; a new summary beside it does not make it another."""

_COPIES = {
    "times": "times.json",
    "profile": "profile.json",
    "graph": "graph.json",
    "output": "output.json",
    "output_diff": "output_diff.json",
    "calibration": "calibration.cache",
    "build_log": "build.log",
    "build_metadata": "build.metadata.json",
    "profile_metadata": "profile.metadata.json",
    "torch": "bench_pt_result.json",
    "torch_csv": "bench_pt_result.csv",
}


_TOLD = ("build_log", "build_metadata", "profile_metadata")


def identity_of(draft: Draft) -> str:
    """Hash what a run was made of."""
    parts = [part for slot, part in draft.parts.items() if slot in _IDENTITY]
    parts = parts or list(draft.parts.values())
    lines = sorted(f"{part.index} {part.file.sha256}" for part in parts)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def identities_in(store: Store) -> dict[str, str]:
    """Collect the ids of the imported runs of a store, by what they were made of."""
    found = {}
    for entry in store.index.find():
        if entry.provenance != "imported" and entry.kind != "failed":
            continue
        with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError, InputError):
            origin = msgspec.json.decode(read_bytes(store.path(entry) / ORIGIN))
            found[str(origin.get("sha256"))] = entry.id
    return found


def free_id(store: Store) -> str:
    """Make an id that no run has; many runs are imported within one second."""
    while (store.directory(run_id := new_id())).exists():
        continue
    return run_id


def keep_run(run: Run, draft: Draft, *, store: Store, pictures: bool) -> Run:
    """Write a run with all its files, and put it into the index."""
    path = store.directory(run.id)
    kept = Run(record=run.record, times=run.times, path=path, layers=run.layers, graph=run.graph)
    remember_summary(kept, summary_of(run))
    with store.new_run(run.id) as folder, writing(folder):
        _copy_originals(draft, folder)
        write_samples(folder, run.times)
        for name, content in _derived(kept, draft, folder, pictures=pictures):
            write_bytes(f"{folder}/{name}", content)
        write_record(folder, run.record)
    store.add(run.record, path=path, cached=cached_from_run(run))
    return kept


def keep_failure(failed: FailedRun, draft: Draft, *, store: Store) -> Path:
    """Write the record of a run that did not finish, with its log."""
    path = store.directory(failed.id)
    with store.new_run(failed.id) as folder, writing(folder):
        _copy_originals(draft, folder)
        (folder / ORIGIN).write_bytes(json_from_value(origin_of(draft)))
        write_record(folder, failed)
    store.add(failed, path=path)
    return path


def write_toolkit_folder(run: Run, draft: Draft, folder: Path) -> list[Path]:
    """Write the evaluation toolkit's files into a folder; what a run was made of stays as it is."""
    sources = {part.file.path.resolve() for part in draft.parts.values()}
    with writing(folder), contextlib.ExitStack() as stack:
        scratch = folder / ".trtbench-import"
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        written = []
        for path in write_toolkit_files(run, scratch):
            target = folder / path.name
            if target.resolve() not in sources:
                path.replace(target)
                written.append(target)
        return written


def origin_of(draft: Draft) -> dict[str, object]:
    """Describe the files of a run."""
    sources = [
        {
            "path": part.file.place,
            "sha256": part.file.sha256,
            "kind": part.file.kind,
            "as": slot,
            **({"part": part.index, "of": part.of} if part.of > 1 else {}),
        }
        for slot, part in draft.parts.items()
    ]
    return {"sha256": identity_of(draft), "sources": sources}


def _copy_originals(draft: Draft, folder: Path) -> None:
    for slot, name in _COPIES.items():
        part = draft.parts.get(slot)
        if part is not None and part.of == 1:
            (_copy_text if slot in _TOLD else shutil.copyfile)(part.file.path, folder / name)
    for slot in ("log", "failed_log"):
        part = draft.parts.get(slot)
        if part is None:
            continue
        if part.file.kind != "log":  # metadata that stands for a log
            _copy_text(part.file.path, folder / "profile.metadata.json")
        elif part.of == 1 and _as_in_file(part):
            _copy_text(part.file.path, folder / LOG)
        else:
            with open(part.file.path, "rb") as stream, open(folder / LOG, "wb") as target:
                target.writelines(map(_without_secrets, _lines_of(part, stream)))


def _copy_text(source: Path, target: Path) -> None:
    """Copy what a program printed, commands and all, line by line without its secrets."""
    with open(source, "rb") as stream:
        is_utf_8 = (encoding_of(stream.read(HEAD_BYTES)) or "utf-8") in ("utf-8", "utf-8-sig")
        stream.seek(0)
        if not is_utf_8 and all(mask(line) == line for line in text_lines(stream)):
            shutil.copyfile(source, target)
            return
        stream.seek(0)
        with open(target, "wb") as written:
            if is_utf_8:
                written.writelines(map(_without_secrets, stream))
            else:
                written.writelines(f"{mask(line)}\n".encode() for line in text_lines(stream))


def _without_secrets(line: bytes) -> bytes:
    if b"[V]" in line[:200]:
        return line
    return mask(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _as_in_file(part: FilePart) -> bool:
    """Say whether the lines of a log are those of its file, and not those of a notebook in it."""
    return part.text is not None and part.text.as_in_file


def _lines_of(part: FilePart, stream: BinaryIO) -> Iterator[bytes]:
    """Cut the lines of one run out of a text of several; those of a plain file as they are."""
    run: LogRun = part.value
    begin, end = run.line - 1, run.last_line or run.line
    if _as_in_file(part):
        is_last = part.text is None or part.index == len(part.text.runs) - 1
        begin, end = begin if part.index else 0, sys.maxsize if is_last else end
        if encoding_of(stream.read(HEAD_BYTES)) == "utf-8":
            stream.seek(0)
            lines = (line for chunk in stream for line in chunk.splitlines(keepends=True))
            yield from itertools.islice(lines, begin, end)
            return
        stream.seek(0)
    for line in itertools.islice(text_lines(stream), begin, end):
        if line != HARD_BREAK:
            yield f"{line}\n".encode()


def _derived(
    run: Run, draft: Draft, folder: Path, *, pictures: bool
) -> Iterator[tuple[str, bytes]]:
    """List the files that are made anew, where there is no original to copy."""
    yield from data_files(run).items()
    short = 0 < len(run.times) <= SERIES_ROWS
    if short and run.times.stamps and not (folder / "times.json").exists():
        yield "times.json", times_json(run.times)
    if run.layers is not None and not (folder / "profile.json").exists():
        yield "profile.json", profile_json(run.layers)
    if pictures and run.layers and any(layer.average_s > 0 for layer in run.layers.layers):
        yield "per_layer_time.png", layer_picture(run)
    log = draft.parts.get("build_log" if draft.built else "log")
    if log is not None and log.file.kind == "log":
        yield from _metadata(log.value, draft, folder)
    yield ORIGIN, json_from_value(origin_of(draft))


def _metadata(log: LogRun, draft: Draft, folder: Path) -> Iterator[tuple[str, bytes]]:
    built: LogRun = draft.parts["build_log"].value if "build_log" in draft.parts else log
    documents = {
        "build.metadata.json": build_metadata_from_log(built),
        "profile.metadata.json": profile_metadata_from_log(log),
    }
    for name, document in documents.items():
        if not (folder / name).exists():
            yield name, json_from_value(document)
    if built.trace is not None and built.trace.tactics_tried:
        yield "tactics.csv", csv_from_lines(TACTICS, tactics_from_trace(built.trace)).encode()


def layer_picture(run: Run) -> bytes:
    """Draw ``per_layer_time.png``."""
    from trtbench.report.renderers.png import png_bytes
    from trtbench.report.sections.layers import layers_figure

    assert run.layers is not None
    return png_bytes(layers_figure(run.layers))
