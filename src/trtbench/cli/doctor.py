"""``trtbench doctor``: what works here, and what to type to get what does not."""

from __future__ import annotations

import click

from trtbench.cli._options import json_option
from trtbench.errors import EXIT_UNAVAILABLE


@click.command("doctor", short_help="What works here, and what to type to get the rest.")
@json_option
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

    from trtbench.cli._screen import show_value
    from trtbench.report.documents.diagnosis import document_from_diagnosis
    from trtbench.workflows.look.doctor import diagnose

    with Console(stderr=True).status("looking around"):
        diagnosis = diagnose()
    show_value(diagnosis, document_from_diagnosis, as_json=as_json)
    if not diagnosis.working_runtimes:
        context.exit(EXIT_UNAVAILABLE)
