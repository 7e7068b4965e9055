"""``trtbench export-runs``: stored runs for other people's tools."""

from __future__ import annotations

import click

from trtbench.cli._flags import flags
from trtbench.cli._options import json_option
from trtbench.errors import EXIT_FAILED
from trtbench.units import counted
from trtbench.workflows.request.keeping import ExportRunsRequest


@click.command("export-runs", short_help="Runs as Parquet files, or to MLflow.")
@flags(ExportRunsRequest)
@json_option
@click.pass_context
def command(context: click.Context, /, request: ExportRunsRequest, as_json: bool) -> None:
    """Export runs, all or those named, to Parquet files or to MLflow.

    What MLflow has already is not exported again.

    \b
    Examples:
      trtbench export-runs --to parquet -o runs-parquet --since 30d
      trtbench export-runs --to mlflow -o http://tracking:5000 --tag nightly
      trtbench export-runs --to mlflow -o sqlite:///mlflow.db last
    """
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.stored.export import export_runs
    from trtbench.workflows.stored.runs import chosen_entries

    store, _ = open_store_of(request)
    entries = chosen_entries(request, store=store)
    with Talk("export") as talk:
        done = export_runs(
            entries,
            store=store,
            to=request.to,
            output=str(request.output),
            experiment=request.experiment,
            listen=talk,
        )
    if as_json:
        from trtbench.cli._screen import print_json

        print_json(done)
    for problem in done.problems:
        say(f"not exported: {problem}")
    known = f", {done.skipped} were there already" if done.skipped else ""
    say(f"{counted(done.runs, 'run')} exported to {done.where}{known}")
    if done.problems:
        context.exit(EXIT_FAILED)
