"""Processes that write to an index as fast as they can."""

import multiprocessing

import records

from trtbench.store.directory import entry_from_record
from trtbench.store.index import Index
from trtbench.store.store import Store

CLEAN = multiprocessing.get_context("forkserver")  # a fork of a process with threads may hang
CLEAN.set_forkserver_preload(
    ["trtbench.store.store", "trtbench.store.index", "sqlalchemy.dialects.sqlite"]
)


def put_many(url: str, name: str, count: int) -> None:
    mine = Index(url)
    for number in range(count):
        run_id = f"{name}-{number:04d}"
        made = records.record(run_id, tags=(name, "all"))
        mine.put_all([entry_from_record(made, path=f"runs/{run_id}")])


def tag_many(text: str, home: object, name: str, count: int) -> None:
    mine = Store(text, home=home)
    for number in range(count):
        mine.tag("shared", add=(f"{name}-{number}",))


def keep_many(place: str, home: object, name: str, count: int, runs: str | None = None) -> None:
    """Make whole runs, directories and all, as a machine of a team does."""
    mine = Store(place, home=home, runs=runs)
    for number in range(count):
        records.add(mine, records.record(f"{name}-{number:04d}", tags=(name, "all")))
