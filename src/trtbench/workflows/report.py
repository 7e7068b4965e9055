"""One document from any number of runs, in any format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec

from trtbench.analysis.findings import findings_over_batches
from trtbench.compare.compare import comparison_from_runs
from trtbench.compare.turns import paired
from trtbench.core import safety as boundary
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, StoreError, TrtbenchError, UsageError, writing
from trtbench.core.plugins import optional_library
from trtbench.core.results import Comparison, ShortView
from trtbench.core.run import AnyRecord, FailedRun, Run
from trtbench.core.spec import Value
from trtbench.formats.toolkit import report_keys
from trtbench.host.files import write_output
from trtbench.models.identity import kept_value
from trtbench.report.compose import RENDERERS, document_from_runs, write_document
from trtbench.report.listings import is_reported
from trtbench.report.site import (
    BLOCKING,
    DATA,
    assets,
    failed_data,
    file_names,
    pages_from_networks,
    row_from_record,
    run_data,
    script_from_data,
    series_data,
    shared_figures,
)
from trtbench.requests.fields import words_from_text
from trtbench.requests.stored import HistoryRequest, ReportRequest
from trtbench.store.directory import (
    RECORD,
    SCORES,
    now,
    read_record,
    read_run,
    run_directories,
    unreadable_run,
)
from trtbench.store.store import Store, known_folders, known_scores
from trtbench.version import __version__
from trtbench.workflows.runs import read_history

SWEEP = "sweep.json"
"""In a folder: it is that of a sweep, whose runs are in a store."""
FORMATS = ("html", "md", "json")
PICTURES = ("*.png", "*.jpg", "*.jpeg", "*.webp")
KEPT_PICTURES = ("depth_comparison.png",)
BESIDE = {"output_comparison": "output_diff.json", "checks": "checks.json"}


BUILD_METADATA = "build.metadata.json"
"""What a log says of the build, beside an imported run."""


class _Outline(Value, frozen=True, kw_only=True):
    """What is needed of ``sweep.json`` to find the runs of a sweep."""

    tag: str
    store: str


def load_runs(names: Sequence[str], *, store: Store) -> tuple[list[Run], list[FailedRun]]:
    """Read runs by id, tag or folder; a folder of runs, a store or a sweep gives all its runs.

    A run that is damaged among others is a failed run with the reason.
    """
    found: list[Run | FailedRun] = []
    for name in names:
        folder = Path(name)
        inside = _folders(folder, store) if folder.is_dir() else []
        for each in inside or [folder]:
            try:
                found.append(read_run(each) if inside else store.load(name))
            except TrtbenchError as problem:
                alone = len(names) == 1 and not inside
                if alone or (isinstance(problem, UsageError) and not inside):
                    raise
                found.append(unreadable_run(each, problem.message))
    runs = {run.id: with_files(run, store=store) for run in found if isinstance(run, Run)}
    failed = {run.id: run for run in found if isinstance(run, FailedRun)}
    return list(runs.values()), list(failed.values())


def _folders(folder: Path, store: Store) -> list[Path]:
    sweep = kept_value(folder / SWEEP, _Outline)
    if sweep is None:
        return list(run_directories(folder)) or list(run_directories(folder / "runs"))
    found = store.index.find(tag=sweep.tag, kind="run")
    if not found:
        raise UsageError(
            f"the runs of the sweep in {folder} are not in this store",
            facts={"this store": store.address, "its store": sweep.store},
            fix=f"--store {sweep.store}",
        )
    return [store.path(entry) for entry in reversed(found)]


def with_files(run: Run, *, store: Store | None = None) -> Run:
    """Take in what is known of a run: output differences, checks, pictures, the engine's build.

    What lies beside the run comes before what the store knows of the same bytes.
    """
    extra: dict[str, object] = {}
    known = known_folders(run, store) if store else [run.path] if run.path else []
    for folder in known:
        for key, name in BESIDE.items():
            if key not in extra and (content := _json(folder / name)) is not None:
                extra[key] = content
        if "pictures" not in extra and (pictures := _pictures(folder)):
            extra["pictures"] = [
                each if folder == run.path else str(folder / each) for each in pictures
            ]
    if store and "scores" not in run.extra and (scores := known_scores(run, store)):
        extra |= scores.as_extra()
    if (build := _build(run)) is not None:
        extra["build"] = build
    if run.path is not None and (logged := _json(run.path / BUILD_METADATA)) is not None:
        extra["build_log"] = logged
    return replace(run, extra={**extra, **run.extra}) if extra else run


def report_from_request(
    request: ReportRequest, *, store: Store
) -> tuple[list[Run], list[FailedRun], list[Path]]:
    """Write the report that is asked for; returns the runs in it, and its files."""
    runs, failed = load_runs([str(name) for name in request.names], store=store)
    usual = ("md",) if request.brief else FORMATS
    asked = usual if request.format is None else words_from_text(request.format)
    if request.brief and set(asked) - {"md"}:
        raise UsageError("a brief report is a text in Markdown", fix="--brief --format md")
    if "png" in asked:  # pictures alone were asked for: without what draws them nothing is left
        optional_library("matplotlib")
    paths = write_report(
        runs,
        Path(request.output),
        failed=failed,
        title=request.title,
        formats=asked,
        brief=request.brief,
    )
    return runs, failed, paths


def write_report(
    runs: Sequence[Run],
    folder: Path,
    *,
    failed: Sequence[FailedRun] = (),
    title: str | None = None,
    formats: Sequence[str] = FORMATS,
    comparisons: Sequence[Comparison] = (),
    brief: bool = False,
) -> list[Path]:
    """Write a report; runs that were measured in turn are compared in it."""
    if not formats:
        raise UsageError("a report needs a format", fix=f"--format {','.join(FORMATS)}")
    for name in formats:
        RENDERERS.load(name)
    sided = [run for run in runs if run.record.duet is not None]
    given = list(comparisons)
    for first, second in permutations(sided, 2):
        duet = first.record.duet
        if duet and duet.side == 0 and paired(first, second) is not None:
            given.append(comparison_from_runs(first, second))
    flat = findings_over_batches(runs)  # what shows only beside runs of other batch sizes
    carriers = []
    for run in runs:
        mine = [each for each in given if each.candidate == run.id]
        findings = (*run.record.findings, *flat.get(run.id, ()))
        record = run.record.having(findings=findings)
        carriers.append(replace(run, record=record, extra={**run.extra, "comparisons": mine}))
    document = document_from_runs(carriers, failed=failed, title=title, data=report_keys(carriers))
    document = document.having(brief=brief)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return write_document(document, folder, formats=formats)


def _json(path: Path) -> object | None:
    if not path.is_file():
        return None
    try:
        content: object = msgspec.json.decode(boundary.read_bytes(path))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise InputError(
            f"{path} is not JSON", facts={"reason": problem}, fix="repair or remove the file"
        ) from None
    return content


def _pictures(folder: Path) -> list[str]:
    found = [folder / name for name in KEPT_PICTURES]
    found += sorted(path for pattern in PICTURES for path in (folder / "pictures").glob(pattern))
    # A link in the folder of a run could name any file of whoever makes the report.
    linked = (folder / "pictures").is_symlink()
    return [
        str(path.relative_to(folder))
        for path in found
        if path.is_file() and not path.is_symlink() and not (linked and path.parent != folder)
    ]


def _build(run: Run) -> object | None:
    """Read the record beside the engine, unless it speaks of other bytes than were measured."""
    model = run.record.spec.model
    if model.format != "engine":
        return None
    try:
        record = _json(Path(f"{model.path}.json"))
    except InputError:
        return None  # a record that nobody asked for must not stop a report
    # Any JSON file could be named by a record of somebody else's.
    digest = record.get("sha256") if isinstance(record, dict) else None
    return record if digest and digest == model.sha256 else None


SiteRow = dict[str, Any]
RUNS = "data/runs"
MARK = "data/made-by.txt"
"""Says which version wrote the files of runs; another version writes them anew."""
BEGUN = "begun"
LEAST_SERIES = 2


@dataclass(frozen=True, kw_only=True, repr=False)
class SiteMade(ShortView):
    """What was written."""

    index: Path
    runs: int
    written: int
    pages: int
    problems: tuple[str, ...]
    """Runs that could not be read; they are rows with the reason."""


def write_site(
    store: Store,
    folder: Path,
    *,
    title: str = "Benchmarks",
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> SiteMade:
    """Write pages and data for every run of a store."""
    entries = store.index.find()
    if not entries:
        raise UsageError("the store has no runs", fix="trtbench bench model.onnx")
    try:
        made_by = (folder / MARK).read_text()
    except OSError:
        made_by = None
    # Files of these names are replaced: they must not be somebody else's.
    own = (Path(name).parts[0] for name in ("index.html", "assets", MARK))
    if made_by is None and any((folder / name).exists() for name in own):
        raise UsageError(
            f"{folder} holds something that is no site of trtbench", fix="give a new folder with -o"
        )
    with writing(folder):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        if made_by is None:
            write_output(folder / MARK, BEGUN)
        rows: list[SiteRow] = []
        problems: list[str] = []
        written = 0
        for number, entry in enumerate(entries):
            tell(number, len(entries))
            try:
                record: AnyRecord = read_record(store.path(entry))
                fresh = made_by != __version__
                data = _changed_data(store.path(entry), record, folder, fresh=fresh)
                written += data is not None
            except TrtbenchError as problem:
                problems.append(f"{entry.id}: {problem.message}")
                name = boundary.file_name_from_text(entry.id)
                record = unreadable_run(Path(name), problem.message)
                data = failed_data(record)
            if data is not None:
                script = script_from_data("trtbenchRun", data)
                write_output(folder / RUNS / f"{record.id}.js", script)
            rows.append(
                row_from_record(
                    record,
                    median_s=entry.median_s,
                    items_per_s=entry.items_per_s,
                    reported=is_reported(entry),
                )
            )
        if len(problems) == len(rows):
            raise StoreError("no run of the store can be read", fix="trtbench runs reindex")
        known = {row["id"] for row in rows}
        for path in (folder / RUNS).glob("*.js"):
            if path.stem not in known:
                path.unlink()
        pages = _write_pages(store, folder, rows, title)
        write_output(folder / MARK, __version__)
    index = folder / "index.html"
    return SiteMade(
        index=index, runs=len(rows), written=written, pages=pages, problems=tuple(problems)
    )


def _changed_data(
    source: Path, record: AnyRecord, folder: Path, *, fresh: bool
) -> dict[str, object] | None:
    """Read what the file of one run holds, unless it is there and newer than that."""
    target = folder / RUNS / f"{record.id}.js"
    if not fresh and target.is_file():
        made = target.stat().st_mtime_ns
        parts = (source / name for name in (RECORD, SCORES))
        if all(part.stat().st_mtime_ns < made for part in parts if part.is_file()):
            return None
    run = read_run(source)
    return run_data(run) if isinstance(run, Run) else failed_data(run)


def _write_pages(store: Store, folder: Path, rows: list[SiteRow], title: str) -> int:
    created = now()
    networks = {row["id"]: row["network"] for row in rows}
    names = file_names(sorted(set(networks.values())))
    history = read_history(HistoryRequest(least=LEAST_SERIES), store=store)
    data = {
        "title": title,
        "created": created,
        "runs": rows,
        "pages": {name: file for file, name in names.items()},
        "series": [
            series_data(each, network=networks[each.points[0].run])
            for each in history.series
            if all(point.run in networks for point in each.points)
        ],
        "blocking": list(BLOCKING),
        "figures": shared_figures(),
    }
    pages = pages_from_networks(names, site=title, created=created, runs=len(rows))
    (folder / "assets").mkdir(exist_ok=True)
    contents = {
        **{name: text.encode() for name, text in pages.items()},
        **assets(),
        DATA: script_from_data("trtbenchSite", data),
        "data/runs.json": json_from_value(rows),
    }
    for name, content in contents.items():
        write_output(folder / name, content)
    for stale in folder.glob("model-*.html"):
        if stale.name not in pages:
            stale.unlink()
    return len(pages)
