"""Write a static web site over a whole store; what was written before and did not change stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtbench import boundary
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import AnyRecord, Run
from trtbench.domain.short_view import ShortView
from trtbench.errors import StoreError, TrtbenchError, UsageError, writing
from trtbench.host.files import write_output
from trtbench.report.documents.runs import is_reported
from trtbench.report.site.data import (
    BLOCKING,
    failed_data,
    row_from_record,
    run_data,
    series_data,
    shared_figures,
)
from trtbench.report.site.pages import (
    DATA,
    SiteFacts,
    assets,
    file_names,
    pages_from_networks,
    script_from_data,
)
from trtbench.store.directory import RECORD, SCORES, now, read_record, read_run, unreadable_run
from trtbench.store.entries import Entry
from trtbench.store.store import Store
from trtbench.version import __version__
from trtbench.workflows.request.keeping import HistoryRequest
from trtbench.workflows.stored.history import read_history

SiteRow = dict[str, Any]
"""What the pages know of one run."""
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
    """Runs whose files were new or had changed."""
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
    _refuse_foreign(folder)
    with writing(folder):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        if _made_by(folder) is None:
            write_output(folder / MARK, BEGUN)
        return _write(store, folder, entries, title, tell)


def _write(
    store: Store, folder: Path, entries: list[Entry], title: str, tell: Callable[[int, int], None]
) -> SiteMade:
    same = _made_by(folder) == __version__
    rows: list[SiteRow] = []
    problems: list[str] = []
    written = 0
    for number, entry in enumerate(entries):
        tell(number, len(entries))
        try:
            record: AnyRecord = read_record(store.path(entry))
            data = _changed_data(store.path(entry), record, folder, fresh=not same)
            written += data is not None
        except TrtbenchError as problem:
            problems.append(f"{entry.id}: {problem.message}")
            record = unreadable_run(Path(boundary.file_name_from_text(entry.id)), problem.message)
            data = failed_data(record)
        if data is not None:
            write_output(_page_of(record, folder), script_from_data("trtbenchRun", data))
        row = row_from_record(
            record,
            median_s=entry.median_s,
            items_per_s=entry.items_per_s,
            reported=is_reported(entry),
        )
        rows.append(row)
    if len(problems) == len(rows):
        raise StoreError("no run of the store can be read", fix="trtbench runs fsck")
    _remove_old(folder, {row["id"] for row in rows})
    pages = _write_pages(store, folder, rows, title)
    write_output(folder / MARK, __version__)
    return SiteMade(
        index=folder / "index.html",
        runs=len(rows),
        written=written,
        pages=pages,
        problems=tuple(problems),
    )


def _page_of(record: AnyRecord, folder: Path) -> Path:
    return folder / RUNS / f"{record.id}.js"


def _changed_data(
    source: Path, record: AnyRecord, folder: Path, *, fresh: bool
) -> dict[str, object] | None:
    """Read what the file of one run holds, unless it is there and newer than that."""
    target = _page_of(record, folder)
    if not fresh and target.is_file():
        made = target.stat().st_mtime_ns
        parts = (source / name for name in (RECORD, SCORES))
        if all(part.stat().st_mtime_ns < made for part in parts if part.is_file()):
            return None
    run = read_run(source)
    return run_data(run) if isinstance(run, Run) else failed_data(run)


def _write_pages(store: Store, folder: Path, rows: list[SiteRow], title: str) -> int:
    names = file_names(sorted({row["network"] for row in rows}))
    facts = SiteFacts(title=title, created=now(), runs=len(rows), version=__version__)
    data = {
        "title": title,
        "created": facts.created,
        "runs": rows,
        "pages": {name: file for file, name in names.items()},
        "series": _series(store, rows),
        "blocking": list(BLOCKING),
        "figures": shared_figures(),
    }
    pages = pages_from_networks(names, facts)
    (folder / "assets").mkdir(exist_ok=True)
    contents: dict[str, bytes] = {name: text.encode() for name, text in pages.items()}
    contents |= assets()
    contents[DATA] = script_from_data("trtbenchSite", data)
    contents["data/runs.json"] = json_from_value(rows)
    for name, content in contents.items():
        write_output(folder / name, content)
    for stale in folder.glob("model-*.html"):
        if stale.name not in pages:
            stale.unlink()
    return len(pages)


def _series(store: Store, rows: Iterable[SiteRow]) -> list[SiteRow]:
    networks = {row["id"]: row["network"] for row in rows}
    return [
        series_data(each, network=networks[each.points[0].run])
        for each in read_history(HistoryRequest(least=LEAST_SERIES), store=store).series
        if all(point.run in networks for point in each.points)
    ]


def _remove_old(folder: Path, known: set[str]) -> None:
    for path in (folder / RUNS).glob("*.js"):
        if path.stem not in known:
            path.unlink()


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder with pages or data of somebody else: files of these names are replaced."""
    own = (Path(name).parts[0] for name in ("index.html", "assets", MARK))
    if _made_by(folder) is None and any((folder / name).exists() for name in own):
        raise UsageError(
            f"{folder} holds something that is no site of trtbench", fix="give a new folder with -o"
        )


def _made_by(folder: Path) -> str | None:
    try:
        return (folder / MARK).read_text()
    except OSError:
        return None
