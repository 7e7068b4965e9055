"""``trtbench report``: one document from any number of runs."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._options import store_option


@click.command("report")
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("report"),
    show_default=True, help="Folder of the report.",
)  # fmt: skip
@click.option(
    "--format", "formats", default="md,json,csv,png", show_default=True,
    help="Formats, comma separated.",
)  # fmt: skip
@click.option("--title", help="Title of the document.")
@store_option
def command(
    names: tuple[str, ...], output: Path, formats: str, title: str | None, store: str | None
) -> None:
    """Describe one or more runs, or folders of runs, as one document.

    \b
    Examples:
      trtbench report last
      trtbench report tag:release tag:candidate -o comparison
      trtbench report ./runs --format md,png --title "Nightly"
    """
    from trtbench.cli._screen import say
    from trtbench.store.store import Store
    from trtbench.workflows.config import load_config
    from trtbench.workflows.report import load_runs, write_report

    opened = Store(Path(load_config(store=store).store))
    runs, failed = load_runs(names, store=opened)
    wanted = [word.strip() for word in formats.split(",") if word.strip()]
    paths = write_report(runs, output, failed=failed, title=title, formats=wanted)
    for path in paths:
        click.echo(path)
    say(f"{len(runs)} runs, {len(failed)} failed ones, {len(paths)} files in {output}")
