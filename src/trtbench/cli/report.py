"""``trtbench report``: one document from any number of runs."""

from __future__ import annotations

from pathlib import Path

import click

from trtbench.cli._options import store_option


@click.command("report", short_help="Describe runs as one document: HTML, Markdown, TeX or data.")
@click.argument("names", nargs=-1, required=True, metavar="RUN...|FOLDER")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("report"),
    show_default=True, help="Folder of the report.",
)  # fmt: skip
@click.option(
    "--format", "formats", metavar="FORMATS",
    help="Comma separated, of html, md, json, csv, png, tex and terminal.  "
    "[default: html,md,json; with --brief: md]",
)  # fmt: skip
@click.option("--brief", is_flag=True, help="A Markdown text short enough for a comment.")
@click.option("--title", help="Title of the document.")
@store_option
def command(
    names: tuple[str, ...],
    output: Path,
    formats: str | None,
    brief: bool,
    title: str | None,
    store: str | None,
) -> None:
    """Describe one or more runs, or folders of runs, as one document.

    \b
    report.html opens anywhere, offline, and carries its data; report.md shows well on GitHub.

    \b
    Examples:
      trtbench report last
      trtbench report tag:release tag:candidate -o comparison
      trtbench report ./runs --format md,tex --title "Nightly"
      trtbench report last --brief -o comment
    """
    from trtbench.cli._screen import say
    from trtbench.cli._settings import load_config
    from trtbench.workflows.request.config import open_store
    from trtbench.workflows.stored.report import FORMATS, load_runs, write_report

    opened = open_store(load_config(store=store))
    runs, failed = load_runs(names, store=opened)
    usual = "md" if brief else ",".join(FORMATS)
    asked = usual if formats is None else formats
    wanted = [word.strip() for word in asked.split(",") if word.strip()]
    paths = write_report(runs, output, failed=failed, title=title, formats=wanted, brief=brief)
    for path in paths:
        click.echo(path)
    count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    bad = f", {len(failed)} failed" if failed else ""
    say(f"{count}{bad}, {len(paths)} file{'' if len(paths) == 1 else 's'} in {output}")
