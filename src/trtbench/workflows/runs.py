"""Lists stored runs, rebuilds the index, reads histories, and finds baselines."""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec.structs import asdict

from trtbench.analysis import history
from trtbench.compare.compare import Asked, stored_run
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.plugins import optional_library
from trtbench.core.properties import PROPERTIES
from trtbench.core.results import ShortView
from trtbench.core.run import UNDATED, FailedRun, RunRecord, batch_that_ran, notebook_page
from trtbench.host.machine import read_environment
from trtbench.report.listings import document_from_entries
from trtbench.report.renderers.terminal import text
from trtbench.requests.execution import Execution
from trtbench.requests.fields import FilterFields
from trtbench.requests.measure import GateRequest
from trtbench.requests.settings import Config, cached_from_run
from trtbench.requests.stored import HistoryRequest
from trtbench.store.directory import RECORD, Entry, read_record
from trtbench.store.store import TAG, Checkup, Store


def list_runs(
    store: Store,
    wanted: FilterFields,
    *,
    kind: Literal["run", "failed"] | None = None,
    limit: int | None = None,
) -> list[Entry]:
    """Return the entries that match the filters, newest first."""
    last = day_from_text(wanted.until) + datetime.timedelta(days=1) if wanted.until else None
    return store.index.find(
        model=getattr(wanted, "model", None),
        runtime=wanted.runtime,
        tag=wanted.tag,
        since=day_from_text(wanted.since).isoformat() if wanted.since else None,
        until=last.isoformat() if last else None,
        kind=kind,
        limit=limit or None,
    )


def day_from_text(text: str) -> datetime.date:
    """Parse a day: ``2026-11-15``, ``today``, ``yesterday`` or ``7d``."""
    today = datetime.date.today()
    if text == "today":
        return today
    if text == "yesterday":
        return today - datetime.timedelta(days=1)
    try:
        if match := re.fullmatch(r"(\d+)d", text):
            return today - datetime.timedelta(days=int(match[1]))
        return datetime.date.fromisoformat(text)
    except (ValueError, OverflowError):
        message = f"{text!r} is not a day"
        raise UsageError(message, fix="write it like 2026-11-15, today or 7d") from None


def reindex_store(store: Store, folders: tuple[Path, ...] = ()) -> Checkup:
    """Rebuild the index of the store, and add the run directories in ``folders``."""
    for folder in folders:
        found = [folder]
        if not (folder / RECORD).is_file():
            below = folder.rglob(RECORD)
            found = sorted(path.parent for path in below if path.parent.name[0] != ".")
        if not found:
            fix = "give a folder with run.json; trtbench import reads other files"
            raise UsageError(f"there is no run directory in {folder}", fix=fix)
        for run in found:
            store.add(read_record(run), path=run.absolute())
    return store.reindex(cached_from_run)


MOST_SHOWN = 20


class Entries(list[Entry]):
    """A list of runs, newest first, that is displayed as a table."""

    def __repr__(self) -> str:
        if not self:
            return "no runs"
        shown = text(document_from_entries(self[:MOST_SHOWN]), width=80).rstrip()
        left = len(self) - MOST_SHOWN
        return f"{shown}\nand {left} more" if left > 0 else shown

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for table in document_from_entries(self[:MOST_SHOWN]).tables():
            rows.append([heading.title for heading in table.headings])
            rows += [[cell.shown for cell in row] for row in table.rows]
        return notebook_page(f"{len(self)} runs", rows)

    def to_pandas(self) -> object:
        """Return a DataFrame with a row per run, indexed by run id; times are in seconds."""
        pandas = optional_library("pandas")
        frame = pandas.DataFrame([asdict(each) for each in self], columns=Entry.__struct_fields__)
        frame["created"] = pandas.to_datetime(frame["created"], utc=True, format="ISO8601")
        return frame.set_index("id")


INTERLEAVED = "interleaved"
"""Setting of runs that were measured in a comparison; they form separate series."""


@dataclass(frozen=True, kw_only=True, repr=False)
class History(ShortView):
    """Series of runs, those with changes first, and numbers of excluded runs by reason."""

    series: tuple[history.Series, ...]
    left_out: dict[str, int]


