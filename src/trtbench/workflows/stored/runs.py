"""Look after stored runs: list them, and make the index anew."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Literal

from trtbench.errors import UsageError
from trtbench.store.directory import RECORD, read_record
from trtbench.store.entries import Entry
from trtbench.store.health import Checkup
from trtbench.store.store import Store
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.fields import converted
from trtbench.workflows.request.groups import FilterFields
from trtbench.workflows.request.keeping import ExportRunsRequest, RunsRequest

_AGO = re.compile(r"(\d+)d")


def entries_from_request(request: RunsRequest, *, store: Store) -> list[Entry]:
    """List the entries that are asked for, newest first."""
    kind: Literal["failed"] | None = "failed" if request.failed else None
    return list_runs(store, request, model=request.model, kind=kind, limit=request.limit)


def chosen_entries(request: ExportRunsRequest, *, store: Store) -> list[Entry]:
    """List the runs that are named, or else all that the filters let through."""
    if request.names:
        return [store.entry(name) for name in request.names]
    return entries_from_request(converted(request, RunsRequest), store=store)


def list_runs(
    store: Store,
    wanted: FilterFields,
    *,
    model: str | None = None,
    kind: Literal["run", "failed"] | None = None,
    limit: int | None = None,
) -> list[Entry]:
    """List entries, newest first; days are given as ``2026-11-15``, ``today`` or ``7d``."""
    last = day_from_text(wanted.until) + datetime.timedelta(days=1) if wanted.until else None
    return store.index.find(
        model=model,
        runtime=wanted.runtime,
        tag=wanted.tag,
        since=day_from_text(wanted.since).isoformat() if wanted.since else None,
        until=last.isoformat() if last else None,
        kind=kind,
        limit=limit or None,
    )


def day_from_text(text: str) -> datetime.date:
    """Read a day."""
    today = datetime.date.today()
    if text == "today":
        return today
    if text == "yesterday":
        return today - datetime.timedelta(days=1)
    try:
        if match := _AGO.fullmatch(text):
            return today - datetime.timedelta(days=int(match[1]))
        return datetime.date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a day", fix="write it like 2026-11-15, today or 7d"
        ) from None


def reindex_store(store: Store, folders: tuple[Path, ...] = ()) -> Checkup:
    """Index every run directory of the store, and of folders elsewhere."""
    for folder in folders:
        for run in _runs_below(folder):
            store.add(read_record(run), path=run.absolute())
    return store.reindex(cached_from_run)


def check_store(store: Store, *, mend: bool = True) -> Checkup:
    """Look whether the index and the directories fit together, and mend what does not."""
    return store.check(cached_from_run, mend=mend)


def _runs_below(folder: Path) -> list[Path]:
    if (folder / RECORD).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.rglob(RECORD) if path.parent.name[0] != ".")
    if not found:
        raise UsageError(
            f"there is no run directory in {folder}",
            fix="give a folder that holds run.json; trtbench import reads other files",
        )
    return found
