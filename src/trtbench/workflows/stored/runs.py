"""Look after stored runs: list them, and make the index anew."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Run
from trtbench.errors import UsageError
from trtbench.store.directory import RECORD, read_record
from trtbench.store.index import Cached, Entry
from trtbench.store.store import Store
from trtbench.workflows.measure.launches import cached_from_run
from trtbench.workflows.request.keeping import RunsRequest

_AGO = re.compile(r"(\d+)d")


def entries_from_request(request: RunsRequest, *, store: Store) -> list[Entry]:
    """List the entries that are asked for, newest first."""
    return list_runs(
        store,
        model=request.model,
        runtime=request.runtime,
        tag=request.tag,
        since=request.since,
        until=request.until,
        failed=request.failed,
        limit=request.limit,
    )


def list_runs(
    store: Store,
    *,
    model: str | None = None,
    runtime: str | None = None,
    tag: str | None = None,
    since: str | None = None,
    until: str | None = None,
    failed: bool = False,
    limit: int | None = None,
) -> list[Entry]:
    """List entries, newest first; days are given as ``2026-11-15``, ``today`` or ``7d``."""
    last = day_from_text(until) + datetime.timedelta(days=1) if until else None
    return store.index.find(
        model=model,
        runtime=runtime,
        tag=tag,
        since=day_from_text(since).isoformat() if since else None,
        until=last.isoformat() if last else None,
        kind="failed" if failed else None,
        limit=limit or None,
    )


def day_from_text(text: str) -> datetime.date:
    """Read a day."""
    today = datetime.date.today()
    if text == "today":
        return today
    if text == "yesterday":
        return today - datetime.timedelta(days=1)
    if match := _AGO.fullmatch(text):
        return today - datetime.timedelta(days=int(match[1]))
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a day", fix="write it like 2026-11-15, today or 7d"
        ) from None


def reindex_store(store: Store, folders: tuple[Path, ...] = ()) -> tuple[int, int, list[str]]:
    """Index every run directory of the store, and of folders elsewhere."""
    for folder in folders:
        for run in _runs_below(folder):
            store.add(read_record(run), path=run.absolute())
    return store.reindex(describe_run)


def describe_run(run: Run) -> Cached | None:
    """What the index keeps of a run; without samples, what another tool printed."""
    if len(run.times):
        return cached_from_run(run)
    summary = summary_from_run(run)
    if summary.head is None:
        return None
    return Cached(samples=0, median_s=summary.head.typical, items_per_s=summary.items_per_s)


def _runs_below(folder: Path) -> list[Path]:
    if (folder / RECORD).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.rglob(RECORD) if path.parent.name[0] != ".")
    if not found:
        raise UsageError(f"there is no run directory in {folder}")
    return found
