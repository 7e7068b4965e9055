"""``trtbench runs``: what was measured so far."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, store_words
from trtbench.units import counted
from trtbench.workflows.request.keeping import RunsRequest

SHOWN = 50
"""Runs on a screen, where nobody says how many."""

if TYPE_CHECKING:
    from trtbench.store.health import Checkup
    from trtbench.store.store import Store


@click.group(
    "runs", short_help="List, show, tag, delete and reindex runs.", invoke_without_command=True
)
@flags(RunsRequest)
@json_option
@click.pass_context
def command(context: click.Context, /, request: RunsRequest, as_json: bool) -> None:
    """List runs, newest first; show, tag, rm, path, fsck and reindex act on them.

    A run is named by its id, the beginning of it, "last", "tag:NAME" or its folder.

    \b
    Examples:
      trtbench runs --model resnet --since 7d
      trtbench runs show last
      trtbench runs tag last release-1.2
      cd "$(trtbench runs path last)"
    """
    context.obj = request.store
    if context.invoked_subcommand is not None:
        return
    from trtbench.cli._screen import print_json, say
    from trtbench.cli._screen import show as show_document
    from trtbench.report.documents.runs import document_from_entries
    from trtbench.workflows.stored.runs import entries_from_request

    if request.limit is None:
        request = replace(request, limit=SHOWN)
    entries = entries_from_request(request, store=_store(context.obj))
    if as_json:
        print_json(entries)
        return
    if not entries:
        say("no runs; measure one with: trtbench bench model.onnx")
        return
    show_document(document_from_entries(entries))
    if request.limit == len(entries):
        say(f"the newest {len(entries)}; --limit 0 shows all")


def _keep_store(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    context.obj = context.obj if value is None else value


own_store_option = click.option("--store", expose_value=False, callback=_keep_store, **store_words)
"""Taken after the name of a sub-command as well as before it."""


@command.command("show")
@click.argument("name", default="last")
@json_option
@own_store_option
@click.pass_context
def show(context: click.Context, name: str, as_json: bool) -> None:
    """Show one run with its statistics and findings."""
    from trtbench.cli._screen import print_json, say, show_value
    from trtbench.cli._screen import show as show_document
    from trtbench.domain.result import Run
    from trtbench.report.documents.run import document_from_failure, document_from_run

    store = _store(context.obj)
    run = store.load(name)
    if not isinstance(run, Run):
        show_value(run, document_from_failure, as_json=as_json)
        return
    if as_json:
        from trtbench.cli._outputs import run_output

        print_json(run_output(run))
        return
    if run.load is not None:
        from trtbench.report.documents.load import document_from_load

        show_document(document_from_load(run.load, run))
    show_document(document_from_run(run))
    say(f"run {run.id} in {run.path}")


@command.command("tag")
@click.argument("name")
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Take the tags away instead.")
@own_store_option
@click.pass_context
def tag(context: click.Context, name: str, tags: tuple[str, ...], remove: bool) -> None:
    """Add tags to a run, and take others off."""
    from trtbench.cli._screen import say

    store = _store(context.obj)
    entry = store.tag(name, drop=tags) if remove else store.tag(name, add=tags)
    say(f"run {entry.id} has the tags: {', '.join(entry.tags) or 'none'}")


@command.command("rm")
@click.argument("names", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@own_store_option
@click.pass_context
def remove(context: click.Context, names: tuple[str, ...], yes: bool) -> None:
    """Delete runs: their own files, and their folders where nothing else is in them."""
    from trtbench.cli._screen import say

    store = _store(context.obj)
    entries = {entry.id: entry for entry in (store.entry(name) for name in names)}
    if not yes:
        what = ", ".join(f"{e.id} ({e.model}, in {e.path})" for e in entries.values())
        click.confirm(f"delete {what}?", abort=True, err=True)
    for run_id in entries:
        folder, left = store.remove(run_id)
        say(f"deleted {run_id} in {folder}")
        if left:
            say(f"left alone there: {', '.join(left[:5])}{' ...' if len(left) > 5 else ''}")


@command.command("path")
@click.argument("name", default="last")
@own_store_option
@click.pass_context
def path(context: click.Context, name: str) -> None:
    """Print the folder of a run."""
    click.echo(_store(context.obj).resolve(name))


@command.command("series")
@click.argument("name", default="last")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder.")
@own_store_option
@click.pass_context
def series(context: click.Context, name: str, output: Path) -> None:
    """Write times.json and the CSV files with a line for every sample.

    Runs of up to 100 000 samples have them in their folder already.
    """
    from trtbench.cli._screen import say
    from trtbench.domain.result import Run
    from trtbench.errors import UsageError, writing
    from trtbench.workflows.measure.run_files import write_run_files

    run = _store(context.obj).load(name)
    if not isinstance(run, Run):
        raise UsageError(
            "a run that failed has no samples", fix=f"trtbench runs show {name} says why it failed"
        )
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    write_run_files(run, output, series=True)
    say(f"written to {output}")


@command.command("reindex")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@own_store_option
@click.pass_context
def reindex(context: click.Context, folders: tuple[Path, ...]) -> None:
    """Make the index anew from the run directories; FOLDERS elsewhere are taken in too."""
    from trtbench.cli._screen import say
    from trtbench.workflows.stored.runs import reindex_store

    found = reindex_store(_store(context.obj, at_once=False), folders)
    runs, dropped = counted(found.runs, "run"), len(found.dropped)
    say(f"{runs} indexed, {dropped} entries without a directory dropped")
    for run_id, reason in found.damaged.items():
        say(f"cannot be read, and stays listed: {run_id}: {reason}")
    if found.damaged:
        context.exit(1)


@command.command("fsck")
@click.option("--dry-run", is_flag=True, help="Tell what is wrong, and change nothing.")
@json_option
@own_store_option
@click.pass_context
def fsck(context: click.Context, *, dry_run: bool, as_json: bool) -> None:
    """Look whether the index and the run directories fit together, and mend what does not.

    Runs that the index lacks are taken in, entries without a run are dropped, folders that were
    never finished and are a week old are removed. A run that cannot be read stays where it is and
    is listed with the reason. Exit status 1 when there are such runs.
    """
    from trtbench.cli._screen import print_json
    from trtbench.workflows.stored.runs import check_store

    found = check_store(_store(context.obj), mend=not dry_run)
    if as_json:
        print_json(found)
    else:
        _tell(found, dry_run=dry_run)
    if found.damaged:
        context.exit(1)


def _tell(found: Checkup, *, dry_run: bool) -> None:
    from trtbench.cli._screen import say

    parts = (
        ("taken into the index", "lacking in the index", found.adopted),
        ("dropped from the index, without a run", "entries without a run", found.dropped),
        ("removed, never finished", "never finished", found.unfinished),
    )
    for done, seen, names in parts:
        for name in names:
            say(f"{seen if dry_run else done}: {name}")
    for run_id, reason in found.damaged.items():
        say(f"cannot be read, left alone: {run_id}: {reason}")
    state = "and all of them fit" if found.is_sound else "see above"
    say(f"{counted(found.runs, 'run')} in the index, {state}")


def _store(folder: str | None, *, at_once: bool = True) -> Store:
    from trtbench.cli._settings import load_config, open_store

    return open_store(load_config(store=folder), at_once=at_once)
