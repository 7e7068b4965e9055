"""Imports the files of trtexec and of toolkits as ordinary runs."""

import contextlib
import hashlib
import itertools
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, TrtbenchError, UsageError, writing
from trtbench.core.results import ShortView
from trtbench.core.run import FailedRun, Run, RunRecord
from trtbench.core.safety import mask
from trtbench.core.units import counted
from trtbench.formats.toolkit import SERIES_ROWS, write_toolkit_files
from trtbench.host.files import write_bytes
from trtbench.importing import files as finding
from trtbench.importing import make as making
from trtbench.importing.archives import Unpacking
from trtbench.importing.files import Draft, FilePart, Unused, broken_file, plain
from trtbench.models.identity import kept_value
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.run_facts import cache_summary, summary_of
from trtbench.requests.execution import Event, Listener, silent
from trtbench.requests.settings import cached_from_run
from trtbench.requests.stored import ImportRequest
from trtbench.store.directory import new_id, write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.conditions import TACTICS, build_metadata_from_log, tactics_from_trace
from trtbench.trtexec.exports import profile_json
from trtbench.trtexec.log import HARD_BREAK, encoding_of, read_text
from trtbench.trtexec.log_values import LogRun, LogText
from trtbench.trtexec.sniff import HEAD_BYTES
from trtbench.trtexec.times import times_json

ORIGIN = "import.json"  # the files of a run, with hashes that identify it when imported again
LOG = "trtexec_stdout.log"
_IDENTITY = ("times", "log", "failed_log", "profile", "torch")
"""The roles that identify a run; a new summary does not make another run."""

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
}


def identity_of(draft: Draft) -> str:
    """Return the hash of the files that identify a run."""
    parts = [part for slot, part in draft.parts.items() if slot in _IDENTITY]
    parts = parts or list(draft.parts.values())
    lines = sorted(f"{part.index} {part.file.sha256}" for part in parts)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def identities_in(store: Store) -> dict[str, str]:
    """Return the ids of the imported runs of a store, by the hash of their files."""
    found = {}
    for entry in store.index.find():
        if entry.provenance == "imported" or entry.kind == "failed":
            with contextlib.suppress(TrtbenchError):  # an entry that leads elsewhere
                origin = kept_value(store.path(entry) / ORIGIN, dict) or {}
                found[str(origin.get("sha256"))] = entry.id
    return found


def _store(made: Run | FailedRun, draft: Draft, *, store: Store, pictures: bool) -> Run | FailedRun:
    """Write a run with all its files, and add it to the index."""
    target, kept = store.directory(made.id), made
    if isinstance(made, Run):
        kept = replace(made, path=target)
        cache_summary(kept, summary_of(made))
    record = made.record if isinstance(made, Run) else made
    sources = [
        {
            "path": plain(part.file.place.absolute()),
            "sha256": part.file.sha256,
            "kind": part.file.kind,
            "as": slot,
            **({"part": part.index, "of": part.of} if part.of > 1 else {}),
        }
        for slot, part in draft.parts.items()
    ]
    origin = {"sha256": identity_of(draft), "sources": sources}
    with store.new_run(made.id) as folder, writing(folder):
        for slot, part in draft.parts.items():
            path = part.file.path
            if slot in ("log", "failed_log") and part.file.kind == "log":
                _copy_text(path, folder / LOG, part)
            elif slot == "log":  # metadata that stands for a log
                _copy_text(path, folder / _COPIES["profile_metadata"])
            elif slot in _COPIES and part.of == 1:
                is_text = slot in ("build_log", "build_metadata", "profile_metadata")
                (_copy_text if is_text else shutil.copyfile)(path, folder / _COPIES[slot])
        if isinstance(kept, Run):
            write_samples(folder, kept.times)
            for name, content in _derived(kept, draft, folder, pictures=pictures):
                write_bytes(f"{folder}/{name}", content)
        write_bytes(f"{folder}/{ORIGIN}", json_from_value(origin))
        write_record(folder, record)
    store.add(record, path=target, cached=cached_from_run(made) if isinstance(made, Run) else None)
    return kept


