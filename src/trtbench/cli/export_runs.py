"""``trtbench export-runs``: stored runs for other people's tools."""

from __future__ import annotations

from typing import Any

import click

from trtbench.cli._options import json_option, store_option
from trtbench.errors import EXIT_FAILED


@click.command("export-runs", short_help="Runs as Parquet files, or to MLflow.")
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option(
    "--to",
    type=click.Choice(["parquet", "mlflow"]),
    required=True,
    help="Parquet files, or an MLflow tracking server.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR|URI",
    help="A folder for Parquet files; a tracking URI for MLflow.",
)
@click.option("--experiment", default="trtbench", show_default=True, help="Of MLflow.")
@click.option("--model", metavar="TEXT", help="Only models whose name contains this.")
@click.option("-r", "--runtime", metavar="NAME", help="Only this runtime.")
@click.option("--tag", metavar="NAME", help="Only runs with this tag.")
@click.option("--since", metavar="DATE", help="Only from this day on: 2026-11-15, today, 7d.")
@click.option("--until", metavar="DATE", help="Only up to and including this day.")
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    names: tuple[str, ...],
    to: str,
    output: str,
    experiment: str,
    store: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Export runs, all or those named, to Parquet files or to MLflow.

    What MLflow has already is not exported again.

    \b
    Examples:
      trtbench export-runs --to parquet -o runs-parquet --since 30d
      trtbench export-runs --to mlflow -o http://tracking:5000 --tag nightly
      trtbench export-runs --to mlflow -o sqlite:///mlflow.db last
    """
    from trtbench.cli._screen import Talk, say
    from trtbench.cli._settings import load_config
    from trtbench.workflows.request.config import open_store
    from trtbench.workflows.stored.export import export_runs
    from trtbench.workflows.stored.runs import list_runs

    opened = open_store(load_config(store=store))
    entries = [opened.entry(name) for name in names] if names else list_runs(opened, **filters)
    with Talk("export") as talk:
        done = export_runs(
            entries, store=opened, to=to, output=output, experiment=experiment, listen=talk
        )
    if as_json:
        from trtbench.domain.codec import json_from_value

        click.echo(json_from_value(done).decode(), nl=False)
    for problem in done.problems:
        say(f"not exported: {problem}")
    known = f", {done.skipped} were there already" if done.skipped else ""
    say(f"{done.runs} runs exported to {done.where}{known}")
    if done.problems:
        context.exit(EXIT_FAILED)
