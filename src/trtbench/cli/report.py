"""``trtbench report``: one document from any number of runs."""

from __future__ import annotations

import click

from trtbench.cli._flags import flags
from trtbench.units import counted
from trtbench.workflows.request.keeping import ReportRequest


@click.command("report", short_help="Describe runs as one document: HTML, Markdown, TeX or data.")
@flags(ReportRequest)
def command(request: ReportRequest) -> None:
    """Describe one or more runs, or folders of runs, as one document.

    report.html opens anywhere, offline, and carries its data; report.md shows well on GitHub.

    \b
    Examples:
      trtbench report last
      trtbench report tag:release tag:candidate -o comparison
      trtbench report ./runs --format md,tex --title "Nightly"
      trtbench report last --brief -o comment
    """
    from trtbench.cli._screen import say
    from trtbench.cli._settings import open_store_of
    from trtbench.workflows.stored.report import report_from_request

    store, _ = open_store_of(request)
    runs, failed, paths = report_from_request(request, store=store)
    for path in paths:
        click.echo(path)
    bad = f", {len(failed)} failed" if failed else ""
    files = counted(len(paths), "file")
    say(f"{counted(len(runs), 'run')}{bad}, {files} in {request.output}")
