"""Find the runs that a sweep had under way when its process was killed."""

from __future__ import annotations

from pathlib import Path

from trtbench.analysis.history import instant
from trtbench.domain.result import FailedRun, Run
from trtbench.store.directory import RECORD, now, run_directories
from trtbench.store.store import Store
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.sweep.journal import Journal, JournalLine, SweepOutline


def adopt_runs(outline: SweepOutline, journal: Journal, store: Store) -> None:
    """Take over runs that were stored before their process could say so."""
    for line in journal.unfinished():
        assert line.run is not None
        known = store.index.find(id_prefix=line.run)
        path = store.directory(line.run)
        if not known and not (path / RECORD).is_file():
            continue
        if not known:
            _index(path, store)
        journal.add(_end(line, line.run, store))
    last = journal.interrupted()
    if last is not None:
        _adopt_by_tag(last, outline, journal, store)


def _adopt_by_tag(line: JournalLine, outline: SweepOutline, journal: Journal, store: Store) -> None:
    """Find the run of a journal that did not note ids, by the tag of the sweep and its time."""
    first = line.at[:19].replace("-", "").replace(":", "").replace("T", "-")
    known = {entry.id for entry in store.index.find()}
    for path in run_directories(store.runs):
        if path.name in known or path.name[:15] < first:
            continue
        run = store.load(str(path))
        if outline.tag in (run.record if isinstance(run, Run) else run).tags:
            _index(path, store)
    for entry in store.index.find(tag=outline.tag):
        if instant(entry.created) >= instant(line.at):  # else of a case whose end is noted
            journal.add(_end(line, entry.id, store))
            return


def _end(line: JournalLine, run_id: str, store: Store) -> JournalLine:
    loaded = store.load(run_id)
    if isinstance(loaded, FailedRun):
        return JournalLine(
            what="failed", case=line.case, round=line.round, at=now(), run=run_id,
            reason=loaded.reason,
        )  # fmt: skip
    return JournalLine(what="done", case=line.case, round=line.round, at=now(), run=run_id)


def _index(path: Path, store: Store) -> None:
    run = store.load(str(path))
    cached = cached_from_run(run) if isinstance(run, Run) else None
    store.add(run.record if isinstance(run, Run) else run, path=path, cached=cached)
