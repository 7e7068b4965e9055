"""Import what trtexec and the toolkits around it left behind, as ordinary runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trtbench.analysis.summary import reported_headline
from trtbench.core.errors import InputError, UsageError
from trtbench.core.results import ShortView
from trtbench.core.run import FailedRun, RunRecord
from trtbench.core.units import text_from_seconds
from trtbench.importing.archives import Unpacking, parts_from_archive
from trtbench.importing.files import (
    KINDS,
    FilePart,
    TimesShelf,
    Unused,
    broken_file,
    files_from_paths,
    found_from_path,
    parts_from_file,
    plain,
)
from trtbench.importing.keep import (
    free_id,
    identities_in,
    identity_of,
    keep_failure,
    keep_run,
    write_toolkit_folder,
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
from trtbench.requests.execution import Event, Listener, silent
from trtbench.requests.fields import seconds
from trtbench.requests.stored import ImportRequest
from trtbench.store.store import Store

_REASONS = {
    "graph": "layer information; no times or profile of these layers beside it",
    "excerpt": "an excerpt of a log; nothing was measured in it",
    "help": "the help text of trtexec",
    "onnx": "a model; to measure it: trtbench bench FILE",
    "timing_cache": "a timing cache of the builder; nothing was measured",
    "device": "attributes of a device; nothing was measured",
    "build_metadata": "the options of a build; nothing was measured",
    "profile_metadata": "made of a log that is here itself",
    "output": "output tensors; nothing was timed",
    "output_diff": "differences of outputs; no times, profile or log beside it",
    "percentiles": "percentiles without the series they were made of",
    "run_config": "a configuration; no times, profile or log beside it",
    "engine_metadata": "facts of an engine; no times, profile or log beside it",
}


def reason_of(part: FilePart, draft: Draft, ready: Sequence[Draft]) -> str:
    """Say why a part was left over."""
    rivals = [d for d in ready if d.folder == draft.folder and d.key == draft.key]
    if len(rivals) > 1 and part.slot not in ("help", "build_log"):
        return f"nothing tells to which of the {len(rivals)} runs of this name it belongs"
    if rivals and part.slot in rivals[0].parts:
        return f"the run of this name has another: {rivals[0].parts[part.slot].file.path.name}"
    if rivals and part.slot == "graph":
        return "layer information of another engine: its layers are not those of the profile"
    if part.slot == "build_log":
        if part.value.timing_withheld:
            return "timing was not reported: the profiler was in the same pass"
        seconds = part.value.facts.build_s
        took = f" in {text_from_seconds(seconds, digits=3)}" if seconds is not None else ""
        return f"an engine was built{took}; nothing was measured"
    if part.slot == "calibration":
        return f"a calibration cache ({part.value}); nothing was measured"
    if part.slot == "plan":
        version = part.value.version or "unknown version"
        return f"an engine ({part.value.flavour} {version}); to measure it: trtbench bench FILE"
    return _REASONS.get(part.slot, "nothing beside it that it could belong to")


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
    samples: int = 0
    median_s: float | None = None
    median_of: str | None = None
    """The column of the median, or ``latency, reported`` when it was only printed."""
    path: Path | None = None
    from_summary: bool = False
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
    undrawn: int = 0
    """Runs whose layers could be drawn and were not, because there are so many."""
    summaries: int = 0
    """Performance summaries that the logs show, counted apart from what became of them."""
    summary_runs: int = 0
    lost: tuple[str, ...] = ()
    """Summaries that became no run, each with the reason."""

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
    pictures: bool = False
    undrawn: int = 0
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
        asked = self.request.pictures
        self.pictures = len(ready) <= MOST_DRAWN if asked is None else asked
        with self.store.adding_many() if self.store is not None else nullcontext():
            made = tuple(self._made(ready))
        self._list_unused(drafts, ready)
        texts = {
            part.file.path: part.text
            for draft in drafts
            for part in draft.parts.values()
            if part.text is not None
        }
        seen = sum(text.summaries for text in texts.values())
        became = sum(each.from_summary for each in made)
        lost = [
            f"{plain(path.name)} line {line}: a heading without numbers"
            for path, text in texts.items()
            for line in text.empty_headings
        ]
        if seen - became > len(lost):
            lost.append(f"{seen - became - len(lost)} in files that are listed as not used")
        return ImportResult(
            runs=made,
            summaries=seen,
            summary_runs=became,
            lost=tuple(lost),
            unused=tuple(sorted(self.unused, key=lambda each: each.path)),
            warnings=tuple(dict.fromkeys(self.warnings)),
            written=tuple(self.written),
            undrawn=self.undrawn if asked is None else 0,
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
        run_id = free_id(store) if store is not None and keep else NOT_KEPT
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
                run = keep_run(run, draft, store=store, pictures=self.pictures)
                self.undrawn += run.layers is not None and not self.pictures
            if self.request.output is not None and not self.request.dry_run:
                self.written += write_toolkit_folder(run, draft, Path(self.request.output))
            column = run.times.durations().get(run.times.headline)
            median: float | None = None
            of = None
            if column is not None and len(column):
                median, of = float(np.median(column)), run.times.headline
            elif (printed := reported_headline(run.record)) and printed.statistic == "median":
                median, of = printed.seconds, f"{printed.column}, reported"
            part = draft.parts.get("log")
            made = Imported(
                record=run.record,
                files=tuple(files),
                parts=parts,
                samples=len(run.times),
                median_s=median,
                median_of=of,
                path=run.path,
                from_summary=part is not None
                and part.text is not None
                and part.value.summary is not None,
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
