"""``trtbench doctor``: what works here, and what to type to get what does not."""

from __future__ import annotations

import click

from trtbench.errors import EXIT_UNAVAILABLE


@click.command("doctor", short_help="What works here, and what to type to get the rest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Show what is installed, which runtimes work here, and what to type to get the rest.

    Exit status 4 when no runtime works here.

    \b
    Examples:
      trtbench doctor
      trtbench doctor --json
    """
    from rich.console import Console

    from trtbench.cli._screen import show
    from trtbench.domain.codec import json_from_value
    from trtbench.report.documents.diagnosis import document_from_diagnosis
    from trtbench.workflows.look.doctor import diagnose

    with Console(stderr=True).status("looking around"):
        diagnosis = diagnose()
    if as_json:
        click.echo(json_from_value(diagnosis).decode(), nl=False)
    else:
        show(document_from_diagnosis(diagnosis))
    if not diagnosis.working_runtimes:
        context.exit(EXIT_UNAVAILABLE)
