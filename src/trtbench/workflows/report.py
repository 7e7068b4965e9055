"""Writes reports on runs, and the site with a page for each run."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from urllib.parse import quote, unquote

from trtbench.analysis.findings import findings_over_batches
from trtbench.compare.compare import comparison_from_runs
from trtbench.compare.turns import pair_design
from trtbench.core import safety as boundary
from trtbench.core.errors import StoreError, TrtbenchError, UsageError, writing
from trtbench.core.results import Comparison, ShortView
from trtbench.core.run import FailedRun, Run
from trtbench.core.spec import Value
from trtbench.formats.toolkit import report
from trtbench.host.files import make_subfolder, write_output
from trtbench.models.identity import kept_value
from trtbench.report.compose import RENDERERS, document_from_runs, write_document
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers import html
from trtbench.store import directory
from trtbench.store.store import Store, results_folders, stored_scores
from trtbench.trtexec.conditions import log_from_metadata
from trtbench.version import __version__

SWEEP = "sweep.json"  # marks the folder of a sweep, whose runs are in a store
FORMATS = ("html", "md", "json")
PICTURES = ("*.png", "*.jpg", "*.jpeg", "*.webp")
KEPT_PICTURES = ("depth_comparison.png",)
EXTRA_FILES = {"output_comparison": "output_diff.json", "checks": "checks.json"}

BUILD_METADATA = "build.metadata.json"  # from the build log of an imported run


class _Outline(Value, frozen=True, kw_only=True):
    """The fields of ``sweep.json`` that are needed to find the runs of a sweep."""

    tag: str
    store: str


def load_runs(names: Sequence[str], *, store: Store) -> tuple[list[Run], list[FailedRun]]:
    """Read runs by id, tag or folder; the folder can be of a run, a store or a sweep.

    A damaged run among others becomes a failed run with the reason.
    """
    found: list[Run | FailedRun] = []
    for name in names:
        folder = Path(name)
        sweep = kept_value(folder / SWEEP, _Outline) if folder.is_dir() else None
        if sweep is not None:
            entries = store.index.find(tag=sweep.tag, kind="run")
            if not entries:
                message = f"the runs of the sweep in {folder} are in another store"
                facts = {"this store": store.address, "its store": sweep.store}
                raise UsageError(message, facts=facts, fix=f"--store {shlex.quote(sweep.store)}")
            inside = [store.path(entry) for entry in reversed(entries)]
        elif folder.is_dir():
            below = directory.run_directories(folder / "runs")
            inside = list(directory.run_directories(folder)) or list(below)
        else:
            inside = []
        for each in inside or [folder]:
            try:
                found.append(directory.read_run(each) if inside else store.load(name))
            except TrtbenchError as problem:
                if not inside and (len(names) == 1 or isinstance(problem, UsageError)):
                    raise
                found.append(directory.unreadable_run(each, problem.message))
    runs = {run.id: with_known_files(run, store=store) for run in found if isinstance(run, Run)}
    failed = {run.id: run for run in found if isinstance(run, FailedRun)}
    return list(runs.values()), list(failed.values())


def with_known_files(run: Run, *, store: Store | None = None) -> Run:
    """Return a run with its output differences, checks, pictures, scores and build record.

    Files in the folder of the run are preferred to those of other runs of the same model. One that
    cannot be read hides no run: it is left out, and the report says so.
    """
    extra: dict[str, object] = {}
    unread: list[str] = []
    own = [run.path] if run.path else []
    for folder in results_folders(run, store) if store else own:
        for key, name in EXTRA_FILES.items():
            if key in extra or not (folder / name).is_file():
                continue
            if (content := kept_value(folder / name, object)) is not None:
                extra[key] = content
            else:
                unread.append(name)
        below = folder / "pictures"
        found = [folder / name for name in KEPT_PICTURES]
        if not below.is_symlink():
            found += sorted(path for pattern in PICTURES for path in below.glob(pattern))
        # A symbolic link could expose any file of the user who writes the report.
        pictures = [path for path in found if path.is_file() and not path.is_symlink()]
        if pictures and "pictures" not in extra:
            extra["pictures"] = [
                str(path.relative_to(folder) if folder == run.path else path) for path in pictures
            ]
    if store and "scores" not in run.extra and (scores := stored_scores(run, store)):
        extra |= scores.as_extra()
    model = run.record.spec.model
    if model.format == "engine" and model.sha256:
        record = kept_value(Path(f"{model.path}.json"), dict)
        # A foreign record could name any JSON file, so the hash must match.
        if record and record.get("sha256") == model.sha256:
            extra["build"] = record
    if run.path and (logged := kept_value(run.path / BUILD_METADATA, dict)):
        extra["build_trace"] = log_from_metadata(logged, where=BUILD_METADATA).trace
    if unread:
        extra["unread"] = ", ".join(unread)
    return replace(run, extra={**extra, **run.extra}) if extra else run


def write_report(
    runs: Sequence[Run],
    folder: Path,
    *,
    failed: Sequence[FailedRun] = (),
    title: str | None = None,
    formats: Sequence[str] = FORMATS,
    comparisons: Sequence[Comparison] = (),
) -> list[Path]:
    """Write a report, with comparisons of interleaved runs, and return its files."""
    if not formats:
        raise UsageError("a report needs a format", fix=f"--format {','.join(FORMATS)}")
    for name in formats:
        RENDERERS.load(name)
    sided = [run for run in runs if run.record.duet is not None]
    given = list(comparisons)
    for first, second in permutations(sided, 2):
        duet = first.record.duet
        if duet and duet.side == 0 and pair_design(first, second) is not None:
            given.append(comparison_from_runs(first, second))
    flat = findings_over_batches(runs)  # findings that need runs of several batch sizes
    carriers = []
    for run in runs:
        mine = [each for each in given if each.candidate == run.id]
        record = run.record.having(findings=(*run.record.findings, *flat.get(run.id, ())))
        carriers.append(replace(run, record=record, extra={**run.extra, "comparisons": mine}))
    data = report(carriers[0]) if len(carriers) == 1 else {}
    if len(carriers) > 1:
        data = {"reports": [{"run": run.id, **report(run)} for run in carriers]}
    document = document_from_runs(carriers, failed=failed, title=title, data=data)
    return write_document(document, folder, formats=formats)


SITE_MARK = "made-by.txt"  # the version that wrote the pages; another version rewrites them
SITE_FIGURES = ("latency_series", "per_layer_time")
"""Charts on the page of a run; drawing all would take too long for many runs."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SiteMade(ShortView):
    index: Path
    runs: int
    written: int
    problems: tuple[str, ...]
    """Runs that could not be read; their pages show the reason."""


