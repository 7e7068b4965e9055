"""Import what trtexec and the toolkits around it left behind, as ordinary runs.

A run directory holds the originals byte for byte, and beside them what is derived.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from trtbench.analysis.summary import reported_headline
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, UsageError, writing
from trtbench.core.results import ShortView
from trtbench.core.run import FailedRun, Run, RunRecord
from trtbench.core.safety import mask, read_bytes
from trtbench.formats.toolkit import SERIES_ROWS, data_files, write_toolkit_files
from trtbench.host.files import write_bytes
from trtbench.importing.files import (
    KINDS,
    FilePart,
    TimesShelf,
    Unpacking,
    Unused,
    broken_file,
    files_from_paths,
    found_from_path,
    parts_from_archive,
    parts_from_file,
    plain,
)
from trtbench.importing.make import (
    Stated,
    date_from_user,
    failure_from_draft,
    log_of,
    run_from_draft,
    version_from_user,
)
from trtbench.importing.match import Draft, drafts_from_parts
from trtbench.models.identity import model_ref
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.report.run_facts import remember_summary, summary_of
from trtbench.requests.execution import Event, Listener, silent
from trtbench.requests.fields import seconds
from trtbench.requests.settings import cached_from_run
from trtbench.requests.stored import ImportRequest
from trtbench.store.directory import new_id, write_record, write_samples
from trtbench.store.store import Store
from trtbench.trtexec.conditions import (
    TACTICS,
    build_metadata_from_log,
    profile_metadata_from_log,
    tactics_from_trace,
)
from trtbench.trtexec.exports import profile_json
from trtbench.trtexec.log_text import HARD_BREAK, encoding_of, read_text
from trtbench.trtexec.log_values import LogRun, LogText
from trtbench.trtexec.sniff import HEAD_BYTES
from trtbench.trtexec.times import times_json

ORIGIN = "import.json"
"""Where a run came from: its files with their hashes, by which it is known again."""

LOG = "trtexec_stdout.log"

_IDENTITY = ("times", "log", "failed_log", "profile", "torch")
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
}
_TEXTS = ("build_log", "build_metadata", "profile_metadata")


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
            (_copy_text if slot in _TEXTS else shutil.copyfile)(part.file.path, folder / name)
    for slot in ("log", "failed_log"):
        part = draft.parts.get(slot)
        if part is None:
            continue
        if part.file.kind != "log":  # metadata that stands for a log
            _copy_text(part.file.path, folder / "profile.metadata.json")
        else:
            _copy_text(part.file.path, folder / LOG, part)


def _copy_text(source: Path, target: Path, part: FilePart | None = None) -> None:
    """Copy what a program printed without its secrets; of several runs, the lines of one."""
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
            lines = (line for chunk in stream for line in chunk.splitlines(keepends=True))
            written.writelines(map(_without_secrets, itertools.islice(lines, begin, end)))
            return
        for line in itertools.islice(read_text(stream).lines, begin, end):
            if line != HARD_BREAK:
                written.write(f"{mask(line)}\n".encode())


def _without_secrets(line: bytes) -> bytes:
    if b"[V]" in line[:200]:
        return line
    return mask(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


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
        from trtbench.report.renderers.png import png_bytes  # imports matplotlib
        from trtbench.report.sections.layers import layers_figure

        yield "per_layer_time.png", png_bytes(layers_figure(run.layers))
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


def reason_of(part: FilePart, draft: Draft, ready: Sequence[Draft]) -> str:
    """Say why a part was left over."""
    rivals = [d for d in ready if d.folder == draft.folder and d.key == draft.key]
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
    return f"{what}: nothing was measured, and no run beside it fits"


LOOKING = 0.4
"""Part of the work that looking into files is, as against making runs."""

NOT_KEPT = "(not kept)"
"""Stands for the id of a run that a dry run would make."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One run that came of the files; its samples are on disk."""

    record: RunRecord | FailedRun
    files: tuple[Path, ...]
    parts: tuple[str, ...]
    samples: int = 0
    median_s: float | None = None
    median_of: str | None = None
    """The column of the median, or ``latency, reported`` when it was only printed."""
    path: Path | None = None
    known_as: str | None = None
    """The run that was made of the same files before; nothing was made this time."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportResult(ShortView):
    """What became of every file."""

    runs: tuple[Imported, ...]
    unused: tuple[Unused, ...]
    warnings: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    """Files of the trtexec evaluation toolkit, where they were asked for."""

    @property
    def complete(self) -> bool:
        """Whether every file that was named became part of a run."""
        return not any(each.named for each in self.unused)


@dataclass(kw_only=True)
class _Import:
    request: ImportRequest
    store: Store | None
    stated: Stated
    listen: Listener
    ending: ExitStack
    known: dict[str, str] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    unpacking: Unpacking | None = None

    def run(self) -> ImportResult:
        drafts = self._drafts()
        ready = [draft for draft in drafts if draft.measured or draft.failed]
        taken = {id(part) for draft in ready for part in draft.parts.values()}
        # The log of a build may belong to several runs; where it belongs to none, it is a build.
        ready += [d for d in drafts if d.built and id(d.parts["build_log"]) not in taken]
        for flag, given in (("--engine", self.request.engine), ("-o", self.request.output)):
            if given is not None and len(ready) != 1:
                raise UsageError(
                    f"{flag} is about one run, and {len(ready)} were found",
                    fix="name the files of one run, or leave the flag out",
                )
        with self.store.adding_many() if self.store is not None else nullcontext():
            made = tuple(self._made(ready))
        self._list_unused(drafts, ready)
        return ImportResult(
            runs=made,
            unused=tuple(sorted(self.unused, key=lambda each: each.path)),
            warnings=tuple(dict.fromkeys(self.warnings)),
            written=tuple(self.written),
        )

    def _drafts(self) -> list[Draft]:
        """Look into every file and group what belongs together; a damaged file stops nothing."""
        files, left = files_from_paths([str(path) for path in self.request.paths])
        self.unused += left
        shelf = TimesShelf()
        parts: list[FilePart] = []
        for number, (path, named) in enumerate(files):
            done = LOOKING * number / len(files)
            self.listen(Event(kind="stage", text=f"looking at {plain(path.name)}", done=done))
            parts += self._parts(path, shelf, named=named)
        self.listen(Event(kind="stage", text="finding what belongs together", done=LOOKING))
        return drafts_from_parts(parts, shelf)

    def _parts(self, path: Path, shelf: TimesShelf, *, named: bool) -> list[FilePart]:
        """Look into one file, or into those of an archive; what holds nothing is listed."""
        kind = "unknown"
        try:
            found = found_from_path(path, named=named)
            kind = found.kind
            if kind == "archive":
                if self.unpacking is None:
                    folder: AbstractContextManager[Path | str] = (
                        self.store.scratch() if self.store is not None else TemporaryDirectory()
                    )
                    place = Path(self.ending.enter_context(folder))
                    self.unpacking = Unpacking(place)
                parts, unused = parts_from_archive(found, self.unpacking, shelf)
                self.unused += unused
                return parts
            parts = parts_from_file(found, shelf)
        except (InputError, OSError) as problem:
            self.unused.append(broken_file(plain(path), kind, problem, named=named))
            return []
        if not parts:
            reason = KINDS.get(kind, KINDS["unknown"])
            self.unused.append(Unused(path=found.shown, kind=kind, reason=reason, named=named))
        return parts

    def _made(self, ready: list[Draft]) -> Iterator[Imported]:
        for number, draft in enumerate(ready):
            done = LOOKING + (1 - LOOKING) * number / len(ready)
            first = next(iter(draft.parts.values()))
            place = f" ({first.index + 1} of {first.of})" if first.of > 1 else ""
            text = f"importing {plain(first.file.path.name)}{place}"
            self.listen(Event(kind="stage", text=text, done=done))
            try:
                yield self._make(draft)
            except (InputError, OSError) as problem:
                files = [part.file for part in draft.parts.values()]
                self.unused += [
                    broken_file(file.shown, file.kind, problem, named=file.named) for file in files
                ]

    def _make(self, draft: Draft) -> Imported:
        """Make one run and keep it, unless it is known already."""
        identity = identity_of(draft)
        known, store = self.known.get(identity), self.store
        log = log_of(draft)
        shown = next(iter(draft.parts.values())).file.shown
        self.warnings += [f"{shown}: {words}" for words in self.stated.warnings(draft, log)]
        keep = store is not None and known is None
        run_id = new_id() if keep else NOT_KEPT
        while store is not None and keep and store.directory(run_id).exists():
            run_id = new_id()  # many runs are imported within one second
        found = (part.file for part in draft.parts.values())
        files = dict.fromkeys(Path(each.inside) if each.inside else each.path for each in found)
        parts, path = tuple(draft.parts), None
        if draft.failed:
            failed = failure_from_draft(draft, self.stated, run_id=run_id)
            if store is not None and keep:
                path = keep_failure(failed, draft, store=store)
            made = Imported(
                record=failed, files=tuple(files), parts=parts, path=path, known_as=known
            )
        else:
            run = run_from_draft(draft, self.stated, run_id=run_id, log=log)
            if store is not None and keep:
                run = keep_run(run, draft, store=store, pictures=self.request.pictures)
            if self.request.output is not None and not self.request.dry_run:
                sources = {part.file.path.resolve() for part in draft.parts.values()}
                output = Path(self.request.output)
                self.written += write_toolkit_files(run, output, leave=sources)
            column = run.times.durations().get(run.times.headline)
            median: float | None = None
            of = None
            if column is not None and len(column):
                median, of = float(np.median(column)), run.times.headline
            elif (printed := reported_headline(run.record)) and printed.statistic == "median":
                median, of = printed.seconds, f"{printed.column}, reported"
            made = Imported(
                record=run.record,
                files=tuple(files),
                parts=parts,
                samples=len(run.times),
                median_s=median,
                median_of=of,
                path=run.path,
                known_as=known,
            )
        if keep:
            self.known[identity] = run_id
        elif store is not None and known is not None and self.stated.tags:
            store.tag(known, add=self.stated.tags)
        return made

    def _list_unused(self, drafts: list[Draft], ready: list[Draft]) -> None:
        """List every part that no run took, so that nothing vanishes without a word."""
        used = {(p.file.path, p.index) for draft in ready for p in draft.parts.values()}
        used_files = {path for path, _ in used}
        for draft in drafts:
            for part in draft.parts.values() if draft not in ready else ():
                file = part.file
                if (file.path, part.index) in used:
                    continue
                place = f" ({part.index + 1} of {part.of})" if part.of > 1 else ""
                reason = reason_of(part, draft, ready)
                named = file.named and file.path not in used_files
                self.unused.append(
                    Unused(path=f"{file.shown}{place}", kind=file.kind, reason=reason, named=named)
                )


def import_artefacts(
    request: ImportRequest, *, store: Store | None, listen: Listener = silent
) -> ImportResult:
    """Make runs of files, folders and globs; a dry run makes them and keeps nothing.

    Every file is accounted for: as part of a run, or among the unused with its reason. The same
    files are not imported twice unless ``again`` says so; what is known is given further
    tags. ``output`` takes the files that the trtexec evaluation toolkit writes about a single run.
    """
    if store is None and not request.dry_run:
        raise UsageError("importing needs a store", fix="give one, or make it a dry run")
    stated = Stated(
        batch=request.batch,
        engine=model_ref(Path(request.engine)) if request.engine is not None else None,
        warmup_s=seconds(request.warmup) if request.warmup is not None else None,
        tags=tuple(request.tags),
        gpu=request.gpu,
        tensorrt=version_from_user(request.tensorrt),
        date=date_from_user(request.date),
        precision=request.precision,
    )
    known = identities_in(store) if store is not None and not request.again else {}
    with ExitStack() as ending:
        return _Import(
            request=request,
            store=None if request.dry_run else store,
            stated=stated,
            listen=listen,
            ending=ending,
            known=known,
        ).run()
