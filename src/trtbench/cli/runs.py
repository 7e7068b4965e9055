"""``trtbench runs``: what was measured so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option, store_words
from trtbench.workflows.request.keeping import RunsRequest

if TYPE_CHECKING:
    from trtbench.store.store import Store


@click.group(
    "runs", short_help="List, show, tag, delete and reindex runs.", invoke_without_command=True
)
@flags(RunsRequest)
@json_option
@click.pass_context
def command(context: click.Context, /, request: RunsRequest, as_json: bool) -> None:
    """List runs, newest first; show, tag, rm, path and reindex act on them.

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
    from trtbench.cli._screen import say
    from trtbench.cli._screen import show as show_document
    from trtbench.report.documents.runs import document_from_entries
    from trtbench.workflows.stored.runs import entries_from_request

    entries = entries_from_request(request, store=_store(context.obj))
    if as_json:
        _json(entries)
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
    from trtbench.analysis.summary import summary_from_run
    from trtbench.cli._screen import say
    from trtbench.cli._screen import show as show_document
    from trtbench.domain.result import Run
    from trtbench.report.documents.run import document_from_failure, document_from_run

    store = _store(context.obj)
    run = store.load(name)
    if not isinstance(run, Run):
        _json(run) if as_json else show_document(document_from_failure(run))
        return
    if as_json:
        _json({"run": run.record, "path": str(run.path), "summary": summary_from_run(run)})
        return
    show_document(document_from_run(run))
    say(f"run {run.id} in {run.path}")


@command.command("tag")
@click.argument("name")
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Take the tags away instead.")
@own_store_option
@click.pass_context
def tag(context: click.Context, name: str, tags: tuple[str, ...], remove: bool) -> None:
    """Give a run one or more tags."""
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
    """Delete runs, directories and all."""
    from trtbench.cli._screen import say

    store = _store(context.obj)
    entries = {entry.id: entry for entry in (store.entry(name) for name in names)}
    if not yes:
        what = ", ".join(f"{entry.id} ({entry.model})" for entry in entries.values())
        click.confirm(f"delete {what}?", abort=True, err=True)
    for run_id in entries:
        store.remove(run_id)
        say(f"deleted {run_id}")


@command.command("path")
@click.argument("name", default="last")
@own_store_option
@click.pass_context
def path(context: click.Context, name: str) -> None:
    """Print the folder of a run."""
    click.echo(_store(context.obj).resolve(name))


@command.command("reindex")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@own_store_option
@click.pass_context
def reindex(context: click.Context, folders: tuple[Path, ...]) -> None:
    """Make the index anew from the run directories; FOLDERS elsewhere are taken in too."""
    from trtbench.cli._screen import say
    from trtbench.workflows.stored.runs import reindex_store

    found, gone, problems = reindex_store(_store(context.obj), folders)
    say(f"{found} runs indexed, {gone} entries without a directory dropped")
    for problem in problems:
        say(f"not indexed: {problem}")
    if problems:
        context.exit(1)


def _store(folder: str | None) -> Store:
    from trtbench.cli._settings import load_config
    from trtbench.workflows.request.config import open_store

    return open_store(load_config(store=folder))


def _json(value: object) -> None:
    from trtbench.domain.codec import json_from_value

    click.echo(json_from_value(value).decode(), nl=False)
