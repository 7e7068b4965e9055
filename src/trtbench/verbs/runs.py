"""List, show, tag, export and delete runs.

Runs are listed newest first; show, tag, rm, path, series, export and reindex act on them.
A run is named by its id, the start of its id, "last", "tag:NAME" or its folder.

Examples:
  trtbench runs --model resnet --since 7d
  trtbench runs show last
  trtbench runs tag last release-1.2
  cd "$(trtbench runs path last)"
  >>> trtbench.runs(model="resnet", since="7d")
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from trtbench.core.errors import EXIT_FAILED, UsageError
from trtbench.core.units import counted
from trtbench.requests.fields import FILE, Argument, File, Option, StoreFields, argument, option
from trtbench.requests.stored import ExportRunsRequest, RunsRequest
from trtbench.verbs._screen import draw, print_json, say, show_value, write
from trtbench.verbs._verb import AnyVerb, Caller, JsonView, Verb, View, python_function
from trtbench.verbs.bench import show_run

if TYPE_CHECKING:
    from trtbench.analysis.summary import Summary
    from trtbench.core.run import FailedRun, Run
    from trtbench.store.store import Checkup
    from trtbench.workflows.export import Exported
    from trtbench.workflows.runs import Entries

SHOWN = 50


def run(request: RunsRequest, caller: Caller) -> Entries:
    from trtbench.workflows.runs import Entries, list_runs

    store, _ = caller.store_and_settings(request)
    kind: Literal["failed"] | None = "failed" if request.failed else None
    limit = SHOWN if request.limit is None and caller.on_terminal else request.limit
    return Entries(list_runs(store, request, kind=kind, limit=limit))


def show(entries: Entries, request: RunsRequest, view: JsonView) -> None:
    from trtbench.report.listings import document_from_entries

    if view.as_json:
        print_json(list(entries))
        return
    if not entries:
        say("no runs; measure one with: trtbench bench model.onnx")
        return
    draw(document_from_entries(entries))
    if len(entries) == (SHOWN if request.limit is None else request.limit):
        say(f"the newest {len(entries)}; --limit 0 shows all")


class NameRequest(StoreFields, kw_only=False):
    """The name of one run."""

    name: str = argument("last", "A stored run.", "[NAME]", needed=False)


def run_show(request: NameRequest, caller: Caller) -> Run | FailedRun:
    return caller.store_and_settings(request)[0].load(request.name)


def show_one(run: Run | FailedRun, request: NameRequest, view: JsonView) -> None:
    from trtbench.core.run import Run
    from trtbench.report.sections.summary import document_from_failure

    if not isinstance(run, Run):
        show_value(run, document_from_failure, as_json=view.as_json)
        return
    show_run(run, as_json=view.as_json)
    if not view.as_json:
        for note in run.record.notes:
            say(f"note: {note}")
        say(f"run {run.id} in {run.path}")


class TagRequest(StoreFields, kw_only=False):
    """A run and its tags."""

    name: Annotated[str, Argument("A stored run.", "NAME")]
    tags: Annotated[Sequence[str], Argument("Names to find it by.", "TAGS...")]
    _: KW_ONLY
    remove: bool = option(False, "Remove the tags instead.")


def run_tag(request: TagRequest, caller: Caller) -> None:
    action = "drop" if request.remove else "add"
    store, _ = caller.store_and_settings(request)
    entry = store.tag(request.name, **{action: tuple(request.tags)})
    caller.say(f"run {entry.id} has the tags: {', '.join(entry.tags) or 'none'}")


class RemoveRequest(StoreFields, kw_only=False):
    """Runs to delete."""

    names: Annotated[Sequence[str], Argument("Stored runs.", "NAMES...")]
    _: KW_ONLY
    yes: bool = option(False, "Do not ask for confirmation.", ("-y", "--yes"))


def run_remove(request: RemoveRequest, caller: Caller) -> None:
    store, _ = caller.store_and_settings(request)
    entries = {entry.id: entry for entry in (store.entry(name) for name in request.names)}
    if not request.yes:
        import click

        what = ", ".join(f"{e.id} ({e.model}, in {e.path})" for e in entries.values())
        try:
            confirmed = click.confirm(f"delete {what}?", err=True)
        except click.Abort:
            if sys.stdin.isatty():
                raise
            raise UsageError("nobody answered: nothing was deleted", fix="--yes") from None
        if not confirmed:
            caller.say("nothing was deleted")
            return
    for run_id in entries:
        folder, left = store.remove(run_id)
        caller.say(f"deleted {run_id} in {folder}")
        if left:
            some = f"{', '.join(left[:5])}{' ...' if len(left) > 5 else ''}"
            caller.say(f"not deleted, not part of the run: {some}")


def run_path(request: NameRequest, caller: Caller) -> Path:
    return caller.store_and_settings(request)[0].resolve(request.name)


class SeriesRequest(NameRequest, kw_only=False):
    """One run, and the folder for its samples."""

    _: KW_ONLY
    output: Annotated[File, Option("Folder to write to.", ("-o", "--output"), kind=FILE)]


def run_series(request: SeriesRequest, caller: Caller) -> None:
    from trtbench.core.errors import writing
    from trtbench.core.run import Run
    from trtbench.host.files import make_folder
    from trtbench.measure.bench import write_run_files

    run, output = run_show(request, caller), Path(request.output)
    if not isinstance(run, Run):
        message = "a run that failed has no samples"
        raise UsageError(message, fix=f"trtbench runs show {request.name} says why it failed")
    with writing(output):
        make_folder(output)
    write_run_files(run, output, series=True)
    caller.say(f"wrote the files of the run to {output}")


class ReindexRequest(StoreFields, kw_only=False):
    """A store, and folders of runs elsewhere."""

    folders: Sequence[File] = argument(
        (), "Folders of runs.", "[FOLDERS]...", kind=FILE, needed=False
    )


def run_reindex(request: ReindexRequest, caller: Caller) -> Checkup:
    from trtbench.workflows.runs import reindex_store

    store = caller.store(caller.settings(request.store), at_once=False)
    return reindex_store(store, tuple(map(Path, request.folders)))


def show_reindex(found: Checkup, request: ReindexRequest, view: View) -> int | None:
    runs, dropped = counted(found.runs, "run"), counted(len(found.dropped), "entry", "entries")
    say(f"{runs} indexed, {dropped} without a directory dropped")
    for name in found.unfinished:
        say(f"removed unfinished run: {name}")
    for run_id, reason in found.damaged.items():
        say(f"kept in the list, cannot be read: {run_id}: {reason}")
    return EXIT_FAILED if found.damaged else None


def run_export(request: ExportRunsRequest, caller: Caller) -> Exported:
    from trtbench.workflows.export import export_runs
    from trtbench.workflows.runs import list_runs

    store, _ = caller.store_and_settings(request)
    entries = [store.entry(name) for name in request.names] or list_runs(store, request)
    with caller.progress("export") as listen:
        return export_runs(entries, store=store, folder=Path(request.output), listen=listen)


def show_export(done: Exported, request: ExportRunsRequest, view: JsonView) -> int | None:
    if view.as_json:
        print_json(done)
    for problem in done.problems:
        say(f"not exported: {problem}")
    say(f"{counted(done.runs, 'run')} exported to {done.where}")
    return EXIT_FAILED if done.problems else None


SUBCOMMANDS: dict[str, AnyVerb] = {
    "show": Verb(
        NameRequest, run_show, show_one, JsonView,
        doc="Show one run with its statistics and findings.",
    ),
    "tag": Verb(TagRequest, run_tag, None, View, doc="Add tags to a run, or remove some."),
    "rm": Verb(
        RemoveRequest, run_remove, None, View,
        doc="Delete runs: their files, and their folders if nothing else is in them.",
    ),
    "path": Verb(
        NameRequest, run_path, lambda path, *_: write(path), View,
        doc="Print the folder of a run.",
    ),
    "series": Verb(
        SeriesRequest, run_series, None, View,
        doc="""Write the files of the trtexec evaluation toolkit: times.json, summary.json, CSV.

        Measured runs of up to 100 000 samples already have them in their folder.
        """,
    ),
    "export": Verb(
        ExportRunsRequest, run_export, show_export, JsonView,
        doc="""Export runs, all or those named, to Parquet files.

        Examples:
          trtbench runs export -o runs-parquet --since 30d
          >>> trtbench.export_runs(output="runs-parquet", since="30d")
        """,
    ),
    "reindex": Verb(
        ReindexRequest, run_reindex, show_reindex, View,
        doc="""Rebuild the index from the run directories.

        Runs missing from the index are added, also those in FOLDERS elsewhere; entries without a
        run are dropped, and unfinished folders older than a week are removed. A run that cannot be
        read is kept and listed with the reason; the exit status is then 1.
        """,
    ),
}  # fmt: skip

verb = Verb(RunsRequest, run, show, JsonView, subcommands=SUBCOMMANDS)
runs = python_function(RunsRequest, run)
export_runs = python_function(ExportRunsRequest, run_export, doc=SUBCOMMANDS["export"].doc)


def load(name: File, *, store: File | None = None) -> Run | FailedRun:
    """Read a stored run by id, the start of an id, ``last``, ``tag:NAME`` or folder."""
    return run_show(NameRequest(str(name), store=store), Caller())


def summary(run: Run) -> Summary:
    """Compute every statistic of a run."""
    from trtbench.analysis.summary import summary_from_run

    return summary_from_run(run)