def _copy_text(source: Path, target: Path, part: FilePart | None = None) -> None:
    """Copy a log with secrets masked; if it has several runs, only the lines of one."""
    text: LogText | None = part.text if part is not None else None
    as_in_file = text is None or text.as_in_file
    begin, end = 0, sys.maxsize
    if part is not None and text is not None:
        if part.index or not as_in_file:
            begin = part.value.line - 1
        if part.index < len(text.runs) - 1 or not as_in_file:
            end = part.value.last_line or part.value.line
    with open(source, "rb") as stream, open(target, "wb") as written:
        encoding = encoding_of(stream.read(HEAD_BYTES)) or "utf-8"
        stream.seek(0)
        if as_in_file and encoding.startswith("utf-8"):
            plain = text is not None and not text.masked
            if plain and (begin, end) == (0, sys.maxsize):
                shutil.copyfileobj(stream, written)
                return
            lines = (line for chunk in stream for line in chunk.splitlines(keepends=True))
            wanted = itertools.islice(lines, begin, end)
            while block := b"".join(itertools.islice(wanted, 1000)):
                if not plain:
                    found = block.decode("utf-8", "surrogateescape").split("\n")
                    kept = "\n".join(x if "[V]" in x[:200] else mask(x) for x in found)
                    block = kept.encode("utf-8", "surrogateescape")
                written.write(block)
            return
        for line in itertools.islice(read_text(stream)[0], begin, end):
            if line != HARD_BREAK:
                written.write(f"{mask(line)}\n".encode())