def write_site(
    store: Store,
    folder: Path,
    *,
    title: str = "Benchmarks",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SiteMade:
    """Write an index of all runs and a page for each run that changed."""
    entries = store.index.find()
    if not entries:
        raise UsageError("the store has no runs", fix="trtbench bench model.onnx")
    mark, pages, index = folder / SITE_MARK, folder / "runs", folder / "index.html"
    made_by = mark.read_text() if mark.is_file() else None
    if made_by is None and (index.exists() or pages.exists()):
        message = f"{folder} is not empty and not a trtbench site"
        raise UsageError(message, fix="choose a new folder with -o")
    rows: list[directory.Entry] = []
    links: dict[str, str] = {}
    problems: list[str] = []
    written = 0
    with writing(folder):
        make_subfolder(pages)
        if made_by is None:
            write_output(mark, "begun")
        for number, entry in enumerate(entries):
            progress(number, len(entries))
            source = store.path(entry)
            page = pages / f"{boundary.file_name_from_text(entry.id)}.html"
            files = (source / name for name in (directory.RECORD, directory.SCORES))
            parts = [file for file in files if file.is_file()]
            current = made_by == __version__ and parts and page.is_file()
            made = page.stat().st_mtime_ns if current else 0
            if not current or any(part.stat().st_mtime_ns >= made for part in parts):
                try:
                    run = directory.read_run(source)
                    written += 1
                except TrtbenchError as problem:
                    problems.append(f"{entry.id}: {problem.message}")
                    run = directory.unreadable_run(Path(page.stem), problem.message)
                    entry = entry.having(kind="failed")
                if isinstance(run, Run):
                    document = document_from_runs([with_known_files(run)])
                else:
                    document = document_from_runs([], failed=[run])
                write_output(page, html.page(document.with_figures(SITE_FIGURES)))
            rows.append(entry)
            links[entry.id] = f"runs/{quote(page.name)}"
        if len(problems) == len(rows):
            raise StoreError("no run of the store can be read", fix=store.repair)
        known = {unquote(Path(each).name) for each in links.values()}
        for path in pages.glob("*.html"):
            if path.name not in known:
                path.unlink()
        listed = document_from_entries(rows).having(title=title, created=directory.now())
        write_output(index, html.page(listed, links=links))
        write_output(mark, __version__)
    return SiteMade(index=index, runs=len(rows), written=written, problems=tuple(problems))
