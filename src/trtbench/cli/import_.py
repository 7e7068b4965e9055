"""``trtbench import``: runs from what trtexec and other tools left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.errors import EXIT_FAILED
from trtbench.units import counted
from trtbench.workflows.request.keeping import ImportRequest

if TYPE_CHECKING:
    from trtbench.workflows.importing.run import ImportResult


@click.command("import", short_help="Make runs of what trtexec (TensorRT 5 to 11) left behind.")
@flags(ImportRequest)
@json_option
@click.pass_context
def command(context: click.Context, /, request: ImportRequest, as_json: bool) -> None:
    """Make runs of what trtexec (TensorRT 5 to 11) and other tools left behind.

    PATH is a file, a folder or a pattern: exported times, profiles, layer information, logs,
    metadata, and the result files of toolkits. What belongs together becomes one run.

    \b
    Examples:
      trtbench import times.json profile.json trtexec_stdout.log
      trtbench import results/ --tag nightly
      trtbench import 'results/*.times.json' --warmup 500ms --batch 8
      trtbench import old-run/ --dry-run
    """
    import gc

    # Millions of numbers and no cycles: looking for garbage takes a tenth of the time.
    gc.set_threshold(200_000, 20, 20)
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import load_config, open_store
    from trtbench.store.place import is_url
    from trtbench.workflows.importing.run import import_artefacts

    config = load_config(store=request.store)
    is_there = is_url(config.store) or Path(config.store).exists()
    store = open_store(config) if is_there or not request.dry_run else None
    with Talk("import") as talk:
        result = import_artefacts(request, store=store, listen=talk)
    for warning in result.warnings:
        say(f"warning: {warning}")
    _show(result, as_json=as_json)
    if result.written:
        say(f"{counted(len(result.written), 'file')} in {request.output}")
    if result.undrawn:
        say(f"layers of {counted(result.undrawn, 'run')} not drawn; --pictures draws them")
    for line in _summaries(result):
        say(line)
    say(_counts(result, dry_run=request.dry_run))
    if not result.complete or not result.runs:
        context.exit(EXIT_FAILED)


def _show(result: ImportResult, *, as_json: bool) -> None:
    from trtbench.cli._screen import print_json, show

    if as_json:
        from trtbench.cli._outputs import import_output

        print_json(import_output(result))
        return
    from trtbench.report.documents.importing import document_from_import

    show(document_from_import(result))


def _summaries(result: ImportResult) -> list[str]:
    """Say how many summaries were seen and became runs; a difference is named."""
    if not result.summaries:
        return []
    seen = counted(result.summaries, "summary", "summaries")
    runs = counted(result.summary_runs, "run")
    return [f"{seen} seen, {runs} made of them", *(f"  not a run: {each}" for each in result.lost)]


def _counts(result: ImportResult, *, dry_run: bool) -> str:
    known = sum(each.known_as is not None for each in result.runs)
    runs = counted(len(result.runs) - known, "run")
    said = f"{runs} {'would be ' if dry_run else ''}imported"
    if known:
        said += f", {known} known already (--again imports them once more)"
    return f"{said}, {counted(len(result.unused), 'file')} not used"
