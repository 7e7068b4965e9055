"""Look after stored runs: list them, and make the index anew.

Runs of a store as a list that shows itself: as a table, in a notebook too, or as a frame.
"""

from __future__ import annotations

import datetime
import html
import re
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from trtbench.core.errors import UsageError
from trtbench.core.plugins import optional_library
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers.terminal import text
from trtbench.requests.fields import converted
from trtbench.requests.groups import FilterFields
from trtbench.requests.settings import cached_from_run
from trtbench.requests.stored import ExportRunsRequest, RunsRequest
from trtbench.store.directory import RECORD, Entry, read_record
from trtbench.store.store import Checkup, Store

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
        found = [folder]
        if not (folder / RECORD).is_file():
            below = folder.rglob(RECORD)
            found = sorted(path.parent for path in below if path.parent.name[0] != ".")
        if not found:
            raise UsageError(
                f"there is no run directory in {folder}",
                fix="give a folder that holds run.json; trtbench import reads other files",
            )
        for run in found:
            store.add(read_record(run), path=run.absolute())
    return store.reindex(cached_from_run)


def check_store(store: Store, *, mend: bool = True) -> Checkup:
    """Look whether the index and the directories fit together, and mend what does not."""
    return store.check(cached_from_run, mend=mend)


WIDTH = 80
MOST_SHOWN = 20


class Entries(list[Entry]):
    """Entries of the index, newest first."""

    def __repr__(self) -> str:
        if not self:
            return "no runs"
        shown = text(document_from_entries(self[:MOST_SHOWN]), width=WIDTH).rstrip()
        return shown + self._more()

    def _repr_html_(self) -> str:
        rows = []
        for table in document_from_entries(self[:MOST_SHOWN]).tables():
            rows.append(("th", [heading.title for heading in table.headings]))
            rows += [("td", [cell.shown for cell in row]) for row in table.rows]
        body = "".join(
            f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
            for tag, cells in rows
        )
        return f"<table>{body}</table>{html.escape(self._more())}"

    def to_pandas(self) -> object:
        """Make a DataFrame with a row per run; its index is the run's id, times are in seconds."""
        pandas = optional_library("pandas")
        frame = pandas.DataFrame([asdict(each) for each in self], columns=Entry.__struct_fields__)
        frame["created"] = pandas.to_datetime(frame["created"], utc=True, format="ISO8601")
        return frame.set_index("id")

    def _more(self) -> str:
        left = len(self) - MOST_SHOWN
        return f"\nand {left} more" if left > 0 else ""
