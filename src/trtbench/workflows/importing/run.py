"""Import what trtexec and the toolkits around it left behind, as ordinary runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trtbench.analysis.reported import reported_headline
from trtbench.boundary.archives import Unpacking
from trtbench.domain.result import FailedRun, Run, RunRecord
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import ModelRef
from trtbench.errors import InputError, UsageError
from trtbench.models.identity import model_ref
from trtbench.store.store import Store
from trtbench.trtexec.log import LogRun
from trtbench.workflows.importing.archives import parts_from_archive, unwanted
from trtbench.workflows.importing.find import (
    FoundFile,
    Unused,
    files_from_paths,
    found_from_path,
    plain,
)
from trtbench.workflows.importing.keep import (
    free_id,
    identities_in,
    identity_of,
    keep_failure,
    keep_run,
    write_toolkit_folder,
)
from trtbench.workflows.importing.look import FilePart, TimesShelf, parts_from_file
from trtbench.workflows.importing.make import failure_from_draft, run_from_draft, told_of
from trtbench.workflows.importing.match import Draft, drafts_from_parts
from trtbench.workflows.importing.metadata import gpu_from_log
from trtbench.workflows.importing.reasons import KINDS, broken_file, reason_of
from trtbench.workflows.importing.spec import recorded_batch
from trtbench.workflows.importing.user_facts import Stated, date_from_user, version_from_user
from trtbench.workflows.request.keeping import ImportRequest
from trtbench.workflows.request.kinds import seconds
from trtbench.workflows.request.progress import Event, Listener, silent

LOOKING = 0.4
"""Part of the work that looking into files is, as against making runs."""

MOST_DRAWN = 8
"""Runs whose layers are drawn without being asked for: a picture takes as long as fifty runs."""

NOT_KEPT = "(not kept)"
"""Stands for the id of a run that a dry run would make."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One run that came of the files; its samples are on disk."""

    record: RunRecord | FailedRun
    files: tuple[Path, ...]
    parts: tuple[str, ...]
    """What the files gave: ``log``, ``times``, ``profile``, ..."""
    samples: int = 0
    median_s: float | None = None
    median_of: str | None = None
    """The column of the median, or ``latency, reported`` when it was only printed."""
    path: Path | None = None
    from_summary: bool = False
    """Whether a log's performance summary is part of it."""
    known_as: str | None = None
    """The run that was made of the same files before; nothing was made this time."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportResult(ShortView):
    """What became of every file."""

    runs: tuple[Imported, ...]
    unused: tuple[Unused, ...]
    """Files that became no part of any run, each with the reason."""
    warnings: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    """Files of the trtexec evaluation toolkit, where they were asked for."""
    undrawn: int = 0
    """Runs whose layers could be drawn and were not, because there are so many."""
    summaries: int = 0
    """Performance summaries that the logs show, counted apart from what became of them."""
    summary_runs: int = 0
    """Runs that were made of one."""
    lost: tuple[str, ...] = ()
    """Summaries that became no run, each with the reason."""

    @property
    def complete(self) -> bool:
        """Whether every file that was named became part of a run."""
        return not any(each.named for each in self.unused)


@dataclass(kw_only=True)
class _Work:
    """What is under way."""

    store: Store | None
    stated: Stated
    again: bool
    pictures: bool | None
    """Whether layers are drawn; ``None`` until it is known how many runs there are."""
    undrawn: int = 0
    output: Path | None
    listen: Listener
    known: dict[str, str] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    ending: ExitStack
    """What is to be done when the import is over."""
    _unpacking: Unpacking | None = None

    def unpacking(self) -> Unpacking:
        """Make a folder for what archives hold, once one is there."""
        if self._unpacking is None:
            folder: AbstractContextManager[Path | str] = (
                self.store.scratch() if self.store is not None else TemporaryDirectory()
            )
            self._unpacking = Unpacking(Path(self.ending.enter_context(folder)), unwanted=unwanted)
        return self._unpacking


def import_artefacts(
    request: ImportRequest, *, store: Store | None, listen: Listener = silent
) -> ImportResult:
    """Make runs of files, folders and globs; a dry run makes them and keeps nothing.

    Every file is accounted for: as part of a run, or among the unused with its reason. The same
    files are not imported twice unless ``again`` says so; what is known is given further
    tags. ``output`` takes the files that the trtexec evaluation toolkit writes about a single run.
    """
    engine, dry_run = request.engine, request.dry_run
    output = Path(request.output) if request.output is not None else None
    if store is None and not dry_run:
        raise UsageError("importing needs a store", fix="give one, or make it a dry run")
    ref: ModelRef | None = model_ref(Path(engine)) if engine is not None else None
    with ExitStack() as ending:
        work = _Work(
            ending=ending,
            store=None if dry_run else store,
            stated=Stated(
                batch=request.batch,
                engine=ref,
                warmup_s=seconds(request.warmup) if request.warmup is not None else None,
                tags=tuple(request.tags),
                gpu=request.gpu,
                tensorrt=version_from_user(request.tensorrt),
                date=date_from_user(request.date),
                precision=request.precision,
            ),
            again=request.again,
            pictures=request.pictures,
            output=None if dry_run else output,
            listen=listen,
            known=identities_in(store) if store is not None and not request.again else {},
        )
        return _import_files(request, work, ref)


def _import_files(request: ImportRequest, work: _Work, ref: ModelRef | None) -> ImportResult:
    output = request.output is not None
    drafts = _drafts([str(path) for path in request.paths], work)
    ready = [draft for draft in drafts if draft.measured or draft.failed]
    taken = {id(part) for draft in ready for part in draft.parts.values()}
    # The log of a build may belong to several runs; where it belongs to none, it is a build.
    ready += [d for d in drafts if d.built and id(d.parts["build_log"]) not in taken]
    _check_single(len(ready), engine=ref is not None, output=output)
    if request.pictures is None:
        work.pictures = len(ready) <= MOST_DRAWN
    with work.store.adding_many() if work.store is not None else nullcontext():
        made = tuple(_made(ready, work))
    _account_for_rest(drafts, ready, work)
    seen, became, lost = _summaries(drafts, made)
    return ImportResult(
        runs=made,
        summaries=seen,
        summary_runs=became,
        lost=lost,
        unused=tuple(sorted(work.unused, key=lambda each: each.path)),
        warnings=tuple(dict.fromkeys(work.warnings)),
        written=tuple(work.written),
        undrawn=work.undrawn if request.pictures is None else 0,
    )


def _drafts(paths: list[str], work: _Work) -> list[Draft]:
    """Look into every file and group what belongs together; a damaged file stops nothing."""
    files, left = files_from_paths(paths)
    work.unused += left
    shelf = TimesShelf()
    parts: list[FilePart] = []
    for number, (path, named) in enumerate(files):
        done = LOOKING * number / len(files)
        work.listen(Event(kind="stage", text=f"looking at {plain(path.name)}", done=done))
        parts += _parts(path, work, shelf, named=named)
    work.listen(Event(kind="stage", text="finding what belongs together", done=LOOKING))
    return drafts_from_parts(parts, shelf)


def _parts(path: Path, work: _Work, shelf: TimesShelf, *, named: bool) -> list[FilePart]:
    """Look into one file, or into those of an archive; what has nothing to tell is listed."""
    kind = "unknown"
    try:
        found = found_from_path(path, named=named)
        kind = found.kind
        if kind == "archive":
            parts, unused = parts_from_archive(found, work.unpacking(), shelf)
            work.unused += unused
            return parts
        parts = parts_from_file(found, shelf)
    except (InputError, OSError) as problem:
        work.unused.append(broken_file(plain(path), kind, problem, named=named))
        return []
    if not parts:
        work.unused.append(_unrecognised(found))
    return parts


def _made(ready: list[Draft], work: _Work) -> Iterator[Imported]:
    for number, draft in enumerate(ready):
        done = LOOKING + (1 - LOOKING) * number / len(ready)
        name = next(iter(draft.parts.values())).what
        work.listen(Event(kind="stage", text=f"importing {name}", done=done))
        try:
            yield _make(draft, work)
        except (InputError, OSError) as problem:
            for part in draft.parts.values():
                file = part.file
                work.unused.append(broken_file(file.shown, file.kind, problem, named=file.named))


def _make(draft: Draft, work: _Work) -> Imported:
    """Make one run and keep it, unless it is known already."""
    identity = identity_of(draft)
    known = work.known.get(identity)
    told = told_of(draft)
    _warn(draft, told, work)
    keep = work.store is not None and known is None
    run_id = free_id(work.store) if work.store is not None and keep else NOT_KEPT
    if draft.failed:
        failed = failure_from_draft(draft, work.stated, run_id=run_id)
        path = keep_failure(failed, draft, store=work.store) if work.store and keep else None
        found = Imported(
            record=failed, files=_files(draft), parts=tuple(draft.parts), path=path, known_as=known
        )
    else:
        run = run_from_draft(draft, work.stated, run_id=run_id, told=told)
        if work.store is not None and keep:
            run = keep_run(run, draft, store=work.store, pictures=bool(work.pictures))
            work.undrawn += run.layers is not None and not work.pictures
        if work.output is not None:
            work.written += write_toolkit_folder(run, draft, work.output)
        found = _imported(run, draft, known)
    if keep:
        work.known[identity] = run_id
    elif work.store is not None and known is not None and work.stated.tags:
        work.store.tag(known, add=work.stated.tags)
    return found


def _imported(run: Run, draft: Draft, known: str | None) -> Imported:
    column = run.times.durations().get(run.times.headline)
    median: float | None = None
    of = None
    if column is not None and len(column):
        median, of = float(np.median(column)), run.times.headline
    elif (printed := reported_headline(run.record)) and printed.statistic == "median":
        median, of = printed.seconds, f"{printed.column}, reported"
    return Imported(
        record=run.record,
        files=_files(draft),
        parts=tuple(draft.parts),
        samples=len(run.times),
        median_s=median,
        median_of=of,
        path=run.path,
        from_summary="log" in draft.parts
        and draft.parts["log"].text is not None
        and draft.parts["log"].value.summary is not None,
        known_as=known,
    )


def _warn(draft: Draft, told: LogRun, work: _Work) -> None:
    """Say when what the user states is not what is on record; the user's word is used."""
    asked = work.stated.batch
    recorded = recorded_batch(draft)
    device = gpu_from_log(told)
    for words in work.stated.differing(gpu=device.name if device else None, version=told.version):
        work.warnings.append(f"{_first(draft).shown}: {words}")
    if asked is not None and recorded is not None and recorded != asked:
        work.warnings.append(
            f"{_first(draft).shown}: batch {recorded} is on record; --batch {asked} is used instead"
        )