def _derived(
    run: Run, draft: Draft, folder: Path, *, pictures: bool
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that other verbs read and that there is no original of to copy."""
    short = 0 < len(run.times) <= SERIES_ROWS and run.times.stamps
    if short and not (folder / "times.json").exists():  # its part of a file of several
        yield "times.json", times_json(run.times)
    if run.layers is not None and not (folder / "profile.json").exists():
        yield "profile.json", profile_json(run.layers)
    if pictures and run.layers:
        from trtbench.layers.join import join_layers
        from trtbench.report.renderers.png import png_bytes  # imports matplotlib
        from trtbench.report.sections.layers import layers_figure

        figure = layers_figure(join_layers(run.layers))
        yield from [("per_layer_time.png", png_bytes(figure))] if figure else []
    built: LogRun | None = draft.value("build_log") or draft.value("log")
    if built is None or not (built.trace or "build_log" in draft.parts):
        return
    if not (folder / "build.metadata.json").exists():
        yield "build.metadata.json", json_from_value(build_metadata_from_log(built))
    if built.trace is not None and built.trace.tactics_tried:
        yield "tactics.csv", csv_from_lines(TACTICS, tactics_from_trace(built.trace)).encode()


def reason_of(part: FilePart, draft: Draft, ready: Sequence[Draft]) -> str:
    """Return why a part does not belong to a run."""
    rivals = [d for d in ready if d.key == draft.key and d.folder == draft.folder]
    if part.slot == "help":
        return "the help text of trtexec"
    if part.slot in ("plan", "onnx"):
        return "a model; to measure it: trtbench bench FILE"
    if len(rivals) > 1 and part.slot != "build_log":
        return f"{len(rivals)} runs have this name; which of them it belongs to is unknown"
    if rivals and part.slot in rivals[0].parts:
        return f"the run of this name has another: {rivals[0].parts[part.slot].file.path.name}"
    if rivals and part.slot == "graph":
        return "layer information of another engine: its layers are not those of the profile"
    what = "layer information" if part.slot == "graph" else part.slot.replace("_", " ")
    return f"{what}: nothing was measured, and no run in its folder matches"


LOOKING = 0.4  # fraction of the work that is spent on reading files, the rest on making runs
NOT_KEPT = "(not kept)"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One imported run; its samples are on disk."""

    record: RunRecord | FailedRun
    files: tuple[Path, ...]
    parts: tuple[str, ...]
    samples: int = 0
    median_s: float | None = None
    median_of: str | None = None
    """The column of the median, or ``latency, reported`` when it was only printed."""
    path: Path | None = None
    known_as: str | None = None
    """The run that was imported from the same files before; nothing was imported now."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportResult(ShortView):
    """The imported runs, and the files that were not used."""

    runs: tuple[Imported, ...]
    unused: tuple[Unused, ...]
    warnings: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every file that was named became part of a run."""
        return not any(each.named for each in self.unused)


def import_artefacts(
    request: ImportRequest, *, store: Store | None, listen: Listener = silent
) -> ImportResult:
    """Import files, folders and globs as runs; a dry run stores nothing.

    Every file is part of a run, or listed as unused with a reason. The same files are not imported
    twice unless ``again`` is set; known runs only get further tags.
    """
    if store is None and not request.dry_run:
        raise UsageError("importing needs a store", fix="give a store, or use a dry run")
    with tempfile.TemporaryDirectory(prefix="trtbench-import-") as folder:
        return _import(request, store, listen, Unpacking(Path(folder)))


def _import(
    request: ImportRequest, store: Store | None, listen: Listener, unpacking: Unpacking
) -> ImportResult:
    stated = making.stated_from_request(request)
    known = identities_in(store) if store is not None and not request.again else {}
    target = None if request.dry_run else store
    drafts, unused = _drafts(request, listen, unpacking)
    ready = [draft for draft in drafts if draft.measured or draft.failed]
    taken = {id(part) for draft in ready for part in draft.parts.values()}
    # The log of a build may belong to several runs; where it belongs to none, it is a build.
    ready += [d for d in drafts if d.built and id(d.parts["build_log"]) not in taken]
    for flag, given in (("--engine", request.engine), ("-o", request.output)):
        if given is not None and len(ready) != 1:
            what = f"{flag} applies to one run, but {len(ready)} were found"
            raise UsageError(what, fix="name the files of one run, or leave the flag out")
    made: list[Imported] = []
    warnings: list[str] = []
    written: list[Path] = []
    with target.adding_many() if target is not None else nullcontext():
        for number, draft in enumerate(ready):
            done = LOOKING + (1 - LOOKING) * number / len(ready)
            first = next(iter(draft.parts.values()))
            text = f"importing {plain(first.file.path.name)}{_place(first)}"
            listen(Event(kind="stage", text=text, done=done))
            try:
                log, identity = making.log_of(draft), identity_of(draft)
                warnings += [f"{first.file.shown}: {x}" for x in stated.warnings(draft, log)]
                found, run = _make(draft, log, stated, target, known.get(identity))
                made.append(found)
                if run is not None and request.output is not None and not request.dry_run:
                    sources = {part.file.path.resolve() for part in draft.parts.values()}
                    written += write_toolkit_files(run, Path(request.output), leave=sources)
                if target is not None:
                    known.setdefault(identity, found.record.id)
            except (InputError, OSError) as problem:
                for file in (part.file for part in draft.parts.values()):
                    unused.append(broken_file(file.shown, file.kind, problem, named=file.named))
    # Every part that belongs to no run is listed, so that no file is dropped silently.
    used = {(p.file.path, p.index) for draft in ready for p in draft.parts.values()}
    used_files = {path for path, _ in used}
    for draft in drafts:
        for part in draft.parts.values() if draft not in ready else ():
            file = part.file
            if (file.path, part.index) not in used:
                shown, reason = f"{file.shown}{_place(part)}", reason_of(part, draft, ready)
                named = file.named and file.path not in used_files
                unused.append(Unused(path=shown, kind=file.kind, reason=reason, named=named))
    return ImportResult(
        runs=tuple(made),
        unused=tuple(sorted(unused, key=lambda each: each.path)),
        warnings=tuple(dict.fromkeys(warnings)),
        written=tuple(written),
    )


def _place(part: FilePart) -> str:
    return f" ({part.index + 1} of {part.of})" if part.of > 1 else ""


def _drafts(
    request: ImportRequest, listen: Listener, unpacking: Unpacking
) -> tuple[list[Draft], list[Unused]]:
    """Read every file and group the parts by run; a damaged file does not stop the import."""
    files, unused = finding.files_from_paths([str(path) for path in request.paths])
    rows = finding.times_reader()
    parts: list[FilePart] = []
    for number, (path, named) in enumerate(files):
        done = LOOKING * number / len(files)
        listen(Event(kind="stage", text=f"looking at {plain(path.name)}", done=done))
        kind = "unknown"
        try:
            file = finding.found_from_path(path, named=named)
            kind = file.kind
            if kind == "archive":
                found, left = _in_archive(file, unpacking, rows)
                parts += found
                unused += left
                continue
            found = finding.parts_from_file(file, rows)
        except (InputError, OSError) as problem:
            unused.append(broken_file(plain(path), kind, problem, named=named))
            continue
        parts += found
        if not found:
            reason = finding.KINDS.get(kind, finding.KINDS["unknown"])
            unused.append(Unused(path=plain(path), kind=kind, reason=reason, named=named))
    listen(Event(kind="stage", text="grouping files by run", done=LOOKING))
    return finding.drafts_from_parts(parts), unused


def _in_archive(
    archive: finding.FoundFile, unpacking: Unpacking, rows: finding.TimesReader
) -> tuple[list[FilePart], list[Unused]]:
    """Read the files of an archive; unknown ones are counted, other unused ones listed."""
    parts: list[FilePart] = []
    unused: list[Unused] = []
    known: dict[object, str] = {}
    others = 0
    try:
        for name, path, reason in unpacking.members(archive.path, archive.shown):
            place, kind = archive.path / name, "archive" if reason else "unknown"
            found = list[FilePart]()
            try:
                if path is not None:
                    file = finding.found_from_path(path, named=False, inside=place)
                    kind, found = file.kind, finding.parts_from_file(file, rows)
            except (InputError, OSError) as problem:
                unused.append(broken_file(plain(place), kind, problem, named=False))
                continue
            others += not found and not reason and kind in ("unknown", "empty")
            if not found and (reason or kind not in ("unknown", "empty")):
                reason = reason or finding.KINDS.get(kind, finding.KINDS["unknown"])
                unused.append(Unused(path=plain(place), kind=kind, reason=reason))
            for part in found:
                run = part.value
                if isinstance(run, LogRun) and run.first_stamp is not None and run.summary:
                    # Build servers archive the log of a job, and again the log of each step.
                    stamps = (run.first_stamp, run.last_stamp)
                    identity = (run.command, *stamps, repr(run.summary), run.average_lines)
                    first = known.setdefault(identity, name)
                    if first != name:
                        reason = f"the same run is in {first.rpartition('/')[2]}"
                        unused.append(Unused(path=plain(place), kind=kind, reason=reason))
                        continue
                parts.append(part)
    except (InputError, OSError) as problem:
        unused.append(broken_file(archive.shown, "archive", problem, named=archive.named))
    is_empty = not parts and not unused
    if others or is_empty:
        what = f"{counted(others, 'other file')} in it: {finding.KINDS['unknown']}"
        named = archive.named and is_empty
        unused.append(Unused(path=archive.shown, kind="archive", reason=what, named=named))
    return parts, unused


def _make(
    draft: Draft, log: LogRun, stated: making.Stated, store: Store | None, known: str | None
) -> tuple[Imported, Run | None]:
    """Make one run and store it, unless it was imported before."""
    run_id = NOT_KEPT
    if store is not None and known is None:
        while run_id == NOT_KEPT or store.directory(run_id).exists():
            run_id = new_id()  # many runs are imported within one second
    elif store is not None and known is not None and stated.request.tags:
        store.tag(known, add=tuple(stated.request.tags))
    if stated.request.tensorrt:
        log = log.having(version=stated.request.tensorrt)  # so that its defaults are known
    make = making.failure_from_draft if draft.failed else making.run_from_draft
    run: Run | FailedRun = make(draft, stated, run_id=run_id, log=log)
    if store is not None and known is None:
        run = _store(run, draft, store=store, pictures=stated.request.pictures)
    samples, median, of = 0, None, None
    if isinstance(run, Run):
        samples, of = len(run.times), run.times.headline
        column = run.times.durations().get(of)
        if column is not None and len(column):
            median = float(np.median(column))
        elif (head := summary_of(run).head) and not math.isnan(head.median):
            median, of = head.median, f"{head.column}, reported"
    found = Imported(
        record=run.record if isinstance(run, Run) else run,
        files=tuple(dict.fromkeys(part.file.place for part in draft.parts.values())),
        parts=tuple(draft.parts),
        path=store.directory(run_id) if run_id != NOT_KEPT and store is not None else None,
        known_as=known,
        samples=samples,
        median_s=median,
        median_of=of if median is not None else None,
    )
    return found, run if isinstance(run, Run) else None