def read_history(request: HistoryRequest, *, store: Store) -> History:
    left_out: dict[str, int] = {}
    groups = _group_by_series(list_runs(store, request, kind="run"), store, left_out)
    found = [history.series_from_points(key, points) for key, points in groups]
    long = [series for series in found if len(series.points) >= request.least]
    kept = [series for series in long if series.changes or not request.changes]
    kept.sort(key=lambda each: (not each.changes, each.key.name))
    return History(series=tuple(kept), left_out=left_out)


def baseline_run(
    request: GateRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> str:
    """Return the id of the baseline of a candidate: ``last``, ``best`` or ``tag:NAME``."""
    how, candidate = request.baseline or "", str(request.candidate)
    if how not in ("last", "best") and not how.startswith(TAG):
        raise UsageError(f"--baseline {how} is not valid", fix="--baseline last, best or tag:NAME")
    comparable = _comparable_series(request, store, config, execution or Execution())
    tag = how.removeprefix(TAG) if how.startswith(TAG) else None
    tagged = [p for each in comparable for p in each.points if tag in p.tags]
    if tagged:
        return max(tagged, key=lambda point: history.epoch_s(point.created)).run
    if not comparable or tag is not None:
        what = f"with the tag {tag!r} " if tag is not None else ""
        raise UsageError(
            f"there is no run {what}to compare {candidate} with",
            facts={
                "needed": "the same model name, runtime, shape, settings and machine",
                "comparable runs": sum(len(each.points) for each in comparable),
            },
            fix="trtbench history lists runs; choose one with --against",
        )
    return history.best_point(comparable[0]).run if how == "best" else comparable[0].points[-1].run


def _comparable_series(
    request: GateRequest, store: Store, config: Config, execution: Execution
) -> list[history.Series]:
    """Return the series that a candidate would continue, best match first."""
    candidate = str(request.candidate)
    stored = stored_run(candidate, store)
    if stored is not None:
        key = history.key_from_record(stored.record)
        groups = _group_by_series(store.index.find(model=key.model, kind="run"), store, {})
        before = history.epoch_s(stored.record.created)
        points = [p for mine, ps in groups if mine == key for p in ps if p.run != stored.id]
        points = [p for p in points if history.epoch_s(p.created) <= before]
        return [history.series_from_points(key, points)] if points else []
    asked = Asked(request=request, store=store, config=config, execution=execution)
    [(spec, _)] = asked.engines([asked.side_in_turn(candidate, (-1, 2))])
    batch = spec.batch or batch_that_ran(spec.shapes.values(), asked=None)
    here = read_environment(command=None, folder=Path.cwd(), label=config.machine).kind
    fields = {name for each in PROPERTIES if each.history for name in each.asked}
    entries = []
    for entry in store.index.find(model=spec.model.name, runtime=spec.runtime, kind="run"):
        record = _record(entry, store) if entry.model == spec.model.name else None
        if (
            record is not None
            and (None in (batch, entry.batch) or batch == entry.batch)
            and record.environment.kind == here
            and all(getattr(record.spec, name) == getattr(spec, name) for name in fields)
        ):
            entries.append(entry)
    groups = _group_by_series(entries, store, {})
    found = [history.series_from_points(key, points) for key, points in groups]
    found.sort(
        key=lambda x: (INTERLEAVED in x.key.settings, -history.epoch_s(x.points[-1].created))
    )
    return found


def _group_by_series(
    entries: Iterable[Entry], store: Store, left_out: dict[str, int]
) -> list[tuple[history.SeriesKey, list[history.Point]]]:
    groups: dict[str, tuple[history.SeriesKey, list[history.Point]]] = {}
    for entry in entries:
        record = _record(entry, store)
        undated = entry.dated_by in UNDATED
        if record is None or undated or not entry.median_s:
            why = "no date" if undated else "no median" if record is not None else "no record"
            left_out[why] = left_out.get(why, 0) + 1
            continue
        key = history.key_from_record(record)
        point = history.Point(
            run=entry.id,
            created=record.created,
            median_s=entry.median_s,
            items_per_s=entry.items_per_s,
            tags=entry.tags,
            facts=history.facts_from_record(record),
        )
        groups.setdefault(repr(key), (key, []))[1].append(point)
    return list(groups.values())


def _record(entry: Entry, store: Store) -> RunRecord | None:
    try:
        record = read_record(store.path(entry))
    except TrtbenchError:
        return None
    return None if isinstance(record, FailedRun) else record