def _check_single(count: int, *, engine: bool, output: bool) -> None:
    for flag, given in (("--engine", engine), ("-o", output)):
        if given and count != 1:
            raise UsageError(
                f"{flag} is about one run, and {count} were found",
                fix="name the files of one run, or leave the flag out",
            )


def _account_for_rest(drafts: list[Draft], ready: list[Draft], work: _Work) -> None:
    """List every part that no run took, so that nothing vanishes without a word."""
    used = {(p.file.path, p.index) for draft in ready for p in draft.parts.values()}
    used_files = {path for path, _ in used}
    for draft in drafts:
        for part in draft.parts.values() if draft not in ready else ():
            file = part.file
            if (file.path, part.index) in used:
                continue
            name = file.shown if part.of == 1 else f"{file.shown} ({part.index + 1} of {part.of})"
            reason = reason_of(part, draft, ready)
            named = file.named and file.path not in used_files
            work.unused.append(Unused(path=name, kind=file.kind, reason=reason, named=named))


def _summaries(drafts: list[Draft], made: tuple[Imported, ...]) -> tuple[int, int, tuple[str, ...]]:
    """Count the summaries the logs show, the runs made of them, and name every difference."""
    logs = [p for d in drafts for p in d.parts.values() if p.text is not None]
    texts = {part.file.path: part.text for part in logs if part.text is not None}
    seen = sum(text.summaries for text in texts.values())
    became = sum(each.from_summary for each in made)
    lost = [
        f"{plain(path.name)} line {line}: a heading without numbers"
        for path, text in texts.items()
        for line in text.empty_headings
    ]
    if seen - became > len(lost):
        lost.append(f"{seen - became - len(lost)} in files that are listed as not used")
    return seen, became, tuple(lost)


def _first(draft: Draft) -> FoundFile:
    return next(iter(draft.parts.values())).file


def _files(draft: Draft) -> tuple[Path, ...]:
    found = (part.file for part in draft.parts.values())
    return tuple(dict.fromkeys(Path(each.inside) if each.inside else each.path for each in found))


def _unrecognised(found: FoundFile) -> Unused:
    reason = KINDS.get(found.kind, KINDS["unknown"])
    return Unused(path=found.shown, kind=found.kind, reason=reason, named=found.named)
