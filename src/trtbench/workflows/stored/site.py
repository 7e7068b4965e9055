"""Write a static web site over a whole store; what was written before and did not change stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtbench.core import safety as boundary
from trtbench.core.codec import json_from_value
from trtbench.core.errors import StoreError, TrtbenchError, UsageError, writing
from trtbench.core.results import ShortView
from trtbench.core.run import AnyRecord, Run
from trtbench.host.files import write_output
from trtbench.report.listings import is_reported
from trtbench.report.site.pages import (
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
from trtbench.requests.stored import HistoryRequest
from trtbench.store.directory import (
    RECORD,
    SCORES,
    now,
    read_record,
    read_run,
    unreadable_run,
)
from trtbench.store.store import Store
from trtbench.version import __version__
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
            raise StoreError("no run of the store can be read", fix="trtbench runs fsck")
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
